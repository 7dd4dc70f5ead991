"""Hashes and checksums against zlib, scapy and the published check values."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import checksum as scapy_checksum

from epic_p4.runtime import hashes
from epic_p4.runtime.checksums import ChecksumUnit, update

CHECK = b"123456789"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (hashes.crc8, 0xF4),
        (hashes.crc16, 0xBB3D),
        (hashes.crc32, 0xCBF43926),
        (hashes.crc64, 0x6C40DF5F0B497347),
        (hashes.Crc(16, 0x1021, reflected=False, init=0xFFFF), 0x29B1),  # CRC-16/IBM-3740
        (hashes.Crc(5, 0x05, reflected=True, init=0x1F, xor=0x1F), 0x19),  # CRC-5/USB
        (hashes.Crc(4, 0x3, reflected=False, init=0xF, xor=0xF), 0xB),  # CRC-4/INTERLAKEN
    ],
)
def test_a_crc_has_its_published_check_value(function: hashes.Hash, expected: int) -> None:
    assert function(CHECK) == expected


@given(st.binary(max_size=300))
def test_crc32_by_table_is_zlibs(data: bytes) -> None:
    crc = hashes.Crc(32, 0x04C11DB7, reflected=True, init=0xFFFFFFFF, xor=0xFFFFFFFF)
    assert crc(data) == zlib.crc32(data) == hashes.crc32(data)


@given(st.binary(min_size=1, max_size=300))
def test_the_internet_checksum_is_scapys(data: bytes) -> None:
    assert hashes.checksum16(data) == scapy_checksum(data)


@given(st.binary(max_size=50))
def test_xor_goes_over_padded_words(data: bytes) -> None:
    padded = data + bytes(-len(data) % 2)
    expected = 0
    for high, low in zip(padded[::2], padded[1::2], strict=True):
        expected ^= high << 8 | low
    assert hashes.xor_words(data, 16) == expected


def test_identity_takes_the_first_eight_bytes() -> None:
    assert hashes.first_bytes(bytes(range(1, 11))) == 0x0102030405060708
    assert hashes.first_bytes(b"\x01\x02") == 0x0102


@given(st.binary(min_size=20, max_size=20).filter(any), st.binary(min_size=4, max_size=4))
def test_a_subtracted_and_updated_checksum_is_the_one_over_the_new_data(data: bytes, new: bytes) -> None:
    old_checksum = hashes.checksum16(data).to_bytes(2, "big")
    unit = ChecksumUnit()
    unit.subtract(old_checksum)
    unit.subtract(data[:4])
    residue = unit.get().to_bytes(2, "big")
    expected = hashes.checksum16(new + data[4:])
    # 0 and 0xffff are the same number in ones' complement.
    assert update(new + residue, False) % 0xFFFF == expected % 0xFFFF


@given(st.binary(min_size=20, max_size=20).filter(any), st.integers(0, 159))
def test_verify_tells_a_wrong_checksum(data: bytes, bit: int) -> None:
    whole = data + hashes.checksum16(data).to_bytes(2, "big")
    unit = ChecksumUnit()
    unit.add(whole)
    assert not unit.wrong()
    flipped = (int.from_bytes(whole, "big") ^ (1 << bit)).to_bytes(len(whole), "big")
    unit.reset()
    unit.add(flipped)
    assert unit.wrong()


def test_udp_sends_all_ones_for_a_checksum_of_zero() -> None:
    assert update(b"\xff\xff", zeros_as_ones=False) == 0
    assert update(b"\xff\xff", zeros_as_ones=True) == 0xFFFF
