"""From a tree of names to the group entries of its engines and ranks: QPNs, PSN bases and edges, from one seed.

A tree is data: who is whose child, and at which port and addresses the two ends of each edge are. Random QPNs
and PSN bases make frames of another group, or of an earlier epoch, miss (EPIC-E-02, EPIC-F-05).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from epic_models.reference.group import Edge, Endpoint, EngineGroup, GroupParams, GroupPlan, RankGroup
from epic_spec.errors import ConfigError
from epic_spec.psn import MODULUS

Node = int | str

# QPNs 0 and 1 are InfiniBand's management queue pairs, 0xFFFFFF is multicast; a few more are left to the system.
FREE_QPNS = range(16, 0xFFFFFF)


@dataclass(frozen=True, slots=True)
class Tree:
    """A rooted aggregation tree. `children[engine]` lists ranks (numbers) and engines (names) in bitmap order."""

    root: str
    children: Mapping[str, tuple[Node, ...]]

    def engines(self) -> Iterator[str]:
        """Engines, parents before children. Raises ConfigError for a cycle, a second parent or an undefined engine."""
        seen: set[str] = set()
        queue = [self.root]
        while queue:
            name = queue.pop(0)
            if name in seen:
                raise ConfigError(f"tree: {name!r} has two parents or is on a cycle, expected a tree")
            if not self.children.get(name):
                raise ConfigError(
                    f"tree: {name!r} has no children, expected at least one rank or engine below it"
                )
            seen.add(name)
            yield name
            queue += [child for child in self.children[name] if isinstance(child, str)]

    def ranks_below(self, node: Node) -> tuple[int, ...]:
        """The ranks at or below a node, ascending."""
        if isinstance(node, int):
            return (node,)
        return tuple(sorted(rank for child in self.children[node] for rank in self.ranks_below(child)))

    def depth(self) -> int:
        """Levels of engines."""

        def levels(name: str) -> int:
            return 1 + max((levels(c) for c in self.children[name] if isinstance(c, str)), default=0)

        return levels(self.root)


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """Where one end of an edge is attached: its node's port number and the addresses used on that port."""

    port: int
    ip: str
    mac: str


def edge_name(child: Node, parent: str) -> str:
    """`child-parent`, ranks as r0, r1, …: the name of an edge at both of its ends and in every message."""
    return f"{f'r{child}' if isinstance(child, int) else child}-{parent}"


def default_ends(tree: Tree) -> dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]]:
    """One port an edge and addresses in 10.0.0.0/8: what simulators and tests use when nothing else is given."""
    ends: dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]] = {}
    for e, parent in enumerate(tree.engines()):
        upward = 1 if parent != tree.root else 0
        for i, child in enumerate(tree.children[parent]):
            parent_ip, child_ip = f"10.{e + 1}.{i + 1}.1", f"10.{e + 1}.{i + 1}.2"
            ends[child, parent] = (
                LinkEnd(0, child_ip, f"02:00:0a:{e + 1:02x}:{i + 1:02x}:02"),
                LinkEnd(i + upward, parent_ip, f"02:00:0a:{e + 1:02x}:{i + 1:02x}:01"),
            )
    return ends


def build_group(
    tree: Tree,
    params: GroupParams,
    ends: Mapping[tuple[Node, str], tuple[LinkEnd, LinkEnd]] | None = None,
    seed: int = 0,
    control: Mapping[str, str] | None = None,
) -> GroupPlan:
    """The entries to install for one group on one tree.

    `ends[child, parent]` is (child's end, parent's end). QPNs and PSN bases come from `seed`; every node's QPNs
    are distinct. Raises ConfigError when the tree is not one, or its ranks are not 0 … world_size-1, each once.
    """
    engines = list(tree.engines())
    ends = ends if ends is not None else default_ends(tree)
    below = [rank for e in engines for rank in tree.children[e] if isinstance(rank, int)]
    if sorted(below) != list(range(params.world_size)):
        raise ConfigError(
            f"tree: ranks {sorted(below)}, expected each of 0 to {params.world_size - 1} exactly once"
        )
    rng = random.Random(seed)
    qpns = iter(rng.sample(FREE_QPNS, 2 * len(ends)))
    up: dict[Node, Edge] = {}
    down: dict[str, list[Edge]] = {e: [] for e in engines}
    for parent in engines:
        for child in tree.children[parent]:
            child_end, parent_end = ends[child, parent]
            low = Endpoint(child_end.ip, next(qpns), child_end.mac)
            high = Endpoint(parent_end.ip, next(qpns), parent_end.mac)
            name, ranks, is_engine = edge_name(child, parent), tree.ranks_below(child), isinstance(child, str)
            psn_up, psn_down = rng.randrange(MODULUS), rng.randrange(MODULUS)
            sport = 0xC000 | rng.randrange(1 << 14)
            up[child] = Edge(name, child_end.port, low, high, psn_up, psn_down, ranks, True, sport)
            down[parent].append(
                Edge(name, parent_end.port, high, low, psn_down, psn_up, ranks, is_engine, sport)
            )
    return GroupPlan(
        params=params,
        root=tree.root,
        engines={e: EngineGroup(params, tuple(down[e]), up.get(e)) for e in engines},
        ranks={r: RankGroup(params, r, up[r]) for r in range(params.world_size)},
        children={e: tuple(tree.children[e]) for e in engines},
        control=dict(control or {}),
    )
