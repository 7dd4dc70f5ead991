"""What the manager knows for good: one immutable record a thing, one table of the store a kind.

Names are those of tla/Manager.tla where it has one: an `Install` is a lease of slots of one engine; "freeing" ends only
when the engine was seen without it. What is not here (when a member was last heard, which engine answers, what was
seen of a step that is not over) is found out anew after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from epic_host.fabric.decision import Decision, Path, Reason
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.resources import Demand
from epic_host.fabric.terms import Terms
from epic_host.grants import Grant

# States of a group. FORMING: ranks are missing; CHANGING: the epoch is being prepared; ACTIVE: it runs; ENDED:
# nothing but its survivors' addresses and its history is left.
FORMING: Final = "forming"
CHANGING: Final = "changing"
ACTIVE: Final = "active"
ENDED: Final = "ended"

# States of a member.
ABSENT: Final = "absent"
JOINED: Final = "joined"
LOST: Final = "lost"
LEFT: Final = "left"

# Steps of an install.
INSTALLING: Final = "installing"
INSTALLED: Final = "installed"
FREEING: Final = "freeing"


def _json(load: Callable[[Any], Any], dump: Callable[[Any], Any] = lambda value: value) -> Any:
    """Metadata of a field that is JSON in its column."""
    return {"load": lambda text: load(json.loads(text)), "dump": lambda value: json.dumps(dump(value))}


def _terms(value: Any) -> Terms | None:
    return None if value is None else Terms.from_dict(value)


def _request(value: dict[str, Any]) -> GroupRequest:
    lists = ("hosts", "modes", "datatypes", "operators")
    return GroupRequest(**value | {key: tuple(value[key]) for key in lists})


@dataclass(frozen=True, slots=True)
class Group:
    """A group. `numbers[t]` is what its tree t is called on engines.

    `epoch` is the one that runs, or is being prepared. `placed`: its grant is made. `resume` counts cells over all
    epochs.
    `target` "host": the epoch is to leave the network to others, "" runs wherever it can. `created`, `ended` and
    `since` (when it came onto its path) in Unix seconds.
    `successor` and `survivors` are of the group that the survivors of this one became.
    """

    name: str
    uid: int
    job: str
    request_id: str
    request: GroupRequest = field(metadata=_json(_request, asdict))
    created: float
    state: str = FORMING
    epoch: int = 0
    placed: bool = False
    resume: int = 0
    target: str = ""
    path: str = Path.NONE.value
    reason: str = Reason.MEMBERS_MISSING.value
    text: str = ""
    terms: Terms | None = field(
        default=None, metadata=_json(_terms, lambda value: None if value is None else value.to_dict())
    )
    numbers: tuple[int, ...] = field(default=(), metadata=_json(tuple))
    successor: str = ""
    survivors: tuple[int, ...] = field(default=(), metadata=_json(tuple))
    ended: float = 0.0
    since: float = 0.0

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of its row."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Member:
    """A rank of a group. `reported`: newest epoch it has reported for, having then `delivered` cells (of all
    epochs).
    """

    group: str
    rank: int
    host: str
    address: str = ""
    state: str = ABSENT
    incarnation: str = ""
    reported: int = 0
    delivered: int = 0

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of its row."""
        return (self.group, self.rank)


@dataclass(frozen=True, slots=True)
class Granting:
    """The grant of a group's epoch; its `resume` is right once the epoch runs."""

    group: str
    grant: Grant = field(metadata=_json(Grant.from_dict, Grant.to_dict))

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of its row."""
        return (self.group,)


@dataclass(frozen=True, slots=True)
class Install:
    """One engine's part of a tree: what is taken of it from before the call to install until it was seen removed.

    `links` are rates in Gbit/s on links to the engine's children. `instance`: the engine's process that has it (when
    INSTALLED).
    """

    number: int
    engine: str
    epoch: int
    group: str
    tree: int
    demand: Demand = field(metadata=_json(Demand.from_dict, Demand.to_dict))
    links: dict[str, float] = field(metadata=_json(dict))
    step: str = INSTALLING
    instance: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of its row."""
        return (self.number, self.engine, self.epoch)


@dataclass(frozen=True, slots=True)
class Node:
    """A host that has registered."""

    host: str
    mtu: int
    version: str

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of its row."""
        return (self.host,)


@dataclass(frozen=True, slots=True)
class Out:
    """An engine ("engine") or link ("link") that an admin took out of use."""

    kind: str
    name: str

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of its row."""
        return (self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An address that a member gave up a moment ago."""

    address: str

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of its row."""
        return (self.address,)


@dataclass(frozen=True, slots=True)
class Reasoned:
    """A decision about a group, in the order of `sequence`."""

    sequence: int
    group: str
    decision: Decision = field(
        metadata=_json(
            lambda value: Decision(
                **value | {"path": Path(value["path"]), "reason": Reason(value["reason"])}
            ),
            lambda value: asdict(value) | {"path": value.path.value, "reason": value.reason.value},
        )
    )

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of its row."""
        return (self.sequence,)


@dataclass(frozen=True, slots=True)
class Counter:
    """The next one of what is counted: group numbers of engines, uids of groups, decisions."""

    name: str
    value: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of its row."""
        return (self.name,)


Record = Group | Member | Granting | Install | Node | Out | Quarantined | Reasoned | Counter

# Table and key columns of each kind.
TABLES: Final[dict[type[Any], tuple[str, tuple[str, ...]]]] = {
    Group: ("groups", ("name",)),
    Member: ("members", ("group", "rank")),
    Granting: ("grants", ("group",)),
    Install: ("installs", ("number", "engine", "epoch")),
    Node: ("nodes", ("host",)),
    Out: ("out_of_use", ("kind", "name")),
    Quarantined: ("quarantine", ("address",)),
    Reasoned: ("decisions", ("sequence",)),
    Counter: ("counters", ("name",)),
}
