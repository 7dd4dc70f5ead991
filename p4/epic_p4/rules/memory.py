"""Memory blocks of tables, registers and counters, from sizes and widths. Estimates; the sources stand beside each."""

from __future__ import annotations

from typing import NamedTuple

BLOCK_WORDS = 1024
WORD_BITS = 128
TCAM_WORDS = 512
TCAM_BITS = 44

DIRECT_KEY_BITS = 10  # a key that fits a block's address needs no hash ways (forum.p4.org/t/1399)
MIN_WAYS = 4  # bf-p4c/mau/resource_estimate.cpp: fewer are not tried
GHOST_BITS = 10  # the hash's address bits need not be stored (bf-p4c/mau/table_format.h)
VERSION_BITS = 4
NEXT_TABLE_BITS = 8
IMMEDIATE_BITS = 32  # action data that travels in the entry (bf-p4c/mau/action_format.h)
MAX_PER_WORD = 5  # entries that one block can hold side by side (bf-p4c/mau/table_format.h)
MAX_WIDTH = 8  # blocks side by side for one entry


class Packing(NamedTuple):
    """Exact match entries: `entries` side by side in `blocks` blocks, `ways` times."""

    entries: int
    blocks: int
    ways: int

    @property
    def total(self) -> int:
        """All blocks."""
        return self.blocks * self.ways


def overhead_bits(actions: int, data_bits: int) -> int:
    """Bits of an entry beside the key: version, action, and either the action data or where they are."""
    instruction = (actions - 1).bit_length() if actions > 1 else 0
    data = data_bits if data_bits <= IMMEDIATE_BITS else 16
    return VERSION_BITS + instruction + data


def packing(key_bits: int, size: int, overhead: int) -> Packing:
    """The packing of `size` entries that takes the fewest blocks."""
    entry = max(1, key_bits - GHOST_BITS) + overhead
    options = []
    for blocks in range(1, max(MAX_WIDTH, -(-entry // WORD_BITS)) + 1):
        entries = min(MAX_PER_WORD * blocks, blocks * WORD_BITS // entry)
        if entries:
            options.append(Packing(entries, blocks, max(MIN_WAYS, -(-size // (BLOCK_WORDS * entries)))))
    return min(options, key=lambda one: (one.total, one.blocks))


def exact_blocks(key_bits: int, size: int, overhead: int) -> int:
    """SRAM blocks of an exact match table of `size` entries."""
    return 1 if key_bits <= DIRECT_KEY_BITS else packing(key_bits, size, overhead).total


def action_data_blocks(size: int, data_bits: int) -> int:
    """SRAM blocks of action data that don't fit into the entry; a row's width is a power of two from 8 bits on."""
    if data_bits <= IMMEDIATE_BITS:
        return 0
    width = max(8, 1 << (data_bits - 1).bit_length())
    if width > WORD_BITS:
        return -(-data_bits // WORD_BITS) * -(-size // BLOCK_WORDS)
    return -(-size // (BLOCK_WORDS * (WORD_BITS // width)))


def tcam_blocks(key_bits: int, range_bits: int, size: int) -> int:
    """TCAM blocks of a ternary table. A range takes each 4 bits twice (bf-p4c/mau/input_xbar.h, RANGE_LO/HI)."""
    width = -(-(key_bits + range_bits + VERSION_BITS) // TCAM_BITS)
    return max(1, width) * max(1, -(-size // TCAM_WORDS))


def ternary_indirection_blocks(size: int, actions: int, data_bits: int) -> int:
    """SRAM blocks of what a TCAM hit points at: action and immediate data in 8 to 64 bits."""
    bits = overhead_bits(actions, data_bits) - VERSION_BITS + NEXT_TABLE_BITS
    width = min(64, max(8, 1 << (bits - 1).bit_length()))
    return max(1, -(-size // (BLOCK_WORDS * (WORD_BITS // width))))


def stateful_blocks(size: int, bits: int) -> int:
    """SRAM blocks of a register or counter, one spare for the hardware's copying included. The cell's width is
    rounded up to a power of two."""
    width = 1 << max(0, bits - 1).bit_length()
    return -(-size // (BLOCK_WORDS * WORD_BITS // width)) + 1
