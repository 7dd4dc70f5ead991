"""Why a unit must wait for another (Jose et al., "Compiling Packet Programs to Reconfigurable Switches", 2015).

match      a field written by the first is matched on, indexes or feeds a stateful ALU: a later stage
action     a field written by the first is an operand of the second's action: a later stage
output     both write a field: a later stage
successor  the first decides whether the second runs: the same stage will do
reverse    the first reads what the second writes: the same stage will do
"""

from __future__ import annotations

import enum
from collections import defaultdict
from typing import NamedTuple

from epic_p4.rules.fields import Fields
from epic_p4.rules.flow import Flow, Unit


class Reason(enum.StrEnum):
    """The kind of a dependency, the strongest first."""

    MATCH = "match"
    ACTION = "action"
    OUTPUT = "output"
    SUCCESSOR = "successor"
    REVERSE = "reverse"

    @property
    def distance(self) -> int:
        """Stages between the two."""
        return 1 if self in (Reason.MATCH, Reason.ACTION, Reason.OUTPUT) else 0


class Dependency(NamedTuple):
    """`after` depends on `before`; `field` is one of the fields, empty for a successor."""

    before: Unit
    after: Unit
    reason: Reason
    field: str


def dependencies(flow: Flow) -> list[Dependency]:
    """For each pair of units on a common path, the strongest reason."""
    ahead = _ahead(flow)
    number = {unit: at for at, unit in enumerate(flow.units)}
    found: dict[tuple[int, int], Dependency] = {}

    def note(before: Unit, after: Unit, reason: Reason, field: str) -> None:
        pair = (number[before], number[after])
        known = found.get(pair)
        if known is None or _STRENGTH[reason] < _STRENGTH[known.reason]:
            found[pair] = Dependency(before, after, reason, field)

    inputs, operands, writes = (
        {unit: getattr(unit, name) for unit in flow.units} for name in ("inputs", "operands", "writes")
    )
    readers = _by_leaf(flow.units, {unit: inputs[unit] | operands[unit] for unit in flow.units})
    writers = _by_leaf(flow.units, writes)
    for leaf, writing in writers.items():
        for writer in writing:
            mask = writes[writer].masks[leaf]
            for reader in readers.get(leaf, ()):
                if reader is writer:
                    continue
                if mask & inputs[reader].masks.get(leaf, 0):
                    reason = Reason.MATCH
                elif mask & operands[reader].masks.get(leaf, 0):
                    reason = Reason.ACTION
                else:
                    continue
                if ahead[number[writer]] >> number[reader] & 1:
                    note(writer, reader, reason, leaf)
                if ahead[number[reader]] >> number[writer] & 1:
                    note(reader, writer, Reason.REVERSE, leaf)
            for other in writing:
                if (
                    other is not writer
                    and mask & writes[other].masks[leaf]
                    and ahead[number[writer]] >> number[other] & 1
                ):
                    note(writer, other, Reason.OUTPUT, leaf)
    for site in flow.sites:
        for control in site.controls:
            if control.unit is not site.unit:
                note(control.unit, site.unit, Reason.SUCCESSOR, "")
    return [found[pair] for pair in sorted(found)]


_STRENGTH = {reason: strength for strength, reason in enumerate(Reason)}


def _ahead(flow: Flow) -> list[int]:
    """For each unit the units that may run after it, as a bit mask."""
    number = {unit: at for at, unit in enumerate(flow.units)}
    reach = flow.reachable()
    ahead = [0] * len(flow.units)
    for site, mask in zip(flow.sites, reach, strict=True):
        units = 0
        while mask:
            low = mask & -mask
            units |= 1 << number[flow.sites[low.bit_length() - 1].unit]
            mask ^= low
        ahead[number[site.unit]] |= units
    return ahead


def _by_leaf(units: list[Unit], fields: dict[Unit, Fields]) -> dict[str, list[Unit]]:
    table: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        for leaf in fields[unit]:
            table[leaf].append(unit)
    return table
