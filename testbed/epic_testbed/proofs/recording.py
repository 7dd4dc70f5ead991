"""Recordings of runs (NDJSON, written by `epic_models.reference.recorder`): read, merged, and checked for form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epic_models.reference.group import Edge, EngineGroup, GroupParams, RankGroup
from epic_spec import psn
from epic_spec.errors import ConfigError, EpicError
from epic_spec.tables import Opcode

SUFFIX = ".ndjson"
CALLS = ("submit", "receive", "poll")
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A packet as a node saw it. `edge` is named by its child; `number` counts from the base, without wrapping.

    `up` is the direction of what the packet is about: an acknowledgement of contributions is `up` although it
    travels down.
    """

    edge: str
    opcode: str
    number: int
    up: bool
    imm: int | None
    length: int
    syndrome: int

    @property
    def is_ack(self) -> bool:
        """Whether it is an ACK, NAK or RNR NAK."""
        return self.opcode == Opcode.ACK.name


@dataclass(slots=True)
class Step:
    """One call of a node: what it received, sent and became (`line` has it all). `where` names file and line."""

    where: str
    node: str
    call: str
    received: Seen | None
    sends: list[Seen]
    line: Line


@dataclass(slots=True)
class Recording:
    """All that was recorded of one group, in the order of time."""

    name: str
    params: GroupParams
    engines: dict[str, EngineGroup] = field(default_factory=dict)
    ranks: dict[str, RankGroup] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    # Ranks whose install line says that they overrun their window on purpose.
    rogues: frozenset[str] = frozenset()

    @property
    def children(self) -> dict[str, tuple[str, ...]]:
        """Children of each engine, in bitmap order."""
        return {
            name: tuple(edge.name.removesuffix(f"-{name}") for edge in entry.children)
            for name, entry in self.engines.items()
        }

    @property
    def parent(self) -> dict[str, str]:
        """The parent of each node but the root."""
        return {child: name for name, children in self.children.items() for child in children}

    @property
    def root(self) -> str:
        """The root of the tree."""
        return next(name for name, entry in self.engines.items() if entry.parent is None)

    @property
    def bases(self) -> dict[str, tuple[int, int]]:
        """PSN of packet 0 on each edge, up and down."""
        return {
            edge.name.removesuffix(f"-{name}"): (edge.psn_rx, edge.psn_tx)
            for name, entry in self.engines.items()
            for edge in entry.children
        }


def load(path: Path) -> list[Recording]:
    """The recordings in a file, or in the files of a directory taken together; one a group.

    Raises ConfigError in one line for what is no recording.
    """
    if path.is_dir():
        files = sorted(path.glob(f"*{SUFFIX}"))
        if not files:
            raise ConfigError(f"trace {path}: no *{SUFFIX} in it, expected one a node")
    else:
        files = [path]
    lines: list[tuple[str, Line]] = []
    for file in files:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise ConfigError(f"trace {file}: {reason}, expected NDJSON") from None
        lines += [
            (f"{file.name}:{n}", _line(file, n, t)) for n, t in enumerate(text.splitlines(), 1) if t.strip()
        ]
    # Clocks are equal on all nodes, and sorting keeps the order of a file's lines of equal times.
    lines.sort(key=lambda item: item[1]["t"])
    return assemble(path.name.removesuffix(SUFFIX), lines)


def _line(file: Path, number: int, text: str) -> Line:
    where = f"trace {file}:{number}"
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"{where}: not JSON, expected a line of a recording") from None
    if not isinstance(line, dict):
        raise ConfigError(f"{where}: no object, expected a line of a recording")
    for key, kind in (("t", int), ("node", str), ("group", int), ("call", str)):
        if not isinstance(line.get(key), kind):
            raise ConfigError(f"{where}: {key} = {line.get(key)!r}, expected {kind.__name__}")
    return line


def assemble(name: str, lines: Iterable[tuple[str, Line]]) -> list[Recording]:
    """Recordings from lines in order of time, each with where it stands. Raises ConfigError."""
    groups: dict[int, _Assembly] = {}
    for where, line in lines:
        try:
            groups.setdefault(line["group"], _Assembly(name)).take(where, line)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"trace {where}: {type(error).__name__} {error}, expected a line of a recording"
            ) from None
        except EpicError as error:
            raise ConfigError(f"trace {where}: {error}") from None
    if not groups:
        raise ConfigError(f"trace {name}: no line in it, expected a recording")
    found = [assembly.finish(group) for group, assembly in sorted(groups.items())]
    if len(found) > 1:
        for recording in found:
            recording.name += f" group {recording.params.group}"
    return found


class _Assembly:
    def __init__(self, name: str) -> None:
        self._name = name
        self._engines: dict[str, EngineGroup] = {}
        self._ranks: dict[str, RankGroup] = {}
        self._steps: list[Step] = []
        self._rogues: set[str] = set()
        self._edges: dict[tuple[str, str], tuple[Edge, str, bool]] = {}

    def take(self, where: str, line: Line) -> None:
        node, call = line["node"], line["call"]
        if call == "install":
            self._install(node, line["entry"])
            if line.get("rogue"):
                self._rogue(node)
            return
        if call not in CALLS:
            raise ConfigError(f"call = {call!r}, expected install, {', '.join(CALLS)}")
        if node not in self._engines and node not in self._ranks:
            raise ConfigError(f"node {node} has not been installed before, expected its install line first")
        packet = line.get("packet")
        if (packet is not None) != (call == "receive"):
            raise ConfigError(
                f"call {call} {'with' if packet else 'without'} a packet, expected one in receive only"
            )
        received = self._seen(node, packet, sent=False) if packet is not None else None
        sends = [self._seen(node, p, sent=True) for p in line.get("sends", ())]
        self._steps.append(Step(where, node, call, received, sends, line))

    def _install(self, node: str, entry: Mapping[str, Any]) -> None:
        if node in self._engines or node in self._ranks:
            raise ConfigError(
                f"node {node} is installed a second time, expected one epoch of a group in a recording"
            )
        if "rank" in entry:
            rank = self._ranks[node] = RankGroup.from_dict(entry)
            self._edges[node, rank.edge.name] = (rank.edge, node, True)
            return
        engine = self._engines[node] = EngineGroup.from_dict(entry)
        for edge in engine.children:
            self._edges[node, edge.name] = (edge, edge.name.removesuffix(f"-{node}"), False)
        if engine.parent is not None:
            self._edges[node, engine.parent.name] = (engine.parent, node, True)

    def _rogue(self, node: str) -> None:
        """A rank that a test lets overrun its window; in Mode I only buffers limit a rank, and RNR NAKs say so."""
        if node not in self._ranks or self._ranks[node].params.mode == 1:
            raise ConfigError(f"node {node} is rogue, expected a rank of Mode II or III")
        self._rogues.add(node)

    def _seen(self, node: str, packet: Mapping[str, Any], *, sent: bool) -> Seen:
        """The packet with its number. `at_child`: the node is the edge's lower end, where what is sent goes up."""
        edge, child, at_child = self._edges[node, packet["edge"]]
        ack = packet["opcode"] == Opcode.ACK.name
        # An acknowledgement counts the packets of the other direction (EPIC-W-18).
        base = edge.psn_tx if sent != ack else edge.psn_rx
        return Seen(
            edge=child,
            opcode=Opcode[packet["opcode"]].name,
            number=psn.diff(int(packet["psn"]), base),
            up=(at_child == sent) != ack,
            imm=packet.get("imm"),
            length=int(packet.get("length", 0)),
            syndrome=int(packet.get("syndrome", 0)),
        )

    def finish(self, group: int) -> Recording:
        """The recording, when the tree is whole."""
        entries: Sequence[EngineGroup | RankGroup] = [*self._engines.values(), *self._ranks.values()]
        if not self._ranks or not self._engines:
            raise ConfigError(
                f"trace {self._name}: group {group} without ranks or engines, expected every node's lines"
            )
        params = entries[0].params
        recording = Recording(
            self._name, params, self._engines, self._ranks, self._steps, frozenset(self._rogues)
        )
        roots = [name for name, entry in self._engines.items() if entry.parent is None]
        nodes = set(recording.parent)
        missing = (nodes - set(self._engines) - set(self._ranks)) | {
            f"r{r}" for r in range(params.world_size) if f"r{r}" not in self._ranks
        }
        if missing or len(roots) != 1:
            what = f"nodes {', '.join(sorted(missing))}" if missing else "the root"
            raise ConfigError(
                f"trace {self._name}: {what} did not record, expected every node of group {group}"
            )
        return recording
