"""The flags of `epic pcap`, and the lines it makes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from epic_spec.capture import Annotator, Line, text
from epic_spec.codec import encode
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.pcap import Record
from epic_spec.tables import Opcode, Operator, Primitive
from spec.malformed import MALFORMED
from spec.wire import cell

TOP = 1 << 24
KEYS = [
    "opcode",
    "src_ip",
    "dst_ip",
    "qpn",
    "psn",
    "imm",
    "descriptor",
    "payload_len",
    "icrc_ok",
    "flags",
    "time",
]


def lines(frames: list[bytes | Packet], stale: int = 128) -> list[Line]:
    annotator = Annotator(stale)
    raw = [frame if isinstance(frame, bytes) else encode(frame) for frame in frames]
    return [annotator.line(Record(i * 1000, frame, len(frame))) for i, frame in enumerate(raw)]


def flags(frames: list[bytes | Packet], stale: int = 128) -> list[tuple[str, ...]]:
    return [line.flags for line in lines(frames, stale)]


def psns(*numbers: int) -> list[bytes | Packet]:
    return [cell(psn=number % TOP) for number in numbers]


def test_packets_in_order_have_no_flag_even_with_gaps() -> None:
    assert flags(psns(5, 6, 7, 9, 200)) == [()] * 5


def test_a_psn_that_was_seen_is_a_retransmission() -> None:
    assert flags(psns(5, 6, 5, 6)) == [(), (), ("retransmission",), ("retransmission",)]


def test_an_older_psn_that_was_not_seen_is_out_of_order() -> None:
    assert flags(psns(5, 7, 6, 6)) == [(), (), ("out-of-order",), ("retransmission",)]


def test_a_packet_before_the_first_of_the_capture_is_out_of_order() -> None:
    assert flags(psns(5, 4)) == [(), ("out-of-order",)]


def test_a_packet_is_stale_from_the_distance_on() -> None:
    assert flags(psns(0, 1, 128, 1, 0)) == [(), (), (), ("retransmission",), ("retransmission", "stale")]
    assert flags(psns(0, 8, 1, 0), stale=8) == [(), (), ("out-of-order",), ("retransmission", "stale")]


def test_the_psn_wraps() -> None:
    got = flags(psns(TOP - 2, TOP - 1, 0, 1, TOP - 1, TOP - 3, 126, TOP - 2))
    assert got[:4] == [()] * 4
    assert got[4:] == [("retransmission",), ("out-of-order",), (), ("retransmission", "stale")]


def test_a_psn_of_the_lap_before_is_not_a_retransmission() -> None:
    steps = range(0, 3 * TOP, TOP // 8)
    assert flags(psns(*steps)) == [()] * len(steps)


def test_flows_do_not_mix() -> None:
    other = [cell(psn=5, qpn=9), cell(psn=5, src_ip="10.0.0.3"), cell(psn=5, dst_ip="10.0.0.3")]
    assert flags([cell(psn=5), *other]) == [()] * 4


def test_another_opcode_of_a_psn_is_not_a_retransmission() -> None:
    first = cell(opcode=Opcode.SEND_FIRST, imm=None, psn=5)
    assert flags([cell(psn=5), first, first]) == [(), (), ("retransmission",)]


def test_acknowledgements_may_repeat_and_do_not_count_as_data() -> None:
    ack = cell(opcode=Opcode.ACK, imm=None, aeth=Aeth(0x1F), payload=b"", psn=500)
    assert flags([cell(psn=5), ack, ack, cell(psn=6)]) == [()] * 4


def test_a_frame_with_a_bad_icrc_does_not_count() -> None:
    broken = bytearray(encode(cell(psn=900)))
    broken[70] ^= 1
    got = flags([cell(psn=5), bytes(broken), cell(psn=6)])
    assert got == [(), ("bad-icrc",), ()]


def test_a_frame_without_icrc_is_marked_and_counts() -> None:
    bare = encode(cell(psn=5), icrc=False)
    assert flags([bare, bare]) == [("bad-icrc", "no-icrc"), ("retransmission", "bad-icrc", "no-icrc")]


def test_descriptor_bits_and_congestion_are_flags() -> None:
    imm = Descriptor(Primitive.REDUCE, Operator.SUM, rank=1, null=True, err=True).pack()
    assert flags([cell(imm=imm, payload=b"", ecn=3)]) == [("err", "null", "ce")]


@given(st.lists(st.integers(-300, 300), max_size=60), st.integers(0, TOP - 1), st.sampled_from([1, 8, 128]))
def test_flags_equal_those_of_unbounded_numbers(numbers: list[int], base: int, stale: int) -> None:
    """The same rules on numbers that do not wrap, with a set of all that was seen."""
    want: list[tuple[str, ...]] = []
    seen: set[int] = set()
    for number in numbers:
        behind = max(seen, default=number) - number
        row = ["retransmission"] if number in seen else ["out-of-order"] if behind > 0 else []
        want.append(tuple(row + ["stale"] * (behind >= stale)))
        seen.add(number)
    assert flags(psns(*(base + number for number in numbers)), stale) == want


def test_json_has_the_same_keys_for_every_frame() -> None:
    frames = [
        encode(cell()),
        encode(cell(opcode=Opcode.SEND_FIRST, imm=None)),
        *(make() for _, make in MALFORMED.values()),
    ]
    for line in lines(frames):
        row = line.to_dict()
        assert list(row) == KEYS + ["reason"] * bool(line.reason)
        assert json.loads(json.dumps(row)) == row


def test_json_of_a_cell() -> None:
    [line] = lines([cell()])
    assert line.to_dict() == {
        "opcode": "SEND_ONLY_IMM",
        "src_ip": "10.0.0.1",
        "dst_ip": "10.0.0.2",
        "qpn": 0x1234,
        "psn": 77,
        "imm": 0xFFFF1005,
        "descriptor": {
            "primitive": "ALLREDUCE",
            "operator": "SUM",
            "datatype": "INT32",
            "rank": 0xFFFF,
            "null": False,
            "err": False,
            "tag": 5,
        },
        "payload_len": 64,
        "icrc_ok": True,
        "flags": [],
        "time": 0.0,
    }


def test_a_malformed_frame_gives_its_reason_and_what_can_be_seen() -> None:
    for reason, make in MALFORMED.values():
        [line] = lines([make()])
        if reason == "icrc":
            assert line.flags == ("bad-icrc",)
            continue
        assert line.to_dict()["reason"].startswith(f"{reason}: ")
        assert line.to_dict()["qpn"] == (0x1234 if line.glimpse else None)
        assert bool(line.glimpse) == (reason in ("tver", "opcode", "pad", "syndrome", "descriptor"))
        assert "\n" not in text(line, 0)
    [line] = lines([MALFORMED["RDMA WRITE"][1]()])
    assert line.to_dict()["opcode"] == "0x0a"


def test_a_frame_that_the_capture_cut_says_so() -> None:
    line = Annotator().line(Record(0, encode(cell())[:60], 126))
    assert line.reason == "ip_length"
    assert line.detail.endswith("(captured 60 of 126 bytes)")


def test_text_is_one_line_that_fits_100_columns() -> None:
    far = {"src_ip": "192.168.1.10", "dst_ip": "192.168.1.20"}
    ack = cell(opcode=Opcode.ACK, imm=None, payload=b"", aeth=Aeth(0x60, 0xFFFFFF), psn=TOP - 1, **far)
    worst = cell(
        psn=TOP - 1,
        payload=bytes(8192),
        imm=Descriptor(Primitive.ALLREDUCE, Operator.MAX, tag=63).pack(),
        **far,
    )
    for line in lines([ack, worst]):
        assert len(text(line, 0)) <= 100
    assert text(lines([worst, worst])[1], 0).endswith("ALLREDUCE MAX INT32 tag=63 [retransmission]")
    assert text(lines([ack])[0], 0).split()[5:] == ["NAK", "0", "msn=16777215", "code=0"]
