"""Generates the tables inside `spec/epic.md`, each between `<!-- gen:NAME -->` and `<!-- /gen -->`.

Names: constants, headers.<header>, opcodes, syndromes, naks, primitives, operators, datatypes, capabilities,
parameters, counters, drops, errors, clauses.<part> (W, A, M1, ...).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from epic_spec.errors import ConfigError
from epic_spec.gen import NOTICE

Row = dict[str, Any]

_OPEN: Final = re.compile(r"<!-- gen:(\S+) -->")
_CLOSE: Final = "<!-- /gen -->"


def generate(spec: dict[str, Any], text: str, where: str = "spec/epic.md") -> str:
    """`text` with the notice on line 1 and the inside of every marked place made anew.

    Raises ConfigError, naming `where` and the line, for a name that is not a table, a marker inside a marked
    place, and one that is not closed or not opened.
    """
    out: list[str] = []
    inside = ""
    lines = text.splitlines()
    notice = f"<!-- The marked tables: {NOTICE} -->"
    if not lines or lines[0] != notice:
        out.append(notice)
    for number, line in enumerate(lines, 1):
        opened = _OPEN.fullmatch(line.strip())
        if opened and inside:
            raise ConfigError(f"{where}:{number}: {line.strip()} inside {inside}, expected {_CLOSE} first")
        if line.strip() == _CLOSE:
            if not inside:
                raise ConfigError(f"{where}:{number}: {_CLOSE} without an open marker")
            inside = ""
        if not inside:
            out.append(line)
        if opened:
            inside = line.strip()
            out += ["", *table(spec, opened[1], f"{where}:{number}"), ""]
    if inside:
        raise ConfigError(f"{where}: {inside} is not closed, expected {_CLOSE}")
    return "\n".join(out) + "\n"


def table(spec: dict[str, Any], name: str, where: str = "") -> list[str]:
    """The lines of one table. Raises ConfigError when no table has this name."""
    kind, _, part = name.partition(".")
    if kind == "headers" and part in {h["name"] for h in spec["header"]}:
        return _header(next(h for h in spec["header"] if h["name"] == part))
    if kind == "clauses" and part:
        return _clauses(spec, part)
    if name not in _TABLES:
        known = ", ".join([*_TABLES, "headers.<header>", "clauses.<part>"])
        raise ConfigError(f"{where}: no table is named {name!r}, expected one of {known}")
    return _TABLES[name](spec)


def _grid(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    titles = list(head)
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    for row in rows:
        cells = [str(cell).replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return lines


def _hex(code: int) -> str:
    return f"0x{code:02X}"


def _code(name: str) -> str:
    return f"`{name}`"


def _header(header: Row) -> list[str]:
    rows, at = [], 0
    for field in header["fields"]:
        bits = field["bits"]
        place = f"{at}–{at + bits - 1}" if bits > 1 else f"{at}"
        rows.append((place, bits, _code(field["name"]), field["text"]))
        at += bits
    return _grid(("bits", "width", "field", "meaning"), rows)


def _clauses(spec: dict[str, Any], part: str) -> list[str]:
    rows = [c for c in spec.get("clause", []) if c["id"].split("-")[1] == part]
    return _grid(
        ("clause", "level", "binds", "modes", "where", "text"),
        (
            (c["id"], c["level"], c["subject"], _list(c["modes"]), _list_code(c.get("capability")), c["text"])
            for c in rows
        ),
    )


def _list(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def _list_code(capability: str | None) -> str:
    return _code(capability) if capability else ""


def _constants(spec: dict[str, Any]) -> list[str]:
    rows = ((_code(name), row["value"], row["text"]) for name, row in spec["constants"].items())
    return _grid(("constant", "value", "meaning"), rows)


def _opcodes(spec: dict[str, Any]) -> list[str]:
    return _grid(
        ("code", "opcode", "headers behind the BTH", "modes", "meaning"),
        (
            (_hex(o["code"]), _code(o["name"]), _list(o["extended"]), _list(o["modes"]) or "none", o["text"])
            for o in spec["opcode"]
        ),
    )


def _syndromes(spec: dict[str, Any]) -> list[str]:
    rows = (
        (f"{s['value'] >> 5:03b}", _hex(s["value"]), _code(s["name"]), s["text"]) for s in spec["syndrome"]
    )
    return _grid(("upper bits", "value", "syndrome", "meaning"), rows)


def _codes(key: str) -> Callable[[dict[str, Any]], list[str]]:
    def rows(spec: dict[str, Any]) -> list[str]:
        return _grid(("code", key, "meaning"), ((r["code"], _code(r["name"]), r["text"]) for r in spec[key]))

    return rows


def _datatypes(spec: dict[str, Any]) -> list[str]:
    rows = ((d["code"], _code(d["name"]), d["bytes"]) for d in spec["datatype"])
    return _grid(("code", "datatype", "bytes"), rows)


def _range(row: Row) -> str:
    if row["kind"] == "bool":
        return "true, false"
    if row["kind"] != "int":
        return _list(row["values"])
    rule = "power of two" if row.get("power_of_two") else ""
    if "multiple_of" in row:
        rule = f"multiple of {row['multiple_of']}"
    low, high = row["range"]
    return f"{low}–{high}" + (f", {rule}" if rule else "")


def _default(row: Row) -> str:
    value = row["default"]
    if isinstance(value, bool):
        return str(value).lower()
    return _list(value) if isinstance(value, list) else str(value)


def _capabilities(spec: dict[str, Any]) -> list[str]:
    return _grid(
        ("capability", "kind", "values", "default", "unit", "modes", "meaning"),
        (
            (_code(c["name"]), c["kind"], _range(c), _default(c), c["unit"], _list(c["modes"]), c["text"])
            for c in spec["capability"]
        ),
    )


def _parameters(spec: dict[str, Any]) -> list[str]:
    rows = ((_code(p["name"]), _range(p), _default(p), p["unit"], p["text"]) for p in spec["parameter"])
    return _grid(("parameter", "values", "default", "unit", "meaning"), rows)


def _counters(spec: dict[str, Any]) -> list[str]:
    return _grid(("counter", "counts"), ((_code(c["name"]), c["text"]) for c in spec["counter"]))


def _drops(spec: dict[str, Any]) -> list[str]:
    rows = ((_code(d["name"]), d["layer"], d["text"]) for d in spec["drop"])
    return _grid(("reason", "layer", "when"), rows)


def _errors(spec: dict[str, Any]) -> list[str]:
    rows = ((_code(e["name"]), _code(e["parent"]) if e["parent"] else "", e["text"]) for e in spec["error"])
    return _grid(("error", "is a", "meaning"), rows)


_TABLES: Final[dict[str, Callable[[dict[str, Any]], list[str]]]] = {
    "constants": _constants,
    "opcodes": _opcodes,
    "syndromes": _syndromes,
    "naks": _codes("nak"),
    "primitives": _codes("primitive"),
    "operators": _codes("operator"),
    "datatypes": _datatypes,
    "capabilities": _capabilities,
    "parameters": _parameters,
    "counters": _counters,
    "drops": _drops,
    "errors": _errors,
}
