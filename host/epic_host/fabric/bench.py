"""Figures of the resource library: how fast placement is, how far from the best, and how fair policies share.

Everything follows from the seed but the times. `epic bench manager` prints these.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from epic_host.fabric.batch import place_batch
from epic_host.fabric.builders import fat_tree, spine_leaf, tree
from epic_host.fabric.heuristic import place
from epic_host.fabric.milp import solve
from epic_host.fabric.placement import Placement
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Capacity, Usage
from epic_host.fabric.state import FabricState
from epic_host.fabric.topology import EngineNode, Fabric
from epic_models.reference.endpoint import EngineCapabilities

# A switch with 4 MiB for slots and 64 group entries, as those of match-action ASICs are.
SWITCH: Final = Capacity(slot_bytes=4 << 20, groups=64)
OFFER: Final = EngineCapabilities(mode=3)

# How many ranks groups have, one on each host.
SIZES: Final = (2, 4, 8, 16, 32, 64)


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness: 1 when all have the same, 1/n when one has all; 1 where nobody has anything.

    (sum x)^2 / (n sum x^2); Jain, Chiu, Hawe: A quantitative measure of fairness, DEC-TR-301, 1984.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def engine(capacity: Capacity, offer: EngineCapabilities = OFFER) -> Callable[[str], EngineNode]:
    """What the builders make engines with."""
    return lambda name: EngineNode(name, capacity=capacity, offer=offer)


def some_group(
    rng: random.Random, hosts: Sequence[str], name: str, sizes: Sequence[int] = SIZES
) -> GroupRequest:
    """A group of a size of the list: in three of four cases on hosts side by side, else anywhere."""
    size = rng.choice([size for size in sizes if size <= len(hosts)])
    if rng.random() < 0.75:
        first = rng.randrange(len(hosts))
        return GroupRequest(name, tuple(hosts[(first + i) % len(hosts)] for i in range(size)))
    return GroupRequest(name, tuple(rng.sample(hosts, size)))


@dataclass(frozen=True, slots=True)
class PlacementFigures:
    """Of `requests` groups that came one after another, and stayed until `live` others had come after them.

    `seconds` are processor time of the heuristic, agreement on terms and counting included. `utilization` is the share
    of all slot memory that was given away, on average and at most; `balance` Jain's index over the memory given away of
    the engines of each tier at the end.
    """

    hosts: int
    engines: int
    requests: int
    live: int
    seconds: float
    rate: float
    median_us: float
    p99_us: float
    admitted: int
    refused: dict[str, int]
    utilization: float
    peak: float
    balance: dict[str, float]
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def placement(k: int = 16, requests: int = 10_000, live: int = 500, seed: int = 1) -> PlacementFigures:
    """Group requests on a fat tree of k^3/4 hosts, as fast as the heuristic places them."""
    fabric = fat_tree(k, engine=engine(SWITCH))
    state = FabricState(Usage(fabric))
    rng = random.Random(seed)
    hosts = list(fabric.hosts)
    groups = [some_group(rng, hosts, f"g{i}") for i in range(requests)]
    leaving = [rng.random() for _ in groups]
    held: list[Placement] = []
    times: list[float] = []
    refused: Counter[str] = Counter()
    memory = sum(node.capacity.slot_bytes for node in fabric.engines.values())
    used = total = peak = 0
    for request, draw in zip(groups, leaving, strict=True):
        before = time.process_time()
        found = place(fabric, state, request)
        if isinstance(found, Placement):
            state.usage.add(found)
        times.append(time.process_time() - before)
        if isinstance(found, Placement):
            held.append(found)
            used += found.slot_bytes
        else:
            refused[found.reason.value] += 1
        if len(held) > live:
            gone = held.pop(int(draw * len(held)))
            state.usage.remove(gone)
            used -= gone.slot_bytes
        total, peak = total + used, max(peak, used)
    ordered = sorted(times)
    return PlacementFigures(
        hosts=len(hosts),
        engines=len(fabric.engines),
        requests=requests,
        live=live,
        seconds=sum(times),
        rate=requests / sum(times),
        median_us=1e6 * ordered[len(ordered) // 2],
        p99_us=1e6 * ordered[int(0.99 * len(ordered))],
        admitted=requests - sum(refused.values()),
        refused=dict(refused),
        utilization=total / requests / memory,
        peak=peak / memory,
        balance=_balance(state),
        seed=seed,
    )


def _balance(state: FabricState) -> dict[str, float]:
    fabric = state.usage.fabric
    tiers: dict[int, list[float]] = {}
    for name in fabric.engines:
        tiers.setdefault(fabric.tiers[name], []).append(float(state.usage.used(name).slot_bytes))
    return {f"tier {tier}": jain(used) for tier, used in sorted(tiers.items())}


@dataclass(frozen=True, slots=True)
class GapFigures:
    """How much fewer groups than the best choice the heuristic admits, over random instances.

    `online`: one after another as they come, `batch`: all known at once. Gaps are (best - found) / best; `met` is the
    share of instances without any. `unsolved` instances ran out of time; for them the bound stands for the best.
    """

    instances: int
    unsolved: int
    groups: int
    best: int
    online: int
    batch: int
    online_gap: float
    online_worst: float
    online_met: float
    batch_gap: float
    batch_worst: float
    batch_met: float
    exact_seconds: float
    online_seconds: float
    batch_seconds: float
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def some_instance(rng: random.Random) -> tuple[FabricState, list[GroupRequest]]:
    """A small fabric with little memory, perhaps with a link or engine lost, and 6 to 14 groups for it."""
    make = engine(Capacity(slot_bytes=rng.choice([150_000, 300_000, 600_000]), groups=rng.choice([3, 4, 6])))
    fabric: Fabric = rng.choice(
        (
            lambda: tree((2, 2, 3), engine=make),
            lambda: spine_leaf(2, 4, 3, engine=make),
            lambda: spine_leaf(3, 4, 4, engine=make),
            lambda: fat_tree(4, engine=make),
        )
    )()
    state = FabricState(Usage(fabric))
    if rng.random() < 0.5:
        upper = [name for name in fabric.engines if fabric.tiers[name] > 1]
        inner = [link.name for link in fabric.links if link.low in fabric.engines]
        state.lose(rng.sample(upper, rng.randint(0, 1)), rng.sample(inner, rng.randint(0, 2)))
    hosts = list(fabric.hosts)
    names = [f"g{i}" for i in range(rng.randint(6, 14))]
    return state, [some_group(rng, hosts, name, (2, 3, 4, 6, 8)) for name in names]


def gap(instances: int = 120, seed: int = 1, time_limit: float = 30.0) -> GapFigures:
    """The heuristic against the exact solution. `time_limit` in seconds of each instance."""
    rng = random.Random(seed)
    seconds = dict.fromkeys(("exact", "online", "batch"), 0.0)
    best: list[float] = []
    found: dict[str, list[int]] = {"online": [], "batch": []}
    groups = unsolved = 0

    def timed(kind: str, work: Callable[..., Any], *given: Any, **options: Any) -> Any:
        before = time.process_time()
        answer = work(*given, **options)
        seconds[kind] += time.process_time() - before
        return answer

    for _ in range(instances):
        state, requests = some_instance(rng)
        fabric = state.usage.fabric
        solution = timed("exact", solve, fabric, state, requests, time_limit=time_limit)
        groups += len(requests)
        unsolved += not solution.optimal
        best.append(solution.bound)
        found["online"].append(timed("online", _one_by_one, state, requests))
        batch = timed("batch", place_batch, fabric, state, requests)
        found["batch"].append(sum(isinstance(answer, Placement) for answer in batch.values()))
    gaps = {
        kind: [(most - count) / most if most else 0.0 for most, count in zip(best, counts, strict=True)]
        for kind, counts in found.items()
    }
    return GapFigures(
        instances=instances,
        unsolved=unsolved,
        groups=groups,
        best=round(sum(best)),
        online=sum(found["online"]),
        batch=sum(found["batch"]),
        online_gap=sum(gaps["online"]) / instances,
        online_worst=max(gaps["online"]),
        online_met=sum(gap < 1e-9 for gap in gaps["online"]) / instances,
        batch_gap=sum(gaps["batch"]) / instances,
        batch_worst=max(gaps["batch"]),
        batch_met=sum(gap < 1e-9 for gap in gaps["batch"]) / instances,
        exact_seconds=seconds["exact"],
        online_seconds=seconds["online"],
        batch_seconds=seconds["batch"],
        seed=seed,
    )


def _one_by_one(state: FabricState, requests: Sequence[GroupRequest]) -> int:
    usage = state.usage.copy()
    count = 0
    for request in requests:
        found = place(usage.fabric, state.with_usage(usage), request)
        if isinstance(found, Placement):
            usage.add(found)
            count += 1
    return count
