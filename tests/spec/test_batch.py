"""The batch codec says of every frame what the single codec says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epic_spec import batch, codec, layout
from epic_spec.batch import (
    COMPUTED,
    FIELDS,
    GOOD,
    REASON_CODES,
    decode_batch,
    encode_batch,
    fields_of,
    icrc_batch,
)
from epic_spec.codec import decode, encode
from epic_spec.errors import WireError
from epic_spec.packets import Aeth, Packet
from epic_spec.tables import HEADERS, Opcode
from spec.malformed import MALFORMED
from spec.wire import cell, fields_by_the_table, packets


def rows(frames: list[bytes], extra: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Frames as a batch whose rows are filled up with 0xEE."""
    stride = max(map(len, frames), default=0) + extra
    array = np.full((len(frames), stride), 0xEE, np.uint8)
    for row, frame in zip(array, frames, strict=True):
        row[: len(frame)] = np.frombuffer(frame, np.uint8)
    return array, np.array([len(frame) for frame in frames], np.int64)


def payload_rows(some: list[Packet]) -> tuple[np.ndarray, np.ndarray]:
    return rows([packet.payload for packet in some])


def assert_agrees(frames: list[bytes], mode: codec.IcrcMode, extra: int = 0) -> None:
    got = decode_batch(*rows(frames, extra), icrc=mode)
    for i, frame in enumerate(frames):
        try:
            packet = decode(frame, icrc=mode)
        except WireError as error:
            assert got.reason[i] == REASON_CODES[error.reason], error
            continue
        assert got.reason[i] == GOOD
        assert got.icrc_ok[i] == packet.icrc_ok
        assert got.payload(i).tobytes() == packet.payload
        assert got.packet(i) == packet
        assert got.packet(i).icrc_ok == packet.icrc_ok
        assert got.imm[i] == (packet.imm or 0)
        present = {name for header in ("ethernet", "ipv4", "udp", "bth") for name, _ in HEADERS[header]}
        present |= {name for name, _ in HEADERS["immdt"] if packet.imm is not None}
        present |= {name for name, _ in HEADERS["aeth"] if packet.aeth is not None}
        table = fields_by_the_table(frame)
        for name in FIELDS.names:
            assert got.fields[name][i] == (table[name] if name in present else 0), name


@settings(deadline=None)
@given(st.lists(packets(), max_size=6), st.integers(0, 9), st.sampled_from(["verify", "check", "ignore"]))
def test_good_frames_decode_as_one_by_one(some: list[Packet], extra: int, mode: codec.IcrcMode) -> None:
    assert_agrees([encode(packet) for packet in some], mode, extra)


@pytest.mark.parametrize("mode", ["verify", "check", "ignore"])
def test_malformed_frames_have_the_same_reasons(mode: codec.IcrcMode) -> None:
    assert_agrees([make() for _, make in MALFORMED.values()] + [encode(cell())], mode)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=120), max_size=6))
@example([b""])
def test_random_bytes_have_the_same_reasons(tails: list[bytes]) -> None:
    good = encode(cell())
    assert_agrees([head + tail for tail in tails for head in (b"", good[:14], good[:42], good[:54])], "check")


@settings(deadline=None, max_examples=200)
@given(st.lists(packets(), min_size=1, max_size=4), st.data())
def test_mutated_frames_have_the_same_reasons(some: list[Packet], data: st.DataObject) -> None:
    frames = []
    for packet in some:
        frame = bytearray(encode(packet))
        for _ in range(data.draw(st.integers(0, 3))):
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
        frames.append(
            bytes(frame[: data.draw(st.integers(0, len(frame)))] if data.draw(st.booleans()) else frame)
        )
    assert_agrees(frames, "verify")


@settings(deadline=None)
@given(st.lists(packets(), max_size=6), st.booleans())
def test_packets_encode_as_one_by_one(some: list[Packet], with_icrc: bool) -> None:
    frames, lengths = encode_batch(fields_of(some), *payload_rows(some), icrc=with_icrc)
    assert [frames[i, : lengths[i]].tobytes() for i in range(len(some))] == [
        encode(p, icrc=with_icrc) for p in some
    ]
    for i, length in enumerate(lengths):
        assert not frames[i, length:].any()


@settings(deadline=None)
@given(st.lists(packets(), min_size=1, max_size=6))
def test_decoded_fields_encode_to_the_same_frames(some: list[Packet]) -> None:
    frames, lengths = rows([encode(packet) for packet in some])
    got = decode_batch(frames, lengths)
    again, same = encode_batch(got.fields, *payload_rows(some))
    assert (same == lengths).all()
    for i, length in enumerate(lengths):
        assert (again[i, :length] == frames[i, :length]).all()


def test_payloads_of_equal_cells_are_one_view() -> None:
    frames, lengths = rows([encode(cell(psn=i, payload=bytes([i]) * 64)) for i in range(4)])
    got = decode_batch(frames, lengths)
    everything = got.payloads(np.arange(4))
    assert np.shares_memory(everything, frames)
    assert everything.tolist() == [[i] * 64 for i in range(4)]
    assert got.payloads(np.array([2, 1])).tolist() == [[2] * 64, [1] * 64]
    assert got.payloads(np.array([], np.int64)).shape == (0, 0)


def test_payloads_of_unequal_cells_are_refused() -> None:
    got = decode_batch(*rows([encode(cell()), encode(cell(payload=bytes(8)))]))
    with pytest.raises(ValueError, match=r"^payloads of 2 rows"):
        got.payloads(np.arange(2))


def test_a_refused_row_raises_its_error_when_asked_for_as_a_packet() -> None:
    frames = [make() for _, make in MALFORMED.values()]
    got = decode_batch(*rows(frames))
    for i, (reason, _) in enumerate(MALFORMED.values()):
        with pytest.raises(WireError) as caught:
            got.packet(i)
        assert caught.value.reason == reason
        assert len(got.payload(i)) == 0


def test_icrc_batch_does_not_touch_its_input() -> None:
    frame = encode(cell())
    frames, lengths = rows([frame])
    assert icrc_batch(frames, lengths - 4)[0] == int.from_bytes(frame[-4:], "little")
    assert frames.tobytes() == frame


@pytest.mark.parametrize("field", layout.ICRC_VARIANT, ids=lambda field: ".".join(field))
def test_mutant_icrc_mask_is_killed_in_batches_too(
    field: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, lengths = rows([encode(cell(dscp=0x15, ecn=1, ttl=0x55))])
    monkeypatch.setattr(layout, "ICRC_MASK", layout.icrc_mask([f for f in layout.ICRC_VARIANT if f != field]))
    # All but the UDP checksum and resv8a are other than ones here, as are those two: they are 0.
    assert decode_batch(frames, lengths).reason[0] == REASON_CODES["icrc"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"psn": 1 << 24}, "row 1: psn 16777216, expected 0 to 16777215"),
        ({"resv7": 128}, "row 1: resv7 128, expected 0 to 127"),
        ({"ecn": 4}, "row 1: ecn 4, expected 0 to 3"),
        ({"flags": 1}, "row 1: flags 1, expected 2 .DF. or 0"),
        ({"opcode": 10}, "opcode: row 1: opcode 10, expected one of the table"),
        ({"opcode": Opcode.ACK, "syndrome": 0x40}, "syndrome: row 1: syndrome 64, expected ACK"),
        ({"null": 1}, "descriptor: row 1: imm"),
        ({"primitive": 3}, "descriptor: row 1: imm"),
        ({"dst_mac": 1 << 48}, "row 1: dst_mac"),
    ],
)
def test_a_field_out_of_range_is_named_with_its_row(changes: dict, message: str) -> None:
    fields = fields_of([cell(), cell()])
    for name, value in changes.items():
        fields[name][1] = value
    with pytest.raises((ValueError, WireError), match=rf"^{message}"):
        encode_batch(fields, *payload_rows([cell(), cell()]))


def test_a_payload_that_does_not_fit_is_refused() -> None:
    ack = cell(opcode=Opcode.ACK, imm=None, aeth=Aeth(0), payload=b"")
    with pytest.raises(WireError, match=r"^ip_length: row 1: payload length 65485"):
        encode_batch(fields_of([ack, ack]), np.zeros((2, 65485), np.uint8), np.array([0, 65485]))


@pytest.mark.parametrize(
    ("frames", "lengths", "message"),
    [
        (np.zeros((2, 60), np.int8), [60, 60], "frames int8"),
        (np.zeros(60, np.uint8), [60], "frames uint8"),
        (np.zeros((2, 60), np.uint8), [60], "lengths "),
        (np.zeros((2, 60), np.uint8), [60, 61], "lengths from 60 to 61, expected 0 to 60"),
        (np.zeros((2, 60), np.uint8), [-1, 61], "lengths from -1"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(frames: np.ndarray, lengths: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^{message}"):
        decode_batch(frames, np.array(lengths))


def test_the_dtype_is_the_spec_s() -> None:
    assert set(FIELDS.names) == {name for fields in HEADERS.values() for name, _ in fields}
    assert set(FIELDS.names) > COMPUTED
    for fields in HEADERS.values():
        for name, width in fields:
            assert FIELDS[name].itemsize * 8 >= width


def test_an_empty_batch_is_a_batch() -> None:
    got = decode_batch(np.zeros((0, 60), np.uint8), np.zeros(0, np.int64))
    assert len(got) == 0
    frames, lengths = encode_batch(got.fields, np.zeros((0, 0), np.uint8), np.zeros(0, np.int64))
    assert frames.shape[0] == len(lengths) == 0
    assert batch.pack_imm(got.fields).shape == (0,)
