"""epic_ip_checksum against RFC 1071's arithmetic and the codec's headers, a header a cycle."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import RisingEdge
from common.frames import random_packet
from common.runner import ICARUS, VERILATOR, Bench
from common.streams import start_clock

from epic_spec.codec import encode

BENCH = Bench(
    top="epic_ip_checksum",
    sources=("epic_ip_checksum.v",),
    small=((ICARUS, {}),),
    configurations=((ICARUS, {}), (VERILATOR, {})),
)
LATENCY = 3


def ones_sum(header: bytes) -> int:
    """Word by word with end-around carry."""
    total = 0
    for at in range(0, 20, 2):
        total += int.from_bytes(header[at : at + 2], "big")
        total = (total & 0xFFFF) + (total >> 16)
    return total


async def check(dut, headers: list[bytes]) -> list[int]:
    """A header a cycle; the sums, which must be those of RFC 1071."""
    start_clock(dut)
    sums = []
    for header in headers + [bytes(20)] * (LATENCY + 1):
        await RisingEdge(dut.clk)
        sums.append(dut.sum.value)
        dut.header.value = int.from_bytes(header, "big")
    # Set after an edge, taken by the next, and seen one after the third.
    taken = [int(value) for value in sums[LATENCY + 1 :]]
    assert taken == [ones_sum(header) for header in headers]
    return taken


@cocotb.test
async def right_headers_sum_to_all_ones(dut) -> None:
    choice = random.Random(cocotb.RANDOM_SEED)
    headers = [encode(random_packet(choice, choice.randrange(64)))[14:34] for _ in range(300)]
    sums = await check(dut, headers)
    assert set(sums) == {0xFFFF}


@cocotb.test
async def the_checksum_of_a_sender(dut) -> None:
    """With 0 in its place, the complement is the checksum that the codec gives."""
    choice = random.Random(cocotb.RANDOM_SEED)
    headers = [encode(random_packet(choice, choice.randrange(64)))[14:34] for _ in range(300)]
    sums = await check(dut, [header[:10] + b"\0\0" + header[12:] for header in headers])
    for header, total in zip(headers, sums, strict=True):
        assert total ^ 0xFFFF == int.from_bytes(header[10:12], "big")


@cocotb.test
async def any_bytes_and_every_carry(dut) -> None:
    """Random headers, all ones, zeros, and sums whose end-around carry carries again."""
    choice = random.Random(cocotb.RANDOM_SEED)
    headers = [choice.randbytes(20) for _ in range(500)] + [b"\xff" * 20, bytes(20)]
    # A sum of high * 2^16 + low with high + low above 2^16 - 1: what was folded once must be folded again.
    twice = [(high << 16) + low for high in range(1, 9) for low in range(0x10000 - high, 0x10000)]
    for total in twice:
        words = [min(0xFFFF, max(0, total - 0xFFFF * at)) for at in range(10)]
        headers.append(b"".join(word.to_bytes(2, "big") for word in words))
    await check(dut, headers)
