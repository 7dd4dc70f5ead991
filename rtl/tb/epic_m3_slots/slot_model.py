"""What spec sections 9.2 and 4.3 make of a request and the slot that it finds, for the benches of Mode III's slots."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.frames import VH

from epic_spec.packets import ERR_BIT, NULL_BIT
from epic_spec.tables import CONFLICT_RECORD_BYTES, COUNTERS
from epic_testbed.rtl.records import constants

CODES = constants(VH)
INDEX = {name: index for index, name in enumerate(COUNTERS)} | {None: len(COUNTERS)}
SERIAL = 1 << 24
NONE, CONTRIBUTION, RESULT, REFLECTION = (
    CODES[f"KIND_{name}"] for name in ("NONE", "CONTRIBUTION", "RESULT", "REFLECTION")
)
NOBODY, ONE, ALL = (CODES[f"SEND_{name}"] for name in ("NOTHING", "ONE", "ALL"))


def ahead(a: int, b: int) -> int:
    """How much newer cell `a` is than `b`, serially."""
    return (a - b + SERIAL // 2) % SERIAL - SERIAL // 2


@dataclass
class Slot:
    """A slot's state; as it is after it was cleared, with the tag and bitmap that are given."""

    tag: int
    bitmap: int
    done: bool = True
    served: bool = False
    congested: bool = False
    err: bool = False
    record: bool = False
    held: int = 0
    bytes: int = 0

    def renew(self, cell: int, held: int) -> None:
        """It serves a newer cell."""
        self.tag, self.held, self.bitmap, self.bytes = cell, held, 0, 0
        self.done = self.congested = self.err = self.record = False

    def output(self) -> tuple[int, int]:
        """Descriptor and payload length of its value."""
        if self.err and self.record:
            return self.held | ERR_BIT, CONFLICT_RECORD_BYTES
        if self.err:
            return self.held | ERR_BIT | NULL_BIT, 0
        return (self.held, self.bytes) if self.bytes else (self.held | NULL_BIT, 0)


@dataclass
class Outcome:
    """What is told of a request. `passes` are the fields of its PASS that matter; none: no PASS."""

    counter: str | None = None
    completed: bool = False
    poisoned: bool = False
    send: str | None = None
    send_count: int = 1
    writes: bool = False
    passes: dict[str, int] = field(default_factory=dict)


def decide(slot: Slot, req: dict[str, int]) -> Outcome:
    """Lets `slot` take `req`."""
    if req["kind"] == CONTRIBUTION:
        told = _contribution(slot, req)
    elif req["kind"] == RESULT:
        told = _result(slot, req)
    elif req["kind"] == REFLECTION:
        told = Outcome(send="tx_reflected", passes=_one(req, req["imm"], 0) | {"ack": 1, "ce": 0})
    else:
        told = Outcome(counter=[*COUNTERS, None][req["reason"]])
    if told.passes or req["has_beats"]:
        told.passes = _nothing(req) | told.passes
        told.passes["drain"] = int(req["has_beats"] and not told.passes["use"])
    return told


def _nothing(req: dict[str, int]) -> dict[str, int]:
    return {"src": req["port"], "use": 0, "write": 0, "record": 0, "in_bytes": req["bytes"], "send": NOBODY}


def _one(req: dict[str, int], imm: int, size: int) -> dict[str, int]:
    """To where the request came from."""
    return {
        "send": ONE, "port": req["port"], "edge": req["edge"], "up": 0, "ack": 0, "cell": req["cell"], "imm": imm,
        "bytes": size,
    }  # fmt: skip


def _up(req: dict[str, int], imm: int, size: int) -> dict[str, int]:
    """To the parent."""
    return _one(req, imm, size) | {"port": req["parent_port"], "edge": req["parent_edge"], "up": 1}


def _everybody(req: dict[str, int], imm: int, size: int) -> dict[str, int]:
    return {
        "send": ALL, "row": req["row"], "rows": req["rows"], "up": 0, "ack": 0, "cell": req["cell"], "imm": imm,
        "bytes": size,
    }  # fmt: skip


def _of_slot(slot: Slot, req: dict[str, int], passes: dict[str, int]) -> dict[str, int]:
    """What a PASS about the slot says besides."""
    return passes | {"slot": req["slot"], "ce": int(req["ecn"] and slot.congested)}


def _contribution(slot: Slot, req: dict[str, int]) -> Outcome:
    full = (2 << req["fan_in"]) - 1
    age = ahead(req["cell"], slot.tag)
    if age < 0:
        return Outcome("rx_stale")
    if age > 0:
        if req["guard"] and not (slot.done and age == 1 << req["slot_log2"]):
            return Outcome("drop_window")
        slot.renew(req["cell"], req["imm"] & ~(NULL_BIT | ERR_BIT))
    elif slot.bitmap >> req["child"] & 1:
        return _duplicate(slot, req, full)
    told = Outcome("rx_contribution", writes=True)
    poisoned = slot.err
    data = _add(slot, req)
    told.poisoned = slot.err and not poisoned
    slot.bitmap |= 1 << req["child"]
    slot.served = True
    slot.congested |= bool(req["ce"])
    to: dict[str, int] = {}
    if slot.bitmap == full:
        told.completed = True
        slot.done = bool(req["root"])
        told.send = "tx_result" if slot.done else "tx_partial"
        told.send_count = req["fan_in"] + 1 if slot.done else 1
        to = (_everybody if slot.done else _up)(req, *slot.output())
    if data or to:
        told.passes = _of_slot(slot, req, data | to)
    return told


def _add(slot: Slot, req: dict[str, int]) -> dict[str, int]:
    """Adds to the value; what that means for the slot's data."""
    is_err = bool(req["imm"] & ERR_BIT)
    adds = bool(req["bytes"]) and not is_err
    agreement = req["imm"] & ~(NULL_BIT | ERR_BIT)
    length = slot.bytes
    conflict = agreement != slot.held or bool(adds and length and req["bytes"] != length)
    makes = conflict and not slot.record and bool(req["record"])
    takes = bool(
        is_err
        and not conflict
        and not slot.record
        and req["record"]
        and req["bytes"] == CONFLICT_RECORD_BYTES
    )
    slot.err |= conflict or is_err or bool(adds and req["lacks"])
    slot.record |= makes or takes
    if adds and not length:
        slot.bytes = req["bytes"]
    if makes:
        return {
            "write": 1, "record": 1, "op": CODES["LANE_A"], "held": slot.held, "held_bytes": length,
            "other": agreement, "other_bytes": req["bytes"] if adds else 0, "bytes": CONFLICT_RECORD_BYTES,
        }  # fmt: skip
    if takes or (adds and not slot.err):
        operation = req["op"] if length and not takes else CODES["LANE_A"]
        return {"write": 1, "use": 1, "op": operation, "little": req["little"], "bytes": req["bytes"]}
    return {}


def _duplicate(slot: Slot, req: dict[str, int], full: int) -> Outcome:
    told = Outcome("rx_duplicate")
    to: dict[str, int] = {}
    if slot.done and slot.served:
        told.send = "tx_replay"
        whole = (slot.held, slot.bytes)  # as it came from the parent
        to = _one(req, *(slot.output() if req["root"] else whole))
    elif not slot.done and slot.bitmap == full and req["child"] == 0:
        told.send = "tx_resend"
        to = _up(req, *slot.output())
    if to:
        told.passes = _of_slot(slot, req, to | {"op": CODES["LANE_B"]})
    return told


def _result(slot: Slot, req: dict[str, int]) -> Outcome:
    full = (2 << req["fan_in"]) - 1
    age = ahead(req["cell"], slot.tag)
    if age < 0:
        return Outcome("rx_stale")
    if age > 0 or slot.bitmap != full:
        return Outcome("drop_unexpected")
    if slot.done:
        return Outcome("rx_duplicate")
    slot.done, slot.served, slot.err, slot.record = True, True, False, False
    slot.held, slot.bytes = req["imm"], req["bytes"]
    slot.congested |= bool(req["ce"])
    data = {"write": 1, "use": 1, "op": CODES["LANE_A"], "little": req["little"]} if req["bytes"] else {}
    told = Outcome("rx_result", send="tx_result", send_count=req["fan_in"] + 1, writes=True)
    told.passes = _of_slot(slot, req, data | _everybody(req, req["imm"], req["bytes"]))
    return told
