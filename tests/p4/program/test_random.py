"""Random groups and random traffic: the programs and the golden engine never part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epic_models.reference.group import EngineGroup
from epic_spec.codec import with_icrc
from epic_spec.packets import Descriptor
from epic_spec.tables import Datatype, Operator, Primitive
from p4.program.device import Device
from p4.program.frames import acknowledgement, data, make_group, ramp
from p4.program.twins import Twins

WORDS = 32
OPERATORS = ("SUM", "MAX", "MIN")


@cache
def _device(arch: str) -> Device:
    """One device for all examples: what a group leaves in the registers must not reach the next one (EPIC-E-04)."""
    return Device(arch, WORDS)


@dataclass(frozen=True)
class Step:
    """One frame. `cell` is relative to the oldest cell that is not done; the rest says what is odd about it."""

    who: int
    cell: int
    kind: str
    odd: str
    number: int


def _groups(arch: str) -> st.SearchStrategy[EngineGroup]:
    tna = arch != "v1model"

    @st.composite
    def build(draw: st.DrawFn) -> EngineGroup:
        children = draw(st.integers(1, 4))
        window = draw(st.sampled_from((1, 2, 4)))
        options: dict[str, Any] = {
            "window": window,
            "slots": window * draw(st.sampled_from((2, 4))),
            "payload_bytes": draw(st.sampled_from((64, 128))),
            "operators": tuple(draw(st.sets(st.sampled_from(OPERATORS)))),
            "datatypes": draw(st.sampled_from((("INT32",), ()))),
            "ack_reflection": draw(st.booleans()),
            "window_guard": not tna and draw(st.booleans()),
            "ecn": draw(st.booleans()),
            "icrc": "none" if tna else draw(st.sampled_from(("full", "none"))),
            "ranks_each": draw(st.integers(1, 2)),
            "pkey": draw(st.sampled_from((0xFFFF, 0x8001))),
        }
        if draw(st.integers(0, 3)):
            options |= {"operators": OPERATORS, "datatypes": ("INT32",)}
        engines = tuple(i for i in range(children) if draw(st.integers(0, 3)) == 0)
        return make_group(children, root=draw(st.booleans()), engines=engines, **options)

    return build()


STEPS = st.lists(
    st.builds(
        Step,
        who=st.integers(-1, 3),
        cell=st.sampled_from((*[0] * 24, 1, 1, 2, 3, -1, -1, -2, -4, 4, 8, 9, 1 << 23)),
        kind=st.sampled_from((*["usual"] * 12, "null", "null", "ack")),
        odd=st.sampled_from(
            (*["no"] * 40, "descriptor", "length", "err", "ce", "flip", "cut", "behind", "port", "null"),
        ),
        number=st.integers(0, 1 << 20),
    ),
    min_size=40,
    max_size=60,
)


def _cell(cell: int, ranks: int) -> tuple[Descriptor, int]:
    """What the ranks agree on for a cell, and its length in bytes."""
    primitive = (Primitive.ALLREDUCE, Primitive.ALLREDUCE, Primitive.REDUCE, Primitive.BROADCAST)[cell % 4]
    operator = (Operator.SUM, Operator.MAX, Operator.MIN)[cell % 3]
    size = (4, 64, 60, 128, 32, 8)[cell % 6] - (cell % 3 if primitive is Primitive.BROADCAST else 0)
    rank = 0xFFFF if primitive is Primitive.ALLREDUCE else cell // 4 % (ranks + 1)
    datatype = Datatype(cell % 8) if primitive is Primitive.BROADCAST else Datatype.INT32
    return Descriptor(primitive, operator, datatype, rank=rank, tag=cell % 64), size


def _frame(group: EngineGroup, arch: str, front: int, step: Step) -> tuple[int, bytes]:
    child = step.who % len(group.children) if step.who >= 0 or group.is_root else None
    cell = front + step.cell
    descriptor, size = _cell(max(0, cell), group.params.world_size)
    if step.kind == "ack":
        syndrome = (0x1F, 0x20, 0x63, 0x40)[step.number % 3]
        return acknowledgement(group, child, cell, syndrome, step.number)
    fields: dict[str, Any] = {}
    payload: bytes | None = ramp(-(-size // 4), 3 * step.who + 7)[:size]
    broadcast = descriptor.primitive is Primitive.BROADCAST
    # TNA adds Broadcast payloads, which is OR where all but one are empty.
    if step.kind == "null" or step.odd == "null" or (broadcast and child not in (0, None)):
        payload = None
    match step.odd:
        case "descriptor":
            descriptor = replace(descriptor, tag=(descriptor.tag + 1 + step.number % 63) % 64)
        case "length" if payload is not None:
            payload = payload[: max(1, step.number % len(payload))]
        case "err":
            descriptor = replace(descriptor, err=True)
        case "ce" if child is not None or arch == "v1model":
            fields["ecn"] = 3
    port, frame = data(group, child, cell, descriptor, payload, **fields)
    match step.odd:
        case "flip":
            place = step.number % len(frame)
            frame = frame[:place] + bytes([frame[place] ^ 1 << step.number % 8]) + frame[place + 1 :]
            if step.number >> 10 & 1 and group.params.icrc == "full" and len(frame) >= 58:
                frame = with_icrc(frame)
        case "cut":
            frame = frame[: 14 + step.number % (len(frame) - 14)]
        case "behind":
            frame += bytes(step.number % 50)
        case "port":
            port += 1
    return port, frame


def _front(twins: Twins) -> int:
    """The oldest cell that is not done, as far as the golden engine has come."""
    (group,) = twins.groups
    cells = [s.cell + 1 for s in twins.model.status(group.params.group).slots if s.done and s.cell < 1 << 22]
    return max(cells, default=0)


@pytest.mark.parametrize("arch", ["v1model", "tna", "tna1"])
def test_random_traffic(arch: str) -> None:
    @settings(deadline=None, suppress_health_check=list(HealthCheck))
    @given(_groups(arch), STEPS)
    def traffic(group: EngineGroup, steps: list[Step]) -> None:
        device = _device(arch)
        device.clear()
        twins = Twins(arch, group, device=device)
        for step in steps:
            twins.frame(*_frame(group, arch, _front(twins), step))

    traffic()
