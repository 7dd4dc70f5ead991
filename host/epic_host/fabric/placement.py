"""Where a group is in the network: its trees, what each takes of engines and links. Or why it is nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from epic_host.fabric.decision import Reason
from epic_host.fabric.resources import Demand
from epic_host.fabric.terms import Terms
from epic_models.reference.tree import Tree


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not to be had: the word, the line, and what it hangs on (as in `Decision`)."""

    reason: Reason
    text: str
    about: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacedTree:
    """One tree of a group in a fabric.

    `links` are those it uses, children before parents. `demand` is what it takes of each engine, `rates` the Gbit/s
    that are set aside on links in each direction (none, unless the request names a rate).
    """

    tree: Tree
    links: tuple[str, ...]
    demand: Mapping[str, Demand]
    terms: Terms
    rates: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "root": self.tree.root,
            "children": {engine: list(children) for engine, children in self.tree.children.items()},
            "links": list(self.links),
            "demand": {engine: demand.to_dict() for engine, demand in self.demand.items()},
            "terms": self.terms.to_dict(),
            "rates": dict(self.rates),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(
            tree=Tree(data["root"], {e: tuple(children) for e, children in data["children"].items()}),
            links=tuple(data["links"]),
            demand={e: Demand.from_dict(demand) for e, demand in data["demand"].items()},
            terms=Terms.from_dict(data["terms"]),
            rates=dict(data["rates"]),
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """All trees of a group, with the same terms; cell k of an epoch travels on tree k mod T. The window is over all."""

    trees: tuple[PlacedTree, ...]

    @property
    def engines(self) -> frozenset[str]:
        """Engines of any of the trees."""
        return frozenset(engine for tree in self.trees for engine in tree.demand)

    @property
    def links(self) -> frozenset[str]:
        """Links of any of the trees."""
        return frozenset(link for tree in self.trees for link in tree.links)

    @property
    def slot_bytes(self) -> int:
        """Bytes of slot memory over all engines."""
        return sum(demand.slot_bytes for tree in self.trees for demand in tree.demand.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"trees": [tree.to_dict() for tree in self.trees]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(tuple(PlacedTree.from_dict(tree) for tree in data["trees"]))
