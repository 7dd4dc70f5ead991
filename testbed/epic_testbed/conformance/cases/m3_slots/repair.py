"""Mode III: time, reordering, and loss that repeated contributions repair."""

from __future__ import annotations

import random

from epic_testbed.conformance.bench import SUM, Bench, Failure
from epic_testbed.conformance.case import case
from epic_testbed.conformance.cases.m3_slots.steps import parent_of, run_cell


@case("EPIC-M3-13", modes=(3,))
def nothing_of_its_own_accord(bench: Bench) -> None:
    """One cell is done, one complete without a result, one lacks a child; nobody acknowledges anything. For a
    long time (a minute; three seconds on a device in real time) nothing is sent.
    """
    bench.install(inner=True, window=4, slots=8)
    run_cell(bench, 0, (1, 2))
    bench.contribute_all(1, [(3,), (4,)])
    bench.expect_partial(1, (7,))
    bench.contribute(0, 2, (5,))
    for _ in range(3):
        bench.advance(20.0 if bench.traits.virtual_time else 1.0)
        bench.expect_silence(acknowledgements=True)
    bench.contribute(1, 2, (6,))
    bench.expect_partial(2, (11,))
    bench.expect_counter({"tx_resend": 0, "tx_replay": 0, "tx_retransmission": 0, "tx_ack": 0, "tx_nak": 0})


@case("EPIC-M3-13", "EPIC-M3-06", "EPIC-M3-07", modes=(3,))
def no_acknowledgements(bench: Bench) -> None:
    """Contributions and results with AckReq, gaps in the PSNs, and late packets: no ACK and no NAK is sent to
    anyone.
    """
    bench.install(inner=True, window=4, slots=8)
    for cell in (2, 0, 3, 1):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_partial(cell, (cell + 1,))
    for cell in (3, 1, 0, 2):
        bench.result_from_parent(cell, (cell + 1,))
        bench.expect_result(cell, (cell + 1,))
    bench.expect_silence(acknowledgements=True)


@case("EPIC-A-02", "EPIC-M3-05", "EPIC-M3-03", "EPIC-W-15", modes=(3,))
def contributions_in_any_order(bench: Bench) -> None:
    """Windows of 8 cells and three children: all contributions of a window come in a random order, a third of
    them twice; every cell has its own sum, as soon as its last contribution is here. Six windows.
    """
    children = min(3, bench.largest_fan_in(inner=True))
    bench.install(children, inner=True, window=min(8, bench.largest_window()), slots=16)
    window = bench.group.params.window
    rng = random.Random(bench.seed)
    for start in range(0, 6 * window, window):
        todo = [(cell, child) for cell in range(start, start + window) for child in range(children)]
        rng.shuffle(todo)
        given: dict[int, set[int]] = {}
        for cell, child in todo:
            here = given.setdefault(cell, set())
            if here and len(here) < children - 1 and rng.random() < 0.5:
                again = rng.choice(sorted(here))
                bench.contribute(again, cell, (cell * 100 + again, 1))
                bench.sync()
            bench.contribute(child, cell, (cell * 100 + child, 1))
            here.add(child)
            if len(here) == children:
                total = (children * cell * 100 + sum(range(children)), children)
                bench.expect_partial(cell, total)
                bench.result_from_parent(cell, total)
                bench.expect_result(cell, total)


@case("EPIC-A-05", "EPIC-M3-05", modes=(3,))
def lost_contribution(bench: Bench) -> None:
    """Each child's contribution is lost in turn, while the others repeat theirs; it is repeated, and the cell
    completes.
    """
    children = min(3, bench.largest_fan_in())
    bench.install(children)
    for lost in range(children):
        others = [c for c in range(children) if c != lost]
        for _ in range(3):
            for child in others:
                bench.contribute(child, lost, (1 << child,))
                bench.sync()
        bench.expect_silence()
        bench.contribute(lost, lost, (1 << lost,))
        bench.expect_result(lost, ((1 << children) - 1,))


@case("EPIC-A-05", "EPIC-M3-09", modes=(3,))
def lost_partial(bench: Bench) -> None:
    """The partial is lost, and twice more; every child repeats each time, as it has no result: one partial
    goes up each time, until the parent answers.
    """
    children = min(3, bench.largest_fan_in(inner=True))
    bench.install(children, inner=True)
    for cell in range(3):
        bench.contribute_all(cell, [(1 << c,) for c in range(children)])
        bench.expect_partial(cell, ((1 << children) - 1,))
        for _ in range(3):
            for child in reversed(range(children)):
                bench.contribute(child, cell, (1 << child,))
            bench.expect_partial(cell, ((1 << children) - 1,))
            bench.expect_silence()
        bench.result_from_parent(cell, (cell,))
        bench.expect_result(cell, (cell,))


@case("EPIC-A-05", "EPIC-M3-08", "EPIC-M3-14", modes=(3,))
def lost_results(bench: Bench) -> None:
    """The results of a whole window are lost on the way to every child; each repeats, newest cell first, and
    has all of them replayed, three times over.
    """
    bench.install(inner=True, window=4, slots=8)
    window = bench.group.params.window
    for cell in range(window):
        run_cell(bench, cell, (cell, 10))
    for _ in range(3):
        for cell in reversed(range(window)):
            for child in (1, 0):
                bench.contribute(child, cell, (0,))
                bench.expect_result(cell, (cell + 10,), children=[child])
    run_cell(bench, window, (1, 2))


@case("EPIC-A-05", "EPIC-M3-09", "EPIC-M3-11", modes=(3,))
def lost_result_of_theparent_of(bench: Bench) -> None:
    """The parent's result is lost. Child 0's repetition makes the partial go up again, which the parent
    answers with a replay; it is passed on to every child.
    """
    bench.install(inner=True)
    for cell in range(2 * bench.group.params.slots):
        bench.contribute_all(cell, [(cell,), (2,)])
        bench.expect_partial(cell, (cell + 2,))
        bench.contribute(1, cell, (2,))
        bench.expect_silence()
        bench.contribute(0, cell, (cell,))
        bench.expect_partial(cell, (cell + 2,))
        bench.result_from_parent(cell, (cell + 2,))
        bench.expect_result(cell, (cell + 2,))


class _Rank:
    """A rank that loses a third of what it receives and repeats until it has every result, within its window."""

    def __init__(self, bench: Bench, child: int, cells: int) -> None:
        self.bench, self.child, self.cells = bench, child, cells
        self.peer = bench.group.children[child]
        self.results: dict[int, bytes | None] = {}
        self.delivered = 0

    def repeat(self, rng: random.Random) -> None:
        """Send (again) some of what has no result yet."""
        for cell in range(self.delivered, min(self.cells, self.delivered + self.bench.group.params.window)):
            if cell not in self.results and rng.random() < 0.6:
                self.bench.contribute(self.child, cell, (cell + 1, 1 << self.child))

    def take(self, rng: random.Random) -> None:
        """Look at what has come, some of which is lost."""
        for got in self.peer.data:
            if rng.random() < 0.66:
                before = self.results.setdefault(got.cell, got.payload)
                if before != got.payload:
                    raise Failure(
                        f"{self.peer.name}: two results of cell {got.cell}", [str(before)], [str(got)]
                    )
        self.peer.data.clear()
        while self.delivered in self.results:
            self.delivered += 1


@case("EPIC-A-05", "EPIC-A-02", "EPIC-M3-01", "EPIC-M3-08", "EPIC-M3-09", "EPIC-M3-10", modes=(3,))
def everything_gets_lost_sometimes(bench: Bench) -> None:
    """Three ranks and a parent that lose a third of all frames, up and down, and do nothing but repeat
    contributions that have no result (the parent answers each partial that it receives). Within a bounded
    number of rounds every rank has every result of thirty cells, and all of them right.
    """
    children = min(3, bench.largest_fan_in(inner=True))
    bench.install(children, inner=True, window=4, slots=8)
    cells, rng = 30, random.Random(bench.seed)
    ranks = [_Rank(bench, child, cells) for child in range(children)]
    parent = parent_of(bench.group)
    for _ in range(1000):
        for rank in ranks:
            rank.repeat(rng)
        bench.collect()
        answers = [p for p in parent.data if rng.random() < 0.66]
        parent.data.clear()
        for partial in answers:
            expected = bench.group.encode((children * (partial.cell + 1), (1 << children) - 1), SUM)
            if partial.payload != expected:
                raise Failure(f"partial of cell {partial.cell}", [str(expected)], [str(partial.payload)])
            if rng.random() < 0.66:
                bench.result_from_parent(partial.cell, partial.payload)
        bench.collect()
        for rank in ranks:
            rank.take(rng)
        if all(rank.delivered == cells for rank in ranks):
            break
    else:
        raise Failure("no progress (P4)", [f"{cells} results"], [str([r.delivered for r in ranks])])
    for rank in ranks:
        for cell, payload in rank.results.items():
            if payload != bench.group.encode((children * (cell + 1), (1 << children) - 1), SUM):
                raise Failure(f"{rank.peer.name}: wrong result of cell {cell}", ["the sum"], [str(payload)])
