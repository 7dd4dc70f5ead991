"""Byte strings are canonical when written, and accepted when they fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_p4.p4runtime.status import Code, Refusal
from epic_p4.p4runtime.values import decode, encode


@pytest.mark.parametrize(("value", "raw"), [(0, b"\0"), (1, b"\1"), (255, b"\xff"), (256, b"\1\0")])
def test_the_canonical_string_is_the_shortest(value: int, raw: bytes) -> None:
    assert encode(value) == raw


@given(st.integers(0, (1 << 128) - 1), st.integers(0, 4))
def test_what_is_written_is_read_also_with_leading_zeros(value: int, zeros: int) -> None:
    width = max(value.bit_length(), 1)
    assert decode(bytes(zeros) + encode(value), width, "key x") == value


@pytest.mark.parametrize(("raw", "width"), [(b"", 8), (b"\2\0", 9), (b"\1\0\0", 16)])
def test_an_empty_string_and_one_that_does_not_fit_are_out_of_range(raw: bytes, width: int) -> None:
    with pytest.raises(Refusal, match=rf"key x: .*, expected a bit<{width}>") as error:
        decode(raw, width, "key x")
    assert error.value.code is Code.OUT_OF_RANGE
