"""Random scripts, on the device and on the golden engine, compared frame by frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st

from epic_models.reference.endpoint import EngineBase, ack_aeth, nak_aeth
from epic_models.reference.registry import make_engine
from epic_spec import codec, psn
from epic_spec.packets import ERR_BIT, NULL_BIT, Descriptor, Packet
from epic_spec.tables import Datatype, NakCode, Opcode, Operator, Primitive
from epic_testbed.conformance.bench import Bench, Failure, Group, Peer, Step, describe
from epic_testbed.conformance.case import case

VIRTUAL_EXAMPLES, REAL_EXAMPLES = 60, 6
DESCRIPTORS = (
    Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=1),
    Descriptor(Primitive.ALLREDUCE, Operator.MAX, Datatype.INT32, tag=1),
    Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, rank=1, tag=1),
    Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT32, rank=0, tag=1),
)


@dataclass(frozen=True, slots=True)
class Action:
    """One frame. `peer` -1 is the parent; `step` moves from the peer's next number; `kind` is what it carries."""

    peer: int
    step: int
    kind: str
    what: int
    value: int
    fault: str


_KINDS = st.sampled_from(["data"] * 8 + ["null", "err", "long", "ack", "ack", "nak"])
_FAULTS = st.sampled_from(["none"] * 12 + ["qpn", "pkey", "port", "icrc", "ce"])
_STEPS = st.sampled_from([0] * 8 + [-1, -1, -2, 1, 2, -8])


def scripts(children: int, inner: bool) -> st.SearchStrategy[list[Action]]:
    """Lists of actions; mostly the same descriptor, so that cells complete."""
    peers = st.integers(-1 if inner else 0, children - 1)
    one = st.builds(
        Action, peers, _STEPS, _KINDS, st.sampled_from([0] * 9 + [1, 2, 3]), st.integers(-3, 3), _FAULTS
    )
    return st.lists(one, min_size=1, max_size=40)


class Twin:
    """The device and the golden engine with the same group."""

    def __init__(self, bench: Bench, children: int, inner: bool) -> None:
        bench.dut.reset()
        bench.log.clear()
        bench.groups.clear()
        self._bench = bench
        self._group: Group = bench.install(
            children,
            inner=inner,
            window=2,
            rto_initial_us=10_000_000,
            rto_min_us=10_000_000,
            rto_max_us=10_000_000,
        )
        self._golden: EngineBase = make_engine(bench.mode)
        self._golden.install(self._group.entry, 0.0)
        self._peers = {p.name: p for p in self._group.peers()}
        self._next = dict.fromkeys(self._peers, 0)

    def act(self, action: Action) -> None:
        """Give one frame to both and compare what they send."""
        peer = self._group.parent if action.peer < 0 else self._group.children[action.peer]
        assert peer is not None
        packet = self._packet(peer, action)
        port = peer.device_port
        frame = bytearray(codec.encode(packet, icrc=packet.icrc_ok))
        if action.fault == "icrc":
            frame[-1] ^= 1
        # Over udp a peer's address is what tells the port: a frame cannot come from another's.
        wired = self._bench.traits.binding == "ethernet"
        if action.fault == "port" and wired and len(self._peers) > 1:
            port = next(p.device_port for p in self._peers.values() if p is not peer)
        text = describe(packet, peer.edge) + ("" if action.fault == "none" else f" (fault: {action.fault})")
        self._bench.send_frame(port, bytes(frame), who=peer.name, text=text)
        output = self._golden.receive_frame(port, bytes(frame), 0.0)
        expected = [(p, codec.decode(codec.encode(k, icrc=k.icrc_ok), icrc="check")) for p, k in output.sends]
        self._compare(expected)

    def _packet(self, peer: Peer, action: Action) -> Packet:
        edge, params = peer.edge, self._group.params
        number = max(0, self._next[peer.name] + action.step)
        if action.kind in ("ack", "nak"):
            aeth = ack_aeth(0) if action.kind == "ack" else nak_aeth(NakCode.PSN_SEQUENCE_ERROR, 0)
            packet = edge.packet(Opcode.ACK, number, aeth=aeth, pkey=params.pkey)
        else:
            what = DESCRIPTORS[action.what]
            payload = {"null": b"", "err": b""}.get(action.kind, action.value.to_bytes(4, "big", signed=True))
            payload *= 2 if action.kind == "long" else 1
            imm = what.pack() | {"null": NULL_BIT, "err": NULL_BIT | ERR_BIT}.get(action.kind, 0)
            packet = edge.packet(
                Opcode.SEND_ONLY_IMM, number, imm=imm, payload=payload, ackreq=True, pkey=params.pkey
            )
            if action.step == 0 and action.fault in ("none", "ce"):
                self._next[peer.name] += 1
        packet.icrc_ok = params.icrc == "full"
        changes: dict[str, Any] = {
            "qpn": {"qpn": packet.qpn ^ 0x5A5A},
            "pkey": {"pkey": params.pkey ^ 0x0101},
            "ce": {"ecn": 3},
        }.get(action.fault, {})
        return packet.but(**changes) if changes else packet

    def _compare(self, expected: list[tuple[int, Packet]]) -> None:
        bench = self._bench
        wanted = [(port, p) for port, p in expected if self._is_data(p)]
        newest = {self._who(port, p): self._ack(port, p) for port, p in expected if not self._is_data(p)}
        got: list[tuple[int, Packet]] = []
        acks: dict[str, tuple[int, int]] = {}
        while len(got) < len(wanted) or any(acks.get(who) != ack for who, ack in newest.items()):
            if not self._take(bench.response, got, acks):
                break
        while self._take(bench.quiet, got, acks):
            pass
        lines = sorted(self._line(port, p) for port, p in wanted)
        arrived = sorted(self._line(port, p) for port, p in got)
        if Counter(lines) != Counter(arrived):
            what = "the device and the golden engine send different data"
            raise Failure(what, lines or ["nothing"], arrived or ["nothing"])
        if acks != newest and bench.mode != 3:
            raise Failure("different acknowledgements", self._acks(newest), self._acks(acks))
        if bench.mode == 3 and acks != newest:
            raise Failure("acknowledgements in Mode III", self._acks(newest), self._acks(acks))

    def _take(self, timeout: float, got: list[tuple[int, Packet]], acks: dict[str, tuple[int, int]]) -> bool:
        received = self._bench.dut.receive(timeout)
        if received is None:
            return False
        packet = codec.decode(received.frame, icrc="check")
        who = self._who(received.port, packet)
        edge = self._peers[who].edge if who in self._peers else None
        self._bench.log.append(
            Step(self._bench.now, who, "<-", describe(packet, edge, received=True), received.frame)
        )
        if self._is_data(packet):
            got.append((received.port, packet))
        else:
            acks[who] = self._ack(received.port, packet)
        return True

    @staticmethod
    def _is_data(packet: Packet) -> bool:
        return packet.opcode is not Opcode.ACK

    def _who(self, port: int, packet: Packet) -> str:
        for name, peer in self._peers.items():
            if peer.edge.local.qpn == packet.qpn and peer.device_port == port:
                return name
        return f"nobody (port {port}, QPN {packet.qpn:#x})"

    def _ack(self, port: int, packet: Packet) -> tuple[int, int]:
        """(packet number, kind): an RNR NAK's timer code is a freedom, its kind is not."""
        assert packet.aeth is not None
        kind = packet.aeth.syndrome & 0xE0
        code = packet.aeth.syndrome & 0x1F if kind == 0x60 else 0
        who = self._who(port, packet)
        base = self._peers[who].edge.psn_tx if who in self._peers else 0
        return psn.diff(packet.psn, base), kind | code

    def _line(self, port: int, packet: Packet) -> str:
        """Everything of a data frame that is not free."""
        plain = replace(packet, ttl=64, dscp=0, ident=0, sport=0xC000, se=False)
        who = self._who(port, packet)
        edge = self._peers[who].edge if who in self._peers else None
        ends = f"{plain.src_ip} > {plain.dst_ip} P_Key {plain.pkey:#x}{'' if packet.icrc_ok else ' bad ICRC'}"
        return f"{who}: {describe(plain, edge, received=True)} {'AckReq ' if plain.ackreq else ''}{ends}"

    @staticmethod
    def _acks(acks: dict[str, tuple[int, int]]) -> list[str]:
        return [f"{who}: #{number} syndrome {kind:#x}" for who, (number, kind) in acks.items()] or ["none"]


def _run(bench: Bench, children: int, *, inner: bool) -> None:
    examples = VIRTUAL_EXAMPLES if bench.traits.virtual_time else REAL_EXAMPLES

    def play(script: list[Action]) -> None:
        twin = Twin(bench, children, inner)
        for action in script:
            twin.act(action)

    config = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if bench.traits.virtual_time else (Phase.generate,),
    )
    tested: Callable[[], None] = hypothesis_seed(bench.seed)(config(given(scripts(children, inner))(play)))
    tested()


_CLAUSES = ("EPIC-A-02", "EPIC-A-04", "EPIC-E-01", "EPIC-E-14", "EPIC-E-15", "EPIC-W-16")


@case(*_CLAUSES, "EPIC-M3-05", modes=(3,))
def root_mode_3(bench: Bench) -> None:
    """Random scripts of two children on a root, frame by frame as the golden engine."""
    _run(bench, 2, inner=False)


@case(*_CLAUSES, "EPIC-M3-05", "EPIC-M3-11", modes=(3,))
def inner_mode_3(bench: Bench) -> None:
    """Random scripts of three children and a parent on an inner engine, frame by frame as the golden engine."""
    _run(bench, 3, inner=True)


@case(*_CLAUSES, "EPIC-M2-01", modes=(2,))
def root_mode_2(bench: Bench) -> None:
    """Random scripts of two children on a root, frame by frame as the golden engine."""
    _run(bench, 2, inner=False)


@case(*_CLAUSES, "EPIC-M2-01", modes=(2,))
def inner_mode_2(bench: Bench) -> None:
    """Random scripts of three children and a parent on an inner engine, frame by frame as the golden engine."""
    _run(bench, 3, inner=True)


@case(*_CLAUSES, "EPIC-M1-01", modes=(1,))
def root_mode_1(bench: Bench) -> None:
    """Random scripts of two children on a root, frame by frame as the golden engine."""
    _run(bench, 2, inner=False)


@case(*_CLAUSES, "EPIC-M1-01", modes=(1,))
def inner_mode_1(bench: Bench) -> None:
    """Random scripts of three children and a parent on an inner engine, frame by frame as the golden engine."""
    _run(bench, 3, inner=True)
