"""Between the values of the manager's core and the messages of `manager.proto`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from epic_host.fabric.request import GroupRequest
from epic_host.manager import errors
from epic_host.manager.core import Joined
from epic_host.manager.effects import Decided, Ended, Event, Granted, Lost, Prepare
from epic_host.manager.errors import refused
from epic_host.manager.explain import Explanation
from epic_host.manager.placing import restricted
from epic_host.proto.epic.v1 import manager_pb2 as pb

M = TypeVar("M", bound=Message)

# Fields of a request where 0 elements mean "not said", and their defaults those of GroupRequest.
_LISTS: Final = ("modes", "datatypes", "operators")
# What no group needs more of; the request's size is bounded anyway.
_MOST: Final = 4096


def message(kind: type[M], value: Any) -> M:
    """The message of a value whose attributes have the names of its fields; further attributes are left out."""
    made = kind()
    for field in made.DESCRIPTOR.fields:
        _fill(made, field, getattr(value, field.name))
    return made


def _fill(made: Message, field: Any, value: Any) -> None:
    if value is None:
        return
    target = getattr(made, field.name)
    if isinstance(value, Mapping):
        target.update(value)
    elif field.is_repeated:
        if field.message_type is None:
            target.extend(value)
        else:
            target.extend(message(GetMessageClass(field.message_type), item) for item in value)
    elif field.message_type is not None:
        target.CopyFrom(message(GetMessageClass(field.message_type), value))
    else:
        setattr(made, field.name, value)


def request_value(spec: pb.GroupSpec) -> GroupRequest:
    """What is asked for. Raises RefusedError (`invalid`) for what no request can be."""
    values: dict[str, Any] = {"hosts": tuple(spec.hosts)}
    for f in fields(GroupRequest):
        if f.name in _LISTS:
            if chosen := tuple(getattr(spec, f.name)):
                values[f.name] = chosen
        elif f.name not in ("name", "hosts"):
            field = spec.DESCRIPTOR.fields_by_name[f.name]
            if not field.has_presence or spec.HasField(f.name):  # type: ignore[arg-type]
                values[f.name] = getattr(spec, f.name)
    for name, value in values.items():
        if isinstance(value, tuple) and len(value) > _MOST:
            raise refused(errors.INVALID, f"group: {len(value)} {name}, expected at most {_MOST}")
        if isinstance(value, float) and not math.isfinite(value):
            raise refused(errors.INVALID, f"group: {name} = {value!r}, expected a finite number")
    return GroupRequest(name=spec.name, **values)


def event_message(sequence: int, event: Event, rank: int | None) -> pb.WatchEvent:
    """An event for a rank of its group; without a rank for an admin, who sees that there is a grant, not what it is."""
    made = pb.WatchEvent(sequence=sequence, group=event.group)
    match event:
        case Prepare():
            made.prepare.CopyFrom(message(pb.Prepare, event))
        case Granted():
            made.granted.SetInParent()
            if rank is not None:
                made.granted.grant = json.dumps(restricted(event.grant, rank).to_dict())
        case Lost():
            made.lost.CopyFrom(message(pb.Lost, event))
        case Ended():
            made.ended.CopyFrom(message(pb.Ended, event))
        case Decided():
            made.decision = event.decision.line()
    return made


def joined_message(joined: Joined) -> pb.JoinGroupResponse:
    """The answer to a member that joined."""
    return pb.JoinGroupResponse(
        token=joined.token,
        address=joined.address,
        transport=json.dumps(joined.transport),
        lease=joined.lease,
        world_size=joined.world_size,
    )


def explanation_message(explanation: Explanation) -> pb.ExplainResponse:
    """Why a group is as it is."""
    made = pb.ExplainResponse(
        group=message(pb.GroupState, explanation.group),
        waits_for=explanation.waits_for,
        late=explanation.late,
    )
    for decision in explanation.decisions:
        made.decisions.add(
            at=decision.at,
            epoch=decision.epoch,
            path=decision.path.value,
            reason=decision.reason.value,
            text=decision.text,
            about=decision.about,
        )
    return made
