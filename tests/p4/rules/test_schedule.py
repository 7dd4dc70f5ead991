"""The list scheduler against cases worked out by hand, and against its own promises."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epic_p4.rules.schedule import Demand, Edge, Item, Schedule, heights, schedule

LIMITS = {"memory": 8, "alus": 2, "tables": 3}


def item(name: str, memory: int = 1, alus: int = 0, table: str | None = None) -> Item:
    return Item(name, Demand({"memory": memory, "alus": alus}, {"tables": frozenset({table or name})}))


def test_a_chain_takes_a_stage_for_each_link() -> None:
    plan = schedule([item("a"), item("b"), item("c")], [Edge(0, 1, 1), Edge(1, 2, 1)], LIMITS)
    assert plan.first == {0: 0, 1: 1, 2: 2}


def test_successor_dependencies_stay_in_the_stage() -> None:
    plan = schedule([item("a"), item("b"), item("c")], [Edge(0, 1, 0), Edge(1, 2, 0)], LIMITS)
    assert plan.first == {0: 0, 1: 0, 2: 0}


def test_a_full_stage_sends_the_next_item_on() -> None:
    plan = schedule([item("a", alus=1), item("b", alus=1), item("c", alus=1)], [], LIMITS)
    assert plan.first == {0: 0, 1: 0, 2: 1}
    assert [stage.amount("alus") for stage in plan.stages] == [2, 1]


def test_the_item_with_the_longer_way_goes_first() -> None:
    """Given room for two ALUs a stage, then the head of the chain is not kept waiting by the two alone."""
    items = [item("alone", alus=1), item("alone too", alus=1), item("head", alus=1), item("tail", alus=1)]
    plan = schedule(items, [Edge(2, 3, 1)], LIMITS)
    assert plan.first[2] == 0
    assert len(plan.stages) == 2


def test_shared_members_count_once() -> None:
    """Given six statements of one table, then they take one of the three tables of a stage."""
    plan = schedule([item(str(n), table="run") for n in range(6)], [], LIMITS)
    assert len(plan.stages) == 1
    assert plan.stages[0].amount("tables") == 1


def test_what_fits_no_stage_is_named_with_what_it_lacks() -> None:
    plan = schedule([item("a", memory=9), item("b")], [Edge(0, 1, 1)], LIMITS)
    assert plan.misfits == {0: "memory"}
    assert plan.first == {1: 1}


def test_a_cycle_is_named() -> None:
    plan = schedule([item("a"), item("b"), item("c")], [Edge(0, 1, 1), Edge(1, 0, 0)], LIMITS)
    assert plan.cycle == (0, 1)
    assert not plan.first


def test_a_large_table_is_spread_over_stages() -> None:
    """Given 20 parts of one block and 8 blocks a stage, then three stages hold 8, 8 and 4, and what waits comes
    behind the last."""
    part = Demand({"memory": 1}, {"tables": frozenset({"big"})})
    big = Item("big", Demand({"memory": 20}, {"tables": frozenset({"big"})}), 20, part)
    plan = schedule([big, item("after")], [Edge(0, 1, 1)], LIMITS)
    assert plan.shares[0] == {0: 8, 1: 8, 2: 4}
    assert (plan.first[0], plan.last[0], plan.first[1]) == (0, 2, 3)


def test_a_table_that_fits_a_stage_is_not_spread() -> None:
    part = Demand({"memory": 1}, {"tables": frozenset({"t"})})
    items = [item("a", memory=5), Item("t", Demand({"memory": 6}, {"tables": frozenset({"t"})}), 6, part)]
    plan = schedule(items, [], LIMITS)
    assert sorted(len(shares) for shares in plan.shares.values()) == [1, 1]
    assert len(plan.stages) == 2


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Item], list[Edge]]:
    count = draw(st.integers(1, 14))
    items = []
    for number in range(count):
        whole = Demand(
            {"memory": draw(st.integers(0, 20)), "alus": draw(st.integers(0, 2))},
            {"tables": frozenset(draw(st.sets(st.sampled_from("uvwxyz"), max_size=2)))},
        )
        parts = draw(st.integers(1, 6)) if not whole.sums["alus"] else 1
        part = None
        if parts > 1:
            part = Demand({"memory": -(-whole.sums["memory"] // parts)}, whole.sets)
        items.append(Item(str(number), whole, parts, part))
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.integers(0, 1)), max_size=30
        )
    )
    return items, [Edge(min(a, b), max(a, b), distance) for a, b, distance in pairs if a != b]


def _used(items: list[Item], plan: Schedule, stage: int) -> Demand:
    total = Demand()
    for number, shares in plan.shares.items():
        one = items[number]
        for _ in range(shares.get(stage, 0) if one.parts != shares.get(stage) else 0):
            total += one.part or one.demand
        if shares.get(stage) == one.parts:
            total += one.demand
    return total


@given(problems())
def test_no_schedule_breaks_a_dependency_or_a_limit(problem: tuple[list[Item], list[Edge]]) -> None:
    items, edges = problem
    plan = schedule(items, edges, LIMITS)
    assert not plan.cycle
    assert set(plan.last) | set(plan.misfits) == set(range(len(items)))
    for number, shares in plan.shares.items():
        assert sum(shares.values()) == items[number].parts
        assert (min(shares), max(shares)) == (plan.first[number], plan.last[number])
    for edge in edges:
        if edge.before in plan.last and edge.after in plan.first:
            assert plan.first[edge.after] >= plan.last[edge.before] + edge.distance
    for stage, use in enumerate(plan.stages):
        assert use.excess(LIMITS) is None
        again = _used(items, plan, stage)
        assert {name: again.amount(name) for name in LIMITS} == {name: use.amount(name) for name in LIMITS}


@given(problems())
def test_no_schedule_is_shorter_than_its_longest_chain(problem: tuple[list[Item], list[Edge]]) -> None:
    items, edges = problem
    plan = schedule(items, edges, LIMITS)
    if not plan.misfits:
        assert len(plan.stages) >= 1 + max(heights(len(items), edges))
