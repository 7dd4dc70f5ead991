"""What the manager's core causes: calls to engines, and events for the members of groups and whoever watches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from epic_host.control.fence import Installed
from epic_host.fabric.decision import Decision
from epic_host.grants import Grant
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus

CallKind = Literal["install", "remove", "installed", "status", "capabilities"]


@dataclass(frozen=True, slots=True)
class EngineCall:
    """A call of `epic.v1.Engine`. It may be lost or made twice: the core makes it again until it sees it done.

    `number` and `epoch` are of `install`, `remove` and `status`; `entry` and `instance` of `install`. `timeout` in
    seconds: after it the core goes on as if there were no answer, whether or not one was handed to `Core.engine_done`.
    """

    id: int
    engine: str
    control: str
    kind: CallKind
    timeout: float
    number: int = 0
    epoch: int = 0
    instance: str = ""
    entry: EngineGroup | None = None


@dataclass(frozen=True, slots=True)
class CallDone:
    """The answer to a call: of `install` and `remove` the engine's instance, of the others what was asked for."""

    value: str | Installed | GroupStatus | EngineCapabilities


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A call that ended in an error. `reason` is the word of engine.proto's table, "unreachable" for no answer."""

    reason: str
    text: str


Outcome = CallDone | CallFailed


@dataclass(frozen=True, slots=True)
class Prepare:
    """To every member: the epoch before `epoch` is over; stop sending, report what is delivered."""

    group: str
    epoch: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Granted:
    """To every member: the epoch begins. `placing.restricted(grant, rank)` is what a rank gets of it."""

    group: str
    grant: Grant


@dataclass(frozen=True, slots=True)
class Lost:
    """To every other member: these ranks are lost, and the group is at its end; it may be shrunk."""

    group: str
    ranks: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """To every member: the group is no more."""

    group: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Decided:
    """To admins, and to the members: a decision about the group; `decision.line()` is what the log has."""

    group: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a fault report: "epoch" (a new one comes), "lost" (`ranks`), "wait" (everything answers).

    With "wait" `ranks` are those that are late: alive, and they have not contributed.
    """

    verdict: Literal["epoch", "lost", "wait"]
    ranks: tuple[int, ...] = ()
    edges: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """To whoever reported a fault and got `ticket`: the verdict. It comes within `Settings.inquiry_timeout`."""

    group: str
    ticket: int
    verdict: Verdict = field(default_factory=lambda: Verdict("wait"))


Event = Prepare | Granted | Lost | Ended | Decided | Answered
