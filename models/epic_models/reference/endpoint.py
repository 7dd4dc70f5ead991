"""What every engine and agent does before a mode looks at a packet: decode, count, isolate (EPIC-E-01 to EPIC-E-04).

`EngineBase` holds the installed groups and hands each admitted packet to the group's machine; a mode is a
subclass that says how to make that machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass

from epic_models.reference.group import Edge, EngineGroup, GroupParams
from epic_models.reference.interfaces import GroupStatus, Output, SlotStatus
from epic_spec import codec
from epic_spec.errors import ConfigError, ResourceError, WireError
from epic_spec.packets import Aeth, Packet
from epic_spec.tables import CAPABILITIES, COUNTERS, OPCODE_MODES, NakCode, Opcode, Syndrome

# Opcodes of each mode, as a set: membership is asked for every packet.
_USED = {
    mode: frozenset(Opcode[name] for name, modes in OPCODE_MODES.items() if mode in modes)
    for mode in (1, 2, 3)
}
DATA_OPCODES = frozenset(Opcode) - {Opcode.ACK}


class Counters(dict[str, int]):
    """All counters of epic.toml, from zero."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COUNTERS, 0))

    def drop(self, reason: str) -> None:
        """Count a dropped frame."""
        self[f"drop_{reason}"] += 1


def decode_or_count(frame: bytes, counters: Counters) -> Packet | None:
    """The packet of a frame, or None when it cannot be decoded: then it is counted by reason (EPIC-W-21)."""
    try:
        return codec.decode(frame, icrc="check")
    except WireError as error:
        counters["rx_frames"] += 1
        counters.drop(error.reason)
        return None


def misfit(edge: Edge, params: GroupParams, port: int, packet: Packet) -> str | None:
    """Why a packet for this edge's QPN may not be taken as having come over the edge, or None (P6)."""
    if port != edge.port:
        return "wrong_port"
    if (
        packet.src_ip != edge.peer.ip
        or packet.dst_ip != edge.local.ip
        or packet.src_mac != edge.peer.mac
        or packet.dst_mac != edge.local.mac
    ):
        return "wrong_address"
    if packet.pkey != params.pkey:
        return "pkey"
    if packet.opcode not in _USED[params.mode]:
        return "role"
    return None


class EdgeEnd:
    """One end of an edge in use: builds its packets with what the group fixes (P_Key, ICRC)."""

    def __init__(self, edge: Edge, params: GroupParams) -> None:
        self.edge = edge
        self.params = params

    def data(
        self,
        opcode: Opcode,
        number: int,
        imm: int | None,
        payload: bytes | None,
        *,
        ackreq: bool = False,
        congested: bool = False,
    ) -> tuple[int, Packet]:
        """A data packet and the port it leaves by."""
        packet = self.edge.packet(
            opcode, number, imm=imm, payload=payload or b"", ackreq=ackreq, pkey=self.params.pkey
        )
        packet.icrc_ok = self.params.icrc == "full"
        if congested and self.params.ecn:
            packet.ecn = 3
        return self.edge.port, packet

    def ack(self, number: int, aeth: Aeth) -> tuple[int, Packet]:
        """An acknowledgement of received packet `number` and the port it leaves by."""
        packet = self.edge.packet(Opcode.ACK, number, aeth=aeth, pkey=self.params.pkey)
        packet.icrc_ok = self.params.icrc == "full"
        return self.edge.port, packet


def ack_aeth(msn: int) -> Aeth:
    """A positive acknowledgement without a credit limit."""
    return Aeth(Syndrome.ACK | 0x1F, msn & 0xFFFFFF)


def nak_aeth(code: NakCode, msn: int) -> Aeth:
    """A negative acknowledgement."""
    return Aeth(Syndrome.NAK | code, msn & 0xFFFFFF)


@dataclass(frozen=True, slots=True)
class EngineCapabilities:
    """What an engine offers: upper limits, sets and options by the names of epic.toml."""

    mode: int
    window: int = 4096
    slots: int = 8192
    payload_bytes: int = 8192
    message_bytes: int = 1048576
    message_buffers: int = 4096
    children: int = 64
    groups: int = 64
    operators: tuple[str, ...] = ("SUM", "MAX", "MIN")
    datatypes: tuple[str, ...] = tuple(CAPABILITIES["datatypes"]["values"])
    byte_order: tuple[str, ...] = ("big", "little")
    icrc: tuple[str, ...] = ("full", "none")
    partial_format: tuple[str, ...] = ("input", "fp32")
    ack_reflection: bool = True
    window_guard: bool = True
    conflict_record: bool = True
    ordered: bool = True
    ecn: bool = True

    def check(self, entry: EngineGroup) -> None:
        """Refuse a group that asks for more than is offered. Raises ResourceError naming the capability."""
        params, where = entry.params, f"group {entry.params.group}"
        if params.mode != self.mode:
            raise ResourceError(f"{where}: mode = {params.mode}, this engine offers mode {self.mode}")
        limits = ["window", "payload_bytes"]
        limits += ["slots"] if self.mode == 3 else []
        limits += ["message_bytes", "message_buffers"] if self.mode == 1 else []
        for name in limits:
            if getattr(params, name) > getattr(self, name):
                raise ResourceError(
                    f"{where}: {name} = {getattr(params, name)}, this engine offers at most {getattr(self, name)}"
                )
        if not 1 <= len(entry.children) <= self.children:
            raise ResourceError(
                f"{where}: fan-in {len(entry.children)}, this engine offers 1 to {self.children}"
            )
        for name in ("operators", "datatypes"):
            for value in getattr(params, name):
                if value not in getattr(self, name):
                    raise ResourceError(
                        f"{where}: {name} has {value}, this engine offers {', '.join(getattr(self, name))}"
                    )
        for name in ("byte_order", "icrc", "partial_format"):
            if getattr(params, name) not in getattr(self, name):
                raise ResourceError(
                    f"{where}: {name} = {getattr(params, name)}, this engine offers {', '.join(getattr(self, name))}"
                )
        for name in ("ack_reflection", "window_guard", "conflict_record", "ordered", "ecn"):
            used = self.mode in CAPABILITIES[name]["modes"]
            if getattr(params, name) and used and not getattr(self, name):
                raise ResourceError(f"{where}: {name} is asked for, this engine does not offer it")


class GroupMachine(ABC):
    """One installed group of one engine: what a mode implements."""

    def __init__(self, entry: EngineGroup, counters: Counters) -> None:
        self.entry = entry
        self.params = entry.params
        self.count = counters

    @abstractmethod
    def on_child(self, child: int, packet: Packet, now: float) -> Output:
        """An admitted packet came from child number `child`."""

    @abstractmethod
    def on_parent(self, packet: Packet, now: float) -> Output:
        """An admitted packet came from the parent."""

    def poll(self, now: float) -> Output:
        """Run the timers that are due; Mode III has none."""
        return Output()

    def next_deadline(self) -> float | None:
        """When `poll` is due."""
        return None

    @abstractmethod
    def slots(self) -> tuple[SlotStatus, ...]:
        """Live slots."""

    def failed_edges(self) -> tuple[str, ...]:
        """Names of edges in error."""
        return ()


@dataclass(slots=True)
class _Binding:
    machine: GroupMachine
    edge: Edge
    child: int | None  # None: the edge to the parent


def check_install(
    entry: EngineGroup,
    installed: Collection[int],
    capabilities: EngineCapabilities,
    qpn_in_use: Callable[[int], bool],
) -> None:
    """Refuse a group that an engine with these groups installed cannot take. Raises ConfigError or ResourceError."""
    group = entry.params.group
    if group in installed:
        raise ConfigError(f"group {group}: already installed, expected a group number that is free")
    if len(installed) >= capabilities.groups:
        raise ResourceError(f"group {group}: no room, this engine offers {capabilities.groups} groups")
    capabilities.check(entry)
    qpns = [edge.local.qpn for edge in entry.edges]
    for qpn in qpns:
        if qpn_in_use(qpn) or qpns.count(qpn) > 1:
            raise ConfigError(f"group {group}: QPN {qpn:#x} is in use, expected one that is free")


class EngineBase(ABC):
    """An engine of one mode with any number of groups."""

    MODE: int

    def __init__(self, capabilities: EngineCapabilities | None = None) -> None:
        self.capabilities = capabilities or EngineCapabilities(mode=self.MODE)
        self._groups: dict[int, GroupMachine] = {}
        self._bindings: dict[int, _Binding] = {}
        self._count = Counters()

    @abstractmethod
    def _make(self, entry: EngineGroup, counters: Counters) -> GroupMachine:
        """The mode's machine for a group."""

    def install(self, entry: EngineGroup, now: float) -> None:
        """Install a group. Raises ConfigError or ResourceError; on an error nothing has changed."""
        check_install(entry, self._groups, self.capabilities, self._bindings.__contains__)
        edges: list[tuple[int | None, Edge]] = list(enumerate(entry.children))
        if entry.parent is not None:
            edges.append((None, entry.parent))
        machine = self._make(entry, self._count)
        self._groups[entry.params.group] = machine
        for child, edge in edges:
            self._bindings[edge.local.qpn] = _Binding(machine, edge, child)

    def remove(self, group: int) -> None:
        """Remove a group and all it held. Raises ConfigError when it is not installed."""
        machine = self._machine(group)
        del self._groups[group]
        self._bindings = {q: b for q, b in self._bindings.items() if b.machine is not machine}

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived on `port`; one that cannot be decoded is counted by reason and dropped."""
        packet = decode_or_count(frame, self._count)
        return Output() if packet is None else self.receive(port, packet, now)

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived on `port`."""
        self._count["rx_frames"] += 1
        binding = self._bindings.get(packet.qpn)
        if not packet.icrc_ok and (binding is None or binding.machine.params.icrc == "full"):
            reason: str | None = "icrc"
        elif binding is None:
            reason = "unknown_qpn"
        else:
            reason = misfit(binding.edge, binding.machine.params, port, packet)
        if reason is not None or binding is None:
            self._count.drop(reason or "unknown_qpn")
            return Output()
        if packet.ecn == 3 and packet.opcode in DATA_OPCODES:
            self._count["rx_ce"] += 1
        if binding.child is None:
            return binding.machine.on_parent(packet, now)
        return binding.machine.on_child(binding.child, packet, now)

    def poll(self, now: float) -> Output:
        """Run the timers that are due."""
        output = Output()
        for machine in self._groups.values():
            deadline = machine.next_deadline()
            if deadline is not None and deadline <= now:
                output.extend(machine.poll(now))
        return output

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""
        deadlines = [d for m in self._groups.values() if (d := m.next_deadline()) is not None]
        return min(deadlines, default=None)

    def counters(self) -> dict[str, int]:
        """A copy of the counters; all names of epic.toml are present."""
        return dict(self._count)

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return tuple(self._groups)

    def status(self, group: int) -> GroupStatus:
        """Slots and failed edges of a group. Raises ConfigError when it is not installed."""
        machine = self._machine(group)
        return GroupStatus(group, machine.params.epoch, machine.slots(), machine.failed_edges())

    def _machine(self, group: int) -> GroupMachine:
        try:
            return self._groups[group]
        except KeyError:
            raise ConfigError(
                f"group {group}: not installed, expected one of {sorted(self._groups)}"
            ) from None
