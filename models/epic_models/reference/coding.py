"""How the elements of a user's arrays become payloads of cells, and results become elements again.

A *coding* is pull-based: it encodes and decodes a range of elements at a time, a cell's or that of a few, so no array
is ever copied into cells as a whole. `Native` sends elements as they are; the others carry them as INT32 words for
engines that compute nothing else (see fixedpoint.py for the arithmetic).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epic_models.reference import fixedpoint, numerics
from epic_models.reference.fixedpoint import BLOCK, FixedPoint, Int32Array
from epic_models.reference.group import GroupParams
from epic_models.reference.numerics import Array, Buffer
from epic_spec.errors import MismatchError
from epic_spec.tables import Datatype, Operator


class Coding(Protocol):
    """One way to send elements. Ranges count elements from the start of the collective's data, and may be of any
    length: the payloads of neighbouring cells, one after the other, are the payload of their elements.
    """

    cell_elements: int
    element_bytes: int

    @property
    def arrays(self) -> Buffers | None:
        """The arrays, where payloads are their elements as they lie there but for the order of bytes; else None.

        Whoever contributes and receives in `arrays` itself needs neither `encode` nor `decode`.
        """

    def encode(self, start: int, stop: int) -> bytes:
        """The payload of this rank's elements."""

    def decode(self, payload: Buffer, start: int, stop: int) -> None:
        """Take the result of a range; `payload` has the right length."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """This rank's flat arrays; element 0 of `send` is element `send_base` of the collective's data."""

    send: Array | None
    recv: Array | None
    send_base: int = 0
    recv_base: int = 0

    def source(self, start: int, stop: int) -> Array:
        """The elements to send (a view)."""
        assert self.send is not None
        view: Array = self.send[start - self.send_base : stop - self.send_base]
        return view

    def target(self, start: int, stop: int) -> Array | None:
        """Where results go (a view), None when this rank does not keep them."""
        if self.recv is None:
            return None
        view: Array = self.recv[start - self.recv_base : stop - self.recv_base]
        return view


class Native:
    """Elements as they are. `complement` inverts every bit, which turns an integer MAX into MIN and back.

    `partial_bytes` is the size of an element in a partial, where that is larger (`partial_format = fp32`).
    """

    def __init__(
        self,
        buffers: Buffers,
        datatype: Datatype,
        params: GroupParams,
        *,
        partial_bytes: int = 0,
        complement: bool = False,
    ) -> None:
        self._buffers = buffers
        self._datatype = datatype
        self._order = params.byte_order
        self._complement = complement
        self.element_bytes = numerics.element_bytes(datatype)
        self.cell_elements = params.cell_bytes // max(self.element_bytes, partial_bytes)

    @property
    def arrays(self) -> Buffers | None:
        return None if self._complement else self._buffers

    def encode(self, start: int, stop: int) -> bytes:
        values = self._buffers.source(start, stop)
        return numerics.to_wire(~values if self._complement else values, self._datatype, self._order)

    def decode(self, payload: Buffer, start: int, stop: int) -> None:
        target = self._buffers.target(start, stop)
        if target is not None:
            numerics.from_wire(payload, self._datatype, self._order, target)
            if self._complement:
                np.invert(target, out=target)


class _Words(ABC):
    """Elements as `words` INT32 words each, side by side."""

    def __init__(self, words: int, params: GroupParams) -> None:
        self._words = words
        self._order = params.byte_order
        self.element_bytes = 4 * words
        self.cell_elements = params.cell_bytes // self.element_bytes

    @property
    def arrays(self) -> Buffers | None:
        return None

    def encode(self, start: int, stop: int) -> bytes:
        words = np.ascontiguousarray(self.words(start, stop))
        return numerics.to_wire(words, Datatype.INT32, self._order)

    def decode(self, payload: Buffer, start: int, stop: int) -> None:
        words = np.empty((stop - start, self._words), np.int32)
        numerics.from_wire(payload, Datatype.INT32, self._order, words)
        self.accept(words, start, stop)

    @abstractmethod
    def words(self, start: int, stop: int) -> Int32Array:
        """The words of this rank's elements; reshaped to (elements, words) they are sent in that order."""

    @abstractmethod
    def accept(self, words: Int32Array, start: int, stop: int) -> None:
        """Take combined words, shape (elements, words)."""


class Keys(_Words):
    """INT8, INT16 and floats as order-preserving INT32; `complement` as in `Native`."""

    def __init__(
        self,
        buffers: Buffers,
        datatype: Datatype,
        operator: Operator,
        params: GroupParams,
        *,
        complement: bool,
    ) -> None:
        super().__init__(1, params)
        self._buffers = buffers
        self._datatype = datatype
        self._operator = operator
        self._complement = complement

    def words(self, start: int, stop: int) -> Int32Array:
        keys = fixedpoint.to_keys(self._buffers.source(start, stop), self._datatype, self._operator)
        return ~keys if self._complement else keys

    def accept(self, words: Int32Array, start: int, stop: int) -> None:
        target = self._buffers.target(start, stop)
        if target is not None:
            keys = words[:, 0]
            target[...] = fixedpoint.from_keys(~keys if self._complement else keys, self._datatype)


class Limbs(_Words):
    """INT64 as limbs, for SUM."""

    def __init__(self, buffers: Buffers, ranks: int, params: GroupParams) -> None:
        super().__init__(fixedpoint.limbs(ranks)[0], params)
        self._buffers = buffers
        self._ranks = ranks

    def words(self, start: int, stop: int) -> Int32Array:
        return fixedpoint.split_limbs(self._buffers.source(start, stop), self._ranks)

    def accept(self, words: Int32Array, start: int, stop: int) -> None:
        target = self._buffers.target(start, stop)
        if target is not None:
            target[...] = fixedpoint.join_limbs(words, self._ranks)


@dataclass
class FixedSum:
    """What the three codings of a fixed-point SUM share: the data, and what phase 1 found out.

    `exponents` and `special` hold one entry a block, `classes` one an element of special blocks, in order;
    `special_blocks` are the numbers of those, `special_order` tells of any block how many are up to it, less 1.
    `signature` must be equal on every rank: (what was called, how many elements); `call` words this rank's.
    """

    fixed: FixedPoint
    buffers: Buffers
    count: int
    signature: tuple[int, int]
    call: str
    exponents: Int32Array = field(init=False)
    special: NDArray[np.bool_] = field(init=False)
    classes: NDArray[np.uint8] = field(init=False)
    special_blocks: NDArray[np.int64] = field(init=False)
    special_order: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        blocks = -(-self.count // BLOCK)
        self.exponents = np.zeros(blocks, np.int32)
        self.special = np.zeros(blocks, np.bool_)
        self.classes = np.zeros(0, np.uint8)

    def find_specials(self) -> int:
        """After phase 1: how many elements lie in special blocks. Their classes are then waited for."""
        where = np.flatnonzero(self.special)
        total = where.size * BLOCK
        if where.size and where[-1] == self.special.size - 1:
            total -= self.special.size * BLOCK - self.count  # the last block may be a short one
        self.special_blocks = where
        self.special_order = np.cumsum(self.special) - 1
        self.classes = np.zeros(total, np.uint8)
        return total

    def special_positions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Where in the data the `start`-th to `stop`-th elements of special blocks are."""
        index = np.arange(start, stop)
        positions: NDArray[np.int64] = self.special_blocks[index // BLOCK] * BLOCK + index % BLOCK
        return positions

    def apply_classes(self, values: Array, start: int, stop: int) -> None:
        """Put infinities and NaNs into the results of a range, in place."""
        positions = np.arange(start, stop)
        inside = np.flatnonzero(self.special[positions // BLOCK])
        if inside.size:
            positions = positions[inside]
            classes = self.classes[self.special_order[positions // BLOCK] * BLOCK + positions % BLOCK]
            some = values[inside]
            fixedpoint.apply_specials(some, classes)
            values[inside] = some


class Exponents(_Words):
    """Phase 1, MAX of pairs of words: signature words as x and -x, then (exponent, special) a block."""

    SIGNATURE_PAIRS = 3

    def __init__(self, shared: FixedSum, params: GroupParams) -> None:
        super().__init__(2, params)
        self.shared = shared

    @property
    def size(self) -> int:
        """Pairs in all."""
        return self.SIGNATURE_PAIRS + self.shared.exponents.size

    def _signature(self) -> list[int]:
        what, count = self.shared.signature
        return [what, count & 0x7FFF_FFFF, count >> 31]

    def words(self, start: int, stop: int) -> Int32Array:
        head = self._signature()[start:stop]
        out = np.empty((stop - start, 2), np.int32)
        out[: len(head), 0] = head
        out[: len(head), 1] = [-x for x in head]
        first, last = self._blocks(start, stop)
        values = self.shared.buffers.source(first * BLOCK, min(last * BLOCK, self.shared.count))
        out[len(head) :] = self.shared.fixed.exponents(values)
        return out

    def accept(self, words: Int32Array, start: int, stop: int) -> None:
        own = self._signature()[start:stop]
        largest, smallest = words[: len(own), 0].tolist(), (-words[: len(own), 1]).tolist()
        if largest != own or smallest != own:
            raise MismatchError(self._disagreement(largest, smallest))
        first, last = self._blocks(start, stop)
        self.shared.exponents[first:last] = words[len(own) :, 0]
        self.shared.special[first:last] = words[len(own) :, 1] > 0

    def _blocks(self, start: int, stop: int) -> tuple[int, int]:
        return max(start - self.SIGNATURE_PAIRS, 0), max(stop - self.SIGNATURE_PAIRS, 0)

    def _disagreement(self, largest: list[int], smallest: list[int]) -> str:
        line = f"ranks disagree: this rank called {self.shared.call}"
        if largest[0] != smallest[0]:
            return f"{line}, another rank another primitive or root"
        few, many = (words[2] << 31 | words[1] for words in (smallest, largest))
        return f"{line}, counts range from {few} to {many} elements"


class Specials(_Words):
    """Phase 2, before the data: for each element of the special blocks, who has an infinity or NaN."""

    def __init__(self, shared: FixedSum, params: GroupParams) -> None:
        super().__init__(1, params)
        self.shared = shared

    def words(self, start: int, stop: int) -> Int32Array:
        assert self.shared.buffers.send is not None
        values = self.shared.buffers.send[self.shared.special_positions(start, stop)]
        return self.shared.fixed.specials(values)

    def accept(self, words: Int32Array, start: int, stop: int) -> None:
        self.shared.classes[start:stop] = fixedpoint.special_class(words[:, 0])


class Quantized(_Words):
    """Phase 2, the data: SUM of quantized elements."""

    def __init__(self, shared: FixedSum, params: GroupParams) -> None:
        super().__init__(shared.fixed.words, params)
        self.shared = shared

    def _exponents(self, start: int, stop: int) -> Int32Array:
        exponents: Int32Array = self.shared.exponents[np.arange(start, stop) // BLOCK]
        return exponents

    def words(self, start: int, stop: int) -> Int32Array:
        values = self.shared.buffers.source(start, stop)
        return self.shared.fixed.quantize(values, self._exponents(start, stop))

    def accept(self, words: Int32Array, start: int, stop: int) -> None:
        target = self.shared.buffers.target(start, stop)
        if target is not None:
            values = self.shared.fixed.dequantize(words, self._exponents(start, stop))
            self.shared.apply_classes(values, start, stop)
            target[...] = values
