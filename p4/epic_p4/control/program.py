"""What the control plane must know of a compiled program: all of it from its P4Info.

The names are those of p4/README.md. What a program offers is read off the actions' parameters and the sizes of tables
and registers, so a program compiled with other sizes or another word count needs nothing told here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from epic_p4.control.capabilities import ProgramCapabilities
from epic_p4.control.description import GroupLike
from epic_p4.control.schema import Schema
from epic_p4.runtime.errors import NotFoundError
from epic_spec.errors import ConfigError
from epic_spec.tables import CAPABILITIES

INGRESS = "EpicIngress"
EGRESS = "EpicEgress"
EDGE = f"{INGRESS}.admission.edge"
EDGE_PORT = f"{INGRESS}.admission.edge_port"
EDGE_ADDRESS = f"{INGRESS}.admission.edge_address"
EDGE_PKEY = f"{INGRESS}.admission.edge_pkey"
GROUP = f"{INGRESS}.admission.group"
EDGE_OUT = f"{EGRESS}.edge_out"
BELOW = f"{EGRESS}.below"
L2 = f"{INGRESS}.forward.l2"
IPV4 = f"{INGRESS}.forward.ipv4"
SET_EDGE = f"{INGRESS}.admission.set_edge"
RIGHT_PORT = f"{INGRESS}.admission.right_port"
RIGHT_ADDRESS = f"{INGRESS}.admission.right_address"
RIGHT_PKEY = f"{INGRESS}.admission.right_pkey"
SET_GROUP = f"{INGRESS}.admission.set_group"
REWRITE = f"{EGRESS}.rewrite"
IS_BELOW = f"{EGRESS}.is_below"
OWNER = f"{INGRESS}.slot.owner"
TAG = f"{INGRESS}.slot.tag"
BITMAP = f"{INGRESS}.slot.bitmap"
FLAGS = f"{INGRESS}.slot.flags"
DATA = f"{INGRESS}.data."

GROUP_TABLES = (EDGE, EDGE_PORT, EDGE_ADDRESS, EDGE_PKEY, GROUP, EDGE_OUT, BELOW)

# Multicast numbers: an edge's is the edge's own, then come those of all children of a group, then floods.
LAST_EDGE = 0x3FFF
FIRST_CHILDREN = 0x4000
LAST_CHILDREN = 0x7FFF
FIRST_FLOOD = 0x8000
LAST_FLOOD = 0xFFFF

FLAG_DONE = 1
FLAG_SERVED = 2
ADDRESS_BITS = {"v1model": 9, "tna": 9}
# A Tofino pipe has its own copy of every register, and serves the device ports of one value above these bits.
TNA_PORT_BITS_IN_PIPE = 7


@dataclass(frozen=True)
class ProgramModel:
    """One compiled program. `cells` is how many slots its registers have, shared by all groups."""

    arch: str
    capabilities: ProgramCapabilities
    cells: int
    last_group: int
    last_edge: int
    port_bits: int
    clears_slots: bool  # slots have no owner: the control plane writes their initial state
    table_sizes: Mapping[str, int]
    action_params: Mapping[str, tuple[str, ...]]
    counter_banks: Mapping[str, int]
    schema: Schema = field(repr=False)

    @classmethod
    def of(cls, schema: Schema) -> ProgramModel:
        """The model of the program that a P4Info describes. Raises ConfigError when it is not EPIC's."""
        try:
            return cls._of(schema)
        except NotFoundError as error:
            raise ConfigError(f"the program is not EPIC's: {error}") from None

    @classmethod
    def _of(cls, schema: Schema) -> ProgramModel:
        for name in GROUP_TABLES:
            schema.table_named(name)
        params = {action.name: tuple(p.name for p in action.params) for action in schema.actions}
        widths = {p.name: p.width for p in schema.action_named(SET_GROUP).params}
        cells = schema.register_named(TAG).size
        sizes = {table.name: table.size for table in schema.tables}
        edges = min(LAST_EDGE, sizes[EDGE] - 1)
        port_bits = next(key.width for key in schema.table_named(EDGE_PORT).keys if key.name == "port")
        words = sum(len(r.members) or 1 for r in schema.registers if r.name.startswith(DATA))
        has_owner = any(register.name == OWNER for register in schema.registers)
        most_slots = min(cells, CAPABILITIES["slots"]["range"][1])
        return cls(
            arch=schema.arch,
            capabilities=ProgramCapabilities(
                window=min(most_slots // 2, CAPABILITIES["window"]["range"][1]),
                slots=most_slots,
                payload_bytes=words * 4,
                children=min(widths["full"], edges),
                groups=min(sizes[GROUP] - 1, CAPABILITIES["groups"]["range"][1]),
                icrc=("full", "none") if "icrc" in widths else ("none",),
                ack_reflection="reflection" in widths,
                window_guard="guard" in widths,
                ecn="ecn" in widths,
            ),
            cells=cells,
            last_group=sizes[GROUP] - 1,
            last_edge=edges,
            port_bits=port_bits,
            clears_slots=not has_owner,
            table_sizes=MappingProxyType(sizes),
            action_params=MappingProxyType(params),
            counter_banks=MappingProxyType(
                {c.name: c.size for c in schema.counters if ".counters_" in c.name}
            ),
            schema=schema,
        )

    def parameters(self, action: str, values: Mapping[str, int]) -> dict[str, int]:
        """The values that this program's form of an action takes; architectures differ in what they need."""
        names = self.action_params[action]
        missing = [name for name in names if name not in values]
        if missing:
            raise ConfigError(
                f"action {action}: parameter {missing[0]!r} is unknown, expected some of {', '.join(values)}"
            )
        return {name: values[name] for name in names}

    def entries_needed(self, group: GroupLike) -> dict[str, int]:
        """How many entries of each table a group takes."""
        children = len(group.children)
        edges = children + (group.parent is not None)
        return {
            EDGE: edges,
            EDGE_PORT: edges,
            EDGE_ADDRESS: edges,
            EDGE_PKEY: edges,
            GROUP: 1,
            EDGE_OUT: edges,
            BELOW: sum(len(edge.ranks) for edge in group.children),
        }
