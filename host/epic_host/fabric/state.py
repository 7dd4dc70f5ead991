"""What a fabric is at a moment: what is given away, lost and offered. Placement reads it, the manager keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar, cast

from epic_host.fabric.candidates import View
from epic_host.fabric.negotiate import Choice, choices
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Usage
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import Link
from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.errors import ConfigError

T = TypeVar("T")


class FabricState:
    """Usage, lost engines and links, and offers of the engines. Changes go through the methods.

    An engine that has not said what it offers is in no tree. What follows from offers and losses alone (which engines
    reach which hosts) is kept until they change.
    """

    def __init__(
        self,
        usage: Usage,
        lost_engines: Iterable[str] = (),
        lost_links: Iterable[str] = (),
        offers: Mapping[str, EngineCapabilities] | None = None,
    ) -> None:
        self.usage = usage
        self._lost_engines: frozenset[str] = frozenset()
        self._lost_links: frozenset[str] = frozenset()
        self._offers = {
            name: engine.offer for name, engine in usage.fabric.engines.items() if engine.offer is not None
        }
        self._derived: dict[Any, Any] = {}
        for name, offer in (offers or {}).items():
            self.offer(name, offer)
        self.lose(lost_engines, lost_links)

    @property
    def lost_engines(self) -> frozenset[str]:
        """Engines that do not answer."""
        return self._lost_engines

    @property
    def lost_links(self) -> frozenset[str]:
        """Links that are held to be cut, by name."""
        return self._lost_links

    @property
    def offers(self) -> Mapping[str, EngineCapabilities]:
        """What engines offer, of those that have said so."""
        return MappingProxyType(self._offers)

    def lose(self, engines: Iterable[str] = (), links: Iterable[str] = ()) -> None:
        """Engines and links are out of use. Raises ConfigError for one that is not of the fabric."""
        self._set_lost(self._lost_engines | self._known(engines, links), self._lost_links | frozenset(links))

    def restore(self, engines: Iterable[str] = (), links: Iterable[str] = ()) -> None:
        """They are in use again."""
        self._set_lost(self._lost_engines - self._known(engines, links), self._lost_links - frozenset(links))

    def offer(self, engine: str, offer: EngineCapabilities | None) -> None:
        """An engine said what it offers, or (None) is not known to offer anything any more."""
        node = self._node(engine)
        if self._offers.get(engine) == offer:
            return
        self._derived.clear()
        if offer is None:
            self._offers.pop(engine, None)
            return
        # Equal offers are one object: what is computed for one is good for all engines of its kind.
        self._offers[engine] = next((known for known in self._offers.values() if known == offer), offer)
        self.usage.limit(engine, node.capacity.under(offer.groups, offer.children))

    def with_usage(self, usage: Usage) -> FabricState:
        """The same engines and links with another load."""
        other = FabricState.__new__(FabricState)
        other.usage = usage
        other._lost_engines, other._lost_links = self._lost_engines, self._lost_links
        other._offers, other._derived = self._offers, self._derived
        return other

    def empty(self) -> FabricState:
        """The same engines and links with nothing given away."""
        return self.with_usage(self.usage.emptied())

    def whole(self) -> FabricState:
        """All engines and links with nothing given away, as if none were lost."""
        if not self._lost_engines and not self._lost_links:
            return self.empty()
        return self.derived(("whole",), lambda: FabricState(self.usage.emptied(), offers=self._offers))

    def options(self, request: GroupRequest, terms: Terms | None = None) -> list[tuple[Choice, View]]:
        """What trees of a request could have in common, best first, each with the engines and links that serve it.

        Those that are in every tree of a better choice are left out.
        """
        fixed = terms and (
            terms.cell_bytes,
            terms.byte_order,
            terms.datatypes,
            terms.operators,
            terms.partial_format,
            terms.ordered,
        )
        key = (
            "options",
            request.modes,
            request.payload_bytes,
            request.datatypes,
            request.operators,
            request.byte_order,
            request.reproducible,
            request.ack_reflection,
            fixed,
        )
        return self.derived(key, lambda: self._options(request, terms))

    def derived(self, key: Any, make: Callable[[], T]) -> T:
        """What follows from offers and losses alone: made once, and forgotten when they change."""
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = make()
        return cast(T, found)

    def _options(self, request: GroupRequest, terms: Terms | None) -> list[tuple[Choice, View]]:
        fabric = self.usage.fabric
        kinds: dict[EngineCapabilities, set[str]] = {}
        for name, offer in self._offers.items():
            if name not in self._lost_engines:
                kinds.setdefault(offer, set()).add(name)
        cables: dict[int, list[Link]] = {}
        for link in fabric.links:
            cables.setdefault(link.mtu, []).append(link)
        found: list[tuple[Choice, View]] = []
        for choice in choices(request, self._offers, sorted(cables), terms):
            serving = [names for offer, names in kinds.items() if choice.served_by(offer)]
            carrying = [links for links in cables.values() if choice.carried_by(links[0])]
            engines = frozenset[str]().union(*serving)
            links = frozenset(link.name for same in carrying for link in same) - self._lost_links
            if engines and not any(engines <= view.engines and links <= view.usable for _, view in found):
                view = self.derived(("view", engines, links), partial(View, fabric, engines, links))
                found.append((choice, view))
        return found

    def _set_lost(self, engines: frozenset[str], links: frozenset[str]) -> None:
        if (engines, links) != (self._lost_engines, self._lost_links):
            self._lost_engines, self._lost_links = engines, links
            self._derived.clear()

    def _known(self, engines: Iterable[str], links: Iterable[str]) -> frozenset[str]:
        for link in links:
            self.usage.fabric.link(link)
        names = frozenset(engines)
        for name in names:
            self._node(name)
        return names

    def _node(self, engine: str) -> Any:
        if engine not in self.usage.fabric.engines:
            known = ", ".join(sorted(self.usage.fabric.engines)[:8])
            raise ConfigError(f"engine {engine!r} is not of the fabric, expected one of {known}, …")
        return self.usage.fabric.engines[engine]
