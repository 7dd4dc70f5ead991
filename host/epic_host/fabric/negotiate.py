"""Capability negotiation: a group uses one value of each capability that every engine of its tree offers (epic.md, 11).

`negotiate` is for the engines of one tree, and its refusals name the engine, the capability, its value and what was
expected. `choices` says which engines of a fabric can be in one tree with each other, best trees first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from epic_host.fabric.decision import Reason
from epic_host.fabric.placement import Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import Link
from epic_host.fabric.window import LARGEST_WINDOW, power_of_two
from epic_host.fallback.message import HEADER_BYTES
from epic_host.transport.base import PACKET_OVERHEAD
from epic_models.reference.endpoint import EngineCapabilities
from epic_spec import psn
from epic_spec.tables import CAPABILITIES

# Where the job has no preference. Mode II repairs loss hop by hop, Mode III from end to end; Mode I stores messages
# whole, but is the one that can add floating point in a fixed order.
BEST_FIRST: Final = (2, 3, 1)
ORDERED_FIRST: Final = (1, 2, 3)

FLOATS: Final = frozenset({"FP16", "BF16", "FP32", "FP64"})
# What hosts need to add floating point reproducibly by themselves (epic.md, section 6.6).
FIXED_POINT_TYPE: Final = "INT32"
FIXED_POINT_OPERATORS: Final = ("SUM", "MAX")

SMALLEST_PAYLOAD: Final[int] = CAPABILITIES["payload_bytes"]["range"][0]
LARGEST_PAYLOAD: Final[int] = CAPABILITIES["payload_bytes"]["range"][1]
MESSAGE_BYTES: Final[int] = CAPABILITIES["message_bytes"]["default"]
# Path MTUs of stock RDMA NICs, which ACK reflection is for (InfiniBand specification, volume 1, section 9.4.3).
NIC_PAYLOADS: Final = (4096, 2048, 1024, 512, 256)

# What a packet has around the payload of a cell. Messages between hosts have a header more, and any group may have to
# go on between its hosts.
AROUND_PAYLOAD: Final = PACKET_OVERHEAD + HEADER_BYTES


def adds_in_order(request: GroupRequest) -> bool:
    """Whether the result must not depend on the order of additions, and the datatypes are such that it does."""
    return request.reproducible and "SUM" in request.operators and not FLOATS.isdisjoint(request.datatypes)


def modes_of(request: GroupRequest) -> tuple[int, ...]:
    """The modes that a job accepts, best first."""
    modes = request.modes or (ORDERED_FIRST if adds_in_order(request) else BEST_FIRST)
    return tuple(mode for mode in modes if mode == 3 or not request.ack_reflection)


def payload_within(limit: int, request: GroupRequest) -> int:
    """The largest payload that is not above a limit nor the request's; 0 when there is none."""
    limit = min(limit, request.payload_bytes or LARGEST_PAYLOAD, LARGEST_PAYLOAD)
    if request.ack_reflection:
        return max((size for size in NIC_PAYLOADS if size <= limit), default=0)
    return limit // SMALLEST_PAYLOAD * SMALLEST_PAYLOAD


@dataclass(frozen=True, slots=True)
class Choice:
    """Values that can only be had alike by all engines of a tree."""

    mode: int
    ordered: bool
    icrc: str
    byte_order: str
    partial_format: str
    payload_bytes: int
    message_bytes: int
    datatypes: frozenset[str]
    operators: frozenset[str]
    ack_reflection: bool

    def served_by(self, offer: EngineCapabilities) -> bool:
        """Whether an engine can be in a tree of this choice."""
        return (
            offer.mode == self.mode
            and offer.payload_bytes >= self.payload_bytes
            and (self.mode != 1 or offer.message_bytes >= self.message_bytes)
            and (offer.ordered or not self.ordered)
            and (offer.ack_reflection or not self.ack_reflection)
            and self.icrc in offer.icrc
            and self.byte_order in offer.byte_order
            and self.partial_format in offer.partial_format
            and self.datatypes <= set(offer.datatypes)
            and self.operators <= set(offer.operators)
        )

    def carried_by(self, link: Link) -> bool:
        """Whether a link takes its packets."""
        return link.mtu >= self.payload_bytes + AROUND_PAYLOAD


def needed(request: GroupRequest, ordered: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Datatypes and operators that engines must compute: those asked for, and what hosts add reproducibly with."""
    datatypes, operators = request.datatypes, request.operators
    if adds_in_order(request) and not ordered:
        datatypes = tuple(dict.fromkeys((*datatypes, FIXED_POINT_TYPE)))
        operators = tuple(dict.fromkeys((*operators, *FIXED_POINT_OPERATORS)))
    return datatypes, operators


def choices(
    request: GroupRequest,
    offers: Mapping[str, EngineCapabilities],
    mtus: Sequence[int],
    terms: Terms | None = None,
) -> Iterator[Choice]:
    """What trees could have in common, best first: mode by the job's order, then ICRC, then the largest payload.

    With `terms` only what keeps the cells and coding of a group that has them already.
    """
    offered = list(dict.fromkeys(offers.values()))
    orders: Sequence[str] = ("big", "little") if request.byte_order is None else (request.byte_order,)
    formats: Sequence[str] = ("input", "fp32")
    if terms is not None:
        orders, formats = (terms.byte_order,), (terms.partial_format,)
    for mode in modes_of(request):
        same = [offer for offer in offered if offer.mode == mode]
        payloads = _payloads(request, same, mtus, mode, terms)
        messages = _messages(same, mode, terms)
        for ordered, icrc, order, form, message, payload in product(
            _ordered(request, mode, terms), ("full", "none"), orders, formats, messages, payloads
        ):
            datatypes, operators = (
                needed(request, ordered) if terms is None else (terms.datatypes, terms.operators)
            )
            yield Choice(
                mode,
                ordered,
                icrc,
                order,
                form,
                payload,
                message,
                frozenset(datatypes),
                frozenset(operators),
                request.ack_reflection,
            )


def _ordered(request: GroupRequest, mode: int, terms: Terms | None) -> tuple[bool, ...]:
    if terms is not None:
        return (True,) if terms.ordered and mode == 1 else () if terms.ordered else (False,)
    return (True, False) if mode == 1 and adds_in_order(request) else (False,)


def _payloads(
    request: GroupRequest,
    offered: Sequence[EngineCapabilities],
    mtus: Sequence[int],
    mode: int,
    terms: Terms | None,
) -> list[int]:
    if terms is not None and mode != 1:
        return [terms.cell_bytes] if terms.cell_bytes <= LARGEST_PAYLOAD else []
    limits = {offer.payload_bytes for offer in offered} | {mtu - AROUND_PAYLOAD for mtu in mtus}
    sizes = {payload_within(limit, request) for limit in limits} - {0}
    return sorted(sizes, reverse=True) if offered else []


def _messages(offered: Sequence[EngineCapabilities], mode: int, terms: Terms | None) -> list[int]:
    if mode != 1:
        return [0]
    if terms is not None:
        return [terms.cell_bytes]
    return sorted({min(offer.message_bytes, MESSAGE_BYTES) for offer in offered}, reverse=True)


def negotiate(
    request: GroupRequest,
    offers: Mapping[str, EngineCapabilities],
    links: Sequence[Link],
    terms: Terms | None = None,
) -> Terms | Refusal:
    """The best that all engines of one tree offer, with the largest window that they allow.

    With `terms`, those of an earlier epoch, what must stay the same stays. A refusal's reason is NO_CAPABILITY where
    one engine by itself cannot, MIXED_TREE where engines can but not together.
    """
    for name, offer in offers.items():
        refusal = _unable(request, name, offer, terms)
        if refusal is not None:
            return refusal
    return _disagreement(request, offers) or _agreed(request, offers, links, terms)


def lacks(
    engine: str, capability: str, value: object, expected: str, reason: Reason = Reason.NO_CAPABILITY
) -> Refusal:
    """The refusal that names them."""
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return Refusal(
        reason,
        f"engine {engine}: {capability} = {text}, expected {expected}",
        {"engine": engine, "capability": capability},
    )


def _unable(
    request: GroupRequest, name: str, offer: EngineCapabilities, terms: Terms | None
) -> Refusal | None:
    """Why an engine can be in no tree of this group."""
    modes = modes_of(request)
    if offer.mode not in modes:
        known = (
            " or ".join(map(str, sorted(modes))) or "3 (ACK reflection), which the request's modes leave out"
        )
        return lacks(name, "mode", offer.mode, known)
    ordered = terms.ordered if terms is not None else False
    datatypes, operators = (
        (terms.datatypes, terms.operators) if terms else (request.datatypes, request.operators)
    )
    for capability, asked in (("datatypes", datatypes), ("operators", operators)):
        offered = getattr(offer, capability)
        for value in asked:
            if value not in offered:
                return lacks(name, capability, offered, f"{value} among them")
    if ordered and not (offer.mode == 1 and offer.ordered):
        return lacks(name, "ordered", False, "true, as in the group's other epochs")
    in_order = offer.mode == 1 and offer.ordered
    by_hosts = FIXED_POINT_TYPE in offer.datatypes and set(FIXED_POINT_OPERATORS) <= set(offer.operators)
    if terms is None and adds_in_order(request) and not in_order and not by_hosts:
        return lacks(name, "ordered", False, "true, or INT32, SUM and MAX for hosts to add reproducibly")
    if request.ack_reflection and not offer.ack_reflection:
        return lacks(name, "ack_reflection", False, "true")
    order = terms.byte_order if terms else request.byte_order
    form = terms.partial_format if terms else None
    for capability, fixed in (("byte_order", order), ("partial_format", form)):
        if fixed is not None and fixed not in getattr(offer, capability):
            return lacks(name, capability, getattr(offer, capability), f"{fixed} among them")
    return _too_small(name, offer, request, terms)


def _too_small(
    name: str, offer: EngineCapabilities, request: GroupRequest, terms: Terms | None
) -> Refusal | None:
    if terms is not None:
        capability = "message_bytes" if offer.mode == 1 else "payload_bytes"
        if getattr(offer, capability) < terms.cell_bytes:
            expected = f"at least {terms.cell_bytes}, the group's cells"
            return lacks(name, capability, getattr(offer, capability), expected)
    if not payload_within(offer.payload_bytes, request):
        least = NIC_PAYLOADS[-1] if request.ack_reflection else SMALLEST_PAYLOAD
        asked = f" (the request allows {request.payload_bytes})" if request.payload_bytes else ""
        return lacks(name, "payload_bytes", offer.payload_bytes, f"at least {least}{asked}")
    return None


def _disagreement(request: GroupRequest, offers: Mapping[str, EngineCapabilities]) -> Refusal | None:
    """Why engines that can each be in a tree of the group cannot be in one together."""
    first = next(iter(offers))
    for name, offer in offers.items():
        if offer.mode != offers[first].mode:
            expected = f"{offers[first].mode} as engine {first}: a tree has one mode"
            return lacks(name, "mode", offer.mode, expected, Reason.MIXED_TREE)
    for capability in ("byte_order", "icrc", "partial_format"):
        common = set(getattr(offers[first], capability))
        for name, offer in offers.items():
            values = getattr(offer, capability)
            if common.isdisjoint(values):
                expected = (
                    f"{' or '.join(sorted(common))}, which the engines before it in the tree have in common"
                )
                return lacks(name, capability, values, expected, Reason.MIXED_TREE)
            common &= set(values)
    return _ordered_or_not(request, offers)


def _ordered_or_not(request: GroupRequest, offers: Mapping[str, EngineCapabilities]) -> Refusal | None:
    """Of engines where one adds in order and one leaves it to the hosts, all must be able to do one of the two."""
    if not adds_in_order(request) or all(offer.mode == 1 and offer.ordered for offer in offers.values()):
        return None
    for name, offer in offers.items():
        for capability, needs in (("datatypes", (FIXED_POINT_TYPE,)), ("operators", FIXED_POINT_OPERATORS)):
            values = getattr(offer, capability)
            if not set(needs) <= set(values):
                expected = (
                    f"{' and '.join(needs)} among them, for other engines of the tree do not add in order"
                )
                return lacks(name, capability, values, expected, Reason.MIXED_TREE)
    return None


def _agreed(
    request: GroupRequest,
    offers: Mapping[str, EngineCapabilities],
    links: Sequence[Link],
    terms: Terms | None,
) -> Terms | Refusal:
    engines = list(offers.values())
    mode = engines[0].mode
    payload = payload_within(min(engine.payload_bytes for engine in engines), request)
    cell = terms.cell_bytes if terms is not None else None
    if cell is not None and mode != 1:
        payload = cell
    for link in links:
        fits = payload_within(link.mtu - AROUND_PAYLOAD, request)
        if not fits or (cell is not None and mode != 1 and fits < cell):
            least = (cell if cell is not None and mode != 1 else SMALLEST_PAYLOAD) + AROUND_PAYLOAD
            about = {"link": link.name}
            return Refusal(
                Reason.NO_CAPABILITY, f"link {link.name}: mtu = {link.mtu}, expected at least {least}", about
            )
        payload = min(payload, fits)
    message = cell or min(MESSAGE_BYTES, *(engine.message_bytes for engine in engines))
    ordered = (
        terms.ordered
        if terms is not None
        else (adds_in_order(request) and all(engine.mode == 1 and engine.ordered for engine in engines))
    )
    datatypes, operators = (
        (terms.datatypes, terms.operators) if terms is not None else needed(request, ordered)
    )
    window = _largest_window(request, engines, payload, message, terms)
    return Terms(
        mode=mode,
        payload_bytes=payload,
        window=window,
        datatypes=datatypes,
        operators=operators,
        message_bytes=message if mode == 1 else payload,
        message_buffers=min(window, *(engine.message_buffers for engine in engines)),
        slots=2 * window,
        byte_order=_common("byte_order", engines, terms.byte_order if terms else request.byte_order),
        icrc=_common("icrc", engines, None),
        ack_reflection=request.ack_reflection,
        ordered=ordered,
        partial_format=_common("partial_format", engines, terms.partial_format if terms else None),
        window_guard=all(engine.window_guard for engine in engines),
        conflict_record=all(engine.conflict_record for engine in engines),
        ecn=all(engine.ecn for engine in engines),
    )


def _common(capability: str, engines: Sequence[EngineCapabilities], fixed: str | None) -> str:
    """The first value of epic.toml that all have, or the one that is fixed."""
    if fixed is not None:
        return fixed
    values: list[str] = CAPABILITIES[capability]["values"]
    return next(value for value in values if all(value in getattr(engine, capability) for engine in engines))


def _largest_window(
    request: GroupRequest,
    engines: Sequence[EngineCapabilities],
    payload: int,
    message: int,
    terms: Terms | None,
) -> int:
    limits = [LARGEST_WINDOW, *(engine.window for engine in engines)]
    if request.window is not None:
        limits.append(request.window)
    if terms is not None:
        limits.append(terms.window)
    if engines[0].mode == 3:
        limits += [engine.slots // 2 for engine in engines]
    if engines[0].mode == 1:
        # Fewer than half the PSNs in a window (epic.md, section 2.6).
        limits.append((psn.HALF - 1) // -(-message // payload))
    return power_of_two(min(limits))
