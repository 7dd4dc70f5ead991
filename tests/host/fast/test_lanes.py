"""Compiled arithmetic on payloads against the reference's, bit for bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from epic_host.fast import calls, lanes
from epic_host.fast.compiled import compiled
from epic_host.fast.streams import fence
from epic_models.reference import numerics
from epic_spec.tables import Datatype, Operator

OPERATORS = (Operator.SUM, Operator.MAX, Operator.MIN)
N = 4099


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def elements(datatype: Datatype, wide: bool, seed: int) -> bytes:
    """Payload bytes in which every kind of value is met: any bits, and many special ones side by side."""
    random = np.random.default_rng(seed)
    size = numerics.element_bytes(datatype, wide)
    raw = random.integers(0, 256, N * size, dtype=np.uint8).view(f"u{size}")
    if datatype in numerics.FLOATS:
        kinds = {
            2: [
                0,
                0x8000,
                0x7C00,
                0xFC00,
                0x7E00,
                0x7C01,
                1,
                0x8001,
                0x03FF,
                0x0400,
                0x7BFF,
                0x7F80,
                0xFF80,
                0x7F81,
            ],
            4: [
                0,
                1 << 31,
                0x7F800000,
                0xFF800000,
                0x7FC00000,
                0x7F800001,
                1,
                0x007FFFFF,
                0x7F7FFFFF,
                0x3F800000,
            ],
            8: [0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, (0x7FF << 52) + 1, 1, 0x3FF << 52],
        }[size]
        place = random.integers(0, 3, N) == 0
        raw[place] = random.choice(np.array(kinds, raw.dtype), place.sum())
    return raw.tobytes()


CASES = [
    (datatype, order, wide)
    for datatype, order, wide in itertools.product(Datatype, ("big", "little"), (False, True))
    if not wide or datatype in numerics.HALVES
]


@pytest.mark.parametrize(("datatype", "order", "wide"), CASES)
def test_sums_maxima_and_minima_are_the_references(datatype, order, wide):
    payloads = [np.frombuffer(elements(datatype, wide, seed), np.uint8) for seed in range(3)]
    big = order == "big"
    scratch = np.zeros(8 * N, np.uint8)
    for operator in OPERATORS:
        acc = np.zeros(N * lanes.accumulator_bytes(int(datatype)), np.uint8)
        lanes.load(address(acc), address(payloads[0]), N, int(datatype), big, wide)
        wanted = numerics.load(payloads[0].tobytes(), datatype, order, wide=wide)
        for payload in payloads[1:]:
            lanes.combine(
                address(acc), address(payload), N, int(datatype), int(operator), big, wide, address(scratch)
            )
            numerics.reduce_into(
                wanted, numerics.load(payload.tobytes(), datatype, order, wide=wide), operator
            )
        for out_wide in {wide, False}:
            out = np.zeros(N * numerics.element_bytes(datatype, out_wide), np.uint8)
            lanes.store(address(out), address(acc), N, int(datatype), big, out_wide)
            assert out.tobytes() == numerics.store(wanted, datatype, order, wide=out_wide)


def test_every_16_bit_float_comes_and_goes():
    every = np.arange(65536, dtype=np.uint16)
    acc, back = np.zeros(65536, np.float32), np.zeros(65536, np.uint16)
    for datatype in numerics.HALVES:
        lanes.load(address(acc), address(every), 65536, int(datatype), False, False)
        reference = numerics.load(every.tobytes(), datatype, "little")
        number = ~np.isnan(reference)
        assert (np.isnan(acc) == ~number).all()
        assert (acc.view(np.uint32)[number] == reference.view(np.uint32)[number]).all()
        lanes.store(address(back), address(acc), 65536, int(datatype), False, False)
        assert back.tobytes() == numerics.store(reference, datatype, "little")


def test_rounding_to_16_bits_at_every_border():
    every = np.arange(65536, dtype=np.uint16)
    for datatype in numerics.HALVES:
        base = numerics.load(every.tobytes(), datatype, "little").view(np.uint32)
        step = 13 if datatype is Datatype.FP16 else 16
        half = 1 << step - 1
        for delta in (-half - 1, -half, -half + 1, -1, 0, 1, half - 1, half, half + 1):
            acc = (base.astype(np.int64) + delta & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
            out = np.zeros(65536, np.uint16)
            lanes.store(address(out), address(acc), 65536, int(datatype), False, False)
            assert out.tobytes() == numerics.store(acc, datatype, "little"), (datatype, delta)


def test_small_magnitudes_round_in_fp16_as_numpy_does():
    acc = np.random.default_rng(3).uniform(-7e-5, 7e-5, 100_000).astype(np.float32)
    acc[:2048] = (np.arange(2048) + 0.5) * 2.0**-25
    out = np.zeros(acc.size, np.uint16)
    lanes.store(address(out), address(acc), acc.size, int(Datatype.FP16), False, False)
    assert out.tobytes() == numerics.store(acc, Datatype.FP16, "little")


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1021])
def test_bytes_are_moved(count):
    source = np.random.default_rng(count).integers(0, 256, count, dtype=np.uint8)
    other = np.random.default_rng(count + 1).integers(0, 256, count, dtype=np.uint8)
    target = np.full(count + 2, 77, np.uint8)
    lanes.copy(address(target) + 1, address(source), count)
    assert target.tobytes() == b"M" + source.tobytes() + b"M"
    lanes.or_into(address(target) + 1, address(other), count)
    assert target.tobytes() == b"M" + (source | other).tobytes() + b"M"
    lanes.zero(address(target) + 1, count)
    assert target.tobytes() == b"M" + bytes(count) + b"M"


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_swapping(size):
    source = np.random.default_rng(size).integers(0, 256, 64 * size, dtype=np.uint8)
    target = np.zeros(64 * size, np.uint8)
    lanes.swap_copy(address(target), address(source), 64, size)
    assert target.tobytes() == source.view(f"u{size}").byteswap().tobytes()


@compiled
def _stream(target, source, n, size):
    calls.stream(np.uint64(target), np.uint64(source), n, size)
    fence()


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_streamed_bytes_are_those_that_are_copied(size):
    """Whatever the addresses and the length; nothing is written before or behind them."""
    rng = np.random.default_rng(size)
    source = rng.integers(0, 256, 1000, dtype=np.uint8)
    streamed = 0
    for _ in range(300):
        n, at, to = int(rng.integers(0, 800 // size)), int(rng.integers(0, 64)), int(rng.integers(0, 128))
        to -= (to % size) * int(rng.integers(0, 2))
        target, wanted = np.full(1100, 0xEE, np.uint8), np.full(1100, 0xEE, np.uint8)
        wanted[to : to + n * size] = source[at : at + n * size].reshape(-1, size)[:, ::-1].reshape(-1)
        _stream(address(target) + to, address(source) + at, n, size)
        assert target.tobytes() == wanted.tobytes()
        streamed += n * size >= 128
    assert streamed > 100
