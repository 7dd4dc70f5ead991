"""A run of cells in users' memory: what a runtime gives a fast agent instead of cells."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from epic_spec.packets import NULL_BIT


class WordCoding(Protocol):
    """How elements are words of a payload: what `fixed.quantize` and `fixed.dequantize` take at `address`.

    An element is `item` bytes in arrays and `wire` bytes of a payload.
    """

    address: int
    item: int
    wire: int


class Block(NamedTuple):
    """`cells` consecutive cells with one descriptor, from `source` and to `sink`.

    All cells have `cell_bytes` of payload but the last, which has `last_bytes` (both in bytes, at least 1). Cell i is
    at i x `cell_bytes` in source and sink. `imm` is the descriptor as sent: it has NULL exactly when `source` is 0.
    `swap` and `sink_swap` are the element sizes whose bytes are reversed on the way out and in (2, 4 or 8), or 1 for
    none; cells are whole elements of these sizes.
    With `expect` every result must have its cell's length, and goes to `sink` (nowhere when `sink` is 0); without it
    every result must be NULL. A result that is not so reaches the submitter as an event with its payload.

    With a `coding` source and sink are elements as the caller has them, one behind the other, the first of them number
    `element` of the data; cells are whole elements, as words, and nothing else is swapped.
    `streams` says that the sink is too large for a cache to keep.

    It is checked when it is submitted. Addresses are the submitter's to keep valid: the source until `submit_block`
    returns, the sink and the coding until every cell is delivered or the agent was told to `forget`.
    """

    imm: int
    cells: int
    cell_bytes: int
    last_bytes: int
    source: int = 0
    swap: int = 1
    sink: int = 0
    sink_swap: int = 1
    expect: bool = False
    coding: WordCoding | None = None
    element: int = 0
    streams: bool = False

    def check(self) -> None:
        """Refuse a block that makes no sense. Raises ValueError. `landing.makes_sense` is the same in a kernel."""
        if self.cells < 1 or self.cell_bytes < 1 or not 1 <= self.last_bytes <= self.cell_bytes:
            raise ValueError(
                f"block of {self.cells} cells of {self.cell_bytes} bytes, the last of {self.last_bytes}: "
                "expected a cell or more, each of a byte or more, the last no longer than the others"
            )
        if (self.source == 0) != bool(self.imm & NULL_BIT):
            raise ValueError(
                f"block with source {self.source:#x} and descriptor {self.imm:#010x}, "
                "expected NULL exactly without a source"
            )
        for name, size in (("swap", self.swap), ("sink_swap", self.sink_swap)):
            if size not in (1, 2, 4, 8) or self.cell_bytes % size or self.last_bytes % size:
                raise ValueError(
                    f"block: {name} = {size}, expected 1, 2, 4 or 8, dividing each cell's length"
                )
        if self.sink and not self.expect:
            raise ValueError("block with a sink, expected `expect` with it")
        if self.coding is None:
            return
        if self.swap != 1 or self.sink_swap != 1 or self.element < 0:
            raise ValueError(
                f"block with a coding: swap = {self.swap}, sink_swap = {self.sink_swap}, element = {self.element}, "
                "expected 1, 1 and 0 or more"
            )
        if self.cell_bytes % self.coding.wire or self.last_bytes % self.coding.wire:
            raise ValueError(
                f"block with cells of {self.cell_bytes} bytes, the last of {self.last_bytes}, "
                f"expected whole elements of {self.coding.wire} bytes"
            )

    def bytes_of(self, cells: int) -> int:
        """Bytes of payload of its first `cells` cells."""
        return cells * self.cell_bytes - (self.cell_bytes - self.last_bytes if cells == self.cells else 0)

    def part(self, first: int, count: int) -> Block:
        """Cells `first` to `first + count` as a block of their own. Raises ValueError when it has not so many."""
        if first < 0 or count < 1 or first + count > self.cells:
            raise ValueError(f"cells {first} to {first + count} of a block of {self.cells}")
        moved, element = first * self.cell_bytes, 0
        if self.coding is not None:
            elements = moved // self.coding.wire
            moved, element = elements * self.coding.item, self.element + elements
        return Block(
            self.imm,
            count,
            self.cell_bytes,
            self.last_bytes if first + count == self.cells else self.cell_bytes,
            self.source + moved if self.source else 0,
            self.swap,
            self.sink + moved if self.sink else 0,
            self.sink_swap,
            self.expect,
            self.coding,
            element,
            self.streams,
        )
