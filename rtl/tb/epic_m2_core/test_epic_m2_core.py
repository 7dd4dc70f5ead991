"""epic_m2_core beside the golden engine: the same packets, the same time; what both send, count and keep is compared.
META and payload in, JOBs and payload out; frames are other benches' business."""

from __future__ import annotations

import random
from collections import deque
from itertools import pairwise, product

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from common.frames import pack, unpack
from common.runner import ICARUS, VERILATOR, Bench, parameter, record, steps
from common.streams import PATTERNS, reset, start_clock

from epic_models.reference.endpoint import ack_aeth, nak_aeth
from epic_models.reference.group import EngineGroup, GroupParams
from epic_models.reference.mode2 import Mode2Engine
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_spec import psn
from epic_spec.packets import ERR_BIT, NULL_BIT, Aeth, Descriptor, Packet
from epic_spec.tables import COUNTERS, Datatype, NakCode, Opcode, Operator, Primitive, Syndrome
from epic_testbed.rtl import tables2
from epic_testbed.rtl.check.sources import closure, modules
from epic_testbed.rtl.tables2 import Placed, command

SOURCES = tuple(path.name for path in closure(["epic_m2_core"], modules()))

SMALL = {
    "DATA_W": 128,
    "PORTS": 4,
    "MTU": 64,
    "SLOTS": 32,
    "EDGES": 16,
    "GROUPS": 4,
    "WINDOW": 8,
    "CLOCK_MHZ": 0,
}
TINY = {
    "DATA_W": 64,
    "PORTS": 2,
    "MTU": 64,
    "SLOTS": 16,
    "EDGES": 8,
    "GROUPS": 4,
    "WINDOW": 8,
    "CLOCK_MHZ": 0,
}
BENCH = Bench(
    top="epic_m2_core",
    sources=SOURCES,
    small=((ICARUS, TINY), (ICARUS, TINY | {"CLOCK_MHZ": 20}), (VERILATOR, SMALL | {"CYCLES": 1})),
    configurations=(
        *(
            (VERILATOR, SMALL | {"DATA_W": width, "PORTS": ports, "MTU": mtu})
            for width, ports, mtu in ((64, 2, 64), (256, 4, 256), (512, 8, 1024), (128, 4, 1024))
        ),
        (VERILATOR, SMALL),
        (VERILATOR, SMALL | {"CYCLES": 7}),
    ),
)

WIDTH = parameter("DATA_W", 128)
PORTS = parameter("PORTS", 4)
MTU = parameter("MTU", 64)
RANKS = parameter("RANKS", 64)
WINDOW = parameter("WINDOW", 8)
BYTES = WIDTH // 8
CLOCK_MHZ = parameter("CLOCK_MHZ", 100)
CYCLES = parameter("CYCLES", 4)
QUIET = 60 * CYCLES  # cycles in which something comes or goes, if there is anything to do
TIMEOUT_US = 50_000  # of every group, without adaption: microseconds of both clocks are then the same

virtual = cocotb.test(skip=CLOCK_MHZ != 0)


def address(port: int, host: int) -> LinkEnd:
    return LinkEnd(port, f"10.7.{port}.{host}", f"02:00:00:07:{port:02x}:{host:02x}")


def make_group(
    number: int, ranks_below: list[int], *, inner: bool, first_port: int = 0, **params: object
) -> EngineGroup:
    """A group on the engine "x"; child i is on port first_port + i, the parent on the one after, modulo PORTS."""
    names = [sum(ranks_below[:c]) if n == 1 else f"e{c}" for c, n in enumerate(ranks_below)]
    kids: dict = {"x": tuple(names)}
    if inner:
        kids["top"] = ("x", sum(ranks_below))
    for c, n in enumerate(ranks_below):
        if n > 1:
            kids[f"e{c}"] = tuple(range(sum(ranks_below[:c]), sum(ranks_below[: c + 1])))
    tree = Tree("top" if inner else "x", kids)
    nowhere = (LinkEnd(0, "192.0.2.1", "02:00:c0:00:02:01"), LinkEnd(1, "192.0.2.2", "02:00:c0:00:02:02"))
    ends = {(child, engine): nowhere for engine in tree.engines() for child in tree.children[engine]}
    for c, name in enumerate(names):
        port = (first_port + c) % PORTS
        ends[name, "x"] = (address(port, 10 + c), address(port, 1))
    if inner:
        port = (first_port + len(names)) % PORTS
        ends["x", "top"] = (address(port, 1), address(port, 9))
    timeouts = {"rto_initial_us": TIMEOUT_US, "rto_min_us": TIMEOUT_US, "rto_max_us": 4 * TIMEOUT_US}
    values = GroupParams(
        group=number, mode=2, world_size=sum(ranks_below) + inner, payload_bytes=MTU, **(timeouts | params)
    )
    return build_group(tree, values, ends, seed=number).engines["x"]


class TB:
    """Drives all ports of the core, cycle by cycle, and receives what it sends."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.golden = Mode2Engine()
        self.placed: dict[int, Placed] = {}
        self.metas: list[deque[int]] = [deque() for _ in range(PORTS)]
        self.pushed: list[deque[Packet]] = [deque() for _ in range(PORTS)]  # that were not taken up
        self.taken: list[tuple[int, Packet]] = []  # in the order in which the core took them up
        self.beats: list[deque[int]] = [deque() for _ in range(PORTS)]
        self.jobs: list[list[dict[str, int]]] = [[] for _ in range(PORTS)]
        self.waiting: list[deque[int]] = [deque() for _ in range(PORTS)]
        self.held: set[int] = set()
        self.sent: list[tuple[int, Packet]] = []
        self.now = 0.0
        self.cycle = 0
        self.busy_until = 0
        start_clock(dut)

    async def start(self, idle: str = "never", backpressure: str = "never") -> None:
        dut = self.dut
        for name in ("meta_valid", "meta_data", "payload_valid", "payload_data", "job_ready", "send_ready",
                     "edge_index",
                     "sent", "command", "command_table", "command_index", "command_data", "counter_index"):  # fmt: skip
            getattr(dut, name).value = 0
        await reset(dut)
        cocotb.start_soon(self._drive([PATTERNS[idle](p) for p in range(PORTS)],
                                      [PATTERNS[backpressure](20 + p) for p in range(2 * PORTS)]))  # fmt: skip
        for _ in range(80):
            await RisingEdge(dut.clk)

    async def _drive(self, idle, pauses) -> None:
        """All streams: what is valid stays until it is taken."""
        dut = self.dut
        offered = [False] * PORTS
        while True:
            for port in range(PORTS):
                offered[port] = offered[port] or (bool(self.metas[port]) and not next(idle[port]))
            ready = sum((not next(pauses[p]) and p not in self.held) << p for p in range(PORTS))
            takes = sum((not next(pauses[PORTS + p]) and p not in self.held) << p for p in range(PORTS))
            dut.meta_valid.value = sum(offered[p] << p for p in range(PORTS))
            dut.meta_data.value = sum(self.metas[p][0] << 289 * p for p in range(PORTS) if offered[p])
            dut.payload_valid.value = sum(bool(self.beats[p]) << p for p in range(PORTS))
            dut.payload_data.value = sum(self.beats[p][0] << WIDTH * p for p in range(PORTS) if self.beats[p])
            dut.job_ready.value = ready
            dut.send_ready.value = takes
            await RisingEdge(dut.clk)
            self.cycle += 1
            met = int(dut.meta_ready.value)
            chosen = int(dut.shown_valid.value) & int(dut.shown_ready.value)
            used = int(dut.payload_ready.value) & int(dut.payload_valid.value)
            jobs, beats = int(dut.job_valid.value) & ready, int(dut.send_valid.value) & takes
            if any(offered) or used or jobs or beats:
                self.busy_until = self.cycle
            for port in range(PORTS):
                if offered[port] and met >> port & 1:
                    self.metas[port].popleft()
                    offered[port] = False
                if chosen >> port & 1:
                    self.taken.append((port, self.pushed[port].popleft()))
                if used >> port & 1 and self.beats[port]:
                    self.beats[port].popleft()
                if jobs >> port & 1:
                    self.jobs[port].append(
                        unpack("JOB", int(dut.job_data.value) >> 89 * port & (1 << 89) - 1)
                    )
                if beats >> port & 1:
                    self.waiting[port].append(int(dut.send_data.value) >> WIDTH * port & (1 << WIDTH) - 1)
                self._assemble(port)

    def _assemble(self, port: int) -> None:
        """Jobs become packets when their payload is there."""
        while self.jobs[port]:
            job = self.jobs[port][0]
            size = job["payload_bytes"]
            assert job["has_payload"] == (size > 0)
            beats = -(-size // BYTES)
            if len(self.waiting[port]) < beats:
                return
            raw = b"".join(self.waiting[port].popleft().to_bytes(BYTES, "little") for _ in range(beats))
            assert not any(raw[size:]), "bytes behind the payload are not 0"
            self.jobs[port].pop(0)
            placed, position = next(
                (g, g.edges.index(job["edge"])) for g in self.placed.values() if job["edge"] in g.edges
            )
            edge = placed.ends[position]
            assert edge.port == port, "a job for another port than the edge's"
            ack = job["opcode"] == Opcode.ACK
            packet = edge.packet(
                Opcode(job["opcode"]), 0, imm=None if ack else job["imm"],
                aeth=Aeth(job["imm"] >> 24, job["imm"] & 0xFFFFFF) if ack else None, payload=raw[:size],
                ackreq=bool(job["ackreq"]), pkey=placed.entry.params.pkey, ecn=3 if job["ce"] else 2,
            )  # fmt: skip
            self.sent.append((port, packet.but(psn=job["psn"])))

    async def settle(self, quiet: int = 0) -> None:
        """Until nothing has come or gone for `quiet` cycles; without, until the core has said for 8 cycles that it has
        nothing to do (from a JOB that is made to one that is seen it takes 2) or stands still."""
        self.busy_until = started = self.cycle
        idle = 0
        while self.cycle - self.busy_until < (quiet or QUIET):
            await RisingEdge(self.dut.clk)
            idle = 0 if any(self.metas) or self.dut.idle.value != 1 else idle + 1
            if idle == 8 and not quiet:
                return
            assert self.cycle - started < 20_000, "the core does not come to rest"

    async def command(self, table: int, index: int, data: int = 0, words: int = 0) -> None:
        dut = self.dut
        dut.command.value, dut.command_table.value = 1, table
        dut.command_index.value, dut.command_data.value = index, data
        await RisingEdge(dut.clk)
        dut.command.value = 0
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        for _ in range(1000):
            if dut.busy.value == 0:
                return
            await RisingEdge(dut.clk)
        raise AssertionError(f"command {table} is not done")

    async def install(self, entry: EngineGroup) -> Placed:
        slot = sum(g.entry.params.window for g in self.placed.values())
        edge = sum(len(g.edges) for g in self.placed.values())
        placed = Placed(entry, len(self.placed), slot)
        placed.edges = list(range(edge, edge + len(placed.ends)))
        for item in tables2.install(placed, RANKS):
            await self.command(*item)
        self.golden.install(entry, self.now)
        self.placed[entry.params.group] = placed
        return placed

    async def renew(self, number: int) -> None:
        """Removes a group and installs it again: nothing of the time before is left."""
        placed = self.placed[number]
        for item in (*tables2.remove(placed), *tables2.install(placed, RANKS)):
            await self.command(*item)
        self.golden.remove(number)
        self.golden.install(placed.entry, self.now)

    async def pass_time(self, milliseconds: int) -> None:
        """Both clocks, a little more: no deadline is as long as a number of steps, and the core's timers are late by
        their granularity."""
        self.now += milliseconds / 1000 + 3e-6
        await self.command(*command("TABLE_TIME", 0, 1000 * milliseconds + 5, 1))
        for _ in range(2 * 16 + 20):
            await RisingEdge(self.dut.clk)
        await self.settle(QUIET)
        output = self.golden.poll(self.now)
        self.compare(output.sends)

    def push(self, port: int, packet: Packet) -> None:
        """A packet as epic_rx gives it."""
        size = len(packet.payload)
        self.pushed[port].append(packet)
        word = (
            packet.imm
            if packet.imm is not None
            else packet.aeth.syndrome << 24 | packet.aeth.msn
            if packet.aeth
            else 0
        )
        self.metas[port].append(pack(
            "META", icrc_ok=packet.icrc_ok, ce=packet.ecn == 3, ackreq=packet.ackreq, opcode=packet.opcode,
            payload_bytes=size, qpn=packet.qpn, psn=packet.psn, pkey=packet.pkey, imm=word,
            src_ip=ip(packet.src_ip), dst_ip=ip(packet.dst_ip), src_mac=mac(packet.src_mac),
            dst_mac=mac(packet.dst_mac),
        ))  # fmt: skip
        if packet.opcode is Opcode.SEND_ONLY_IMM and size <= MTU:
            for at in range(0, size, BYTES):
                self.beats[port].append(int.from_bytes(packet.payload[at : at + BYTES], "little"))

    async def act(self, port: int, packet: Packet) -> None:
        self.push(port, packet)
        await self.settle()
        self.compare(self.golden.receive(port, packet, self.now).sends)

    def compare(self, expected: list[tuple[int, Packet]]) -> None:
        """New packets and repeated ones in the order of each edge; acknowledgements each (all are asked for)."""
        got, self.sent = self.sent, []
        for data in (True, False):
            wanted = sequences(expected, data)
            found = sequences(got, data)
            assert found == wanted, (
                f"{'data' if data else 'acknowledgements'}: expected {wanted}, got {found}"
            )

    async def counters(self) -> dict[str, int]:
        values = {}
        for index, name in enumerate(COUNTERS):
            self.dut.counter_index.value = index
            for _ in range(3):
                await RisingEdge(self.dut.clk)
            values[name] = int(self.dut.counter_value.value)
        return values

    async def check_state(self, but: tuple[str, ...] = ("tx_frames",)) -> None:
        """Counters, slots and edges in error are those of the golden engine."""
        got, wanted = await self.counters(), self.golden.counters()
        differ = {n: (got[n], wanted[n]) for n in COUNTERS if got[n] != wanted[n] and n not in but}
        assert not differ, f"counters (got, expected): {differ}"
        for number, placed in self.placed.items():
            status = self.golden.status(number)
            slots = []
            for slot in range(placed.slot_base, placed.slot_base + placed.entry.params.window):
                await self.command(*command("TABLE_SLOT_READ", slot, placed.index, 1))
                if self.dut.state_served.value == 1:
                    slots.append(
                        (
                            int(self.dut.state_tag.value),
                            int(self.dut.state_bitmap.value),
                            bool(self.dut.state_done.value),
                        )
                    )
            assert slots == [(s.cell, s.bitmap, s.done) for s in status.slots]
            failed = []
            for index, end in zip(placed.edges, placed.ends, strict=True):
                await self.command(*command("TABLE_EDGE_READ", index))
                if self.dut.state_done.value == 1:
                    failed.append(end.name)
            assert sorted(failed) == sorted(status.failed_edges)
        assert self.dut.idle.value == 1


def ip(text: str) -> int:
    return int.from_bytes(bytes(int(part) for part in text.split(".")), "big")


def mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


def sequences(sends: list[tuple[int, Packet]], data: bool) -> dict[tuple[int, int], list[tuple]]:
    """What went over each edge, in order."""
    found: dict[tuple[int, int], list[tuple]] = {}
    for port, p in sends:
        if (p.opcode is not Opcode.ACK) == data:
            found.setdefault((port, p.qpn), []).append((p.psn, p.imm, p.aeth, p.payload, p.ackreq, p.ecn))
    return found


class Peer:
    """The other end of an edge: what it sends, without minding the rules."""

    def __init__(self, placed: Placed, position: int) -> None:
        self.edge = placed.ends[position]
        self.params = placed.entry.params
        self.next = 0  # what it contributes next
        self.received = 0  # how much it was sent

    def packet(self, opcode: Opcode, number: int, **fields: object) -> Packet:
        edge = self.edge
        base = edge.psn_tx if opcode is Opcode.ACK else edge.psn_rx
        packet = Packet(
            opcode=opcode, src_ip=edge.peer.ip, dst_ip=edge.local.ip, qpn=edge.local.qpn, psn=psn.add(base, number),
            pkey=self.params.pkey, src_mac=edge.peer.mac, dst_mac=edge.local.mac, **fields,
        )  # fmt: skip
        packet.icrc_ok = self.params.icrc == "full"
        return packet


DESCRIPTORS = (
    Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=1),
    Descriptor(Primitive.ALLREDUCE, Operator.MAX, Datatype.INT32, tag=1),
    Descriptor(Primitive.REDUCE, Operator.SUM, Datatype.INT32, rank=1, tag=1),
    Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT32, rank=0, tag=1),
    Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.FP32, tag=1),
)
SIZES = (4, 4, 8, BYTES, MTU - 4, MTU)


def script_packet(choice: random.Random, peer: Peer, what: Descriptor, size: int) -> Packet:
    """One packet of a random script: mostly the next contribution, often something else."""
    kind = choice.choices(
        ("data", "null", "err", "record", "odd", "ack", "nak", "refuse"), (40, 6, 2, 2, 2, 24, 6, 0.3)
    )[0]
    step = choice.choices((0, -1, -2, 1, 2, -9), (40, 4, 2, 3, 1, 1))[0]
    number = max(0, peer.next + step)
    named = peer.received - choice.choice((0, 1, 1, 1, 2, 2, 3, 5))
    if kind == "ack":
        return peer.packet(Opcode.ACK, named, aeth=ack_aeth(0))
    if kind == "nak":
        return peer.packet(Opcode.ACK, named, aeth=nak_aeth(NakCode.PSN_SEQUENCE_ERROR, 0))
    if kind == "refuse":
        return peer.packet(Opcode.ACK, named, aeth=nak_aeth(NakCode.INVALID_REQUEST, 0))
    payload = {"null": b"", "err": b"", "record": choice.randbytes(16), "odd": choice.randbytes(6)}.get(
        kind, choice.randbytes(size)
    )
    imm = what.pack() | {"null": NULL_BIT, "err": NULL_BIT | ERR_BIT, "record": ERR_BIT}.get(kind, 0)
    packet = peer.packet(
        Opcode.SEND_ONLY_IMM,
        number,
        imm=imm,
        payload=payload,
        ackreq=True,
        ecn=3 if choice.random() < 0.05 else 2,
    )
    fault = choice.choices(
        ("none", "qpn", "pkey", "ip", "mac", "icrc", "role", "oversize"), (60, 1, 1, 1, 1, 1, 1, 1)
    )[0]
    if fault == "none":
        return packet
    if fault == "icrc":
        packet.icrc_ok = not packet.icrc_ok
        return packet
    return packet.but(**{
        "qpn": {"qpn": packet.qpn ^ 0x5A5A}, "pkey": {"pkey": packet.pkey ^ 1}, "ip": {"src_ip": "10.99.0.1"},
        "mac": {"dst_mac": "02:00:00:00:00:77"}, "role": {"opcode": Opcode.SEND_ONLY, "imm": None},
        "oversize": {"payload": bytes(MTU + 4)},
    }[fault])  # fmt: skip


async def script(tb: TB, actions: int) -> None:
    """Random packets and time on all installed groups."""
    choice = tb.choice
    peers = {n: [Peer(g, i) for i in range(len(g.ends))] for n, g in tb.placed.items()}
    # The descriptor and size that the ranks of a group mostly agree on.
    shape = {n: [choice.randrange(4), choice.choice(SIZES)] for n in peers}
    for _ in range(steps(actions)):
        number = choice.choice(list(peers))
        # An edge in error takes and gives nothing, and soon its group stands still.
        if tb.golden.status(number).failed_edges and choice.random() < 0.1:
            await tb.renew(number)
        if choice.random() < 0.03:
            shape[number] = [choice.choices(range(5), (4, 2, 4, 3, 1))[0], choice.choice(SIZES)]
        if choice.random() < 0.03:
            await tb.pass_time(choice.choice((1, 7, 49, 50, 51, 120)))
            continue
        for position, peer in enumerate(peers[number]):
            machine = tb.golden._groups[number]
            children = machine._children
            end = children[position] if position < len(children) else machine._parent
            peer.next, peer.received = end.responder.expected, end.requester._next
        # The peer that is furthest behind, mostly, so that cells complete.
        order = sorted(peers[number], key=lambda p: p.next)
        peer = order[0] if choice.random() < 0.75 else choice.choice(order)
        what, size = shape[number]
        if choice.random() < 0.02:
            what = choice.randrange(5)
        if choice.random() < 0.03:
            size = choice.choice(SIZES)
        packet = script_packet(choice, peer, DESCRIPTORS[what], size)
        port = peer.edge.port if choice.random() < 0.98 else (peer.edge.port + 1) % PORTS
        await tb.act(port, packet)


async def differential(dut, groups: list[EngineGroup], actions: int, idle: str, backpressure: str) -> None:
    tb = TB(dut)
    await tb.start(idle, backpressure)
    for entry in groups:
        await tb.install(entry)
    await script(tb, actions)
    await tb.check_state()


@virtual
async def a_root_with_hosts(dut) -> None:
    await differential(dut, [make_group(1, [1, 1], inner=False, window=2)], 700, "never", "never")


@virtual
async def an_inner_engine(dut) -> None:
    await differential(dut, [make_group(1, [1, 1], inner=True, window=4)], 700, "sparse", "sparse")


@virtual
async def children_that_share_ports(dut) -> None:
    """Six children, so that at least two share a port, one of them an engine."""
    await differential(dut, [make_group(1, [1, 2, 1, 1, 1, 1], inner=True, window=4)], 900, "never", "bursts")


@virtual
async def groups_side_by_side(dut) -> None:
    """A root, an inner engine and a chain of fan-in 1, with options that differ."""
    await differential(
        dut,
        [
            make_group(1, [1, 1, 1], inner=False, window=4, ecn=False),
            make_group(2, [2, 1], inner=True, first_port=1, window=8, byte_order="little", icrc="none"),
            make_group(3, [1], inner=True, first_port=2, window=2, conflict_record=False, retry_limit=2,
                       operators=("SUM",)),
        ],
        1200, "alternating", "sparse",
    )  # fmt: skip


def news(
    sends: list[tuple[int, Packet]], sent: dict[tuple[int, int], tuple[int, int]]
) -> dict[tuple[int, int], list]:
    """What went over each edge for the first time, in order, `sent`: by (port, QPN) the base and how many before."""
    found: dict[tuple[int, int], list] = {}
    for edge, packets in sequences(sends, True).items():
        base, count = sent[edge]
        number = -1
        for packet in packets:
            if psn.diff(packet[0], base) >= count and psn.diff(packet[0], base) > number:
                number = psn.diff(packet[0], base)
                found.setdefault(edge, []).append(packet)
    return found


async def bursts(tb: TB, count: int) -> None:
    """Many packets at a time, which the core has in hand together, beside the golden engine, which has one after the
    other, as the core took them. What is sent for the first time and what is acknowledged is the same; what a NAK makes
    be repeated the core may send once for two of them, so it is not compared. Nobody answers what was not sent."""
    choice = tb.choice
    peers = {n: [Peer(g, i) for i in range(len(g.ends))] for n, g in tb.placed.items()}
    for _ in range(steps(count)):
        sent, limit = {}, {}
        for number in peers:
            machine = tb.golden._groups[number]
            for position, peer in enumerate(peers[number]):
                child = position < len(machine._children)
                end = machine._children[position] if child else machine._parent
                peer.next, peer.received = end.responder.expected, end.requester._next - 1
                sent[peer.edge.port, peer.edge.peer.qpn] = peer.edge.psn_tx, end.requester._next
                # A contribution acknowledges a result, a result a partial: one that was sent before the burst.
                limit[peer] = end.requester._next + (peer.params.window if child else 0)
        tb.taken = []
        for _ in range(choice.choice((2, 4, 8, 20))):
            number = choice.choice(list(peers))
            order = sorted(peers[number], key=lambda p: p.next)
            peer = order[0] if choice.random() < 0.75 else choice.choice(order)
            if peer.next >= limit[peer]:
                packet = peer.packet(Opcode.ACK, peer.received, aeth=ack_aeth(0))
            else:
                packet = script_packet(choice, peer, DESCRIPTORS[number % 3], choice.choice((4, 4, 4, BYTES)))
                contributed = packet.opcode is not Opcode.ACK and packet.psn == psn.add(
                    peer.edge.psn_rx, peer.next
                )
                peer.next += contributed
            tb.push(peer.edge.port, packet)
        await tb.settle()
        wanted = []
        for port, packet in tb.taken:
            wanted += tb.golden.receive(port, packet, tb.now).sends
        got, tb.sent = tb.sent, []
        assert sequences(got, False) == sequences(wanted, False)
        assert news(got, sent) == news(wanted, sent)
        for number in peers:
            if tb.golden.status(number).failed_edges:
                await tb.renew(number)
    await tb.check_state(but=("tx_frames", "tx_retransmission"))


@virtual
async def bursts_of_frames(dut) -> None:
    """A root, an inner engine and a chain of fan-in 1, whose edges share ports."""
    tb = TB(dut)
    await tb.start()
    for entry in (
        make_group(1, [1, 1, 1], inner=False, window=4),
        make_group(2, [2, 1], inner=True, first_port=1, window=8),
        make_group(3, [1], inner=True, first_port=2, window=2),
    ):
        await tb.install(entry)
    await bursts(tb, 120)


@virtual
async def bursts_of_one_group(dut) -> None:
    """Two children and a parent, the shortest way from one event to the next of a slot, with a reader that pauses."""
    tb = TB(dut)
    await tb.start("never", "sparse")
    await tb.install(make_group(1, [1, 1], inner=True, window=4))
    await bursts(tb, 120)


async def cell_of(
    tb: TB, peers: list[Peer], cell: int, payload: bytes, what: Descriptor = DESCRIPTORS[0]
) -> None:
    for peer in peers:
        await tb.act(peer.edge.port, peer.packet(
            Opcode.SEND_ONLY_IMM, cell, imm=what.pack(), payload=payload, ackreq=True))  # fmt: skip


@virtual
async def lengths_that_differ(dut) -> None:
    """Two payloads of different lengths poison a cell, whoever comes first, also when both take as many beats; an empty
    contribution agrees with any. With a conflict record, which names both lengths, and without."""
    tb = TB(dut)
    await tb.start()
    groups = [
        await tb.install(make_group(n, [1, 1], inner=False, window=2, conflict_record=n == 1)) for n in (1, 2)
    ]
    sizes = (0, 4, 8, MTU - 4, MTU)
    for placed in groups:
        peers = [Peer(placed, c) for c in range(2)]
        for cell, pair in enumerate(product(sizes, sizes)):
            for peer, size in zip(peers, pair, strict=True):
                imm = DESCRIPTORS[0].pack() | (0 if size else NULL_BIT)
                payload = tb.choice.randbytes(size)
                await tb.act(peer.edge.port, peer.packet(
                    Opcode.SEND_ONLY_IMM, cell, imm=imm, payload=payload, ackreq=True))  # fmt: skip
    await tb.check_state()
    unequal = len([1 for a, b in product(sizes, sizes) if a and b and a != b])
    assert (await tb.counters())["cells_poisoned"] == 2 * unequal


@virtual
async def a_child_ahead_of_its_window(dut) -> None:
    """A contribution that is a window ahead of what has passed is dropped without acknowledgement, each time, and taken
    when one more cell has passed."""
    tb = TB(dut)
    await tb.start()
    window = 4
    placed = await tb.install(make_group(1, [1, 1], inner=False, window=window))
    peers = [Peer(placed, 0), Peer(placed, 1)]

    async def contribute(peer: Peer, cell: int) -> None:
        payload = tb.choice.randbytes(8)
        await tb.act(peer.edge.port, peer.packet(
            Opcode.SEND_ONLY_IMM, cell, imm=DESCRIPTORS[0].pack(), payload=payload, ackreq=True))  # fmt: skip

    for cell in (*range(window), window, window):
        await contribute(peers[0], cell)
    for cell in range(2):
        await contribute(peers[1], cell)
    for cell in range(window, window + 3):
        await contribute(peers[0], cell)
    await tb.check_state()
    assert (await tb.counters())["drop_window"] == 3


@virtual
async def an_rnr_nak_pauses(dut) -> None:
    """Each code: nothing is repeated before its time, all is after; what came meanwhile waits behind it."""
    tb = TB(dut)
    await tb.start()
    placed = await tb.install(make_group(1, [1, 1], inner=False, window=8))
    peers = [Peer(placed, 0), Peer(placed, 1)]
    cell = 0
    for code in range(0, 32, 32 // steps(32)):
        await cell_of(tb, peers, cell, bytes(4))
        await tb.act(peers[0].edge.port, peers[0].packet(Opcode.ACK, cell, aeth=ack_aeth(0)))
        await tb.act(
            peers[1].edge.port, peers[1].packet(Opcode.ACK, cell, aeth=Aeth(Syndrome.RNR_NAK | code, 0))
        )
        await cell_of(tb, peers, cell + 1, bytes(4))  # the second child's waits
        await tb.act(peers[0].edge.port, peers[0].packet(Opcode.ACK, cell + 1, aeth=ack_aeth(0)))
        await tb.pass_time(12)
        for _ in range(70):
            if not tb.golden.next_deadline() or code in range(1, 22):
                break
            await tb.pass_time(10)
        await tb.act(peers[1].edge.port, peers[1].packet(Opcode.ACK, cell + 1, aeth=ack_aeth(0)))
        cell += 2
    await tb.check_state()


@virtual
async def a_nak_is_answered_once(dut) -> None:
    """The same NAK again, or one of an older packet, is not answered; after the timer it is."""
    tb = TB(dut)
    await tb.start()
    placed = await tb.install(make_group(1, [1, 1], inner=True, window=8))
    peers = [Peer(placed, c) for c in range(3)]

    async def nak(peer: Peer, number: int) -> None:
        await tb.act(
            peer.edge.port, peer.packet(Opcode.ACK, number, aeth=nak_aeth(NakCode.PSN_SEQUENCE_ERROR, 0))
        )

    for cell in range(6):
        await cell_of(tb, peers[:2], cell, bytes(4))
    for number in (2, 2, 1, 3, 3, 0, 2):
        await nak(peers[2], number)  # partials
    for cell in range(4):
        await tb.act(peers[2].edge.port, peers[2].packet(
            Opcode.SEND_ONLY_IMM, cell, imm=DESCRIPTORS[0].pack(), payload=bytes(4), ackreq=True))  # fmt: skip
    for number in (1, 1, 0, 2, 2, 7):
        await nak(peers[0], number)  # results
    await tb.pass_time(60)
    for number in (1, 2, 2):
        await nak(peers[0], number)
    await tb.check_state()


@virtual
async def the_retry_limit(dut) -> None:
    """A child that is silent ends in error; the others go on, and nothing is said to it any more."""
    tb = TB(dut)
    await tb.start()
    placed = await tb.install(make_group(1, [1, 1], inner=False, window=2, retry_limit=3))
    peers = [Peer(placed, 0), Peer(placed, 1)]
    await cell_of(tb, peers, 0, bytes(8))
    await tb.act(peers[0].edge.port, peers[0].packet(Opcode.ACK, 0, aeth=ack_aeth(0)))
    for _ in range(80):
        await tb.pass_time(10)
    await cell_of(tb, peers, 1, bytes(8))
    await tb.check_state()
    assert (await tb.counters())["edge_errors"] == 1


@virtual
async def numbers_wrap(dut) -> None:
    """Bases a little below 2^24, in lock step over several windows, with losses on the way."""
    tb = TB(dut)
    await tb.start()
    entry = make_group(1, [1, 1], inner=True, window=4)
    moved = {"psn_tx": (1 << 24) - 5, "psn_rx": (1 << 24) - 3}
    entry = EngineGroup(
        entry.params, tuple(edge_with(e, moved) for e in entry.children), edge_with(entry.parent, moved)
    )
    await tb.install(entry)
    await script(tb, 400)
    await tb.check_state()


def edge_with(edge, changes: dict[str, int]):
    from dataclasses import replace

    return replace(edge, **changes)


@virtual
async def a_port_that_stands_still(dut) -> None:
    """One child's port takes nothing for a long time: the others get their results, and it gets all of them later, each
    once and in order."""
    tb = TB(dut)
    await tb.start()
    placed = await tb.install(make_group(1, [1, 1], inner=False, window=WINDOW))
    peers = [Peer(placed, 0), Peer(placed, 1)]
    tb.held = {peers[1].edge.port}
    for cell in range(WINDOW):
        for peer in peers:
            tb.push(peer.edge.port, peer.packet(
                Opcode.SEND_ONLY_IMM, cell, imm=DESCRIPTORS[0].pack(), payload=bytes([cell]) * MTU,
                ackreq=True))  # fmt: skip
    await tb.settle(200)
    first = [p for port, p in tb.sent if port == peers[0].edge.port and p.opcode is not Opcode.ACK]
    assert len(first) == WINDOW, f"{len(first)} results to the child that takes them"
    tb.held = set()
    await tb.settle(200)
    second = [p for port, p in tb.sent if port == peers[1].edge.port and p.opcode is not Opcode.ACK]
    assert [psn.diff(p.psn, peers[1].edge.psn_tx) for p in second] == list(range(WINDOW))
    assert [p.payload for p in second] == [p.payload for p in first]


@virtual
async def short_moves_behind_a_long_one(dut) -> None:
    """Two one-beat contributions to one cell wait behind a long one, so that they reach the store one after the other
    without a gap: the second must find the first."""
    tb = TB(dut)
    await tb.start()
    long = await tb.install(make_group(1, [1, 1], inner=False, window=8))
    short = await tb.install(make_group(2, [1, 1], inner=False, window=8))
    for cell in range(6):
        for placed, child, value in ((long, 0, bytes(MTU)), (short, 0, b"\0\0\0\3"), (short, 1, b"\0\0\0\4")):
            peer = Peer(placed, child)
            tb.push(peer.edge.port, peer.packet(
                Opcode.SEND_ONLY_IMM, cell, imm=DESCRIPTORS[0].pack(), payload=value, ackreq=True))  # fmt: skip
        await tb.settle()
        results = [p.payload for _, p in tb.sent if p.opcode is not Opcode.ACK]
        assert results == [b"\0\0\0\7"] * 2, results
        tb.sent = []


# --------------------------------------------------------------------------------------------------------------- traps


def closed_walk(count: int) -> list[int]:
    """Over 0 to count-1, every ordered pair once: a closed Eulerian path of the full graph."""
    left = {node: list(range(count)) for node in range(count)}
    path, stack = [], [0]
    while stack:
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            path.append(stack.pop())
    return path[::-1]


# Descriptor, what the contributions say besides, and their size; None: one that differs between the children.
KINDS = (
    (DESCRIPTORS[0], 0, MTU),
    (DESCRIPTORS[1], 0, 4),
    (DESCRIPTORS[2], 0, BYTES),
    (DESCRIPTORS[3], 0, 4),
    (DESCRIPTORS[0], NULL_BIT, 0),
    (DESCRIPTORS[2], ERR_BIT | NULL_BIT, 0),
    (DESCRIPTORS[0], 0, None),
)


async def cell_of_kind(tb: TB, peers: list[Peer], cell: int, kind: int) -> None:
    what, flags, size = KINDS[kind]
    for child, peer in enumerate(peers):
        payload = tb.choice.randbytes(4 + 4 * child if size is None else size)
        await tb.act(peer.edge.port, peer.packet(
            Opcode.SEND_ONLY_IMM, cell, imm=what.pack() | flags, payload=payload, ackreq=True))  # fmt: skip


@virtual
async def every_ordered_pair_of_primitives_in_a_slot(dut) -> None:
    """Two slots, cell after cell: nothing of a cell is left to the next of its slot, of whatever kind both are: each
    primitive, NULL, an error, and a conflict with its record."""
    tb = TB(dut)
    await tb.start()
    placed = await tb.install(make_group(1, [1, 1], inner=False, window=2))
    peers = [Peer(placed, 0), Peer(placed, 1)]
    walk = closed_walk(len(KINDS))
    assert set(pairwise(walk)) == set(product(range(len(KINDS)), repeat=2))
    for at, kind in enumerate(walk):
        for cell in (2 * at, 2 * at + 1):
            await cell_of_kind(tb, peers, cell, kind)
    await tb.check_state()
    assert (await tb.counters())["cells_poisoned"] > 0


@virtual
async def a_second_collective_finds_nothing_of_the_first(dut) -> None:
    """The same slots, no reset, no installation between; what comes late of the first is a duplicate to the second."""
    tb = TB(dut)
    await tb.start()
    window = 4
    placed = await tb.install(make_group(1, [1, 1], inner=False, window=window))
    peers = [Peer(placed, 0), Peer(placed, 1)]
    late: list[tuple[Peer, Packet]] = []
    for collective, kind in enumerate((0, 2, 4, 3, 6, 0)):
        for cell in range(2 * window * collective, 2 * window * (collective + 1)):
            await cell_of_kind(tb, peers, cell, kind)
        late += [
            (peer, peer.packet(Opcode.SEND_ONLY_IMM, 2 * window * collective + turn, imm=KINDS[0][0].pack(),
                               payload=bytes(4), ackreq=True))
            for turn, peer in enumerate(peers)
        ]  # fmt: skip
        for peer, packet in late:
            await tb.act(peer.edge.port, packet)
    await tb.check_state()
    counters = await tb.counters()
    assert counters["rx_duplicate"] == 2 * sum(range(1, 7))
    assert counters["cells_completed"] == 6 * 2 * window


@virtual
async def a_stale_frame_and_a_new_one_in_one_slot_at_once(dut) -> None:
    """On two ports, from some cycles before one another to some behind: in some case each is decided right behind
    the other: the stale one is acknowledged again, the new one takes the slot."""
    tb = TB(dut)
    await tb.start()
    window = 2
    placed = await tb.install(make_group(1, [1, 1], inner=False, window=window))
    peers = [Peer(placed, 0), Peer(placed, 1)]
    for cell in range(window):
        await cell_of_kind(tb, peers, cell, 0)
    turns = 0
    for cell, apart in enumerate(range(-8, 9), start=window):
        stale = peers[0].packet(
            Opcode.SEND_ONLY_IMM, cell - window, imm=KINDS[0][0].pack(), payload=bytes(4), ackreq=True
        )
        fresh = peers[1].packet(
            Opcode.SEND_ONLY_IMM, cell, imm=KINDS[0][0].pack(), payload=tb.choice.randbytes(MTU), ackreq=True
        )
        pair = [(peers[0], stale), (peers[1], fresh)][:: 1 if apart >= 0 else -1]
        sends = []
        for turn, (peer, packet) in enumerate(pair):
            tb.push(peer.edge.port, packet)
            sends += tb.golden.receive(peer.edge.port, packet, tb.now).sends
            for _ in range(abs(apart) if turn == 0 else 0):
                await RisingEdge(tb.dut.clk)
        await tb.settle()
        tb.compare(sends)
        other = peers[0].packet(
            Opcode.SEND_ONLY_IMM, cell, imm=KINDS[0][0].pack(), payload=tb.choice.randbytes(MTU), ackreq=True
        )
        await tb.act(peers[0].edge.port, other)
        turns += 1
    await tb.check_state()
    assert (await tb.counters())["rx_duplicate"] == turns == 17


@virtual
async def cycles_a_cell(dut) -> None:
    """Cells back to back on all ports, of full payloads, one word, and NULL: every sum is right; how many cycles a cell
    takes beside the beats that a contribution has."""
    tb = TB(dut)
    await tb.start()
    children = PORTS
    placed = await tb.install(make_group(1, [1] * children, inner=False, window=WINDOW))
    peers = [Peer(placed, c) for c in range(children)]
    for size, name in ((MTU, "full"), (4, "one word"), (0, "null")):
        base, started, done = peers[0].next, tb.cycle, 0
        cells = 8 * WINDOW
        imm = DESCRIPTORS[0].pack() | (0 if size else NULL_BIT)
        sums = []
        for cell in range(base, base + cells):
            # A window of contributions, then each as results allow; results are acknowledged.
            while cell - base - done >= WINDOW:
                await RisingEdge(dut.clk)
                done = min(
                    sum(p.opcode is not Opcode.ACK for q, p in tb.sent if q == peer.edge.port)
                    for peer in peers
                )
            total = np.zeros(size // 4, np.uint32)
            for peer in peers:
                payload = tb.choice.randbytes(size)
                total += np.frombuffer(payload, ">u4").astype(np.uint32)
                tb.push(
                    peer.edge.port,
                    peer.packet(Opcode.SEND_ONLY_IMM, cell, imm=imm, payload=payload, ackreq=True),
                )
                if cell - base >= WINDOW:
                    tb.push(peer.edge.port, peer.packet(Opcode.ACK, cell - WINDOW, aeth=ack_aeth(0)))
            sums.append(total.astype(">u4").tobytes())
        await tb.settle()
        for peer in peers:
            results = [p for q, p in tb.sent if q == peer.edge.port and p.opcode is not Opcode.ACK]
            assert [psn.diff(p.psn, peer.edge.psn_tx) for p in results] == list(range(base, base + cells))
            assert [p.payload for p in results] == sums
            acks = [
                psn.diff(p.psn, peer.edge.psn_rx)
                for q, p in tb.sent
                if q == peer.edge.port and p.opcode is Opcode.ACK
            ]
            assert acks == list(range(base, base + cells))
        record(f"cycles a cell, {children} children, {name}", round((tb.busy_until - started) / cells, 1))
        record(f"beats a contribution, {name}", -(-size // BYTES))
        tb.sent = []
        for peer in peers:
            peer.next += cells
            tb.push(peer.edge.port, peer.packet(Opcode.ACK, base + cells - 1, aeth=ack_aeth(0)))
        await tb.settle()
        assert not tb.sent
    got = await tb.counters()
    assert got["rx_contribution"] == got["tx_ack"] == got["tx_result"] == children * got["cells_completed"]
    assert got["tx_retransmission"] == got["tx_failed"] == 0
    assert dut.idle.value == 1


@cocotb.test(skip=CLOCK_MHZ == 0)
async def timeouts_in_cycles(dut) -> None:
    """With a clock that runs: a silent child gets the result again after 20, 40, 80, 80 microseconds, never earlier and
    late by little; then its edge is in error and nothing more comes."""
    tb = TB(dut)
    await tb.start()
    placed = await tb.install(make_group(
        1, [1, 1], inner=False, window=2, retry_limit=4, rto_initial_us=20, rto_min_us=20, rto_max_us=80))  # fmt: skip
    peers = [Peer(placed, 0), Peer(placed, 1)]
    for peer in peers:
        tb.push(peer.edge.port, peer.packet(
            Opcode.SEND_ONLY_IMM, 0, imm=DESCRIPTORS[0].pack(), payload=bytes(4), ackreq=True))  # fmt: skip
    times: list[int] = []
    for _ in range(400 * CLOCK_MHZ):
        await RisingEdge(dut.clk)
        got = [port for port, p in tb.sent if p.opcode is not Opcode.ACK]
        if peers[0].edge.port in got and tb.cycle < 400:
            tb.push(peers[0].edge.port, peers[0].packet(Opcode.ACK, 0, aeth=ack_aeth(0)))
        times += [tb.cycle] * got.count(peers[1].edge.port)
        tb.sent = []
    gaps = [(b - a) / CLOCK_MHZ for a, b in pairwise(times)]
    assert len(gaps) == 4, gaps
    for gap, timeout in zip(gaps, (20, 40, 80, 80), strict=True):
        assert timeout <= gap <= timeout + 3 + 40 / CLOCK_MHZ, gaps
    await tb.command(*command("TABLE_EDGE_READ", placed.edges[1]))
    assert dut.state_done.value == 1
