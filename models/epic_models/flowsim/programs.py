"""Steps of a collective as transfers of the simulation, and how long they take alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epic_models.flowsim.collectives import Step
from epic_models.flowsim.rates import Rates
from epic_models.flowsim.topology import Topology


@dataclass(frozen=True, slots=True)
class Program:
    """A collective's steps, one after the other, and the numbers of their transfers in some `Rates`."""

    steps: tuple[Step, ...]
    numbers: tuple[int, ...]
    volume: float

    @classmethod
    def of(cls, steps: Sequence[Step], rates: Rates) -> Program:
        """Describe the steps to `rates`."""
        numbers = tuple(rates.add(step.links, step.weights, step.cap) for step in steps)
        return cls(tuple(steps), numbers, sum(step.volume for step in steps))

    def release(self, rates: Rates) -> None:
        """Forget them there."""
        for number in self.numbers:
            rates.release(number)


def alone(topology: Topology, together: Sequence[Sequence[Step]], scratch: Rates) -> float:
    """Seconds of collectives that begin at once on an idle network; `scratch` has its links, and nothing runs there."""
    bounds = [[_bound(topology, step) for step in steps] for steps in together]
    if len(together) > 1 and _share(topology, together, bounds):
        return _simulated(together, scratch)
    times = [
        sum(step.volume / bound + step.latency for step, bound in zip(steps, row, strict=True))
        for steps, row in zip(together, bounds, strict=True)
    ]
    return max(times, default=0.0)


def _bound(topology: Topology, step: Step) -> float:
    return min(step.cap, float((topology.rate[step.links] / step.weights).min()))


def _share(topology: Topology, together: Sequence[Sequence[Step]], bounds: Sequence[Sequence[float]]) -> bool:
    """Whether they could get into each other's way on some link."""
    if any(len(steps) > 1 for steps in together):
        return True
    rows = [
        (step.links, step.weights * bound)
        for steps, row in zip(together, bounds, strict=True)
        for step, bound in zip(steps, row, strict=True)
    ]
    links, where = np.unique(np.concatenate([links for links, _ in rows]), return_inverse=True)
    load = np.bincount(where, np.concatenate([weights for _, weights in rows]))
    return bool((load > topology.rate[links] * (1 + 1e-9)).any())


def _simulated(together: Sequence[Sequence[Step]], rates: Rates) -> float:
    programs = [Program.of(steps, rates) for steps in together]
    owner = {number: (p, i) for p in programs for i, number in enumerate(p.numbers)}
    waiting = [(0.0, order, program, 0) for order, program in enumerate(programs)]
    end = 0.0
    running = 0
    while waiting or running:
        now = min(min((w[0] for w in waiting), default=np.inf), rates.next_end)
        for number in rates.take_ended(now):
            running -= 1
            program, i = owner[number]
            done = now + program.steps[i].latency
            end = max(end, done)
            if i + 1 < len(program.steps):
                waiting.append((done, number, program, i + 1))
        for item in [w for w in waiting if w[0] <= now + 1e-12]:
            waiting.remove(item)
            _, _, program, i = item
            rates.start(program.numbers[i], program.steps[i].volume, now)
            running += 1
        rates.settle(now)
    for program in programs:
        program.release(rates)
    return end
