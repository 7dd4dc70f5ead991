"""A job while it runs, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from epic_models.flowsim.groups import Group
from epic_models.flowsim.jobs import Job, Phase
from epic_models.flowsim.topology import Index


@dataclass(slots=True, eq=False)
class Running:
    """A job and how far it is. `alone`: seconds it would have taken so far with nothing else there."""

    job: Job
    number: int
    hosts: Index
    began: float
    groups: dict[str, list[Group]]
    phase_alone: list[float]
    iteration: int = 0
    phase: int = 0
    open: int = 0
    alone: float = 0.0
    communicating: float = 0.0
    phase_began: float = 0.0

    def taking_part(self, phase: Phase) -> list[Group]:
        """The groups that communicate in a phase."""
        return self.groups.get(phase.over, []) if phase.algorithm is not None else []


@dataclass(frozen=True, slots=True)
class JobEnd:
    """What became of a job, in seconds; `end` is None where the time was over before."""

    job: Job
    began: float
    end: float | None
    alone: float
    communicating: float
    in_network: float
    on_hosts: float
    wanting: int  # groups that would use the network
    never: int  # of these, groups that never did

    @property
    def slowdown(self) -> float:
        """Time over the time alone."""
        assert self.end is not None
        return (self.end - self.began) / self.alone if self.alone > 0 else 1.0
