"""Stages and memory of a TNA program: units become items, items are scheduled."""

from __future__ import annotations

from dataclasses import dataclass, field

from epic_p4 import ast
from epic_p4.rules import target
from epic_p4.rules.context import Context
from epic_p4.rules.demand import DEFAULT_SIZE, Memory, object_demand, unit_demand
from epic_p4.rules.dependency import Dependency, dependencies
from epic_p4.rules.effects import STATEFUL
from epic_p4.rules.finding import Finding
from epic_p4.rules.flow import Flow, Gress, Kind, Unit
from epic_p4.rules.phv import Usage, Verdict, usage, verdict
from epic_p4.rules.schedule import Demand, Edge, Item, Schedule, heights, schedule, topological
from epic_p4.rules.target import Target

NAME = "one-stage"
TITLE = "all that touches a register can lie in one stage, and every item in some stage"
SOURCE = "[p4c] mau/table_placement.cpp; limits as listed"


@dataclass(slots=True)
class Estimate:
    """What came out. `floor` is how many stages the dependencies alone ask for, by gress."""

    chip: Target
    units: list[list[Unit]]  # of each item
    items: list[Item]
    edges: list[Edge]
    plan: Schedule
    floor: dict[Gress, int]
    chains: dict[Gress, list[Dependency]]  # the dependencies that make the floor
    memories: list[Memory]
    phv: dict[Gress, Usage]
    phv_verdict: Verdict
    dependencies: list[Dependency]
    findings: list[Finding] = field(default_factory=list)

    @property
    def stages(self) -> int:
        """Stages that the schedule takes."""
        return len(self.plan.stages)

    def stages_of(self, gress: Gress) -> int:
        """Stages up to the last one of a gress."""
        last = [
            stage
            for item, stage in self.plan.last.items()
            if any(unit.gress is gress for unit in self.units[item])
        ]
        return max(last, default=-1) + 1

    @property
    def problems(self) -> list[str]:
        """Why it does not fit, nothing when it does."""
        found = []
        if self.plan.cycle:
            names = ", ".join(self.items[one].name for one in self.plan.cycle[:4])
            found.append(f"no order of stages: {names} wait for each other")
        for item, lacking in self.plan.misfits.items():
            need = (self.items[item].part or self.items[item].demand).amount(lacking)
            found.append(
                f"{self.items[item].name} needs {need} {target.NAMES[lacking]} in one stage, "
                f"expected at most {self.chip.stage[lacking]}"
            )
        if self.stages > self.chip.stages:
            found.append(f"{self.stages} stages, expected at most {self.chip.stages}")
        if self.phv_verdict.lacking:
            found.append(self.phv_verdict.lacking)
        return found


def estimate(context: Context) -> Estimate:
    """Estimate both gresses together: they share the memory of every stage."""
    chip = context.chip
    groups: list[list[Unit]] = []
    group_of: dict[Unit, int] = {}
    found: list[Dependency] = []
    floor: dict[Gress, int] = {}
    chains: dict[Gress, list[Dependency]] = {}
    for half in context.halves:
        for members in _together(half.flow):
            for unit in members:
                group_of[unit] = len(groups)
            groups.append(members)
        of_half = dependencies(half.flow)
        found += of_half
        floor[half.gress], chains[half.gress] = _floor(half.flow, of_half)
    attached = {
        unit: logical for half in context.halves for unit, logical in _attached_conditions(half.flow).items()
    }
    memories: dict[str, Memory] = {}
    items = [_item(members, chip, attached, memories) for members in groups]
    findings = [
        Finding(
            NAME,
            one.after.pos,
            f"{one.after.name} and {one.before.name} touch one register, but the first waits for {one.field}: "
            "expected both in one stage",
        )
        for one in found
        if group_of[one.before] == group_of[one.after] and one.reason.distance
    ]
    edges = _edges(found, group_of)
    plan = schedule(items, edges, chip.stage)
    first = {unit: plan.first[group_of[unit]] for unit in group_of if group_of[unit] in plan.first}
    last = {unit: plan.last[group_of[unit]] for unit in group_of if group_of[unit] in plan.last}
    phv = {half.gress: usage(half, first, last) for half in context.halves}
    return Estimate(
        chip,
        groups,
        items,
        edges,
        plan,
        floor,
        chains,
        list(memories.values()),
        phv,
        verdict(list(phv.values()), chip),
        found,
        findings,
    )


def _together(flow: Flow) -> list[list[Unit]]:
    """Units that touch the same register, counter or meter: these lie in one stage."""
    leader: dict[Unit, Unit] = {unit: unit for unit in flow.units}

    def find(unit: Unit) -> Unit:
        while leader[unit] is not unit:
            unit = leader[unit]
        return unit

    by_object: dict[ast.Instance, Unit] = {}
    for unit in flow.units:
        for use in unit.uses():
            if use.object.decl.name in STATEFUL:
                other = by_object.setdefault(use.object, unit)
                one, two = find(other), find(unit)
                if one is not two:
                    leader[two] = one
    groups: dict[Unit, list[Unit]] = {}
    for unit in flow.units:
        groups.setdefault(find(unit), []).append(unit)
    return list(groups.values())


def _attached_conditions(flow: Flow) -> dict[Unit, str]:
    """Conditions that may share the logical table of the table or statement behind them. One table takes one."""
    taken: set[str] = set()
    result: dict[Unit, str] = {}
    for site in flow.sites:
        if site.unit.kind is not Kind.CONDITION:
            continue
        for after, _ in site.next:
            if after.unit.kind is Kind.CONDITION or len(after.before) > 1:
                continue
            logical = _logical(after.unit)
            if logical not in taken:
                taken.add(logical)
                result[site.unit] = logical
                break
    return result


def _logical(unit: Unit) -> str:
    """The logical table of a unit: statements of one run that share a stage share theirs."""
    if unit.kind is Kind.STATEMENT:
        return f"{unit.gress} run {unit.run}"
    return f"{unit.gress} {unit.kind} {unit.name} {unit.pos}"


def _item(members: list[Unit], chip: Target, attached: dict[Unit, str], memories: dict[str, Memory]) -> Item:
    total = Demand()
    parts, part = 1, None
    for unit in members:
        demand, table, pieces, piece = unit_demand(unit, chip)
        logical = attached.get(unit) or _logical(unit)
        own = Demand(sets={target.LOGICAL_TABLES: frozenset({logical})})
        total += demand + own
        if table is not None:
            memories[table.name] = table
        if len(members) == 1:
            parts, part = pieces, piece and piece + own
    objects = {
        use.object: unit for unit in members for use in unit.uses() if use.object.decl.name in STATEFUL
    }
    for instance, unit in objects.items():
        size = (unit.table.decl.size if unit.table is not None else None) or DEFAULT_SIZE
        demand, cells = object_demand(instance, size)
        memories[instance.name] = cells
        total += demand
        # The cells of a direct object go where their entries go; all others are in one stage.
        if part is not None and instance.decl.name.startswith("Direct"):
            part += Demand({name: -(-count // parts) for name, count in demand.sums.items()}, demand.sets)
        else:
            parts, part = 1, None
    return Item(" + ".join(unit.name for unit in members), total, parts, part)


def _edges(found: list[Dependency], group_of: dict[Unit, int]) -> list[Edge]:
    """One edge for each two items, the longest."""
    longest: dict[tuple[int, int], int] = {}
    for one in found:
        pair = group_of[one.before], group_of[one.after]
        if pair[0] != pair[1]:
            longest[pair] = max(longest.get(pair, 0), one.reason.distance)
    return [Edge(before, after, distance) for (before, after), distance in longest.items()]


def _floor(flow: Flow, found: list[Dependency]) -> tuple[int, list[Dependency]]:
    """The stages that the dependencies ask for, and one chain of them that does."""
    number = {unit: at for at, unit in enumerate(flow.units)}
    edges = [Edge(number[one.before], number[one.after], one.reason.distance) for one in found]
    if len(topological(len(flow.units), edges)) < len(flow.units):
        return 0, []
    height = heights(len(flow.units), edges)
    after: dict[Unit, list[Dependency]] = {}
    for one in found:
        after.setdefault(one.before, []).append(one)
    chain: list[Dependency] = []
    at = max(flow.units, key=lambda unit: height[number[unit]], default=None)
    while at is not None and height[number[at]]:
        link = max(after[at], key=lambda one: height[number[one.after]] + one.reason.distance)
        chain.append(link)
        at = link.after
    return 1 + max(height, default=-1), chain
