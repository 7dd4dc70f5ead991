"""A group of a job while it runs: its path, and the collective that is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from epic_models.flowsim.collectives import Cut, Step, between_hosts, in_network
from epic_models.flowsim.jobs import Phase
from epic_models.flowsim.programs import Program
from epic_models.flowsim.rates import Rates
from epic_models.flowsim.sharing import Ask, Grant
from epic_models.flowsim.topology import Index, Topology


@dataclass(slots=True, eq=False)
class Group:
    """Some ranks of a job; or several groups of equal size that move in step. `hosts` has shape (groups, ranks).

    `mode`: that in which it would use the network, None: it never does. `grants`: its places in the network, one for
    each of `hosts`, None while it is between its hosts. `still_until`: it changes its path until then. `version` counts
    what makes timers of a collective under way void. `in_network` and `on_hosts`: seconds of collectives that would use
    the network, spent there or not.
    """

    name: str
    hosts: Index
    mode: int | None
    cut: Cut
    fallback: str
    tree_salts: tuple[str, ...]
    flow_salts: tuple[str, ...]
    grants: tuple[Grant, ...] | None = None
    ever: bool = False
    still_until: float = 0.0
    version: int = 0
    flight: Flight | None = None
    in_network: float = 0.0
    on_hosts: float = 0.0
    # By number of the phase, and whether in the network.
    _programs: dict[tuple[int, bool], Program] = field(default_factory=dict)

    def ask(self) -> Ask:
        """What it asks of the network."""
        assert self.mode is not None
        assert len(self.hosts) == 1
        return Ask(self.name, tuple(self.hosts[0].tolist()), self.mode, self.cut)

    def own_trees(self, topology: Topology) -> tuple[Grant, ...]:
        """The places that it gets where nothing limits it."""
        return tuple(
            Grant(topology.climbs(hosts, salt), self.cut.window)
            for hosts, salt in zip(self.hosts, self.tree_salts, strict=True)
        )

    def steps(self, topology: Topology, phase: Phase, grants: tuple[Grant, ...] | None) -> list[Step]:
        """A phase's collective, in the network with grants, else between hosts."""
        assert phase.algorithm is not None
        if phase.mode is not None and grants is not None:
            cut = Cut(self.cut.payload, self.cut.message, min(grant.window for grant in grants))
            climbs = _together([grant.climbs for grant in grants])
            return [in_network(topology, climbs, phase.mode, phase.primitive, phase.size, cut, phase.root)]
        name = self.fallback if phase.mode is not None else phase.algorithm
        return between_hosts(
            topology, self.hosts, name, phase.primitive, phase.size, self.cut, self.flow_salts, phase.root
        )

    def program(self, topology: Topology, number: int, phase: Phase, rates: Rates) -> Program:
        """The same of the phase with this number, on the path that it has now, described to `rates` once."""
        key = (number, phase.mode is not None and self.grants is not None)
        found = self._programs.get(key)
        if found is None:
            found = self.adopt(number, phase, self.steps(topology, phase, self.grants), rates)
        return found

    def adopt(self, number: int, phase: Phase, steps: Sequence[Step], rates: Rates) -> Program:
        """Describe the steps of a phase on the path that it has now."""
        key = (number, phase.mode is not None and self.grants is not None)
        self._programs[key] = Program.of(steps, rates)
        return self._programs[key]

    def change(self, grants: tuple[Grant, ...] | None, rates: Rates) -> None:
        """Another path; nothing of the group may run in `rates`."""
        for key in [key for key in self._programs if key[1]]:
            self._programs.pop(key).release(rates)
        self.grants = grants
        self.ever = self.ever or grants is not None

    def count(self, phase: Phase, seconds: float) -> None:
        """A collective took so long on the path that the group has."""
        if phase.mode is not None and self.grants is not None:
            self.in_network += seconds
        elif phase.mode is not None:
            self.on_hosts += seconds

    def release(self, rates: Rates) -> None:
        """It has ended."""
        for program in self._programs.values():
            program.release(rates)
        self._programs.clear()


@dataclass(slots=True, eq=False)
class Flight:
    """A collective under way: `share` of its bytes go by `program`, which is at step `at`.

    `running`: it is not in the latency that ends a step. `since`: from when its time counts for the path.
    """

    number: int
    phase: Phase
    program: Program
    share: float = 1.0
    at: int = 0
    running: bool = False
    since: float = 0.0

    def left(self, of_step: float) -> float:
        """The share of all its bytes that is left, when `of_step` bytes of the step at hand are."""
        later = sum(step.volume for step in self.program.steps[self.at + 1 :])
        return (self.share * later + of_step) / self.program.volume


def _together(climbs: Sequence[Index]) -> Index:
    """Shape (G, n, height), filled up with -1."""
    out = np.full((len(climbs), len(climbs[0]), max(each.shape[1] for each in climbs)), -1, np.int32)
    for i, each in enumerate(climbs):
        out[i, :, : each.shape[1]] = each
    return out
