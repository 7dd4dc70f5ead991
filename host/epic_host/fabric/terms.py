"""What a group and the engines of a tree agreed on: the values of section 11 of epic.md that its installation has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Demand, whole_kbps
from epic_models.reference.group import GroupParams


@dataclass(frozen=True, slots=True)
class Terms:
    """Values of capabilities, under the names of epic.toml.

    What must stay over all epochs of a group, because its collectives are cut into cells and coded by it: `cell_bytes`,
    `byte_order`, `datatypes`, `operators`, `partial_format`, `ordered`. The rest may differ from tree to tree; `window`
    is the largest that any epoch has.
    """

    mode: int
    payload_bytes: int
    window: int
    datatypes: tuple[str, ...]
    operators: tuple[str, ...]
    message_bytes: int
    message_buffers: int
    slots: int
    byte_order: str = "big"
    icrc: str = "full"
    ack_reflection: bool = False
    ordered: bool = False
    partial_format: str = "input"
    window_guard: bool = True
    conflict_record: bool = True
    ecn: bool = True

    @property
    def cell_bytes(self) -> int:
        """Largest payload of one cell."""
        return self.message_bytes if self.mode == 1 else self.payload_bytes

    def with_window(self, window: int) -> Terms:
        """With a smaller window, a power of two, and what hangs on it."""
        buffers = min(window, self.message_buffers)
        if (window, 2 * window, buffers) == (self.window, self.slots, self.message_buffers):
            return self
        return replace(self, window=window, slots=2 * window, message_buffers=buffers)

    def demand(self, children: int, rate_gbps: float) -> Demand:
        """What a tree with these terms takes of an engine with this fan-in (epic.md, section 11).

        Memory: 2 B messages and one a child being reassembled in Mode I, 2 W P bytes in Mode II, N P in Mode III.
        `rate_gbps` is what is set aside for each child, in whole kbit/s.
        """
        if self.mode == 1:
            slots, size = 2 * self.message_buffers, (2 * self.message_buffers + children) * self.message_bytes
        elif self.mode == 2:
            slots, size = 2 * self.window, 2 * self.window * self.payload_bytes
        else:
            slots, size = self.slots, self.slots * self.payload_bytes
        return Demand(size, slots, 1, children, children, whole_kbps(children * rate_gbps))

    def params(self, request: GroupRequest, group: int, epoch: int) -> GroupParams:
        """The parameters of the installation. Raises ConfigError."""
        return GroupParams(
            group=group,
            epoch=epoch,
            world_size=request.world_size,
            deadline_us=round(request.deadline * 1e6),
            **{f.name: getattr(self, f.name) for f in fields(self)},
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**values)
