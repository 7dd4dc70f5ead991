"""Random collectives, cells and networks against the abstract machine, by both algorithms of the host path."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell, CellFailed
from epic_spec.packets import ERR_BIT, NULL_BIT, Descriptor
from epic_spec.tables import NO_RANK, Datatype, Operator, Primitive
from host.fallback.scenarios import ALGORITHMS
from host.fallback.worlds import GROUP, HostWorld, host_params, params
from models.worlds import SCALE, collectives, rates


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=30 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_collectives_between_hosts_are_right(algorithm: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 9))
    group = data.draw(host_params(n))
    world = HostWorld(group, algorithm, data.draw(rates), seed=data.draw(st.integers(0, 1 << 16)))
    sequence = data.draw(st.lists(collectives(group), min_size=1, max_size=4))
    late = data.draw(st.lists(st.integers(0, n - 1), unique=True, max_size=2))
    expected = world.call(*sequence)
    starts = [world.start_late(rank) for rank in late]
    if starts and len(late) < n:
        world.run(data.draw(st.sampled_from([1e-5, 1e-3, 0.1])))
    for start in starts:
        start()
    world.settle()
    assert [m.error for m in world.members] == [None] * n
    for e in expected:
        e.check()


@st.composite
def cells(draw: st.DrawFn, n: int) -> list[Cell]:
    """One cell of every rank; in about half of the cases the ranks disagree."""
    kinds = st.builds(
        Descriptor,
        primitive=st.sampled_from(Primitive),
        operator=st.sampled_from([Operator.SUM, Operator.MAX, Operator.MIN]),
        datatype=st.sampled_from([Datatype.INT32, Datatype.INT16, Datatype.FP16]),
        rank=st.sampled_from([*range(n), NO_RANK]),
    )
    usual, other = draw(kinds), draw(kinds)
    length, differs = draw(st.sampled_from([4, 8, 28])), draw(st.booleans())
    contributions = []
    for rank in range(n):
        mine = other if differs and draw(st.integers(0, n)) == 0 else usual
        size = length + 4 * (differs and draw(st.integers(0, n)) == 0)
        foreign = mine.primitive is Primitive.BROADCAST and mine.rank != rank
        payload = bytes(size) if foreign else bytes([rank + 1] * size)
        match draw(st.integers(0, 9)):
            case 0:
                contributions.append(Cell(mine.pack() | NULL_BIT, None))
            case 1 if differs:
                contributions.append(Cell(mine.pack() | NULL_BIT | ERR_BIT, None))
            case _:
                contributions.append(Cell(mine.pack(), payload))
    return contributions


def small(n: int, window: int, partial_format: str) -> GroupParams:
    return params(n, window=window, slots=2 * window, partial_format=partial_format)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=30 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_ranks_that_disagree_are_told_the_same(algorithm: str, data: st.DataObject) -> None:
    """P7 cell by cell: an error for all or for none, with one record; the cells after it are right again."""
    n = data.draw(st.integers(1, 7))
    group = small(n, data.draw(st.sampled_from([1, 2, 8])), data.draw(st.sampled_from(["input", "fp32"])))
    world = HostWorld(group, algorithm, data.draw(rates), seed=data.draw(st.integers(0, 99)))
    sequence = data.draw(st.lists(cells(n), min_size=1, max_size=6))
    one_at_a_time = data.draw(st.sets(st.integers(0, n - 1)))
    left = {rank: [step[rank] for step in sequence] for rank in range(n)}

    def pump() -> bool:
        for rank, mine in left.items():
            room = min(1, world.hosts[rank].room()) if rank in one_at_a_time else world.hosts[rank].room()
            world.net.submit(GROUP, rank, mine[:room])
            del mine[:room]
        return all(len(world.events(rank)) == len(sequence) for rank in range(n))

    assert world.net.run(10.0, pump)
    for number in range(len(sequence)):
        events = [world.events(rank)[number] for rank in range(n)]
        told = {(e.held, e.record) if isinstance(e, CellFailed) else None for e in events}
        assert len(told) == 1, f"cell {number}: {events}"
