"""The codec against the vectors, itself, the field tables of epic.toml, and malformed frames."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epic_spec import codec, layout
from epic_spec.codec import (
    WIRE_REASONS,
    decode,
    decode_datagram,
    encode,
    encode_datagram,
    frame_of_datagram,
    icrc,
    mac_of_ip,
)
from epic_spec.errors import WireError
from epic_spec.layout import ICRC_VARIANT, LAYOUT
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.tables import Opcode
from spec.malformed import ACK, FIRST, MALFORMED, imm, patched, with_imm
from spec.wire import cell, fields_by_the_table, needs_vectors, packets, vectors

# ---------------------------------------------------------------------------------------------------- vectors


@needs_vectors
@pytest.mark.parametrize("vector", vectors(), ids=lambda v: v["name"])
def test_a_vector_decodes_to_its_fields(vector: dict) -> None:
    packet = decode(bytes.fromhex(vector["frame"]))
    assert packet.opcode.name == vector["opcode"]
    assert packet.payload.hex() == vector["payload"]
    assert packet.aeth == (Aeth(*vector["aeth"]) if vector["aeth"] else None)
    assert -len(packet.payload) % 4 == vector["pad"]
    assert packet.dscp << 2 | packet.ecn == vector["tos"]
    assert packet.ident == vector["ipid"]
    assert packet.ackreq == bool(vector["ackreq"])
    for name in ("src_ip", "dst_ip", "imm", "qpn", "psn", "pkey", "sport", "ttl"):
        assert getattr(packet, name) == vector[name], name


@needs_vectors
@pytest.mark.parametrize("vector", vectors(), ids=lambda v: v["name"])
def test_a_vector_encodes_to_its_bytes(vector: dict) -> None:
    frame = bytes.fromhex(vector["frame"])
    assert encode(decode(frame)) == frame
    assert icrc(frame[:-4]).hex() == vector["icrc"]


# ------------------------------------------------------------------------------------------------- round trip


@given(packets())
@example(cell(payload=bytes(codec.MAX_PAYLOAD)))
@example(cell(opcode=Opcode.SEND_FIRST, imm=None, payload=bytes(codec.MAX_PAYLOAD + 4)))
def test_what_is_encoded_decodes_to_the_same_packet(packet: Packet) -> None:
    frame = encode(packet)
    assert decode(frame) == packet
    assert encode(decode(frame)) == frame


@given(packets(), st.binary(max_size=20))
def test_ethernet_padding_is_ignored(packet: Packet, padding: bytes) -> None:
    assert decode(encode(packet) + padding) == packet


def test_any_buffer_decodes() -> None:
    frame = encode(cell())
    assert decode(memoryview(bytearray(frame))) == decode(frame) == cell()


@given(packets())
def test_without_icrc_the_frame_ends_in_zeros_and_is_otherwise_the_same(packet: Packet) -> None:
    assert encode(packet, icrc=False) == encode(packet)[:-4] + bytes(4)
    assert decode(encode(packet, icrc=False), icrc="ignore") == packet


def test_icrc_modes_verify_check_and_ignore() -> None:
    wrong = encode(cell(), icrc=False)
    with pytest.raises(WireError, match=r"^icrc: 00000000, expected [0-9a-f]{8}$"):
        decode(wrong)
    assert decode(wrong, icrc="check").icrc_ok is False
    assert decode(encode(cell()), icrc="check").icrc_ok is True
    assert decode(wrong, icrc="ignore").icrc_ok is True


@given(packets())
def test_every_field_is_where_the_table_says(packet: Packet) -> None:
    frame = encode(packet)
    got = fields_by_the_table(frame)
    number = {"dst_mac": packet.dst_mac, "src_mac": packet.src_mac}
    want = {name: int(text.replace(":", ""), 16) for name, text in number.items()}
    want |= {
        name: int.from_bytes(bytes(map(int, getattr(packet, name).split("."))))
        for name in ("src_ip", "dst_ip")
    }
    want |= {
        "ether_type": 0x0800,
        "version": 4,
        "ihl": 5,
        "protocol": 17,
        "dst_port": 4791,
        "checksum": 0,
        "tver": 0,
    }
    want |= {"total_length": len(frame) - 14, "length": len(frame) - 34, "pad": -len(packet.payload) % 4}
    want |= {"flags": 2 * packet.dont_fragment, "fragment_offset": 0, "identification": packet.ident}
    want |= {"src_port": packet.sport, "dest_qpn": packet.qpn}
    for name in (
        "dscp",
        "ecn",
        "ttl",
        "opcode",
        "se",
        "migreq",
        "pkey",
        "fecn",
        "becn",
        "resv8a",
        "ackreq",
        "resv7",
        "psn",
    ):
        want[name] = int(getattr(packet, name))
    if packet.aeth is not None:
        want |= {"syndrome": packet.aeth.syndrome, "msn": packet.aeth.msn}
    if packet.descriptor is not None:
        want |= {name: int(getattr(packet.descriptor, name)) for name in Descriptor.__slots__}
    assert {name: got[name] for name in want} == want
    # Nothing in the table is left untested: the rest is the checksum, and extensions that the packet has not.
    absent = {name for header, name in LAYOUT if header in ("aeth", "immdt")}
    assert got.keys() - want.keys() - absent == {"header_checksum"}


# ------------------------------------------------------------------------------------------------------- ICRC

# A frame in which no field under the mask or beside it is all ones, so that masking each of them counts.
MARKED = cell(dscp=0x15, ecn=1, ttl=0x55, fecn=False, becn=False, resv8a=0x2A, pkey=0x1234)


def marked_frame() -> bytes:
    frame = bytearray(encode(MARKED))
    frame[40:42] = b"\x12\x34"  # a UDP checksum: encode sends 0
    return bytes(frame)


def test_changing_a_variant_field_leaves_the_icrc_valid() -> None:
    frame = encode(MARKED)
    for changes in ({"dscp": 0}, {"ecn": 3}, {"ttl": 1}, {"fecn": True}, {"becn": True}, {"resv8a": 1}):
        assert encode(MARKED.but(**changes))[-4:] == frame[-4:], changes
    assert decode(marked_frame()) == MARKED


def test_changing_any_other_header_bit_breaks_the_icrc() -> None:
    frame = marked_frame()
    variant = [LAYOUT[place] for place in ICRC_VARIANT]
    for bit in range(14 * 8, len(frame) * 8 - 32):
        changed = bytearray(frame)
        changed[bit // 8] ^= 0x80 >> bit % 8
        covered = not any(at <= bit < at + width for at, width in variant)
        assert (icrc(changed[:-4]) != frame[-4:]) == covered, bit


def check_icrc_against_the_oracle() -> None:
    """The ICRC of MARKED as computed by scapy 2.8 (`BTH.compute_icrc`), and of the vectors."""
    assert encode(MARKED)[-4:].hex() == "9aa7b1fc"
    assert icrc(marked_frame()[:-4]).hex() == "9aa7b1fc"


def test_icrc_equals_the_oracle() -> None:
    check_icrc_against_the_oracle()


@pytest.mark.parametrize("field", ICRC_VARIANT, ids=lambda field: ".".join(field))
def test_mutant_icrc_mask_without_one_field_is_killed(
    field: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [place for place in ICRC_VARIANT if place != field]
    monkeypatch.setattr(layout, "ICRC_MASK", layout.icrc_mask(others))
    with pytest.raises(AssertionError):
        check_icrc_against_the_oracle()


UNMASKED = [place for place in LAYOUT if place not in ICRC_VARIANT and 14 * 8 <= LAYOUT[place][0] < 47 * 8]


@pytest.mark.parametrize("field", UNMASKED, ids=lambda field: ".".join(field))
def test_mutant_icrc_mask_with_one_field_more_is_killed(
    field: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "ICRC_MASK", layout.icrc_mask([*ICRC_VARIANT, field]))
    with pytest.raises(AssertionError):
        check_icrc_against_the_oracle()


# -------------------------------------------------------------------------------------------------- malformed


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_frame_is_refused_for_the_right_reason(name: str) -> None:
    reason, make = MALFORMED[name]
    with pytest.raises(WireError) as caught:
        decode(make())
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


def test_every_wire_reason_has_a_malformed_frame() -> None:
    assert {reason for reason, _ in MALFORMED.values()} == set(WIRE_REASONS)


@pytest.mark.parametrize(
    ("word", "payload", "opcode"),
    [
        (imm(operator=0, null=1), b"", Opcode.SEND_ONLY_IMM),
        (imm(operator=0, err=1), b"", Opcode.SEND_ONLY_IMM),
        (imm(operator=0, null=1, err=1), b"", Opcode.SEND_ONLY_IMM),
        (imm(operator=0, err=1), bytes(16), Opcode.SEND_ONLY_IMM),
        (imm(), b"", Opcode.SEND_LAST_IMM),
        (imm(null=1, err=1), bytes(16), Opcode.SEND_ONLY_IMM),
        (imm(null=1, err=1), bytes(8), Opcode.SEND_LAST_IMM),
    ],
)
def test_poisoned_null_and_last_packets_have_their_own_rules(
    word: int, payload: bytes, opcode: Opcode
) -> None:
    packet = decode(with_imm(word, payload, opcode))
    assert (packet.imm, packet.payload) == (word, payload)


def test_a_frame_with_two_faults_has_the_first_reason_of_the_table() -> None:
    frame = bytearray(encode(cell(), icrc=False))
    frame[42] = 0x0A
    frame[43] = 0x01
    with pytest.raises(WireError, match=r"^tver"):
        decode(bytes(frame))


def test_a_udp_checksum_is_ignored_and_sent_as_zero() -> None:
    frame = patched(40, b"\x12\x34", checksum=False)
    assert decode(frame) == cell()
    assert encode(decode(frame))[40:42] == b"\0\0"


def test_an_ip_checksum_of_minus_zero_is_a_checksum_of_zero() -> None:
    packet = next(p for i in range(0x10000) if encode(p := cell(ident=i))[24:26] == b"\0\0")
    frame = bytearray(encode(packet))
    frame[24:26] = b"\xff\xff"
    assert decode(bytes(frame)) == packet


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_wire_error(data: bytes) -> None:
    for frame in (data, encode(cell())[:14] + data, encode(cell())[:42] + data):
        try:
            decode(frame, icrc="check")
        except WireError as error:
            assert error.reason in WIRE_REASONS


@given(packets(), st.data())
def test_mutated_frames_raise_only_wire_error_or_decode_to_what_encodes(
    packet: Packet, data: st.DataObject
) -> None:
    frame = bytearray(encode(packet))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    del frame[data.draw(st.integers(30, len(frame))) :]
    try:
        decoded = decode(bytes(frame), icrc="check")
    except WireError as error:
        assert error.reason in WIRE_REASONS
    else:
        assert decode(encode(decoded)) == decoded


def test_one_flipped_bit_anywhere_is_never_taken_for_another_packet() -> None:
    """Every single-bit error is refused or only touches what the ICRC does not cover."""
    frame = encode(cell())
    rng = random.Random(1)
    for bit in rng.sample(range(14 * 8, len(frame) * 8), 400):
        changed = bytearray(frame)
        changed[bit // 8] ^= 0x80 >> bit % 8
        try:
            packet = decode(bytes(changed))
        except WireError:
            continue
        assert packet.but(ecn=2, dscp=0, ttl=64, fecn=False, becn=False, resv8a=0) == cell()


# ---------------------------------------------------------------------------------------------- encode checks


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"psn": 1 << 24}, "psn 16777216, expected 0 to 16777215"),
        ({"psn": -1}, "psn -1, expected 0 to 16777215"),
        ({"qpn": 1 << 24}, "qpn 16777216, expected 0 to 16777215"),
        ({"pkey": 1 << 16}, "pkey 65536, expected 0 to 65535"),
        ({"sport": -1}, "sport -1, expected 0 to 65535"),
        ({"ecn": 4}, "ecn 4, expected 0 to 3"),
        ({"dscp": 64}, "dscp 64, expected 0 to 63"),
        ({"ttl": 256}, "ttl 256, expected 0 to 255"),
        ({"ident": 1 << 16}, "ident 65536, expected 0 to 65535"),
        ({"resv8a": 64}, "resv8a 64, expected 0 to 63"),
        ({"resv7": 128}, "resv7 128, expected 0 to 127"),
        ({"ackreq": 2}, "ackreq 2, expected 0 to 1"),
        ({"se": 2}, "se 2, expected 0 to 1"),
        ({"imm": None}, "imm None, expected a value with SEND_ONLY_IMM"),
        ({"imm": 1 << 32}, "imm 0x100000000, expected 0 to 0xffffffff"),
        ({"aeth": Aeth(0)}, "aeth Aeth"),
        ({"opcode": Opcode.ACK}, "imm 4294905861, expected None with ACK"),
        ({"opcode": Opcode.ACK, "imm": None}, "aeth None, expected a value with ACK"),
        ({"src_ip": "10.0.0.256"}, "IPv4 address '10.0.0.256'"),
        ({"dst_ip": "host"}, "IPv4 address 'host'"),
        ({"src_mac": "02:00:00:00:00"}, "MAC address '02:00:00:00:00'"),
        ({"dst_mac": "02:00:00:00:00:0g"}, "MAC address"),
    ],
)
def test_a_field_out_of_range_is_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        encode(cell(**changes))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (cell(opcode=0x0A), "opcode"),
        (ACK.but(aeth=Aeth(0x40)), "syndrome"),
        (cell(imm=imm(null=1)), "descriptor"),
        (cell(payload=b""), "descriptor"),
        (cell(payload=bytes(codec.MAX_PAYLOAD + 1)), "ip_length"),
        (FIRST.but(payload=bytes(codec.MAX_PAYLOAD + 5)), "ip_length"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_packet_that_would_not_decode_is_not_encoded(packet: Packet, reason: str) -> None:
    with pytest.raises(WireError) as caught:
        encode(packet)
    assert caught.value.reason == reason


def test_icrc_of_a_frame_without_headers_is_refused() -> None:
    with pytest.raises(WireError, match=r"^truncated: 53 bytes"):
        icrc(bytes(53))


# --------------------------------------------------------------------------------------------- socket binding


@given(packets(datagram=True), st.sampled_from([4791, 0xC000, 1]))
def test_a_datagram_carries_the_packet(packet: Packet, sport: int) -> None:
    data = encode_datagram(packet, sport=sport)
    received = decode_datagram(data, packet.src_ip, packet.dst_ip, sport, ecn=packet.ecn)
    assert received == packet.but(
        sport=sport, src_mac=mac_of_ip(packet.src_ip), dst_mac=mac_of_ip(packet.dst_ip)
    )


@given(packets())
def test_a_datagram_is_the_udp_payload_of_the_frame_with_the_conventional_headers(packet: Packet) -> None:
    data = encode_datagram(packet, sport=packet.sport)
    assert encode(packet.but(ident=0, dont_fragment=True))[42:] == data
    frame = frame_of_datagram(
        data, packet.src_ip, packet.dst_ip, packet.sport, ecn=packet.ecn, ttl=packet.ttl
    )
    macs = {"src_mac": mac_of_ip(packet.src_ip), "dst_mac": mac_of_ip(packet.dst_ip)}
    assert frame == encode(packet.but(ident=0, dont_fragment=True, dscp=0, **macs))


def test_a_datagram_from_another_port_has_a_bad_icrc() -> None:
    data = encode_datagram(cell())
    with pytest.raises(WireError, match=r"^icrc"):
        decode_datagram(data, "10.0.0.1", "10.0.0.2", 4792)
    with pytest.raises(WireError, match=r"^icrc"):
        decode_datagram(data, "10.0.0.3", "10.0.0.2")


@given(st.binary(max_size=80))
def test_any_datagram_raises_only_wire_error(data: bytes) -> None:
    try:
        decode_datagram(data, "127.0.0.1", "127.0.0.2", icrc="check")
    except WireError as error:
        assert error.reason in WIRE_REASONS
    assert frame_of_datagram(data, "127.0.0.1", "127.0.0.2")[42:] == data


def test_mac_of_ip_is_02_00_and_the_address() -> None:
    assert mac_of_ip("127.0.0.11") == "02:00:7f:00:00:0b"


@pytest.mark.parametrize("arguments", [{"sport": 65536}, {"ecn": 4}, {"ttl": -1}])
def test_a_datagram_header_out_of_range_is_named(arguments: dict) -> None:
    with pytest.raises(ValueError, match=rf"^{next(iter(arguments))} "):
        frame_of_datagram(b"", "127.0.0.1", "127.0.0.2", **arguments)
    with pytest.raises(ValueError, match=r"^datagram of 65508 bytes, expected at most 65507"):
        frame_of_datagram(bytes(65508), "127.0.0.1", "127.0.0.2")
