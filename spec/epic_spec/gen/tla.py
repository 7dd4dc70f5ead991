"""Generates `tla/EpicConstants.tla`: the codes and names of the protocol as TLA+ definitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from epic_spec.gen import CODE_FIELDS, NOTICE, code_of, counter_names


def generate(spec: dict[str, Any]) -> str:
    """The text of EpicConstants.tla. Text before the module's first line is a comment to the TLA+ tools."""
    parts = [
        f"\\* {NOTICE}",
        "---------------------------- MODULE EpicConstants ----------------------------",
        "(* Codes, limits and names of EPIC. Everything is a constant definition. *)",
        "",
    ]
    for name, row in spec["constants"].items():
        parts.append(f"{_camel(name)} == {row['value']}  \\* {row['text']}")
    parts.append("")
    for table in CODE_FIELDS:
        title = "NakCode" if table == "nak" else table.capitalize()
        parts.append(_record(title, {row["name"]: code_of(row) for row in spec[table]}))
        parts.append(f"{title}s == DOMAIN {title}\n")
    parts.append(_record("DatatypeBytes", {row["name"]: row["bytes"] for row in spec["datatype"]}) + "\n")
    ints = [*spec["capability"], *spec["parameter"]]
    parts.append(_record("Default", {r["name"]: r["default"] for r in ints if r["kind"] == "int"}))
    parts.append(_record("Least", {r["name"]: r["range"][0] for r in ints if r["kind"] == "int"}))
    parts.append(_record("Most", {r["name"]: r["range"][1] for r in ints if r["kind"] == "int"}) + "\n")
    for layer in ("wire", "engine"):
        names = [d["name"] for d in spec["drop"] if d["layer"] == layer]
        parts.append(_set(f"{layer.capitalize()}Drops", names))
    parts.append(_set("Counters", counter_names(spec)))
    parts.append(_set("Clauses", [c["id"] for c in spec.get("clause", [])]))
    return "\n".join([*parts, "=" * 78, ""])


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _record(name: str, values: dict[str, int]) -> str:
    rows = ",\n".join(f"    {key} |-> {value}" for key, value in values.items())
    return f"{name} == [\n{rows}]"


def _set(name: str, values: Iterable[str]) -> str:
    rows = ",\n".join(f'    "{value}"' for value in values)
    return f"{name} == {{\n{rows}}}\n" if rows else f"{name} == {{}}\n"
