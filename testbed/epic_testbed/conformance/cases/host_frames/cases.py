"""Hosts: frames that are not for the rank, or malformed, change nothing and are counted; free fields are ignored."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from epic_models.reference.endpoint import ack_aeth
from epic_spec.packets import Packet
from epic_spec.tables import Datatype, Opcode, Operator
from epic_testbed.conformance.case import case
from epic_testbed.conformance.craft import BTH, ETHERNET, IMM, IP, PAYLOAD, UDP, cut, flip, put, sealed
from epic_testbed.conformance.host_bench import Array, HostBench, all_reduce
from epic_testbed.conformance.record import Failure
from epic_testbed.conformance.switch_end import Tamper

WHAT = all_reduce()


def _patched(at: int, value: bytes) -> Tamper:
    """Puts bytes in at an offset, and makes the IP checksum and the ICRC good again."""
    return lambda frame: sealed(put(frame, at, value))


def _inverted(at: int) -> Tamper:
    """Inverts the last bit of a byte, and makes the IP checksum and the ICRC good again."""
    return lambda frame: sealed(flip(frame, 8 * at + 7))


def _udp_length(change: int) -> Tamper:
    """The UDP length is off by so much."""
    return lambda frame: sealed(put(frame, UDP + 4, (len(frame) - UDP + change).to_bytes(2, "big")))


def _options(frame: bytes) -> bytes:
    """The same with four bytes of IP options."""
    longer = frame[:UDP] + bytes([1, 1, 1, 0]) + frame[UDP:]
    return sealed(put(put(longer, IP, b"\x46"), IP + 2, (len(longer) - IP).to_bytes(2, "big")))


def _tagged(frame: bytes) -> bytes:
    """The same with a VLAN tag."""
    return frame[:12] + b"\x81\x00\x00\x05" + frame[12:]


def _ignored(bench: HostBench, changed: Iterable[tuple[Tamper, str]], **params: object) -> None:
    """Each tampered copy of the right result, with other elements, is dropped; then the right one is taken.

    With each copy come the reasons, separated by blanks, by one of which it must be counted.
    """
    bench.join(**params)  # type: ignore[arg-type]
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    wrong = bench.prepare(0, data * 11, WHAT)[0]
    for tamper, reasons in changed:
        _dropped(bench, lambda t=tamper: bench.send(wrong, tamper=t), reasons)  # type: ignore[misc]
    bench.expect_running(handle)
    _end(bench, handle, data)


def _end(bench: HostBench, handle: int, data: Array) -> None:
    """The right result ends the collective."""
    bench.switch.forget(0)
    bench.result(0, data * 2, WHAT)
    bench.expect_outcome(handle, data * 2)


def _dropped(bench: HostBench, send: Callable[[], None], reasons: str) -> None:
    """What `send` sends is answered by nothing and counted by exactly one of the reasons (EPIC-W-21)."""
    bench.settle()  # acknowledgements of what was before are on their way
    before = bench.counters_grown() if bench.traits.reads_counters else {}
    send()
    bench.expect_no_ack()
    if not bench.traits.reads_counters:
        return
    grown = {k: v - before.get(k, 0) for k, v in bench.counters_grown().items()}
    counted = {k: v for k, v in grown.items() if v and k.startswith(("drop_", "rx_")) and k != "rx_frames"}
    names = [f"drop_{reason}" for reason in reasons.split()]
    if len(counted) != 1 or sum(counted.values()) != 1 or not set(counted) <= set(names):
        raise Failure("how a dropped frame is counted", [f"one of {', '.join(names)} +1"], [str(counted)])


@case("EPIC-W-02", "EPIC-W-21", side="agent")
def frames_that_end_early(bench: HostBench) -> None:
    """A result that ends in the BTH, or in the ImmDt, with lengths that agree; one that lacks its last six bytes."""
    changes: list[tuple[Tamper, str]] = [
        (lambda frame: cut(frame, 6), "truncated"),
        (lambda frame: cut(frame, 14), "truncated"),
        (lambda frame: frame[:-6], "truncated icrc pad ip_length"),
    ]
    _ignored(bench, changes)


@case("EPIC-W-02", "EPIC-W-07", side="agent", needs=ETHERNET)
def lengths_that_disagree(bench: HostBench) -> None:
    """A frame cut in its IPv4 header; an IP total length above the frame; UDP lengths one off either way."""
    changes = [
        (lambda frame: frame[:30], "truncated"),
        (lambda frame: frame[:-1], "ip_length"),
        (_patched(16, b"\x00\x13"), "ip_length truncated"),
        (_udp_length(-1), "udp_length"),
        (_udp_length(1), "udp_length"),
    ]
    _ignored(bench, changes)


@case("EPIC-W-07", side="agent", needs=ETHERNET)
def ethernet_padding_is_ignored(bench: HostBench) -> None:
    """The right result with 18 bytes behind the IP packet is taken."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    bench.result(0, data, WHAT, tamper=lambda frame: frame + bytes(18))
    bench.expect_outcome(handle, data)


@case("EPIC-W-03", side="agent", needs=ETHERNET)
def frames_that_are_not_ipv4(bench: HostBench) -> None:
    """EtherType IPv6; a VLAN tag."""
    _ignored(bench, [(_patched(12, b"\x86\xdd"), "ether_type"), (_tagged, "vlan")])


@case("EPIC-W-04", "EPIC-W-05", "EPIC-W-06", side="agent", needs=ETHERNET)
def ip_headers_that_are_not_used(bench: HostBench) -> None:
    """Version 6, IHL 4, options, MF, a fragment offset, a wrong checksum, protocol TCP, another UDP port."""
    changes: list[tuple[Tamper, str]] = [
        (_patched(IP, b"\x65"), "ip_version"),
        (_patched(IP, b"\x44"), "ip_version"),
        (_options, "ip_options"),
        (_patched(20, b"\x20\x00"), "fragment"),
        (_patched(20, b"\x00\x01"), "fragment"),
        (lambda frame: flip(frame, 8 * IP + 80), "ip_checksum"),
        (_patched(23, b"\x06"), "protocol"),
        (_patched(36, b"\x00\x35"), "udp_port"),
    ]
    _ignored(bench, changes)


@case("EPIC-W-08", "EPIC-W-09", "EPIC-W-10", "EPIC-H-01", side="agent")
def bth_fields_that_do_not_fit(bench: HostBench) -> None:
    """Transport version 1; RDMA WRITE ONLY; another P_Key, by either bit; a QPN that is not the edge's."""
    changes = [
        (_patched(BTH + 1, b"\x01"), "tver"),
        (_patched(BTH, b"\x0a"), "opcode"),
        (_patched(BTH + 2, b"\x7f\xff"), "pkey"),
        (_patched(BTH + 2, b"\xff\xfe"), "pkey"),
        (_inverted(BTH + 5), "unknown_qpn"),
        (_inverted(BTH + 7), "unknown_qpn"),
    ]
    _ignored(bench, changes)


@case("EPIC-W-13", side="agent")
def padding(bench: HostBench) -> None:
    """Pad is zero bytes up to a multiple of 4 in what the host sends: INT8 arrays of 1 to 4 elements. What it receives
    may have other Pad bytes, and is taken; a payload that is no multiple of 4 with its Pad is dropped.
    """
    bench.join(datatypes=("INT32", "INT8"))
    for count in range(1, 5):
        data = np.arange(1, count + 1, dtype=np.int8)
        what = all_reduce(count - 1, datatype=Datatype.INT8)
        handle = bench.call("all_reduce", data)
        bench.expect_contribution(count - 1, data, what)
        bench.result(count - 1, data, what, tamper=_other_pad(-count % 4))
        bench.expect_outcome(handle, data)
    bench.settle()
    bench.switch.acks.clear()
    bench.call("all_reduce", np.ones(4, np.int8))
    bench.next_contribution(4)
    odd = bench.prepare(4, bytes(4), all_reduce(4, datatype=Datatype.INT8))[0]
    _dropped(bench, lambda: bench.send(odd, tamper=_odd), "pad truncated")


def _other_pad(count: int) -> Tamper:
    """The frame with other values in its Pad bytes."""
    return lambda frame: sealed(put(frame, len(frame) - 4 - count, b"\x55" * count))


def _odd(frame: bytes) -> bytes:
    """The frame with a payload of one byte less and Pad 0."""
    return cut(frame, len(frame) - BTH - 1)


@case("EPIC-W-11", side="agent")
def a_wrong_icrc(bench: HostBench) -> None:
    """With icrc = full: a flipped bit of the payload, of the immediate, of the PSN, of the ICRC itself."""
    bits = (8 * PAYLOAD, 8 * IMM + 15, 8 * BTH + 95)
    changes: list[tuple[Tamper, str]] = [
        (lambda frame, b=bit: flip(frame, b), "icrc descriptor unexpected")  # type: ignore[misc]
        for bit in bits
    ]
    changes.append((lambda frame: flip(frame, 8 * len(frame) - 1), "icrc"))
    _ignored(bench, changes, icrc="full")


@case("EPIC-W-12", side="agent", needs=(("icrc", "none"),))
def no_icrc(bench: HostBench) -> None:
    """With icrc = none the host sends 0 in its place and takes results whose ICRC is 0, or anything."""
    bench.join(icrc="none")
    data = bench.numbers(1.5)
    handle = bench.call("all_reduce", data)
    cells = bench.cut(data)
    bench.expect_contributions(0, cells, WHAT)
    bench.result(0, cells[0], WHAT)
    bench.result(1, cells[1], WHAT, tamper=lambda f: f[:-4] + b"\xde\xad\xbe\xef")
    bench.expect_outcome(handle, data)


def _imm(word: int) -> Tamper:
    return _patched(IMM, word.to_bytes(4, "big"))


@case("EPIC-W-19", side="agent")
def descriptors_that_do_not_fit(bench: HostBench) -> None:
    """The reserved primitive, also with ERR; a reserved datatype; NULL with a payload; operator NONE with a payload."""
    good = WHAT.pack()
    none = all_reduce(operator=Operator.NONE).pack()
    words = (good | 3 << 14, good | 3 << 14 | 1 << 6, good | 8 << 8, good | 1 << 7, none)
    _ignored(bench, [(_imm(word), "descriptor") for word in words])


@case("EPIC-W-19", side="agent")
def an_empty_result_without_null(bench: HostBench) -> None:
    """A result without payload whose descriptor has neither NULL nor ERR is dropped."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    null = bench.prepare(0, None, WHAT)[0]
    _dropped(bench, lambda: bench.send(null, tamper=_imm(WHAT.pack())), "descriptor")
    _end(bench, handle, data)


@case("EPIC-H-01", side="agent", needs=ETHERNET)
def addresses_of_others(bench: HostBench) -> None:
    """Another source IP address, another destination, other MAC addresses: not over the rank's edge."""
    changes = [
        (_patched(at, b"\xc0\x00\x02\x63"), "wrong_address") for at in (26, 30)
    ] + [(_patched(at, b"\x02\x99\x99\x99\x99\x99"), "wrong_address") for at in (0, 6)]  # fmt: skip
    _ignored(bench, changes)


@case("EPIC-H-01", modes=(2, 3), side="agent")
def opcodes_of_other_modes(bench: HostBench) -> None:
    """FIRST, MIDDLE and LAST WITH IMMEDIATE are Mode I's, LAST and ONLY without immediate nobody's: all are dropped."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    for opcode in (Opcode.SEND_FIRST, Opcode.SEND_MIDDLE, Opcode.SEND_LAST_IMM, Opcode.SEND_LAST):
        imm = WHAT.pack() if opcode is Opcode.SEND_LAST_IMM else None
        packet = bench.switch.data(opcode, 0, imm, bytes(32))
        _dropped(bench, lambda p=packet: bench.send(p), "role")  # type: ignore[misc]
    _end(bench, handle, data)


@case("EPIC-H-01", modes=(1,), side="agent")
def opcodes_without_immediate(bench: HostBench) -> None:
    """LAST and ONLY without immediate are used by no mode: they are dropped without an answer."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    for opcode in (Opcode.SEND_ONLY, Opcode.SEND_LAST):
        packet = bench.switch.data(opcode, 0, None, bytes(32))
        _dropped(bench, lambda p=packet: bench.send(p), "role")  # type: ignore[misc]
    _end(bench, handle, data)


@case("EPIC-H-01", "EPIC-M3-25", modes=(3,), side="agent")
def acknowledgements_without_reflection(bench: HostBench) -> None:
    """An ACK and a NAK for cell 0 come in a group without ack_reflection: dropped. The timer still repeats the cell."""
    bench.join(rto_initial_us=200_000, rto_min_us=200_000)
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    _dropped(bench, lambda: bench.ack(0), "role")
    _dropped(bench, lambda: bench.nak(0), "role")
    bench.expect_repeat(0, within=0.5)
    bench.result(0, data, WHAT)
    bench.expect_outcome(handle, data)


@case("EPIC-W-09", "EPIC-W-21", modes=(1, 2), side="agent")
def reserved_syndromes(bench: HostBench) -> None:
    """Acknowledgements whose syndrome has upper bits 010 or 100 are dropped: cell 0 is still repeated by the timer."""
    bench.join(rto_initial_us=200_000, rto_min_us=200_000)
    bench.switch.acknowledge = False
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    for syndrome in (0x40, 0x9F):
        ack = _ack(bench)
        _dropped(
            bench,
            lambda p=ack, s=syndrome: bench.send(p, tamper=_patched(IMM, bytes([s]))),  # type: ignore[misc]
            "syndrome",
        )
    bench.expect_repeat(0, within=0.5)
    bench.result(0, data, WHAT)
    bench.expect_outcome(handle, data)


def _ack(bench: HostBench) -> Packet:
    return bench.switch.edge.packet(Opcode.ACK, 0, aeth=ack_aeth(1), pkey=bench.params.pkey)


@case("EPIC-W-20", side="agent")
def fields_that_are_ignored(bench: HostBench) -> None:
    """A result with SE, MigReq, FECN, BECN, resv8a and resv7 set is taken as any other."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    packet = bench.prepare(0, data, WHAT)[0].but(
        se=True, migreq=True, fecn=True, becn=True, resv8a=0x3F, resv7=0x7F
    )
    bench.switch.put(packet)
    bench.expect_outcome(handle, data)


@case("EPIC-W-20", side="agent", needs=ETHERNET)
def ip_and_udp_fields_that_are_ignored(bench: HostBench) -> None:
    """A result with another DSCP, TTL, identification, UDP source port and a UDP checksum, and without DF, is taken."""
    bench.join()
    data = bench.numbers(0.5)
    handle = bench.call("all_reduce", data)
    bench.expect_contribution(0, data, WHAT)
    packet = bench.prepare(0, data, WHAT)[0].but(
        dscp=46, ttl=3, ident=0x1234, sport=0xC0DE, dont_fragment=False
    )
    bench.switch.put(packet, _patched(40, b"\x12\x34"))
    bench.expect_outcome(handle, data)


@case("EPIC-W-01", "EPIC-W-11", "EPIC-W-16", "EPIC-W-22", side="agent")
def frames_of_the_host(bench: HostBench) -> None:
    """Two and a half cells are contributed and their results come. The bench looks at every frame of the host:
    addresses, QPN, P_Key, numbering from the base, AckReq at the end of a cell, ICRC.
    """
    bench.join(pkey=0x8123)
    data = bench.numbers(2.5)
    handle = bench.call("all_reduce", data)
    bench.exchange(0, [(WHAT, cell, cell) for cell in bench.cut(data)])
    bench.expect_outcome(handle, data)


@case("EPIC-W-17", side="agent", needs=ETHERNET)
def one_udp_source_port(bench: HostBench) -> None:
    """All frames of the host have one UDP source port, from 0xC000 on."""
    bench.join()
    data = bench.numbers(5.5)
    handle = bench.call("all_reduce", data)
    bench.exchange(0, [(WHAT, cell, cell) for cell in bench.cut(data)])
    bench.expect_outcome(handle, data)
    ports = bench.switch.sports
    if len(ports) != 1 or min(ports) < 0xC000:
        raise Failure("UDP source ports", ["one from 0xc000 to 0xffff"], [", ".join(map(hex, sorted(ports)))])
