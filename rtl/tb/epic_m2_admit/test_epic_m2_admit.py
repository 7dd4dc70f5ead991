"""epic_m2_admit beside spec section 4.2: every record leaves as data, an acknowledgement or a reason, in order,
while edges come and go and the reader stops; one a cycle."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from common.frames import pack
from common.runner import ICARUS, VERILATOR, Bench, parameter, record
from common.streams import PATTERNS, reset, start_clock

from epic_spec.tables import COUNTERS, Opcode
from epic_testbed.rtl.records import constants
from epic_testbed.rtl.tables import TYPES_2

BENCH = Bench(
    top="epic_m2_admit",
    sources=("epic_m2_admit.v", "epic_edge_table.v", "epic_slice.v", "epic_arbiter.v", "epic_ram.v"),
    small=(
        (ICARUS, {"PORTS": 2, "EDGES": 8, "MTU": 64}),
        (VERILATOR, {"PORTS": 4, "EDGES": 32, "MTU": 1024}),
    ),
    configurations=(
        (ICARUS, {"PORTS": 8, "EDGES": 16, "MTU": 256}),
        (VERILATOR, {"PORTS": 3, "EDGES": 256, "MTU": 8192}),
    ),
)

PORTS = parameter("PORTS", 4)
EDGES = parameter("EDGES", 32)
MTU = parameter("MTU", 1024)
NAMES = list(COUNTERS)
NO_REASON = len(NAMES)
FORWARDED = 255
KINDS = {"none": 0, "ack": 1, "data": 2}


def unpack_in(word: int) -> dict[str, int]:
    known = constants(TYPES_2)
    names = [
        n.removeprefix("IN_").removesuffix("_LSB")
        for n in known
        if n.startswith("IN_") and n.endswith("_LSB")
    ]
    return {n.lower(): word >> known[f"IN_{n}_LSB"] & (1 << known[f"IN_{n}_WIDTH"]) - 1 for n in names}


@dataclass
class Sent:
    """A record on its way, and what must come of it."""

    meta: int
    port: int
    expected: dict[str, int]


class TB:
    """Edges, records and the reader."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.edges: dict[int, dict[str, int]] = {}
        self.waiting: list[deque[Sent]] = [deque() for _ in range(PORTS)]
        self.under_way: deque[Sent] = deque()
        self.came: list[tuple[int, dict[str, int]]] = []
        self.cycle = 0
        start_clock(dut)

    async def start(self, idle: str, backpressure: str) -> None:
        dut = self.dut
        for name in ("meta_valid", "meta_data", "in_ready", "write_edge", "write_index", "write_entry"):
            getattr(dut, name).value = 0
        await reset(dut)
        cocotb.start_soon(self._drive([PATTERNS[idle](p) for p in range(PORTS)], PATTERNS[backpressure](99)))

    async def _drive(self, idle, pause) -> None:
        dut = self.dut
        offered = [False] * PORTS
        held: int | None = None
        while True:
            for port in range(PORTS):
                offered[port] = offered[port] or (bool(self.waiting[port]) and not next(idle[port]))
            ready = not next(pause)
            dut.meta_valid.value = sum(offered[p] << p for p in range(PORTS))
            dut.meta_data.value = sum(self.waiting[p][0].meta << 289 * p for p in range(PORTS) if offered[p])
            dut.in_ready.value = ready
            await ReadOnly()
            taken, valid = int(dut.meta_ready.value), dut.in_valid.value == 1
            data = int(dut.in_data.value) if valid else None
            await RisingEdge(dut.clk)
            self.cycle += 1
            assert held is None or data == held, "a record changed while it waited"
            held = data if valid and not ready else None
            assert taken & (taken - 1) == 0, "two ports at once"
            for port in range(PORTS):
                if taken >> port & 1:
                    assert offered[port]
                    self.under_way.append(self.waiting[port].popleft())
                    offered[port] = False
            if valid and ready:
                self._check(unpack_in(data))

    def _check(self, got: dict[str, int]) -> None:
        assert self.under_way, "a record that nobody sent"
        expected = self.under_way.popleft().expected
        if got["kind"] != KINDS["none"]:
            assert got["reason"] == NO_REASON
        shown = {name: got[name] for name in expected}
        assert shown == expected
        self.came.append((self.cycle, got))

    async def edge(self, index: int, fields: dict[str, int]) -> None:
        dut = self.dut
        dut.write_edge.value, dut.write_index.value = 1, index
        dut.write_entry.value = pack("EDGE", **fields)
        await RisingEdge(dut.clk)
        dut.write_edge.value = 0
        if fields["role"]:
            self.edges[index] = fields
        else:
            self.edges.pop(index, None)

    async def drain(self) -> None:
        for _ in range(20_000):
            await RisingEdge(self.dut.clk)
            if (
                not any(self.waiting)
                and not self.under_way
                and self.dut.idle.value == 1
                and self.dut.in_valid.value == 0
            ):
                return
        raise AssertionError("records do not leave")

    def new_edge(self, index: int) -> dict[str, int]:
        bits = self.choice.getrandbits
        return {
            "peer_mac": bits(48), "own_mac": bits(48), "peer_ip": bits(32), "own_ip": bits(32), "pkey": bits(16),
            "icrc": bits(1), "role": self.choice.choice((1, 2, 3)), "port": self.choice.randrange(PORTS),
            "own_qpn": bits(16) << 8 | index, "group": bits(8), "psn_rx": bits(24), "psn_tx": bits(24),
            "child": bits(6),
        }  # fmt: skip

    def meta(self) -> tuple[int, int, dict[str, int]]:
        """A record, the port that it comes by, and what must come of it; mostly of an edge that is there."""
        choice = self.choice
        index = choice.choice([*self.edges, *([None] if choice.random() < 0.1 else [])])
        edge = self.edges.get(index) or self.new_edge(0) | {
            "own_qpn": choice.getrandbits(16) << 8 | 255,
            "port": 0,
        }
        opcode = choice.choices((Opcode.SEND_ONLY_IMM, Opcode.ACK, Opcode.SEND_ONLY), (6, 3, 0.4))[0]
        ack = opcode is Opcode.ACK
        bytes_ = 0 if ack else choice.choice((0, 1, 4, MTU - 1, MTU, MTU + 1, 16383))
        fields = {
            "verdict": 0, "icrc_ok": 1, "ce": choice.random() < 0.2, "ackreq": choice.random() < 0.5,
            "opcode": int(opcode),
            "payload_bytes": bytes_, "qpn": edge["own_qpn"], "psn": choice.getrandbits(24), "pkey": edge["pkey"],
            "imm": choice.getrandbits(32), "src_ip": edge["peer_ip"], "dst_ip": edge["own_ip"],
            "src_mac": edge["peer_mac"], "dst_mac": edge["own_mac"],
        }  # fmt: skip
        port = edge["port"]
        # Several faults at once: the first one counts.
        for fault in ("verdict", "icrc", "port", "mac", "ip", "pkey"):
            if choice.random() > 0.06:
                continue
            if fault == "verdict":
                fields["verdict"] = choice.choice(
                    (NAMES.index("drop_truncated"), NAMES.index("drop_ip_checksum"), FORWARDED)
                )
            elif fault == "icrc":
                fields["icrc_ok"] = 0
            elif fault == "port":
                port = (port + 1) % PORTS
            else:
                name = choice.choice(
                    {"mac": ("src_mac", "dst_mac"), "ip": ("src_ip", "dst_ip"), "pkey": ("pkey",)}[fault]
                )
                fields[name] ^= 1 << choice.randrange(16)
        return (
            port,
            pack("META", **{n: int(v) for n, v in fields.items()}),
            self.outcome(port, index, edge, fields),
        )

    def outcome(
        self, port: int, index: int | None, edge: dict[str, int], f: dict[str, int]
    ) -> dict[str, int]:
        """Spec section 4.2, in its order."""
        data = f["opcode"] == Opcode.SEND_ONLY_IMM
        ack = f["opcode"] == Opcode.ACK
        has_beats = f["verdict"] == 0 and data and 1 <= f["payload_bytes"] <= MTU
        expected = {
            "port": port, "imm": f["imm"], "bytes": f["payload_bytes"], "has_beats": has_beats,
            "forwarded": f["verdict"] == FORWARDED, "ackreq": f["ackreq"],
        }  # fmt: skip
        known = index is not None
        reasons = (
            (f["verdict"] == FORWARDED, NO_REASON),
            (f["verdict"] != 0, f["verdict"]),
            (not f["icrc_ok"] and (not known or edge["icrc"]), "drop_icrc"),
            (not known, "drop_unknown_qpn"),
            (port != edge["port"], "drop_wrong_port"),
            (f["src_mac"] != edge["peer_mac"] or f["dst_mac"] != edge["own_mac"], "drop_wrong_address"),
            (f["src_ip"] != edge["peer_ip"] or f["dst_ip"] != edge["own_ip"], "drop_wrong_address"),
            (f["pkey"] != edge["pkey"], "drop_pkey"),
            (not data and not ack, "drop_role"),
        )
        for applies, reason in reasons:
            if applies:
                number = NAMES.index(reason) if isinstance(reason, str) else reason
                return expected | {"kind": KINDS["none"], "reason": number, "ce": 0}
        base = edge["psn_tx"] if ack else edge["psn_rx"]
        assert index is not None
        return expected | {
            "kind": KINDS["ack" if ack else "data"], "edge": index, "number": (f["psn"] - base) % (1 << 24),
            "ce": data and f["ce"],
        }  # fmt: skip

    def push(self, count: int) -> None:
        for _ in range(count):
            port, meta, expected = self.meta()
            self.waiting[port].append(Sent(meta, port, expected))


@cocotb.test
@cocotb.parametrize(idle=["never", "bursts"], backpressure=["never", "sparse", "bursts"])
async def every_record_has_its_outcome(dut, idle: str, backpressure: str) -> None:
    """Edges are written while nothing is under way, some anew, some away."""
    tb = TB(dut)
    await tb.start(idle, backpressure)
    for index in range(EDGES - 1):
        await tb.edge(index, tb.new_edge(index))
    reasons: set[int] = set()
    for _ in range(12):
        tb.push(60)
        await tb.drain()
        for _ in range(3):
            index = tb.choice.randrange(EDGES - 1)
            present = len(tb.edges) > 2 and tb.choice.random() < 0.4
            await tb.edge(index, tb.new_edge(index) | ({"role": 0} if present else {}))
    reasons = {got["reason"] for _, got in tb.came if got["kind"] == KINDS["none"]}
    assert len(tb.came) == 720
    assert {
        NAMES.index(f"drop_{n}")
        for n in ("icrc", "unknown_qpn", "wrong_port", "wrong_address", "pkey", "role")
    } < reasons


@cocotb.test
async def a_record_a_cycle(dut) -> None:
    """From all ports at once, in turn: no bubble, and nobody is passed over."""
    tb = TB(dut)
    await tb.start("never", "never")
    for index in range(EDGES - 1):
        await tb.edge(index, tb.new_edge(index) | {"port": index % PORTS})
    while min(len(w) for w in tb.waiting) < 40:
        tb.push(1)
    for waiting in tb.waiting:
        while len(waiting) > 40:
            waiting.pop()
    await tb.drain()
    times = [cycle for cycle, _ in tb.came]
    assert times[-1] - times[0] == 40 * PORTS - 1, "a cycle without a record"
    ports = [got["port"] for _, got in tb.came]
    assert all(sorted(ports[at : at + PORTS]) == list(range(PORTS)) for at in range(0, len(ports), PORTS))
    record("cycles a record", (times[-1] - times[0] + 1) / len(times))
