"""epic_m2_mover beside a store in Python: moves of all kinds and lengths, payload that comes when it likes; what is
pushed, what leaves the FIFOs and how long it takes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import cocotb
import numpy as np
from cocotb.triggers import ReadOnly, RisingEdge
from common.runner import ICARUS, VERILATOR, Bench, parameter, record
from common.streams import PATTERNS, reset, start_clock

from epic_models.reference.cells import pack_record
from epic_models.reference.interfaces import ConflictRecord
from epic_testbed.rtl.check.sources import closure, modules
from epic_testbed.rtl.records import Record, constants
from epic_testbed.rtl.tables import TYPES, TYPES_2

SOURCES = tuple(path.name for path in closure(["epic_m2_mover"], modules()))
BENCH = Bench(
    top="epic_m2_mover",
    sources=SOURCES,
    small=(
        (ICARUS, {"DATA_W": 64, "PORTS": 2, "MTU": 64, "SLOTS": 4}),
        (VERILATOR, {"DATA_W": 128, "PORTS": 4, "MTU": 256, "SLOTS": 8}),
    ),
    configurations=(
        (ICARUS, {"DATA_W": 512, "PORTS": 8, "MTU": 64, "SLOTS": 2}),
        (VERILATOR, {"DATA_W": 256, "PORTS": 3, "MTU": 1024, "SLOTS": 4}),
        (VERILATOR, {"DATA_W": 64, "PORTS": 2, "MTU": 128, "SLOTS": 4, "LATENCY": 5}),
    ),
)

WIDTH = parameter("DATA_W", 128)
PORTS = parameter("PORTS", 4)
MTU = parameter("MTU", 1024)
SLOTS = parameter("SLOTS", 128)
LATENCY = parameter("LATENCY", 2)
BYTES = WIDTH // 8
STAGES = LATENCY + 3  # from the address of a beat to its write
MOVE = Record("MOVE", TYPES_2)
LANE = {
    name.removeprefix("LANE_"): code for name, code in constants(TYPES).items() if name.startswith("LANE_")
}


def beats(size: int) -> int:
    return -(-size // BYTES)


@dataclass
class Move:
    """A MOVE record, and the payload that it takes."""

    fields: dict[str, int]
    payload: bytes = b""

    @property
    def cycles(self) -> int:
        """Cycles that it has the mover for, when nothing keeps it waiting."""
        return max(beats(self.fields["in_bytes"]), beats(self.fields["out_bytes"]), 1)


class TB:
    """Drives moves and payload, and collects what is pushed."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.moves: deque[Move] = deque()
        self.payload: list[deque[int]] = [deque() for _ in range(PORTS)]
        self.pushed: list[list[int]] = [[] for _ in range(PORTS)]
        self.expected: list[list[int]] = [[] for _ in range(PORTS)]
        self.store: dict[int, bytes] = {place: bytes(MTU) for place in range(2 * SLOTS)}
        self.cycle = 0
        start_clock(dut)

    async def start(self, idle: str = "never", late: str = "never") -> None:
        dut = self.dut
        dut.move_valid.value = dut.move_data.value = dut.payload_valid.value = dut.payload_data.value = 0
        await reset(dut)
        cocotb.start_soon(self._drive(PATTERNS[idle](1), [PATTERNS[late](2 + p) for p in range(PORTS)]))
        for place in self.store:  # nothing is known of the store before
            move = any_move(self.choice)
            move.fields |= {
                "op": LANE["A"],
                "record": 0,
                "write": 1,
                "in_bytes": MTU,
                "out_bytes": MTU,
                "to": place,
            }
            move.payload = self.choice.randbytes(MTU)
            self.order(move)
        await self.finish()

    async def _drive(self, idle: Iterator[bool], late: list[Iterator[bool]]) -> None:
        dut = self.dut
        move, offered = False, [False] * PORTS
        while True:
            move = move or (bool(self.moves) and not next(idle))
            for port in range(PORTS):
                offered[port] = offered[port] or (bool(self.payload[port]) and not next(late[port]))
            dut.move_valid.value = move
            dut.move_data.value = MOVE.pack(**self.moves[0].fields) if move else 0
            dut.payload_valid.value = sum(offered[p] << p for p in range(PORTS))
            dut.payload_data.value = sum(self.payload[p][0] << WIDTH * p for p in range(PORTS) if offered[p])
            await ReadOnly()
            ready, taken = dut.move_ready.value == 1, int(dut.payload_ready.value)
            push = int(dut.push.value)
            data = int(dut.push_data.value) if push else 0
            await RisingEdge(dut.clk)
            self.cycle += 1
            if move and ready:
                self.moves.popleft()
                move = False
            for port in range(PORTS):
                if taken >> port & 1:
                    assert offered[port], f"port {port}: a beat is taken that is not there"
                    self.payload[port].popleft()
                    offered[port] = False
                if push >> port & 1:
                    self.pushed[port].append(data)

    def order(self, move: Move) -> None:
        """What the move does, now; the design does it later."""
        fields = move.fields
        self.moves.append(move)
        for at in range(0, len(move.payload), BYTES):
            self.payload[fields["src"]].append(int.from_bytes(move.payload[at : at + BYTES], "little"))
        size = fields["out_bytes"]
        if not size:
            return
        whole = beats(size) * BYTES
        a = move.payload.ljust(whole, b"\0")[:whole]
        if fields["record"]:
            names = ("held", "held_bytes", "other", "other_bytes")
            a = pack_record(ConflictRecord(*(fields[n] for n in names))).ljust(whole, b"\0")
        b = self.store[fields["from"]][:whole].ljust(whole, b"\0")
        made = combined(fields["op"], a, b, little=bool(fields["little"]))
        if fields["write"]:
            self.store[fields["to"]] = made + self.store[fields["to"]][whole:]
        for port in range(PORTS):
            if fields["ports"] >> port & 1:
                self.expected[port] += [
                    int.from_bytes(made[at : at + BYTES], "little") for at in range(0, whole, BYTES)
                ]

    async def finish(self) -> None:
        for _ in range(400 * MTU):
            await RisingEdge(self.dut.clk)
            if not self.moves and self.dut.idle.value == 1:
                break
        for _ in range(STAGES):
            await RisingEdge(self.dut.clk)
        assert not any(self.payload), "beats are left in the FIFOs"
        assert self.pushed == self.expected
        self.pushed = [[] for _ in range(PORTS)]
        self.expected = [[] for _ in range(PORTS)]


def combined(op: int, a: bytes, b: bytes, *, little: bool) -> bytes:
    if op in (LANE["A"], LANE["B"]):
        return a if op == LANE["A"] else b
    order = "<" if little else ">"
    left, right = np.frombuffer(a, f"{order}u4"), np.frombuffer(b, f"{order}u4")
    if op == LANE["INT32_SUM"]:
        return (left + right).astype(f"{order}u4").tobytes()
    assert op == LANE["OR"]
    return (left | right).astype(f"{order}u4").tobytes()


def any_move(choice: random.Random, place: int | None = None) -> Move:
    """A move as the sequencer orders them: a contribution, a result, a packet, or something to be thrown away."""
    kind = choice.choice(("join", "join", "first", "copy", "record", "packet", "drop"))
    size = choice.choice((1, BYTES - 1, BYTES, min(BYTES + 1, MTU), 4, MTU - 1, MTU, choice.randint(1, MTU)))
    places = [choice.randrange(2 * SLOTS) if place is None else place for _ in range(2)]
    fields = {
        "src": choice.randrange(PORTS), "record": 0, "write": 1, "little": choice.randrange(2), "op": LANE["B"],
        "ports": 0, "in_bytes": size, "out_bytes": size, "from": places[0], "to": places[1], "held": 0, "held_bytes": 0,
        "other": 0, "other_bytes": 0,
    }  # fmt: skip
    if kind == "join":
        fields["op"] = choice.choice((LANE["INT32_SUM"], LANE["OR"]))
    elif kind == "first":
        fields["op"] = LANE["A"]
    elif kind == "copy":  # the last contribution is NULL, or what it brings is not used
        fields["in_bytes"] = choice.choice((0, size))
        fields["out_bytes"] = choice.choice((16, MTU))
    elif kind == "record":
        fields |= {"record": 1, "op": LANE["A"], "out_bytes": 16, "held": choice.randrange(1 << 32),
                   "held_bytes": choice.randrange(1 << 14), "other": choice.randrange(1 << 32),
                   "other_bytes": choice.randrange(1 << 14)}  # fmt: skip
        fields["in_bytes"] = choice.choice((0, size))
    elif kind == "packet":
        fields |= {"in_bytes": 0, "write": 0, "ports": choice.randrange(1, 1 << PORTS)}
    else:
        fields |= {"out_bytes": 0, "op": choice.choice((LANE["A"], LANE["B"]))}
    return Move(fields, choice.randbytes(fields["in_bytes"]))


async def random_moves(dut, idle: str, late: str, place: int | None) -> None:
    tb = TB(dut)
    await tb.start(idle, late)
    for _ in range(6):
        for _ in range(60):
            tb.order(any_move(tb.choice, place))
        await tb.finish()
    # The whole store, read by packets.
    for place in range(2 * SLOTS):
        packet = any_move(tb.choice)
        packet.fields |= {
            "op": LANE["B"],
            "record": 0,
            "write": 0,
            "ports": 1,
            "in_bytes": 0,
            "out_bytes": MTU,
            "from": place,
        }
        packet.payload = b""
        tb.order(packet)
    await tb.finish()


@cocotb.test
@cocotb.parametrize(idle=["never", "bursts"], late=["never", "sparse", "bursts"])
async def moves_of_all_kinds(dut, idle: str, late: str) -> None:
    await random_moves(dut, idle, late, None)


@cocotb.test
@cocotb.parametrize(late=["never", "alternating"])
async def all_in_one_place(dut, late: str) -> None:
    """Every move reads what the one before has written."""
    await random_moves(dut, "never", late, 1)


@cocotb.test
async def no_gap_between_moves(dut) -> None:
    """Moves in other places follow one another beat by beat, those of one beat every two cycles; what follows in the
    same place waits for the lanes, when it is so short that its beats reach those of the one before there."""
    tb = TB(dut)
    await tb.start()
    for name, places in (("other", lambda n: n % (2 * SLOTS)), ("same", lambda n: 0)):
        for size in (BYTES, MTU):
            moves = [any_move(tb.choice) for _ in range(40)]
            for number, move in enumerate(moves):
                at = places(number)
                move.fields |= {"op": LANE["INT32_SUM"], "record": 0, "write": 1, "ports": 0, "in_bytes": size,
                                "out_bytes": size, "from": at, "to": at}  # fmt: skip
                move.payload = tb.choice.randbytes(size)
                tb.order(move)
            started = tb.cycle
            await tb.finish()
            taken = tb.cycle - started - STAGES
            least = sum(max(move.cycles, 2) for move in moves)
            # A beat waits until the one before in its place is stored.
            apart = beats(size) * (1 if name == "same" else 2 * SLOTS)
            waits = 40 * max(0, STAGES + 1 - apart)
            assert least <= taken <= least + waits + 2 * LATENCY + 10, (name, size, taken, least)
            record(f"cycles a move of {beats(size)} beats, {name} places", round(taken / 40, 1))


@cocotb.test
async def reset_ends_what_is_under_way(dut) -> None:
    """A move in mid-stream, then reset: nothing more is taken or pushed, and the next move is whole."""
    tb = TB(dut)
    await tb.start()
    move = any_move(tb.choice)
    move.fields |= {
        "op": LANE["A"],
        "record": 0,
        "write": 1,
        "in_bytes": MTU,
        "out_bytes": MTU,
        "to": 0,
        "src": 0,
    }
    move.payload = tb.choice.randbytes(MTU - BYTES)  # the last beat never comes
    tb.order(move)
    for _ in range(20):
        await RisingEdge(dut.clk)
    assert dut.idle.value == 0
    await reset(dut)
    for pushed in (*tb.pushed, *tb.expected):
        pushed.clear()
    assert dut.idle.value == 1 and dut.payload_ready.value == 0
    tb.store[0] = bytes(MTU)
    first = any_move(tb.choice)
    first.fields |= {"op": LANE["A"], "record": 0, "write": 1, "ports": (1 << PORTS) - 1, "in_bytes": MTU,
                     "out_bytes": MTU, "to": 0, "src": 1}  # fmt: skip
    first.payload = tb.choice.randbytes(MTU)
    tb.order(first)
    await tb.finish()
