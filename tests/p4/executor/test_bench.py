"""The bench measures a program that does what it says."""

from __future__ import annotations

import pytest

from epic_p4 import bench


@pytest.mark.parametrize("arch", ["v1model", "tna"])
def test_the_yardstick_adds_each_word_to_its_register(arch: str) -> None:
    switch = bench.yardstick(arch, words=8)
    port, frame = bench.arrivals(words=8, count=4)[3]
    first = switch.process(port, frame)
    second = switch.process(port, frame)
    words = [3 * 8 + word for word in range(8)]
    for sent, factor in ((first, 1), (second, 2)):
        [(out, answer)] = sent
        assert out == port
        assert answer[:6] == bytes.fromhex("020000000001")
        assert answer[-32:] == b"".join((factor * word).to_bytes(4, "big") for word in words)
    assert switch.process(port + 1, frame) == []


def test_a_rate_counts_whole_rounds_without_the_first() -> None:
    switch = bench.yardstick("v1model", words=2)
    rounds: list[int] = []
    rate = bench.measure(
        "two words", switch, bench.arrivals(words=2, count=5), 0.01, lambda: rounds.append(1)
    )
    assert rate.packets == 5 * (len(rounds) - 1)
    assert rate.seconds >= 0.01
    assert rate.per_second == rate.packets / rate.seconds
