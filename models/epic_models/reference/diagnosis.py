"""Who is missing: from the slot bitmaps of engines to the ranks and edges that hold a cell up (P8, EPIC-F-04)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from epic_models.reference.group import GroupPlan
from epic_models.reference.interfaces import GroupStatus
from epic_models.reference.tree import edge_name
from epic_spec import psn


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Missing ranks (ascending) and edges that do not answer (`child-parent`), and one line that says so."""

    ranks: tuple[int, ...]
    edges: tuple[str, ...]
    text: str


def diagnose(plan: GroupPlan, statuses: Mapping[str, GroupStatus | None], cell: int) -> Diagnosis:
    """Name who holds up `cell` (unbounded number). `statuses[engine]` is None for an engine that did not answer.

    Walks from the root down the children whose contribution an engine lacks: a rank is missing; an engine that
    does not answer is a lost edge; an engine that has completed the cell while its parent lacks it is a lossy
    edge. When every engine has the cell done, the result is lost on its way down.
    """
    ranks: list[int] = []
    edges: list[str] = []
    notes: list[str] = []

    def lose(engine: str, parent: str | None) -> None:
        edge = None if parent is None else edge_name(engine, parent)
        edges.append(edge or engine)
        notes.append(f"switch {engine} does not answer" + (f" (edge {edge})" if edge else ""))

    def visit(engine: str, parent: str | None) -> None:
        status = statuses.get(engine)
        if status is None:
            lose(engine, parent)
            return
        for edge in status.failed_edges:
            if edge not in edges:
                edges.append(edge)
                notes.append(f"edge {edge} is in error")
        children = plan.children[engine]
        bitmap = _contributed(status, cell, plan.params.window, len(children))
        for i, child in enumerate(children):
            if bitmap >> i & 1:
                continue
            if isinstance(child, int):
                ranks.append(child)
            else:
                before = len(ranks) + len(edges)
                visit(child, engine)
                if len(ranks) + len(edges) == before:
                    edges.append(edge_name(child, engine))
                    notes.append(f"edge {edge_name(child, engine)} loses what is sent")

    unreachable = [e for e in plan.engines if statuses.get(e) is None]
    visit(plan.root, None)
    # An engine can die after its contribution went up: the walk above then never meets it.
    for engine in unreachable:
        parent = next((p for p, kids in plan.children.items() if engine in kids), None)
        if (engine if parent is None else edge_name(engine, parent)) not in edges:
            lose(engine, parent)
    if ranks:
        words = "rank" if len(ranks) == 1 else "ranks"
        notes.insert(0, f"{words} {', '.join(map(str, sorted(ranks)))} did not contribute")
    if not notes:
        notes.append(
            "every rank has contributed and every switch answers: the result is late or lost on its way down"
        )
    return Diagnosis(tuple(sorted(ranks)), tuple(edges), f"cell {cell}: {'; '.join(notes)}")


def _contributed(status: GroupStatus, cell: int, window: int, fan_in: int) -> int:
    """Bitmap of the children whose contribution to `cell` an engine has seen.

    A cell W newer is contributed only by a rank that has the result of `cell` (EPIC-A-01), so where one is in a
    slot, every child has contributed `cell`, although its own slot may serve another cell by now.
    """
    if any(psn.diff(slot.cell, cell & psn.MASK) >= window for slot in status.slots):
        return (1 << fan_in) - 1
    return next((slot.bitmap for slot in status.slots if slot.cell == cell & psn.MASK), 0)
