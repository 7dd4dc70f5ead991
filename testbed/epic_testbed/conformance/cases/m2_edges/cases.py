"""Mode II: packets that an edge does not take, and that it drops in silence."""

from __future__ import annotations

from epic_spec.packets import Packet
from epic_spec.tables import Opcode
from epic_testbed.conformance.bench import Bench, Failure
from epic_testbed.conformance.case import case
from epic_testbed.conformance.rc import (
    expect_acknowledged,
    expect_answers,
    no_timers,
    prepare,
    send_packet,
)


def dropped(bench: Bench, child: int, packet: Packet) -> None:
    """A packet with the expected number is neither acknowledged nor refused, and counted into no cell."""
    peer = bench.group.children[child]
    number = bench.group.last_number(peer, 0)
    bench.send(peer, packet)
    expect_answers(bench, peer, [], newest=number - 1)
    bench.expect_silence()


@case("EPIC-M2-01", "EPIC-E-17", modes=(2,))
def only_single_packets_with_a_descriptor(bench: Bench) -> None:
    """The other child has contributed. FIRST, MIDDLE, LAST with and without immediate and ONLY without immediate
    come with the expected number: each is dropped. The SEND ONLY WITH IMMEDIATE of that number then completes the
    cell.
    """
    group = bench.install(**no_timers())
    size = group.params.payload_bytes
    (right,) = prepare(bench, group.children[0], 0, list(range(size // 4)))
    bench.contribute(1, 0, list(range(size // 4)))
    for opcode in (Opcode.SEND_FIRST, Opcode.SEND_MIDDLE, Opcode.SEND_LAST, Opcode.SEND_ONLY):
        dropped(bench, 0, right.but(opcode=opcode, imm=None))
    dropped(bench, 0, right.but(opcode=Opcode.SEND_LAST_IMM))
    bench.expect_counter({"rx_contribution": 1, "drop_role": 5})
    bench.send(group.children[0], right)
    bench.expect_result(0, [2 * i for i in range(size // 4)])


@case("EPIC-M2-04", "EPIC-E-10", "EPIC-E-11", modes=(2,))
def what_is_not_stored_is_not_acknowledged(bench: Bench) -> None:
    """Contributions of P+4 bytes and of 6 bytes of INT32 come with the expected number: each is dropped, and
    neither acknowledged nor answered with a NAK. The right contribution is taken and acknowledged.
    """
    group = bench.install(**no_timers())
    child = group.children[0]
    (right,) = prepare(bench, child, 0, (5,))
    bench.contribute(1, 0, (6,))
    for length in (group.params.payload_bytes + 4, 6):
        dropped(bench, 0, right.but(payload=bytes(length)))
    bench.expect_counter({"rx_contribution": 1, "drop_oversize": 1, "drop_element": 1})
    bench.send(child, right)
    expect_acknowledged(bench, child, 0)
    bench.expect_result(0, (11,))


@case("EPIC-M2-04", "EPIC-E-10", modes=(2,))
def an_oversize_result_is_not_acknowledged(bench: Bench) -> None:
    """Below a parent. A result of P+4 bytes for a complete cell is dropped without an answer and sent to no child;
    the result of P bytes is passed on and acknowledged.
    """
    group = bench.install(inner=True, **no_timers())
    parent, size = group.parent, group.params.payload_bytes
    assert parent is not None
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_partial(0, (3,))
    send_packet(bench, parent, Opcode.SEND_ONLY_IMM, 0, bytes(size + 4))
    expect_answers(bench, parent, [], newest=-1)
    bench.expect_silence()
    bench.result_from_parent(0, list(range(size // 4)))
    bench.expect_result(0, list(range(size // 4)))
    expect_acknowledged(bench, parent, 0)


@case("EPIC-M2-01", "EPIC-W-22", modes=(2,))
def what_the_engine_sends_is_single_packets(bench: Bench) -> None:
    """Below a parent, three windows of cells, some NULL, some of P bytes. Every partial and result is one SEND ONLY
    WITH IMMEDIATE with AckReq, numbered by its cell, sent once.
    """
    group = bench.install(inner=True, window=2, **no_timers())
    full = list(range(group.params.payload_bytes // 4))
    cells = 3 * group.params.window
    for cell in range(cells):
        values = (None, full, (cell,))[cell % 3]
        bench.contribute_all(cell, [values, None])
        bench.expect_partial(cell, values)
        bench.result_from_parent(cell, values)
        bench.expect_result(cell, values)
    for peer in group.peers():
        got = [(a.number, a.packet.opcode, a.packet.ackreq) for a in peer.arrivals]
        if got != [(n, Opcode.SEND_ONLY_IMM, True) for n in range(cells)]:
            raise Failure(
                f"{peer.name}: other packets than one a cell",
                [f"#{n} SEND_ONLY_IMM AckReq 1" for n in range(cells)],
                [f"#{n} {opcode.name} AckReq {int(ackreq)}" for n, opcode, ackreq in got],
            )


@case("EPIC-M2-02", "EPIC-M2-03", "EPIC-M2-04", modes=(2,))
def no_refusals_but_for_gaps(bench: Bench) -> None:
    """W = 2. Child 0 sends cell 0, an oversize cell 1, cell 1, cell 2 beyond its window, and cell 0 again: the
    answers are ACKs of what it has had taken. A Mode II engine sends no RNR NAK and no NAK of another kind.
    """
    group = bench.install(window=2, **no_timers())
    child, window = group.children[0], group.params.window
    packets = [prepare(bench, child, cell, (cell,))[0] for cell in range(window + 1)]
    bench.send(child, packets[0])
    expect_acknowledged(bench, child, 0)
    bench.send(child, packets[1].but(payload=bytes(group.params.payload_bytes + 4)))
    expect_answers(bench, child, [], newest=0)
    for packet in packets[1:window]:
        bench.send(child, packet)
    expect_acknowledged(bench, child, window - 1)
    bench.send(child, packets[window])
    expect_answers(bench, child, [], newest=window - 1)
    bench.send(child, packets[0])
    expect_acknowledged(bench, child, window - 1)
    bench.expect_counter({"tx_rnr_nak": 0, "tx_nak": 0})
