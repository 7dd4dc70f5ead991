"""Between the values of `epic_models.reference.group` and the messages of `engine.proto`, field by field."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import fields
from typing import Any

from epic_host.proto.epic.v1 import engine_pb2 as pb
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import Edge, Endpoint, EngineGroup, GroupParams
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_spec.errors import ConfigError
from epic_spec.psn import MODULUS

# Always on the wire, so that an empty set can be told from the default.
_SETS = ("operators", "datatypes")
_MAC = re.compile("([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")


def _values(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def group_message(entry: EngineGroup) -> pb.EngineGroup:
    """The message of an engine's part of a group."""
    return pb.EngineGroup(
        params=pb.GroupParams(**_values(entry.params)),
        children=[_edge_message(edge) for edge in entry.children],
        parent=None if entry.parent is None else _edge_message(entry.parent),
    )


def _edge_message(edge: Edge) -> pb.Edge:
    values = _values(edge)
    values["local"], values["peer"] = pb.Endpoint(**_values(edge.local)), pb.Endpoint(**_values(edge.peer))
    return pb.Edge(**values)


def group_value(message: pb.EngineGroup) -> EngineGroup:
    """The engine's part of a group. Raises ConfigError for what no group can have."""
    if not message.HasField("params"):
        raise ConfigError("engine group: no params, expected the parameters of a group")
    return EngineGroup(
        params=_params_value(message.params),
        children=tuple(_edge_value(edge) for edge in message.children),
        parent=_edge_value(message.parent) if message.HasField("parent") else None,
    )


def _params_value(message: pb.GroupParams) -> GroupParams:
    values: dict[str, Any] = {}
    for f in fields(GroupParams):
        if f.name in _SETS:
            values[f.name] = tuple(getattr(message, f.name))
        elif f.name in ("group", "mode", "world_size") or message.HasField(f.name):  # type: ignore[arg-type]
            values[f.name] = getattr(message, f.name)
    return GroupParams(**values)


def _edge_value(message: pb.Edge) -> Edge:
    where = f"edge {message.name!r}"
    if not message.name:
        raise ConfigError("edge: name is empty, expected child-parent")
    for name in ("psn_tx", "psn_rx"):
        if getattr(message, name) >= MODULUS:
            raise ConfigError(f"{where}: {name} = {getattr(message, name)}, expected 0 to {MODULUS - 1}")
    if message.sport > 0xFFFF:
        raise ConfigError(f"{where}: sport = {message.sport}, expected 0 to 65535")
    values = {f.name: getattr(message, f.name) for f in fields(Edge)}
    values["local"] = _endpoint_value(message.local, f"{where}: local")
    values["peer"] = _endpoint_value(message.peer, f"{where}: peer")
    values["ranks"] = tuple(message.ranks)
    return Edge(**values)


def _endpoint_value(message: pb.Endpoint, where: str) -> Endpoint:
    try:
        ip = str(ipaddress.IPv4Address(message.ip))
    except ValueError:
        raise ConfigError(f"{where}: ip = {message.ip!r}, expected an IPv4 address like 10.0.0.1") from None
    if not _MAC.fullmatch(message.mac):
        raise ConfigError(f"{where}: mac = {message.mac!r}, expected six hex bytes like 02:00:0a:00:00:01")
    if message.qpn >= MODULUS:
        raise ConfigError(f"{where}: qpn = {message.qpn}, expected 0 to {MODULUS - 1}")
    return Endpoint(ip, message.qpn, message.mac.lower())


def status_message(status: GroupStatus) -> pb.GroupStatus:
    """The message of a group's status."""
    return pb.GroupStatus(
        group=status.group,
        epoch=status.epoch,
        slots=[pb.SlotStatus(cell=s.cell, bitmap=s.bitmap, done=s.done) for s in status.slots],
        failed_edges=status.failed_edges,
    )


def status_value(message: pb.GroupStatus) -> GroupStatus:
    """A group's status."""
    return GroupStatus(
        group=message.group,
        epoch=message.epoch,
        slots=tuple(SlotStatus(s.cell, s.bitmap, s.done) for s in message.slots),
        failed_edges=tuple(message.failed_edges),
    )


def capabilities_message(capabilities: EngineCapabilities) -> pb.Capabilities:
    """The message of what an engine offers."""
    return pb.Capabilities(**_values(capabilities))


def capabilities_value(message: pb.Capabilities) -> EngineCapabilities:
    """What an engine offers."""
    values: dict[str, Any] = {f.name: getattr(message, f.name) for f in fields(EngineCapabilities)}
    for name, value in values.items():
        if not isinstance(value, bool | int):
            values[name] = tuple(value)
    return EngineCapabilities(**values)
