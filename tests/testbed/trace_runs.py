"""Recordings for the tests of trace validation: small groups on faulty networks in memory, and ways to falsify them."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from epic_models.reference import rc, rc_group
from epic_models.reference.agent import AgentBase
from epic_models.reference.faults import FaultRates
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.interfaces import Cell, CellDelivered, CellFailed, Event
from epic_models.reference.network import Network
from epic_models.reference.recorder import Recorder
from epic_models.reference.tree import Node, Tree, build_group
from epic_spec import psn
from epic_spec.packets import ERR_BIT, NULL_BIT, Descriptor, Packet
from epic_spec.tables import NO_RANK, Opcode, Operator, Primitive
from models.mutants import MUTANTS

Line = dict[str, Any]
SECONDS = 20.0

SINGLE = Tree("s", {"s": (0, 1, 2)})
TWO_LEVELS = Tree("s", {"s": ("a", 2), "a": (0, 1)})
THREE_LEVELS = Tree("s", {"s": ("a",), "a": (3, "b"), "b": (0, 1, 2)})
FAULTS = FaultRates(loss=0.1, duplicate=0.1, reorder=0.1, corrupt=0.02)

# Cells by name: primitive, operator, rank field, who gives a payload ("all", "source", "zeros", "none").
_CELLS = {
    "sum": (Primitive.ALLREDUCE, Operator.SUM, NO_RANK, "all"),
    "max": (Primitive.ALLREDUCE, Operator.MAX, NO_RANK, "all"),
    "reduce": (Primitive.REDUCE, Operator.SUM, 1, "all"),
    "broadcast": (Primitive.BROADCAST, Operator.SUM, 0, "source"),
    "broadcast end": (Primitive.BROADCAST, Operator.SUM, 0, "zeros"),
    "barrier": (Primitive.ALLREDUCE, Operator.NONE, NO_RANK, "none"),
}
PROGRAM = ("sum", "sum", "reduce", "broadcast", "broadcast end", "barrier", "max", "sum")


def _results(events: Sequence[Event]) -> int:
    return sum(isinstance(e, (CellDelivered, CellFailed)) for e in events)


@dataclass(frozen=True)
class Scenario:
    """A group, what its ranks contribute, and a faulty network. `odd`: rank 1 differs in a cell by name of the way."""

    mode: int
    tree: Tree = TWO_LEVELS
    window: int = 2
    program: tuple[str, ...] = PROGRAM
    elements: int = 16
    faults: FaultRates = FAULTS
    odd: dict[int, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    killed: int | None = None  # a rank that stops after a while
    wraps: bool = False  # whether PSNs begin a few packets before 2^24

    def plan(self) -> GroupPlan:
        """The group; PSN bases are the same in all runs of a scenario."""
        draw = random.Random.randrange

        def near_wrap(rng: random.Random, limit: int, *more: int) -> int:
            drawn = draw(rng, limit, *more)
            return psn.MODULUS - 1 - drawn % 5 if limit == psn.MODULUS and self.wraps else drawn

        with mock.patch.object(random.Random, "randrange", near_wrap):
            return build_group(self.tree, self.params(), seed=5)

    def params(self) -> GroupParams:
        values: dict[str, Any] = {
            "window": self.window, "slots": 2 * self.window, "payload_bytes": 64, "message_bytes": 128,
            "message_buffers": self.window, "rto_initial_us": 1000, "rto_min_us": 200, "rto_max_us": 5000,
            "retry_limit": 100, "deadline_us": 100_000_000,
        }  # fmt: skip
        world_size = len(self.tree.ranks_below(self.tree.root))
        return GroupParams(group=1, mode=self.mode, world_size=world_size, **(values | self.options))

    def cell(self, rank: int, number: int) -> Cell:
        """What a rank contributes."""
        primitive, operator, field_, giving = _CELLS[self.program[number]]
        elements, err = self.elements, False
        if rank == 1 and number in self.odd:
            match self.odd[number]:
                case "operator":
                    operator = Operator.MIN
                case "length":
                    elements -= 1
                case "half":
                    elements //= 2
                case "gives up":
                    err = True
        imm = Descriptor(primitive, operator, rank=field_, tag=number % 64).pack()
        if err:
            return Cell(imm | ERR_BIT | NULL_BIT, None)
        if giving == "all" or (giving in ("source", "zeros") and rank == field_):
            return Cell(imm, struct.pack(f">{elements}i", *range(rank, rank + elements)))
        if giving == "zeros":
            return Cell(imm, bytes(4 * elements))
        return Cell(imm | NULL_BIT, None)

    def record(self, seed: int, *, to_its_end: bool = True, counts: Counter[str] | None = None) -> list[str]:
        """The lines of a run, with the faults and delays of `seed`.

        A run of broken code need not come `to_its_end`: then the lines until it fails or time is up. What the network
        did to frames is added to `counts`.
        """
        params, lines = self.params(), list[str]()
        network = Network(
            [self.plan()], self.faults, seed=seed, record=Recorder(lines.append, itertools.count().__next__)
        )
        next_cell = [0] * params.world_size

        def done() -> bool:
            for rank in range(params.world_size):
                while next_cell[rank] < len(self.program) and network.agents[1, rank].room():
                    network.submit(1, rank, [self.cell(rank, next_cell[rank])])
                    next_cell[rank] += 1
            return all(_results(events) == len(self.program) for events in network.events.values())

        if self.killed is not None:
            network.run(2e-4, done)
            network.kill(self.killed)
        if to_its_end:
            assert network.run(SECONDS, done), "the run did not end"
        else:
            with contextlib.suppress(AssertionError):
                network.run(0.2, done)
        if counts is not None:
            counts.update(network.faults().to_dict())
        return lines


def slot_reuses(lines: Sequence[str], params: GroupParams) -> int:
    """How often every slot of every engine took a new cell, at the least."""
    slots = {1: params.message_buffers, 2: params.window, 3: params.slots}[params.mode]
    cells: dict[tuple[str, int], set[int]] = defaultdict(set)
    for line in map(json.loads, lines):
        for cell, _, _ in line.get("slots", ()):
            cells[line["node"], cell % slots].add(cell)
    return min(map(len, cells.values())) - 1


def write(path: Path, lines: Sequence[str] | Sequence[Line]) -> Path:
    """A recording as a file."""
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


# ---------------------------------------------------------------------------------------------- scripted networks


class Scripted(Network):
    """A group on a network without faults but those of a script, which also says how far each rank may contribute."""

    def __init__(self, scenario: Scenario, lines: list[str]) -> None:
        self.scenario = scenario
        self.lose: Callable[[Node, Packet], bool] = lambda node, packet: False
        self.sent: list[tuple[Node, int, Packet]] = []
        record = Recorder(lines.append, itertools.count().__next__)
        super().__init__([scenario.plan()], record=record)
        self.may = [0] * self.plans[1].params.world_size
        self._contributed = list(self.may)

    def send(self, node: Node, port: int, packet: Packet) -> None:
        """Put a packet on its link, unless the script loses it."""
        self.sent.append((node, port, packet))
        if not self.lose(node, packet):
            super().send(node, port, packet)

    def again(self, rank: int, number: int) -> None:
        """A copy of a rank's contribution comes late."""
        wanted = psn.add(self.plans[1].ranks[rank].edge.psn_tx, number)
        port, packet = next((p, x) for node, p, x in self.sent if (node, x.psn) == (rank, wanted))
        super().send(rank, port, packet)

    def go_on(self, seconds: float, *upto: int) -> None:
        """Let time pass. Rank r contributes whatever it has room for, up to `upto[r]` cells (one number: all)."""
        self.may = list(upto) if len(upto) > 1 else list(upto) * len(self.may)
        self.run(seconds, self._contribute)

    def delivered(self) -> list[int]:
        """Results of every rank so far."""
        return [_results(events) for events in self.events.values()]

    def _contribute(self) -> bool:
        for rank, upto in enumerate(self.may):
            while self._contributed[rank] < upto and self.agents[1, rank].room():
                self.submit(1, rank, [self.scenario.cell(rank, self._contributed[rank])])
                self._contributed[rank] += 1
        return False


AT_ONCE = 1e-4  # everything that is on its way arrives, and no timer expires
TIMERS = 4e-3  # timers expire


def copies_meet_reused_slots(net: Scripted) -> None:
    """Copies of rank 0's old contributions come when another rank has opened their slot for a newer cell."""
    slots = net.plans[1].params.slots
    for cell in range(slots, len(net.scenario.program), slots):
        net.go_on(TIMERS, cell)
        net.go_on(AT_ONCE, cell, cell + 1, cell + 1)
        net.again(0, cell - slots)
        net.go_on(AT_ONCE, cell, cell + 1, cell + 1)
    net.go_on(TIMERS, len(net.scenario.program))


def rank_overruns_its_window(net: Scripted) -> None:
    """Rank 0 contributes a cell whose slot is in use, and repeats it, before any other rank contributes."""
    agent, params = net.agents[1, 0], net.plans[1].params
    ahead = {2: params.window, 3: params.slots}[params.mode] + 1
    assert isinstance(agent, AgentBase)
    agent.room = lambda: ahead - agent.outstanding  # type: ignore[method-assign]
    net.go_on(TIMERS, ahead, 0, 0)
    net.go_on(5 * TIMERS, len(net.scenario.program))


def results_are_never_acknowledged(net: Scripted) -> None:
    """No ACK of rank 0 arrives. It goes on; the others keep the engine waiting until timers expire."""
    net.lose = lambda node, packet: node == 0 and packet.opcode is Opcode.ACK
    window = net.plans[1].params.window
    for cell in range(window, len(net.scenario.program), window):
        net.go_on(AT_ONCE, cell)
        net.go_on(TIMERS, cell + 1, cell, cell)
    net.go_on(TIMERS, len(net.scenario.program))


def partials_are_never_acknowledged(net: Scripted) -> None:
    """No ACK of the root arrives at the engine below it, and there is time for its timers to expire."""
    inner = net.plans[1].engines["s"].children[0].peer
    net.lose = lambda node, packet: node == "s" and packet.opcode is Opcode.ACK and packet.dst_ip == inner.ip
    window = net.plans[1].params.window
    for cell in range(window, len(net.scenario.program) + 1, window):
        net.go_on(TIMERS, cell)


# Broken code as it is planted, and narrower than in tests/models/mutants.py: that patch breaks three rules at once.
_ACKNOWLEDGE = rc.Requester.acknowledge_messages
_STORE = rc_group.RcGroup._store


def _not_implied(first_time: str) -> Any:
    """A requester that takes no message for an implicit ACK, if it sends what the counter `first_time` counts."""

    def acknowledge_messages(self: Any, count: int, now: float) -> None:
        if self._first_time != first_time:
            _ACKNOWLEDGE(self, count, now)

    return mock.patch.object(rc.Requester, "acknowledge_messages", acknowledge_messages)


def _evict(self: Any, child: int, cell: int, *rest: Any) -> None:
    index = cell % len(self._agg)
    if self._agg[index] is not None and self._agg[index].cell != cell:
        self._agg[index] = None
    _STORE(self, child, cell, *rest)


@contextlib.contextmanager
def _agg_is_released_early() -> Iterator[None]:
    """The planted fault, without the assertion that ends the run before the engine has said what it did."""
    with MUTANTS["early agg release (II)"][2](), mock.patch.object(rc_group.RcGroup, "_store", _evict):
        yield


@dataclass(frozen=True)
class Schedule:
    """A run that exercises one rule: `broken` is code without the rule, `refused` begins the line that shows it."""

    scenario: Scenario
    script: Callable[[Scripted], None]
    broken: tuple[Callable[[], contextlib.AbstractContextManager[Any]], ...]
    refused: str
    rogue: int | None = None

    def record(self, *, to_its_end: bool = True) -> list[str]:
        """The lines of the run; of broken code those until it fails."""
        lines: list[str] = []
        net = Scripted(self.scenario, lines)
        if to_its_end:
            self.script(net)
            assert net.delivered() == [len(self.scenario.program)] * len(net.may), "the run did not end"
        else:
            with contextlib.suppress(AssertionError):
                self.script(net)
        return [self._marked(line) for line in lines]

    def _marked(self, text: str) -> str:
        """The line; the install line of a rogue says that it is one."""
        line = json.loads(text)
        if line["call"] == "install" and line["node"] == f"r{self.rogue}":
            line["rogue"] = True
        return json.dumps(line)


# Rules that a run with random faults does not exercise, or that no run of correct ranks can.
SCHEDULES = {
    "no epoch tag": Schedule(
        Scenario(3, TWO_LEVELS, 2, PROGRAM * 2),
        copies_meet_reused_slots,
        (MUTANTS["no epoch tag"][2],),
        "act=receive node=a m=",
    ),
    "no window guard": Schedule(
        Scenario(3, TWO_LEVELS, 2, PROGRAM * 2),
        rank_overruns_its_window,
        (MUTANTS["no window guard"][2],),
        "act=receive node=a m=",
        rogue=0,
    ),
    "ACK before store (II)": Schedule(
        Scenario(2, SINGLE, 2),
        rank_overruns_its_window,
        (MUTANTS["ACK before store (II)"][2],),
        "act=receive node=s dir=up edge=r0 m=",
        rogue=0,
    ),
    "early agg release (II)": Schedule(
        Scenario(2, SINGLE, 2),
        rank_overruns_its_window,
        (_agg_is_released_early,),
        "act=receive node=s dir=up edge=r0 m=",
        rogue=0,
    ),
    "no implicit ACK of results (II)": Schedule(
        Scenario(2, SINGLE, 2),
        results_are_never_acknowledged,
        (lambda: _not_implied("tx_result"), MUTANTS["no implicit ACK of results (II)"][2]),
        "act=timeout node=s dir=down edge=r0",
    ),
    "no implicit ACK of partials (II)": Schedule(
        Scenario(2, TWO_LEVELS, 2),
        partials_are_never_acknowledged,
        (lambda: _not_implied("tx_partial"), MUTANTS["no implicit ACK of partials (II)"][2]),
        "act=timeout node=a dir=up edge=a",
    ),
}


# ------------------------------------------------------------------------------------------------ falsifications


def loaded(lines: Sequence[str]) -> list[Line]:
    return [json.loads(line) for line in lines]


def _first(lines: Sequence[Line], wanted: Any, after: int = 0) -> int:
    return next(i for i, line in enumerate(lines) if i >= after and wanted(line))


def counts(line: Line) -> bool:
    """Whether an engine counted a contribution in this line."""
    return line["call"] == "receive" and bool(line.get("slots"))


def delivers(line: Line) -> bool:
    """Whether a rank delivered in this line."""
    return any(e["event"] == "CellDelivered" for e in line.get("events", ()))


def bitmap_changed(lines: list[Line]) -> list[Line]:
    """An engine says that it has another child's contribution."""
    i = _first(lines, lambda x: counts(x) and x["slots"][0][1] in (1, 2))
    lines[i]["slots"][0][1] ^= 3
    return lines


def psn_changed(lines: list[Line]) -> list[Line]:
    """An engine receives a contribution with a PSN that nobody has used yet."""
    i = _first(lines, counts)
    lines[i]["packet"]["psn"] = (lines[i]["packet"]["psn"] + 5) % (1 << 24)
    return lines


def send_missing(lines: list[Line]) -> list[Line]:
    """A result is not sent to one of the children."""
    i = _first(lines, lambda x: x["call"] == "receive" and "slots" in x and len(x.get("sends", ())) >= 2)
    lines[i]["sends"].pop()
    return lines


def result_failed(lines: list[Line]) -> list[Line]:
    """A rank says that a cell failed whose result was good."""
    event = lines[_first(lines, delivers)]["events"][0]
    event["event"] = "CellFailed"
    return lines


def delivered_early(lines: list[Line]) -> list[Line]:
    """A rank says that it has delivered one cell more than it has."""
    lines[_first(lines, delivers)]["delivered"] += 1
    return lines


def contribution_dropped(lines: list[Line]) -> list[Line]:
    """The line in which an engine counted a contribution is missing."""
    del lines[_first(lines, counts)]
    return lines


def delivery_dropped(lines: list[Line]) -> list[Line]:
    """The line in which a rank delivered is missing."""
    del lines[_first(lines, delivers)]
    return lines


def submit_after_receive(lines: list[Line]) -> list[Line]:
    """An engine counts a contribution before the rank has given it: the two lines are swapped."""
    i = _first(lines, lambda x: x["call"] == "submit")
    edge, psn = lines[i]["sends"][0]["edge"], lines[i]["sends"][0]["psn"]
    j = _first(lines, lambda x: x["call"] == "receive" and x["edge"] == edge and x["packet"]["psn"] == psn, i)
    return _swapped(lines, i, j)


def delivery_before_sending(lines: list[Line]) -> list[Line]:
    """A rank delivers a result before its engine has sent it: the two lines are swapped."""
    j = _first(lines, delivers)
    edge, psn = lines[j]["edge"], lines[j]["packet"]["psn"]
    i = _first(lines, lambda x: any((p["edge"], p["psn"]) == (edge, psn) for p in x.get("sends", ())))
    return _swapped(lines, i, j)


def _swapped(lines: list[Line], i: int, j: int) -> list[Line]:
    lines[i]["t"], lines[j]["t"] = lines[j]["t"], lines[i]["t"]
    lines[i], lines[j] = lines[j], lines[i]
    return lines


CHANGED = (bitmap_changed, psn_changed, send_missing, result_failed, delivered_early)
DROPPED = (contribution_dropped, delivery_dropped)
SWAPPED = (submit_after_receive, delivery_before_sending)
FALSIFICATIONS = CHANGED + DROPPED + SWAPPED
