"""Times of collectives as formulas: the alpha-beta model of each algorithm, down to headers and acknowledgements.

They hold for one collective alone, hosts and switches that take no time, equal links, no losses, and queues in which
only packets of one connection and acknowledgements meet. They know nothing of the simulators: `cases` compares.

alpha is what a packet takes to the other side, every switch on the way storing it whole; beta is what a packet more
takes, `gap`, on the link that is full. An algorithm sends `count` packets one after the other, with a window: the j-th
leaves a gap after the one before, and not before what packet j - window set free has come back (`windowed`). Where a
window does not cover the round trip, time is a round trip a window (the result clock, EPIC-H-07); where it does, the
link is full.

Sources: Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, 2005 (recursive
halving and doubling); Patarasuk, Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009
(ring); Sanders, Speck, Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009 (double tree).
What is added to them here: headers, acknowledgements, windows, and packets instead of one message.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

# Ethernet with FCS, preamble and gap; IPv4; UDP; BTH; an immediate or an AETH; ICRC.
_FRAME: Final = 14 + 4 + 20 + 20 + 8 + 12 + 4 + 4


@dataclass(frozen=True, slots=True)
class Path:
    """The way that a packet takes: from a host to the root of a tree, or from a host to another.

    `links` of `rate` bytes/s in a row, `delay` seconds each; `payload` bytes a packet, with `header` around them, and
    `ack` bytes an acknowledgement.
    """

    links: int
    rate: float
    delay: float
    payload: int = 1024
    header: int = _FRAME
    ack: int = _FRAME

    def wire(self, size: int) -> float:
        """Seconds that `size` bytes in packets of `payload` take a link; none are one packet."""
        return (size + max(1, -(-size // self.payload)) * self.header) / self.rate

    def crossing(self, seconds: float) -> float:
        """Seconds of a packet or message that takes each link `seconds`."""
        return self.links * (self.delay + seconds)

    @property
    def packet(self) -> float:
        """Seconds that a full packet takes a link."""
        return self.wire(self.payload)

    @property
    def acknowledgement(self) -> float:
        """Seconds that an acknowledgement takes a link."""
        return self.ack / self.rate

    @property
    def round_trip(self) -> float:
        """Seconds from sending a full packet to having its acknowledgement."""
        return self.crossing(self.packet) + self.crossing(self.acknowledgement)


def windowed(
    count: int, window: int, first: float, gap: float, trip: float, burst: float | None = None
) -> float:
    """When the last of `count` packets is there: the first at `first`, each `gap` after the one before.

    A packet leaves when what came of the one `window` before it is back, which is `trip` after that one left. `burst`:
    the gap in the first window where it is another, for nothing has come back that shares the link.
    """
    burst = gap if burst is None else burst
    if window * gap >= trip:
        together = min(window, count)
        return first + (together - 1) * burst + (count - together) * gap
    rounds, rest = divmod(count - 1, window)
    return first + rounds * trip + rest * gap


def in_network(
    path: Path, mode: int, size: int, window: int, *, message: int = 16384, primitive: str = "all_reduce"
) -> float:
    """Seconds of a collective of Mode I, II or III; `path` is that from a host to the root.

    A cell is a packet, in Mode I a message of `message` bytes, which every node stores whole. In Modes I and II an
    acknowledgement goes before each result on its way down and before each contribution that a result sets free.
    The other primitives take as long as AllReduce, for a link up or a link down is as full; ReduceScatter in Modes I
    and II less by up to the acknowledgements of a window, for contributions of the first have none between them.
    """
    full = message if mode == 1 else path.payload
    cells = 1 if primitive == "barrier" else max(1, -(-size // full))
    ack = 0.0 if mode == 3 else path.acknowledgement

    def trip(cell: float) -> float:
        return 2 * path.crossing(cell)

    last = path.wire(0 if primitive == "barrier" else size - (cells - 1) * full)
    if cells == 1:
        return trip(last) + ack
    cell = path.wire(full)

    def ends(count: int) -> float:
        return windowed(count, window, trip(cell) + ack, cell + ack, trip(cell) + 2 * ack)

    # The last cell may be short: it comes behind the one before, closer with every link, or once its window lets it go.
    behind = last + ack
    for _ in range(path.links - 1):
        behind = last + max(0.0, behind - cell)
    free = ends(cells - window) + trip(last) + 2 * ack if cells > window else 0.0
    return max(ends(cells - 1) + behind, free)


def ring(path: Path, ranks: int, size: int, window: int) -> float:
    """Seconds of AllReduce around a ring: 2 (n - 1) steps, each of a shard of size / n, packets going on as they come.

    2 (n - 1) / n of the data a link, with acknowledgements, where a shard and the window cover the way; a way a step
    otherwise. The acknowledgement of a packet goes before the packet that it sets free.
    """
    shard = -(-_packets(path, size) // ranks)
    ack, way = path.acknowledgement, path.crossing(path.packet)
    gap = path.packet + ack
    # What holds a packet back longest: the shard before it, or the window of its connection.
    ahead, trip = max((shard, way + ack), (window, path.round_trip), key=lambda limit: limit[1] / limit[0])
    if ahead * gap >= trip:
        ahead, trip = min(shard, window), 0.0
    return windowed(2 * (ranks - 1) * shard, ahead, way, gap, trip, path.packet)


def halving_doubling(path: Path, ranks: int, size: int, window: int) -> float:
    """Seconds of AllReduce by 2 log2(n) exchanges, of 1/2, 1/4, … 1/n, 1/n, … 1/2 of the data (n a power of two).

    An exchange begins when the one before is whole and its acknowledgements have left. Windows that hold an exchange
    whole, or less than a round trip: between, acknowledgements come in bunches, which no formula here knows.
    """
    shard = -(-_packets(path, size) // ranks)
    ack = path.acknowledgement
    gap = path.packet + ack
    halving = [shard * ranks >> k for k in range(1, ranks.bit_length())]
    exchanges = [*halving, *reversed(halving)]
    time = 0.0
    for number, packets in enumerate(exchanges):
        arrives = windowed(packets, window, path.crossing(path.packet), gap, path.round_trip, path.packet)
        time += arrives if number == len(exchanges) - 1 else max(arrives + ack, packets * gap)
    return time


def double_tree(path: Path, ranks: int, size: int, window: int) -> float:
    """Seconds of AllReduce over two binary trees, half of the data up and down each, packets going on as they come.

    A rank that is inner in one tree (two children, a parent) and a leaf of the other has four halves each way on its
    link: twice the data. With 3 ranks or more and full links this is a bound, which only a schedule would reach: two
    children's packets meet on one link, and a leaf, which waits for nobody, gets ahead there of those that have to.
    """
    half = -(-_packets(path, size) // 2)
    ack, packet = path.acknowledgement, path.packet
    edges = 2 * math.floor(math.log2(ranks))  # up and down
    # At each level with two children of a kind the second packet waits for the first, going up and going down.
    meetings = 2 * (math.floor(math.log2(ranks + 1)) - 1)
    first = edges * path.crossing(packet) + (edges - 1) * ack + meetings * packet
    return windowed(half, window, first, min(ranks, 4) * (packet + ack), path.round_trip)


def parameter_server(path: Path, ranks: int, size: int, window: int) -> float:
    """Seconds of AllReduce over rank 0: n - 1 times the data on its link each way, packets going on as they come."""
    others = ranks - 1
    ack, packet = path.acknowledgement, path.packet
    # One packet of each other rank, the acknowledgement of the last, and the sum to each.
    first = 2 * path.crossing(packet) + 2 * (others - 1) * packet + ack
    return windowed(_packets(path, size), window, first, others * (packet + ack), path.round_trip)


def _packets(path: Path, size: int) -> int:
    """Packets of so many bytes."""
    return max(1, -(-size // path.payload))
