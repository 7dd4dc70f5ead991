"""epic_m3_slots: requests for a few slots, one a cycle or with pauses; each is decided on the slot as the one before
left it, told 5 cycles later, and what the control plane reads is what they have made of the slots."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator
from itertools import cycle, islice

import cocotb
from cocotb.triggers import RisingEdge
from common.frames import pack, unpack
from common.runner import ICARUS, VERILATOR, Bench, parameter, record
from common.streams import PATTERNS, reset, start_clock
from epic_m3_slots.slot_model import CONTRIBUTION, INDEX, NONE, REFLECTION, RESULT, Outcome, Slot, decide

from epic_spec.packets import ERR_BIT, NULL_BIT
from epic_spec.tables import CONFLICT_RECORD_BYTES, COUNTERS

BENCH = Bench(
    top="epic_m3_slots",
    sources=("epic_m3_slots.v", "epic_m3_decide.v", "epic_ram.v"),
    small=((ICARUS, {"SLOTS": 16, "CHILDREN": 4}), (VERILATOR, {"SLOTS": 16, "CHILDREN": 64})),
    configurations=(
        (VERILATOR, {"SLOTS": 16, "CHILDREN": 3}),
        (ICARUS, {"SLOTS": 16, "CHILDREN": 1}),
        (ICARUS, {"SLOTS": 8192, "CHILDREN": 8}),
    ),
)

SLOTS, CHILDREN = parameter("SLOTS", 16), parameter("CHILDREN", 4)
TELLS = 5  # cycles from a request to its outcome
ON_THE_WAY = 8  # cycles from a frame that is taken to its request
SERIAL = 1 << 24

# (first slot, log2 of N, root, guard): groups of their own slots.
GROUPS = ((0, 1, 1, 1), (4, 2, 1, 0), (8, 1, 0, 1), (12, 2, 0, 0))


class TB:
    """Gives requests, holds what is told against the model."""

    def __init__(self, dut) -> None:
        self.dut = dut
        self.choice = random.Random(cocotb.RANDOM_SEED)
        self.slots: dict[int, Slot] = {}
        self.fan_in = [self.choice.randrange(min(CHILDREN, 6)) for _ in GROUPS]
        self.fan_in[0] = min(CHILDREN, 3) - 1
        self.fan_in[2] = min(CHILDREN, 2) - 1
        self.expected: deque[Outcome | None] = deque([None] * TELLS)
        self.holds: deque[int] = deque([0] * ON_THE_WAY)
        self.seen: Counter[str] = Counter()
        start_clock(dut)

    async def start(self) -> None:
        for name in (
            "req_valid",
            "req_data",
            "clear",
            "clear_base",
            "clear_log2",
            "clear_fan_in",
            "read",
            "read_slot",
        ):
            getattr(self.dut, name).value = 0
        await reset(self.dut)
        for group in range(len(GROUPS)):
            await self.install(group)

    async def install(self, group: int) -> None:
        """Clears the slots of a group, of which nothing is under way then."""
        await self.settle()
        base, log2, _, _ = GROUPS[group]
        dut, size = self.dut, 1 << log2
        dut.clear.value, dut.clear_base.value, dut.clear_log2.value = 1, base, log2
        dut.clear_fan_in.value = self.fan_in[group]
        await self.give(None)
        dut.clear.value = 0
        await self.until_done()
        full = (2 << self.fan_in[group]) - 1
        self.slots |= {base + i: Slot((i - size) % SERIAL, full) for i in range(size)}

    async def until_done(self) -> None:
        await self.give(None)
        for _ in range(100):
            if not self.dut.busy.value:
                return
            await self.give(None)
        raise AssertionError("the control plane's command is not done")

    async def give(self, req: dict[str, int] | None) -> None:
        """A cycle with a request, or without one."""
        dut = self.dut
        dut.req_valid.value = int(req is not None)
        if req is not None:
            dut.req_data.value = pack("REQ", **req)
            slot = self.slots.get(req["slot"], Slot(0, 0))
            self.expected.append(decide(slot, req))
        else:
            self.expected.append(None)
        await RisingEdge(dut.clk)
        self.holds.append(int(dut.hold.value))
        self.holds.popleft()
        self.compare(self.expected.popleft())

    def compare(self, told: Outcome | None) -> None:
        dut = self.dut
        assert int(dut.count.value) == int(told is not None)
        if told is None:
            assert int(dut.pass_valid.value) == 0
            return
        assert int(dut.count_outcome.value) == INDEX[told.counter], f"outcome, expected {told}"
        assert int(dut.count_completed.value) == told.completed
        assert int(dut.count_poisoned.value) == told.poisoned
        assert int(dut.count_send.value) == INDEX[told.send], f"sends, expected {told}"
        if told.send is not None:
            assert int(dut.count_send_count.value) == told.send_count
        assert int(dut.pass_valid.value) == bool(told.passes), f"PASS, expected {told}"
        if told.passes:
            got = unpack("PASS", int(dut.pass_data.value))
            wrong = {k: (got[k], v) for k, v in told.passes.items() if got[k] != v}
            assert not wrong, f"PASS (got, expected): {wrong}"
        self.seen[told.counter or "none"] += 1
        self.seen[told.send or "nothing sent"] += 1
        self.seen["poisoned"] += told.poisoned

    async def settle(self) -> None:
        for _ in range(TELLS + 1):
            await self.give(None)
        assert self.dut.idle.value == 1

    async def read(self, slot: int) -> Slot:
        """The slot as the control plane reads it."""
        dut = self.dut
        dut.read.value, dut.read_slot.value = 1, slot
        await self.give(None)
        dut.read.value = 0
        await self.until_done()
        tag, bitmap = int(dut.state_tag.value), int(dut.state_bitmap.value)
        return Slot(tag, bitmap, bool(dut.state_done.value), bool(dut.state_served.value))

    async def check_slots(self) -> None:
        await self.settle()
        for number, slot in self.slots.items():
            got = await self.read(number)
            assert (got.tag, got.bitmap, got.done, got.served) == (
                slot.tag,
                slot.bitmap,
                slot.done,
                slot.served,
            )

    # ------------------------------------------------------------------------------------------------------ requests

    def request(self, group: int, kind: int, cell: int, **fields: int) -> dict[str, int]:
        """A request of a group as epic_m3_admit gives it; a barrier's contribution of child 0 unless said otherwise."""
        base, log2, root, guard = GROUPS[group]
        values = {"bytes": 0, "child": 0, "imm": NULL_BIT} | fields
        return {
            "kind": kind, "reason": len(COUNTERS), "port": values["child"] & 7, "has_beats": int(values["bytes"] > 0),
            "edge": 8 * group + values["child"], "cell": cell % SERIAL, "slot": base + cell % (1 << log2),
            "ce": 0, "lacks": 0, "little": group & 1, "op": 4, "fan_in": self.fan_in[group], "slot_log2": log2,
            "root": root, "guard": guard, "record": int(group != 3), "ecn": int(group != 1),
            "parent_edge": 8 * group + 7, "parent_port": 7, "row": 2 * group, "rows": group & 1,
        } | values  # fmt: skip

    def any_request(self, group: int) -> dict[str, int]:
        """One that may be for the cell that a slot has, the next, one long gone, or one far ahead."""
        choice = self.choice
        base, log2, root, _ = GROUPS[group]
        tag = self.slots[base + choice.randrange(1 << log2)].tag
        cell = tag + (choice.choices((0, 1, -1, 2, -3, 1000), (12, 5, 2, 1, 1, 1))[0] << log2)
        kind = choice.choices((CONTRIBUTION, RESULT, REFLECTION, NONE), (20, 0 if root else 4, 1, 1))[0]
        size = choice.choice((0, 0, 4, 16, 64, CONFLICT_RECORD_BYTES))
        imm = 0x1005 if choice.random() < 0.95 else choice.getrandbits(32) & ~NULL_BIT & ~ERR_BIT
        if choice.random() < 0.04:
            imm |= ERR_BIT
        return self.request(
            group, kind, cell, child=choice.randrange(self.fan_in[group] + 1), bytes=size,
            imm=imm | (0 if size else NULL_BIT), ce=int(choice.random() < 0.1), lacks=int(choice.random() < 0.03),
            op=choice.choice((2, 4, 5, 6)),
        )  # fmt: skip


@cocotb.test()
@cocotb.parametrize(idle=list(PATTERNS))
async def any_requests(dut, idle: str) -> None:
    """Each is decided on the slot as the one before left it, however close they are."""
    tb = TB(dut)
    await tb.start()
    pauses: Iterator[bool] = PATTERNS[idle](cocotb.RANDOM_SEED)
    group = 0
    for _ in range(2500):
        if next(pauses):
            await tb.give(None)
            continue
        if tb.choice.random() < 0.15:
            group = tb.choice.randrange(len(GROUPS))
        await tb.give(tb.any_request(group))
    await tb.check_slots()
    if CHILDREN > 1:
        for name in ("rx_contribution", "rx_duplicate", "rx_stale", "rx_result", "drop_window", "drop_unexpected",
                     "tx_partial", "tx_result", "tx_replay", "tx_resend", "tx_reflected", "poisoned"):  # fmt: skip
            assert tb.seen[name] > 3, f"{name}: {tb.seen}"


@cocotb.test()
async def every_pair_at_every_distance(dut) -> None:
    """Two requests for a slot, none to seven cycles between them; before them the slot's cell has one contribution."""
    tb = TB(dut)
    await tb.start()
    for group in (0, 2):
        last = tb.fan_in[group]
        kinds = [
            (CONTRIBUTION, 2, {"child": 0}),
            (CONTRIBUTION, 2, {"child": last}),
            (CONTRIBUTION, 2, {"child": last, "bytes": 16, "imm": 0x1005}),
            (CONTRIBUTION, 2, {"child": last, "bytes": 4, "imm": 0x2005}),
            (CONTRIBUTION, 2, {"child": last, "bytes": 16, "imm": ERR_BIT}),
            (CONTRIBUTION, 0, {"child": 0}),
            (CONTRIBUTION, 4, {"child": 0, "bytes": 4, "imm": 0x1005}),
            (CONTRIBUTION, 4, {"child": last, "ce": 1}),
            (CONTRIBUTION, 6, {"child": 0, "guard": 0}),
            (REFLECTION, 2, {"child": 0}),
            *([(RESULT, 2, {"imm": 0x1005, "bytes": 64}), (RESULT, 4, {})] if group == 2 else []),
        ]
        for kind_1, cell_1, fields_1 in kinds:
            for kind_2, cell_2, fields_2 in kinds:
                for between in range(7):
                    await tb.install(group)
                    await tb.give(tb.request(group, CONTRIBUTION, 0, child=0))
                    await tb.give(tb.request(group, CONTRIBUTION, 2, child=0, guard=0))
                    for _ in range(tb.choice.randrange(3)):
                        await tb.give(None)
                    await tb.give(tb.request(group, kind_1, cell_1, **fields_1))
                    for _ in range(between):
                        await tb.give(None)
                    await tb.give(tb.request(group, kind_2, cell_2, **fields_2))
                    await tb.give(tb.request(group, CONTRIBUTION, 4, child=last))
    await tb.check_slots()


@cocotb.test()
async def a_stale_frame_beside_one_of_the_next_cell(dut) -> None:
    """In consecutive cycles, in both orders: the stale one changes nothing, the new one is counted."""
    tb = TB(dut)
    await tb.start()
    children = tb.fan_in[0] + 1
    rounds = 20
    for number in range(rounds):  # the slot has cell 2 * number - 2, done
        cell = 2 * number
        fresh = tb.request(0, CONTRIBUTION, cell, child=0)
        # Behind the new one, that of the cell which it ends is stale, too.
        before = number % 3 == 0
        stale = tb.request(
            0, CONTRIBUTION, cell - (4 if before else 2), child=number % children, bytes=4, imm=0x1005
        )
        for req in (stale, fresh) if before else (fresh, stale):
            await tb.give(req)
        if number % 2:
            await tb.give(stale)
        for child in range(1, children):
            await tb.give(tb.request(0, CONTRIBUTION, cell, child=child))
        for _ in range(tb.choice.randrange(3)):
            await tb.give(None)
    await tb.check_slots()
    assert tb.seen["rx_stale"] == rounds + rounds // 2
    assert tb.seen["tx_result"] == rounds


@cocotb.test()
async def cells_of_one_slot_in_a_row(dut) -> None:
    """All children of one cell after the other, a contribution a cycle, without a pause: nothing waits."""
    tb = TB(dut)
    await tb.start()
    children, cells = tb.fan_in[0] + 1, 40
    started = tb.seen.total()
    for number in range(cells):
        for child in range(children):
            await tb.give(tb.request(0, CONTRIBUTION, 2 * number, child=child))
    cycles = cells * children
    await tb.check_slots()
    assert tb.seen["tx_result"] == cells
    assert tb.seen["rx_contribution"] == cycles
    assert started == 0
    record("requests a cycle for one slot", tb.seen["rx_contribution"] / cycles)


@cocotb.test()
async def the_control_plane_among_requests(dut) -> None:
    """Clearing and reading get their cycles when requests come as fast as they may; nobody's slots but the new group's
    change."""
    tb = TB(dut)
    await tb.start()
    busy = 0
    for round_ in range(40):
        group = round_ % len(GROUPS)
        base, log2, _, _ = GROUPS[group]
        others = [g for g in range(len(GROUPS)) if g != group]
        clears = round_ % 2 == 0
        slot = base + tb.choice.randrange(1 << log2)
        await tb.settle()  # a group's slots are cleared when none of its frames is under way
        dut.clear.value, dut.read.value = int(clears), int(not clears)
        dut.clear_base.value, dut.clear_log2.value = base, log2
        dut.clear_fan_in.value, dut.read_slot.value = tb.fan_in[group], slot
        requests = cycle(others)
        for at, other in enumerate(islice(requests, 60)):
            await tb.give(None if tb.holds[0] else tb.any_request(other))
            dut.clear.value = dut.read.value = 0
            if at and not dut.busy.value:
                break
            busy += 1
        else:
            raise AssertionError("no cycle was free for the control plane")
        if clears:
            size, full = 1 << log2, (2 << tb.fan_in[group]) - 1
            tb.slots |= {base + i: Slot((i - size) % SERIAL, full) for i in range(size)}
        else:
            got = (int(dut.state_tag.value), int(dut.state_bitmap.value), bool(dut.state_done.value))
            assert got == (tb.slots[slot].tag, tb.slots[slot].bitmap, tb.slots[slot].done)
    assert busy > 100
    await tb.check_slots()
