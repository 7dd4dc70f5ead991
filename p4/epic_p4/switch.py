"""A switch that runs one P4 program: frames in, frames out, and the control plane's calls.

No sockets and no threads: whoever owns the ports calls `process`, and the control calls come between two packets.
Names are control-plane names as in P4Info ("EpicIngress.edge", "EpicIngress.edge.set_edge"); a name's unique ending
("edge") is accepted too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from epic_p4.arch import load
from epic_p4.arch.base import Environment
from epic_p4.ast import Program
from epic_p4.runtime.errors import (
    AlreadyExistsError,
    ControlError,
    ExecutionError,
    NotFoundError,
    OutOfRangeError,
    ReadOnlyError,
    TableFullError,
)
from epic_p4.runtime.match import Exact, Lpm, MatchValue, Range, TableEntry, Ternary
from epic_p4.runtime.state import Counter, Register
from epic_p4.runtime.tables import Table

__all__ = [
    "AlreadyExistsError",
    "ControlError",
    "Exact",
    "ExecutionError",
    "Lpm",
    "MatchValue",
    "NotFoundError",
    "OutOfRangeError",
    "P4Switch",
    "Range",
    "ReadOnlyError",
    "TableEntry",
    "TableFullError",
    "Ternary",
]


class P4Switch:
    """One program with its state.

    `clock` gives seconds and feeds the timestamps of the intrinsic metadata; `seed` feeds `random`; `log` gets the
    lines of `log_msg`.
    """

    def __init__(
        self,
        program: Program,
        *,
        clock: Callable[[], float] | None = None,
        seed: int = 0,
        log: Callable[[str], None] | None = None,
    ) -> None:
        generator = random.Random(seed)
        environment = Environment(clock or time.monotonic, generator, log or (lambda line: None))
        self.program = program
        self._running = load(program, environment)
        self._tables: dict[str, Table] = self._running.tables
        self._registers: dict[str, Register] = self._running.registers
        self._counters: dict[str, Counter] = self._running.counters
        self._multicast = self._running.multicast

    # Data plane

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave, as (port, frame), because `frame` came in on `port`.

        Raises ExecutionError when the program does what its architecture forbids.
        """
        if not 0 <= port < self._running.ports:
            raise ControlError(f"port {port}: expected 0..{self._running.ports - 1}")
        return self._running.process(port, frame)

    def generated_source(self) -> str:
        """The Python text that the program was turned into."""
        return self._running.unit.source()

    def reset(self) -> None:
        """As after loading: no entries but const ones, no groups, registers and counters as they start."""
        for table in self._tables.values():
            table.clear()
        for register in self._registers.values():
            register.reset()
        for counter in self._counters.values():
            counter.clear()
        self._multicast.clear()

    # Tables

    def tables(self) -> tuple[str, ...]:
        """Names of all tables."""
        return tuple(self._tables)

    def insert(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        params: Mapping[str, int] | None = None,
        priority: int = 0,
    ) -> None:
        """Add an entry.

        Raises AlreadyExistsError (same match and priority), TableFullError, ReadOnlyError (const entries),
        NotFoundError (table, key, action or parameter unknown), ControlError (a value does not fit).
        """
        self._table(table).insert(match, action, params or {}, priority)

    def modify(
        self,
        table: str,
        match: Mapping[str, MatchValue],
        action: str,
        params: Mapping[str, int] | None = None,
        priority: int = 0,
    ) -> None:
        """Give an entry another action. Raises NotFoundError when there is none, else as `insert`."""
        self._table(table).modify(match, action, params or {}, priority)

    def delete(self, table: str, match: Mapping[str, MatchValue], priority: int = 0) -> None:
        """Remove an entry. Raises NotFoundError when there is none."""
        self._table(table).delete(match, priority)

    def entries(self, table: str) -> list[TableEntry]:
        """All entries of a table, const entries too; without the default action."""
        return self._table(table).entries()

    def set_default(self, table: str, action: str, params: Mapping[str, int] | None = None) -> None:
        """Set the default action."""
        self._table(table).set_default(action, params or {})

    def reset_default(self, table: str) -> None:
        """Set the default action to what the program says."""
        self._table(table).reset_default()

    def default(self, table: str) -> TableEntry:
        """The default action, as an entry without match."""
        return self._table(table).default()

    def direct_counter_read(
        self, table: str, match: Mapping[str, MatchValue], priority: int = 0
    ) -> tuple[int, int]:
        """(packets, bytes) of an entry of a table with a direct counter."""
        entry = self._table(table).counter(match, priority)
        return entry.packets, entry.bytes

    def direct_counter_write(
        self, table: str, match: Mapping[str, MatchValue], packets: int, octets: int, priority: int = 0
    ) -> None:
        """Set the direct counter of an entry."""
        entry = self._table(table).counter(match, priority)
        if packets < 0 or octets < 0:
            raise ControlError(f"table {table}: counter ({packets}, {octets}), expected two numbers >= 0")
        entry.packets, entry.bytes = packets, octets

    # Multicast

    def multicast_set(self, group_id: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Make or replace a group; a replica is (egress port, rid)."""
        self._multicast.set_group(group_id, replicas)

    def multicast_delete(self, group_id: int) -> None:
        """Remove a group. Raises NotFoundError when there is none."""
        self._multicast.delete_group(group_id)

    def multicast_groups(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """All groups."""
        return dict(self._multicast.groups)

    def clone_session_set(
        self, session: int, replicas: Sequence[tuple[int, int]], packet_length: int = 0
    ) -> None:
        """Make or replace a clone (mirror) session; copies are cut to `packet_length` bytes unless it is 0."""
        self._multicast.set_session(session, replicas, packet_length)

    def clone_session_delete(self, session: int) -> None:
        """Remove a clone session. Raises NotFoundError when there is none."""
        self._multicast.delete_session(session)

    def clone_sessions(self) -> dict[int, tuple[tuple[tuple[int, int], ...], int]]:
        """All clone sessions: (replicas, packet length)."""
        return dict(self._multicast.sessions)

    # Registers: `field` names a half of a register of pairs ("first"), "" a register of plain values.

    def registers(self) -> tuple[str, ...]:
        """Names of all registers."""
        return tuple(self._registers)

    def register_size(self, name: str) -> int:
        """How many cells a register has."""
        return self._register(name).size

    def register_fields(self, name: str) -> tuple[str, ...]:
        """The fields of a register of structs, () for plain values."""
        return self._register(name).fields

    def register_read(self, name: str, index: int, field: str = "") -> int:
        """One cell. Raises OutOfRangeError."""
        return self._register(name).read(index, field)

    def register_write(self, name: str, index: int, value: int, field: str = "") -> None:
        """Set one cell."""
        self._register(name).fill(index, 1, value, field)

    def register_fill(self, name: str, first: int, count: int, value: int, field: str = "") -> None:
        """Set `count` cells from `first` on."""
        self._register(name).fill(first, count, value, field)

    # Counters

    def counters(self) -> tuple[str, ...]:
        """Names of all indexed counters."""
        return tuple(self._counters)

    def counter_size(self, name: str) -> int:
        """How many cells a counter has."""
        return self._counter(name).size

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """(packets, bytes) of a cell."""
        return self._counter(name).read(index)

    def counter_packets(self, name: str) -> list[int]:
        """Packets of every cell."""
        return list(self._counter(name).packets)

    def counter_write(self, name: str, index: int, packets: int, octets: int) -> None:
        """Set a cell."""
        self._counter(name).write(index, packets, octets)

    def counter_clear(self, name: str) -> None:
        """All cells to 0."""
        self._counter(name).clear()

    # Names

    def _table(self, name: str) -> Table:
        return _found("table", name, self._tables)

    def _register(self, name: str) -> Register:
        return _found("register", name, self._registers)

    def _counter(self, name: str) -> Counter:
        return _found("counter", name, self._counters)


_T = TypeVar("_T")


def _found(kind: str, name: str, known: Mapping[str, _T]) -> _T:
    """By full name, or by an ending that only one has."""
    if name in known:
        return known[name]
    ends = [full for full in known if full.endswith(f".{name}")]
    if len(ends) == 1:
        return known[ends[0]]
    expected = ", ".join(ends or known) or "none"
    what = "ambiguous" if ends else "unknown"
    raise NotFoundError(f"{kind} {name!r}: {what}, expected one of {expected}")
