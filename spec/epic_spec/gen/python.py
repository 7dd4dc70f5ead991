"""Generates `epic_spec/tables.py`: codes as enums, fields, capabilities, counters, drop reasons, clauses."""

from __future__ import annotations

import pprint
from typing import Any

from epic_spec.gen import NOTICE

Row = dict[str, Any]


def _literal(value: object) -> str:
    """A Python literal that fits the line length."""
    return pprint.pformat(value, width=108, sort_dicts=False)


def _enum(name: str, doc: str, rows: list[Row], code: str = "code") -> str:
    lines = [f"class {name}(IntEnum):", f'    """{doc}"""', ""]
    lines += [f"    {row['name']} = {row[code]:#04x}" for row in rows]
    return "\n".join(lines) + "\n"


def _table(name: str, kind: str, comment: str, value: object) -> str:
    lines = [f"# {comment}"] if comment else []
    return "\n".join([*lines, f"{name}: dict[str, {kind}] = {_literal(value)}\n"])


def _by_name(rows: list[Row]) -> dict[str, Row]:
    return {row["name"]: {key: value for key, value in row.items() if key != "name"} for row in rows}


def generate(spec: dict[str, Any]) -> str:
    """The text of tables.py."""
    constants = "\n".join(
        f"{name.upper()} = {row['value']}  # {row['text']}" for name, row in spec["constants"].items()
    )
    headers = {h["name"]: tuple((f["name"], f["bits"]) for f in h["fields"]) for h in spec["header"]}
    extended = {o["name"]: tuple(o["extended"]) for o in spec["opcode"]}
    used = {o["name"]: tuple(o["modes"]) for o in spec["opcode"]}
    drops = {d["name"]: d["layer"] for d in spec["drop"]}
    parts = [
        f"# {NOTICE}",
        '"""The protocol\'s codes, fields, capabilities, counters and clauses."""\n',
        "# fmt: off",
        "# ruff: noqa: E501",
        "from __future__ import annotations\n",
        "from enum import IntEnum",
        "from typing import Any, NamedTuple\n",
        f"SPEC_VERSION = {spec['spec']['version']!r}\n",
        constants + "\n\n",
        _enum("Opcode", "BTH opcodes of the RC transport service that EPIC uses.", spec["opcode"]) + "\n",
        _enum("Syndrome", "Kinds of AETH syndrome: its upper three bits.", spec["syndrome"], "value") + "\n",
        _enum("NakCode", "Reasons of a NAK: the lower five bits of its syndrome.", spec["nak"]) + "\n",
        _enum("Primitive", "What a cell does.", spec["primitive"]) + "\n",
        _enum("Operator", "How contributions are combined.", spec["operator"]) + "\n",
        _enum("Datatype", "Element type of a payload.", spec["datatype"]) + "\n",
        f"SYNDROME_MASK = {spec['syndrome'][0]['mask']:#x}\n",
        _table(
            "HEADERS",
            "tuple[tuple[str, int], ...]",
            "Headers in wire order: (field, bits), most significant bit first.",
            headers,
        ),
        _table("EXTENDED", "tuple[str, ...]", "Extension headers behind the BTH, by opcode name.", extended),
        _table("OPCODE_MODES", "tuple[int, ...]", "Modes that use an opcode, by opcode name.", used),
        _table("DATATYPE_BYTES", "int", "", {d["name"]: d["bytes"] for d in spec["datatype"]}),
        _table("CAPABILITIES", "dict[str, Any]", "", _by_name(spec["capability"])),
        _table("PARAMETERS", "dict[str, Any]", "", _by_name(spec["parameter"])),
        _table("DROPS", "str", "Reasons for which a frame is dropped: the layer that finds it.", drops),
        _table("COUNTERS", "str", "Every counter, drop_<reason> included: what it counts.", counters(spec)),
        "",
        "class Clause(NamedTuple):",
        '    """A normative clause: its level, whom it binds, in which modes, under which capability, and its'
        ' sentence."""\n',
        "    level: str",
        "    subject: str",
        "    modes: tuple[int, ...]",
        "    capability: str",
        "    text: str\n\n",
        "CLAUSES: dict[str, Clause] = {",
    ]
    parts += [_clause(row) for row in spec.get("clause", [])]
    return "\n".join([*parts, "}"]) + "\n"


def _clause(row: Row) -> str:
    head = f"{row['level']!r}, {row['subject']!r}, {tuple(row['modes'])!r}, {row.get('capability', '')!r}"
    return f"    {row['id']!r}: Clause({head},\n        {row['text']!r}),"


def counters(spec: dict[str, Any]) -> dict[str, str]:
    """Every counter by name, the drop counters included, and what it counts."""
    rows = {c["name"]: c["text"] for c in spec["counter"]}
    return rows | {f"drop_{d['name']}": f"frames dropped: {d['text']}" for d in spec["drop"]}
