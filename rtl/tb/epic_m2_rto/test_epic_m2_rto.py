"""epic_m2_rto beside RFC 6298 in real numbers: never below it, above it by no more than its fractions are worth."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import Timer
from common.runner import ICARUS, VERILATOR, Bench

from epic_models.reference.group import GroupParams
from epic_models.reference.rto import RetransmissionTimeout

BENCH = Bench(
    top="epic_m2_rto",
    sources=("epic_m2_rto.v", "epic_cut.v"),
    small=((ICARUS, {}),),
    configurations=((VERILATOR, {}),),
)

FINE = 256  # parts of a microsecond


async def step(dut, state: tuple[int, int, int], sample: int) -> tuple[tuple[int, int, int], int]:
    dut.sampled.value, dut.srtt.value, dut.rttvar.value = state
    dut.sample.value = sample
    await Timer(1, "ns")
    return (1, int(dut.next_srtt.value), int(dut.next_rttvar.value)), int(dut.base.value)


@cocotb.test
async def runs_of_samples(dut) -> None:
    """Samples of many sizes, in runs that jump and settle, within narrow and wide bounds."""
    choice = random.Random(cocotb.RANDOM_SEED)
    worst = 0.0
    for _ in range(300):
        low = choice.choice((10, 1000, 20_000, 1_000_000))
        high = max(low, choice.choice((10, 5000, 1_000_000, 60_000_000)))
        golden = RetransmissionTimeout(
            GroupParams(1, 2, 2, rto_initial_us=low, rto_min_us=low, rto_max_us=high)
        )
        dut.minimum.value, dut.maximum.value = low, high
        state = (
            0,
            choice.randrange(1 << 40),
            choice.randrange(1 << 40),
        )  # what is there before the first counts not
        scale = choice.choice((3, 200, 30_000, 40_000_000))
        for _ in range(60):
            sample = choice.randrange(scale) if choice.random() < 0.8 else choice.randrange(scale * 3)
            state, base = await step(dut, state, sample)
            golden.sample(sample * 1e-6)
            exact = golden.value * 1e6
            assert low <= base <= high
            # SRTT is off by at most 8 parts, RTTVAR by 4 and those: 8 + 4 x 12 parts of 256; and it is rounded up.
            assert exact - 0.25 <= base <= exact + 1.25, (sample, base, exact)
            worst = max(worst, abs(base - exact))
    assert worst > 0  # it does round


@cocotb.test
async def the_first_sample(dut) -> None:
    """R: SRTT is R, RTTVAR half of it, so the timeout three times R."""
    dut.minimum.value, dut.maximum.value = 10, 60_000_000
    for sample in (0, 1, 4, 777, 20_000_000):
        state, base = await step(dut, (0, 1 << 30, 1 << 30), sample)
        assert state == (1, sample * FINE, sample * FINE // 2)
        assert base == max(10, 3 * sample)
