"""Datagrams in and out, compiled: parse, check, count and verify what arrives; head and ICRC of what leaves.

Realizes what `epic_spec.codec.decode_datagram` and the reference's `EngineBase.receive` do with a frame before a mode
looks at it (EPIC-W-12 to EPIC-W-21, EPIC-E-01 to EPIC-E-04), in the same order, so that every frame has the same
reason.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from epic_host.fast.compiled import (
    Word,
    compiled,
    load8,
    load16,
    load32,
    store32,
    store64,
    swapped16,
    swapped32,
)
from epic_host.fast.crc import TABLES, crc_shift, crc_update, double_step
from epic_host.fast.frames import (
    ARRIVAL,
    EDGE,
    FRAME,
    HEAD_BYTES,
    INDEX,
    NO_EDGE,
    TAIL_BYTES,
    UNVERIFIED,
    WRONG,
    Departures,
    Records,
    find_edge,
)
from epic_host.fast.world import Shape
from epic_spec.codec import DESCRIPTOR_FAULTS
from epic_spec.layout import DF, LEAST_TOTAL, PROTOCOL_UDP, VERSION_IHL
from epic_spec.packets import ECN_ECT0
from epic_spec.tables import EXTENDED, OPCODE_MODES, SYNDROME_MASK, UDP_PORT, Opcode, Syndrome

BTH_BYTES: Final = 12
ICRC_BYTES: Final = 4
ACK: Final = int(Opcode.ACK)
ONLY_IMM: Final = int(Opcode.SEND_ONLY_IMM)
CE: Final = 3

# ---------------------------------------------------------------------- tables, looked up a frame

# Bit m set: the opcode is used in mode m; bit 0: it exists; bit 7: an extension header of 4 bytes follows.
_EXISTS, _EXTENDED = 1, 128
OPCODES: Final = np.zeros(256, np.uint8)
for _opcode in Opcode:
    OPCODES[int(_opcode)] = (
        _EXISTS
        | sum(1 << mode for mode in OPCODE_MODES[_opcode.name])
        | (_EXTENDED if EXTENDED[_opcode.name] else 0)
    )
_FAULTS: Final = np.array([list(row) for row in DESCRIPTOR_FAULTS], np.uint8)
_HAS_PAYLOAD: Final = int(Opcode.SEND_LAST_IMM)
_SYNDROMES: Final = np.zeros(256, np.uint8)
for _value in range(256):
    _SYNDROMES[_value] = _value & SYNDROME_MASK in {int(s) for s in Syndrome}
_MASK: Final = int(SYNDROME_MASK)

_RX_FRAMES: Final = INDEX["rx_frames"]
_RX_CE: Final = INDEX["rx_ce"]
_TRUNCATED, _TVER, _OPCODE, _PAD = (INDEX[f"drop_{n}"] for n in ("truncated", "tver", "opcode", "pad"))
_SYNDROME, _DESCRIPTOR, _ICRC = (INDEX[f"drop_{n}"] for n in ("syndrome", "descriptor", "icrc"))
_UNKNOWN, _PORT, _ADDRESS = (INDEX[f"drop_{n}"] for n in ("unknown_qpn", "wrong_port", "wrong_address"))
_PKEY, _ROLE = INDEX["drop_pkey"], INDEX["drop_role"]


def _icrc_tables() -> tuple[int, NDArray[np.uint32]]:
    """The register after the pseudo header, the IP and the UDP header, in parts that are combined by exclusive or.

    The register depends on the header's bytes linearly. The first part is that of a header whose variable bytes are
    zeros; row i of the second has what each value of the i-th variable byte adds: total length, source, destination,
    source port, UDP length, two, four, four, two and two bytes.
    """
    fixed = bytearray(b"\xff" * 8)
    fixed += bytes([VERSION_IHL, 0xFF, 0, 0, 0, 0, DF >> 8, DF & 255, 0xFF, PROTOCOL_UDP, 0xFF, 0xFF])
    fixed += bytes(8) + bytes(2) + UDP_PORT.to_bytes(2, "big") + bytes(2) + b"\xff\xff"
    variable = [10, 11, *range(20, 28), 28, 29, 32, 33]

    def after(data: bytes, state: int) -> int:
        t = TABLES[0].tolist()
        for byte in data:
            state = t[(state ^ byte) & 255] ^ state >> 8
        return state

    rows = np.zeros((len(variable), 256), np.uint32)
    for row, place in enumerate(variable):
        for value in range(256):
            rows[row, value] = after(bytes([value]) + bytes(len(fixed) - place - 1), 0)
    return after(bytes(fixed), 0xFFFFFFFF), rows


_FIXED, _PARTS = _icrc_tables()


@compiled
def icrc_prefix(source: Word, destination: Word, sport: Word, payload_bytes: Word) -> Word:
    """The register after everything before the BTH of a datagram of `payload_bytes` (BTH to ICRC)."""
    total, length = payload_bytes + 28, payload_bytes + 8
    state = np.uint32(_FIXED)
    state ^= _PARTS[0, total >> 8 & 255] ^ _PARTS[1, total & 255]
    for i in range(4):
        state ^= (
            _PARTS[2 + i, source >> (24 - 8 * i) & 255] ^ _PARTS[6 + i, destination >> (24 - 8 * i) & 255]
        )
    state ^= _PARTS[10, sport >> 8] ^ _PARTS[11, sport & 255]
    state ^= _PARTS[12, length >> 8 & 255] ^ _PARTS[13, length & 255]
    return state


@compiled
def icrc_of(at: Word, length: Word, source: Word, destination: Word, sport: Word) -> Word:
    """The ICRC of a datagram of `length` bytes at the address `at`, as the native word that stands at its end."""
    at = np.uint64(at)
    state = icrc_prefix(source, destination, sport, length)
    # resv8a, the fifth byte of the BTH, counts as ones.
    state = double_step(state, load32(at), load32(at + np.uint64(4)) | np.uint32(0xFF))
    return ~crc_update(state, at + np.uint64(8), length - 8 - ICRC_BYTES)


# ---------------------------------------------------------------------- in


@compiled
def parse(at: Word, length: Word, frame: Any) -> Word:
    """The fields of a datagram of `length` bytes at the address `at` into `frame`: psn, word, opcode, ackreq, length.

    Returns the counter of the reason it is dropped for, or -1. `frame.length` is the payload's without pad; `word` is
    ImmDt or AETH.
    """
    at = np.uint64(at)
    if length < LEAST_TOTAL - 28:
        return _TRUNCATED
    if load8(at + np.uint64(1)) & np.uint8(15):
        return _TVER
    opcode = int(load8(at))
    kind = OPCODES[opcode]
    if not kind & _EXISTS:
        return _OPCODE
    start = BTH_BYTES
    word = np.uint32(0)
    if kind & _EXTENDED:
        start += 4
        if length < start + ICRC_BYTES:
            return _TRUNCATED
        word = swapped32(load32(at + np.uint64(BTH_BYTES)))
    payload = length - ICRC_BYTES - start
    pad = int(load8(at + np.uint64(1)) >> np.uint8(4) & np.uint8(3))
    if payload & 3 or pad > payload:
        return _PAD
    payload -= pad
    if kind & _EXTENDED:
        if opcode == ACK:
            if not _SYNDROMES[word >> np.uint32(24)]:
                return _SYNDROME
        elif _FAULTS[int(payload > 0 or opcode == _HAS_PAYLOAD), int(word >> np.uint32(6)) & 1023]:
            return _DESCRIPTOR
    last = swapped32(load32(at + np.uint64(8)))
    frame.psn = last & np.uint32(0xFFFFFF)
    frame.ackreq = np.uint8(last >> np.uint32(31))
    frame.word = word
    frame.opcode = np.uint8(opcode)
    frame.length = payload
    return -1


@compiled
def _misfit(edge: Any, arrival: Any, address: Word, at: Word, opcode: Word, icrc_ok: bool) -> Word:
    """The counter of the reason why a frame may not be taken as having come over `edge`, or -1 (P6)."""
    if not icrc_ok and edge.icrc:
        return _ICRC
    if arrival.port != edge.port:
        return _PORT
    if arrival.source != edge.peer_ip or address != edge.local_ip:
        return _ADDRESS
    if swapped16(load16(at + np.uint64(2))) != edge.pkey:
        return _PKEY
    if not OPCODES[opcode] >> edge.mode & 1:
        return _ROLE
    return -1


@compiled
def admit(
    arena: Word,
    arrivals: Records,
    first: Word,
    stop: Word,
    address: Word,
    edges: Records,
    places: NDArray[np.int32],
    counters: NDArray[np.int64],
    frames: Records,
) -> None:
    """Parse, check and count arrivals `first` to `stop`, whose bytes are at the address `arena`, into `frames`.

    frames[i - first] has what arrival i holds; its `edge` is NO_EDGE when the frame was dropped. `address` is the IPv4
    address that the datagrams were sent to, as a number.
    """
    for i in range(first, stop):
        arrival, frame = arrivals[i], frames[i - first]
        frame.arrival, frame.edge = i, NO_EDGE
        counters[_RX_FRAMES] += 1
        at = np.uint64(arena) + np.uint64(arrival.offset)
        reason = parse(at, arrival.length, frame)
        if reason < 0 and arrival.port < 0:
            reason = _PORT
        if reason >= 0:
            counters[reason] += 1
            continue
        row = find_edge(places, edges, swapped32(load32(at + np.uint64(4))) & np.uint32(0xFFFFFF))
        # Where an edge asks for no ICRC it is not computed at all.
        verify = row == NO_EDGE or edges[row].icrc
        icrc_ok = arrival.icrc != WRONG
        if verify and arrival.icrc == UNVERIFIED:
            end = at + np.uint64(arrival.length - ICRC_BYTES)
            icrc_ok = load32(end) == np.uint32(
                icrc_of(at, arrival.length, arrival.source, address, arrival.sport)
            )
        if row == NO_EDGE:
            counters[_UNKNOWN if icrc_ok else _ICRC] += 1
            continue
        reason = _misfit(edges[row], arrival, address, at, frame.opcode, icrc_ok)
        if reason >= 0:
            counters[reason] += 1
            continue
        kind = OPCODES[frame.opcode]
        frame.ce = arrival.ecn == CE
        counters[_RX_CE] += int(arrival.ecn == CE and frame.opcode != ACK)
        frame.offset = arrival.offset + BTH_BYTES + (4 if kind & _EXTENDED else 0)
        frame.edge = row


# What `admit_at` works on, as one word: numba looks at the type of every array that Python passes, which takes longer
# than a frame does.
ADMISSION: Final = Shape(
    "Admission",
    {"arrivals": ARRIVAL, "edges": EDGE, "places": np.int32, "counters": np.int64, "frames": FRAME},
)
_admission_at: Final = ADMISSION.at


@compiled
def admit_at(admission: Word, arena: Word, first: Word, stop: Word, address: Word) -> None:
    """`admit` on the arrays of the ADMISSION at an address."""
    w = _admission_at(admission)
    admit(arena, w.arrivals, first, stop, address, w.edges, w.places, w.counters, w.frames)


# ---------------------------------------------------------------------- out


@compiled
def depart(
    out: Departures,
    edges: Records,
    row: Word,
    opcode: Word,
    psn: Word,
    word: Word,
    ackreq: bool,
    body: Word,
    length: Word,
    body_crc: Word,
    congested: bool,
) -> None:
    """Queue a frame that leaves by edge `row`: `length` bytes at the address `body`, padded there with zeros to words.

    `word` is ImmDt or AETH, `psn` the number on the wire, `body_crc` the register `crc_update(0, …)` over the padded
    body, which frames with the same payload share.
    """
    i = out.count[0]
    out.count[0] = i + 1
    edge = edges[row]
    pad = -length & 3
    padded = length + pad
    # The four words of the head as they stand in memory, for the ICRC goes over them as such.
    w0 = (
        np.uint32(opcode) | np.uint32(pad) << np.uint32(12) | np.uint32(swapped16(edge.pkey)) << np.uint32(16)
    )
    w1 = swapped32(edge.peer_qpn)
    w2 = swapped32(np.uint32(psn) & np.uint32(0xFFFFFF) | np.uint32(ackreq) << np.uint32(31))
    w3 = swapped32(word)
    out.body[i], out.length[i], out.edge[i] = np.uint64(body), padded, row
    out.ecn[i] = CE if congested and edge.ecn else ECN_ECT0
    icrc = np.uint32(0)
    if edge.icrc:
        state = icrc_prefix(edge.local_ip, edge.peer_ip, UDP_PORT, padded + BTH_BYTES + 4 + ICRC_BYTES)
        state = double_step(state, w0, w1 | np.uint32(0xFF))
        state = double_step(state, w2, w3)
        if padded:
            state = crc_shift(state, padded) ^ np.uint32(body_crc)
        icrc = ~np.uint32(state)
    # By address: a view of a row would be an object to count references of.
    head = np.uint64(out.head.ctypes.data) + np.uint64(i) * np.uint64(HEAD_BYTES)
    store64(head, np.uint64(w0) | np.uint64(w1) << np.uint64(32))
    store64(head + np.uint64(8), np.uint64(w2) | np.uint64(w3) << np.uint64(32))
    store32(np.uint64(out.tail.ctypes.data) + np.uint64(i) * np.uint64(TAIL_BYTES), icrc)
