"""Hash functions and checksums of the architectures, over bytes.

CRC-32 is zlib's. The others are the CRCs known by these names (reveng catalogue: CRC-16/ARC, CRC-8/SMBUS,
CRC-64/ECMA-182), the Internet checksum (RFC 1071), and exclusive or of big-endian words, the last one padded with zeros
at its end.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

Hash = Callable[[bytes], int]


class Crc:
    """A CRC by its parameters; `reflected` says least significant bit first, for input and output."""

    __slots__ = ("_init", "_mask", "_reflected", "_table", "_width", "_xor")

    def __init__(self, width: int, poly: int, *, reflected: bool, init: int = 0, xor: int = 0) -> None:
        self._width = width
        self._mask = (1 << width) - 1
        self._reflected = reflected
        self._init = _reflect(init, width) if reflected else init
        self._xor = xor
        self._table = [self._step(byte, poly) for byte in range(256)]

    def _step(self, byte: int, poly: int) -> int:
        if self._reflected:
            poly = _reflect(poly, self._width)
            value = byte
            for _ in range(8):
                value = (value >> 1) ^ (poly if value & 1 else 0)
            return value
        # Kept in at least 8 bits, so that CRCs shorter than a byte need no case of their own.
        value = byte << self._width
        for bit in range(self._width + 7, self._width - 1, -1):
            if value >> bit & 1:
                value ^= (1 << self._width | poly) << (bit - self._width)
        return value & self._mask

    def __call__(self, data: bytes) -> int:
        value, table = self._init, self._table
        if self._reflected:
            for byte in data:
                value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
        elif self._width >= 8:
            shift, mask = self._width - 8, self._mask
            for byte in data:
                value = ((value << 8) & mask) ^ table[(value >> shift) ^ byte]
        else:
            shift = 8 - self._width
            for byte in data:
                value = table[(value << shift) ^ byte]
        return value ^ self._xor


def _reflect(value: int, width: int) -> int:
    return int(f"{value:0{width}b}"[::-1], 2)


def checksum16(data: bytes) -> int:
    """The Internet checksum: the complement of the sum in ones' complement; an odd byte is padded behind."""
    return ones_sum(data) ^ 0xFFFF


def ones_sum(data: bytes) -> int:
    """The sum of 16-bit words in ones' complement."""
    if len(data) & 1:
        data += b"\0"
    number = int.from_bytes(data, "big")
    # 2**16 is 1 modulo 65535, so the number itself is the sum; 0 stands only for all zeros.
    return number % 0xFFFF or (0xFFFF if number else 0)


def xor_words(data: bytes, width: int) -> int:
    """Exclusive or of the words of `width` bits."""
    size = width // 8
    data += bytes(-len(data) % size)
    value = 0
    for start in range(0, len(data), size):
        value ^= int.from_bytes(data[start : start + size], "big")
    return value


def first_bytes(data: bytes) -> int:
    """`identity` as BMv2 has it: the first 8 bytes as a number."""
    return int.from_bytes(data[:8], "big")


def whole(data: bytes) -> int:
    """`IDENTITY` of TNA: all bits; the caller keeps the lowest."""
    return int.from_bytes(data, "big")


def random_hash(generator: random.Random, bits: int) -> Hash:
    """A "hash" that ignores its data."""
    return lambda data: generator.getrandbits(bits)


crc8 = Crc(8, 0x07, reflected=False)
crc16 = Crc(16, 0x8005, reflected=True)
crc64 = Crc(64, 0x42F0E1EBA9EA3693, reflected=False)


def crc32(data: bytes) -> int:
    """The CRC-32 of Ethernet."""
    return zlib.crc32(data)


V1MODEL: dict[str, Hash] = {
    "crc32": crc32,
    "crc16": crc16,
    "csum16": checksum16,
    "xor16": lambda data: xor_words(data, 16),
    "identity": first_bytes,
}
"""By the names of v1model's HashAlgorithm; `random` needs a generator."""

TNA: dict[str, Hash] = {
    "IDENTITY": whole,
    "XOR8": lambda data: xor_words(data, 8),
    "XOR16": lambda data: xor_words(data, 16),
    "XOR32": lambda data: xor_words(data, 32),
    "CRC8": crc8,
    "CRC16": crc16,
    "CRC32": crc32,
    "CRC64": crc64,
}
"""By the names of TNA's HashAlgorithm_t; RANDOM needs a generator, CUSTOM a polynomial."""
