"""How large a window is to be: the bandwidth-delay product of a tree, in cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from epic_host.fabric.topology import Link
from epic_host.transport.base import PACKET_OVERHEAD
from epic_spec.tables import CAPABILITIES

# Preamble and start delimiter 8, Ethernet header 14, frame check sequence 4, gap 12.
ETHERNET_BYTES: Final = 38

# The window asked for where the bandwidth-delay product is smaller: links' delays say nothing of the time that hosts
# and software engines take. The default of epic.toml.
COMFORTABLE_WINDOW: Final[int] = CAPABILITIES["window"]["default"]

# A window is halved down to this, if there is no memory for more, before a group is refused.
LEAST_WINDOW: Final = 8

LARGEST_WINDOW: Final[int] = CAPABILITIES["window"]["range"][1]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Windows for one tree, powers of two: what it should have, what its rate needs, and the smallest it may have."""

    wanted: int
    covering: int
    least: int


# How far a window may be halved where memory is short.
Floor = Callable[[Sizes], int]


def wire_bytes(cell_bytes: int, payload_bytes: int) -> int:
    """Bytes that a cell takes on a link, all headers and the gap between frames included."""
    packets = -(-cell_bytes // payload_bytes)
    return cell_bytes + packets * (PACKET_OVERHEAD + ETHERNET_BYTES)


def hop_us(link: Link, cell_wire_bytes: int) -> float:
    """Microseconds of a cell over a link: its delay, and the time to send the cell whole (store and forward)."""
    return link.delay_us + 8e-3 * cell_wire_bytes / link.rate_gbps


def covering(rate_gbps: float, rtt_us: float, cell_wire_bytes: int) -> int:
    """The least power of two W with W >= rate RTT / P (epic.md, section 11), P as on the wire."""
    cells = rate_gbps * rtt_us * 125 / cell_wire_bytes  # 1 Gbit/s is 125 bytes a microsecond
    window = 1
    while window < cells and window < LARGEST_WINDOW:
        window *= 2
    return window


def power_of_two(value: int) -> int:
    """The largest power of two that is not above `value` (from 1)."""
    return 1 << (value.bit_length() - 1)


def sizes(
    depth_us: float,
    rate_gbps: float,
    cell_wire_bytes: int,
    largest: int,
    comfortable: int = COMFORTABLE_WINDOW,
) -> Sizes:
    """Windows for a tree whose farthest rank is `depth_us` of hops from the root; none is above `largest`.

    A round trip is twice that; the time that hosts and engines take is not in it. `comfortable` is what is wanted where
    the round trip asks for less: the window that the job names, if it names one.
    """
    largest = power_of_two(largest)
    needed = min(covering(rate_gbps, 2 * depth_us, cell_wire_bytes), largest)
    wanted = min(max(needed, power_of_two(comfortable)), largest)
    return Sizes(wanted=wanted, covering=needed, least=min(LEAST_WINDOW, largest))


def halved(sizes: Sizes) -> int:
    """The floor of a group that takes what it gets: down to `LEAST_WINDOW`."""
    return sizes.least


def at_rate(sizes: Sizes) -> int:
    """The floor of a group that is to run at its rate or not at all."""
    return max(sizes.covering, sizes.least)
