"""Where a group goes in the tables of an engine: the first place that is free, for each table by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from epic_models.reference.group import EngineGroup
from epic_spec.errors import ConfigError, ResourceError
from epic_testbed.rtl.parameters import Shape
from epic_testbed.rtl.tables import Placed, ends_of


def check(entry: EngineGroup, shape: Shape, placed: Collection[Placed]) -> None:
    """Refuse a group whose edges the engine can't have.

    Raises ConfigError for a number or QPN that is in use, ResourceError for a port or rank that the engine lacks.
    """
    number = entry.params.group
    if any(group.entry.params.group == number for group in placed):
        raise ConfigError(f"group {number}: already installed, expected a group number that is free")
    used = [edge.local.qpn for group in placed for edge in group.ends]
    for edge in ends_of(entry):
        if edge.local.qpn in used:
            raise ConfigError(f"group {number}: QPN {edge.local.qpn:#x} is in use, expected one that is free")
        used.append(edge.local.qpn)
        if not 0 <= edge.port < shape.ports:
            raise ResourceError(
                f"group {number}: edge {edge.name} is on port {edge.port}, this engine has {shape.ports}"
            )
        if edge.ranks and max(edge.ranks) >= shape.ranks:
            raise ResourceError(
                f"group {number}: rank {max(edge.ranks)} is below edge {edge.name}, this engine knows ranks up to"
                f" {shape.ranks - 1}"
            )


def place(
    entry: EngineGroup, shape: Shape, placed: Collection[Placed], *, slots: int, rows: int = 0
) -> Placed:
    """A place for a group of that many slots and multicast rows beside those that are placed.

    Raises ResourceError, which names what there is no room for.
    """
    number = entry.params.group
    index = _free(number, "groups", shape.groups, [(g.index, 1) for g in placed], 1)
    base = _free(number, "slots", shape.slots, [(g.slot_base, g.slots) for g in placed], slots)
    row = _free(number, "multicast rows", shape.rows, [(g.row_base, g.rows) for g in placed], rows)
    ends = len(ends_of(entry))
    taken = {edge for group in placed for edge in group.edges}
    free = [edge for edge in range(shape.edges) if edge not in taken]
    if len(free) < ends:
        raise ResourceError(f"group {number}: {ends} edges, this engine has room for {len(free)} more")
    return Placed(entry, index, base, free[:ends], slots=slots, row_base=row, rows=rows)


def _free(number: int, what: str, size: int, used: Iterable[tuple[int, int]], wanted: int) -> int:
    """First place for `wanted` entries behind each other."""
    place = 0
    for start, length in sorted(used):
        if start - place >= wanted:
            break
        place = start + length
    if place + wanted > size:
        raise ResourceError(f"group {number}: no room for {wanted} {what}, this engine has {size}")
    return place
