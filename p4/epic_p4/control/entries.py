"""What the control plane writes: table entries, multicast groups, initial register values; in stages.

A stage is a set of things without an order among them, because P4Runtime may reorder the updates of one request.
Stages are written one after the other, and undone last one first.
"""

from __future__ import annotations

from dataclasses import dataclass

from epic_p4.runtime.match import TableEntry


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """Copies of a packet: a replica is (egress port, rid)."""

    number: int
    replicas: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RegisterFill:
    """Values of consecutive cells of a register, from `first` on. It needs no undoing."""

    register: str
    first: int
    values: tuple[int, ...]


Write = TableEntry | MulticastGroup | RegisterFill
Stage = tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Installation:
    """A group on a switch: what was taken for it, and what is written for it, in order."""

    group: int
    epoch: int
    program_group: int  # its number in the data plane
    generation: int
    slot_base: int
    slots: int
    edges: tuple[int, ...]  # numbers of the edges: children in order, then the parent
    children_multicast: int
    qpns: tuple[int, ...]
    stages: tuple[Stage, ...]
