"""Exact placement of a batch of groups: a mixed integer linear program, solved by HiGHS (scipy.optimize.milp).

For each request r and each view v of the fabric that it could use, with engines e and links l up to engines:

    a[r,v]      r is admitted in v           z[e]  e is the root
    u[e]        e is of the tree             y[l]  the tree uses l
    w[W]        the window is W              m[e,W]  e is of the tree, and the window is W

    sum_v a[r,v] <= 1;  sum_e z[e] = a = sum_W w[W]        one view, one root, one window
    sum_{l up from h} y[l] = a                             each of its hosts has one parent
    sum_{l up from e} y[l] + z[e] = u[e]                   each engine of the tree has one, or is the root
    y[l] <= u[high(l)] <= sum_{l' to high(l)} y[l']        parents are of the tree, and have children
    m[e,W] <= w[W];  sum_W m[e,W] = u[e]

All binary but m, which follows. Links lead up, so this is a tree that reaches all its hosts. What it takes of an
engine is linear in m and its fan-in, the sum of n[l] y[l] over links to it (n: the ranks of a host, or 1); the free
capacity of each engine and link limits the sums over all requests. The stages of the objective are solved one after
another, each with the values of those before kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from epic_host.fabric.agreement import agree, rate_of, terms_of
from epic_host.fabric.candidates import Candidate, View, ranks_by_host
from epic_host.fabric.heuristic import place
from epic_host.fabric.placement import PlacedTree, Placement, Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import UNLIMITED, Demand, kbps, whole_kbps
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import Fabric, Link
from epic_host.fabric.window import LEAST_WINDOW
from epic_spec.errors import ConfigError, ResourceError

STAGES: Final = ("weight", "window", "bytes")

# Slot memory is counted in units of the smallest payload, of which all payloads and messages are multiples: then rows
# have whole numbers, and the solver's tolerance cannot let a group in that does not fit.
UNIT: Final = 64

_TOLERANCE: Final = 1e-6

Row = dict[int, float]


@dataclass(frozen=True, slots=True)
class Objective:
    """What is best: `stages` in turn. Weight of the admitted groups (1 where `weights` does not say), then the sum of
    log2 of their windows, then the fewest slot bytes.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    stages: tuple[str, ...] = STAGES

    def __post_init__(self) -> None:
        for stage in self.stages:
            if stage not in STAGES:
                raise ConfigError(f"objective: stage {stage!r}, expected some of {', '.join(STAGES)}")
        if self.stages[:1] != ("weight",):
            raise ConfigError(f"objective: stages {self.stages}, expected weight first")

    def weight(self, name: str) -> float:
        """Of a group."""
        return self.weights.get(name, 1.0)


@dataclass(frozen=True, slots=True)
class Solution:
    """Who is admitted and where. `weight` is what they weigh together, no choice can weigh more than `bound`.

    `optimal`: all stages were solved to the end within the time.
    """

    placements: dict[str, Placement]
    refusals: dict[str, Refusal]
    weight: float
    bound: float
    optimal: bool


def solve(
    fabric: Fabric,
    state: FabricState,
    requests: Sequence[GroupRequest],
    objective: Objective | None = None,
    *,
    terms: Mapping[str, Terms] | None = None,
    time_limit: float = 60.0,
) -> Solution:
    """The best choice of groups, trees and windows in what is left of the fabric; nothing is given away yet.

    Windows are powers of two from `LEAST_WINDOW` to that of a group's terms, which are agreed on first where `terms`
    has none. `time_limit` in seconds, for all stages. Raises ConfigError for a request of several trees, or a name that
    is there twice.
    """
    objective = objective or Objective()
    refusals: dict[str, Refusal] = {}
    problem = _Problem(fabric, state, objective)
    for request in requests:
        if request.trees != 1:
            raise ConfigError(
                f"group {request.name}: trees = {request.trees}, expected 1 for exact placement"
            )
        if request.name in problem.blocks or request.name in refusals:
            raise ConfigError(f"group {request.name}: there twice, expected a name of its own")
        agreed = (terms or {}).get(request.name) or agree(fabric, state, request)
        if isinstance(agreed, Refusal):
            refusals[request.name] = agreed
            continue
        problem.add(request, agreed)
    placements, bound, optimal = problem.solve(time_limit)
    return _finished(fabric, state, requests, objective, placements, refusals, bound, optimal, terms or {})


def place_exact(
    fabric: Fabric, state: FabricState, request: GroupRequest, terms: Terms | None = None
) -> Placement | Refusal:
    """As `heuristic.place`, for one group. Several trees are the heuristic's."""
    if request.trees != 1:
        return place(fabric, state, request, terms)
    given = {} if terms is None else {request.name: terms}
    solution = solve(fabric, state, [request], terms=given, time_limit=5.0)
    return solution.placements.get(request.name) or solution.refusals[request.name]


def _finished(
    fabric: Fabric,
    state: FabricState,
    requests: Sequence[GroupRequest],
    objective: Objective,
    placements: dict[str, Placement],
    refusals: dict[str, Refusal],
    bound: float,
    optimal: bool,
    terms: Mapping[str, Terms],
) -> Solution:
    """With the reason for each that is left out: what it lacks beside those that are admitted."""
    usage = state.usage.copy()
    for placement in placements.values():
        usage.add(placement)  # raises where the program above is wrong
    for request in requests:
        if request.name in placements or request.name in refusals:
            continue
        found = place(fabric, state.with_usage(usage), request, terms.get(request.name))
        if isinstance(found, Refusal):
            refusals[request.name] = found
        elif optimal:
            raise ResourceError(
                f"group {request.name} is left out of the best choice, expected no room for it"
            )
        else:
            usage.add(found)
            placements[request.name] = found
    weight = sum(objective.weight(name) for name in placements)
    return Solution(placements, refusals, weight, max(bound, weight), optimal)


@dataclass(slots=True)
class _Block:
    """The variables of one request in one view, by number."""

    request: GroupRequest
    view: View
    terms: Terms
    ranks: dict[str, tuple[int, ...]]
    admitted: int
    root: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    link: dict[str, int] = field(default_factory=dict)
    window: dict[int, int] = field(default_factory=dict)
    sized: dict[tuple[str, int], int] = field(default_factory=dict)
    set_aside: float = 0.0

    def edges(self, link: Link) -> int:
        """How many edges the link carries if it is used."""
        return len(self.ranks.get(link.low, (0,)))


class _Problem:
    """Variables, rows and objective of the program."""

    def __init__(self, fabric: Fabric, state: FabricState, objective: Objective) -> None:
        self._fabric = fabric
        self._state = state
        self._objective = objective
        self.blocks: dict[str, list[_Block]] = {}
        self._whole: list[bool] = []  # whether each variable is binary; else it is from 0 to 1
        self._rows: list[tuple[Row, float, float]] = []  # coefficients, lower and upper bound

    def add(self, request: GroupRequest, terms: Terms) -> None:
        """A request, in each of the views that it could use."""
        blocks: list[_Block] = []
        ranks = ranks_by_host(request.hosts)
        for _, view in self._state.options(request, terms):
            if view.roots(ranks):
                blocks.append(self._block(request, view, terms, ranks))
        self.blocks[request.name] = blocks
        self._row({block.admitted: 1 for block in blocks}, 0, 1)

    def _variable(self, whole: bool = True) -> int:
        self._whole.append(whole)
        return len(self._whole) - 1

    def _row(self, coefficients: Row, low: float, high: float) -> None:
        if coefficients:
            self._rows.append((coefficients, low, high))

    def _block(
        self, request: GroupRequest, view: View, terms: Terms, ranks: dict[str, tuple[int, ...]]
    ) -> _Block:
        known = terms_of(self._state, request, terms, view.engines, view.narrowest())
        assert isinstance(known, Terms), known  # a view has what can be in one tree
        # The window is chosen below; what else hangs on engines is as all of the view have it.
        widest = replace(known, window=terms.window, slots=2 * terms.window)
        block = _Block(request, view, widest, ranks, self._variable())
        if request.rate_gbps is not None:
            block.set_aside = whole_kbps(rate_of(self._fabric, request))
        self._tree(block)
        self._windows(block, terms)
        return block

    def _tree(self, block: _Block) -> None:
        roots = block.view.roots(block.ranks)
        cones = {root: block.view.cone(root) for root in roots}
        level, links = list(block.ranks), dict[str, Link]()
        block.root = {root: self._variable() for root in roots}
        block.used = {root: self._variable() for root in roots}
        while level:
            above: dict[str, None] = {}
            for node in level:
                for link in block.view.up[node]:
                    if link.name not in links and any(link.high in cone for cone in cones.values()):
                        links[link.name] = link
                        above[link.high] = None
            level = list(above)
        for name, link in links.items():
            block.link[name] = self._variable()
            if link.high not in block.used:
                block.used[link.high] = self._variable()
        self._tree_rows(block, links)

    def _tree_rows(self, block: _Block, links: Mapping[str, Link]) -> None:
        up: dict[str, list[int]] = {node: [] for node in (*block.ranks, *block.used)}
        down: dict[str, list[Link]] = {engine: [] for engine in block.used}
        for name, link in links.items():
            up[link.low].append(block.link[name])
            down[link.high].append(link)
            self._row({block.link[name]: 1, block.used[link.high]: -1}, -np.inf, 0)
        self._row({**dict.fromkeys(block.root.values(), 1), block.admitted: -1}, 0, 0)
        for host in block.ranks:
            self._row({**dict.fromkeys(up[host], 1), block.admitted: -1}, 0, 0)
        for engine, used in block.used.items():
            root = {block.root[engine]: 1.0} if engine in block.root else {}
            self._row({**dict.fromkeys(up[engine], 1), **root, used: -1}, 0, 0)
            self._row({used: 1, **{block.link[link.name]: -1 for link in down[engine]}}, -np.inf, 0)
            fan_in = {block.link[link.name]: float(block.edges(link)) for link in down[engine]}
            children = self._state.usage.capacity(engine).children
            if children < block.request.world_size:
                self._row(fan_in, 0, children)

    def _windows(self, block: _Block, terms: Terms) -> None:
        size = terms.window
        least = min(LEAST_WINDOW, size)
        while size >= least:
            block.window[size] = self._variable()
            size //= 2
        self._row({**dict.fromkeys(block.window.values(), 1), block.admitted: -1}, 0, 0)
        for engine, used in block.used.items():
            own = terms_of(self._state, block.request, terms, [engine], block.view.narrowest())
            assert isinstance(own, Terms), own
            of_engine: Row = {used: -1}
            for size, chosen in block.window.items():
                block.sized[engine, size] = variable = self._variable(whole=False)
                self._row({variable: 1, chosen: -1}, -np.inf, 0)
                of_engine[variable] = 1
                if size > own.window:
                    self._row({variable: 1}, 0, 0)
            self._row(of_engine, 0, 0)

    def _capacities(self) -> None:
        """Rows that limit what all requests take together of each engine and link."""
        fields: dict[str, Callable[[Demand], float]] = {
            "slot_bytes": lambda demand: demand.slot_bytes / UNIT,
            "slots": lambda demand: demand.slots,
            "groups": lambda demand: demand.groups,
            "multicast": lambda demand: demand.multicast,
            "rate_gbps": lambda demand: kbps(demand.rate_gbps),
        }
        blocks = [block for group in self.blocks.values() for block in group]
        for engine in self._fabric.engines:
            free = self._state.usage.free(engine)
            limits = {
                "slot_bytes": free.slot_bytes // UNIT,
                "slots": free.slots,
                "groups": free.groups,
                "multicast": free.multicast,
                "rate_gbps": kbps(free.rate_gbps) if free.rate_gbps < float("inf") else UNLIMITED,
            }
            for name, taken in fields.items():
                # Memory left is capacity less what is given away: unlimited less something is still unlimited.
                if limits[name] < UNLIMITED // (2 * UNIT):
                    row: Row = {}
                    for block in blocks:
                        self._take(row, block, engine, taken)
                    self._row(row, -np.inf, limits[name])
        self._link_capacities(blocks)

    def _take(self, row: Row, block: _Block, engine: str, taken: Callable[[Demand], float]) -> None:
        """What a block takes of an engine: with no children by its window, and more for each child."""
        if engine not in block.used:
            return
        for size in block.window:
            row[block.sized[engine, size]] = taken(block.terms.with_window(size).demand(0, block.set_aside))
        alone, one = block.terms.demand(0, block.set_aside), block.terms.demand(1, block.set_aside)
        for link in self._fabric.down[engine]:
            if link.name in block.link:
                row[block.link[link.name]] = (taken(one) - taken(alone)) * block.edges(link)

    def _link_capacities(self, blocks: Iterable[_Block]) -> None:
        for link in self._fabric.links:
            row = {
                block.link[link.name]: float(block.edges(link) * kbps(block.set_aside))
                for block in blocks
                if block.set_aside and link.name in block.link
            }
            self._row(row, -np.inf, kbps(self._state.usage.link_free(link.name)))

    def solve(self, time_limit: float) -> tuple[dict[str, Placement], float, bool]:
        """Placements, the bound of the first stage, and whether all stages were solved to the end."""
        if not self._whole:
            return {}, 0.0, True
        self._capacities()
        matrix, low, high = self._matrix()
        constraints = [LinearConstraint(matrix, low, high)]
        values: NDArray[np.float64] | None = None
        bound, optimal = float("inf"), True
        for stage in self._objective.stages:
            costs = self._costs(stage)
            result = milp(
                costs,
                integrality=np.array(self._whole, dtype=np.uint8),
                bounds=Bounds(0, 1),
                constraints=constraints,
                options={"time_limit": time_limit / len(self._objective.stages), "mip_rel_gap": 0.0},
            )
            if stage == "weight":
                bound = -(result.mip_dual_bound if result.mip_dual_bound is not None else -float("inf"))
            optimal = optimal and result.status == 0
            if result.x is None:
                break
            values = result.x
            best = float(costs @ values)
            constraints.append(LinearConstraint(costs, -np.inf, best + _TOLERANCE * max(1.0, abs(best))))
        if values is None:
            return {}, bound, optimal
        return self._read(values), bound, optimal

    def _matrix(self) -> tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.float64]]:
        rows = [i for i, (row, _, _) in enumerate(self._rows) for _ in row]
        columns = [column for row, _, _ in self._rows for column in row]
        data = [value for row, _, _ in self._rows for value in row.values()]
        shape = (len(self._rows), len(self._whole))
        matrix = sparse.csr_array((data, (rows, columns)), shape=shape)
        return (
            matrix,
            np.array([low for _, low, _ in self._rows]),
            np.array([high for _, _, high in self._rows]),
        )

    def _costs(self, stage: str) -> NDArray[np.float64]:
        """What is to be least."""
        costs = np.zeros(len(self._whole))
        for block in (block for group in self.blocks.values() for block in group):
            if stage == "weight":
                costs[block.admitted] = -self._objective.weight(block.request.name)
            elif stage == "window":
                for size, variable in block.window.items():
                    costs[variable] = -float(size.bit_length() - 1)
            else:
                for engine in block.used:
                    row: Row = {}
                    self._take(row, block, engine, lambda demand: demand.slot_bytes / UNIT)
                    for variable, value in row.items():
                        costs[variable] += value
        return costs

    def _read(self, values: NDArray[np.float64]) -> dict[str, Placement]:
        chosen = values > 0.5
        return {
            name: self._placement(block, chosen)
            for name, group in self.blocks.items()
            for block in group
            if chosen[block.admitted]
        }

    def _placement(self, block: _Block, chosen: NDArray[np.bool_]) -> Placement:
        links = [self._fabric.link(name) for name, variable in block.link.items() if chosen[variable]]
        links.sort(key=lambda link: self._fabric.tiers[link.low])
        root = next(engine for engine, variable in block.root.items() if chosen[variable])
        width: dict[str, int] = {}
        for link in links:
            width[link.high] = width.get(link.high, 0) + block.edges(link)
        tree = Candidate(root, {link.low: link for link in links}, width, block.ranks)
        size = next(size for size, variable in block.window.items() if chosen[variable])
        terms = block.terms.with_window(size)
        demand = {engine: terms.demand(children, block.set_aside) for engine, children in width.items()}
        rates = {link.name: block.set_aside * block.edges(link) for link in links} if block.set_aside else {}
        return Placement((PlacedTree(tree.tree(), tree.links, demand, terms, rates),))
