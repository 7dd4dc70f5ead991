"""Max-min fairness by slow and plain means, and worlds of transfers to compare with."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from epic_models.flowsim.rates import Rates

CASES = 60 * int(os.environ.get("EPIC_EXAMPLES", "1"))


@dataclass(frozen=True)
class Flow:
    """Links with weights, and a bound of the rate."""

    loads: tuple[tuple[int, float], ...]
    cap: float = math.inf


def filled(capacity: list[float], flows: Mapping[int, Flow]) -> dict[int, Fraction]:
    """Progressive filling over all flows and links, in fractions, as the textbook has it."""
    left = [Fraction(c) for c in capacity]
    rates: dict[int, Fraction] = {}
    while len(rates) < len(flows):
        rising = {name: flow for name, flow in flows.items() if name not in rates}
        weight = [Fraction(0)] * len(left)
        for flow in rising.values():
            for link, w in flow.loads:
                weight[link] += Fraction(w)
        levels = [(left[link] / w, link) for link, w in enumerate(weight) if w]
        levels += [(Fraction(f.cap), None) for f in rising.values() if f.cap < math.inf]
        level = min(value for value, _ in levels)
        full = {link for value, link in levels if value == level}
        for name, flow in rising.items():
            if flow.cap == level or full & {link for link, _ in flow.loads}:
                rates[name] = level
                for link, w in flow.loads:
                    left[link] -= Fraction(w) * level
    return rates


def programmed(capacity: list[float], flows: Mapping[int, Flow]) -> dict[int, float]:
    """The same by linear programs: raise the least rate as far as it goes, fix whoever cannot have more, go on."""
    names = list(flows)
    table = np.zeros((len(capacity), len(names)))
    for i, name in enumerate(names):
        for link, w in flows[name].loads:
            table[link, i] = w
    upper = [flows[name].cap if flows[name].cap < math.inf else None for name in names]
    fixed: dict[int, float] = {}

    def solve(goal: list[float], least: float | None) -> tuple[float, np.ndarray]:
        """Maximize goal · (rates, level); without `least` those that are not fixed have at least the level."""
        rows = [np.append(row, 0.0) for row in table]
        right = list(capacity)
        bounds: list[tuple[float | None, float | None]] = []
        for i in range(len(names)):
            if i in fixed:
                bounds.append((fixed[i], fixed[i]))
            elif least is not None:
                bounds.append((least * (1 - 1e-9), upper[i]))
            else:
                bounds.append((0, upper[i]))
                row = np.zeros(len(names) + 1)
                row[i], row[-1] = -1.0, 1.0
                rows.append(row)
                right.append(0.0)
        found = linprog([-g for g in goal], np.array(rows), right, bounds=[*bounds, (0, None)])
        assert found.status == 0, found.message
        return -found.fun, found.x

    while len(fixed) < len(names):
        level, _ = solve([0.0] * len(names) + [1.0], None)
        stuck = []
        for i in range(len(names)):
            if i not in fixed:
                goal = [0.0] * (len(names) + 1)
                goal[i] = 1.0
                if solve(goal, level)[0] <= level * (1 + 1e-7):
                    stuck.append(i)
        assert stuck
        fixed |= dict.fromkeys(stuck, level)
    return {name: fixed[i] for i, name in enumerate(names)}


class Running:
    """Transfers beside their descriptions."""

    def __init__(self, capacity: list[float]) -> None:
        self.capacity = capacity
        self.rates = Rates(np.array(capacity))
        self.flows: dict[int, Flow] = {}
        self.now = 0.0

    def start(self, flow: Flow, volume: float = 1e9) -> int:
        number = self.rates.add([link for link, _ in flow.loads], [w for _, w in flow.loads], flow.cap)
        self.rates.start(number, volume, self.now)
        self.flows[number] = flow
        return number

    def stop(self, number: int) -> None:
        self.rates.stop(number, self.now)
        self.rates.release(number)
        del self.flows[number]

    def found(self) -> dict[int, float]:
        self.rates.settle(self.now)
        return {number: self.rates.rate(number) for number in self.flows}


def equal(found: Mapping[int, float], wanted: Mapping[int, float | Fraction]) -> bool:
    return all(math.isclose(rate, float(wanted[name]), rel_tol=1e-7) for name, rate in found.items())


def some_flow(rng: random.Random, links: int) -> Flow:
    chosen = rng.sample(range(links), rng.randint(1, min(links, 4)))
    cap = rng.choice([math.inf, math.inf, float(rng.randint(1, 6))])
    return Flow(tuple((link, rng.choice([0.5, 1.0, 1.0, 2.0, 3.0])) for link in chosen), cap)
