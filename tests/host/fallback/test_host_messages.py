"""Messages between ranks: what is packed is unpacked, and nothing that a peer sends harms a rank."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epic_host.fallback.message import HEADER_BYTES, NOTE, OPAQUE, pack, pack_note, unpack
from epic_host.fallback.value import Partial
from epic_models.reference.interfaces import Cell, ConflictRecord, Stalled
from epic_models.reference.rc import Message
from epic_spec.packets import AGREEMENT_MASK, Descriptor
from epic_spec.tables import Datatype, Opcode, Operator, Primitive
from host.fallback.scenarios import ALGORITHMS, SUM, Alone, words
from host.fallback.worlds import params
from models.worlds import SCALE

descriptors = st.builds(
    Descriptor,
    primitive=st.sampled_from(Primitive),
    operator=st.sampled_from(Operator),
    datatype=st.sampled_from(Datatype),
    rank=st.sampled_from([0, 1, 2, 5, 0xFFFF]),
    tag=st.integers(0, 63),
).map(Descriptor.pack)
numbers = st.integers(0, 0xFFFFFFFF)


@given(
    cell=st.integers(0, 1 << 26),
    step=st.integers(0, 254),
    held=descriptors,
    record=st.none() | st.builds(ConflictRecord, numbers, numbers, numbers, numbers),
    congested=st.booleans(),
    length=st.integers(0, 1 << 20),
)
def test_err_is_unpacked_as_it_was_packed(
    cell: int, step: int, held: int, record: ConflictRecord | None, congested: bool, length: int
) -> None:
    partial = Partial(held, length, None, True, record, congested)
    arrived = unpack(pack(params(2), cell, step, partial))
    assert (arrived.step, arrived.cell) == (step, cell & 0xFFFFFF)
    assert arrived.partial(params(2), result=False) == partial


@pytest.mark.parametrize("partial_format", ["input", "fp32"])
def test_payloads_are_unpacked_as_they_were_packed(partial_format: str) -> None:
    group = params(2, partial_format=partial_format)
    imm = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.FP16).pack()
    for held, payload in (
        (SUM, words(1, 2)),
        (imm, bytes(16 if partial_format == "fp32" else 8)),
        (SUM, None),
    ):
        partial = Partial(held, 8, payload)
        assert unpack(pack(group, 3, 1, partial)).partial(group, result=False) == partial
    result = Partial(imm, 8, bytes(8))
    assert unpack(pack(group, 3, 1, result)).partial(group, result=True) == result


def test_a_note_names_ranks() -> None:
    arrived = unpack(pack_note(7, SUM, frozenset({3, 0, 0xFFFE})))
    assert (arrived.step, arrived.cell, arrived.note()) == (NOTE, 7, frozenset({0, 3, 0xFFFE}))


@pytest.mark.parametrize(
    "message",
    [Message(OPAQUE, bytes(HEADER_BYTES - 1)), Message(OPAQUE, None), Message(SUM, bytes(HEADER_BYTES))],
)
def test_what_is_no_message_is_refused(message: Message) -> None:
    with pytest.raises(ValueError, match="expected a header of 12"):
        unpack(message)


headers = st.tuples(
    descriptors.flatmap(lambda d: st.sampled_from([d, d | 0x80, d | 0x40, d | 0xC0])) | numbers,
    st.sampled_from([0, 1, 2, 3, 0x80, NOTE, 77]),
    st.integers(0, 12) | st.integers(0, 0xFFFFFF),
    st.sampled_from([0, 4, 8, 16, 64]) | numbers,
)
bodies = st.sampled_from([b"", bytes(2), bytes(4), bytes(8), bytes(16), bytes(64)]) | st.binary(max_size=76)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@settings(max_examples=60 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_peer_harms_a_rank(algorithm: str, data: st.DataObject) -> None:
    """Messages that follow no rule, in sequence: no exception, no more kept than the window allows."""
    n = data.draw(st.integers(2, 6))
    group = params(n, window=2, slots=4, partial_format=data.draw(st.sampled_from(["input", "fp32"])))
    alone = Alone(algorithm, n, data.draw(st.integers(0, n - 1)), group)
    peers = sorted(alone.plan.edges[alone.rank])
    for _ in range(data.draw(st.integers(1, 12))):
        if alone.agent.room() and data.draw(st.booleans()):
            alone.submit(
                Cell(data.draw(descriptors), data.draw(st.sampled_from([None, words(1), words(1, 2)])))
            )
        imm, step, cell, length = data.draw(headers)
        body = data.draw(bodies)
        payload = (
            imm.to_bytes(4, "big")
            + bytes([step])
            + cell.to_bytes(3, "big")
            + length.to_bytes(4, "big")
            + body
        )
        peer = data.draw(st.sampled_from(peers))
        alone.payload(peer, payload, Opcode.SEND_ONLY_IMM)
        alone.now += 1.0
        alone.agent.poll(alone.now)
        assert alone.kept() <= 3 * group.window * len(peers)
    assert not any(isinstance(e, Stalled) for e in alone.agent.poll(alone.now).events)


def test_descriptors_on_the_wire_are_legal() -> None:
    """The codec refuses NULL with a payload; the header is one."""
    assert OPAQUE == OPAQUE & AGREEMENT_MASK
