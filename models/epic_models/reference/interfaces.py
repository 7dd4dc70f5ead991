"""What agents and engines have in common: cells, events, outputs, and the two protocols (architecture rule 3).

Both are sans-I/O: time is an argument in seconds (any monotonic origin), packets and events are returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from epic_models.reference.group import EngineGroup
from epic_spec.packets import Packet


@dataclass(frozen=True, slots=True)
class Cell:
    """One contribution: its descriptor (NULL set when `payload` is None) and its payload in wire byte order."""

    imm: int
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class ConflictRecord:
    """Who disagreed about a cell: descriptor and payload length that the slot held, and those that differed."""

    held: int
    held_length: int
    other: int
    other_length: int


@dataclass(frozen=True, slots=True)
class CellDelivered:
    """Agent: the result of `cell` is here; cells come in order, each once (P2). `payload` None is a NULL result."""

    cell: int
    imm: int
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class CellFailed:
    """Agent: `cell` was poisoned. `held` is the descriptor in the result, `record` says who disagreed where known."""

    cell: int
    sent: int
    held: int
    record: ConflictRecord | None


@dataclass(frozen=True, slots=True)
class EdgeFailed:
    """Agent or engine: the edge named `edge` is in error and sends nothing more."""

    group: int
    edge: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stalled:
    """Agent: nothing was delivered for the group's deadline while `cell` was outstanding (P8)."""

    cell: int
    seconds: float


Event = CellDelivered | CellFailed | EdgeFailed | Stalled


@dataclass(slots=True)
class Output:
    """What a call caused: packets to send, each with the local port it leaves by, and events, both in order."""

    sends: list[tuple[int, Packet]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def extend(self, other: Output) -> None:
        """Append what another call caused."""
        self.sends += other.sends
        self.events += other.events


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """One slot as the control plane sees it. `cell` is modulo 2^24, `bitmap` has bit i for child i."""

    cell: int
    bitmap: int
    done: bool


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What an engine knows of one group: its live slots and the edges (by name) that are in error."""

    group: int
    epoch: int
    slots: tuple[SlotStatus, ...]
    failed_edges: tuple[str, ...]


@runtime_checkable
class Engine(Protocol):
    """The data plane of one switch: many groups, one mode."""

    def install(self, entry: EngineGroup, now: float) -> None:
        """Install a group. Raises ConfigError or ResourceError; on an error nothing has changed."""

    def remove(self, group: int) -> None:
        """Remove a group and free all it held. Raises ConfigError when it is not installed."""

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived on `port`."""

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived on `port`; one that cannot be decoded is counted by reason and dropped."""

    def poll(self, now: float) -> Output:
        """Run the timers that are due."""

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml; all names are present."""

    def status(self, group: int) -> GroupStatus:
        """Slots and failed edges of a group. Raises ConfigError when it is not installed."""


@runtime_checkable
class Agent(Protocol):
    """The protocol end of one rank on one tree."""

    def room(self) -> int:
        """How many cells `submit` takes now: the open part of the window (EPIC-A-01, EPIC-H-08)."""

    def submit(self, cells: Sequence[Cell], now: float) -> Output:
        """Contribute the next cells. Raises ValueError for more than `room()`."""

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived."""

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived; one that cannot be decoded is counted by reason and dropped."""

    def poll(self, now: float) -> Output:
        """Run the timers that are due."""

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml; all names are present."""
