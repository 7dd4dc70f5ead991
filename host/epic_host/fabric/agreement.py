"""The terms of a group, agreed once for all its epochs: what the best tree of its hosts offers, load left aside."""

from __future__ import annotations

from collections.abc import Iterable

from epic_host.fabric.candidates import Candidate, Obstacle, Room, View, grow, ranks_by_host
from epic_host.fabric.decision import Reason
from epic_host.fabric.explain import no_tree
from epic_host.fabric.negotiate import (
    AROUND_PAYLOAD,
    BEST_FIRST,
    SMALLEST_PAYLOAD,
    needed,
    negotiate,
    payload_within,
)
from epic_host.fabric.placement import Refusal
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.state import FabricState
from epic_host.fabric.terms import Terms
from epic_host.fabric.topology import DEFAULT_MTU, Fabric, Link
from epic_host.fabric.window import (
    COMFORTABLE_WINDOW,
    LARGEST_WINDOW,
    Sizes,
    power_of_two,
    sizes,
    wire_bytes,
)
from epic_spec.errors import ConfigError
from epic_spec.tables import CAPABILITIES


def check_request(fabric: Fabric, request: GroupRequest) -> None:
    """Raises ConfigError for a request that no fabric of these hosts could take."""
    where = f"group {request.name}"
    if not request.hosts:
        raise ConfigError(f"{where}: no hosts, expected one for each rank")
    for host in dict.fromkeys(request.hosts):
        if host not in fabric.hosts:
            raise ConfigError(f"{where}: host {host!r} is not of the fabric, expected one of its hosts")
    for mode in request.modes:
        if mode not in (1, 2, 3):
            raise ConfigError(f"{where}: mode {mode!r}, expected 1, 2 or 3")
    for name in ("datatypes", "operators"):
        for value in getattr(request, name):
            if value not in CAPABILITIES[name]["values"]:
                known = ", ".join(CAPABILITIES[name]["values"])
                raise ConfigError(f"{where}: {name} has {value!r}, expected some of {known}")
    for name in ("payload_bytes", "window", "trees"):
        value = getattr(request, name)
        if value is not None and value < 1:
            raise ConfigError(f"{where}: {name} = {value}, expected at least 1")
    if request.rate_gbps is not None and not 0 < request.rate_gbps < float("inf"):
        raise ConfigError(f"{where}: rate_gbps = {request.rate_gbps}, expected Gbit/s above 0")


def rate_of(fabric: Fabric, request: GroupRequest) -> float:
    """Gbit/s at which a rank sends at most, as on the wire: what it asks for, or what the slowest host's link has."""
    if request.rate_gbps is not None:
        return request.rate_gbps
    fastest = (
        max((link.rate_gbps for link in fabric.up[host]), default=0.0)
        for host in dict.fromkeys(request.hosts)
    )
    return min(fastest)


def terms_of(
    state: FabricState, request: GroupRequest, terms: Terms | None, engines: Iterable[str], narrowest: Link
) -> Terms | Refusal:
    """What the engines of a tree and its link of the smallest MTU agree on; once for all engines of the same kinds."""
    offers = state.offers
    kinds = {id(offers[engine]): engine for engine in engines}
    asked = (
        *(request.modes, request.payload_bytes, request.window, request.datatypes, request.operators),
        *(request.byte_order, request.reproducible, request.ack_reflection),
    )

    def make() -> Terms | Refusal:
        return negotiate(request, {name: offers[name] for name in kinds.values()}, [narrowest], terms)

    found = state.derived(("terms", frozenset(kinds), narrowest.mtu, asked, terms), make)
    # Another engine of the same kind is as good a value, but a refusal must name one of this tree.
    return make() if isinstance(found, Refusal) else found


def window_sizes(depth_us: float, request: GroupRequest, terms: Terms, rate_gbps: float) -> Sizes:
    """Windows for a tree of this depth at this rate, at most that of the terms."""
    wire = wire_bytes(terms.cell_bytes, terms.payload_bytes)
    return sizes(depth_us, rate_gbps, wire, terms.window, request.window or COMFORTABLE_WINDOW)


def agree(fabric: Fabric, state: FabricState, request: GroupRequest) -> Terms | Refusal:
    """The terms of a group for all its epochs. Raises ConfigError.

    `window` is what the rate of the group asks for in that tree. An epoch may get less, or another mode.
    """
    check_request(fabric, request)
    ranks = ranks_by_host(request.hosts)
    usage = state.usage
    room = Room(
        fan_in=lambda engine: min(usage.capacity(engine).children, usage.capacity(engine).multicast),
        edges=None,
        load=lambda engine: 0.0,
    )
    obstacle: Obstacle | None = None
    for _, view in state.options(request):
        for candidate in _trees(view, ranks, room):
            if isinstance(candidate, Obstacle):
                obstacle = obstacle or candidate
                continue
            terms = terms_of(
                state, request, None, candidate.width, view.narrowest(candidate.uplinks.values())
            )
            if isinstance(terms, Refusal):
                return terms
            depth = candidate.depth_us(wire_bytes(terms.cell_bytes, terms.payload_bytes))
            return terms.with_window(window_sizes(depth, request, terms, rate_of(fabric, request)).wanted)
    if obstacle is None:
        return no_tree(fabric, state, request, None)
    limit = room.fan_in(obstacle.engine)
    text = f"engine {obstacle.engine}: fan-in {obstacle.children}, expected at most {limit}"
    return Refusal(Reason.FAN_IN, text, {"engine": obstacle.engine})


def _trees(view: View, ranks: dict[str, tuple[int, ...]], room: Room) -> Iterable[Candidate | Obstacle]:
    return (grow(view, root, ranks, room) for root in view.roots(ranks))


def host_terms(fabric: Fabric, request: GroupRequest) -> Terms:
    """Terms of a group that no engine serves: its hosts compute, so only their links limit it. Raises ConfigError."""
    check_request(fabric, request)
    links = [link for host in dict.fromkeys(request.hosts) for link in fabric.up[host]]
    payload = payload_within(min((link.mtu for link in links), default=DEFAULT_MTU) - AROUND_PAYLOAD, request)
    if not payload:
        asked = (
            f"payload_bytes = {request.payload_bytes}"
            if request.payload_bytes
            else "the MTU of its hosts' links"
        )
        raise ConfigError(
            f"group {request.name}: {asked}, expected room for {SMALLEST_PAYLOAD} bytes of payload"
        )
    datatypes, operators = needed(request, ordered=False)
    window = power_of_two(min(request.window or COMFORTABLE_WINDOW, LARGEST_WINDOW))
    return Terms(
        mode=BEST_FIRST[0],
        payload_bytes=payload,
        window=window,
        datatypes=datatypes,
        operators=operators,
        message_bytes=payload,
        message_buffers=window,
        slots=2 * window,
        byte_order=request.byte_order or CAPABILITIES["byte_order"]["default"],
    )
