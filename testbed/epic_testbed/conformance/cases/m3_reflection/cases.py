"""Mode III: what becomes of acknowledgements."""

from __future__ import annotations

from epic_spec import codec, psn
from epic_spec.packets import Aeth
from epic_spec.tables import Opcode
from epic_testbed.conformance.bench import Bench, Failure, describe
from epic_testbed.conformance.case import case
from epic_testbed.conformance.group import Peer

REFLECTION = (("ack_reflection", True),)
# ACK with and without credits, NAKs of each code, RNR NAKs of the shortest and longest codes; MSNs at the ends.
AETHS = (
    Aeth(0x1F, 0), Aeth(0x00, 1), Aeth(0x1F, 0xFFFFFF), Aeth(0x60, 2), Aeth(0x61, 0x800000), Aeth(0x63, 3),
    Aeth(0x20, 4), Aeth(0x2E, 5), Aeth(0x3F, 0x123456),
)  # fmt: skip


def _expect_reflected(bench: Bench, peer: Peer, number: int, aeth: Aeth) -> None:
    """The acknowledgement, and nothing else, comes back to the peer, for its contribution `number`."""
    bench.note(f"{peer.name} receives its acknowledgement of #{number}")
    bench.collect()
    bench.expect_silence()
    got = [(p, a) for p in bench.group.peers() for a in p.acks]
    for p in bench.group.peers():
        p.acks = []
    right = psn.add(peer.edge.psn_tx, number)
    if [(p.name, a.psn, a.aeth) for p, a in got] != [(peer.name, right, aeth)]:
        wanted = peer.edge.packet(Opcode.ACK, number, aeth=aeth).but(psn=right)
        raise Failure(
            f"{peer.name}: its acknowledgement does not come back as it should",
            [f"{peer.name}: {describe(wanted, peer.edge, received=True)}"],
            [f"{p.name}: {describe(a, p.edge, received=True)}" for p, a in got] or ["nothing"],
        )


@case("EPIC-M3-15", "EPIC-W-18", "EPIC-E-07", modes=(3,), needs=REFLECTION)
def every_acknowledgement_comes_back(bench: Bench) -> None:
    """After each of six cells every host acknowledges the result, with ACKs, NAKs of each code and RNR NAKs:
    each comes back to that host alone, AETH unchanged, for the contribution of the cell.
    """
    bench.install(2, ack_reflection=True)
    sent = 0
    for cell in range(6):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_result(cell, (cell + 1,))
        for child in bench.group.children:
            for aeth in AETHS:
                bench.acknowledge(child, cell, aeth)
                _expect_reflected(bench, child, cell, aeth)
                sent += 1
    bench.expect_counter({"tx_reflected": sent, "drop_role": 0, "tx_replay": 0})


@case("EPIC-M3-15", modes=(3,), needs=REFLECTION)
def acknowledgements_of_any_age(bench: Bench) -> None:
    """ACKs and NAKs of old results, of results that were not sent yet, and of one before the first come back
    just so; an engine keeps no account of them. Slots are not touched: the cell that is half complete
    completes.
    """
    bench.install(2, ack_reflection=True)
    slots = bench.group.params.slots
    for cell in range(2 * slots):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_result(cell, (cell + 1,))
    bench.contribute(0, 2 * slots, (5,))
    child = bench.group.children[1]
    for number in (0, 1, slots, 2 * slots - 1, 2 * slots, 2 * slots + 1, 5 * slots, -1):
        for aeth in (AETHS[0], AETHS[3]):
            bench.acknowledge(child, number, aeth)
            _expect_reflected(bench, child, number, aeth)
    bench.contribute(1, 2 * slots, (6,))
    bench.expect_result(2 * slots, (11,))


@case("EPIC-M3-15", "EPIC-W-15", modes=(3,), needs=REFLECTION)
def reflection_across_the_psn_wrap(bench: Bench) -> None:
    """The PSN bases stand a few packets before 2^24, different for both directions: reflected PSNs wrap with
    those of the contributions.
    """
    bench.install(2, ack_reflection=True, base=(1 << 24) - 7)
    for cell in range(12):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_result(cell, (cell + 1,))
        for child in bench.group.children:
            bench.acknowledge(child, cell, AETHS[cell % len(AETHS)])
            _expect_reflected(bench, child, cell, AETHS[cell % len(AETHS)])


@case("EPIC-M3-15", "EPIC-W-18", modes=(3,), needs=REFLECTION)
def equal_psns_are_not_confused(bench: Bench) -> None:
    """Both directions of an edge have the same PSN base, so an ACK of result s and contribution s have equal
    PSNs. ACKs before and after a contribution change nothing of it, and come back.
    """
    bench.install(2, ack_reflection=True, base=0x100, equal_bases=True)
    for cell in range(6):
        for child in bench.group.children:
            bench.acknowledge(child, cell, AETHS[0])
            _expect_reflected(bench, child, cell, AETHS[0])
        bench.contribute(0, cell, (cell,))
        bench.acknowledge(bench.group.children[1], cell, AETHS[3])
        _expect_reflected(bench, bench.group.children[1], cell, AETHS[3])
        bench.contribute(1, cell, (1,))
        bench.expect_result(cell, (cell + 1,))


@case("EPIC-M3-15", "EPIC-W-20", modes=(3,), needs=REFLECTION)
def reflection_below_a_parent(bench: Bench) -> None:
    """At an inner engine a host's ACK comes back to it and does not go up, also with a payload behind the
    AETH; those of the parent are dropped.
    """
    bench.install(2, inner=True, ack_reflection=True)
    parent = bench.group.parent
    assert parent is not None
    full = bench.group.params.icrc == "full"
    for cell in range(3):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_partial(cell, (cell + 1,))
        above = parent.edge.packet(Opcode.ACK, cell, aeth=AETHS[0], pkey=bench.group.params.pkey)
        bench.reject(
            [(f"ACK {cell} of the parent", parent.device_port, codec.encode(above, icrc=full))], "role"
        )
        bench.result_from_parent(cell, (cell + 1,))
        bench.expect_result(cell, (cell + 1,))
        child = bench.group.children[cell % 2]
        packet = child.edge.packet(
            Opcode.ACK, cell, aeth=AETHS[1], payload=b"\1\2\3\4\5", pkey=bench.group.params.pkey
        )
        packet.icrc_ok = full
        bench.send(child, packet)
        _expect_reflected(bench, child, cell, AETHS[1])


@case("EPIC-M3-16", "EPIC-W-21", modes=(3,), needs=(*REFLECTION, ("children", 2)))
def engines_are_not_answered(bench: Bench) -> None:
    """Child 0 is an engine, child 1 a host. Acknowledgements of child 0 are dropped, those of child 1 come
    back.
    """
    bench.install(ranks_below=(2, 1), ack_reflection=True)
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (3,))
    engine, host = bench.group.children
    for aeth in AETHS:
        packet = engine.edge.packet(Opcode.ACK, 0, aeth=aeth, pkey=bench.group.params.pkey)
        frame = codec.encode(packet, icrc=bench.group.params.icrc == "full")
        bench.reject([(describe(packet, engine.edge), engine.device_port, frame)], "role")
        bench.acknowledge(host, 0, aeth)
        _expect_reflected(bench, host, 0, aeth)


@case("EPIC-M3-16", "EPIC-M3-13", "EPIC-W-21", modes=(3,))
def without_reflection_nothing_comes_back(bench: Bench) -> None:
    """A group without ack_reflection: ACKs, NAKs and RNR NAKs of hosts for results that they have, or lack,
    are dropped and counted; nothing is sent, and no slot is touched.
    """
    bench.install(2, ack_reflection=False)
    full = bench.group.params.icrc == "full"
    for cell in range(3):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_result(cell, (cell + 1,))
        frames = []
        for child in bench.group.children:
            for aeth in AETHS:
                packet = child.edge.packet(Opcode.ACK, cell, aeth=aeth, pkey=bench.group.params.pkey)
                frame = codec.encode(packet, icrc=full)
                frames.append((f"{describe(packet, child.edge)} of {child.name}", child.device_port, frame))
        bench.reject(frames, "role")


@case("EPIC-M3-15", "EPIC-E-01", modes=(3,), needs=REFLECTION)
def strangers_are_not_answered(bench: Bench) -> None:
    """An ACK to a QPN that no edge has, or with another P_Key, is dropped and does not come back to anyone."""
    bench.install(2, ack_reflection=True, pkey=0x4321)
    child = bench.group.children[0]
    packet = child.edge.packet(Opcode.ACK, 0, aeth=AETHS[0], pkey=0x4321)
    full = bench.group.params.icrc == "full"
    port = child.device_port
    bench.reject(
        [("unknown QPN", port, codec.encode(packet.but(qpn=packet.qpn ^ 1), icrc=full))], "unknown_qpn"
    )
    bench.reject([("other P_Key", port, codec.encode(packet.but(pkey=0xC321), icrc=full))], "pkey")
