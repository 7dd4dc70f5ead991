"""Several groups, the same group again, hostile traffic, and what the control plane sees."""

from __future__ import annotations

import random
from dataclasses import replace

from epic_spec import codec, psn
from epic_spec.tables import COUNTERS, Opcode
from epic_testbed.conformance.bench import SUM, Bench, Failure, Group
from epic_testbed.conformance.case import case

GROUPS = (("groups", 3),)


def _several(bench: Bench, **params: object) -> list[Group]:
    """Three groups on the same ports, the second below a parent where there is a port for it."""
    inner = bench.traits.ports >= 3
    return [bench.install(2, number=n, inner=inner and n == 2, **params) for n in (1, 2, 3)]  # type: ignore[arg-type]


def _complete(bench: Bench, number: int, cell: int, values: list[tuple[int, ...]]) -> None:
    """What follows the last contribution to a cell of a group."""
    group = bench.use(number)
    total = tuple(sum(column) for column in zip(*values, strict=True))
    if group.parent is not None:
        bench.expect_partial(cell, total)
        bench.result_from_parent(cell, total)
    bench.expect_result(cell, total)


@case("EPIC-E-02", "EPIC-A-02", needs=GROUPS)
def groups_side_by_side(bench: Bench) -> None:
    """Three groups with the same cell numbers: child 0 contributes in all of them before child 1 does in any,
    in another order; each group's cell has its own value.
    """
    groups = _several(bench)
    for cell in range(6):
        values: dict[int, list[tuple[int, ...]]]
        values = {n: [(1000 * n + cell, n), (7 * n, -cell)] for n in (1, 2, 3)}
        for n, group in enumerate(groups, start=1):
            group.contribute(0, cell, values[n][0], SUM)
        bench.expect_silence()
        for n in (3, 1, 2):
            groups[n - 1].contribute(1, cell, values[n][1], SUM)
            _complete(bench, n, cell, values[n])


@case("EPIC-E-02", "EPIC-A-02", needs=GROUPS)
def groups_at_random(bench: Bench) -> None:
    """Three groups go on at random, each within its window, one of them far ahead of the others."""
    groups = _several(bench)
    rng = random.Random(bench.seed)
    done = {1: 0, 2: 0, 3: 0}
    given: dict[int, list[int]] = {n: [] for n in done}
    while min(done.values()) < 8:
        n = rng.choice((1, 1, 1, 2, 3))
        cell = done[n]
        child = rng.choice([c for c in (0, 1) if c not in given[n]])
        groups[n - 1].contribute(child, cell, (cell + child, n), SUM)
        given[n].append(child)
        if len(given[n]) == 2:
            _complete(bench, n, cell, [(cell, n), (cell + 1, n)])
            given[n] = []
            done[n] += 1


@case("EPIC-E-02", needs=(("groups", 2),))
def poison_and_stall_stay_in_their_group(bench: Bench) -> None:
    """Group 1 has a poisoned cell and one that never completes; removed, it takes nothing with it: group 2
    goes on all the while, for several windows.
    """
    bench.install(2, number=1)
    bench.install(2, number=2)
    first, second = bench.groups[1], bench.groups[2]
    first.contribute(0, 0, (1,), SUM)
    first.contribute(1, 0, (1,), replace(SUM, tag=9))
    bench.use(1)
    for child in range(2):
        bench.next_cell(first.children[child], 0, "an ERR result")
    first.contribute(0, 1, (1,), SUM)
    for cell in range(4 * second.params.window):
        if cell == 2 * second.params.window:
            bench.remove(1)
        for child in range(2):
            second.contribute(child, cell, (cell, child), SUM)
        _complete(bench, 2, cell, [(cell, 0), (cell, 1)])
    bench.expect_counter({"cells_poisoned": 1})


@case("EPIC-E-04")
def reinstalled_group_starts_anew(bench: Bench) -> None:
    """A group is removed with a cell half complete, and one complete; the same group with the same QPNs and
    PSN bases is installed again. What the children had contributed counts no more: cell 0 needs both again
    and has the new values. So it is a third time.
    """
    for life in range(3):
        bench.install(2, pkey=0x9000)
        bench.contribute(1, 0, (10 + life,))
        bench.expect_silence()
        bench.contribute(0, 0, (life,))
        bench.expect_result(0, (10 + 2 * life,))
        bench.contribute(life % 2, 1, (1000,))
        bench.expect_silence()
        bench.remove()
    bench.install(2, pkey=0x9000)
    for cell in range(2 * bench.group.params.window + 1):
        bench.contribute(0, cell, (cell,))
        bench.expect_silence()
        bench.contribute(1, cell, (1,))
        bench.expect_result(cell, (cell + 1,))


@case("EPIC-E-04")
def reinstalled_inner_group_starts_anew(bench: Bench) -> None:
    """Below a parent: the group is removed while a partial waits for its result; installed again, a result
    for that cell comes too early and is not taken, and the cell runs as the first of all.
    """
    bench.install(2, inner=True)
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_partial(0, (3,))
    bench.remove()
    bench.install(2, inner=True)
    parent = bench.group.parent
    assert parent is not None
    early = codec.encode(bench.group.packets(parent, 0, (3,), SUM)[0], icrc=bench.group.params.icrc == "full")
    bench.reject([("a result of the old cell", parent.device_port, early)], "unexpected")
    bench.contribute_all(0, [(10,), (20,)])
    bench.expect_partial(0, (30,))
    bench.result_from_parent(0, (40,))
    bench.expect_result(0, (40,))


@case("EPIC-E-04", "EPIC-W-21", needs=(("groups", 2),))
def removed_group_is_gone(bench: Bench) -> None:
    """Frames of a group that was removed are dropped as unknown, and nothing more is sent for it: no timer of
    it goes off, for a second.
    """
    bench.install(2, number=2)
    bench.install(2, inner=bench.traits.ports >= 3)
    group = bench.group
    for peer in group.peers():
        peer.acknowledge = False
    bench.contribute_all(0, [(1,), (2,)])
    if group.parent is not None:
        bench.expect_partial(0, (3,))
    else:
        bench.expect_result(0, (3,))
    full = group.params.icrc == "full"
    frames = [
        (
            f"a contribution of {p.name}",
            p.device_port,
            codec.encode(group.packets(p, 1, (5,), SUM)[0], icrc=full),
        )
        for p in group.children
    ]
    bench.remove()
    bench.use(2)
    bench.reject(frames, "unknown_qpn")
    bench.watch(1.0)
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (3,))


def _live(bench: Bench) -> int:
    """The most slots that a group can show as live."""
    params = bench.group.params
    return {1: params.message_buffers, 2: params.window, 3: params.slots}[bench.mode]


@case("EPIC-E-03", "EPIC-E-01")
def hostile_traffic(bench: Bench) -> None:
    """Two thousand frames (three hundred over sockets) that a member of no group, or a child far outside its
    window, could send: random bytes, random QPNs, random fields, PSNs all over the space on a child's own
    edge. The status shows no more slots than were installed; the cell that was half complete then completes,
    and so do the next.
    """
    bench.install(2, inner=True)
    group = bench.group
    bench.contribute(0, 0, (5,))
    bench.sync()
    rng = random.Random(bench.seed)
    for i in range(2000 if bench.traits.virtual_time else 300):
        _hostile(bench, rng)
        if i % 50 == 49:
            bench.sync()
            bench.expect_silence()
    for peer in group.peers():
        peer.acks.clear()
    if bench.traits.reads_status:
        slots = bench.dut.status(1).slots
        if len(slots) > _live(bench):
            raise Failure("more live slots than installed", [f"at most {_live(bench)}"], [f"{len(slots)}"])
    for cell in range(2 * group.params.window):
        if cell:
            bench.contribute(0, cell, (5,))
        bench.contribute(1, cell, (cell,))
        bench.expect_partial(cell, (cell + 5,))
        bench.result_from_parent(cell, (cell + 5,))
        bench.expect_result(cell, (cell + 5,))


def _hostile(bench: Bench, rng: random.Random) -> None:
    """One frame. On a child's edge only what the window guard or the order of PSNs keeps out."""
    group = bench.group
    child = rng.choice(group.children)
    kind = rng.randrange(5)
    if kind == 0 and bench.traits.binding == "ethernet":
        frame = rng.randbytes(rng.randrange(14, 200))
    elif kind <= 1:
        packet = group.packets(child, 0, (99,), SUM)[0]
        body = codec.encode(packet, icrc=group.params.icrc == "full")
        frame = body[:54] + rng.randbytes(len(body) - 58) + body[-4:]
        if group.params.icrc == "none":  # nothing protects the payload: send it to an unknown QPN
            frame = body[:47] + b"\0\0\0" + frame[50:]
    elif kind <= 3:
        packet = group.packets(child, 0, (99,), SUM)[0].but(qpn=rng.randrange(16))
        frame = codec.encode(packet.but(psn=rng.randrange(1 << 24)), icrc=group.params.icrc == "full")
    else:
        frame = _far_away(bench, rng)
        if bench.traits.binding == "udp":  # a peer's address is what tells the port
            child = group.children[1]
    bench.send_frame(child.device_port, frame, text="hostile")


def _far_away(bench: Bench, rng: random.Random) -> bytes:
    """A contribution of child 1, well formed, of a cell far from any window."""
    group = bench.group
    child = group.children[1]
    far = rng.randrange(2 * max(group.params.slots, group.params.window), psn.HALF - 1)
    if bench.mode == 3 and not group.params.window_guard:
        far = -rng.randrange(1, psn.HALF - 2 * group.params.slots)  # older than every slot
        far -= group.params.slots
    elif rng.random() < 0.5:
        far = -far
    packet = child.edge.packet(
        Opcode.SEND_ONLY_IMM, far, imm=SUM.pack(), payload=bytes(4), ackreq=True, pkey=group.params.pkey
    )
    return codec.encode(packet, icrc=group.params.icrc == "full")


@case("EPIC-E-09", needs=(("reads_counters", True),))
def every_counter_is_there(bench: Bench) -> None:
    """The counters have all names of the table, those of drops included, and none is below zero."""
    bench.install(2)
    got = bench.dut.counters()
    missing = [name for name in COUNTERS if name not in got]
    if missing:
        raise Failure("counters that are missing", ["all of the table"], missing)
    if any(v < 0 for v in got.values()):
        raise Failure("counters below zero", ["0 or more"], [f"{k} = {v}" for k, v in got.items() if v < 0])


@case("EPIC-E-09", "EPIC-E-14", needs=(("reads_counters", True),))
def counters_of_sound_cells(bench: Bench) -> None:
    """Six cells through an inner engine without any loss: the counters of contributions, partials, results,
    completed cells and received frames are exact, and nothing is counted as dropped, repeated or poisoned.
    """
    bench.install(2, inner=True)
    sent = bench.frames_sent
    for cell in range(6):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_partial(cell, (cell + 1,))
        bench.result_from_parent(cell, (cell + 1,))
        bench.expect_result(cell, (cell + 1,))
    bench.settle()
    expected = dict.fromkeys(COUNTERS, 0) | {"rx_contribution": 12, "rx_result": 6, "tx_partial": 6}
    expected |= {"tx_result": 12, "cells_completed": 6}
    if bench.mode != 3:  # how many acknowledgements go either way is free
        for name in ("rx_ack", "tx_ack"):
            del expected[name]
    del expected["tx_frames"]
    expected["rx_frames"] = bench.frames_sent - sent
    bench.expect_counter(expected)


@case("EPIC-F-04", "EPIC-E-13", needs=(("reads_status", True),))
def status_follows_a_cell(bench: Bench) -> None:
    """Below a parent, cells 0 and 1: the status shows number and bitmap after each contribution, complete and
    not done after the last, done after the result. A group that is not installed has no status.
    """
    bench.install(3 if bench.traits.ports >= 4 and bench.traits.capabilities.children >= 3 else 2, inner=True)
    children = len(bench.group.children)
    full = (1 << children) - 1
    for cell in range(2):
        bitmap = 0
        for child in reversed(range(children)):
            bench.contribute(child, cell, (1,))
            bitmap |= 1 << child
            bench.expect_slots({cell: (bitmap, False)})
        bench.expect_partial(cell, (children,))
        bench.expect_slots({cell: (full, False)})
    bench.result_from_parent(0, (children,))
    bench.expect_result(0, (children,))
    bench.expect_slots({0: (full, True), 1: (full, False)})
    bench.result_from_parent(1, (children,))
    bench.expect_result(1, (children,))
    bench.expect_slots({0: (full, True), 1: (full, True)})
    status = bench.dut.status(1)
    if status.failed_edges or status.group != 1 or status.epoch != bench.group.params.epoch:
        raise Failure("status", ["group 1, its epoch, no edges in error"], [str(status)])


@case("EPIC-F-04", "EPIC-E-04", needs=(("reads_status", True),))
def status_of_a_new_group_is_empty(bench: Bench) -> None:
    """Before its first cell a group has no live slot, also after it was removed and installed again."""
    for _ in range(2):
        bench.install(2)
        slots = bench.dut.status(1).slots
        if slots:
            raise Failure("live slots in a new group", ["none"], [str(s) for s in slots])
        bench.contribute(0, 0, (1,))
        bench.expect_slots({0: (1, False)})
        bench.remove()


@case("EPIC-F-04", "EPIC-E-03", needs=(("reads_status", True),))
def status_has_at_most_the_installed_slots(bench: Bench) -> None:
    """After many windows the status shows the newest cells, and no more slots than the group has."""
    bench.install(2)
    last = 5 * _live(bench)
    for cell in range(last + 1):
        bench.contribute_all(cell, [(1,), (2,)])
        bench.expect_result(cell, (3,))
    bench.expect_slots({last: (3, True)})
    slots = bench.dut.status(1).slots
    if len(slots) > _live(bench) or len({s.cell for s in slots}) != len(slots):
        raise Failure("live slots", [f"at most {_live(bench)}, each once"], [str(s) for s in slots])
