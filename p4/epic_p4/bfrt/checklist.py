"""The check list before the first AllReduce: is the switch set up for this group? One row a check.

Asked of the switch through the client: the program, the ports, their MTU, the multicast groups, the slots' first state.
Asked of the machine that runs the check (the switch's own processor, as the run book says): its clock, for logs and
captures of several machines are compared by it; the data plane of Mode III has no timer.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from epic_p4.bfrt import names
from epic_p4.bfrt.client import BfrtClient, BfrtError, Entry, KeyField
from epic_p4.control.description import GroupLike

# Around the payload: Ethernet 14, IPv4 20, UDP 8, BTH 12, immediate 4, ICRC 4, FCS 4.
_FRAME_OVERHEAD = 66
_TIME_ERROR = 5
_TIMEX_BYTES = 256
_MAX_ERROR_AT = 24
_MOST_CLOCK_ERROR_US = 10_000


@dataclass(frozen=True, slots=True)
class Check:
    """One row: what was looked at, what was found, what was expected."""

    what: str
    found: str
    expected: str
    good: bool


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of this machine: whether something keeps it, and its largest possible error."""

    synchronized: bool
    error_us: int


def local_clock() -> Clock:
    """Ask the kernel (adjtimex, changing nothing)."""
    buffer = (ctypes.c_char * _TIMEX_BYTES)()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(buffer))
    if state < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    error = int.from_bytes(bytes(buffer)[_MAX_ERROR_AT : _MAX_ERROR_AT + 8], "little", signed=True)
    return Clock(state != _TIME_ERROR, error)


def checklist(
    client: BfrtClient, program: str, groups: Sequence[GroupLike], clock: Callable[[], Clock] = local_clock
) -> list[Check]:
    """All checks for groups that are installed, or are going to be. Never raises for what it finds."""
    edges = {}
    frame = 0
    for group in groups:
        frame = max(frame, group.params.payload_bytes + _FRAME_OVERHEAD)
        for edge in [*group.children, *([] if group.parent is None else [group.parent])]:
            edges[edge.port] = edge
    checks = [Check("program", client.program, program, client.program == program)]
    for port in sorted(edges):
        checks += _port(client, port, frame)
    checks += _multicast(client, sorted(edges))
    checks.append(_clock(clock))
    return checks


def _port(client: BfrtClient, port: int, frame: int) -> Iterator[Check]:
    what = f"port {port}"
    try:
        entry = _one(client, names.PORTS, [KeyField(names.PORT_ID, port)])
    except BfrtError as error:
        yield Check(what, str(error), "up", False)
        return
    if entry is None:
        yield Check(what, "not there", "up", False)
        return
    enabled, up = bool(entry.data.get(names.PORT_ENABLE)), bool(entry.data.get(names.PORT_UP))
    state = "up" if up else "enabled, no link" if enabled else "not enabled"
    yield Check(what, f"{state}, {entry.data.get(names.PORT_SPEED, 'speed unknown')}", "up", up)
    for direction, name in (("receives", names.PORT_RX_MTU), ("sends", names.PORT_TX_MTU)):
        mtu = entry.data.get(name)
        good = isinstance(mtu, int) and mtu >= frame
        yield Check(f"{what} {direction}", f"{mtu} bytes", f"{frame} or more", good)


def _multicast(client: BfrtClient, ports: Sequence[int]) -> Iterator[Check]:
    """Every port of a group must be reached by some multicast group: results go out in no other way."""
    try:
        nodes = {entry.key[names.NODE_ID]: entry for entry in client.table(names.MULTICAST_NODES).get()}
        reached: set[object] = set()
        for group in client.table(names.MULTICAST_GROUPS).get():
            for number in _list(group.data[names.NODE_ID]):
                if number in nodes:
                    reached.update(_list(nodes[number].data[names.NODE_PORTS]))
    except BfrtError as error:
        yield Check("multicast", str(error), f"ports {', '.join(map(str, ports))}", False)
        return
    for port in ports:
        found = "in a group" if port in reached else "in no group"
        yield Check(f"multicast to port {port}", found, "in a group", port in reached)


def _clock(clock: Callable[[], Clock]) -> Check:
    expected = f"synchronized within {_MOST_CLOCK_ERROR_US} us"
    try:
        read = clock()
    except OSError as error:
        return Check("clock", str(error.strerror), expected, False)
    found = f"{'synchronized' if read.synchronized else 'not synchronized'} within {read.error_us} us"
    return Check("clock", found, expected, read.synchronized and read.error_us <= _MOST_CLOCK_ERROR_US)


def _one(client: BfrtClient, table: str, key: Sequence[KeyField]) -> Entry | None:
    try:
        return next(iter(client.table(table).get([key])), None)
    except BfrtError as error:
        if error.not_found:
            return None
        raise


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def render(checks: Sequence[Check]) -> str:
    """A table with a row a check."""
    rows = [("", "check", "found", "expected")]
    rows += [("ok" if check.good else "NO", check.what, check.found, check.expected) for check in checks]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
