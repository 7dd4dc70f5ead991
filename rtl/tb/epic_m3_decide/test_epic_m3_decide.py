"""epic_m3_decide beside the model of the spec's table: any request, any slot that requests can leave behind."""

from __future__ import annotations

import random
from collections import Counter
from copy import copy

import cocotb
from cocotb.triggers import Timer
from common.frames import pack, unpack
from common.runner import ICARUS, VERILATOR, Bench, parameter
from epic_m3_slots.slot_model import CONTRIBUTION, INDEX, NONE, REFLECTION, RESULT, Slot, ahead, decide

from epic_spec.packets import ERR_BIT, NULL_BIT
from epic_spec.tables import CONFLICT_RECORD_BYTES, COUNTERS

BENCH = Bench(
    top="epic_m3_decide",
    sources=("epic_m3_decide.v",),
    small=((ICARUS, {"CHILDREN": 4}), (VERILATOR, {"CHILDREN": 64})),
    configurations=((ICARUS, {"CHILDREN": 1}),),
)

CHILDREN = parameter("CHILDREN", 4)
AGREEMENT = ~(NULL_BIT | ERR_BIT) & 0xFFFFFFFF
SERIAL = 1 << 24


def any_case(choice: random.Random) -> tuple[Slot, dict[str, int]]:
    """A request, and a slot that it may find."""
    fan_in = choice.randrange(CHILDREN)
    full = (2 << fan_in) - 1
    imm = choice.choice((0x1005, 0x1005, 0x4005, 0xFFFF1005))
    size = choice.choice((0, 4, 16, 64))
    bitmap = choice.choice((full, choice.getrandbits(fan_in + 1), full ^ 1 << choice.randrange(fan_in + 1)))
    root, served = choice.getrandbits(1), choice.random() < 0.9
    done = bitmap == full and (bool(root) or choice.random() < 0.5)
    slot = Slot(choice.randrange(SERIAL), bitmap, done, served or not done, choice.random() < 0.3)
    slot.held, slot.bytes = imm, choice.choice((0, size))
    if choice.random() < 0.2 and not (done and not root):
        slot.err, slot.record = True, choice.random() < 0.5
    log2 = choice.randrange(12)
    cell = slot.tag + (choice.choices((0, 1, -1, 3), (10, 5, 2, 1))[0] << log2)
    size = choice.choice((0, 4, 16, 64, CONFLICT_RECORD_BYTES))
    if choice.random() < 0.1:
        imm |= ERR_BIT
    req = {
        "kind": choice.choices((CONTRIBUTION, RESULT, REFLECTION, NONE), (20, 0 if root else 8, 1, 1))[0],
        "reason": choice.randrange(len(COUNTERS) + 1), "ce": choice.getrandbits(1), "port": choice.getrandbits(3),
        "has_beats": int(size > 0), "edge": choice.getrandbits(8), "child": choice.randrange(fan_in + 1),
        "cell": cell % SERIAL, "slot": choice.getrandbits(13), "imm": imm if size else imm | NULL_BIT, "bytes": size,
        "op": choice.choice((2, 4, 5, 6)), "lacks": int(choice.random() < 0.1), "fan_in": fan_in, "slot_log2": log2,
        "root": root, "guard": choice.getrandbits(1), "record": int(slot.record) | choice.getrandbits(1),
        "ecn": choice.getrandbits(1), "little": choice.getrandbits(1), "parent_edge": choice.getrandbits(8),
        "parent_port": choice.getrandbits(3), "row": choice.getrandbits(8), "rows": choice.getrandbits(6),
    }  # fmt: skip
    return slot, req


def drive(dut, slot: Slot, req: dict[str, int]) -> None:
    """The slot, and what epic_m3_slots says of the two."""
    full, bit = (2 << req["fan_in"]) - 1, 1 << req["child"]
    age = ahead(req["cell"], slot.tag)
    dut.req.value = pack("REQ", **req)
    dut.contribution.value, dut.result.value = int(req["kind"] == CONTRIBUTION), int(req["kind"] == RESULT)
    dut.has_bytes.value, dut.record_sized.value = (
        int(req["bytes"] > 0),
        int(req["bytes"] == CONFLICT_RECORD_BYTES),
    )
    dut.child_bit.value, dut.alone.value, dut.bitmap.value = bit, int(bit == full), slot.bitmap
    for name in ("done", "served", "congested", "err"):
        getattr(dut, name).value = int(getattr(slot, name))
    dut.has_record.value, dut.held.value, dut.bytes.value = int(slot.record), slot.held, slot.bytes
    dut.empty.value = int(slot.bytes == 0)
    dut.older.value, dut.newer.value = int(age < 0), int(age > 0)
    dut.in_turn.value = int(age == 1 << req["slot_log2"])
    dut.seen.value, dut.full.value = int(slot.bitmap & bit > 0), int(slot.bitmap == full)
    dut.rest.value = int(slot.bitmap | bit == full)
    dut.differs.value = int(slot.held != req["imm"] & AGREEMENT)
    dut.longer.value = int(slot.bytes != req["bytes"])


@cocotb.test()
async def every_decision(dut) -> None:
    choice = random.Random(cocotb.RANDOM_SEED)
    seen: Counter[str | None] = Counter()
    for _ in range(12000):
        slot, req = any_case(choice)
        drive(dut, slot, req)
        after = copy(slot)
        told = decide(after, req)
        await Timer(1, "ns")
        assert int(dut.outcome.value) == INDEX[told.counter], f"{slot}, {req}: expected {told}"
        assert (int(dut.completed.value), int(dut.poisoned.value)) == (told.completed, told.poisoned)
        assert int(dut.send.value) == INDEX[told.send]
        assert told.send is None or int(dut.send_count.value) == told.send_count
        assert int(dut.pass_valid.value) == bool(told.passes), f"{slot}, {req}: expected {told}"
        if told.passes:
            got = unpack("PASS", int(getattr(dut, "pass").value))
            wrong = {k: (got[k], v) for k, v in told.passes.items() if got[k] != v}
            assert not wrong, f"{slot}, {req}: PASS (got, expected) {wrong}"
        assert int(dut.write.value) == told.writes
        if told.writes:
            got = tuple(
                int(getattr(dut, f"next_{name}").value)
                for name in ("bitmap", "done", "congested", "err", "has_record", "held", "bytes", "empty")
            )
            wanted = (
                after.bitmap,
                after.done,
                after.congested,
                after.err,
                after.record,
                after.held,
                after.bytes,
            )
            assert got == (*wanted, after.bytes == 0), f"{slot}, {req}: expected {after}"
            renews = told.counter == "rx_contribution" and after.tag != slot.tag
            assert int(dut.claims.value) == renews
            assert int(dut.counts.value) == (told.counter == "rx_contribution")
            if after.bytes != (0 if renews else slot.bytes):
                assert int(dut.sets_length.value) == 1
        seen[told.counter] += 1
        seen[told.send] += 1
        seen["poisoned"] += told.poisoned
    for name in ("rx_contribution", "rx_duplicate", "rx_stale", "rx_result", "drop_window", "drop_unexpected",
                 "tx_partial", "tx_result", "tx_replay", "tx_resend", "tx_reflected", "poisoned"):  # fmt: skip
        assert CHILDREN == 1 or seen[name] > 20, f"{name}: {seen}"
