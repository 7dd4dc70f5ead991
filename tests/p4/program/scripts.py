"""Scripts that drive a program and the golden engine side by side. Each is a story with a name, told for one or both
architectures; `Twins.frame` compares every step, and the last lines say what must have happened at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from epic_models.reference.group import EngineGroup
from epic_spec.codec import encode, with_icrc
from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Operator, Primitive
from p4.program.frames import SUM, acknowledgement, data, make_group, packet, port_of, ramp, words
from p4.program.mutants import Mutant
from p4.program.twins import Twins

BARRIER = Descriptor(Primitive.ALLREDUCE, Operator.NONE, Datatype.INT32, tag=1)
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 15, 16)


@dataclass(frozen=True)
class World:
    """Where a script runs. `make` gives groups within the capabilities of the architecture."""

    arch: str
    words: int
    mutant: Mutant | None = None

    def make(self, children: int = 2, **options: Any) -> EngineGroup:
        limits: dict[str, Any] = {"payload_bytes": 64 * (self.words // 16)}
        if self.arch != "v1model":
            limits |= {"icrc": "none", "window_guard": False}
        return make_group(children, **(limits | options))

    def twins(self, *groups: EngineGroup) -> Twins:
        return Twins(self.arch, *groups, words=self.words, mutant=self.mutant)


Script = Callable[[World], None]
SCRIPTS: dict[str, Script] = {}
V1MODEL_ONLY: set[str] = set()


def script(function: Script) -> Script:
    """Register a script under its name."""
    SCRIPTS[function.__name__] = function
    return function


def v1model_only(function: Script) -> Script:
    """Needs a capability that the TNA program does not offer."""
    V1MODEL_ONLY.add(function.__name__)
    return function


def _counts(twins: Twins, **expected: int) -> None:
    counters = twins.device.counters()
    assert {name: counters[name] for name in expected} == expected


@script
def sums_of_every_length(world: World) -> None:
    """Two children, one to all words: every chunk, and the one more word of the full payload."""
    group = world.make(2, slots=128, window=64)
    twins = world.twins(group)
    lengths = range(1, world.words + 1)
    for cell, count in enumerate(lengths):
        twins.frame(*data(group, 0, cell, SUM, ramp(count)))
        twins.frame(*data(group, 1, cell, SUM, ramp(count, 1000)))
    _counts(twins, cells_completed=world.words, tx_result=2 * world.words, cells_poisoned=0)


@script
def maximum_and_minimum_are_signed(world: World) -> None:
    group = world.make(3)
    twins = world.twins(group)
    for cell, operator in enumerate((Operator.MAX, Operator.MIN)):
        for child, values in enumerate(((-5, 7, 0, 2**31 - 1), (3, -9, -1, -(2**31)), (-6, 8, 1, 0))):
            twins.frame(*data(group, child, cell, replace(SUM, operator=operator), words(*values)))
    _counts(twins, cells_completed=2)


@script
def sums_wrap_around(world: World) -> None:
    group = world.make(2)
    twins = world.twins(group)
    twins.frame(*data(group, 0, 0, SUM, words(2**31 - 1, -(2**31))))
    twins.frame(*data(group, 1, 0, SUM, words(1, -1)))
    _counts(twins, tx_result=2)


@script
def a_null_contribution_counts_and_adds_nothing(world: World) -> None:
    """First, between, and last, where the payload is read from the slot."""
    group = world.make(3, slots=32, window=16)
    twins = world.twins(group)
    cell = 0
    for count in LENGTHS:
        for who in range(3):
            for child in range(3):
                twins.frame(*data(group, child, cell, SUM, ramp(count) if child == who else None))
            cell += 1
    _counts(twins, cells_completed=cell, tx_result=3 * cell)


@script
def a_barrier_has_no_payload(world: World) -> None:
    group = world.make(2)
    twins = world.twins(group)
    twins.frame(*data(group, 1, 0, BARRIER))
    twins.frame(*data(group, 0, 0, BARRIER))
    _counts(twins, tx_result=2)


@script
def an_inner_engine_passes_up_and_down(world: World) -> None:
    """Partial up, result down, with payload and NULL; the result's own bytes, not the partial's."""
    group = world.make(2, root=False, engines=(1,))
    twins = world.twins(group)
    for cell, count in enumerate((3, 16, 8)):
        twins.frame(*data(group, 0, cell, SUM, ramp(count)))
        twins.frame(*data(group, 1, cell, SUM, ramp(count, 5)))
        twins.frame(*data(group, None, cell, SUM, ramp(count, 77)))
        twins.frame(*data(group, None, cell, SUM, ramp(count, 77)))
        twins.frame(*data(group, 1, cell, SUM, ramp(count, 5)))
    _counts(twins, tx_partial=3, rx_result=3, tx_result=6, tx_replay=3)


@script
def a_result_that_differs_from_the_partial_is_passed_on(world: World) -> None:
    """NULL, ERR with and without payload, another length: what the parent says is kept and replayed."""
    group = world.make(2, root=False)
    twins = world.twins(group)
    err = replace(SUM, err=True)
    for cell, (descriptor, payload) in enumerate(
        [
            (SUM, None),
            (err, None),
            (err, words(1, 2, 3, 4)),
            (replace(err, null=True), b"abc"),
            (SUM, ramp(9)),
        ]
    ):
        for child in (0, 1):
            twins.frame(*data(group, child, cell, SUM, ramp(4)))
        twins.frame(*data(group, None, cell, descriptor, payload))
        for child in (0, 1):
            twins.frame(*data(group, child, cell, SUM, ramp(4)))
    _counts(twins, rx_result=5, tx_replay=10)


@script
def a_replay_goes_to_one_child_alone(world: World) -> None:
    """Also with the payload when what is repeated has none, or another."""
    group = world.make(3, slots=32, window=16)
    twins = world.twins(group)
    for cell, count in enumerate(LENGTHS):
        for child in range(3):
            twins.frame(*data(group, child, cell, SUM, ramp(count)))
        for child in range(3):
            twins.frame(*data(group, child, cell, SUM, ramp(count)))
            twins.frame(*data(group, child, cell, SUM, None))
            twins.frame(*data(group, child, cell, SUM, ramp(6)))
    _counts(twins, tx_replay=9 * len(LENGTHS))


@script
def only_the_lowest_child_makes_a_partial_go_again(world: World) -> None:
    group = world.make(3, root=False)
    twins = world.twins(group)
    for child in range(3):
        twins.frame(*data(group, child, 0, SUM, ramp(5)))
    for child in range(3):
        twins.frame(*data(group, child, 0, SUM, ramp(5)))
    twins.frame(*data(group, 0, 0, SUM, None))
    _counts(twins, tx_partial=1, tx_resend=2, rx_duplicate=4)


@script
def a_repetition_before_the_cell_is_complete_is_dropped(world: World) -> None:
    group = world.make(2)
    twins = world.twins(group)
    for _ in range(3):
        twins.frame(*data(group, 0, 0, SUM, ramp(4)))
    twins.frame(*data(group, 1, 0, SUM, ramp(4)))
    _counts(twins, rx_duplicate=2, tx_result=2)


@script
def a_slot_starts_as_if_an_older_cell_were_done(world: World) -> None:
    """Cell -N: full and done, but it served nothing."""
    group = world.make(2, root=False)
    twins = world.twins(group)
    for cell in (-4, -3, -8):
        twins.frame(*data(group, 0, cell, SUM, ramp(2)))
        twins.frame(*data(group, None, cell, SUM, ramp(2)))
    _counts(twins, rx_duplicate=4, rx_stale=2)


@script
def old_cells_are_stale(world: World) -> None:
    group = world.make(2, root=False)
    twins = world.twins(group)
    for cell in (0, 4):
        for child in (0, 1):
            twins.frame(*data(group, child, cell, SUM, ramp(2)))
        twins.frame(*data(group, None, cell, SUM, ramp(2)))
    twins.frame(*data(group, 0, 0, SUM, ramp(2)))
    twins.frame(*data(group, None, 0, SUM, ramp(2)))
    _counts(twins, rx_stale=2)


@script
def cells_are_compared_in_serial_arithmetic(world: World) -> None:
    """Cell 2^24 is cell 0 again: numbers wrap, slots go on."""
    group = world.make(1, slots=4, window=2, window_guard=False)
    twins = world.twins(group)
    for cell in (0, 1 << 22, 1 << 23, 3 << 22, 1 << 24, 0, (1 << 24) + (1 << 23)):
        twins.frame(*data(group, 0, cell & 0xFFFFFF, SUM, ramp(3)))


@v1model_only
@script
def the_window_guard_keeps_what_is_in_progress(world: World) -> None:
    group = world.make(2)
    twins = world.twins(group)
    twins.frame(*data(group, 0, 0, SUM, ramp(3)))
    twins.frame(*data(group, 0, 4, SUM, ramp(3)))
    twins.frame(*data(group, 0, 9, SUM, ramp(3)))
    twins.frame(*data(group, 1, 0, SUM, ramp(3)))
    twins.frame(*data(group, 1, 8, SUM, ramp(3)))
    twins.frame(*data(group, 1, 4, SUM, ramp(3)))
    _counts(twins, drop_window=3, cells_completed=1)


@script
def without_a_guard_a_newer_cell_takes_the_slot(world: World) -> None:
    group = world.make(2, window_guard=False)
    twins = world.twins(group)
    twins.frame(*data(group, 0, 0, SUM, ramp(3)))
    twins.frame(*data(group, 1, 12, SUM, ramp(7, 3)))
    twins.frame(*data(group, 1, 0, SUM, ramp(3)))
    twins.frame(*data(group, 0, 12, SUM, ramp(7, 3)))
    _counts(twins, rx_stale=1, cells_completed=1, cells_poisoned=0)


@script
def results_of_cells_that_are_not_complete_are_unexpected(world: World) -> None:
    group = world.make(2, root=False)
    twins = world.twins(group)
    twins.frame(*data(group, None, 0, SUM, ramp(3)))
    twins.frame(*data(group, 0, 0, SUM, ramp(3)))
    twins.frame(*data(group, None, 0, SUM, ramp(3)))
    _counts(twins, drop_unexpected=2)


@script
def disagreement_poisons_the_cell(world: World) -> None:
    """Another descriptor, length, ERR: at the root and below it; the poisoned cell is replayed as such."""
    others = [
        (replace(SUM, tag=6), ramp(4)),
        (replace(SUM, rank=3), ramp(4)),
        (replace(SUM, operator=Operator.MAX), ramp(4)),
        (replace(SUM, primitive=Primitive.BROADCAST), ramp(4)),
        (SUM, ramp(5)),
        (SUM, ramp(3)),
        (replace(SUM, err=True), None),
        (replace(SUM, err=True), ramp(4)),
        (replace(SUM, tag=6), None),
    ]
    for root in (True, False):
        group = world.make(3, root=root, slots=32, window=16)
        twins = world.twins(group)
        cell = 0
        for first in (0, 1, 2):
            for other in others:
                order: list[tuple[Descriptor, bytes | None]] = [(SUM, ramp(4))] * 3
                order[first] = other
                for child, (descriptor, payload) in enumerate(order):
                    twins.frame(*data(group, child, cell, descriptor, payload))
                twins.frame(*data(group, 0, cell, SUM, ramp(4)))
                cell += 1
        _counts(twins, cells_poisoned=cell, cells_completed=cell)


@script
def a_cell_poisoned_twice_is_counted_once(world: World) -> None:
    group = world.make(3)
    twins = world.twins(group)
    for child, tag in enumerate((1, 2, 3)):
        twins.frame(*data(group, child, 0, replace(SUM, tag=tag), ramp(4)))
    _counts(twins, cells_poisoned=1)


@script
def what_the_group_lacks_poisons_the_cell(world: World) -> None:
    """An operator or datatype not offered, but not for NULL, Broadcast or ERR."""
    group = world.make(2, slots=32, window=16, operators=("SUM", "MIN"))
    twins = world.twins(group)
    cell = 0
    for datatype in Datatype:
        for operator in (Operator.SUM, Operator.MAX, Operator.MIN):
            for primitive in (Primitive.ALLREDUCE, Primitive.REDUCE, Primitive.BROADCAST):
                descriptor = replace(SUM, datatype=datatype, operator=operator, primitive=primitive)
                twins.frame(*data(group, 0, cell, descriptor, ramp(4)))
                twins.frame(*data(group, 1, cell, descriptor, None))
                cell += 1
    _counts(twins, cells_completed=cell)
    bare = world.make(2, operators=(), datatypes=())
    twins = world.twins(bare)
    for child in (0, 1):
        twins.frame(*data(bare, child, 0, SUM, ramp(4)))
        twins.frame(*data(bare, child, 1, BARRIER))
    _counts(twins, cells_poisoned=1, cells_completed=2)


@script
def broadcast_of_any_length(world: World) -> None:
    """Bytes as they are, Pad bytes of any value sent as 0, in every datatype."""
    group = world.make(2, slots=128, window=64)
    twins = world.twins(group)
    sizes = [*range(1, 13), 31, 32, 33, 4 * world.words - 3, 4 * world.words - 1, 4 * world.words]
    for cell, size in enumerate(sizes):
        descriptor = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype(cell % 8), rank=1, tag=2)
        payload = bytes((7 * i + size) % 256 for i in range(size))
        twins.frame(*data(group, 0, cell, descriptor, None))
        port, frame = data(group, 1, cell, descriptor, payload)
        if size % 4:
            dirty = frame[: -4 - (-size % 4)] + b"\xaa" * (-size % 4) + frame[-4:]
            frame = with_icrc(dirty) if group.params.icrc == "full" else dirty
        twins.frame(port, frame)
        twins.frame(*data(group, 0, cell, descriptor, None))
    _counts(twins, cells_completed=len(sizes), cells_poisoned=0, tx_replay=len(sizes))


@v1model_only
@script
def two_broadcast_payloads_are_combined_by_or(world: World) -> None:
    """SUM would do as well where all but one are zero (EPIC-E-16); this program takes the clause's first choice."""
    group = world.make(2)
    twins = world.twins(group)
    descriptor = Descriptor(Primitive.BROADCAST, Operator.SUM, Datatype.INT8, rank=1)
    twins.frame(*data(group, 0, 0, descriptor, b"\x0f\x81\x00\xff\x01"))
    twins.frame(*data(group, 1, 0, descriptor, b"\x3c\x81\x10\xff\x02"))
    _counts(twins, tx_result=2)


@script
def a_reduce_result_has_a_payload_only_where_its_rank_is(world: World) -> None:
    """At the root, replayed too; a rank that nobody has; from the parent; partials always have it."""
    for root in (True, False):
        group = world.make(3, root=root, ranks_each=2)
        twins = world.twins(group)
        for cell, rank in enumerate((0, 3, 5, 77)):
            descriptor = replace(SUM, primitive=Primitive.REDUCE, rank=rank)
            for child in range(3):
                twins.frame(*data(group, child, cell, descriptor, ramp(5)))
            twins.frame(*data(group, 0, cell, descriptor, ramp(5)))
            if not root:
                twins.frame(*data(group, None, cell, descriptor, ramp(5, 9)))
            for child in range(3):
                twins.frame(*data(group, child, cell, descriptor, ramp(5)))
    _counts(twins, tx_resend=4, tx_replay=12)


@script
def payloads_that_are_not_whole_elements_are_dropped(world: World) -> None:
    group = world.make(2, slots=64, window=32)
    twins = world.twins(group)
    for datatype in Datatype:
        for size in range(1, 18):
            for primitive in (Primitive.ALLREDUCE, Primitive.BROADCAST):
                descriptor = replace(SUM, datatype=datatype, primitive=primitive)
                twins.frame(*data(group, 0, 0, descriptor, bytes(size)))
    twins.frame(*data(group, 0, 1, replace(SUM, datatype=Datatype.INT64, err=True), bytes(7)))
    assert twins.device.counters()["drop_element"] > 50


@script
def payloads_above_the_group_limit_are_oversize(world: World) -> None:
    limit = 64
    group = world.make(2, root=False, payload_bytes=limit)
    twins = world.twins(group)
    for size in (limit, limit + 4, 4 * world.words, 4 * world.words + 4, 4 * world.words + 400):
        twins.frame(*data(group, 0, 0, SUM, ramp(size // 4)))
        twins.frame(*data(group, None, 0, SUM, ramp(size // 4)))
    assert twins.device.counters()["drop_oversize"] >= 6


@script
def congestion_is_carried_on(world: World) -> None:
    """From a contribution, from the result; in replays and resends; not in groups without it, nor to the next cell."""
    for ecn in (True, False):
        group = world.make(2, root=False, ecn=ecn)
        twins = world.twins(group)
        # Whose packets have CE; None is the parent. Two rounds of the slots, so that marks must not stay.
        cells: list[list[int | None]] = [[0], [1], [None], [], [0, None], [], [], []]
        for cell, marked in enumerate(cells):
            for child in (0, 1, 0, None, 1):
                ce = 3 if child in marked else 2
                twins.frame(*data(group, child, cell, SUM, ramp(4), ecn=ce))
        _counts(twins, tx_partial=8, tx_resend=8, tx_replay=8)
    assert twins.device.counters()["rx_ce"] > 0


@script
def congestion_of_a_repetition_stays_out(world: World) -> None:
    """Both ways are right (section 13, 13); the programs do as the golden engine does."""
    group = world.make(2)
    twins = world.twins(group)
    twins.frame(*data(group, 0, 0, SUM, ramp(4)))
    twins.frame(*data(group, 0, 0, SUM, ramp(4), ecn=3))
    twins.frame(*data(group, 1, 0, SUM, ramp(4)))
    twins.frame(*data(group, 1, 0, SUM, ramp(4), ecn=3))
    _counts(twins, rx_ce=2, tx_result=2, tx_replay=1)


@script
def acknowledgements_of_hosts_are_returned(world: World) -> None:
    group = world.make(3, root=False, engines=(1,), ack_reflection=True)
    twins = world.twins(group)
    for syndrome in (0x1F, 0x00, 0x20, 0x3F, 0x60, 0x63):
        for child in (0, 1, 2, None):
            twins.frame(*acknowledgement(group, child, 3, syndrome, msn=0xABCDEF))
    twins.frame(*acknowledgement(group, 0, 1, payload=b"ignored!"))
    twins.frame(*acknowledgement(group, 0, 1, ecn=3))
    _counts(twins, tx_reflected=14, drop_role=12, rx_ce=0)


@script
def without_reflection_acknowledgements_are_dropped(world: World) -> None:
    group = world.make(2, root=False)
    twins = world.twins(group)
    for child in (0, None):
        twins.frame(*acknowledgement(group, child, 3))
    _counts(twins, drop_role=2)


@script
def a_frame_must_come_over_its_edge(world: World) -> None:
    group, other = world.make(2), world.make(2, number=2)
    twins = world.twins(group, other)
    port, frame = data(group, 0, 0, SUM, ramp(4))
    twins.frame(port + 1, frame)
    for field, value in (
        ("src_ip", "10.9.9.9"),
        ("dst_ip", "10.9.9.9"),
        ("src_mac", "02:00:00:00:00:09"),
        ("dst_mac", "02:00:00:00:00:09"),
        ("pkey", 0x7FFF),
        ("qpn", 0x123456),
        ("qpn", other.children[0].local.qpn),
    ):
        twins.frame(*data(group, 0, 0, SUM, ramp(4), **{field: value}))
    _counts(
        twins, drop_wrong_port=1, drop_wrong_address=5, drop_pkey=1, drop_unknown_qpn=1, rx_contribution=0
    )


@script
def groups_do_not_meet(world: World) -> None:
    group, other = world.make(2), world.make(2, number=2)
    twins = world.twins(group, other)
    for cell in range(3):
        for one in (group, other):
            for child in (0, 1):
                twins.frame(*data(one, child, cell, SUM, ramp(4, one.params.group)))
    _counts(twins, cells_completed=6)


@script
def fields_that_a_receiver_ignores(world: World) -> None:
    """They change nothing, and do not travel on."""
    group = world.make(1)
    twins = world.twins(group)
    odd = {
        "se": True, "migreq": True, "fecn": True, "becn": True, "resv8a": 63, "resv7": 127, "ackreq": False,
        "dscp": 63, "ttl": 1, "ident": 0xBEEF, "dont_fragment": False,
    }  # fmt: skip
    twins.frame(*data(group, 0, 0, SUM, ramp(4), **odd))
    port, frame = data(group, 0, 1, SUM, ramp(4))
    twins.frame(port, frame[:40] + b"\x12\x34" + frame[42:])
    twins.frame(port, frame + b"behind the packet")
    _counts(twins, tx_result=2, tx_replay=1)


@script
def opcodes_of_other_modes_have_no_role(world: World) -> None:
    group = world.make(1)
    twins = world.twins(group)
    port, frame = data(group, 0, 0, SUM, ramp(4))
    for opcode in range(0x20):
        changed = frame[:42] + bytes([opcode]) + frame[43:]
        twins.frame(port, with_icrc(changed) if group.params.icrc == "full" else changed)
    _counts(twins, drop_role=5, drop_syndrome=1, tx_result=1)


@script
def malformed_frames_have_a_reason(world: World) -> None:
    """Every length, and every value of the bytes that rules look at."""
    group = world.make(2, root=False, ack_reflection=True)
    twins = world.twins(group)
    for port, frame in (
        data(group, 0, 0, SUM, ramp(2)),
        data(group, 0, 0, SUM),
        acknowledgement(group, 0, 0),
    ):
        for length in range(14, len(frame)):
            twins.frame(port, frame[:length])
        for place in (12, 13, 14, 16, 17, 20, 21, 23, 24, 36, 37, 38, 39, 42, 43, 44, 47, 54, 55, 56, 57):
            if place < len(frame) - 4:
                for bit in range(8):
                    changed = bytearray(frame)
                    changed[place] ^= 1 << bit
                    _with_sums(twins, group, port, bytes(changed), place)


def _with_sums(twins: Twins, group: EngineGroup, port: int, frame: bytes, place: int) -> None:
    """The frame as it is, and with the checksum and ICRC that hide the change."""
    twins.frame(port, frame)
    if 14 <= place < 34 and place not in (24, 25):
        words_ = sum(int.from_bytes(frame[i : i + 2], "big") for i in range(14, 34, 2) if i != 24)
        frame = frame[:24] + (0xFFFF - words_ % 0xFFFF).to_bytes(2, "big") + frame[26:]
    if group.params.icrc == "full":
        frame = with_icrc(frame)
    twins.frame(port, frame)


@script
def tagged_and_foreign_frames_are_dropped_by_name(world: World) -> None:
    twins = world.twins(world.make(1))
    for kind in ("8100", "88a8", "9100", "0806", "86dd", "0000", "ffff"):
        twins.frame(1, bytes.fromhex("020000000001020000000002" + kind) + bytes(60))
    _counts(twins, drop_vlan=3, drop_ether_type=4)


@v1model_only
@script
def a_wrong_icrc_is_dropped(world: World) -> None:
    group = world.make(1)
    twins = world.twins(group)
    for port, frame in (data(group, 0, 0, SUM, ramp(5)), data(group, 0, 0, SUM)):
        for place in range(len(frame) - 4, len(frame)):
            twins.frame(port, frame[:place] + bytes([frame[place] ^ 1]) + frame[place + 1 :])
    _counts(twins, drop_icrc=8, rx_contribution=0)


@script
def without_icrc_any_value_is_taken(world: World) -> None:
    group = world.make(1, icrc="none")
    twins = world.twins(group)
    port, frame = data(group, 0, 0, SUM, ramp(5))
    twins.frame(port, frame[:-4] + b"\xde\xad\xbe\xef")
    _counts(twins, tx_result=1)


@script
def an_ip_checksum_of_ones_is_zero(world: World) -> None:
    """In one's complement 0xFFFF is 0: both are right where the sum of the other words is 0xFFFF."""
    group = world.make(1)
    twins = world.twins(group)
    one = packet(group, 0, 0, imm=SUM.pack(), payload=ramp(1))
    for ident in range(0x10000):
        one.ident = ident
        frame = encode(one, icrc=group.params.icrc == "full")
        if frame[24:26] == b"\0\0":
            break
    twins.frame(port_of(group, 0), frame)
    twins.frame(port_of(group, 0), frame[:24] + b"\xff\xff" + frame[26:])
    _counts(twins, tx_result=1, tx_replay=1, drop_ip_checksum=0)


@script
def the_largest_fan_in_works(world: World) -> None:
    children = 32 if world.arch != "v1model" else 64
    group = world.make(children)
    twins = world.twins(group)
    for child in reversed(range(children)):
        twins.frame(*data(group, child, 0, SUM, words(child, 1)))
    _counts(twins, tx_result=children, cells_completed=1)
