"""Many frames at once: what frame-by-frame tests can't show, such as hazards, order, room, and ports that stop."""

from __future__ import annotations

import itertools

import pytest

from rtl.engine.device import engine
from rtl.engine.traffic import Traffic, outcomes
from rtl.needs import FULL, need

# Ranks of the root group share ports; the inner group shares ports with it.
ROOT = [0, 1, 2, 3, 4, 5, 5, 5]
INNER = [1, 3, 6]


LOSSES = [(1, 0.0, 0.0), (2, 0.1, 0.1), (3, 0.3, 0.2)]
STALLS = [(0, 0), (40, 120), (0, 200)]
WORLDS = list(itertools.product(LOSSES, STALLS)) if FULL else list(zip(LOSSES, STALLS, strict=True))


@pytest.mark.parametrize(
    ("seed", "loss", "repeat", "stalls"), [(*losses, stalls) for losses, stalls in WORLDS]
)
def test_all_ports_at_once(seed: int, loss: float, repeat: float, stalls: tuple[int, int]) -> None:
    need("verilator")
    device = engine()
    device.reset()
    device.model.stalls(*stalls, seed=seed)
    traffic = Traffic(device, seed, loss=loss, repeat=repeat)
    traffic.tenant(1, ROOT)
    traffic.tenant(2, INNER, parent=7)
    traffic.run()
    device.model.stalls(0, 0)
    device.settle()
    counters = device.counters()
    lost = sum(device.port_counters(port)["overflow"] for port in range(8))
    assert counters["rx_frames"] + lost == traffic.pushed
    assert outcomes(counters) == counters["rx_frames"]
    assert counters["cells_poisoned"] == counters["tx_failed"] == 0
    sent = ("tx_partial", "tx_result", "tx_replay", "tx_resend", "tx_reflected")
    assert counters["tx_frames"] == sum(counters[name] for name in sent)
    if loss:
        assert counters["tx_replay"] > 0
        assert counters["tx_resend"] > 0


def test_a_port_that_stops_stops_nobody_else() -> None:
    """Its own group waits for it; the other goes on, though their results leave through the same queue of passes."""
    need("verilator")
    device = engine()
    device.reset()
    device.model.stalls(0, 0)
    traffic = Traffic(device, 5)
    held = traffic.tenant(1, [0, 1], cells=60, window=32, slots=64)
    free = traffic.tenant(2, [2, 3], cells=200)
    device.model.hold(0, held=True)
    traffic.run(until=[free])
    assert not held.finished
    device.model.hold(0, held=False)
    traffic.run()
