"""The compiled CRC-32 against zlib's, by both ways of computing it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from epic_host.fast import crc

DATA = np.random.default_rng(1).integers(0, 256, 66_000, dtype=np.uint8)
WAYS = [
    crc.sliced_update,
    *([crc.folded_update] if crc.CARRYLESS else []),
    *([crc.wide_update] if crc.WIDE else []),
]
SHIFTS = [crc.sliced_shift, *([crc.folded_shift] if crc.CARRYLESS else [])]
LENGTHS = [*range(200), 255, 256, 257, 1023, 1024, 1040, 4096, 8191, 8192, 65_507]


@pytest.mark.parametrize("update", WAYS)
def test_is_zlibs(update):
    for length in LENGTHS:
        for offset in (0, 1, 4, 7):
            got = update(0xFFFFFFFF, DATA.ctypes.data + offset, length)
            assert ~int(got) & 0xFFFFFFFF == zlib.crc32(DATA[offset : offset + length].tobytes())


@pytest.mark.parametrize("update", WAYS)
def test_goes_on_from_a_register(update):
    whole = ~zlib.crc32(DATA[:5000].tobytes()) & 0xFFFFFFFF
    for cut in (1, 63, 64, 2500, 4999):
        state = update(0xFFFFFFFF, DATA.ctypes.data, cut)
        assert int(update(state, DATA.ctypes.data + cut, 5000 - cut)) == whole


@pytest.mark.parametrize("shift", SHIFTS)
def test_shift_is_zeros_behind(shift):
    zeros = np.zeros(65_536, np.uint8)
    for length in (4, 8, 12, 60, 64, 1024, 8192, 65_532):
        for state in (1, 0x80000000, 0xDEADBEEF, 0xFFFFFFFF):
            assert int(shift(state, length)) == int(crc.sliced_update(state, zeros.ctypes.data, length))


def test_a_header_before_a_payload():
    head, body = DATA[:48].tobytes(), DATA[48 : 48 + 1024]
    before = ~zlib.crc32(head) & 0xFFFFFFFF
    linear = crc.crc_update(0, body.ctypes.data, body.size)
    together = int(crc.crc_shift(before, body.size)) ^ int(linear)
    assert ~together & 0xFFFFFFFF == zlib.crc32(DATA[: 48 + 1024].tobytes())
    assert int(crc.crc_shift(before, 0)) == before


def test_constants_are_the_papers():
    # Gopal et al.'s values for this polynomial, as zlib, Linux and ISA-L have them too.
    assert crc._factors(512) == (0x154442BD4, 0x1C6E41596)
    assert crc._factors(128) == (0x1751997D0, 0x0CCAA009E)
