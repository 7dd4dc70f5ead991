"""Frames that must be dropped and counted, each with one thing wrong."""

from __future__ import annotations

from epic_spec.packets import ERR_BIT, NULL_BIT, Descriptor
from epic_spec.tables import Datatype, Opcode, Operator, Primitive
from epic_testbed.conformance.bench import SUM, Bench
from epic_testbed.conformance.case import case
from epic_testbed.conformance.craft import BTH, ETHERNET, IMM, IP, PAYLOAD, UDP, Target, cut, flip, put

BARRIER = Descriptor(Primitive.ALLREDUCE, Operator.NONE, Datatype.INT32, tag=1)


@case("EPIC-W-02", "EPIC-W-21", needs=ETHERNET)
def truncated_anywhere(bench: Bench) -> None:
    """A frame is cut off after every possible number of bytes, its lengths left as they were. Every one is
    dropped.
    """
    target = Target(bench)
    whole = target.frame()
    first = 0 if bench.traits.virtual_time else IP  # ports do not send less than an Ethernet header
    target.reject({f"{n} bytes": whole[:n] for n in range(first, len(whole))}, "truncated", "ip_length")
    target.complete()


@case("EPIC-W-02", "EPIC-W-21")
def truncated_datagram(bench: Bench) -> None:
    """A frame whose lengths agree is too short for BTH, immediate and ICRC; check sums are right. Every one
    is dropped.
    """
    target = Target(bench)
    whole = target.frame()
    target.reject(
        {f"{n} bytes of UDP payload": cut(whole, n, full=target.full) for n in range(20)}, "truncated"
    )
    target.complete()


@case("EPIC-W-03", "EPIC-W-21", needs=ETHERNET)
def other_ether_types(bench: Bench) -> None:
    """Frames with other EtherTypes over an IPv4 packet that is right, and with a VLAN tag of each kind, are
    dropped.
    """
    target = Target(bench)
    whole = target.frame()
    types = (0x0000, 0x0046, 0x0801, 0x0806, 0x8035, 0x86DD, 0x8915, 0x88CC, 0xFFFF)
    target.reject({f"EtherType {t:#06x}": put(whole, 12, t.to_bytes(2, "big")) for t in types}, "ether_type")
    tags = {
        f"tag {tpid:#06x}": whole[:12] + tpid.to_bytes(2, "big") + b"\x00\x05" + whole[12:]
        for tpid in (0x8100, 0x88A8, 0x9100)
    }
    tags["two tags"] = whole[:12] + b"\x88\xa8\x00\x05\x81\x00\x00\x06" + whole[12:]
    target.reject(tags, "vlan", "ether_type")
    target.complete()


@case("EPIC-W-04", "EPIC-W-21", needs=ETHERNET)
def ip_version_and_header_length(bench: Bench) -> None:
    """IPv4 headers of another version, of a length below 5, and with options of every length are dropped,
    though checksum, lengths and ICRC are right for the header as it is.
    """
    target = Target(bench)
    whole = target.frame()
    versions = {f"version {v}": target.seal(put(whole, IP, bytes([v << 4 | 5]))) for v in range(16) if v != 4}
    target.reject(versions, "ip_version")
    short = {f"IHL {n}": target.seal(put(whole, IP, bytes([0x40 | n]))) for n in range(5)}
    # A parser that goes by IHL finds all later headers elsewhere.
    target.reject(short, "ip_version", "ip_checksum", "truncated", "udp_port", "udp_length", "icrc")
    options = {}
    for n in range(6, 16):
        more = 4 * (n - 5)
        longer = put(whole, IP, bytes([0x40 | n]))
        total = int.from_bytes(whole[IP + 2 : IP + 4], "big") + more
        longer = put(longer, IP + 2, total.to_bytes(2, "big"))
        options[f"{more} bytes of options"] = target.seal(longer[:UDP] + b"\x01" * more + longer[UDP:])
    target.reject(options, "ip_options")
    target.complete()


@case("EPIC-W-05", "EPIC-W-21", needs=ETHERNET)
def fragments(bench: Bench) -> None:
    """MF set, the reserved flag set, every power of two as fragment offset, with and without DF: all are
    dropped.
    """
    target = Target(bench)
    whole = target.frame()
    words = [
        0x2000,
        0x6000,
        0x8000,
        0xC000,
        *(1 << n for n in range(13)),
        *(0x4000 | 1 << n for n in range(13)),
    ]
    frames = {
        f"flags and offset {w:#06x}": target.seal(put(whole, IP + 6, w.to_bytes(2, "big"))) for w in words
    }
    target.reject(frames, "fragment")
    target.complete()


@case("EPIC-W-06", "EPIC-W-21", needs=ETHERNET)
def ip_header_checksum(bench: Bench) -> None:
    """Each bit of the header checksum, and of the TTL under it, is inverted; the ICRC does not see either.
    All are dropped.
    """
    target = Target(bench)
    whole = target.frame()
    bits = [*range(8 * (IP + 10), 8 * (IP + 12)), *range(8 * (IP + 8), 8 * (IP + 9))]
    target.reject({f"bit {b - 8 * IP} of the IP header": flip(whole, b) for b in bits}, "ip_checksum")
    target.complete()


@case("EPIC-W-07", "EPIC-W-21", needs=ETHERNET)
def lengths_that_disagree(bench: Bench) -> None:
    """IP total length above the frame's size, UDP length above or below what the IP length leaves, and both
    shorter than the frame with the ICRC at the frame's end: all are dropped.
    """
    target = Target(bench)
    whole = target.frame()
    total = int.from_bytes(whole[IP + 2 : IP + 4], "big")

    def lengths(ip: int, udp: int, size: int | None = None) -> bytes:
        frame = put(put(whole, IP + 2, ip.to_bytes(2, "big")), UDP + 4, udp.to_bytes(2, "big"))
        return target.seal(frame[:size] if size else frame)

    above = {f"total length {total + n}": lengths(total + n, total - 20 + n) for n in (1, 4, 64, 60000)}
    target.reject(above, "ip_length", "truncated", "icrc", "pad")
    udp = {f"UDP length {total - 20 + n:+d}": lengths(total, total - 20 + n) for n in (-4, -1, 1, 4, 1000)}
    udp |= {f"UDP length {n}": lengths(total, n) for n in (0, 7, 8)}
    target.reject(udp, "udp_length", "truncated", "icrc", "pad")
    small = {f"total length {n}": lengths(n, max(n - 20, 0)) for n in (0, 1, 19, 20, 27, 28, 39)}
    target.reject(small, "ip_length", "truncated", "udp_length", "icrc")
    target.complete()


@case("EPIC-W-01", "EPIC-W-21", needs=ETHERNET)
def protocol_and_port(bench: Bench) -> None:
    """Other IP protocols than UDP and other UDP destination ports than 4791 are dropped."""
    target = Target(bench)
    whole = target.frame()
    protocols = {f"protocol {p}": target.seal(put(whole, IP + 9, bytes([p]))) for p in (0, 1, 6, 16, 50, 255)}
    target.reject(protocols, "protocol")
    ports = {
        f"port {p}": target.seal(put(whole, UDP + 2, p.to_bytes(2, "big"))) for p in (0, 4790, 4792, 0xB712)
    }
    target.reject(ports, "udp_port")
    target.complete()


@case("EPIC-W-08", "EPIC-W-21")
def transport_version(bench: Bench) -> None:
    """Frames of every transport version but 0 are dropped."""
    target = Target(bench)
    whole = target.frame()
    frames = {
        f"TVer {v}": target.seal(put(whole, BTH + 1, bytes([whole[BTH + 1] | v]))) for v in range(1, 16)
    }
    target.reject(frames, "tver")
    target.complete()


@case("EPIC-W-09", "EPIC-W-21")
def unknown_opcodes(bench: Bench) -> None:
    """Every one of the opcodes that the table of opcodes does not have is dropped."""
    target = Target(bench)
    whole = target.frame()
    unknown = sorted(set(range(256)) - {int(o) for o in Opcode})
    target.reject({f"opcode {o:#04x}": target.seal(put(whole, BTH, bytes([o]))) for o in unknown}, "opcode")
    target.complete()


@case("EPIC-W-13", "EPIC-W-21")
def pad_that_does_not_fit(bench: Bench) -> None:
    """Pad counts bytes that are not there (a cell without payload), and a payload that is no multiple of 4:
    dropped.
    """
    target = Target(bench)
    empty = target.frame(None, BARRIER)
    pads = {f"Pad {n} of no payload": target.seal(put(empty, BTH + 1, bytes([n << 4]))) for n in (1, 2, 3)}
    target.reject(pads, "pad")
    whole = target.frame()
    size = len(whole) - BTH
    uneven = {
        f"{size - 20 - n} bytes, Pad {pad}": cut(
            put(whole, BTH + 1, bytes([pad << 4])), size - n, full=target.full
        )
        for n in (1, 2, 3)
        for pad in (0, 4 - n)
    }
    target.reject(uneven, "pad", "element")
    target.complete()


@case("EPIC-W-19", "EPIC-W-21")
def descriptors_that_say_nothing(bench: Bench) -> None:
    """Reserved primitive and datatypes (also under ERR), NULL with a payload, neither NULL nor a payload,
    operator NONE with a payload: all are dropped.
    """
    target = Target(bench)
    whole, empty = target.frame(), target.frame(None)
    imm = SUM.pack()

    def described(frame: bytes, value: int) -> bytes:
        return target.seal(put(frame, IMM, value.to_bytes(4, "big")))

    frames = {"primitive 3": described(whole, imm | 3 << 14)}
    frames["primitive 3, ERR"] = described(whole, imm | 3 << 14 | ERR_BIT)
    frames["primitive 3, NULL"] = described(empty, imm | 3 << 14 | NULL_BIT)
    frames["primitive 3, NULL and ERR"] = described(empty, imm | 3 << 14 | NULL_BIT | ERR_BIT)
    for datatype in range(8, 16):
        frames[f"datatype {datatype}"] = described(whole, imm | datatype << 8)
        frames[f"datatype {datatype}, NULL"] = described(empty, imm | datatype << 8 | NULL_BIT)
        frames[f"datatype {datatype}, ERR"] = described(whole, imm | datatype << 8 | ERR_BIT)
    frames["NULL with a payload"] = described(whole, imm | NULL_BIT)
    frames["no payload, no NULL"] = described(empty, imm)
    frames["operator NONE with a payload"] = described(whole, BARRIER.pack())
    frames["operator NONE, no payload, no NULL"] = described(empty, BARRIER.pack())
    target.reject(frames, "descriptor")
    target.complete()


def _reasons_of(byte: int) -> tuple[str, ...]:
    """What may be counted for a frame with a bit of this byte inverted."""
    if byte < 12:
        return ("wrong_address",)
    if byte < IP:
        return ("ether_type", "vlan")
    if byte < UDP:
        more = ("ip_version", "ip_options", "ip_length", "udp_length", "truncated", "pad", "fragment")
        return ("ip_checksum", "icrc", *more, "protocol", "wrong_address", "wrong_port")
    if byte < BTH:
        return ("icrc", "udp_port", "udp_length", "truncated", "pad")
    if byte < IMM:
        late = ("window", "rx_stale", "rx_duplicate", "rx_out_of_order")
        return (
            "icrc",
            "opcode",
            "role",
            "tver",
            "pad",
            "element",
            "descriptor",
            "pkey",
            "unknown_qpn",
            *late,
        )
    return ("icrc", "descriptor", "element") if byte < PAYLOAD else ("icrc",)


@case("EPIC-W-11", "EPIC-W-21", needs=(("icrc", "full"),))
def every_bit_of_a_frame(bench: Bench) -> None:
    """Each single bit of a frame is inverted, in turn, and the ICRC left as it was (below UDP only where
    whole frames reach the device). All are dropped, and not even acknowledged; only the fields that the ICRC
    does not see and receivers ignore (UDP checksum, FECN, BECN, resv8a) are left out.
    """
    target = Target(bench, icrc="full")
    whole = target.frame()
    first = 0 if bench.traits.binding == "ethernet" else BTH
    ignored = {UDP + 6, UDP + 7, BTH + 4}
    groups: dict[tuple[str, ...], dict[str, bytes]] = {}
    for bit in range(8 * first, 8 * len(whole)):
        if bit // 8 not in ignored:
            groups.setdefault(_reasons_of(bit // 8), {})[f"bit {bit} inverted"] = flip(whole, bit)
    for reasons, frames in groups.items():
        target.reject(frames, *reasons)
    target.complete()


@case("EPIC-W-11", "EPIC-W-21", needs=(("icrc", "full"),))
def icrc_of_other_kinds(bench: Bench) -> None:
    """An ICRC of zeros, of ones, in the other byte order, of the payload alone, and that of the frame with
    another PSN are wrong: dropped. So is the right ICRC of an acknowledgement with one bit inverted.
    """
    target = Target(bench, icrc="full")
    whole = target.frame()
    other = target.seal(put(whole, BTH + 11, bytes([whole[BTH + 11] ^ 1])))
    wrong = {
        "zeros": bytes(4),
        "ones": b"\xff" * 4,
        "reversed": whole[-4:][::-1],
        "complement": bytes(b ^ 0xFF for b in whole[-4:]),
        "of another PSN": other[-4:],
    }
    target.reject({name: whole[:-4] + value for name, value in wrong.items()}, "icrc")
    target.complete()
