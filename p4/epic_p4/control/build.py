"""A group's table entries, multicast groups and register values, from its description (p4/README.md)."""

from __future__ import annotations

from collections.abc import Sequence

from epic_p4.control import program as names
from epic_p4.control.description import EdgeLike, GroupLike
from epic_p4.control.entries import Installation, MulticastGroup, RegisterFill, Stage
from epic_p4.control.program import ProgramModel
from epic_p4.runtime.match import Exact, TableEntry
from epic_spec import psn
from epic_spec.addresses import ip_number, mac_bytes
from epic_spec.errors import ConfigError

ROLE_HOST, ROLE_ENGINE, ROLE_PARENT = 1, 2, 3
# A cell number or PSN sits in the upper 24 bits of a 32-bit word, as it does behind AckReq and reserved bits in BTH.
_PSN_SHIFT = 8
_OFFERED = {"INT32": 1, "SUM": 2, "MAX": 4, "MIN": 8}
_NO_RANKS = 0x10000


def build(
    group: GroupLike,
    program: ProgramModel,
    program_group: int,
    generation: int,
    slot_base: int,
    edges: Sequence[int],
    children_multicast: int,
) -> Installation:
    """Everything to write for a group, in stages. `edges` are the numbers of children, then of the parent.

    What a packet meets first is written last: until the `edge` entries exist no frame is admitted.
    Raises ConfigError for an address, port, number or rank that the tables cannot hold.
    """
    _check_edges(group, program)
    all_edges = [*group.children, *([] if group.parent is None else [group.parent])]
    numbered = list(zip(edges, all_edges, strict=True))
    children = numbered[: len(group.children)]
    slots = group.params.slots
    stages: list[Stage] = []
    if program.clears_slots:
        stages.append(_initial_slots(group, slot_base))
    multicast = [MulticastGroup(number, ((edge.port, number),)) for number, edge in numbered]
    multicast.append(
        MulticastGroup(children_multicast, tuple((edge.port, number) for number, edge in children))
    )
    stages.append(tuple(multicast))
    below = [
        TableEntry(names.BELOW, {"edge_id": Exact(number), "rank": Exact(rank)}, names.IS_BELOW)
        for number, edge in children
        for rank in edge.ranks
    ]
    parent_edge = edges[-1] if group.parent is not None else 0
    stages.append((*(_edge_out(number, edge, group, program) for number, edge in numbered), *below))
    stages.append(
        (_group(group, program, program_group, generation, slot_base, parent_edge, children_multicast),)
    )
    stages.append(tuple(entry for _, edge in numbered for entry in _admission(edge, group)))
    stages.append(
        tuple(
            _edge(number, edge, program, program_group, child if child < len(children) else None)
            for child, (number, edge) in enumerate(numbered)
        )
    )
    return Installation(
        group=group.params.group,
        epoch=group.params.epoch,
        program_group=program_group,
        generation=generation,
        slot_base=slot_base,
        slots=slots,
        edges=tuple(edges),
        children_multicast=children_multicast,
        qpns=tuple(edge.local.qpn for edge in all_edges),
        stages=tuple(stages),
    )


def _edge(
    number: int, edge: EdgeLike, program: ProgramModel, program_group: int, child: int | None
) -> TableEntry:
    role = ROLE_ENGINE if edge.peer_is_engine else ROLE_HOST
    values = {
        "edge_id": number,
        "group": program_group,
        "role": ROLE_PARENT if child is None else role,
        "child_bit": 0 if child is None else 1 << child,
        "data_offset": psn.add(0, -edge.psn_rx) << _PSN_SHIFT,
        "ack_offset": psn.add(0, -edge.psn_tx) << _PSN_SHIFT,
    }
    return TableEntry(
        names.EDGE,
        {"qpn": Exact(edge.local.qpn)},
        names.SET_EDGE,
        program.parameters(names.SET_EDGE, values),
    )


def _admission(edge: EdgeLike, group: GroupLike) -> tuple[TableEntry, ...]:
    qpn = Exact(edge.local.qpn)
    address = {
        "qpn": qpn,
        "src_mac": Exact(_mac(edge.peer.mac)),
        "dst_mac": Exact(_mac(edge.local.mac)),
        "src_ip": Exact(ip_number(edge.peer.ip)),
        "dst_ip": Exact(ip_number(edge.local.ip)),
    }
    return (
        TableEntry(names.EDGE_PORT, {"qpn": qpn, "port": Exact(edge.port)}, names.RIGHT_PORT),
        TableEntry(names.EDGE_ADDRESS, address, names.RIGHT_ADDRESS),
        TableEntry(names.EDGE_PKEY, {"qpn": qpn, "pkey": Exact(group.params.pkey)}, names.RIGHT_PKEY),
    )


def _group(
    group: GroupLike,
    program: ProgramModel,
    program_group: int,
    generation: int,
    slot_base: int,
    parent_edge: int,
    children_multicast: int,
) -> TableEntry:
    params = group.params
    values = {
        "root": int(group.parent is None),
        "full": _full(group),
        "slot_base": slot_base,
        "slot_mask": params.slots - 1,
        "payload_bytes": params.payload_bytes,
        "offered": sum(_OFFERED[name] for name in {*params.operators, *params.datatypes}),
        "reflection": int(params.ack_reflection),
        "ecn": int(params.ecn),
        "parent": parent_edge,
        "children": children_multicast,
        "guard": int(params.window_guard),
        "icrc": int(params.icrc == "full"),
        "generation": generation,
    }
    return TableEntry(
        names.GROUP,
        {"group": Exact(program_group)},
        names.SET_GROUP,
        program.parameters(names.SET_GROUP, values),
    )


def _edge_out(number: int, edge: EdgeLike, group: GroupLike, program: ProgramModel) -> TableEntry:
    values = {
        "src_mac": _mac(edge.local.mac),
        "dst_mac": _mac(edge.peer.mac),
        "src_ip": ip_number(edge.local.ip),
        "dst_ip": ip_number(edge.peer.ip),
        "src_port": edge.sport,
        "qpn": edge.peer.qpn,
        "data_base": psn.add(edge.psn_tx, 0) << _PSN_SHIFT,
        "ack_base": psn.add(edge.psn_rx, 0) << _PSN_SHIFT,
        "pkey": group.params.pkey,
        "icrc": int(group.params.icrc == "full"),
    }
    return TableEntry(
        names.EDGE_OUT,
        {"edge_id": Exact(number)},
        names.REWRITE,
        program.parameters(names.REWRITE, values),
    )


def _initial_slots(group: GroupLike, slot_base: int) -> Stage:
    """Slots as EPIC-M3-01 says they start: tag N before the first cell, all children counted, done."""
    slots = group.params.slots
    return (
        RegisterFill(names.TAG, slot_base, tuple(psn.add(i, -slots) << _PSN_SHIFT for i in range(slots))),
        RegisterFill(names.BITMAP, slot_base, (_full(group),) * slots),
        RegisterFill(names.FLAGS, slot_base, (names.FLAG_DONE,) * slots),
    )


def _full(group: GroupLike) -> int:
    return (1 << len(group.children)) - 1


def _mac(text: str) -> int:
    return int.from_bytes(mac_bytes(text), "big")


def _check_edges(group: GroupLike, program: ProgramModel) -> None:
    edges = [*group.children, *([] if group.parent is None else [group.parent])]
    for edge in edges:
        where = f"group {group.params.group}, edge {edge.name}"
        limits = {
            "port": (edge.port, program.port_bits),
            "local.qpn": (edge.local.qpn, psn.MODULUS.bit_length() - 1),
            "peer.qpn": (edge.peer.qpn, psn.MODULUS.bit_length() - 1),
            "sport": (edge.sport, 16),
            "psn_tx": (edge.psn_tx, 24),
            "psn_rx": (edge.psn_rx, 24),
        }
        for name, (value, bits) in limits.items():
            if not 0 <= value < 1 << bits:
                raise ConfigError(f"{where}: {name} = {value}, expected 0 to {(1 << bits) - 1}")
        for end, point in (("local", edge.local), ("peer", edge.peer)):
            try:
                ip_number(point.ip), mac_bytes(point.mac)
            except ValueError as error:
                raise ConfigError(f"{where}: {end}: {error}") from None
        for rank in edge.ranks:
            if not 0 <= rank < _NO_RANKS:
                raise ConfigError(f"{where}: rank {rank}, expected 0 to {_NO_RANKS - 1}")
        if len(set(edge.ranks)) != len(edge.ranks):
            raise ConfigError(f"{where}: ranks = {list(edge.ranks)}, expected each once")
    if program.arch in ("tna", "t2na"):
        pipes = {edge.port >> names.TNA_PORT_BITS_IN_PIPE for edge in edges}
        if len(pipes) > 1:
            raise ConfigError(
                f"group {group.params.group}: its ports are in pipes {', '.join(map(str, sorted(pipes)))}, "
                "expected ports of one pipe: each pipe has slots of its own"
            )
