"""The bf-rt description of a program, made from its P4Info, with the fixed tables that the driver uses.

The SDE's compiler writes such a document (bf-rt.json) itself; this one lets every name, key and width that the driver
uses be checked where the SDE is not installed, and compared with the SDE's where it is.
"""

from __future__ import annotations

from typing import Any

from epic_p4.bfrt import names
from epic_p4.control.schema import Action, Counter, Field, Register, Schema, Table

_MATCH = {"exact": "Exact", "lpm": "LPM", "ternary": "Ternary", "range": "Range", "optional": "Optional"}


def describe(schema: Schema) -> dict[str, Any]:
    """The tables of a program in the form of a bf-rt.json."""
    actions = {action.id: action for action in schema.actions}
    return {
        "schema_version": "1.0.0",
        "tables": [
            *(_table(table, actions) for table in schema.tables),
            *(_register(register) for register in schema.registers),
            *(_counter(counter) for counter in schema.counters),
        ],
    }


def fixed_tables() -> dict[str, Any]:
    """The device's own tables, as far as the driver and the check list use them."""
    group = [_key(1, names.GROUP_ID, 16)]
    node = [_key(1, names.NODE_ID, 32)]
    port = [_key(1, names.PORT_ID, 32)]
    return {
        "schema_version": "1.0.0",
        "tables": [
            _fixed(
                names.MULTICAST_GROUPS,
                "PreMgid",
                group,
                [
                    _datum(1, names.NODE_ID, 32, repeated=True),
                    _datum(2, names.NODE_XID_VALID, "bool", repeated=True),
                    _datum(3, names.NODE_XID, 16, repeated=True),
                ],
            ),
            _fixed(
                names.MULTICAST_NODES,
                "PreNode",
                node,
                [
                    _datum(1, names.NODE_RID, 16),
                    _datum(2, names.NODE_LAGS, 8, repeated=True),
                    _datum(3, names.NODE_PORTS, 32, repeated=True),
                ],
            ),
            _fixed(
                names.PORTS,
                "PortConfigure",
                port,
                [
                    _datum(1, names.PORT_SPEED, "string"),
                    _datum(2, names.PORT_FEC, "string"),
                    _datum(3, names.PORT_AUTO_NEGOTIATION, "string"),
                    _datum(4, names.PORT_ENABLE, "bool"),
                    _datum(5, names.PORT_UP, "bool", read_only=True),
                    _datum(6, names.PORT_RX_MTU, 32),
                    _datum(7, names.PORT_TX_MTU, 32),
                ],
            ),
        ],
    }


def _table(table: Table, actions: dict[int, Action]) -> dict[str, Any]:
    return {
        "name": names.table(table.name),
        "id": table.id,
        "table_type": "MatchAction_Direct",
        "size": table.size,
        "key": [_key(key.id, key.name, key.width, _MATCH[key.kind]) for key in table.keys],
        "action_specs": [
            {"id": i, "name": actions[i].name, "data": [_param(p) for p in actions[i].params]}
            for i in table.entry_actions
        ],
        "data": [],
    }


def _register(register: Register) -> dict[str, Any]:
    members = register.members or (("", register.width),)
    return {
        "name": names.table(register.name),
        "id": register.id,
        "table_type": "Register",
        "size": register.size,
        "key": [_key(1, names.REGISTER_INDEX, 32)],
        "action_specs": [],
        # Each pipe has a copy, so what is read is a list.
        "data": [
            _datum(i, names.register_field(register.name, member), width)
            for i, (member, width) in enumerate(members, 1)
        ],
    }


def _counter(counter: Counter) -> dict[str, Any]:
    return {
        "name": names.table(counter.name),
        "id": counter.id,
        "table_type": "Counter",
        "size": counter.size,
        "key": [_key(1, names.COUNTER_INDEX, 32)],
        "action_specs": [],
        "data": [_datum(1, names.COUNTER_PACKETS, 64)],
    }


def _fixed(name: str, kind: str, key: list[dict[str, Any]], data: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name,
        "id": 0,
        "table_type": kind,
        "size": 0,
        "key": key,
        "action_specs": [],
        "data": data,
    }


def _param(field: Field) -> dict[str, Any]:
    return {**_datum(field.id, field.name, field.width)["singleton"], "mandatory": True}


def _key(number: int, name: str, width: int, match: str = "Exact") -> dict[str, Any]:
    return {
        "id": number,
        "name": name,
        "repeated": False,
        "mandatory": match == "Exact",
        "match_type": match,
        "type": {"type": "bytes", "width": width},
    }


def _datum(
    number: int, name: str, width: int | str, *, repeated: bool = False, read_only: bool = False
) -> dict[str, Any]:
    kind = {"type": width} if isinstance(width, str) else {"type": "bytes", "width": width}
    singleton = {"id": number, "name": name, "repeated": repeated, "type": kind}
    return {"mandatory": False, "read_only": read_only, "singleton": singleton}


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """What of `ours` is missing or different in `theirs` (a bf-rt.json of the SDE): one line each, [] for nothing.

    Names, key widths and match kinds, actions, and widths of parameters count; ids and sizes do not, for the driver
    goes by names and the SDE rounds sizes up.
    """
    tables = {table["name"]: table for table in theirs["tables"]}
    found: list[str] = []
    for table in ours["tables"]:
        name = table["name"]
        if name not in tables:
            found.append(f"table {name}: missing")
            continue
        other = tables[name]
        found += _compare(f"table {name}: key", _widths(table["key"]), _widths(other["key"]))
        mine = {action["name"]: action["data"] for action in table["action_specs"]}
        its = {action["name"]: action["data"] for action in other.get("action_specs", [])}
        for action, data in mine.items():
            where = f"table {name}: action {action}"
            if action not in its:
                found.append(f"{where}: missing")
            else:
                found += _compare(f"{where}: parameter", _widths(data), _widths(its[action]))
        data_here = _widths([d["singleton"] for d in table["data"]])
        data_there = _widths([d["singleton"] for d in other.get("data", []) if "singleton" in d])
        found += _compare(f"table {name}: data", data_here, data_there)
    return found


def _widths(fields: list[dict[str, Any]]) -> dict[str, str]:
    """What must agree of fields, by name."""
    return {
        field["name"]: f"{field.get('match_type', '')} {_bits(field['type'])}".strip() for field in fields
    }


def _bits(kind: dict[str, Any]) -> str:
    """A width in bits: the SDE writes some plain numbers as uint32 and the like."""
    name = str(kind["type"])
    if name == "bytes":
        return str(kind["width"])
    return name.removeprefix("uint") if name.startswith("uint") else name


def _compare(what: str, ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    lines = []
    for name, form in ours.items():
        if name not in theirs:
            lines.append(f"{what} {name}: missing")
        elif theirs[name] != form:
            lines.append(f"{what} {name}: {theirs[name]}, expected {form}")
    return lines
