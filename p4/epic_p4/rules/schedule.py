"""List scheduling of items into stages, under per-stage limits.

Pure: it knows items, edges and limits, nothing of P4. Stage by stage, among the items whose predecessors are placed
it takes the one with the longest way ahead and puts it in if it fits. Finding the fewest stages is NP-hard
(Vass et al., "Compiling Packet Programs to Reconfigurable Switches", 2020), so this is an upper estimate of what
the same model allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Demand:
    """What an item needs of a stage: sums, and sets of which equal members are shared."""

    sums: Mapping[str, int] = field(default_factory=dict)
    sets: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __add__(self, other: Demand) -> Demand:
        sums = dict(self.sums)
        for name, count in other.sums.items():
            sums[name] = sums.get(name, 0) + count
        sets = dict(self.sets)
        for name, members in other.sets.items():
            sets[name] = sets.get(name, frozenset()) | members
        return Demand(sums, sets)

    def amount(self, name: str) -> int:
        """How much of one resource."""
        return self.sums.get(name, 0) + len(self.sets.get(name, ()))

    def excess(self, limits: Mapping[str, int]) -> str | None:
        """The first resource of which it needs more than there is, or None."""
        return next((name for name in limits if self.amount(name) > limits[name]), None)


@dataclass(frozen=True, slots=True)
class Item:
    """What is placed as one. `part` is the smallest share that may go into a stage of its own (a table's entries
    can lie in several stages), `parts` how many there are; 1 for what can't be split."""

    name: str
    demand: Demand
    parts: int = 1
    part: Demand | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """`after` is placed at least `distance` stages behind `before` (0: the same stage will do)."""

    before: int
    after: int
    distance: int


@dataclass(slots=True)
class Schedule:
    """Where the items are: first and last stage of each, and the use of each stage. `cycle` are the items that wait
    for each other, `misfits` those too large for an empty stage with the resource they lack: neither is placed."""

    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    shares: dict[int, dict[int, int]] = field(default_factory=dict)  # item -> stage -> parts
    stages: list[Demand] = field(default_factory=list)
    cycle: tuple[int, ...] = ()
    misfits: dict[int, str] = field(default_factory=dict)


def heights(count: int, edges: Sequence[Edge]) -> list[int]:
    """For each item the stages that must follow it. Edges must not form a cycle."""
    result = [0] * count
    order = topological(count, edges)
    after: list[list[Edge]] = [[] for _ in range(count)]
    for edge in edges:
        after[edge.before].append(edge)
    for item in reversed(order):
        result[item] = max((result[edge.after] + edge.distance for edge in after[item]), default=0)
    return result


def schedule(items: Sequence[Item], edges: Sequence[Edge], limits: Mapping[str, int]) -> Schedule:
    """Place all items. Stages are made as needed: their number is the estimate. Of several orders among items with
    equally long ways ahead the one that needs the fewest stages is taken."""
    count = len(items)
    if len(topological(count, edges)) < count:
        plan = Schedule()
        plan.cycle = tuple(sorted(set(range(count)) - set(topological(count, edges))))
        return plan
    ways = heights(count, edges)
    sizes = [_share(one.demand, limits) for one in items]
    orders: list[list[tuple[float, ...]]] = [
        [(-way, number) for number, way in enumerate(ways)],
        [(-way, -size, number) for number, (way, size) in enumerate(zip(ways, sizes, strict=True))],
        [(-way, size, number) for number, (way, size) in enumerate(zip(ways, sizes, strict=True))],
        [(-way - size, number) for number, (way, size) in enumerate(zip(ways, sizes, strict=True))],
    ]
    return min((_place(items, edges, limits, order) for order in orders), key=lambda one: len(one.stages))


def _share(demand: Demand, limits: Mapping[str, int]) -> float:
    """The largest share of a stage that a demand takes of any resource."""
    return max((demand.amount(name) / limit for name, limit in limits.items() if limit), default=0.0)


def _place(
    items: Sequence[Item],
    edges: Sequence[Edge],
    limits: Mapping[str, int],
    order: Sequence[tuple[float, ...]],
) -> Schedule:
    """List scheduling by one order, lowest first."""
    plan = Schedule()
    count = len(items)
    before: list[list[Edge]] = [[] for _ in range(count)]
    for edge in edges:
        before[edge.after].append(edge)
    for number, item in enumerate(items):
        lacking = (item.part or item.demand).excess(limits)
        if lacking is not None:
            plan.misfits[number] = lacking
    for number in topological(count, edges):
        # What waits for something that can't be placed is placed as if that took no stage.
        if number in plan.misfits:
            plan.last[number] = max(
                (
                    plan.last[edge.before] + edge.distance
                    for edge in before[number]
                    if edge.before in plan.last
                ),
                default=0,
            )
    remaining = {number: items[number].parts for number in range(count) if number not in plan.misfits}
    while remaining:
        _fill(plan, items, before, remaining, limits, order)
    for number in plan.misfits:
        plan.last.pop(number, None)
    return plan


def _fill(
    plan: Schedule,
    items: Sequence[Item],
    before: Sequence[Sequence[Edge]],
    remaining: dict[int, int],
    limits: Mapping[str, int],
    order: Sequence[tuple[float, ...]],
) -> None:
    """Add a stage and put in what fits. What has been placed makes others ready at once; what did not fit once
    will not fit any more."""
    plan.stages.append(Demand())
    stage = len(plan.stages) - 1
    tried: set[int] = set()
    while True:
        ready = [
            number
            for number in remaining
            if number not in tried
            and all(
                edge.before in plan.last and plan.last[edge.before] + edge.distance <= stage
                for edge in before[number]
            )
        ]
        if not ready:
            return
        number = min(ready, key=order.__getitem__)
        tried.add(number)
        placed = _put(plan, items[number], remaining[number], limits)
        if not placed:
            continue
        plan.first.setdefault(number, stage)
        plan.shares.setdefault(number, {})[stage] = placed
        remaining[number] -= placed
        if not remaining[number]:
            del remaining[number]
            plan.last[number] = stage


def _put(plan: Schedule, item: Item, left: int, limits: Mapping[str, int]) -> int:
    """Add as much of an item as fits into the last stage; how many parts."""
    stage = plan.stages[-1]
    if left == item.parts:
        whole = stage + item.demand
        if whole.excess(limits) is None:
            plan.stages[-1] = whole
            return left
        # Only what can't be whole in any stage is split: pieces cost a logical table each.
        if item.part is None or item.demand.excess(limits) is None:
            return 0
    assert item.part is not None
    placed = 0
    while placed < left:
        more = plan.stages[-1] + item.part
        if more.excess(limits) is not None:
            break
        plan.stages[-1] = more
        placed += 1
    return placed


def topological(count: int, edges: Sequence[Edge]) -> list[int]:
    """A topological order, the lower number first; items of cycles and behind them are left out."""
    waits = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        waits[edge.after] += 1
        after[edge.before].append(edge.after)
    ready = [number for number in range(count) if not waits[number]]
    order: list[int] = []
    while ready:
        number = ready.pop(0)
        order.append(number)
        for following in after[number]:
            waits[following] -= 1
            if not waits[following]:
                ready.append(following)
    return order
