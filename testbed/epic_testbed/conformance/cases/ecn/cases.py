"""Congestion experienced, up and down."""

from __future__ import annotations

from epic_testbed.conformance.bench import SUM, Bench
from epic_testbed.conformance.case import case

ECN = (("ecn", True),)
CE = 3


@case("EPIC-E-08", needs=ECN)
def contribution_marks_the_results(bench: Bench) -> None:
    """At a root, CE in the first, the last, both and no contribution of a cell: the results have CE in all
    but the last case, for several windows.
    """
    bench.install(2, ecn=True)
    marks = 0
    for cell in range(4 * bench.group.params.window):
        for child in range(2):
            marked = cell >> child & 1
            marks += marked
            bench.contribute(child, cell, (cell,), ecn=CE if marked else 2)
        bench.expect_result(cell, (2 * cell,), congested=bool(cell & 3))
    bench.expect_counter({"rx_ce": marks})


@case("EPIC-E-08", needs=ECN)
def contribution_and_result_mark(bench: Bench) -> None:
    """Below a parent: CE in a contribution is in the partial, and in the results though the parent's result
    has none; CE in the parent's result alone is in the results and was not in the partial.
    """
    bench.install(2, inner=True, ecn=True)
    for cell in range(8):
        up, down = cell & 3, cell & 4
        for child in range(2):
            bench.contribute(child, cell, (cell,), ecn=CE if up >> child & 1 else 2)
        bench.expect_partial(cell, (2 * cell,), congested=bool(up))
        bench.result_from_parent(cell, (7,), ecn=CE if down else 2)
        bench.expect_result(cell, (7,), congested=bool(up or down))


@case("EPIC-E-08", modes=(1,), needs=ECN)
def any_packet_of_a_message_marks(bench: Bench) -> None:
    """A message of two packets, of which the first, the second, both, or neither has CE."""
    bench.install(2, inner=True, ecn=True)
    group = bench.group
    size = 2 * group.params.payload_bytes
    if size > group.params.message_bytes:
        size = group.params.message_bytes
    for cell in range(4):
        packets = group.packets(group.children[0], cell, bytes(size), SUM)
        group.children[0].sent[cell] = packets
        group.children[0].next_number += len(packets)
        for i, packet in enumerate(packets):
            bench.send(group.children[0], packet.but(ecn=CE if cell >> i & 1 else 2))
        bench.contribute(1, cell, bytes(size))
        marked = bool(cell & (1 << len(packets)) - 1)
        bench.expect_partial(cell, bytes(size), congested=marked)
        bench.result_from_parent(cell, bytes(size))
        bench.expect_result(cell, bytes(size), congested=marked)


@case("EPIC-E-08", needs=ECN)
def null_cells_mark_too(bench: Bench) -> None:
    """CE in a NULL contribution marks the cell like another."""
    bench.install(2, ecn=True)
    for cell in range(2):
        bench.contribute(0, cell, None, ecn=CE if cell else 2)
        bench.contribute(1, cell, None)
        bench.expect_result(cell, None, congested=bool(cell))


@case("EPIC-E-08", "EPIC-M3-08", "EPIC-M3-09", modes=(3,), needs=ECN)
def resends_and_replays_carry_it(bench: Bench) -> None:
    """CE came with child 1's contribution: the resent partial and the replays have it, though the repeated
    contributions do not. CE that came with the parent's result alone is in the replays.
    """
    bench.install(2, inner=True, ecn=True)
    for cell in range(2):
        bench.contribute(0, cell, (1,))
        bench.contribute(1, cell, (2,), ecn=2 if cell else CE)
        bench.expect_partial(cell, (3,), congested=not cell)
        bench.contribute(0, cell, (1,))
        bench.expect_partial(cell, (3,), congested=not cell)
        bench.result_from_parent(cell, (3,), ecn=CE if cell else 2)
        bench.expect_result(cell, (3,), congested=True)
        for child in (1, 0):
            bench.contribute(child, cell, (child + 1,))
            bench.expect_result(cell, (3,), children=[child], congested=True)


@case("EPIC-E-08")
def groups_without_ecn(bench: Bench) -> None:
    """A group with ecn = false: whatever comes with CE, partial and results have ECT(0)."""
    bench.install(2, inner=True, ecn=False)
    for cell in range(2):
        for child in range(2):
            bench.contribute(child, cell, (1,), ecn=CE)
        bench.expect_partial(cell, (2,), congested=False)
        bench.result_from_parent(cell, (2,), ecn=CE)
        bench.expect_result(cell, (2,), congested=False)
