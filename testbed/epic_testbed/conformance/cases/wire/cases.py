"""Frames that must be taken whatever they carry in fields that receivers ignore, and what the device emits."""

from __future__ import annotations

from epic_models.reference.endpoint import ack_aeth
from epic_spec import codec
from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Opcode, Operator, Primitive
from epic_testbed.conformance.bench import Bench, Failure
from epic_testbed.conformance.case import case
from epic_testbed.conformance.craft import BTH, ETHERNET, IP, UDP, Target, put, sealed

BYTES = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT8, rank=0, tag=9)


@case("EPIC-W-20")
def fields_that_are_sent_as_0(bench: Bench) -> None:
    """SE, MigReq, FECN, BECN, every bit of resv8a and resv7 are set, one at a time and all at once: each
    frame is taken.
    """
    target = Target(bench)
    changes: list[tuple[str, dict[str, object]]] = [(n, {n: True}) for n in ("se", "migreq", "fecn", "becn")]
    changes += [(f"resv8a {1 << n:#x}", {"resv8a": 1 << n}) for n in range(6)]
    changes += [(f"resv7 {1 << n:#x}", {"resv7": 1 << n}) for n in range(7)]
    every: dict[str, object] = {"se": True, "migreq": True, "fecn": True, "becn": True}
    changes.append(("all at once", {**every, "resv8a": 63, "resv7": 127}))
    for name, change in changes:
        packet = target.packet(Target.RIGHT).but(**change)
        target.accept(name, codec.encode(packet, icrc=target.full))
    target.complete()


@case("EPIC-W-20", needs=ETHERNET)
def udp_checksum_is_ignored(bench: Bench) -> None:
    """A UDP checksum other than 0, which is wrong, is ignored: the frame is taken."""
    target = Target(bench)
    for value in (0x0001, 0xBEEF, 0xFFFF):
        target.accept(
            f"UDP checksum {value:#06x}", put(target.frame(Target.RIGHT), UDP + 6, value.to_bytes(2, "big"))
        )
    target.complete()


@case("EPIC-W-07", needs=ETHERNET)
def ethernet_padding_is_ignored(bench: Bench) -> None:
    """Bytes behind the IP total length, zeros and others, are no part of the packet: the frame is taken as
    without.
    """
    target = Target(bench)
    for padding in (bytes(1), bytes(4), b"\xa5" * 7, bytes(46), bytes(range(200))):
        target.accept(f"{len(padding)} bytes of padding", target.frame(Target.RIGHT) + padding)
    target.complete()


@case("EPIC-W-05", "EPIC-W-06", "EPIC-W-17", needs=ETHERNET)
def ip_and_udp_fields_that_are_free(bench: Bench) -> None:
    """DF clear, any identification, TTL and DSCP, any UDP source port, and both forms of a header checksum
    that is zero in one's complement: the frame is taken.
    """
    target = Target(bench)
    changes: list[tuple[str, dict[str, object]]] = [
        ("DF clear", {"dont_fragment": False}),
        ("identification 0xffff", {"ident": 0xFFFF}),
        ("TTL 0", {"ttl": 0}),
        ("TTL 255", {"ttl": 255}),
        ("DSCP 63", {"dscp": 63}),
    ]
    changes += [(f"UDP source port {p}", {"sport": p}) for p in (0, 1, 4791, 0xBFFF, 0xFFFF)]
    for name, change in changes:
        packet = target.packet(Target.RIGHT).but(**change)
        target.accept(name, codec.encode(packet, icrc=target.full))
    for checksum in (0x0000, 0xFFFF):
        frame = _zero_sum(target.frame(Target.RIGHT), full=target.full)
        target.accept(f"header checksum {checksum:#06x}", put(frame, IP + 10, checksum.to_bytes(2, "big")))
    target.complete()


def _zero_sum(frame: bytes, *, full: bool) -> bytes:
    """`frame` with the identification that makes its header checksum 0."""
    frame = sealed(put(frame, IP + 4, b"\0\0"), full=full)
    ident = int.from_bytes(frame[IP + 10 : IP + 12], "big")
    return sealed(put(frame, IP + 4, ident.to_bytes(2, "big")), full=full)


@case("EPIC-W-12", needs=(("icrc", "none"),))
def no_icrc(bench: Bench) -> None:
    """With icrc = none frames with a wrong ICRC of any kind are taken, and all that the device sends have 0
    there.
    """
    target = Target(bench, icrc="none")
    for value in (bytes(4), b"\xff" * 4, b"\xde\xad\xbe\xef"):
        target.accept(f"ICRC {value.hex()}", target.frame(Target.RIGHT)[:-4] + value)
    right = sealed(target.frame(Target.RIGHT))
    target.accept("the right ICRC", right)
    target.complete()


@case("EPIC-W-13", "EPIC-W-01", "EPIC-W-14", "EPIC-W-22")
def payloads_of_every_length(bench: Bench) -> None:
    """Broadcast cells of 1 to 21 bytes go up and come down an inner engine: Pad is right both ways, Pad bytes
    that are not 0 are ignored, and each frame that comes back has AckReq, zeros as Pad bytes and exactly the
    bytes that were sent.
    """
    bench.install(2, inner=True)
    for cell, size in enumerate(range(1, 22)):
        with bench.trying(f"{size} bytes"):
            data = bytes(range(0x81, 0x81 + size))
            _contribute_with_pad(bench, cell, data, pad=b"\xee" if cell % 2 else b"\0")
            bench.contribute(1, cell, None, BYTES)
            bench.expect_partial(cell, data, BYTES)
            bench.result_from_parent(cell, data, BYTES)
            bench.expect_result(cell, data, BYTES)


def _contribute_with_pad(bench: Bench, cell: int, data: bytes, pad: bytes) -> None:
    """Child 0 contributes; its Pad bytes are all `pad`."""
    full = bench.group.params.icrc == "full"

    def padded(frame: bytes) -> bytes:
        count = -len(data) & 3
        return sealed(put(frame, len(frame) - 4 - count, pad * count), full=full)

    group = bench.group
    peer = group.children[0]
    packet = group.packets(peer, cell, data, BYTES)[0]
    peer.sent[cell] = [packet]
    peer.next_number += 1
    bench.send(peer, packet, tamper=padded)


@case("EPIC-W-14", "EPIC-D-05")
def descriptor_travels_bit_for_bit(bench: Bench) -> None:
    """Cells whose descriptors use every bit of rank, tag, primitive, operator and datatype come back with the
    same descriptor, in partial and result.
    """
    bench.install(2, inner=True)
    descriptors = [Descriptor(Primitive.ALLREDUCE, Operator.NONE, d, rank=r, tag=t) for d, r, t in (
        (Datatype.INT32, 0xFFFF, 63), (Datatype.FP64, 0x8001, 42), (Datatype.INT64, 0x5AA5, 21), (Datatype.FP16, 0, 0),
    )]  # fmt: skip
    descriptors += [
        Descriptor(Primitive.REDUCE, Operator(o), Datatype.BF16, 1 << o, tag=1 << o) for o in range(4)
    ]
    descriptors += [Descriptor(Primitive.BROADCAST, Operator.SUM, d, 1 << d, tag=d) for d in Datatype]
    for cell, what in enumerate(descriptors):
        with bench.trying(str(what)):
            bench.contribute_all(cell, [None, None], what)
            bench.expect_partial(cell, None, what)
            bench.result_from_parent(cell, None, what)
            bench.expect_result(cell, None, what)


@case("EPIC-E-07", "EPIC-W-01", "EPIC-W-11", "EPIC-W-17")
def what_the_device_emits(bench: Bench) -> None:
    """A group with a P_Key of its own, inner, four windows of cells of one packet: every frame that the
    device sends has the edge's addresses, UDP source port, QPN, PSN and P_Key, AckReq where due, and a right
    ICRC.
    """
    bench.install(2, inner=True, pkey=0x8E31)
    for cell in range(4 * bench.group.params.window):
        bench.contribute_all(cell, [(cell, -cell), (5, 1 << 20)])
        bench.expect_partial(cell, (cell + 5, (1 << 20) - cell))
        bench.result_from_parent(cell, (cell + 5, (1 << 20) - cell))
        bench.expect_result(cell, (cell + 5, (1 << 20) - cell))


@case("EPIC-W-15", "EPIC-W-16")
def psn_wrap(bench: Bench) -> None:
    """PSN bases stand a few packets before 2^24 and before 2^23, and at 0, on every edge and in both
    directions: four windows of cells cross the wrap and the half, with repeated contributions before, at and
    after it.
    """
    for number, base in enumerate(((1 << 24) - 8, (1 << 23) - 8, 0), start=1):
        with bench.trying(f"PSN bases from {base:#x}"):
            bench.install(2, inner=True, number=number, base=base)
            for cell in range(4 * max(bench.group.params.window, 4)):
                bench.contribute(0, cell, (cell,))
                bench.sync()
                bench.contribute(0, cell, (cell,))
                bench.contribute(1, cell, (100,))
                bench.expect_partial(cell, (cell + 100,))
                bench.result_from_parent(cell, (cell + 100,))
                bench.expect_result(cell, (cell + 100,))
            bench.remove(number)


@case("EPIC-W-16", "EPIC-E-07")
def edges_have_bases_of_their_own(bench: Bench) -> None:
    """Five groups with random PSN bases and QPNs, installed at once: each cell travels with the base of its
    edge and direction.
    """
    count = min(5, bench.traits.capabilities.groups)
    for number in range(1, count + 1):
        bench.install(2, inner=True, number=number)
    for cell in range(3):
        for number in range(1, count + 1):
            bench.use(number)
            bench.contribute_all(cell, [(number, cell), (10, 10)])
            bench.expect_partial(cell, (number + 10, cell + 10))
            bench.result_from_parent(cell, (number, -cell))
            bench.expect_result(cell, (number, -cell))


@case("EPIC-W-18", "EPIC-W-16")
def equal_psns_in_both_directions(bench: Bench) -> None:
    """Both directions of each edge have the same PSN base, so acknowledgements and data of opposite
    directions have equal PSNs. Every cell completes, and each acknowledgement is taken for what it
    acknowledges.
    """
    bench.install(2, inner=True, base=0x123456, equal_bases=True)
    for cell in range(4 * bench.group.params.window):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_partial(cell, (cell + 1,))
        bench.result_from_parent(cell, (cell + 1,))
        bench.expect_result(cell, (cell + 1,))
    if bench.mode != 3:
        bench.expect_counter({"tx_retransmission": 0, "drop_unexpected": 0})


@case("EPIC-W-18", modes=(1, 2))
def acknowledgements_name_what_they_acknowledge(bench: Bench) -> None:
    """Each contribution and each result is acknowledged with its own PSN, of the direction in which it went,
    by the end that received it.
    """
    bench.install(2, inner=True)
    group = bench.group
    assert group.parent is not None
    for cell in range(6):
        for child, peer in enumerate(group.children):
            bench.contribute(child, cell, (cell,))
            bench.expect_ack(peer, group.last_number(peer, cell))
        bench.expect_partial(cell, (2 * cell,))
        bench.result_from_parent(cell, (2 * cell,))
        bench.expect_ack(group.parent, group.last_number(group.parent, cell))
        bench.expect_result(cell, (2 * cell,))


@case("EPIC-W-20", modes=(1, 2))
def payload_behind_an_aeth(bench: Bench) -> None:
    """The children acknowledge results with frames that have a payload behind the AETH. They are taken as
    acknowledgements: no result is repeated, for ten timeouts.
    """
    bench.install(2)
    for peer in bench.group.children:
        peer.acknowledge = False
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (3,))
    for peer in bench.group.children:
        packet = peer.edge.packet(
            Opcode.ACK, 0, aeth=ack_aeth(1), payload=b"\x01\x02\x03\x04\x05", pkey=bench.group.params.pkey
        )
        packet.icrc_ok = bench.group.params.icrc == "full"
        bench.send(peer, packet)
    bench.watch(10 * bench.group.params.rto_initial_us * 1e-6 if bench.traits.virtual_time else 1.5)
    bench.expect_counter({"rx_ack": 2, "tx_retransmission": 0})


@case("EPIC-W-21", modes=(1, 2))
def syndromes_that_are_not_in_the_table(bench: Bench) -> None:
    """A child answers a result with every syndrome whose upper three bits the table does not have. All are
    dropped, the result is not taken as acknowledged, and the timer repeats it until it is.
    """
    bench.install(2)
    child = bench.group.children[1]
    child.acknowledge = False
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (3,))
    packet = child.edge.packet(Opcode.ACK, 0, aeth=ack_aeth(1), pkey=bench.group.params.pkey)
    full = bench.group.params.icrc == "full"
    frame = codec.encode(packet, icrc=full)
    frames = [
        (f"syndrome {s:#04x}", child.device_port, sealed(put(frame, BTH + 12, bytes([s])), full=full))
        for s in (0x40, 0x5F, 0x80, 0x9F, 0xA0, 0xC0, 0xDF, 0xE0, 0xFF)
    ]
    bench.reject(frames, "syndrome")
    child.acknowledge = True
    bench.watch(3.0, lambda: child.repeats > 0)
    bench.sync()
    bench.expect_counter({"drop_syndrome": len(frames)})
    if child.repeats == 0:
        raise Failure("child 1: the result is not repeated", ["result 0 again"], ["nothing in 3 s"])


@case("EPIC-W-22")
def contributions_without_ack_request(bench: Bench) -> None:
    """Contributions whose AckReq is clear are contributions like others: counted, and answered with the
    result.
    """
    bench.install(2)
    for cell in range(2):
        bench.contribute(0, cell, (cell,), ackreq=False)
        bench.contribute(1, cell, (7,), ackreq=False)
        bench.expect_result(cell, (cell + 7,))
