"""Host algorithms as lists of flows for `flows`: who sends how many packets to whom, and after which others.

Data is `places` packets long. A flow's segments say which places its packets carry, and whether they are added or
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from epic_models.packetsim.world import ADD, COPY, PIPELINED, WHOLE
from epic_spec.errors import ConfigError


@dataclass(slots=True)
class Flow:
    """Packets from one rank to another. `waits` are indices of flows in the same list."""

    sender: int
    receiver: int
    segments: list[tuple[int, int, int]] = field(default_factory=list)  # (first place, packets, ADD or COPY)
    waits: list[int] = field(default_factory=list)
    offset: int = 0
    rule: int = PIPELINED

    @property
    def total(self) -> int:
        """Packets of one collective."""
        return sum(count for _, count, _ in self.segments)


def check(algorithm: str, ranks: int, where: str) -> None:
    """Refuse ranks that an algorithm cannot serve. Raises ConfigError naming `where`."""
    if ranks < 2:
        raise ConfigError(f"{where}: ranks = {ranks}, expected 2 or more with {algorithm}")
    if algorithm == "halving_doubling" and ranks & (ranks - 1):
        raise ConfigError(f"{where}: ranks = {ranks}, expected a power of two with {algorithm}")


def places(flows: Sequence[Flow]) -> int:
    """Packets of data that the flows move, padding included."""
    return max(place + count for flow in flows for place, count, _ in flow.segments)


def ring(ranks: int, places: int) -> list[Flow]:
    """AllReduce in 2(n - 1) steps around a ring: ReduceScatter, then AllGather (Patarasuk and Yuan, 2009).

    Packets of a step go on as soon as they have come, so steps overlap. Shards are padded to one size.
    """
    shard = -(-places // ranks)
    flows = []
    for rank in range(ranks):
        flow = Flow(rank, (rank + 1) % ranks, waits=[(rank - 1) % ranks], offset=shard)
        for step in range(ranks - 1):
            flow.segments.append((((rank - step) % ranks) * shard, shard, ADD))
        for step in range(ranks - 1):
            flow.segments.append((((rank + 1 - step) % ranks) * shard, shard, COPY))
        flows.append(flow)
    return flows


def halving_doubling(ranks: int, places: int) -> list[Flow]:
    """Recursive halving, then doubling: 2 log2(n) exchanges with partners (Thakur, Rabenseifner, Gropp, 2005).

    Ranks are a power of two (`check`). An exchange begins when the one before is whole.
    """
    size = -(-places // ranks) * ranks
    have = [(0, size)] * ranks
    flows: list[Flow] = []
    before: list[list[int]] = [[] for _ in range(ranks)]

    def exchange(distance: int, parts: Callable[[int], tuple[int, int]], what: int) -> None:
        first = len(flows)
        for rank in range(ranks):
            partner = rank ^ distance
            start, count = parts(rank)
            # What a rank sends depends on all that it has received: a fast partner may be an exchange ahead.
            waits = list(before[rank])
            flows.append(Flow(rank, partner, [(start, count, what)], waits, 0 if waits else count, WHOLE))
        for rank in range(ranks):
            before[rank].append(first + (rank ^ distance))

    distance = ranks // 2
    while distance:
        halves = {}
        for rank in range(ranks):
            start, count = have[rank]
            low, high = (start, count // 2), (start + count // 2, count // 2)
            keep, give = (high, low) if rank & distance else (low, high)
            have[rank], halves[rank] = keep, give
        exchange(distance, halves.__getitem__, ADD)
        distance //= 2
    distance = 1
    while distance < ranks:
        exchange(distance, have.__getitem__, COPY)
        have = [
            (min(have[r][0], have[r ^ distance][0]), have[r][1] + have[r ^ distance][1]) for r in range(ranks)
        ]
        distance *= 2
    return flows


def double_tree(ranks: int, places: int) -> list[Flow]:
    """Two binary trees, each with half of the data, every rank inner in at most one (Sanders, Speck, Träff, 2009).

    Packets are reduced up a tree and broadcast down it as they come.
    """
    flows: list[Flow] = []
    half = places - places // 2
    _one_tree(flows, list(range(ranks)), 0, half)
    if places > half:
        _one_tree(flows, [(rank + 1) % ranks for rank in range(ranks)], half, places - half)
    return flows


def _one_tree(flows: list[Flow], order: Sequence[int], first: int, count: int) -> None:
    """Reduce to the root of a binary tree and broadcast from it; node i of the tree is rank order[i]."""
    parents = _binary_tree(len(order))
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        if parent is not None:
            children.setdefault(parent, []).append(node)
    up: dict[int, int] = {}

    def join(node: int, other: int, what: int, waits: list[int]) -> int:
        flows.append(Flow(order[node], order[other], [(first, count, what)], waits, 0 if waits else count))
        return len(flows) - 1

    def reduce_to(node: int, parent: int | None) -> None:
        kids = children.get(node, ())
        for child in kids:
            reduce_to(child, node)
        if parent is not None:
            up[node] = join(node, parent, ADD, [up[child] for child in kids])

    def broadcast_from(node: int, came: list[int]) -> None:
        for child in children.get(node, ()):
            broadcast_from(child, [join(node, child, COPY, came)])

    root = parents.index(None)
    reduce_to(root, None)
    broadcast_from(root, [up[child] for child in children.get(root, ())])


def _binary_tree(ranks: int) -> list[int | None]:
    """Parents in an in-order binary tree: odd ranks are inner, even ones leaves, so that a shift by one swaps them."""
    parents: list[int | None] = [None] * ranks

    def split(low: int, high: int, parent: int | None) -> None:
        if low >= high:
            return
        # The inner node with the most trailing ones that is inside: leaves then are the even ranks.
        step = 1
        while low + 2 * step - 1 < high:
            step *= 2
        node = min(low + step - 1, high - 1)
        parents[node] = parent
        split(low, node, node)
        split(node + 1, high, node)

    split(0, ranks, None)
    return parents


def parameter_server(ranks: int, places: int) -> list[Flow]:
    """Rank 0 receives everybody's data, adds, and sends the sum to all."""
    gather = [Flow(rank, 0, [(0, places, ADD)], [], places) for rank in range(1, ranks)]
    came = list(range(ranks - 1))
    return gather + [
        Flow(0, rank, [(0, places, COPY)], came, 0 if came else places) for rank in range(1, ranks)
    ]


ALGORITHMS: dict[str, Callable[[int, int], Sequence[Flow]]] = {
    "ring": ring,
    "halving_doubling": halving_doubling,
    "double_tree": double_tree,
    "parameter_server": parameter_server,
}
