"""An action has one address for its registers and meters and one for its counters, and a table reaches a register
with one address from all its actions."""

from __future__ import annotations

from collections.abc import Iterator

from epic_p4 import ast
from epic_p4.rules.context import Context
from epic_p4.rules.effects import COUNTERS, Use
from epic_p4.rules.fields import resolve
from epic_p4.rules.finding import Finding
from epic_p4.rules.flow import Kind, Unit
from epic_p4.rules.text import text

NAME = "shared-index"
TITLE = "an action indexes its registers alike, and a table each register alike in all actions"
SOURCE = "[p4c] mau/instruction_selection.cpp: indirect externs are addressed by one expression in a table"


def check(context: Context) -> Iterator[Finding]:
    """Tables whose indirect externs have several indices where one is possible."""
    for unit in context.units():
        if unit.kind is not Kind.TABLE:
            continue
        seen: set[Use] = set()
        for known, use in _pairs(unit):
            if use in seen or _key(use) == _key(known):
                continue
            seen.add(use)
            yield Finding(
                NAME,
                use.pos,
                f"table {unit.name} indexes {use.object.name} by {text(use.index)} and {known.object.name} by "
                f"{text(known.index)}, expected one index",
            )


def _pairs(unit: Unit) -> Iterator[tuple[Use, Use]]:
    """Touches that must have the same index."""
    by_object: dict[ast.Instance, Use] = {}
    for option in unit.alternatives:
        in_action: dict[bool, Use] = {}
        for use in option.uses():
            if use.index is not None:
                yield in_action.setdefault(use.object.decl.name in COUNTERS, use), use
                yield by_object.setdefault(use.object, use), use


def _key(use: Use) -> str:
    assert use.index is not None
    place = resolve(use.index, use.scope)
    # Action data parameters of different actions are the same address as far as the table goes.
    if place is not None and place.data:
        return "action data"
    return f"{place.path}{place.bits}" if place is not None else text(use.index)
