"""The abstract machine: what a collective means on a tree, as a checker that follows a run (epic.md, section 3).

`contribute` and `deliver` are its two actions. A call whose guard does not hold, or whose value is not the one
the machine computes, raises `Violation` naming the property of P1 to P3 or P7 that is broken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from epic_models.reference import numerics
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT
from epic_spec.tables import Datatype, Operator, Primitive

_EXACT = {Datatype.INT8, Datatype.INT16, Datatype.INT32, Datatype.INT64}


class Violation(AssertionError):
    """A step that the abstract machine does not allow."""


@dataclass(slots=True)
class _AbstractCell:
    contributions: dict[int, Cell] = field(default_factory=dict)
    value: tuple[bool, bytes | None] | None = None


class AbstractMachine:
    """Sequence numbers, contributions and deliveries of one group, without network, slots or time."""

    def __init__(self, params: GroupParams) -> None:
        self._params = params
        self._world = params.world_size
        self._cells: dict[int, _AbstractCell] = {}
        self.contributed = [0] * self._world
        self.delivered = [0] * self._world

    def contribute(self, rank: int, cell: Cell) -> None:
        """Rank `rank` contributes its next cell. Guard: s < delivered + W."""
        number = self.contributed[rank]
        if number >= self.delivered[rank] + self._params.window:
            raise Violation(f"window: rank {rank} contributes {number}, delivered {self.delivered[rank]}")
        self.contributed[rank] += 1
        self._cells.setdefault(number, _AbstractCell()).contributions[rank] = cell

    def deliver(self, rank: int, number: int, imm: int, payload: bytes | None) -> None:
        """Rank `rank` receives the result of `number`: next in order (P2), contributed by all (P3), right (P1)."""
        cell = self._next(rank, number)
        err, expected = self._value(cell)
        if err:
            raise Violation(f"P7: rank {rank} got a result for cell {number}, about which the ranks disagree")
        receives = self._receives(rank, imm)
        if (payload is None) != (expected is None or not receives):
            raise Violation(
                f"P1: rank {rank} got {'NULL' if payload is None else 'a payload'} for cell {number}"
            )
        if payload is not None and expected is not None and not self._equal(imm, payload, expected):
            raise Violation(f"P1: rank {rank} got a wrong result for cell {number}")

    def fail(self, rank: int, number: int) -> None:
        """Rank `rank` receives an error for `number`: right only when the ranks disagree (P7)."""
        if not self._value(self._next(rank, number))[0]:
            raise Violation(f"P7: rank {rank} got an error for cell {number}, about which the ranks agree")

    def _next(self, rank: int, number: int) -> _AbstractCell:
        if number != self.delivered[rank]:
            raise Violation(f"P2: rank {rank} delivers {number}, expected {self.delivered[rank]}")
        cell = self._cells.get(number, _AbstractCell())
        missing = sorted(set(range(self._world)) - set(cell.contributions))
        if missing:
            raise Violation(f"P3: rank {rank} delivers {number} before ranks {missing} contributed")
        self.delivered[rank] += 1
        return cell

    def _receives(self, rank: int, imm: int) -> bool:
        return imm >> 14 & 3 != Primitive.REDUCE or imm >> 16 == rank

    def _value(self, cell: _AbstractCell) -> tuple[bool, bytes | None]:
        """(disagreement, reduction of one contribution of every rank)."""
        if cell.value is None:
            cells = list(cell.contributions.values())
            descriptors = {c.imm & AGREEMENT_MASK for c in cells}
            payloads = [cell.contributions[r].payload for r in sorted(cell.contributions)]
            present = [p for p in payloads if p is not None]
            err = len(descriptors) > 1 or len({len(p) for p in present}) > 1
            err |= any(c.imm & ERR_BIT for c in cells)
            cell.value = (True, None) if err else (False, self._reduce(cells[0].imm, present))
        return cell.value

    def _reduce(self, imm: int, payloads: list[bytes]) -> bytes | None:
        if not payloads:
            return None
        if imm >> 14 & 3 == Primitive.BROADCAST:
            combined = bytearray(payloads[0])
            for payload in payloads[1:]:
                numerics.or_into(combined, payload)
            return bytes(combined)
        datatype, order = Datatype(imm >> 8 & 15), self._params.byte_order
        total = numerics.load(payloads[0], datatype, order)
        for payload in payloads[1:]:
            numerics.reduce_into(total, numerics.load(payload, datatype, order), Operator(imm >> 12 & 3))
        return numerics.store(total, datatype, order)

    def _equal(self, imm: int, got: bytes, expected: bytes) -> bool:
        """Bitwise for integers; floating-point SUM depends on the tree's order of addition (EPIC-N-02)."""
        datatype, order = Datatype(imm >> 8 & 15), self._params.byte_order
        if datatype in _EXACT or imm >> 14 & 3 == Primitive.BROADCAST or got == expected:
            return got == expected
        if len(got) != len(expected):
            return False
        a = numerics.load(got, datatype, order).astype(np.float64)
        b = numerics.load(expected, datatype, order).astype(np.float64)
        epsilon = {Datatype.FP16: 1e-2, Datatype.BF16: 8e-2, Datatype.FP32: 1e-5, Datatype.FP64: 1e-12}[
            datatype
        ]
        scale = float(np.nanmax(np.abs(b), initial=1.0))
        return bool(np.allclose(a, b, rtol=epsilon, atol=epsilon * scale * self._world, equal_nan=True))
