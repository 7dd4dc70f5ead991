"""Recordings as the lines that tla/Trace1.tla, Trace2.tla and Trace3.tla read, and the constants of their groups.

What is the same in all modes is here: descriptors, calls, the tree. A mode says how a recorded step becomes lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from epic_models.reference.interfaces import CellDelivered, CellFailed
from epic_spec import psn
from epic_spec.packets import ERR_BIT, Descriptor
from epic_spec.tables import NO_RANK, Operator, Primitive
from epic_testbed.proofs.recording import Recording, Step
from epic_testbed.proofs.values import Fun, Value

FAILED = CellFailed.__name__
_RESULTS = (CellDelivered.__name__, FAILED)


def record(**fields: Value) -> Fun:
    """A TLA+ record."""
    return Fun(fields)


NO_DESCRIPTOR = record(prim="none", op="none", rank="none")


def descriptor(imm: int) -> Fun:
    """A descriptor as the specifications have it; what they leave out (datatype, tag) is in `more`."""
    d = Descriptor.unpack(imm)
    rank = "none" if d.rank == NO_RANK else f"r{d.rank}"
    return record(prim=d.primitive.name, op=d.operator.name, rank=rank, more=f"{d.datatype.name} {d.tag}")


def failures(step: Step) -> tuple[bool, ...]:
    """For each cell delivered in a step whether it failed."""
    return tuple(e["event"] == FAILED for e in step.line.get("events", ()) if e["event"] in _RESULTS)


class Behaviour(ABC):
    """A recording of one mode in the words of its trace specification."""

    MODE: int

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.where: list[str] = []
        self.lines: list[Fun] = []
        for step in recording.steps:
            for line in self._lines(step):
                self.lines.append(line)
                self.where.append(step.where)

    @property
    def module(self) -> str:
        """The trace specification."""
        return f"Trace{self.MODE}"

    @abstractmethod
    def _lines(self, step: Step) -> Iterator[Fun]:
        """The lines that a step of a node becomes, one a step of the specification."""

    def _length(self, length: int) -> int:
        """A payload's length as the specification counts it: in bytes."""
        return length

    def _check(self, cell: int, lengths: Iterable[int]) -> None:
        """Raises ConfigError for lengths of a cell that the specification cannot tell apart; here it can."""
        del cell, lengths

    def _content(self, imm: int, length: int) -> Fun:
        """What a contribution, partial or result carries. A poisoned cell's record is no payload."""
        err = bool(imm & ERR_BIT)
        return record(desc=descriptor(imm), err=err, len=0 if err else self._length(length))

    def constants(self) -> dict[str, Value]:
        """Constants of the specification by name, those of all modes; equal ones can be checked together."""
        recording = self.recording
        calls = self._calls()
        return {
            "Ranks": frozenset(recording.ranks),
            "Engines": frozenset(recording.engines),
            "W": recording.params.window,
            "M": psn.MODULUS,
            "Cells": max((len(c) for c in calls.values()), default=0),
            "Calls": Fun({rank: tuple(frozenset([call]) for call in row) for rank, row in calls.items()}),
        }

    def _calls(self) -> dict[str, list[Fun]]:
        """What each rank called for each cell, from what it contributed."""
        cells: dict[str, list[tuple[int, int]]] = {rank: [] for rank in self.recording.ranks}
        for step in self.recording.steps:
            if step.call == "submit":
                cells[step.node].append((step.line["imm"], step.line["length"]))
        longest = max(map(len, cells.values()), default=0)
        for s in range(longest):
            self._check(s, [row[s][1] for row in cells.values() if s < len(row)])
        # The length that a rank expects of a Broadcast to which it contributes NULL is that of the source.
        lengths = [
            max((row[s][1] for row in cells.values() if s < len(row)), default=0) for s in range(longest)
        ]
        return {
            rank: [
                _call(rank, imm, self._length(length), self._length(lengths[s]))
                for s, (imm, length) in enumerate(row)
            ]
            for rank, row in cells.items()
        }

    def _rank_state(self, step: Step) -> Mapping[str, Value]:
        """What a rank's line says of it afterwards."""
        return {"next": step.line["next"], "delivered": step.line["delivered"]}

    def is_rank(self, node: str) -> bool:
        """Whether a node is a rank."""
        return node in self.recording.ranks


def _call(rank: str, imm: int, length: int, common: int) -> Fun:
    """A call [desc, len, last, err] whose contribution is the recorded one."""
    d = Descriptor.unpack(imm)
    source = d.primitive is Primitive.BROADCAST and d.operator is not Operator.NONE
    # Zeros in place of NULL mark the last cell of a run (EPIC-D-08).
    zeros = source and length > 0 and f"r{d.rank}" != rank
    err = bool(imm & ERR_BIT)
    return record(desc=descriptor(imm), len=common if source and length == 0 else length, last=zeros, err=err)
