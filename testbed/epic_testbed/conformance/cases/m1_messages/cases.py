"""Mode I: messages of one and of several packets, in both directions of an edge."""

from __future__ import annotations

from collections.abc import Iterator

from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Opcode, Operator, Primitive
from epic_testbed.conformance.bench import Bench, Failure
from epic_testbed.conformance.case import case
from epic_testbed.conformance.rc import SEQUENCE, expect_answers, no_timers, prepare, send_all

BROADCAST = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT32, rank=0, tag=2)


def install(bench: Bench, packets: int = 4, *, inner: bool = False) -> int:
    """A group of two children whose messages have up to `packets` packets. Returns P."""
    size = bench.parameters(1, 3, {}).payload_bytes
    group = bench.install(inner=inner, message_bytes=packets * size, **no_timers())
    return group.params.payload_bytes


def numbers(size: int, first: int = 1) -> list[int]:
    """INT32 values that fill `size` bytes, each another one."""
    return [first + 3 * i for i in range(size // 4)]


def sizes(bench: Bench) -> Iterator[int]:
    """Message sizes around each edge: the least, one packet, two, and the largest message."""
    size, most = bench.group.params.payload_bytes, bench.group.params.message_bytes
    edges = [4, size - 4, size, size + 4, 2 * size - 4, 2 * size, 2 * size + 4, most - 4, most]
    yield from sorted({s for s in edges if 4 <= s <= most})


@case("EPIC-M1-02", "EPIC-M1-14", "EPIC-M1-08", modes=(1,))
def sizes_of_messages_both_ways(bench: Bench) -> None:
    """An inner engine. For each of 4, P-4, P, P+4, 2P-4, 2P, 2P+4, M-4 and M bytes (M is message_bytes) both
    children contribute a message; the partial goes up as one message of as few packets as hold it, all but the last
    of P bytes, the last with the descriptor and AckReq. The parent answers with a result of the same size, which
    goes to both children in the same way.
    """
    size = install(bench, inner=True)
    assert bench.group.parent is not None
    for cell, length in enumerate(sizes(bench)):
        one, two = numbers(length, 1), numbers(length, 1000)
        total = [a + b for a, b in zip(one, two, strict=True)]
        bench.contribute_all(cell, [one, two])
        bench.expect_partial(cell, total)
        bench.result_from_parent(cell, [v + 1 for v in total])
        bench.expect_result(cell, [v + 1 for v in total])
        needed = -(-length // size)
        for peer in bench.group.peers():
            came = sum(a.packet.imm is not None for a in peer.arrivals)
            if came != cell + 1 or len(peer.arrivals) != sum(
                -(-s // size) for s in list(sizes(bench))[: cell + 1]
            ):
                raise Failure(
                    f"{peer.name}: a message of {length} bytes",
                    [f"{needed} packets"],
                    [f"{len(peer.arrivals)} in all"],
                )


@case("EPIC-M1-02", "EPIC-W-13", modes=(1,))
def broadcast_messages_of_any_length(bench: Bench) -> None:
    """Rank 0 broadcasts 1, 2, 3, P-1, P+1 and M-1 bytes; the other child contributes NULL, which is one packet.
    Both receive the bytes as they are, the last packet padded to a multiple of 4.
    """
    size = install(bench)
    most = bench.group.params.message_bytes
    for cell, length in enumerate((1, 2, 3, size - 1, size + 1, most - 1)):
        data = bytes((7 * i + cell) % 255 + 1 for i in range(length))
        bench.contribute_all(cell, [data, None], BROADCAST)
        bench.expect_result(cell, data, BROADCAST)


@case("EPIC-M1-02", "EPIC-M1-14", modes=(1,))
def null_messages_are_one_packet(bench: Bench) -> None:
    """Both children contribute NULL to an inner engine: the partial is one packet with NULL. The parent's result
    has three packets; then a cell whose partial has three packets gets a NULL result, which is one packet.
    """
    size = install(bench, inner=True)
    values = numbers(3 * size)
    bench.contribute_all(0, [None, None])
    bench.expect_partial(0, None)
    bench.result_from_parent(0, values)
    bench.expect_result(0, values)
    bench.contribute_all(1, [values, None])
    bench.expect_partial(1, values)
    bench.result_from_parent(1, None)
    bench.expect_result(1, None)


@case("EPIC-M1-14", "EPIC-E-15", modes=(1,))
def nothing_goes_up_before_every_message_is_whole(bench: Bench) -> None:
    """An inner engine. Child 0's message of three packets is whole, of child 1's all but the last packet arrived:
    nothing is sent. The last packet comes: the partial is the sum.
    """
    size = install(bench, inner=True)
    values = numbers(3 * size)
    bench.contribute(0, 0, values)
    *most, last = prepare(bench, bench.group.children[1], 0, values)
    send_all(bench, bench.group.children[1], most)
    bench.expect_silence()
    bench.send(bench.group.children[1], last)
    bench.expect_partial(0, [2 * v for v in values])
    bench.result_from_parent(0, (4,))
    bench.expect_result(0, (4,))


@case("EPIC-M1-14", "EPIC-E-15", modes=(1,))
def the_root_takes_the_sum_as_the_result(bench: Bench) -> None:
    """A root. The packets of the two children's messages arrive interleaved; the result of three packets is sent
    when the last one is in, and is the sum element by element.
    """
    size = install(bench)
    left, right = bench.group.children
    one, two = numbers(3 * size, 5), numbers(3 * size, -900)
    a, b = prepare(bench, left, 0, one), prepare(bench, right, 0, two)
    for peer, packet in ((left, a[0]), (right, b[0]), (right, b[1]), (left, a[1]), (left, a[2])):
        bench.send(peer, packet)
    bench.expect_silence()
    bench.send(right, b[2])
    bench.expect_result(0, [x + y for x, y in zip(one, two, strict=True)])


@case("EPIC-M1-01", "EPIC-M1-04", modes=(1,))
def a_lost_middle_packet(bench: Bench) -> None:
    """Of child 0's message of four packets the second is lost: the third and fourth are answered with one NAK that
    names the second, and are not used. All from the second on are sent again; the message is whole.
    """
    size = install(bench)
    child = bench.group.children[0]
    packets = prepare(bench, child, 0, numbers(4 * size))
    bench.send(child, packets[0])
    send_all(bench, child, packets[2:])
    expect_answers(bench, child, [(SEQUENCE, 1)], newest=0)
    send_all(bench, child, packets[1:])
    bench.contribute(1, 0, numbers(4 * size))
    bench.expect_result(0, [2 * v for v in numbers(4 * size)])
    bench.expect_counter({"rx_contribution": 2, "cells_completed": 1})


@case("EPIC-M1-01", "EPIC-M1-03", modes=(1,))
def repeated_packets_within_a_message(bench: Bench) -> None:
    """Each packet of child 0's message of three is sent twice, and the first once more behind the second: each is
    stored once, and the result is the sum.
    """
    size = install(bench)
    child = bench.group.children[0]
    first, middle, last = prepare(bench, child, 0, numbers(3 * size))
    send_all(bench, child, (first, first, middle, middle, first, last, last))
    expect_answers(bench, child, [], newest=2)
    bench.contribute(1, 0, numbers(3 * size))
    bench.expect_result(0, [2 * v for v in numbers(3 * size)])
    bench.expect_counter({"rx_contribution": 2})


@case("EPIC-M1-08", modes=(1,))
def acknowledged_when_asked_and_stored(bench: Bench) -> None:
    """Of a message of three packets the second has AckReq too: it is acknowledged before the message is whole, and
    no packet is acknowledged before it was sent. The last packet is acknowledged in its turn.
    """
    size = install(bench)
    child = bench.group.children[0]
    first, middle, last = prepare(bench, child, 0, numbers(3 * size))
    bench.send(child, first)
    expect_answers(bench, child, [], newest=0)
    bench.send(child, middle.but(ackreq=True))
    bench.expect_ack(child, 1)
    expect_answers(bench, child, [], newest=1)
    bench.send(child, last)
    bench.expect_ack(child, 2)
    expect_answers(bench, child, [], newest=2)


@case("EPIC-M1-02", "EPIC-M1-14", modes=(1,))
def a_window_of_messages_of_many_lengths(bench: Bench) -> None:
    """Three windows of messages through a root, each of another length, child 1 always a message behind: every
    result has the length and the sum of its own cell.
    """
    size = install(bench)
    window, most = bench.group.params.window, bench.group.params.message_bytes
    lengths = [4 + (cell * (size + 12)) % (most - 3) // 4 * 4 for cell in range(3 * window)]
    bench.contribute(0, 0, numbers(lengths[0]))
    for cell, length in enumerate(lengths):
        if cell + 1 < len(lengths):
            bench.contribute(0, cell + 1, numbers(lengths[cell + 1], cell + 2))
        bench.contribute(1, cell, numbers(length, 50))
        bench.expect_result(
            cell, [a + b for a, b in zip(numbers(length, cell + 1), numbers(length, 50), strict=True)]
        )


@case("EPIC-E-17", modes=(1,))
def opcodes_without_an_immediate_are_not_messages(bench: Bench) -> None:
    """SEND ONLY without an immediate as the expected packet is not counted as a contribution, for it has no
    descriptor; the contribution with the same number is taken after it.
    """
    size = install(bench)
    child = bench.group.children[0]
    (packet,) = prepare(bench, child, 0, numbers(size))
    bench.send(child, packet.but(opcode=Opcode.SEND_ONLY, imm=None))
    bench.settle()
    bench.contribute(1, 0, numbers(size))
    bench.expect_silence()
    bench.send(child, packet)
    bench.expect_result(0, [2 * v for v in numbers(size)])
    bench.expect_counter({"rx_contribution": 2})
