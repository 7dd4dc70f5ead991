"""An operation's cells as blocks of memory, and the results of blocks back to the operation.

Where elements travel as they are, blocks are the caller's own arrays: nothing is copied here. So they are in fixed
point, where the agent quantizes elements on the way. Other codings are encoded ahead, some cells at a time, and their
results land in memory of their own, from which they are decoded in order.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fast.blocks import Block
from epic_host.fast.fixed import Fixed
from epic_models.reference.coding import Buffers, Coding, Exponents, Quantized, Specials
from epic_models.reference.interfaces import Cell
from epic_models.reference.operation import Operation, Part, Run

# What is encoded at once: more is faster, up to what second-level caches hold.
_STAGE_BYTES: Final = 128 << 10
_STAGE_CELLS: Final = 64
# Arrays from here on are written past the cache: second-level caches have 1 or 2 MiB, where the agent's store is too.
_LARGE_BYTES: Final = 1 << 20
# A NULL cell's memory: none is read or written.
_NOTHING: Final = 1


class _Landing:
    """Cells contributed together whose results are not all here; those land in `memory`, None: in their arrays.

    `special`: they are of a SUM with infinities, and elements from `at` up to `stop` of the data.
    """

    __slots__ = ("at", "cells", "each", "memory", "special", "stop")

    def __init__(
        self,
        cells: int,
        memory: NDArray[np.uint8] | None = None,
        each: int = 0,
        special: Fixed | None = None,
        start: int = 0,
        stop: int = 0,
    ) -> None:
        self.cells = cells
        self.memory = memory
        self.each = each
        self.special = special
        self.at = start
        self.stop = stop


class Outlet:
    """The way of one operation into a fast agent and back; `byte_order` is the group's."""

    def __init__(self, operation: Operation, byte_order: str) -> None:
        self._operation = operation
        self._swapped = byte_order != sys.byteorder
        self._landings: deque[_Landing] = deque()
        # Of the run that cells are taken from: whether payloads are the elements of arrays, where those begin (element
        # 0 of the data; 0: none), and the size of elements that the agent swaps.
        self._run: Run | None = None
        self._direct = False
        self._send = self._recv = 0
        self._swap = 1
        # A fixed-point SUM, and whether the agent itself quantizes the run's elements, of so many bytes in arrays.
        self._fixed: Fixed | None = None
        self._coding: Fixed | None = None
        self._item = 1
        self._streams = False
        # What is encoded: elements from `_staged` on.
        self._stage: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._staged = self._staged_stop = 0

    # ------------------------------------------------------------------------------------------ out

    def next(self, limit: int) -> Block | None:
        """The next cells, at most `limit`, or None as `Operation.take`.

        What its source address points to stays as it is until the next call.
        """
        part = self._operation.take(limit)
        if part is None:
            return None
        block, landing = self._block(part)
        self._await(landing)
        return block

    def ahead(self) -> Block | None:
        """The cells of the operation that come next, where all of them are the caller's own memory; else None.

        They are contributed elsewhere; `advance` says how many were.
        """
        part = self._operation.ahead()
        if part is None or part.run.coding is None:
            return None
        run = part.run
        if run is not self._run:
            self._enter(run, part.run.coding)
        if not self._direct or (run.identity and not run.sends):
            return None
        return self._block(part)[0]

    def advance(self, cells: int) -> None:
        """So many cells of `ahead` have been contributed."""
        part = self._operation.take(cells) if cells else None
        if part is not None:
            assert part.cells == cells
            self._await(self._block(part)[1])

    def _block(self, part: Part) -> tuple[Block, _Landing]:
        """A part as a block, and what is to be done with its results."""
        run, start, _, cells = part
        coding = run.coding
        if coding is None:
            return Block(part.imm, cells, _NOTHING, _NOTHING), _Landing(cells)
        if run is not self._run:
            self._enter(run, coding)
        size = coding.element_bytes
        length = part.length
        # A block's cells are as long as its first; a shorter one is alone or the last.
        each = length if cells == 1 else coding.cell_elements * size
        last = length - (cells - 1) * each
        source, swap = self._send + start * self._item, self._swap
        if not (self._direct and run.sends):
            source, swap = self._source(part, coding)
        sink, landing = 0, _Landing(cells)
        if run.receives:
            if not self._direct:
                memory = np.empty(length, np.uint8)
                sink = _address(memory)
                landing = _Landing(cells, memory, each)
            elif self._recv:
                sink = self._recv + start * self._item
                if self._coding is not None and self._coding.shared.classes.size:
                    landing = _Landing(cells, None, coding.cell_elements, self._coding, start, part.stop)
        block = Block(
            part.imm, cells, each, last, source, swap, sink, self._swap if sink else 1, run.receives,
            self._coding, start, self._streams,
        )  # fmt: skip
        return block, landing

    def pull(self) -> Cell | None:
        """The next cell, or None as `Operation.pull`; its result is `deliver`ed."""
        cell = self._operation.pull()
        if cell is not None:
            self._await(_Landing(1))
        return cell

    def _enter(self, run: Run, coding: Coding) -> None:
        self._run = run
        self._staged = self._staged_stop = 0
        arrays, self._item = coding.arrays, coding.element_bytes
        self._send = self._recv = 0
        self._swap, self._coding = 1, None
        if isinstance(coding, Exponents | Specials | Quantized):
            if self._fixed is None:
                # The first stage's cells may have less than a word more.
                most = (coding.cell_elements + 1) * coding.element_bytes
                self._fixed = Fixed(coding.shared, self._swapped, most // (4 * coding.shared.fixed.words))
            if isinstance(coding, Quantized):
                arrays, self._coding, self._item = coding.shared.buffers, self._fixed, self._fixed.item
        elif arrays is not None and self._swapped:
            self._swap = self._item
        self._direct = arrays is not None
        if arrays is not None:
            self._send, self._recv = _bases(arrays, self._item)
            self._streams = arrays.recv is not None and arrays.recv.nbytes >= _LARGE_BYTES

    def _source(self, part: Part, coding: Coding) -> tuple[int, int]:
        """Where payloads are that are not the caller's elements, and 1: there is nothing to swap. (0, 1): NULL."""
        if part.zeros:
            self._stage = np.zeros(part.length, np.uint8)
            self._staged_stop = 0
            return _address(self._stage), 1
        if not part.run.sends:
            return 0, 1
        if part.start < self._staged or part.stop > self._staged_stop:
            self._encode(part, coding)
        return _address(self._stage) + (part.start - self._staged) * coding.element_bytes, 1

    def _encode(self, part: Part, coding: Coding) -> None:
        """Encode the part and some cells after it: what a window lets through at once is often little."""
        ahead = _STAGE_BYTES // (coding.cell_elements * coding.element_bytes)
        cells = max(part.cells, min(_STAGE_CELLS, ahead))
        self._staged = part.start
        self._staged_stop = min(part.run.stop, part.start + cells * coding.cell_elements)
        start, stop = self._staged, self._staged_stop
        if isinstance(coding, Exponents) and self._fixed is not None:
            self._stage = self._fixed.exponents(coding, start, stop)
        elif isinstance(coding, Specials) and self._fixed is not None:
            self._stage = self._fixed.specials(start, stop)
        else:
            self._stage = np.frombuffer(coding.encode(start, stop), np.uint8)

    # ------------------------------------------------------------------------------------------ back

    def _await(self, landing: _Landing) -> None:
        landings = self._landings
        if landings and _plain(landing) and _plain(landings[-1]):
            landings[-1].cells += landing.cells
        else:
            landings.append(landing)

    def landed(self, cells: int) -> None:
        """The next `cells` results are where their blocks said, as expected.

        Raises MismatchError where they say that the ranks disagree.
        """
        while cells:
            landing = self._landings[0]
            some = min(cells, landing.cells)
            payloads, end = None, landing.at + some * landing.each
            if landing.memory is not None:
                payloads = landing.memory[landing.at : end].data
            elif landing.special is not None:
                landing.special.put_specials(landing.at, min(end, landing.stop))
            self._pass(landing, some)
            self._operation.accept(some, payloads)
            cells -= some

    def deliver(self, payload: bytes | None) -> None:
        """The next result is this one, which has not landed. Raises MismatchError as `Operation.deliver`."""
        self._pass(self._landings[0], 1)
        self._operation.deliver(payload)

    def _pass(self, landing: _Landing, cells: int) -> None:
        landing.cells -= cells
        landing.at += cells * landing.each
        if not landing.cells:
            self._landings.popleft()


def _plain(landing: _Landing) -> bool:
    """Whether nothing is to be done with results when they are here."""
    return landing.memory is None and landing.special is None


def _bases(arrays: Buffers, size: int) -> tuple[int, int]:
    """Where element 0 of the data would be in `send` and in `recv`; 0 for one that is not there.

    An array without elements has no cells, and may have any address.
    """
    send = 0 if arrays.send is None else _address(arrays.send) - arrays.send_base * size
    if arrays.recv is arrays.send and arrays.recv_base == arrays.send_base:
        return send, send
    recv = 0 if arrays.recv is None else _address(arrays.recv) - arrays.recv_base * size
    return send, recv


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
