"""Generators: each turns the data of epic.toml into the text of one file."""

from typing import Any

NOTICE = "Generated from spec/epic.toml by `epic spec gen`. Do not edit."


# Tables of codes, and the header field that holds them. A NAK code is the lower bits of a syndrome.
CODE_FIELDS = {
    "opcode": ("bth", "opcode"),
    "syndrome": ("aeth", "syndrome"),
    "nak": ("aeth", "syndrome"),
    "primitive": ("immdt", "primitive"),
    "operator": ("immdt", "operator"),
    "datatype": ("immdt", "datatype"),
}


def widths(spec: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Width in bits by (header, field)."""
    return {(h["name"], f["name"]): f["bits"] for h in spec["header"] for f in h["fields"]}


def code_of(row: dict[str, Any]) -> int:
    """The code of a row of a table of codes."""
    return int(row["code"] if "code" in row else row["value"])


def counter_names(spec: dict[str, Any]) -> list[str]:
    """Every counter, the drop counters included, in the order in which hardware numbers them."""
    return [c["name"] for c in spec["counter"]] + [f"drop_{d['name']}" for d in spec["drop"]]
