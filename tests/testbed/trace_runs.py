"""Recordings for the tests of trace validation: small groups on faulty networks in memory, and ways to falsify them."""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epic_models.reference.faults import FaultRates
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell, CellDelivered, CellFailed
from epic_models.reference.network import Network
from epic_models.reference.recorder import Recorder
from epic_models.reference.tree import Tree, build_group
from epic_spec.packets import ERR_BIT, NULL_BIT, Descriptor
from epic_spec.tables import NO_RANK, Operator, Primitive

Line = dict[str, Any]
SECONDS = 20.0

SINGLE = Tree("s", {"s": (0, 1, 2)})
TWO_LEVELS = Tree("s", {"s": ("a", 2), "a": (0, 1)})
THREE_LEVELS = Tree("s", {"s": ("a",), "a": (3, "b"), "b": (0, 1, 2)})
FAULTS = FaultRates(loss=0.1, duplicate=0.1, reorder=0.1, corrupt=0.02)

# Cells by name: primitive, operator, rank field, who gives a payload ("all", "source", "zeros", "none").
_CELLS = {
    "sum": (Primitive.ALLREDUCE, Operator.SUM, NO_RANK, "all"),
    "max": (Primitive.ALLREDUCE, Operator.MAX, NO_RANK, "all"),
    "reduce": (Primitive.REDUCE, Operator.SUM, 1, "all"),
    "broadcast": (Primitive.BROADCAST, Operator.SUM, 0, "source"),
    "broadcast end": (Primitive.BROADCAST, Operator.SUM, 0, "zeros"),
    "barrier": (Primitive.ALLREDUCE, Operator.NONE, NO_RANK, "none"),
}
PROGRAM = ("sum", "sum", "reduce", "broadcast", "broadcast end", "barrier", "max", "sum")


@dataclass(frozen=True)
class Scenario:
    """A group, what its ranks contribute, and a faulty network. `odd`: rank 1 differs in a cell by name of the way."""

    mode: int
    tree: Tree = TWO_LEVELS
    window: int = 2
    program: tuple[str, ...] = PROGRAM
    elements: int = 16
    faults: FaultRates = FAULTS
    odd: dict[int, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    killed: int | None = None  # a rank that stops after a while

    def params(self) -> GroupParams:
        values: dict[str, Any] = {
            "window": self.window, "slots": 2 * self.window, "payload_bytes": 64, "message_bytes": 128,
            "message_buffers": self.window, "rto_initial_us": 1000, "rto_min_us": 200, "rto_max_us": 5000,
            "retry_limit": 100, "deadline_us": 100_000_000,
        }  # fmt: skip
        world_size = len(self.tree.ranks_below(self.tree.root))
        return GroupParams(group=1, mode=self.mode, world_size=world_size, **(values | self.options))

    def cell(self, rank: int, number: int) -> Cell:
        """What a rank contributes."""
        primitive, operator, field_, giving = _CELLS[self.program[number]]
        elements, err = self.elements, False
        if rank == 1 and number in self.odd:
            match self.odd[number]:
                case "operator":
                    operator = Operator.MIN
                case "length":
                    elements -= 1
                case "half":
                    elements //= 2
                case "gives up":
                    err = True
        imm = Descriptor(primitive, operator, rank=field_, tag=number % 64).pack()
        if err:
            return Cell(imm | ERR_BIT | NULL_BIT, None)
        if giving == "all" or (giving in ("source", "zeros") and rank == field_):
            return Cell(imm, struct.pack(f">{elements}i", *range(rank, rank + elements)))
        if giving == "zeros":
            return Cell(imm, bytes(4 * elements))
        return Cell(imm | NULL_BIT, None)

    def record(self, seed: int, *, to_its_end: bool = True) -> list[str]:
        """The lines of a run. PSN bases are the same in all runs of a scenario, faults and delays those of `seed`.

        A run of broken code need not come `to_its_end`: then the lines until it fails or time is up.
        """
        params, lines = self.params(), list[str]()
        plan = build_group(self.tree, params, seed=5)
        network = Network(
            [plan], self.faults, seed=seed, record=Recorder(lines.append, itertools.count().__next__)
        )
        next_cell = [0] * params.world_size

        def delivered(rank: int) -> int:
            events = network.events[1, rank]
            return sum(isinstance(e, (CellDelivered, CellFailed)) for e in events)

        def done() -> bool:
            for rank in range(params.world_size):
                while next_cell[rank] < len(self.program) and network.agents[1, rank].room():
                    network.submit(1, rank, [self.cell(rank, next_cell[rank])])
                    next_cell[rank] += 1
            return all(delivered(rank) == len(self.program) for rank in range(params.world_size))

        if self.killed is not None:
            network.run(2e-4, done)
            network.kill(self.killed)
        if to_its_end:
            assert network.run(SECONDS, done), "the run did not end"
        else:
            with contextlib.suppress(AssertionError):
                network.run(0.2, done)
        return lines


def write(path: Path, lines: Sequence[str] | Sequence[Line]) -> Path:
    """A recording as a file."""
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


# ------------------------------------------------------------------------------------------------ falsifications


def loaded(lines: Sequence[str]) -> list[Line]:
    return [json.loads(line) for line in lines]


def _first(lines: Sequence[Line], wanted: Any, after: int = 0) -> int:
    return next(i for i, line in enumerate(lines) if i >= after and wanted(line))


def counts(line: Line) -> bool:
    """Whether an engine counted a contribution in this line."""
    return line["call"] == "receive" and bool(line.get("slots"))


def delivers(line: Line) -> bool:
    """Whether a rank delivered in this line."""
    return any(e["event"] == "CellDelivered" for e in line.get("events", ()))


def bitmap_changed(lines: list[Line]) -> list[Line]:
    """An engine says that it has another child's contribution."""
    i = _first(lines, lambda x: counts(x) and x["slots"][0][1] in (1, 2))
    lines[i]["slots"][0][1] ^= 3
    return lines


def psn_changed(lines: list[Line]) -> list[Line]:
    """An engine receives a contribution with a PSN that nobody has used yet."""
    i = _first(lines, counts)
    lines[i]["packet"]["psn"] = (lines[i]["packet"]["psn"] + 5) % (1 << 24)
    return lines


def send_missing(lines: list[Line]) -> list[Line]:
    """A result is not sent to one of the children."""
    i = _first(lines, lambda x: x["call"] == "receive" and "slots" in x and len(x.get("sends", ())) >= 2)
    lines[i]["sends"].pop()
    return lines


def result_failed(lines: list[Line]) -> list[Line]:
    """A rank says that a cell failed whose result was good."""
    event = lines[_first(lines, delivers)]["events"][0]
    event["event"] = "CellFailed"
    return lines


def delivered_early(lines: list[Line]) -> list[Line]:
    """A rank says that it has delivered one cell more than it has."""
    lines[_first(lines, delivers)]["delivered"] += 1
    return lines


def contribution_dropped(lines: list[Line]) -> list[Line]:
    """The line in which an engine counted a contribution is missing."""
    del lines[_first(lines, counts)]
    return lines


def delivery_dropped(lines: list[Line]) -> list[Line]:
    """The line in which a rank delivered is missing."""
    del lines[_first(lines, delivers)]
    return lines


def submit_after_receive(lines: list[Line]) -> list[Line]:
    """An engine counts a contribution before the rank has given it: the two lines are swapped."""
    i = _first(lines, lambda x: x["call"] == "submit")
    edge, psn = lines[i]["sends"][0]["edge"], lines[i]["sends"][0]["psn"]
    j = _first(lines, lambda x: x["call"] == "receive" and x["edge"] == edge and x["packet"]["psn"] == psn, i)
    return _swapped(lines, i, j)


def delivery_before_sending(lines: list[Line]) -> list[Line]:
    """A rank delivers a result before its engine has sent it: the two lines are swapped."""
    j = _first(lines, delivers)
    edge, psn = lines[j]["edge"], lines[j]["packet"]["psn"]
    i = _first(lines, lambda x: any((p["edge"], p["psn"]) == (edge, psn) for p in x.get("sends", ())))
    return _swapped(lines, i, j)


def _swapped(lines: list[Line], i: int, j: int) -> list[Line]:
    lines[i]["t"], lines[j]["t"] = lines[j]["t"], lines[i]["t"]
    lines[i], lines[j] = lines[j], lines[i]
    return lines


CHANGED = (bitmap_changed, psn_changed, send_missing, result_failed, delivered_early)
DROPPED = (contribution_dropped, delivery_dropped)
SWAPPED = (submit_after_receive, delivery_before_sending)
FALSIFICATIONS = CHANGED + DROPPED + SWAPPED
