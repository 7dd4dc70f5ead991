"""What the tests of the control plane share: groups of the golden model, and the P4 programs' interface by README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from epic_models.reference.group import EngineGroup, GroupParams
from epic_models.reference.tree import Tree, build_group
from epic_p4.control import MulticastGroup, RegisterFill
from epic_p4.control.entries import Stage
from epic_p4.control.schema import Action, Counter, Field, Register, Schema, Table
from epic_spec.errors import EpicError

COUNTERS = 58
ROWS = {
    # table: keys (name, width), action, parameters (name, width), size
    "EpicIngress.admission.edge": (
        (("qpn", 24),),
        "EpicIngress.admission.set_edge",
        (
            ("edge_id", 16),
            ("group", 16),
            ("role", 2),
            ("child_bit", 64),
            ("data_offset", 32),
            ("ack_offset", 32),
        ),
    ),
    "EpicIngress.admission.edge_port": (
        (("qpn", 24), ("port", 9)),
        "EpicIngress.admission.right_port",
        (),
    ),
    "EpicIngress.admission.edge_address": (
        (("qpn", 24), ("src_mac", 48), ("dst_mac", 48), ("src_ip", 32), ("dst_ip", 32)),
        "EpicIngress.admission.right_address",
        (),
    ),
    "EpicIngress.admission.edge_pkey": (
        (("qpn", 24), ("pkey", 16)),
        "EpicIngress.admission.right_pkey",
        (),
    ),
    "EpicIngress.admission.group": (
        (("group", 16),),
        "EpicIngress.admission.set_group",
        (
            ("root", 1),
            ("full", 64),
            ("slot_base", 32),
            ("slot_mask", 32),
            ("payload_bytes", 16),
            ("offered", 4),
            ("reflection", 1),
            ("ecn", 1),
            ("parent", 16),
            ("children", 16),
            ("guard", 1),
            ("icrc", 1),
            ("generation", 32),
        ),
    ),
    "EpicEgress.edge_out": (
        (("edge_id", 16),),
        "EpicEgress.rewrite",
        (
            ("src_mac", 48),
            ("dst_mac", 48),
            ("src_ip", 32),
            ("dst_ip", 32),
            ("src_port", 16),
            ("qpn", 24),
            ("data_base", 32),
            ("ack_base", 32),
            ("pkey", 16),
            ("icrc", 1),
        ),
    ),
    "EpicEgress.below": ((("edge_id", 16), ("rank", 16)), "EpicEgress.is_below", ()),
}
V1MODEL_ONLY = {"guard", "icrc", "generation"}
BANKS = ("frames", "outcome", "ce", "completed", "poisoned")


def schema(
    arch: str = "v1model",
    *,
    edges: int = 64,
    groups: int = 9,
    cells: int = 1024,
    words: int = 64,
    ranks: int = 128,
) -> Schema:
    """The interface of the program of one architecture, as p4/README.md states it."""
    tna = arch == "tna"
    tables, actions = [], []
    for number, (name, (keys, action, params)) in enumerate(ROWS.items(), 1):
        size = {"EpicIngress.admission.group": groups, "EpicEgress.below": ranks}.get(name, edges)
        fields = tuple(Field(i, key, width, "exact") for i, (key, width) in enumerate(keys, 1))
        tables.append(Table(number, name, fields, (number,), (), size, False, True, 0, False))
        kept = [(p, w) for p, w in params if not (tna and p in V1MODEL_ONLY)]
        narrow = [(p, 32 if tna and p in ("full", "child_bit") else w) for p, w in kept]
        actions.append(Action(number, action, tuple(Field(i, p, w) for i, (p, w) in enumerate(narrow, 1))))
    slot = [("tag", 32), ("bitmap", 32 if tna else 64), ("flags", 8)]
    registers = [Register(i, f"EpicIngress.slot.{n}", cells, w) for i, (n, w) in enumerate(slot, 1)]
    if tna:
        pair = (("first", 32), ("second", 32))
        registers += [Register(10 + i, f"EpicIngress.data.w{i}", cells, 0, pair) for i in range(words // 2)]
    else:
        registers.append(Register(9, "EpicIngress.slot.owner", cells, 32))
        registers += [Register(10 + i, f"EpicIngress.data.w{i}", cells, 32) for i in range(words)]
    banks = [f"EpicIngress.counters_{bank}" for bank in BANKS]
    banks += ["EpicEgress.counters_sent", "EpicEgress.counters_frames"]
    counters = tuple(Counter(i, name, COUNTERS) for i, name in enumerate(banks, 1))
    return Schema(arch, tuple(tables), tuple(actions), counters, tuple(registers))


def params(**changes: object) -> GroupParams:
    """Parameters that the programs offer."""
    values: dict[str, object] = {
        "group": 5,
        "mode": 3,
        "world_size": 3,
        "window": 4,
        "slots": 8,
        "payload_bytes": 64,
        "conflict_record": False,
    }
    return GroupParams(**{**values, **changes})  # type: ignore[arg-type]


def root_group(seed: int = 1, **changes: object) -> EngineGroup:
    """A root with two ranks and an inner engine with one rank below it."""
    tree = Tree("s0", {"s0": (0, 1, "s1"), "s1": (2,)})
    return build_group(tree, params(**changes), seed=seed).engines["s0"]


def inner_group(seed: int = 1, **changes: object) -> EngineGroup:
    """An inner engine with two ranks."""
    tree = Tree("s0", {"s0": ("s1", 2), "s1": (0, 1)})
    return build_group(tree, params(**changes), seed=seed).engines["s1"]


def wide_group(children: int, seed: int = 1, **changes: object) -> EngineGroup:
    """A root with many ranks."""
    tree = Tree("s0", {"s0": tuple(range(children))})
    plan = build_group(tree, params(world_size=children, **changes), seed=seed)
    return plan.engines["s0"]


def with_edge(group: EngineGroup, child: int, **changes: object) -> EngineGroup:
    """A group with one child's edge changed."""
    children = list(group.children)
    children[child] = replace(children[child], **changes)  # type: ignore[arg-type]
    return replace(group, children=tuple(children))


class SwitchFailure(EpicError):
    """What the recording backend raises when told to fail."""


@dataclass
class RecordingBackend:
    """A switch that only remembers. `fail_at`: the number of the write that fails after doing half of its stage."""

    fail_at: int | None = None
    log: list[tuple[str, object]] = field(default_factory=list)
    there: list[object] = field(default_factory=list)
    cells: dict[tuple[str, int], int] = field(default_factory=dict)
    counts: dict[str, dict[int, int]] = field(default_factory=dict)
    writes: int = 0

    def write(self, stage: Stage) -> None:
        """Remember a stage."""
        self.writes += 1
        fails = self.writes == self.fail_at
        for item in stage[: len(stage) // 2] if fails else stage:
            self.log.append(("write", item))
            if isinstance(item, RegisterFill):
                self.cells.update({(item.register, i): v for i, v in enumerate(item.values, item.first)})
            else:
                assert key(item) not in [key(other) for other in self.there], f"there twice: {item}"
                self.there.append(item)
        if fails:
            raise SwitchFailure("the switch is full")

    def erase(self, stage: Stage) -> None:
        """Forget a stage."""
        for item in stage:
            self.log.append(("erase", item))
            self.there = [other for other in self.there if key(other) != key(item)]

    def wipe(self, tables: Sequence[str], multicast: range) -> None:
        """Forget everything of these tables and numbers."""
        self.there = [
            item
            for item in self.there
            if not (item.number in multicast if isinstance(item, MulticastGroup) else item.table in tables)  # type: ignore[attr-defined]
        ]

    def counter(self, name: str, size: int) -> Sequence[int]:
        """What a test put there."""
        cells: Mapping[int, int] = self.counts.get(name, {})
        return [cells.get(index, 0) for index in range(size)]

    def register(self, name: str, first: int, count: int, field: str = "") -> Sequence[int]:
        """What was written, or a test put there."""
        return [self.cells.get((name, index), 0) for index in range(first, first + count)]


def key(item: object) -> object:
    """What makes an item one of its kind on the switch."""
    if isinstance(item, MulticastGroup):
        return item.number
    if isinstance(item, RegisterFill):
        return item.register, item.first
    return item.table, tuple(sorted(item.match.items(), key=str)), item.priority  # type: ignore[attr-defined]
