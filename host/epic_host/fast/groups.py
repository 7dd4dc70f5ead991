"""A group as an engine's kernels see it: a record of its rules, its edges, and where its payloads are kept."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fast.frames import EdgeTable
from epic_host.fast.pool import Pool
from epic_models.reference.group import Edge, EngineGroup, GroupParams
from epic_spec.tables import CONFLICT_RECORD_BYTES, Datatype, Operator

# `datatypes` and `operators` have a bit for each code. `first` is the first row of the mode's own records.
# Payload memory, at these addresses, has `rows` rows of so many bytes: `values` the accumulators, `parts` what children
# sent where it is kept apart (`ordered`; a row has one for each child), `outputs` partials and results as sent.
# `scratch` is one accumulator more.
GROUP: Final = np.dtype(
    [
        ("full", "u8"), ("values", "u8"), ("parts", "u8"), ("outputs", "u8"), ("scratch", "u8"), ("value_bytes", "i8"),
        ("part_bytes", "i8"), ("output_bytes", "i8"), ("first", "i8"), ("rows", "i8"), ("payload_bytes", "i4"),
        ("window", "i4"), ("fan_in", "i4"), ("parent", "i4"), ("first_child", "i4"), ("datatypes", "u4"),
        ("operators", "u4"), ("big", "u1"), ("wide", "u1"), ("record", "u1"), ("ordered", "u1"), ("guard", "u1"),
        ("live", "u1"),
    ]
)  # fmt: skip

# An edge to a child: its row of the edge table, and the ranks below it, sorted.
CHILD: Final = np.dtype([("edge", "i4"), ("ranks", "i4"), ("rank_count", "i4")])

_LINE: Final = 64
_HALVES: Final = {Datatype.FP16.name, Datatype.BF16.name}


def memory(size: int) -> tuple[NDArray[np.uint8], int]:
    """Bytes that begin at a multiple of 64, with their address. They are the system's until they are written."""
    block = np.empty(size + _LINE, np.uint8)
    return block, block.ctypes.data + -block.ctypes.data % _LINE


def output_bytes(params: GroupParams) -> int:
    """Bytes that a partial or result can have: FP16 and BF16 double where partials travel as FP32."""
    doubled = params.partial_format == "fp32" and _HALVES & set(params.datatypes)
    return max(params.payload_bytes * (2 if doubled else 1), CONFLICT_RECORD_BYTES)


class Installed:
    """One group of an engine: its rows in the engine's pools and its memory, until `free`."""

    def __init__(
        self,
        index: int,
        entry: EngineGroup,
        rows: int,
        edges: EdgeTable,
        children: Pool,
        ranks: Pool,
    ) -> None:
        self.index, self.entry, self.params = index, entry, entry.params
        self._edges, self._children, self._ranks = edges, children, ranks
        self.edge_rows = [edges.add(e, entry.params, index, i) for i, e in enumerate(entry.children)]
        self.parent = -1 if entry.parent is None else edges.add(entry.parent, entry.params, index, -1)
        self._fan_in = len(entry.children)
        self._first_child = children.take(self._fan_in)
        self._rank_rows = [self._place_ranks(edge) for edge in entry.children]
        for i, (row, (first, count)) in enumerate(zip(self.edge_rows, self._rank_rows, strict=True)):
            children.records[self._first_child + i] = (row, first, count)
        self._blocks: list[NDArray[np.uint8]] = []
        self.record = self._record(rows)

    def _place_ranks(self, edge: Edge) -> tuple[int, int]:
        below = sorted(set(edge.ranks))
        first = self._ranks.take(len(below))
        self._ranks.records[first : first + len(below)] = below
        return first, len(below)

    def _memory(self, size: int) -> int:
        block, address = memory(size)
        self._blocks.append(block)
        return address

    def _record(self, rows: int) -> Any:
        params, fan_in = self.params, self._fan_in
        record = np.zeros((), GROUP)
        outputs = output_bytes(params)
        # FP16 and BF16 are accumulated in FP32.
        values = params.payload_bytes * (2 if _HALVES & set(params.datatypes) else 1)
        record["values"], record["value_bytes"] = self._memory(rows * values), values
        record["scratch"] = self._memory(values)
        record["outputs"], record["output_bytes"] = self._memory(rows * outputs), outputs
        if params.ordered:
            record["parts"] = self._memory(rows * fan_in * params.payload_bytes)
        record["part_bytes"] = params.payload_bytes
        record["rows"], record["full"] = rows, (1 << fan_in) - 1
        record["fan_in"], record["parent"], record["first_child"] = fan_in, self.parent, self._first_child
        record["payload_bytes"], record["window"] = params.payload_bytes, params.window
        record["datatypes"] = sum(1 << Datatype[name] for name in set(params.datatypes))
        record["operators"] = sum(1 << Operator[name] for name in set(params.operators))
        record["big"], record["wide"] = params.byte_order == "big", params.partial_format == "fp32"
        record["record"], record["ordered"] = params.conflict_record, params.ordered
        record["guard"], record["live"] = params.window_guard, 1
        return record

    def free(self) -> None:
        """Give back everything but the record's row, which is the engine's."""
        for row in (*self.edge_rows, *([self.parent] if self.parent >= 0 else [])):
            self._edges.remove(row)
        self._children.give(self._first_child, self._fan_in)
        for first, count in self._rank_rows:
            self._ranks.give(first, count)
        self._blocks.clear()
