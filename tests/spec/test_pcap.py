"""Capture files against scapy's writers and reader, hand-made blocks, and damage."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_spec.errors import ConfigError
from epic_spec.pcap import PcapWriter, Record, read

FRAMES = [bytes(range(n)) for n in (60, 61, 62, 63, 200)]
T0 = 1_700_000_000_123_456_789


def written(path: Path) -> Path:
    with PcapWriter(path) as writer:
        for i, frame in enumerate(FRAMES):
            writer.write(frame, T0 + i)
    return path


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", size)


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(order: str, *, link: int = 1, snaplen: int = 0, options: bytes = b"") -> bytes:
    return block(order, 1, struct.pack(order + "HHI", link, 0, snaplen) + options)


def enhanced(order: str, frame: bytes, ticks: int = 0, number: int = 0, length: int | None = None) -> bytes:
    fields = (number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame) if length is None else length)
    return block(order, 6, struct.pack(order + "IIIII", *fields) + frame)


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        list(read(path))
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


# ------------------------------------------------------------------------------------------------------- good


def test_what_is_written_is_read(tmp_path: Path) -> None:
    records = list(read(written(tmp_path / "a.pcap")))
    assert records == [Record(T0 + i, frame, len(frame)) for i, frame in enumerate(FRAMES)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=100), st.integers(0, (1 << 32) * 10**9 - 1)), max_size=20))
def test_any_frames_and_times_survive(
    tmp_path_factory: pytest.TempPathFactory, some: list[tuple[bytes, int]]
) -> None:
    path = tmp_path_factory.mktemp("pcap") / "a.pcap"
    with PcapWriter(path) as writer:
        for frame, time_ns in some:
            writer.write(frame, time_ns)
    assert [(record.data, record.time_ns) for record in read(path)] == some


def test_scapy_reads_what_is_written(tmp_path: Path) -> None:
    utils = pytest.importorskip("scapy.utils")
    with utils.RawPcapReader(str(written(tmp_path / "a.pcap"))) as reader:
        assert reader.nano
        got = [(data, meta.sec * 10**9 + meta.usec) for data, meta in reader]
    assert got == [(frame, T0 + i) for i, frame in enumerate(FRAMES)]


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_scapy_pcap_of_both_endians_and_resolutions_is_read(tmp_path: Path, endian: str, nano: bool) -> None:
    utils = pytest.importorskip("scapy.utils")
    path = tmp_path / "a.pcap"
    with utils.RawPcapWriter(str(path), linktype=1, endianness=endian, nano=nano) as writer:
        writer.write_header(FRAMES[0])
        for frame in FRAMES:
            writer.write_packet(frame, sec=1700000000, usec=123456)
    ns = 123456 if nano else 123456000
    assert list(read(path)) == [Record(1700000000 * 10**9 + ns, frame, len(frame)) for frame in FRAMES]


def test_scapy_pcapng_is_read(tmp_path: Path) -> None:
    utils = pytest.importorskip("scapy.utils")
    path = tmp_path / "a.pcapng"
    from scapy.layers.l2 import Ether

    with utils.PcapNgWriter(str(path)) as writer:
        for i, frame in enumerate(FRAMES):
            packet = Ether(frame)
            packet.time = 1700000000 + i
            writer.write(packet)
    records = list(read(path))
    assert [record.data for record in records] == FRAMES
    assert [record.time_ns for record in records] == [(1700000000 + i) * 10**9 for i in range(len(FRAMES))]


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_of_both_endians_with_enhanced_and_simple_packets(tmp_path: Path, order: str) -> None:
    path = tmp_path / "a.pcapng"
    simple = block(order, 3, struct.pack(order + "I", 61) + FRAMES[1])
    unknown = block(order, 0x0BAD, b"whatever")
    obsolete = block(order, 2, struct.pack(order + "HHIIII", 0, 0, 0, 7, 62, 62) + FRAMES[2])
    head = section(order) + interface(order)
    path.write_bytes(head + enhanced(order, FRAMES[0], 5_000_007, length=90) + unknown + simple + obsolete)
    assert list(read(path)) == [
        Record(5_000_007_000, FRAMES[0], 90),
        Record(0, FRAMES[1], 61),
        Record(7_000, FRAMES[2], 62),
    ]


@pytest.mark.parametrize(
    ("options", "ticks", "time_ns"),
    [
        (lambda o: option(o, 9, b"\x09"), 1_500_000_001, 1_500_000_001),
        (lambda o: option(o, 9, b"\x03"), 1500, 1_500_000_000),
        (lambda o: option(o, 9, b"\x8a"), 1536, 1_500_000_000),
        (lambda o: option(o, 2, b"eth0") + option(o, 9, b"\x00") + option(o, 0, b""), 3, 3_000_000_000),
        (lambda o: option(o, 0, b"") + option(o, 9, b"\x00"), 3, 3_000),
        (lambda o: option(o, 14, struct.pack(o + "q", -2)), 3_000_000, 1_000_000_000),
    ],
)
@pytest.mark.parametrize("order", ["<", ">"])
def test_interface_options_set_resolution_and_offset(tmp_path, order, options, ticks, time_ns) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(
        section(order) + interface(order, options=options(order)) + enhanced(order, FRAMES[0], ticks)
    )
    assert [record.time_ns for record in read(path)] == [time_ns]


def test_each_section_has_its_own_byte_order_and_interfaces(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    second = section(">") + interface(">", options=option(">", 9, b"\x00")) + enhanced(">", FRAMES[1], 2)
    path.write_bytes(section("<") + interface("<") + enhanced("<", FRAMES[0], 1) + second)
    assert [(r.time_ns, r.data) for r in read(path)] == [(1000, FRAMES[0]), (2_000_000_000, FRAMES[1])]


def test_a_simple_packet_is_cut_at_the_snap_length(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    simple = block("<", 3, struct.pack("<I", 200) + bytes(64))
    path.write_bytes(section("<") + interface("<", snaplen=64) + simple)
    assert list(read(path)) == [Record(0, bytes(64), 200)]


# -------------------------------------------------------------------------------------------------------- bad


def test_a_file_that_is_neither_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"hello, world")
    assert refused(path) == ": starts with 68656c6c, expected a pcap or pcapng capture"
    path.write_bytes(b"")
    assert refused(path) == ": is empty, expected a pcap or pcapng capture"
    assert "Is a directory" in refused(tmp_path)
    assert "No such file" in refused(tmp_path / "none")


@pytest.mark.parametrize("cut", [1, 15, 16, 17, 75])
def test_a_pcap_cut_in_a_record_gives_the_records_before_and_is_refused(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "a.pcap")
    whole = path.read_bytes()
    first = 24 + 16 + 60
    path.write_bytes(whole[: first + cut])
    records = read(path)
    assert next(records).data == FRAMES[0]
    with pytest.raises(ConfigError, match="ends in the middle of record 2"):
        next(records)


def test_every_cut_of_a_pcap_and_pcapng_is_whole_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    pcap = written(path).read_bytes()
    ends = {24}
    for frame in FRAMES:
        ends.add(max(ends) + 16 + len(frame))
    blocks = [section("<"), interface("<"), enhanced("<", FRAMES[0]), enhanced("<", FRAMES[1])]
    pcapng = b"".join(blocks)
    block_ends = {sum(map(len, blocks[: i + 1])) for i in range(4)}
    for data, whole in ((pcap, ends), (pcapng, block_ends)):
        for size in range(1, len(data)):
            path.write_bytes(data[:size])
            if size in whole:
                list(read(path))
            else:
                refused(path)


@pytest.mark.parametrize("link", [0, 101, 113, 276])
def test_another_link_type_is_refused(tmp_path: Path, link: int) -> None:
    path = tmp_path / "a"
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link))
    assert refused(path) == f": link type {link}, expected 1 (Ethernet)"
    path.write_bytes(section("<") + interface("<", link=link))
    assert refused(path) == f": link type {link}, expected 1 (Ethernet)"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 3, 0, 0, 0, 0, 1), "pcap version 3"),
        (struct.pack("<IHHiIIIIIII", 0xA1B2C3D4, 2, 4, 0, 0, 0, 1, 0, 0, 1 << 31, 0), "the file is damaged"),
        (b"\x0a\x0d\x0d\x0a" + bytes(24), "byte-order magic 00000000"),
        (block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 2, 0, -1)), "pcapng version 2"),
        (b"\x0a\x0d\x0d\x0a" + struct.pack("<II", 12, 0x1A2B3C4D), "section header of 12 bytes"),
        (section("<") + struct.pack("<II", 6, 8), "block of 8 bytes"),
        (section("<") + struct.pack("<II", 6, 1 << 31), "the file is damaged"),
        (section("<") + struct.pack("<III", 0xBAD, 12, 16), "is repeated as 16"),
        (section("<") + enhanced("<", b""), "of interface 0, expected one described before"),
        (section("<") + block("<", 1, b""), "shorter than its fields"),
        (section("<") + interface("<") + block("<", 6, bytes(4)), "shorter than its fields"),
        (
            section("<") + interface("<") + block("<", 6, struct.pack("<5I", 0, 0, 0, 9, 9)),
            "packet 1 of 9 bytes",
        ),
    ],
)
def test_damage_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    assert message in refused(path)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutated_files_raise_only_config_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated"
    order = data.draw(st.sampled_from("<>"))
    ng = section(order) + interface(order, options=option(order, 9, b"\x09")) + enhanced(order, FRAMES[0])
    whole = bytearray(data.draw(st.sampled_from([ng, written(path).read_bytes()])))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    with contextlib.suppress(ConfigError):
        list(read(path))


def test_a_capture_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a file that can be written"):
        PcapWriter(tmp_path / "no" / "a.pcap")


def test_a_killed_writer_leaves_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    program = """
import os, signal, sys
from pathlib import Path
from epic_spec.pcap import PcapWriter
writer = PcapWriter(Path(sys.argv[1]))
for i in range(1000):
    writer.write(bytes(777), i)
os.kill(os.getpid(), signal.SIGKILL)
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", program, str(path)], env=env, timeout=60)
    assert done.returncode == -9
    count = len(list(read(path)))
    assert 900 < count <= 1000
