"""The cost model against frames on links with a rate and a delay, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epic_host.fabric.window import ETHERNET_BYTES
from epic_host.fallback.cost import PATHS, Setting, choose, estimate
from epic_host.fallback.plan import host_plan
from epic_models.reference.faults import FaultRates
from epic_models.reference.interfaces import Cell
from epic_models.reference.network import LinkModel, Network
from epic_models.reference.tree import Tree, build_group
from epic_spec.errors import ConfigError
from host.fallback.scenarios import SUM
from host.fallback.worlds import GROUP, HostNetwork, ends, params

SETTING = Setting(n=8, rate_gbps=10.0, link_us=2.0, window=16, cell_bytes=1024, payload_bytes=1024)


class Timed(Network):
    """A network whose nodes put one frame after the other on each of their links, `in_a_row` of them to the next."""

    rate_gbps: float
    link_us: float
    in_a_row: int

    def timed(self, setting: Setting, links: int) -> None:
        self.rate_gbps, self.link_us, self.in_a_row = setting.rate_gbps, setting.link_us, links
        self._free: dict[Any, float] = {}

    def _cross(self, node: Any, far: Any, frame: bytes) -> None:
        sending = (len(frame) - 14 + ETHERNET_BYTES) * 8e-9 / self.rate_gbps
        # A host has one link for all its peers, an engine one for each.
        link = node if isinstance(node, int) else (node, far)
        begin = max(self.now, self._free.get(link, 0.0))
        self._free[link] = begin + sending
        self.inject(far, frame, begin - self.now + self.in_a_row * (self.link_us * 1e-6 + sending))


class TimedHosts(Timed, HostNetwork):
    """The host path; a message crosses two links and the switch between."""


def measured(path: str, size: int, setting: Setting) -> float:
    """Seconds until the last rank has the last result."""
    group = params(
        setting.n, window=setting.window, slots=2 * setting.window, payload_bytes=setting.payload_bytes,
        rto_min_us=100_000, rto_initial_us=100_000, rto_max_us=100_000,
    )  # fmt: skip
    net: Timed
    if path == "network":
        plan = build_group(Tree("s", {"s": tuple(range(setting.n))}), group)
        net = Timed([plan], FaultRates(), links=LinkModel())
        net.timed(setting, 1)
    else:
        net = TimedHosts(host_plan(group, ends(setting.n), path, 1))
        net.timed(setting, 2)
    cells = -(-size // setting.cell_bytes)
    left = dict.fromkeys(range(setting.n), cells)
    cell = Cell(SUM, bytes(setting.cell_bytes))

    def pump() -> bool:
        for rank, agent in ((rank, net.agents[GROUP, rank]) for rank in left):
            take = min(left[rank], agent.room())
            if take:
                left[rank] -= take
                net.submit(GROUP, rank, [cell] * take)
        return all(len(events) == cells for events in net.events.values())

    assert net.run(10.0, pump)
    return net.now


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("n", "window", "size"),
    [
        (2, 4, 1),
        (5, 16, 1),
        (8, 16, 1),
        (4, 64, 1 << 18),
        (3, 8, 1 << 16),
        (6, 8, 1 << 15),
        (7, 2, 1 << 14),
        (8, 4, 1 << 16),
    ],
)
def test_estimates_are_what_frames_take(path: str, n: int, window: int, size: int) -> None:
    setting = replace(SETTING, n=n, window=window)
    took = measured(path, size, setting)
    assert estimate(path, size, setting) == pytest.approx(took, rel=0.2), f"{path}: frames took {took}"


def test_a_wrong_model_would_be_noticed() -> None:
    """Twice the ring's load or latency is outside what the test above allows."""
    setting = replace(SETTING, n=4, window=64)
    took = measured("ring", 1 << 18, setting)
    assert estimate("ring", 1 << 18, replace(setting, rate_gbps=5.0)) != pytest.approx(took, rel=0.2)
    assert estimate("ring", 1, replace(setting, link_us=4.0)) != pytest.approx(
        measured("ring", 1, setting), rel=0.2
    )


def test_small_data_goes_by_doubling_and_large_by_the_ring() -> None:
    hosts = ("ring", "doubling")
    wide = replace(SETTING, window=256)
    assert choose(64, wide, hosts) == "doubling"
    assert choose(1 << 24, wide, hosts) == "ring"
    assert choose(1 << 24, wide) == "network"


def test_one_rank_needs_no_path() -> None:
    assert (
        estimate("ring", 1 << 20, replace(SETTING, n=1))
        == estimate("doubling", 1 << 20, replace(SETTING, n=1))
        == 0
    )


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="cost: window = 0, expected at least 1"):
        replace(SETTING, window=0)
    with pytest.raises(ConfigError, match=r"cost: rate_gbps = 0.0, link_us = 2.0, expected a rate above 0"):
        replace(SETTING, rate_gbps=0.0)
    with pytest.raises(ConfigError, match="cost: path = 'tree', expected one of network, ring, doubling"):
        estimate("tree", 1, SETTING)
    with pytest.raises(ConfigError, match="cost: no path to choose from"):
        choose(1, SETTING, ())
