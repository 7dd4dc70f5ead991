"""Vectors of capacity and demand (protocol.md, section 5), and what is given away of a fabric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self

from epic_spec.errors import ConfigError, ResourceError

if TYPE_CHECKING:
    from epic_host.fabric.placement import Placement
    from epic_host.fabric.topology import Fabric

# What an engine that says nothing has: more than any group asks for.
UNLIMITED: Final = 1 << 62

# Rates are counted in whole kbit/s, so that giving back restores what was there to the last bit.
KBPS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one engine has for all its groups together; `children` is for each group by itself.

    `slot_bytes`: bytes of slot memory. `slots`: slots of both kinds. `groups`: group entries. `children`: fan-in of a
    group. `multicast`: entries of replication lists, one a child. `rate_gbps`: Gbit/s that it aggregates, all children
    together, as on the wire.
    """

    slot_bytes: int = UNLIMITED
    slots: int = UNLIMITED
    groups: int = UNLIMITED
    children: int = UNLIMITED
    multicast: int = UNLIMITED
    rate_gbps: float = math.inf

    def check(self, where: str) -> None:
        """Raises ConfigError for a value below 0 or of another type."""
        for f in fields(self):
            value = getattr(self, f.name)
            whole = f.name != "rate_gbps"
            if (
                isinstance(value, bool)
                or not isinstance(value, int if whole else (int, float))
                or not value >= 0
            ):
                kind = "a whole number" if whole else "a number"
                raise ConfigError(f"{where}: {f.name} = {value!r}, expected {kind} from 0")

    def under(self, groups: int, children: int) -> Capacity:
        """With group entries and fan-in limited to what the engine itself offers."""
        return replace(self, groups=min(self.groups, groups), children=min(self.children, children))


@dataclass(frozen=True, slots=True)
class Demand:
    """What one tree takes of one engine; the fields are those of `Capacity`."""

    slot_bytes: int = 0
    slots: int = 0
    groups: int = 0
    children: int = 0
    multicast: int = 0
    rate_gbps: float = 0.0

    def lacking(self, free: Capacity) -> str | None:
        """The name of the first field of which `free` has too little, or None when this fits."""
        for name in (*_SUMMED, "children", "rate_gbps"):
            if getattr(self, name) > getattr(free, name):
                return name
        return None

    def fits(self, free: Capacity) -> bool:
        """Whether `free` has room for this."""
        return (
            self.slot_bytes <= free.slot_bytes
            and self.groups <= free.groups
            and self.children <= free.children
            and self.slots <= free.slots
            and self.multicast <= free.multicast
            and self.rate_gbps <= free.rate_gbps
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON form."""
        return cls(**data)


_SUMMED: Final = ("groups", "slot_bytes", "slots", "multicast")


def kbps(rate_gbps: float) -> int:
    """A rate in whole kbit/s."""
    return round(rate_gbps * KBPS)


def whole_kbps(rate_gbps: float) -> float:
    """The nearest rate of whole kbit/s, in Gbit/s."""
    return kbps(rate_gbps) / KBPS


class Usage:
    """What is given away on every engine and link of a fabric. `add` and `remove` are each other's inverse.

    `add` checks: usage never exceeds capacity, whoever computed the placement.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._whole = {name: engine.limits() for name, engine in fabric.engines.items()}
        self._used = {name: Demand() for name in fabric.engines}
        self._free = dict(self._whole)
        self._links = dict.fromkeys(fabric.link_names, 0)
        self._loads: dict[str, float] = {}  # as far as they have been asked for

    def copy(self) -> Usage:
        """The same, to try things on."""
        other = Usage.__new__(Usage)
        other.fabric = self.fabric
        other._whole, other._used = self._whole, dict(self._used)
        other._free, other._links, other._loads = dict(self._free), dict(self._links), dict(self._loads)
        return other

    def emptied(self) -> Usage:
        """The same fabric with nothing given away."""
        other = Usage.__new__(Usage)
        other.fabric = self.fabric
        other._whole, other._used = self._whole, dict.fromkeys(self._whole, Demand())
        other._free, other._links, other._loads = dict(self._whole), dict.fromkeys(self._links, 0), {}
        return other

    def capacity(self, engine: str) -> Capacity:
        """All that the engine has."""
        return self._whole[engine]

    def used(self, engine: str) -> Demand:
        """What is given away of it; `children` is 0, for fan-in does not add up."""
        return self._used[engine]

    def free(self, engine: str) -> Capacity:
        """What is left of it."""
        return self._free[engine]

    def link_used(self, link: str) -> float:
        """Gbit/s given away in each direction of a link."""
        return self._links[link] / KBPS

    def link_free(self, link: str) -> float:
        """Gbit/s left in each direction of a link."""
        return (kbps(self.fabric.link(link).rate_gbps) - self._links[link]) / KBPS

    def limit(self, engine: str, capacity: Capacity) -> None:
        """The engine turned out to have less (or more) than the fabric's file says. What is given away stays so."""
        self._whole = self._whole | {engine: capacity}  # copies share it
        self._free[engine] = minus(capacity, self._used[engine])
        self._loads.pop(engine, None)

    def obstacle(self, placement: Placement) -> str | None:
        """What has too little left for a placement: `engine e0: slots = 8 free, expected 16`, or None."""
        engines, links = total(placement)
        for name, demand in engines.items():
            field = demand.lacking(self._free[name])
            if field is not None:
                left, asked = getattr(self._free[name], field), getattr(demand, field)
                return f"engine {name}: {field} = {left} free, expected {asked}"
        for name, rate in links.items():
            left_kbps = kbps(self.fabric.link(name).rate_gbps) - self._links[name]
            if rate > left_kbps:
                return f"link {name}: rate_gbps = {left_kbps / KBPS} free, expected {rate / KBPS}"
        return None

    def add(self, placement: Placement) -> None:
        """Give a placement away. Raises ResourceError, and changes nothing, where it does not fit."""
        obstacle = self.obstacle(placement)
        if obstacle is not None:
            raise ResourceError(obstacle)
        self._change(placement, 1)

    def remove(self, placement: Placement) -> None:
        """Take back what was given by `add`. Raises ConfigError, and changes nothing, when it was not."""
        engines, links = total(placement)
        for name, demand in engines.items():
            for field in (*_SUMMED, "rate_gbps"):
                if getattr(self._used[name], field) < getattr(demand, field):
                    raise ConfigError(
                        f"engine {name}: {field} = {getattr(self._used[name], field)} given away, "
                        f"expected at least {getattr(demand, field)}: the placement was not added"
                    )
        for name, rate in links.items():
            if self._links[name] < rate:
                raise ConfigError(
                    f"link {name}: {self._links[name] / KBPS} Gbit/s given away, "
                    f"expected at least {rate / KBPS}: the placement was not added"
                )
        self._change(placement, -1)

    def _change(self, placement: Placement, sign: int) -> None:
        engines, links = total(placement)
        for name, demand in engines.items():
            self._used[name] = used = _plus(self._used[name], demand, sign)
            self._free[name] = minus(self._whole[name], used)
            self._loads.pop(name, None)
        for name, rate in links.items():
            self._links[name] += sign * rate

    def load(self, engine: str) -> float:
        """How much of an engine is given away, 0 to 1: the scarcest of memory, slots, entries and rate."""
        found = self._loads.get(engine)
        if found is None:
            found = self._loads[engine] = fullness(self._used[engine], self._whole[engine])
        return found

    def link_load(self, link: str) -> float:
        """How much of a link is given away, 0 to 1."""
        return self._links[link] / kbps(self.fabric.link(link).rate_gbps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Usage):
            return NotImplemented
        return (self._whole, self._used, self._links) == (other._whole, other._used, other._links)

    __hash__ = None  # type: ignore[assignment]


def fullness(used: Demand, whole: Capacity, more: Demand = Demand()) -> float:
    """The largest share of a field that is used, with `more`; fields without limit count nothing."""
    share = 0.0
    if 0 < whole.slot_bytes < UNLIMITED:
        share = (used.slot_bytes + more.slot_bytes) / whole.slot_bytes
    if 0 < whole.groups < UNLIMITED:
        share = max(share, (used.groups + more.groups) / whole.groups)
    if 0 < whole.slots < UNLIMITED:
        share = max(share, (used.slots + more.slots) / whole.slots)
    if 0 < whole.multicast < UNLIMITED:
        share = max(share, (used.multicast + more.multicast) / whole.multicast)
    if 0 < whole.rate_gbps < math.inf:
        share = max(share, (used.rate_gbps + more.rate_gbps) / whole.rate_gbps)
    return share


def total(placement: Placement) -> tuple[dict[str, Demand], dict[str, int]]:
    """What a placement takes with all its trees: of each engine, and kbit/s of each link."""
    engines: dict[str, Demand] = {}
    links: dict[str, int] = {}
    for tree in placement.trees:
        for name, demand in tree.demand.items():
            before = engines.get(name)
            engines[name] = demand if before is None else sum_of((before, demand))
        for name, rate in tree.rates.items():
            links[name] = links.get(name, 0) + kbps(rate)
    return engines, links


def _plus(a: Demand, b: Demand, sign: int) -> Demand:
    """a + b or a - b; fan-in is of a group by itself and does not add up."""
    rate = (kbps(a.rate_gbps) + sign * kbps(b.rate_gbps)) / KBPS if a.rate_gbps or b.rate_gbps else 0.0
    return Demand(
        a.slot_bytes + sign * b.slot_bytes,
        a.slots + sign * b.slots,
        a.groups + sign * b.groups,
        0,
        a.multicast + sign * b.multicast,
        rate,
    )


def minus(whole: Capacity, used: Demand) -> Capacity:
    """What is left when `used` is given away."""
    rate = whole.rate_gbps
    if used.rate_gbps and rate < math.inf:
        rate = (kbps(rate) - kbps(used.rate_gbps)) / KBPS
    return Capacity(
        whole.slot_bytes - used.slot_bytes,
        whole.slots - used.slots,
        whole.groups - used.groups,
        whole.children,
        whole.multicast - used.multicast,
        rate,
    )


def sum_of(demands: Iterable[Demand]) -> Demand:
    """All of them together; `children` is the largest."""
    total, children = Demand(), 0
    for demand in demands:
        total, children = _plus(total, demand, 1), max(children, demand.children)
    return replace(total, children=children)
