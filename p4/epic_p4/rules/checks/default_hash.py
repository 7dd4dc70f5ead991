"""A default action can't use the hash: a miss has no way to it.

An index that a field gives goes through the hash too (the identity).
"""

from __future__ import annotations

from collections.abc import Iterator

from epic_p4.rules.context import Context
from epic_p4.rules.effects import reads
from epic_p4.rules.finding import Finding
from epic_p4.rules.flow import Kind
from epic_p4.rules.text import text

NAME = "default-hash"
TITLE = "a default action uses neither a hash nor an index from a field"
SOURCE = "[p4c] mau/table_layout.cpp, DoTableLayout::preorder(Action); [tried]"


def check(context: Context) -> Iterator[Finding]:
    """Default actions of tables with a key, and tables without one that offer more than one action."""
    for unit in context.units():
        if unit.kind is not Kind.TABLE or unit.table is None:
            continue
        decl = unit.table.decl
        keyless = not decl.key
        default = decl.default_action
        for option in unit.alternatives:
            if option.decl is None or default is None:
                continue
            if not keyless and default.decl is not option.decl:
                continue
            # Without key and choice the compiler runs the action as if it had hit.
            if keyless and len(unit.alternatives) == 1 and not option.decl.data_params:
                continue
            for effect in option.effects:
                indexed = next(
                    (one for one in effect.uses if one.index and reads(one.index, one.scope)), None
                )
                what = "a hash" if effect.hashes else text(indexed.index) if indexed is not None else ""
                if not what:
                    continue
                advice = (
                    "a table without key has this action only"
                    if keyless
                    else "give the table a catch-all entry"
                )
                yield Finding(
                    NAME,
                    effect.pos,
                    f"default action {option.name} of {unit.name} uses {what}"
                    f"{'' if effect.hashes else ' as index'}, expected a constant or action data: {advice}",
                )
