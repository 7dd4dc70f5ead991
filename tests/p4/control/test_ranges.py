"""Slot ranges and numbers are handed out without overlap, aligned, and given back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_p4.control.ranges import Numbers, SlotRanges
from epic_spec.errors import ResourceError


def test_a_range_is_the_first_that_is_free_and_aligned() -> None:
    ranges = SlotRanges(64)
    assert [ranges.take(size, "group 1") for size in (8, 32, 8, 16)] == [0, 32, 8, 16]


def test_a_range_given_back_is_used_again() -> None:
    ranges = SlotRanges(32)
    bases = [ranges.take(8, "group 1") for _ in range(4)]
    ranges.give_back(bases[2])
    assert ranges.take(8, "group 2") == bases[2]


def test_the_refusal_says_what_is_free() -> None:
    ranges = SlotRanges(64)
    ranges.take(8, "group 1")
    with pytest.raises(ResourceError, match=r"group 2: slots = 64, expected at most 32: 56 of 64 slots"):
        ranges.take(64, "group 2")


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=60))
def test_ranges_never_overlap_and_are_aligned(script: list[tuple[int, bool]]) -> None:
    ranges = SlotRanges(128)
    held: dict[int, int] = {}
    for power, release in script:
        count = 1 << power
        if release and held:
            ranges.give_back(base := next(iter(held)))
            del held[base]
        try:
            base = ranges.take(count, "group 1")
        except ResourceError:
            assert ranges.largest_free() < count
            continue
        assert base % count == 0
        assert base + count <= 128
        taken = {slot for b, c in held.items() for slot in range(b, b + c)}
        assert not taken & set(range(base, base + count))
        held[base] = count
    assert ranges.free() == 128 - sum(held.values())


def test_a_number_given_back_is_used_again_last() -> None:
    numbers = Numbers(1, 4, "numbers")
    first = numbers.take(2, "group 1")
    numbers.give_back(first)
    assert numbers.take(3, "group 2") == (3, 4, 1)


def test_numbers_run_out_all_or_none() -> None:
    numbers = Numbers(1, 4, "edge numbers")
    numbers.take(2, "group 1")
    with pytest.raises(ResourceError, match="group 2: needs 3 edge numbers, expected at most 2"):
        numbers.take(3, "group 2")
    assert len(numbers.take(2, "group 3")) == 2
