"""What the manager gives a rank for one epoch of its group: the path its cells take, and where they go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from epic_models.reference.group import Edge, GroupParams, GroupPlan
from epic_spec.errors import ConfigError

ALGORITHMS = ("ring", "doubling")


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The host path of a group: reliable connections between ranks, by the algorithm's needs.

    `edges[r]` are rank r's ends, by the rank at the other end. `params` are those of the group: its cells are the
    same as on the network, so that a group can change between paths at any cell.
    """

    params: GroupParams
    algorithm: str
    edges: dict[int, dict[int, Edge]]

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise ConfigError(
                f"host plan: algorithm = {self.algorithm!r}, expected one of {', '.join(ALGORITHMS)}"
            )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form. Raises ConfigError."""
        return cls(
            params=GroupParams.from_dict(data["params"]),
            algorithm=data["algorithm"],
            edges={
                int(rank): {int(peer): Edge.from_dict(edge) for peer, edge in edges.items()}
                for rank, edges in data["edges"].items()
            },
        )


@dataclass(frozen=True, slots=True)
class Grant:
    """One epoch of a group. Exactly one of `trees` (the network) and `host` is there.

    With T trees cell k of the epoch travels on tree k mod T. `resume` is the number, counted over all epochs, of the
    first cell of this epoch: the lowest that some rank has not delivered (epic.md, section 10.5). `lease` in seconds.
    """

    group: str
    epoch: int
    resume: int
    reason: str
    lease: float
    trees: tuple[GroupPlan, ...] = ()
    host: HostPlan | None = None

    def __post_init__(self) -> None:
        if bool(self.trees) == (self.host is not None):
            raise ConfigError(f"grant of group {self.group}: expected trees or a host plan, and not both")

    @property
    def params(self) -> GroupParams:
        """Parameters of the group, the same for all its trees but for the group number."""
        return self.trees[0].params if self.host is None else self.host.params

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "group": self.group,
            "epoch": self.epoch,
            "resume": self.resume,
            "reason": self.reason,
            "lease": self.lease,
            "trees": [tree.to_dict() for tree in self.trees],
            "host": None if self.host is None else self.host.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form. Raises ConfigError."""
        return cls(
            group=data["group"],
            epoch=data["epoch"],
            resume=data["resume"],
            reason=data["reason"],
            lease=data["lease"],
            trees=tuple(GroupPlan.from_dict(tree) for tree in data["trees"]),
            host=None if data["host"] is None else HostPlan.from_dict(data["host"]),
        )
