"""CRC-32 (the polynomial of Ethernet and zlib) over memory, as fast as the processor multiplies without carries.

All functions work on the *register*: `zlib.crc32(data)` is `~crc_update(0xFFFFFFFF, data)`. It is a polynomial over
GF(2) modulo P, its bit 31 the coefficient of x^0 (reflected). Folding after V. Gopal and others, "Fast CRC computation
for generic polynomials using PCLMULQDQ instruction", Intel 2009; without that instruction eight tables of 256 words are
used (M. Kounavis, F. Berry, "A systematic approach to building high performance software-based CRC generators", 2005).
"""

from __future__ import annotations

from typing import Any, Final

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from epic_host.fast.compiled import Word, compiled, intrinsic, load8, load32, types

_POLYNOMIAL: Final = 0xEDB88320
_ONE: Final = 0x80000000


def _times_x(value: int) -> int:
    return value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)


def power(exponent: int) -> int:
    """x^exponent modulo P, reflected."""
    value = _ONE
    for _ in range(exponent):
        value = _times_x(value)
    return value


def _tables() -> NDArray[np.uint32]:
    """Row k: what a byte does to the register when k more bytes of zeros follow it."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = _times_x(value)
        tables[0, byte] = value
    for k in range(1, 8):
        tables[k] = tables[k - 1] >> np.uint32(8) ^ tables[0][tables[k - 1] & np.uint32(0xFF)]
    return tables


TABLES: Final = _tables()
# Payloads are whole words; the longest that an IPv4 packet holds has fewer than these.
_WORDS: Final = 16384


def _powers() -> NDArray[np.uint32]:
    """Entry k: x^(32 k - 32), the factor of `crc_shift` for k words."""
    powers = np.zeros(_WORDS, np.uint32)
    t = TABLES.tolist()
    value = _ONE
    for k in range(1, _WORDS):
        powers[k] = value
        value = t[3][value & 255] ^ t[2][value >> 8 & 255] ^ t[1][value >> 16 & 255] ^ t[0][value >> 24]
    return powers


POWERS: Final = _powers()

_FEATURES: Final = llvmlite.binding.get_host_cpu_features()
# Whether the processor that compiles has the instruction, and for vectors of 512 bits.
CARRYLESS: Final = bool(_FEATURES.get("pclmul", False))
WIDE: Final = bool(CARRYLESS and _FEATURES.get("vpclmulqdq", False) and _FEATURES.get("avx512f", False))


def _factors(bits: int) -> tuple[int, int]:
    """For folding a block over so many bits: factors of its first and second half.

    A product of reflected values comes out one bit short, hence the shift.
    """
    return power(bits + 32) << 1, power(bits - 32) << 1


@compiled
def double_step(state: Word, low: Word, high: Word) -> Word:
    """The register after eight bytes, given as two words."""
    v = np.uint32(state) ^ np.uint32(low)
    w = np.uint32(high)
    return (
        TABLES[7, v & np.uint32(0xFF)]
        ^ TABLES[6, v >> np.uint32(8) & np.uint32(0xFF)]
        ^ TABLES[5, v >> np.uint32(16) & np.uint32(0xFF)]
        ^ TABLES[4, v >> np.uint32(24)]
        ^ TABLES[3, w & np.uint32(0xFF)]
        ^ TABLES[2, w >> np.uint32(8) & np.uint32(0xFF)]
        ^ TABLES[1, w >> np.uint32(16) & np.uint32(0xFF)]
        ^ TABLES[0, w >> np.uint32(24)]
    )


@compiled
def sliced_update(state: Word, address: Word, count: Word) -> Word:
    """`crc_update` by tables."""
    at, end = np.uint64(address), np.uint64(address) + np.uint64(count)
    state = np.uint32(state)
    while end - at >= np.uint64(8):
        state = double_step(state, load32(at), load32(at + np.uint64(4)))
        at += np.uint64(8)
    while at < end:
        state = TABLES[0, (state ^ np.uint32(load8(at))) & np.uint32(0xFF)] ^ state >> np.uint32(8)
        at += np.uint64(1)
    return state


# Blocks of 128 bits.
_BLOCK: Final = 16
# Vectors that are folded side by side: as many as it takes until the first product is there.
_SIDE_BY_SIDE: Final = 4


def _folder(blocks_each: int) -> Any:
    """Folding by vectors of 1 or 4 blocks: `folded(state, address, blocks)`.

    `blocks` (as many or more than the vectors side by side have) times 16 bytes are folded into 16, the register in the
    first: two words of 64 bits.
    """
    word, index = ir.IntType(64), ir.IntType(32)
    vector, narrow = ir.VectorType(word, 2 * blocks_each), ir.VectorType(word, 2)
    turn = _SIDE_BY_SIDE * blocks_each

    def const(value: int) -> Any:
        return ir.Constant(word, value)

    @intrinsic
    def folded(typingctx: Any, state: Any, address: Any, blocks: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            state, address, blocks = arguments

            def load(base: Any, offset: int, kind: Any) -> Any:
                at = builder.add(base, const(offset))
                return builder.load(builder.inttoptr(at, kind.as_pointer()), align=1)

            def fold(value: Any, bits: int, onto: Any) -> Any:
                kind = value.type
                each = kind.count // 2
                multiply = builder.module.declare_intrinsic(
                    "llvm.x86.pclmulqdq" + ("" if each == 1 else f".{128 * each}"),
                    (),
                    ir.FunctionType(kind, (kind, kind, ir.IntType(8))),
                )
                by = ir.Constant(kind, [const(half) for half in _factors(bits)] * each)
                low = builder.call(multiply, [value, by, ir.Constant(ir.IntType(8), 0x00)])
                high = builder.call(multiply, [value, by, ir.Constant(ir.IntType(8), 0x11)])
                return builder.xor(builder.xor(low, high), onto)

            lanes = [load(address, _BLOCK * blocks_each * k, vector) for k in range(_SIDE_BY_SIDE)]
            first_word = builder.insert_element(
                ir.Constant(vector, [const(0)] * vector.count), state, ir.Constant(index, 0)
            )
            lanes[0] = builder.xor(lanes[0], first_word)

            # All vectors side by side.
            entry = builder.block
            head = builder.append_basic_block("turns")
            body = builder.append_basic_block("turns.body")
            after = builder.append_basic_block("turns.end")
            first, left = builder.add(address, const(_BLOCK * turn)), builder.sub(blocks, const(turn))
            builder.branch(head)
            builder.position_at_end(head)
            at, count = builder.phi(word), builder.phi(word)
            carried = [builder.phi(vector) for _ in lanes]
            builder.cbranch(builder.icmp_unsigned(">=", count, const(turn)), body, after)
            builder.position_at_end(body)
            further = [
                fold(lane, 128 * turn, load(at, _BLOCK * blocks_each * k, vector))
                for k, lane in enumerate(carried)
            ]
            next_at, next_count = builder.add(at, const(_BLOCK * turn)), builder.sub(count, const(turn))
            builder.branch(head)
            for phi, start, following in [
                (at, first, next_at), (count, left, next_count), *zip(carried, lanes, further, strict=True),
            ]:  # fmt: skip
                phi.add_incoming(start, entry)
                phi.add_incoming(following, body)

            # They into one, that into one block, then what is left, a block a turn.
            builder.position_at_end(after)
            one = carried[0]
            for lane in carried[1:]:
                one = fold(one, 128 * blocks_each, lane)
            if blocks_each > 1:
                parts = []
                for k in range(blocks_each):
                    mask = ir.Constant(ir.VectorType(index, 2), [2 * k, 2 * k + 1])
                    parts.append(builder.shuffle_vector(one, one, mask))
                one = parts[0]
                for part in parts[1:]:
                    one = fold(one, 128, part)
            head_1 = builder.append_basic_block("singles")
            body_1 = builder.append_basic_block("singles.body")
            done = builder.append_basic_block("singles.end")
            builder.branch(head_1)
            builder.position_at_end(head_1)
            at_1, count_1, value = builder.phi(word), builder.phi(word), builder.phi(narrow)
            builder.cbranch(builder.icmp_unsigned(">", count_1, const(0)), body_1, done)
            builder.position_at_end(body_1)
            next_value = fold(value, 128, load(at_1, 0, narrow))
            next_at_1, next_count_1 = builder.add(at_1, const(_BLOCK)), builder.sub(count_1, const(1))
            builder.branch(head_1)
            for phi, start, following in [
                (at_1, at, next_at_1), (count_1, count, next_count_1), (value, one, next_value),
            ]:  # fmt: skip
                phi.add_incoming(start, after)
                phi.add_incoming(following, body_1)
            builder.position_at_end(done)
            pair = [builder.extract_element(value, ir.Constant(index, k)) for k in range(2)]
            return context.make_tuple(builder, signature.return_type, pair)

        return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64, types.uint64), build

    return folded


_folded, _folded_wide = _folder(1), _folder(4)


@intrinsic
def _product(typingctx: Any, a: Any, b: Any) -> Any:
    """The product of two polynomials of up to 32 bits without carries, 64 bits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(64), 2)
        multiply = builder.module.declare_intrinsic(
            "llvm.x86.pclmulqdq", (), ir.FunctionType(vector, (vector, vector, ir.IntType(8)))
        )
        zero, first = ir.Constant(vector, [0, 0]), ir.Constant(ir.IntType(32), 0)
        a, b = (builder.insert_element(zero, value, first) for value in arguments)
        product = builder.call(multiply, [a, b, ir.Constant(ir.IntType(8), 0)])
        return builder.extract_element(product, ir.Constant(ir.IntType(32), 0))

    return types.uint64(types.uint64, types.uint64), build


@compiled
def _reduced(low: Word, high: Word) -> Word:
    """The register of what was folded into 16 bytes."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    state = double_step(np.uint32(0), np.uint32(low & mask), np.uint32(low >> half))
    return double_step(state, np.uint32(high & mask), np.uint32(high >> half))


@compiled
def folded_update(state: Word, address: Word, count: Word) -> Word:
    """`crc_update` by carry-less multiplication."""
    at, left = np.uint64(address), np.uint64(count)
    if left < np.uint64(64):
        return sliced_update(state, at, left)
    blocks = left >> np.uint64(4)
    low, high = _folded(np.uint64(np.uint32(state)), at, blocks)
    return sliced_update(_reduced(low, high), at + (blocks << np.uint64(4)), left & np.uint64(15))


@compiled
def wide_update(state: Word, address: Word, count: Word) -> Word:
    """`crc_update` by carry-less multiplication of vectors of four blocks."""
    at, left = np.uint64(address), np.uint64(count)
    if left < np.uint64(256):
        return folded_update(state, at, left)
    blocks = left >> np.uint64(4)
    low, high = _folded_wide(np.uint64(np.uint32(state)), at, blocks)
    return sliced_update(_reduced(low, high), at + (blocks << np.uint64(4)), left & np.uint64(15))


@compiled
def sliced_shift(state: Word, count: Word) -> Word:
    """`crc_shift` bit by bit."""
    a, b = np.uint32(state), POWERS[count >> 2]
    product = np.uint64(0)
    for i in range(32):
        product ^= (np.uint64(b) << np.uint64(i)) * np.uint64(a >> np.uint32(i) & np.uint32(1))
    product <<= np.uint64(1)
    half = np.uint64(32)
    return double_step(np.uint32(0), np.uint32(product & np.uint64(0xFFFFFFFF)), np.uint32(product >> half))


@compiled
def folded_shift(state: Word, count: Word) -> Word:
    """`crc_shift` by carry-less multiplication."""
    product = _product(np.uint64(np.uint32(state)), np.uint64(POWERS[count >> 2])) << np.uint64(1)
    half = np.uint64(32)
    return double_step(np.uint32(0), np.uint32(product & np.uint64(0xFFFFFFFF)), np.uint32(product >> half))


# The register after `count` bytes at `address`.
crc_update: Final = wide_update if WIDE else folded_update if CARRYLESS else sliced_update
# The register after `count` bytes of zeros (a multiple of 4, from 4 to 65,532): how the CRC of a header is put before
# that of a payload. `double_step` of a product multiplies by x^32 and reduces, hence the exponents of POWERS.
_shift: Final = folded_shift if CARRYLESS else sliced_shift


@compiled
def crc_shift(state: Word, count: Word) -> Word:
    """The register after `count` bytes of zeros (a multiple of 4 below 65,536)."""
    return _shift(state, count) if count else np.uint32(state)
