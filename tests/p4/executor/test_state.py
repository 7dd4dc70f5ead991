"""Registers, counters, multicast groups."""

from __future__ import annotations

import pytest

from epic_p4.runtime.errors import ControlError, NotFoundError, OutOfRangeError
from epic_p4.runtime.multicast import MulticastEngine
from epic_p4.runtime.state import Column, Counter, Register


def test_a_register_is_filled_and_read_by_index() -> None:
    register = Register("r", 8, [Column("", 16, initial=3)])
    register.fill(2, 3, 0xFFFF)
    assert [register.read(index) for index in range(8)] == [3, 3, 0xFFFF, 0xFFFF, 0xFFFF, 3, 3, 3]
    register.reset()
    assert register.read(2) == 3


def test_a_signed_register_shows_its_bits() -> None:
    register = Register("r", 1, [Column("", 8, signed=True)])
    register.fill(0, 1, 0xFE)
    assert register.columns[0] == [-2]
    assert register.read(0) == 0xFE


def test_a_pair_has_fields() -> None:
    register = Register("r", 2, [Column("low", 32), Column("high", 32)])
    register.fill(0, 2, 7, "high")
    assert (register.read(1, "low"), register.read(1, "high")) == (0, 7)
    with pytest.raises(NotFoundError, match="field '': unknown, expected one of 'low', 'high'"):
        register.read(0)


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (8, 1), (7, 2), (0, 9)])
def test_cells_outside_are_refused(first: int, count: int) -> None:
    with pytest.raises(OutOfRangeError, match=r"expected 0\.\.7"):
        Register("r", 8, [Column("", 8)]).fill(first, count, 0)


def test_a_value_that_is_too_wide_is_refused() -> None:
    with pytest.raises(ControlError, match=r"value 256, expected 0\.\.0xff"):
        Register("r", 8, [Column("", 8)]).fill(0, 1, 256)


def test_a_counter_is_set_and_cleared() -> None:
    counter = Counter("c", 2)
    counter.write(1, 5, 60)
    assert counter.read(1) == (5, 60)
    counter.clear()
    assert counter.read(1) == (0, 0)
    with pytest.raises(OutOfRangeError):
        counter.read(2)


@pytest.mark.parametrize(
    ("group", "replicas", "says"),
    [
        (0, [(1, 1)], "multicast group 0: expected 1..65535"),
        (1, [(511, 1)], "port 511, expected 0..510"),
        (1, [(1, 65536)], "rid 65536, expected 0..65535"),
        (1, [(1, 2), (1, 2)], "twice"),
    ],
)
def test_a_group_out_of_form_is_refused(group: int, replicas: list[tuple[int, int]], says: str) -> None:
    with pytest.raises(ControlError) as caught:
        MulticastEngine().set_group(group, replicas)
    assert says in str(caught.value)


def test_a_group_that_is_not_there_cannot_be_removed() -> None:
    engine = MulticastEngine()
    engine.set_group(3, [(1, 1), (2, 1)])
    engine.delete_group(3)
    with pytest.raises(NotFoundError):
        engine.delete_group(3)
    with pytest.raises(NotFoundError):
        engine.delete_session(3)
