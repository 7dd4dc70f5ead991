"""Frames that are right by themselves and wrong for the edge or the group that they are sent to."""

from __future__ import annotations

from epic_models.reference.endpoint import ack_aeth
from epic_spec import codec
from epic_spec.packets import Descriptor
from epic_spec.tables import DATATYPE_BYTES, Datatype, Opcode, Operator, Primitive
from epic_testbed.conformance.bench import SUM, Bench
from epic_testbed.conformance.case import case
from epic_testbed.conformance.craft import ETHERNET, Target

BYTES = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT32, rank=0, tag=3)


@case("EPIC-E-01", "EPIC-W-21", needs=ETHERNET)
def wrong_port(bench: Bench) -> None:
    """Child 1's contribution arrives on the port of child 0: dropped."""
    target = Target(bench)
    other = bench.group.children[0].device_port
    bench.reject([("on the port of child 0", other, target.frame())], "wrong_port")
    target.complete()


@case("EPIC-E-01", "EPIC-W-21", needs=ETHERNET)
def wrong_addresses(bench: Bench) -> None:
    """Child 1's contribution has one of its four addresses changed: by a bit, to the other end's, to
    broadcast and multicast, to those of the other child's edge. All are dropped.
    """
    target = Target(bench)
    packet, other = target.packet(), bench.group.children[0].edge
    macs = {
        "broadcast": "ff:ff:ff:ff:ff:ff",
        "multicast": "01:00:5e:00:00:01",
        "zero": "00:00:00:00:00:00",
    }
    changes = {
        "source IP, last bit": {"src_ip": _ip(packet.src_ip, 1)},
        "source IP, first bit": {"src_ip": _ip(packet.src_ip, 1 << 31)},
        "destination IP, last bit": {"dst_ip": _ip(packet.dst_ip, 1)},
        "destination IP, first bit": {"dst_ip": _ip(packet.dst_ip, 1 << 31)},
        "destination IP, broadcast": {"dst_ip": "255.255.255.255"},
        "IPs swapped": {"src_ip": packet.dst_ip, "dst_ip": packet.src_ip},
        "source MAC, last bit": {"src_mac": _mac(packet.src_mac, 1)},
        "source MAC, first octet": {"src_mac": _mac(packet.src_mac, 4 << 40)},
        "destination MAC, last bit": {"dst_mac": _mac(packet.dst_mac, 1)},
        "MACs swapped": {"src_mac": packet.dst_mac, "dst_mac": packet.src_mac},
        "source IP of the other child": {"src_ip": other.local.ip},
        **{f"destination MAC, {name}": {"dst_mac": mac} for name, mac in macs.items()},
    }
    target.reject(
        {n: codec.encode(packet.but(**c), icrc=target.full) for n, c in changes.items()}, "wrong_address"
    )
    target.complete()


def _ip(text: str, mask: int) -> str:
    number = int.from_bytes(bytes(map(int, text.split("."))), "big") ^ mask
    return ".".join(map(str, number.to_bytes(4, "big")))


def _mac(text: str, mask: int) -> str:
    return (int(text.replace(":", ""), 16) ^ mask).to_bytes(6, "big").hex(":")


@case("EPIC-E-01", "EPIC-W-21")
def unknown_qpn(bench: Bench) -> None:
    """Child 1's contribution goes to QPNs that no edge has: each of 24 bits inverted, 0, 1, all ones, and the
    QPN of the suite's own end. All are dropped.
    """
    target = Target(bench)
    packet, own = target.packet(), target.edge.local.qpn
    used = {e.local.qpn for e in bench.group.entry.children}
    qpns = {packet.qpn ^ 1 << n for n in range(24)} | {0, 1, 0xFFFFFF, own}
    target.reject(
        {f"QPN {q:#08x}": codec.encode(packet.but(qpn=q), icrc=target.full) for q in sorted(qpns - used)},
        "unknown_qpn",
    )
    target.complete()


@case("EPIC-E-01", "EPIC-E-02", "EPIC-W-21")
def qpn_of_another_edge(bench: Bench) -> None:
    """Child 1's contribution goes to the QPN of child 0's edge, and of an edge of a second group which lives
    on the other port; the PSN is the one that is expected there. Dropped, in both groups.
    """
    bench.install(2, number=2)
    second = bench.group
    target = Target(bench)
    packet = target.packet()
    for group, name in ((bench.groups[1], "child 0"), (second, "child 0 of group 2")):
        there = group.children[0]
        cell = 1 if group is bench.groups[1] else 0
        psn = group.packets(there, cell, (5,), SUM)[0].psn
        crossed = packet.but(qpn=there.edge.peer.qpn, psn=psn)
        target.reject(
            {f"to the QPN of {name}": codec.encode(crossed, icrc=target.full)}, "wrong_port", "wrong_address"
        )
    target.complete()
    bench.use(2)
    bench.contribute_all(0, [(3,), (4,)])
    bench.expect_result(0, (7,))


@case("EPIC-W-10", "EPIC-W-21")
def wrong_pkey(bench: Bench) -> None:
    """The group's P_Key is 0x7A51; frames come with each of its sixteen bits inverted, with the default
    P_Key, and 0: all are dropped. The membership bit counts.
    """
    target = Target(bench, pkey=0x7A51)
    packet = target.packet()
    keys = [0x7A51 ^ 1 << n for n in range(16)] + [0xFFFF, 0]
    target.reject(
        {f"P_Key {k:#06x}": codec.encode(packet.but(pkey=k), icrc=target.full) for k in keys}, "pkey"
    )
    target.complete()


def _as(target: Target, opcode: Opcode) -> bytes:
    """Child 1's contribution with another opcode, its immediate left out where the opcode has none."""
    packet = target.packet()
    if opcode not in (Opcode.SEND_LAST_IMM, Opcode.SEND_ONLY_IMM):
        packet = packet.but(imm=None)
    return codec.encode(packet.but(opcode=opcode), icrc=target.full)


@case("EPIC-E-17", "EPIC-W-21", modes=(2, 3))
def opcodes_of_mode_1(bench: Bench) -> None:
    """SEND FIRST, MIDDLE, LAST WITH IMMEDIATE, and LAST and ONLY without, are dropped."""
    target = Target(bench)
    opcodes = (
        Opcode.SEND_FIRST,
        Opcode.SEND_MIDDLE,
        Opcode.SEND_LAST_IMM,
        Opcode.SEND_LAST,
        Opcode.SEND_ONLY,
    )
    target.reject({o.name: _as(target, o) for o in opcodes}, "role")
    target.complete()


@case("EPIC-E-17", "EPIC-W-21", modes=(1,))
def opcodes_without_immediate(bench: Bench) -> None:
    """SEND ONLY without immediate, which no mode uses, is dropped."""
    target = Target(bench)
    target.reject({"SEND_ONLY": _as(target, Opcode.SEND_ONLY)}, "role")
    target.complete()


@case("EPIC-E-17", "EPIC-M3-16", "EPIC-W-21", modes=(3,))
def acknowledgements_in_mode_3(bench: Bench) -> None:
    """ACK, NAK and RNR NAK from a child and from the parent are dropped, before and after a result."""
    bench.install(2, inner=True, ack_reflection=False)
    for cell in range(2):
        frames = []
        for peer in bench.group.peers():
            for name, syndrome in (("ACK", 0x1F), ("RNR NAK", 0x2C), ("NAK", 0x60), ("NAK 3", 0x63)):
                packet = peer.edge.packet(Opcode.ACK, cell, aeth=ack_aeth(1))
                packet = packet.but(aeth=type(ack_aeth(1))(syndrome, 1), pkey=bench.group.params.pkey)
                frame = codec.encode(packet, icrc=bench.group.params.icrc == "full")
                frames.append((f"{name} of {cell} from {peer.name}", peer.device_port, frame))
        bench.reject(frames, "role", "unexpected")
        bench.contribute_all(cell, [(1,), (2,)])
        bench.expect_partial(cell, (3,))
        bench.result_from_parent(cell, (3,))
        bench.expect_result(cell, (3,))
        bench.reject(frames, "role", "unexpected")


@case("EPIC-E-10", "EPIC-W-21")
def oversize_contribution(bench: Bench) -> None:
    """A contribution of one packet with 4 bytes more than payload_bytes is dropped; one of exactly
    payload_bytes is taken.
    """
    bench.install(2, icrc="full" if "full" in bench.traits.capabilities.icrc else "none")
    group, child = bench.group, bench.group.children[1]
    size = group.params.payload_bytes
    for cell in range(2):
        bench.contribute(0, cell, bytes(size))
        bench.sync()
        packet = group.packets(child, cell, bytes(4), SUM)[0]
        frames = []
        for more in (4, 64, size):
            frame = codec.encode(packet.but(payload=b"\1" * (size + more)), icrc=group.params.icrc == "full")
            frames.append((f"{size + more} bytes", child.device_port, frame))
        # Mode I refuses it with a NAK (EPIC-M1-07).
        bench.reject(frames, "oversize", "invalid_request", answered=bench.mode == 1)
        bench.contribute(1, cell, b"\1" * size)
        bench.expect_result(cell, b"\1" * size)


@case("EPIC-E-10", "EPIC-W-21")
def oversize_result(bench: Bench) -> None:
    """A result of one packet with more than payload_bytes is dropped; the right one, of exactly
    payload_bytes, is passed on.
    """
    bench.install(2, inner=True)
    group, parent = bench.group, bench.group.parent
    assert parent is not None
    size = group.params.payload_bytes
    bench.contribute_all(0, [bytes(size), b"\1" * size])
    bench.expect_partial(0, b"\1" * size)
    packet = group.packets(parent, 0, bytes(4), SUM)[0]
    frames = [
        (
            f"{size + more} bytes",
            parent.device_port,
            codec.encode(packet.but(payload=b"\2" * (size + more)), icrc=group.params.icrc == "full"),
        )
        for more in (4, size)
    ]
    bench.reject(frames, "oversize", "invalid_request", answered=bench.mode == 1)
    bench.result_from_parent(0, b"\1" * size)
    bench.expect_result(0, b"\1" * size)


@case("EPIC-E-11", "EPIC-W-21")
def not_whole_elements(bench: Bench) -> None:
    """For each datatype of more than a byte that the device offers: contributions of one element and a byte,
    half an element, and one byte less than two are not added; the right one then completes the cell.
    """
    bench.install(2)
    group, child = bench.group, bench.group.children[1]
    offered = [d for d in Datatype if d.name in group.params.datatypes and DATATYPE_BYTES[d.name] > 1]
    for cell, datatype in enumerate(offered):
        size = DATATYPE_BYTES[datatype.name]
        what = Descriptor(Primitive.ALLREDUCE, Operator.SUM, datatype, tag=cell)
        with bench.trying(datatype.name):
            bench.contribute(0, cell, bytes(2 * size), what)
            bench.sync()
            packet = group.packets(child, cell, bytes(size), what)[0]
            frames = []
            for length in (size + 1, size // 2, 2 * size - 1):
                frame = codec.encode(packet.but(payload=b"\1" * length), icrc=group.params.icrc == "full")
                frames.append((f"{length} bytes", child.device_port, frame))
            # Mode I refuses it with a NAK (EPIC-M1-19).
            bench.reject(frames, "element", "invalid_request", answered=bench.mode == 1)
            bench.contribute(1, cell, bytes(2 * size), what)
            bench.expect_result(cell, bytes(2 * size), what)


@case("EPIC-E-11")
def opaque_payloads_have_any_length(bench: Bench) -> None:
    """Broadcast payloads of INT32 and FP64 cells, and payloads of contributions with ERR, have 1 to 7 bytes:
    they are no runs of elements and are taken.
    """
    bench.install(2)
    cell = 0
    for datatype in (Datatype.INT32, Datatype.FP64):
        what = Descriptor(Primitive.BROADCAST, Operator.SUM, datatype, rank=1, tag=3)
        for size in (1, 2, 3, 5, 7):
            with bench.trying(f"Broadcast of {size} bytes as {datatype.name}"):
                bench.contribute_all(cell, [None, b"\x80" * size], what)
                bench.expect_result(cell, b"\x80" * size, what)
            cell += 1
    poisoned = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, err=True, tag=4)
    for size in (1, 2, 3, 5, 6, 7):
        with bench.trying(f"ERR with {size} bytes"):
            bench.contribute(0, cell, b"\x80" * size, poisoned)
            bench.contribute(
                1, cell, (1,), Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=4)
            )
            bench.expect_result(cell, None, poisoned, err=True)
        cell += 1
