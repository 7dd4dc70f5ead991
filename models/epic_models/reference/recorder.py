"""Recordings: what agents and engines receive, send and become, one JSON object a line (NDJSON).

A recorder is put on an agent or engine object; those without one run the same code as ever, so recording costs
nothing while it is off. `epic check tla --trace` holds recordings against the TLA+ specification of the mode.

Every line has `t` (nanoseconds of a clock that all nodes share, taken when the call has been worked through and
before anything it sends leaves), `node` (a switch's name, or r0, r1, ...), `group` and `call`:

    install   an engine's group, or what a rank got: `entry`, its JSON form
    submit    an agent contributes one cell: `imm`, `length`
    receive   an admitted packet came over `edge`: `packet`
    poll      timers ran, and something came of it

and, where there is any, `sends` and `events`. A packet is {"edge", "opcode", "psn", "imm", "length", "syndrome"}.
An engine's line has the `slots` that changed, each as [cell, bitmap, done] (as in its status), and the
`failed` edges when they changed; an agent's has `next` and `delivered`. Frames that are not admitted (ICRC,
addresses, P_Key) change nothing and are left out.

No recorder writes it, but a test that lets a rank of Mode II or III overrun its window adds `"rogue": true` to the
rank's install line: the check then lets that rank overrun and asks of the engines that they withstand it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from epic_models.reference.agent import AgentBase
from epic_models.reference.endpoint import misfit
from epic_models.reference.group import Edge, EngineGroup, GroupParams
from epic_models.reference.interfaces import (
    Agent,
    Cell,
    CellDelivered,
    CellFailed,
    EdgeFailed,
    Engine,
    Event,
    Output,
)
from epic_spec.errors import ConfigError
from epic_spec.packets import Packet

Line = dict[str, Any]


class Recorder:
    """Hands a line (a text without newline) to `write` for every call of the nodes that it is put on."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._write = write
        self._clock = clock

    def put_on_engine(self, name: str, engine: Engine) -> None:
        """Record an engine from now on; groups that it has already are not recorded."""
        _EngineRecording(self, name, engine)

    def put_on_agent(self, agent: Agent) -> None:
        """Record a rank's agent from now on. Raises ConfigError for one that is no `AgentBase` or has begun."""
        if not isinstance(agent, AgentBase):
            raise ConfigError(
                f"trace: agent {type(agent).__name__} cannot be recorded, expected an AgentBase"
            )
        if agent.delivered or agent.outstanding:
            raise ConfigError(f"trace: rank {agent.group.rank} has contributed, expected one that has not")
        _AgentRecording(self, agent)

    def line(self, node: str, group: int, call: str, **fields: Any) -> None:
        """Write one line; fields that are empty are left out."""
        line: Line = {"t": self._clock(), "node": node, "group": group, "call": call}
        line |= {key: value for key, value in fields.items() if value not in (None, [], ())}
        self._write(json.dumps(line))


class FileRecorder(Recorder):
    """A recorder that writes a file, each line at once, so that what a killed process leaves is whole."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: IO[str] = path.open("w", buffering=1)
        except OSError as error:
            raise ConfigError(
                f"trace {path}: {error.strerror}, expected a file that can be written"
            ) from None
        super().__init__(lambda text: self._file.write(text + "\n"))

    def close(self) -> None:
        """Close the file; what is recorded later is an error of the caller."""
        self._file.close()


class _EngineRecording:
    """Stands before the methods of one engine."""

    def __init__(self, recorder: Recorder, name: str, engine: Engine) -> None:
        self._recorder, self._name, self._engine = recorder, name, engine
        self._entries: dict[int, EngineGroup] = {}
        self._by_qpn: dict[int, tuple[int, Edge]] = {}
        self._slots: dict[int, dict[int, tuple[int, bool]]] = {}
        self._failed: dict[int, tuple[str, ...]] = {}
        self._install, self._remove = engine.install, engine.remove
        self._receive, self._poll = engine.receive, engine.poll
        for method in ("install", "remove", "receive", "poll"):
            setattr(engine, method, getattr(self, method))

    def install(self, entry: EngineGroup, now: float) -> None:
        self._install(entry, now)
        group = entry.params.group
        self._entries[group] = entry
        self._slots[group], self._failed[group] = {}, ()
        for edge in entry.edges:
            self._by_qpn[edge.local.qpn] = (group, edge)
        self._recorder.line(self._name, group, "install", entry=entry.to_dict())

    def remove(self, group: int) -> None:
        self._remove(group)
        for edge in self._entries.pop(group).edges:
            del self._by_qpn[edge.local.qpn]

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        output = self._receive(port, packet, now)
        group, edge = self._by_qpn.get(packet.qpn, (None, None))
        if (
            group is not None
            and edge is not None
            and _admitted(edge, self._entries[group].params, port, packet)
        ):
            self._line(group, "receive", output, edge=edge.name, packet=_packet(edge, packet))
        return output

    def poll(self, now: float) -> Output:
        output = self._poll(now)
        for group in self._entries:
            if self._sends(group, output) or self._engine.status(group).failed_edges != self._failed[group]:
                self._line(group, "poll", output)
        return output

    def _line(self, group: int, call: str, output: Output, **fields: Any) -> None:
        status = self._engine.status(group)
        before = self._slots[group]
        slots = {s.cell: (s.bitmap, s.done) for s in status.slots}
        changed = [[cell, *slot] for cell, slot in slots.items() if before.get(cell) != slot]
        self._slots[group] = slots
        if status.failed_edges != self._failed[group]:
            self._failed[group] = status.failed_edges
            fields["failed"] = list(status.failed_edges)
        fields["sends"] = self._sends(group, output)
        fields["events"] = _events(e for e in output.events if isinstance(e, EdgeFailed) and e.group == group)
        self._recorder.line(self._name, group, call, slots=changed, **fields)

    def _sends(self, group: int, output: Output) -> list[Line]:
        return _sends(self._entries[group].edges, output)


class _AgentRecording:
    """Stands before the methods of one agent."""

    def __init__(self, recorder: Recorder, agent: AgentBase) -> None:
        self._recorder, self._agent, self._entry = recorder, agent, agent.group
        self._node = f"r{agent.group.rank}"
        self._submit, self._receive, self._poll = agent.submit, agent.receive, agent.poll
        for method in ("submit", "receive", "poll"):
            setattr(agent, method, getattr(self, method))
        group = self._entry.params.group
        recorder.line(self._node, group, "install", entry=self._entry.to_dict())

    def submit(self, cells: Sequence[Cell], now: float) -> Output:
        if len(cells) > self._agent.room():
            return self._submit(cells, now)  # which raises
        total = Output()
        for cell in cells:
            output = self._submit([cell], now)
            self._line("submit", output, imm=cell.imm, length=len(cell.payload or b""))
            total.extend(output)
        return total

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        output = self._receive(port, packet, now)
        edge = self._entry.edge
        if packet.qpn == edge.local.qpn and _admitted(edge, self._entry.params, port, packet):
            self._line("receive", output, edge=edge.name, packet=_packet(edge, packet))
        return output

    def poll(self, now: float) -> Output:
        output = self._poll(now)
        if output.sends or output.events:
            self._line("poll", output)
        return output

    def _line(self, call: str, output: Output, **fields: Any) -> None:
        delivered = self._agent.delivered
        self._recorder.line(
            self._node,
            self._entry.params.group,
            call,
            **fields,
            sends=_sends((self._entry.edge,), output),
            events=_events(output.events),
            next=delivered + self._agent.outstanding,
            delivered=delivered,
        )


def _admitted(edge: Edge, params: GroupParams, port: int, packet: Packet) -> bool:
    """Whether the node looks at the packet at all (EPIC-E-01, EPIC-H-01)."""
    return (packet.icrc_ok or params.icrc != "full") and misfit(edge, params, port, packet) is None


def _packet(edge: Edge, packet: Packet) -> Line:
    line: Line = {"edge": edge.name, "opcode": packet.opcode.name, "psn": packet.psn}
    if packet.aeth is not None:
        return line | {"syndrome": packet.aeth.syndrome}
    return line | {"imm": packet.imm, "length": len(packet.payload)}


def _sends(edges: Sequence[Edge], output: Output) -> list[Line]:
    by_end = {(edge.peer.qpn, edge.peer.ip): edge for edge in edges}
    return [_packet(by_end[end], p) for _, p in output.sends if (end := (p.qpn, p.dst_ip)) in by_end]


def _events(events: Any) -> list[Line]:
    return [_event(event) for event in events]


def _event(event: Event) -> Line:
    name = type(event).__name__
    if isinstance(event, CellDelivered):
        return {"event": name, "cell": event.cell, "imm": event.imm, "length": len(event.payload or b"")}
    if isinstance(event, CellFailed):
        return {"event": name, "cell": event.cell, "sent": event.sent, "held": event.held}
    return {"event": name, **asdict(event)}
