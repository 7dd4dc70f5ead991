"""What epic.md says must be so: its worked frames, ICRC, and the sentences of the clauses."""

from __future__ import annotations

import re
from zlib import crc32

import pytest

from epic_spec import codec
from epic_spec.loader import SPEC_DIR, load
from epic_spec.packets import Packet
from epic_spec.tables import COUNTERS, DROPS, Datatype, Opcode, Operator, Primitive

TEXT = (SPEC_DIR / "epic.md").read_text(encoding="utf-8")
PROSE = re.sub(r"<!-- gen:\S+ -->.*?<!-- /gen -->", "", TEXT, flags=re.DOTALL)
CLAUSES = load()["clause"]


def blocks(kind: str) -> list[bytes]:
    """The bytes of the hex blocks of a kind."""
    return [bytes.fromhex("".join(m.split())) for m in re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)]


def plain(text: str) -> str:
    """One line, without marks of code, so that wrapping and quoting do not matter."""
    return " ".join(text.replace("`", "").split())


FRAMES = blocks("frame")


def frame(number: int) -> Packet:
    return codec.decode(FRAMES[number])


@pytest.mark.parametrize("raw", FRAMES, ids=["contribution", "padded", "ack"])
def test_a_frame_of_the_text_decodes_with_its_icrc_and_encodes_to_the_same_bytes(raw: bytes) -> None:
    assert codec.encode(codec.decode(raw, icrc="verify")) == raw


def test_the_contribution_is_what_the_text_says_of_it() -> None:
    packet = frame(0)
    assert (packet.opcode, packet.src_ip, packet.dst_ip) == (Opcode.SEND_ONLY_IMM, "10.0.0.2", "10.0.0.1")
    assert (packet.qpn, packet.psn, packet.sport, packet.ackreq) == (0x00ABCD, 0xFFFFFE, 0xC001, True)
    said = packet.descriptor
    assert said is not None
    assert (said.primitive, said.operator, said.datatype) == (
        Primitive.ALLREDUCE,
        Operator.SUM,
        Datatype.INT32,
    )
    assert (said.rank, said.null, said.err, said.tag) == (0xFFFF, False, False, 5)
    assert [int.from_bytes(packet.payload[i : i + 4], "big", signed=True) for i in (0, 4)] == [1, -2]


def test_the_padded_frame_has_five_bytes_of_source_rank_3() -> None:
    packet = frame(1)
    assert packet.payload == b"\1\2\3\4\5"
    assert packet.descriptor is not None and packet.descriptor.rank == 3
    assert packet.psn == (frame(0).psn + 2) % (1 << 24)


def test_the_ack_names_the_psn_of_the_contribution() -> None:
    packet = frame(2)
    assert packet.aeth is not None and (packet.aeth.syndrome, packet.aeth.msn) == (0x1F, 7)
    assert (packet.qpn, packet.psn) == (0x001234, frame(0).psn)


def test_the_icrc_steps_of_the_text_give_the_icrc_of_the_frame() -> None:
    (covered,) = blocks("icrc-input")
    value = crc32(covered)
    assert len(covered) == 60
    assert f"0x{value:08X}" in PROSE
    assert value.to_bytes(4, "little") == FRAMES[0][-4:]


def test_the_icrc_input_differs_from_the_frame_only_in_the_variant_fields() -> None:
    (covered,) = blocks("icrc-input")
    body = b"\xff" * 8 + FRAMES[0][14:-4]
    changed = {i - 8 for i, (a, b) in enumerate(zip(covered, body, strict=True)) if a != b}
    # Offsets from the IPv4 header: TOS, TTL, header checksum, UDP checksum, resv8a.
    assert changed == {1, 8, 10, 11, 26, 27, 32}


@pytest.mark.parametrize("clause", CLAUSES, ids=lambda c: c["id"])
def test_a_clause_stands_once_in_bold_with_its_sentence_behind_it(clause: dict[str, str]) -> None:
    places = re.findall(rf"\*\*{clause['id']}\*\*(?: \(\w+\))?: (.*?)(?=\n\n|\Z)", PROSE, re.DOTALL)
    assert len(places) == 1
    assert plain(places[0]).startswith(plain(clause["text"]).rstrip("."))


def test_levels_other_than_must_are_said_where_the_clause_stands() -> None:
    said = set(re.findall(r"\*\*(EPIC-[A-Z0-9]+-\d\d)\*\* \(SHOULD\)", PROSE))
    assert said == {c["id"] for c in CLAUSES if c["level"] == "SHOULD"}


def test_every_reason_and_counter_that_engines_use_is_in_the_prose_or_a_table() -> None:
    for name in COUNTERS:
        assert f"`{name.removeprefix('drop_')}`" in TEXT or f"`{name}`" in TEXT
    assert all(f"`{reason}`" in PROSE or f"`drop_{reason}`" in PROSE for reason in DROPS)
