"""The window of an agent: `epic_models.reference.window`, compiled, on any record that has `FIELDS` (EPIC-H-08)."""

from __future__ import annotations

from typing import Any, Final

from epic_host.fast.compiled import Word, compiled

# Cells that may be outstanding, the most there may be, and the first cell on which a mark says something new.
FIELDS: Final = (("size", "f8"), ("limit", "f8"), ("recover", "i8"))


def reset(record: Any, limit: Word) -> None:
    """As it is at the beginning, all of `limit` cells open."""
    record["size"] = record["limit"] = limit
    record["recover"] = 0


@compiled
def delivered(r: Any, cell: Word, next_cell: Word, congested: bool) -> None:
    """The result of `cell` came, with or without CE; `next_cell` is the next that will be contributed."""
    if not congested:
        r.size = min(r.limit, r.size + 1.0 / r.size)
    elif cell >= r.recover:
        # One reaction a window: marks on cells sent before the reduction say nothing new.
        r.size = max(1.0, r.size / 2)
        r.recover = next_cell
