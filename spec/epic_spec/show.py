"""Look-up in the data of epic.toml for `epic spec show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from epic_spec.errors import ConfigError

Row = dict[str, Any]

# Name of a table on the command line: key of the table in epic.toml. A name is looked up in this order.
TABLES = {
    "clauses": "clause",
    "counters": "counter",
    "capabilities": "capability",
    "parameters": "parameter",
    "drops": "drop",
    "errors": "error",
    "headers": "header",
    "opcodes": "opcode",
    "syndromes": "syndrome",
    "naks": "nak",
    "primitives": "primitive",
    "operators": "operator",
    "datatypes": "datatype",
}


class Found(NamedTuple):
    """Rows of one table, or the row that a name stands for (`many` false)."""

    table: str
    rows: list[Row]
    many: bool


def find(spec: dict[str, Any], what: str) -> Found:
    """A whole table by its name, one row by its name or clause id, or (for "") the tables themselves.

    A name that several tables have is the first table's; `drops.window` says which is meant, as `drop_window`
    does. Case does not matter. Raises ConfigError when nothing is called `what`.
    """
    if not what:
        rows = [{"name": name, "rows": len(spec.get(key, []))} for name, key in TABLES.items()]
        return Found("tables", rows, True)
    wanted = what.lower()
    if wanted in TABLES:
        return Found(wanted, spec.get(TABLES[wanted], []), True)
    for table, key in TABLES.items():
        for row in spec.get(key, []):
            name = _name(row).lower()
            if wanted in (name, f"{table}.{name}", f"{key}_{name}" if key == "drop" else name):
                return Found(table, [row], False)
    tables = ", ".join(TABLES)
    raise ConfigError(
        f"{what!r} is not in the specification, expected a name, a clause id or one of {tables}"
    )


def _name(row: Row) -> str:
    return str(row.get("id", row.get("name")))


def text(found: Found) -> Iterator[str]:
    """Lines for people: a row a line for tables, a field a line for one row."""
    if found.many:
        width = max((len(_name(row)) for row in found.rows), default=0)
        details = [_detail(row) for row in found.rows]
        middle = max(map(len, details), default=0)
        for row, detail in zip(found.rows, details, strict=True):
            yield f"{_name(row):{width}}  {detail:{middle}}  {row.get('text', '')}".rstrip()
        return
    for key, value in found.rows[0].items():
        if key == "fields":
            yield "fields"
            for field in value:
                yield f"  {field['name']:16} {field['bits']:2} bits  {field['text']}"
        else:
            yield f"{key:12} {_value(key, value)}"


def _value(key: str, value: object) -> str:
    if isinstance(value, list):
        return " to ".join(map(str, value)) if key == "range" else ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:#04x}" if key in ("code", "mask", "value") else str(value)


def _detail(row: Row) -> str:
    """What a table's line shows between name and text."""
    if "level" in row:
        modes = ",".join(map(str, row.get("modes", [])))
        return f"{row['level']:6} {row['subject']:7} {modes:5} {row.get('capability', '')}".rstrip()
    for key in ("code", "value"):
        if key in row:
            return f"{row[key]:#04x}"
    if "kind" in row:
        return f"{row['kind']:6} default {_value('default', row['default'])}"
    if "fields" in row:
        return f"{sum(field['bits'] for field in row['fields']) // 8} bytes"
    return str(row.get("layer", row.get("parent", row.get("rows", ""))))
