"""What an `if` may compare."""

from __future__ import annotations

from collections.abc import Iterator

from epic_p4.rules.context import Context
from epic_p4.rules.finding import Finding
from epic_p4.rules.gateway import Row, need, rows
from epic_p4.rules.text import start

NAME = "gateway-width"
TITLE = "an `if` matches 4 bytes and 12 hash bits, and compares by order within the 12"
SOURCE = "[p4c] specs/device.cpp, GatewaySpec; mau/gateway.cpp"


def check(context: Context) -> Iterator[Finding]:
    """The conditions of all apply blocks."""
    limits = context.chip.gateway
    for unit in context.units():
        if unit.condition is None or unit.cases:
            continue
        seen: set[str] = set()
        for row in rows(unit.condition, unit.scope):
            finding = _flaw(row)
            if finding is None:
                asked = need(row, limits.bytes, limits.hash_bits)
                if asked.order_bits > limits.hash_bits:
                    first = next(term for term in row if term.order)
                    finding = Finding(
                        NAME,
                        first.pos,
                        f"condition compares {asked.order_bits} bits by order, expected at most {limits.hash_bits}: "
                        "match the value in a ternary or range table",
                    )
                elif asked.bytes > limits.bytes or asked.hash_bits > limits.hash_bits:
                    finding = Finding(
                        NAME,
                        start(unit.condition),
                        f"condition needs {asked.bytes} bytes and {asked.hash_bits} hash bits, expected at most "
                        f"{limits.bytes} bytes and {limits.hash_bits} bits: match the fields in a table",
                    )
            if finding is not None and finding.what not in seen:
                seen.add(finding.what)
                yield finding


def _flaw(row: Row) -> Finding | None:
    for term in row:
        if term.flaw:
            return Finding(
                NAME,
                term.pos,
                f"condition {term.flaw}, expected fields compared with constants, or fields for equality",
            )
    return None
