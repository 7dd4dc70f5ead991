"""Capture files: reads pcap and pcapng, writes pcap, Ethernet only (no clause; formats as in
draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple, Self

from epic_spec.errors import ConfigError

LINKTYPE_ETHERNET: Final = 1

# Magic number as little-endian bytes show it: (byte order, nanoseconds a tick).
_PCAP_MAGIC: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_PCAPNG_MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_BYTE_ORDER_MAGIC: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}

_INTERFACE, _OBSOLETE_PACKET, _SIMPLE_PACKET, _ENHANCED_PACKET = 1, 2, 3, 6
_OPT_END, _OPT_TSRESOL, _OPT_TSOFFSET = 0, 9, 14

# Largest record or block that is believed: more than any link's frame, so that a damaged length is an error.
_LARGEST: Final = 1 << 24


class Record(NamedTuple):
    """One captured frame. `time_ns` counts from the Unix epoch (0 where the file has no times); `data` may be
    shorter than `length`, the frame's length on the link, where the capture cut it."""

    time_ns: int
    data: bytes
    length: int


class _Interface(NamedTuple):
    ticks_per_second: int
    offset_s: int
    snaplen: int


def read(path: Path) -> Iterator[Record]:
    """The records of a pcap or pcapng file, in file order, read as they are asked for.

    Raises ConfigError, naming the file: it cannot be read, is neither format, is cut in the middle of a
    record, or is not of link type Ethernet. The records before a cut are given first.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            if magic in _PCAP_MAGIC:
                yield from _Pcap(path, file).records(*_PCAP_MAGIC[magic])
            elif magic == _PCAPNG_MAGIC:
                yield from _Pcapng(path, file).records()
            else:
                shown = f"starts with {magic.hex()}" if magic else "is empty"
                raise ConfigError(f"{path}: {shown}, expected a pcap or pcapng capture")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}, expected a readable capture file") from None


class _Reader:
    """A file that knows where it is, for messages."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._record = 0

    def error(self, what: str) -> ConfigError:
        return ConfigError(f"{self._path}: {what}")

    def take(self, size: int, what: str) -> bytes:
        """Exactly `size` bytes."""
        data = self._file.read(size)
        if len(data) < size:
            raise self.error(f"ends in the middle of {what}, expected {size - len(data)} more bytes")
        return data

    def check_link(self, link: int) -> None:
        if link != LINKTYPE_ETHERNET:
            raise self.error(f"link type {link}, expected {LINKTYPE_ETHERNET} (Ethernet)")

    def check_size(self, size: int, what: str) -> None:
        if size > _LARGEST:
            raise self.error(f"{what} of {size} bytes, expected at most {_LARGEST}: the file is damaged")


class _Pcap(_Reader):
    def records(self, order: str, tick_ns: int) -> Iterator[Record]:
        header = struct.Struct(order + "IIII")
        major, _, _, _, _, link = struct.unpack(order + "HHiIII", self.take(20, "the file header"))
        if major != 2:
            raise self.error(f"pcap version {major}, expected 2")
        # The upper bits may hold the length of a frame check sequence.
        self.check_link(link & 0xFFFF)
        while first := self._file.read(1):
            self._record += 1
            what = f"record {self._record}"
            seconds, ticks, size, length = header.unpack(first + self.take(15, what))
            self.check_size(size, what)
            yield Record(seconds * 1_000_000_000 + ticks * tick_ns, self.take(size, what), length)


class _Pcapng(_Reader):
    def records(self) -> Iterator[Record]:
        order = self._section(_PCAPNG_MAGIC)
        interfaces: list[_Interface] = []
        while first := self._file.read(1):
            head = first + self.take(3, "a block header")
            if head == _PCAPNG_MAGIC:
                order = self._section(head)
                interfaces = []
                continue
            kind = struct.unpack(order + "I", head)[0]
            body = self._body(order, struct.unpack(order + "I", self.take(4, "a block header"))[0])
            try:
                if kind == _INTERFACE:
                    interfaces.append(self._interface(order, body))
                elif kind in (_ENHANCED_PACKET, _OBSOLETE_PACKET, _SIMPLE_PACKET):
                    self._record += 1
                    yield self._packet(order, kind, body, interfaces)
            except struct.error:
                raise self.error(f"block of type {kind} is shorter than its fields") from None

    def _section(self, head: bytes) -> str:
        """Read the rest of a section header block; its byte order."""
        raw = self.take(8, "a section header")
        order = _BYTE_ORDER_MAGIC.get(raw[4:])
        if order is None:
            raise self.error(f"pcapng byte-order magic {raw[4:].hex()}, expected 1a2b3c4d")
        size = struct.unpack(order + "I", raw[:4])[0]
        if size < 28:
            raise self.error(f"section header of {size} bytes, expected at least 28")
        body = self._body(order, size, already=12)
        major = struct.unpack_from(order + "H", body)[0]
        if major != 1:
            raise self.error(f"pcapng version {major}, expected 1")
        return order

    def _body(self, order: str, size: int, already: int = 8) -> bytes:
        """The rest of a block of `size` bytes without the length that is repeated at its end."""
        self.check_size(size, "block")
        if size < already + 4 or size % 4:
            raise self.error(f"block of {size} bytes, expected a multiple of 4 from 12 on")
        data = self.take(size - already, "a block")
        again = struct.unpack(order + "I", data[-4:])[0]
        if again != size:
            raise self.error(f"block length {size} is repeated as {again}, expected the same")
        return data[:-4]

    def _interface(self, order: str, body: bytes) -> _Interface:
        link, _, snaplen = struct.unpack_from(order + "HHI", body)
        self.check_link(link)
        ticks, offset, at = 1_000_000, 0, 8
        while at + 4 <= len(body):
            code, size = struct.unpack_from(order + "HH", body, at)
            value = body[at + 4 : at + 4 + size]
            if code == _OPT_END:
                break
            if code == _OPT_TSRESOL and size == 1:
                ticks = 1 << (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
            elif code == _OPT_TSOFFSET and size == 8:
                offset = struct.unpack(order + "q", value)[0]
            at += 4 + (size + 3 & ~3)
        return _Interface(ticks, offset, snaplen)

    def _packet(self, order: str, kind: int, body: bytes, interfaces: list[_Interface]) -> Record:
        ticks = 0
        if kind == _SIMPLE_PACKET:
            number, at = 0, 4
            length = struct.unpack_from(order + "I", body)[0]
        elif kind == _ENHANCED_PACKET:
            number, high, low, size, length = struct.unpack_from(order + "IIIII", body)
            ticks, at = high << 32 | low, 20
        else:
            number, _, high, low, size, length = struct.unpack_from(order + "HHIIII", body)
            ticks, at = high << 32 | low, 20
        if number >= len(interfaces):
            raise self.error(f"packet {self._record} is of interface {number}, expected one described before")
        interface = interfaces[number]
        if kind == _SIMPLE_PACKET:
            size = min(length, interface.snaplen or length)
        if at + size > len(body):
            raise self.error(f"packet {self._record} of {size} bytes, expected at most {len(body) - at}")
        time_ns = interface.offset_s * 1_000_000_000 + ticks * 1_000_000_000 // interface.ticks_per_second
        return Record(time_ns if kind != _SIMPLE_PACKET else 0, body[at : at + size], length)


class PcapWriter:
    """Writes a pcap file with nanosecond times. Use as a context manager, or call `close`.

    Records are handed to the system whole, many at once: a process that is killed leaves a readable file that
    lacks its last records. Raises ConfigError when the file cannot be made.
    """

    FLUSH_BYTES: Final = 1 << 16

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}, expected a file that can be written") from None
        self._waiting = bytearray(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, LINKTYPE_ETHERNET))
        self.flush()

    def write(self, frame: bytes, time_ns: int) -> None:
        """Append a frame (from the Ethernet header on) seen `time_ns` nanoseconds after the Unix epoch."""
        seconds, ns = divmod(time_ns, 1_000_000_000)
        self._waiting += struct.pack("<IIII", seconds, ns, len(frame), len(frame)) + frame
        if len(self._waiting) >= self.FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand what was written to the system."""
        view = memoryview(bytes(self._waiting))
        self._waiting.clear()
        while view:
            view = view[self._file.write(view) :]

    def close(self) -> None:
        """Flush and close; a second call does nothing."""
        if not self._file.closed:
            self.flush()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
