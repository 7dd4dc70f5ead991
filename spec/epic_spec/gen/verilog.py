"""Generates `rtl/src/epic_pkg.vh`: localparams for Verilog-2005, to be included inside a module.

Verilog-2005 has no packages and no localparams outside modules, so each module includes the file in its own
body; an include guard would leave every module after the first without them.
"""

from __future__ import annotations

from typing import Any

from epic_spec.gen import CODE_FIELDS, NOTICE, code_of, counter_names, widths


def generate(spec: dict[str, Any]) -> str:
    """The text of epic_pkg.vh."""
    lines = [
        f"// {NOTICE}",
        "// Codes and header layout of EPIC. `include this inside a module (Verilog-2005 has no packages).",
        "// A header as a vector of <HEADER>_BITS has its first bit on the wire as its most significant bit:",
        "// a field is header[<HEADER>_<FIELD>_LSB +: <HEADER>_<FIELD>_WIDTH].",
        "// <HEADER>_BYTE is where the header starts in a frame.",
        "",
        "/* verilator lint_off UNUSEDPARAM */",
        "",
    ]
    lines += [_param(name, 32, row["value"], row["text"]) for name, row in spec["constants"].items()]
    width = widths(spec)
    for table, field in CODE_FIELDS.items():
        lines.append("")
        lines += [
            _param(f"{table}_{row['name']}", width[field], code_of(row), row.get("text", ""))
            for row in spec[table]
        ]
    mask = spec["syndrome"][0]["mask"]
    lines.append(_param("syndrome_mask", width["aeth", "syndrome"], mask, "bits that tell the kind"))
    lines += ["", "// log2 of the bytes of an element."]
    lines += [
        _param(f"datatype_{d['name']}_log2", 2, d["bytes"].bit_length() - 1, "") for d in spec["datatype"]
    ]
    lines += ["", "// Indices for counters, in the order of epic.toml."]
    names = counter_names(spec)
    lines += [_param(f"counter_{name}", 8, index, "") for index, name in enumerate(names)]
    lines.append(_param("counters", 8, len(names), "how many there are"))
    at = 0
    for header in spec["header"]:
        bits = sum(field["bits"] for field in header["fields"])
        start = at
        if header["name"] not in ("aeth", "immdt"):
            at += bits // 8
        lines += ["", *_header(header, bits, start)]
    return "\n".join([*lines, "", "/* verilator lint_on UNUSEDPARAM */", ""])


def _param(name: str, bits: int, value: int, text: str) -> str:
    digits = -(-bits // 4)
    comment = f"  // {text}" if text else ""
    return f"localparam [{bits - 1}:0] {name.upper()} = {bits}'h{value:0{digits}x};{comment}"


def _header(header: dict[str, Any], bits: int, start: int) -> list[str]:
    name = header["name"].upper()
    lines = [
        f"// {header['text']}",
        f"localparam integer {name}_BYTE = {start};",
        f"localparam integer {name}_BITS = {bits};",
    ]
    left = bits
    for field in header["fields"]:
        left -= field["bits"]
        prefix = f"{name}_{field['name'].upper()}"
        lines.append(f"localparam integer {prefix}_LSB = {left};  // {field['text']}")
        lines.append(f"localparam integer {prefix}_WIDTH = {field['bits']};")
    return lines
