"""A group's description from the JSON file that `epic testbed up` and the manager write (group.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from epic_spec.errors import ConfigError
from epic_spec.tables import CAPABILITIES


@dataclass(frozen=True, slots=True)
class PlainEndpoint:
    """One end of an edge."""

    ip: str
    mac: str
    qpn: int


@dataclass(frozen=True, slots=True)
class PlainEdge:
    """An edge as this engine sees it."""

    name: str
    port: int
    local: PlainEndpoint
    peer: PlainEndpoint
    psn_tx: int
    psn_rx: int
    ranks: tuple[int, ...]
    peer_is_engine: bool
    sport: int


@dataclass(frozen=True, slots=True)
class PlainParams:
    """What all members agree on, as far as a switch needs it."""

    group: int
    epoch: int
    mode: int
    window: int
    slots: int
    payload_bytes: int
    operators: tuple[str, ...]
    datatypes: tuple[str, ...]
    byte_order: str
    icrc: str
    partial_format: str
    ack_reflection: bool
    window_guard: bool
    conflict_record: bool
    ordered: bool
    ecn: bool
    pkey: int


@dataclass(frozen=True, slots=True)
class PlainGroup:
    """An engine's part of a group."""

    params: PlainParams
    children: tuple[PlainEdge, ...]
    parent: PlainEdge | None = None


_Made = TypeVar("_Made")


def read_group(path: Path, engine: str) -> PlainGroup:
    """The part of `engine` in a file with a whole group. Raises ConfigError naming file and key."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"group file {path}: {error.strerror}, expected a readable file") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"group file {path}: not JSON ({error})") from None
    engines = data.get("engines") if isinstance(data, dict) else None
    if not isinstance(engines, dict):
        raise ConfigError(f"group file {path}: key 'engines' is missing, expected a group.json")
    if engine not in engines:
        raise ConfigError(
            f"group file {path}: engine {engine!r}, expected one of {', '.join(sorted(engines))}"
        )
    return group_of(engines[engine], f"group file {path}: engines.{engine}")


def group_of(data: object, where: str) -> PlainGroup:
    """A group from its JSON form. Raises ConfigError that begins with `where`."""
    table = _mapping(data, where)
    children = table.get("children")
    if not isinstance(children, list):
        raise ConfigError(f"{where}.children: {children!r}, expected a list of edges")
    parent = table.get("parent")
    return PlainGroup(
        _params(table.get("params"), f"{where}.params"),
        tuple(_edge(edge, f"{where}.children[{i}]") for i, edge in enumerate(children)),
        None if parent is None else _edge(parent, f"{where}.parent"),
    )


def _params(data: object, where: str) -> PlainParams:
    params = _fill(PlainParams, _mapping(data, where), where)
    for name in ("operators", "datatypes"):
        for value in getattr(params, name):
            if value not in CAPABILITIES[name]["values"]:
                expected = ", ".join(CAPABILITIES[name]["values"])
                raise ConfigError(f"{where}.{name}: {value!r}, expected some of {expected}")
    for name, least in (("window", 1), ("slots", 2 * params.window)):
        value = getattr(params, name)
        if value < least or value & (value - 1):
            raise ConfigError(f"{where}.{name}: {value}, expected a power of two, {least} or more")
    return params


def _edge(data: object, where: str) -> PlainEdge:
    table = dict(_mapping(data, where))
    for end in ("local", "peer"):
        table[end] = _fill(PlainEndpoint, _mapping(table.get(end), f"{where}.{end}"), f"{where}.{end}")
    return _fill(PlainEdge, table, where)


def _mapping(data: object, where: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: {data!r}, expected a table of keys and values")
    return data


def _fill(cls: type[_Made], data: Mapping[str, Any], where: str) -> _Made:
    """A dataclass from the keys of a table; other keys are of no concern to a switch."""
    values: dict[str, Any] = {}
    for field in fields(cls):  # type: ignore[arg-type]
        if field.name not in data:
            assert field.default is MISSING
            raise ConfigError(f"{where}: key {field.name!r} is missing")
        values[field.name] = _value(data[field.name], str(field.type), f"{where}.{field.name}")
    return cls(**values)


_KINDS: dict[str, tuple[type, str]] = {
    "int": (int, "a whole number"),
    "str": (str, "a text"),
    "bool": (bool, "true or false"),
}


def _value(value: object, kind: str, where: str) -> object:
    if kind.startswith("Plain"):
        return value  # made already
    if kind.startswith("tuple"):
        inner = kind.removeprefix("tuple[").partition(",")[0]
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where}: {value!r}, expected a list")
        return tuple(_value(one, inner, where) for one in value)
    expected, text = _KINDS[kind]
    if type(value) is not expected:
        raise ConfigError(f"{where}: {value!r}, expected {text}")
    return value
