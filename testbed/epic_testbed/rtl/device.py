"""The Mode III engine in Verilog with the groups that are installed on it: frames in, frames out."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import Edge, EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import ConfigError, ResourceError
from epic_spec.tables import COUNTERS, Datatype, Operator
from epic_testbed.dut import DutError
from epic_testbed.rtl import build, registers
from epic_testbed.rtl.model import RtlModel
from epic_testbed.rtl.records import Record, constants

TYPES: Final = build.RTL / "src" / "epic_types.vh"

_DATA_WORDS: Final = 10

# Cycles without a beat at any port after which nothing more comes: more than a frame needs from its last beat in to the
# first beat out.
QUIET: Final = 200


@dataclass(frozen=True, slots=True)
class Shape:
    """What an engine is built with, as its registers say."""

    mode: int
    ports: int
    bytes: int
    fp32: bool
    slots: int
    mtu: int
    edges: int
    groups: int
    children: int
    rows: int
    ranks: int

    @classmethod
    def of(cls, model: RtlModel) -> Shape:
        """Reads them. Raises DutError when this is no EPIC engine."""
        if model.read(registers.ID) != registers.IDENTITY:
            raise DutError(f"register ID = {model.read(registers.ID):#x}, expected {registers.IDENTITY:#x}")
        shape, tables, fan = (
            model.read(registers.SHAPE),
            model.read(registers.TABLES),
            model.read(registers.FAN),
        )
        return cls(
            mode=shape & 15, ports=shape >> 4 & 15, bytes=1 << (shape >> 8 & 15), fp32=bool(shape >> 12 & 1),
            slots=model.read(registers.SLOTS), mtu=model.read(registers.MTU),
            edges=tables & 0xFFFF, groups=tables >> 16,
            children=fan & 0xFFFF, rows=fan >> 16, ranks=model.read(registers.RANKS),
        )  # fmt: skip

    def offers(self) -> EngineCapabilities:
        """What that means in the words of the spec."""
        return EngineCapabilities(
            mode=self.mode, window=min(4096, self.slots // 2), slots=self.slots, payload_bytes=self.mtu,
            children=self.children, groups=self.groups, datatypes=("INT32", "FP32") if self.fp32 else ("INT32",),
            byte_order=("big", "little"), icrc=("full", "none"), partial_format=("input",), ack_reflection=True,
            window_guard=True, conflict_record=True, ordered=False, ecn=True,
        )  # fmt: skip


@dataclass(slots=True)
class _Installed:
    """Where a group is in the tables."""

    entry: EngineGroup
    index: int
    slot_base: int
    row_base: int
    edges: list[int] = field(default_factory=list)
    rows: int = 0


class RtlDevice:
    """An engine and its control plane. `parameters` are those of rtl/src/epic_mode3.v."""

    def __init__(
        self, parameters: Mapping[str, int | str] | None = None, *, trace: Path | None = None
    ) -> None:
        values = {"DATA_W": 128, "PORTS": 8} | build.checked("epic_mode3", parameters or {})
        self.model = RtlModel(build.library("epic_mode3", values, trace=trace is not None), trace)
        self.shape = Shape.of(self.model)
        self.offers = self.shape.offers()
        self._constants = constants(TYPES)
        self._start()

    def _start(self) -> None:
        self._groups: dict[int, _Installed] = {}
        self._edge_of: dict[int, int] = {}  # QPN: edge
        self._below = [0] * self.shape.ranks

    def close(self) -> None:
        """Ends the simulation."""
        self.model.close()

    def reset(self) -> None:
        """As after power on: no groups, counters at 0."""
        self.model.reset()
        self._start()

    # ------------------------------------------------------------------------------------------------------- frames

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave because `frame` came in on `port`."""
        self.model.push(port, frame)
        return self.settle()

    def settle(self) -> list[tuple[int, bytes]]:
        """Lets everything under way happen; the frames that left, in order."""
        self.model.settle(QUIET)
        return self.sent()

    def sent(self) -> list[tuple[int, bytes]]:
        """The frames that have left and were not asked for yet."""
        frames = []
        while (sent := self.model.pop()) is not None:
            frames.append((sent.port, sent.frame))
        return frames

    def forward(self, *, ports: int, flood: int) -> None:
        """Which ports' frames that are not EPIC's are forwarded, and where to when the table does not say (bits)."""
        self.model.write(registers.CONTROL, ports | flood << 8)

    def route(self, entry: int, mac: str, port: int | None) -> None:
        """Sets an entry of the forwarding table; without a port it is free."""
        ports = 0 if port is None else 1 << port
        self._command("TABLE_FORWARD", entry, _mac(mac) | ports << 48)

    # ------------------------------------------------------------------------------------------------------- groups

    def install(self, entry: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError; nothing has changed then."""
        number, params = entry.params.group, entry.params
        if number in self._groups:
            raise ConfigError(f"group {number}: already installed, expected a group number that is free")
        self.offers.check(entry)
        self._check_edges(entry)
        rows = _rows(entry)
        group = self._free(
            number, "groups", self.shape.groups, [(g.index, 1) for g in self._groups.values()], 1
        )
        base = self._free(
            number, "slots", self.shape.slots, [(g.slot_base, g.entry.params.slots) for g in self._groups.values()],
            params.slots,
        )  # fmt: skip
        row = self._free(
            number,
            "multicast rows",
            self.shape.rows,
            [(g.row_base, g.rows) for g in self._groups.values()],
            len(rows),
        )
        ends = [*entry.children, *([] if entry.parent is None else [entry.parent])]
        used = set(self._edge_of.values())
        free = [e for e in range(self.shape.edges) if e not in used]
        if len(free) < len(ends):
            raise ResourceError(
                f"group {number}: {len(ends)} edges, this engine has room for {len(free)} more"
            )

        installed = _Installed(entry, group, base, row, free[: len(ends)], len(rows))
        self._groups[number] = installed
        self._command("TABLE_GROUP", group, self._group_record(installed))
        for offset, children in enumerate(rows):
            value = sum((installed.edges[c] | 1 << 8) << 16 * entry.children[c].port for c in children)
            self._command("TABLE_ROW", row + offset, value)
        self._set_below(installed, present=True)
        slots_log2 = params.slots.bit_length() - 1
        self._command("TABLE_SLOT_CLEAR", base, slots_log2 | (len(entry.children) - 1) << 8)
        # Last, for a frame finds the group by its edge. The next command waits for the slots.
        for child, edge in enumerate(ends):
            is_parent = entry.parent is not None and child == len(entry.children)
            role = "PARENT" if is_parent else "ENGINE" if edge.peer_is_engine else "HOST"
            index = installed.edges[child]
            record = self._edge_record(edge, installed, 0 if is_parent else child, role)
            self._command("TABLE_EDGE", index, record)
            self._edge_of[edge.local.qpn] = index

    def remove(self, number: int) -> None:
        """Remove a group. Raises ConfigError when it is not installed."""
        installed = self._installed(number)
        for index in installed.edges:
            self._command("TABLE_EDGE", index, 0)
        self._drain()
        self._set_below(installed, present=False)
        self._edge_of = {q: e for q, e in self._edge_of.items() if e not in installed.edges}
        del self._groups[number]

    def _drain(self) -> None:
        """Until nothing of a removed group is in the core."""
        for _ in range(1000):
            if registers.idle(self.model):
                return

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return tuple(self._groups)

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml."""
        return {name: self.model.read(registers.COUNTER + 4 * i) for i, name in enumerate(COUNTERS)}

    def port_counters(self, port: int) -> dict[str, int]:
        """What the spec has no counter for: frames lost for want of room, called bad by the MAC, forwarded."""
        names = ("overflow", "bad_frame", "forwarded")
        return {name: self.model.read(registers.PORT + 16 * port + 4 * i) for i, name in enumerate(names)}

    def status(self, number: int) -> GroupStatus:
        """The live slots of a group; a Mode III engine knows no edge in error."""
        installed = self._installed(number)
        params = installed.entry.params
        slots = []
        for slot in range(installed.slot_base, installed.slot_base + params.slots):
            self._command("TABLE_SLOT_READ", slot, None)
            if (live := registers.slot(self.model)) is not None:
                slots.append(live)
        return GroupStatus(number, params.epoch, tuple(slots), ())

    # ------------------------------------------------------------------------------------------------------- tables

    def _installed(self, number: int) -> _Installed:
        if number not in self._groups:
            raise ConfigError(f"group {number}: not installed, expected one of {sorted(self._groups)}")
        return self._groups[number]

    def _check_edges(self, entry: EngineGroup) -> None:
        number = entry.params.group
        ends = [*entry.children, *([] if entry.parent is None else [entry.parent])]
        qpns = [edge.local.qpn for edge in ends]
        for qpn in qpns:
            if qpn in self._edge_of or qpns.count(qpn) > 1:
                raise ConfigError(f"group {number}: QPN {qpn:#x} is in use, expected one that is free")
        for edge in ends:
            if not 0 <= edge.port < self.shape.ports:
                raise ResourceError(
                    f"group {number}: edge {edge.name} is on port {edge.port}, this engine has {self.shape.ports}"
                )
            if edge.ranks and max(edge.ranks) >= self.shape.ranks:
                raise ResourceError(
                    f"group {number}: rank {max(edge.ranks)} is below edge {edge.name}, this engine knows ranks up to"
                    f" {self.shape.ranks - 1}"
                )

    @staticmethod
    def _free(number: int, what: str, size: int, used: list[tuple[int, int]], wanted: int) -> int:
        """First place for `wanted` entries behind each other. Raises ResourceError when there is none."""
        place = 0
        for start, length in sorted(used):
            if start - place >= wanted:
                break
            place = start + length
        if place + wanted > size:
            raise ResourceError(f"group {number}: no room for {wanted} {what}, this engine has {size}")
        return place

    def _set_below(self, installed: _Installed, *, present: bool) -> None:
        for index, edge in zip(installed.edges, installed.entry.children, strict=False):
            for rank in edge.ranks:
                row = self._below[rank]
                self._below[rank] = row | 1 << index if present else row & ~(1 << index)
        for rank in sorted({rank for edge in installed.entry.children for rank in edge.ranks}):
            self._command("TABLE_BELOW", rank, self._below[rank])

    def _group_record(self, installed: _Installed) -> int:
        entry, params = installed.entry, installed.entry.params
        parent = 0 if entry.parent is None else installed.edges[-1]
        return Record("GROUP", TYPES).pack(
            slot_base=installed.slot_base,
            slot_log2=params.slots.bit_length() - 1,
            fan_in=len(entry.children) - 1,
            payload_bytes=params.payload_bytes,
            parent_edge=parent,
            parent_port=0 if entry.parent is None else entry.parent.port,
            root=entry.parent is None,
            guard=params.window_guard,
            reflection=params.ack_reflection,
            ecn=params.ecn,
            record=params.conflict_record,
            row=installed.row_base,
            rows=installed.rows - 1,
            operators=sum(1 << Operator[name] for name in params.operators),
            datatypes=sum(1 << Datatype[name] for name in params.datatypes),
            little=params.byte_order == "little",
        )

    def _edge_record(self, edge: Edge, installed: _Installed, child: int, role: str) -> int:
        params = installed.entry.params
        return Record("EDGE", TYPES).pack(
            peer_mac=_mac(edge.peer.mac),
            own_mac=_mac(edge.local.mac),
            peer_ip=int(ipaddress.IPv4Address(edge.peer.ip)),
            own_ip=int(ipaddress.IPv4Address(edge.local.ip)),
            pkey=params.pkey,
            sport=edge.sport,
            peer_qpn=edge.peer.qpn,
            icrc=params.icrc == "full",
            role=self._constants[f"ROLE_{role}"],
            port=edge.port,
            own_qpn=edge.local.qpn,
            group=installed.index,
            psn_rx=edge.psn_rx,
            child=child,
            psn_tx=edge.psn_tx,
        )

    def _command(self, table: str, index: int, data: int | None) -> None:
        words = 0 if data is None else _DATA_WORDS
        registers.command(self.model, self._constants[table], index, data or 0, words)


def _mac(address: str) -> int:
    return int(address.replace(":", ""), 16)


def _rows(entry: EngineGroup) -> list[list[int]]:
    """Children dealt out to multicast rows: each row has at most one child of a port."""
    rows: list[list[int]] = []
    for child, edge in enumerate(entry.children):
        row = next(
            r for r in count() if r == len(rows) or all(entry.children[c].port != edge.port for c in rows[r])
        )
        if row == len(rows):
            rows.append([])
        rows[row].append(child)
    return rows
