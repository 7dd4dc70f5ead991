"""`epic top`: groups, their paths, slots, rates and retransmissions, as they change."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from epic_host.cli_options import (
    AdminToken,
    As,
    Json,
    ManagerAddress,
    Timeout,
    TlsFolder,
    open_client,
    print_json,
)

if TYPE_CHECKING:
    from epic_host.proto.epic.v1 import manager_pb2 as pb

# Seconds: two looks at one sign of life differ by less.
_SAME: Final = 0.05


def register(app: typer.Typer) -> None:
    """Add `epic top` to the command."""
    app.command("top")(top)


@dataclass(frozen=True, slots=True)
class Row:
    """One group at one time. Rates are between the last two signs of life of its ranks, None while there are no two:
    payload in Gbit/s a rank, cells/s of the slowest, packets sent again in all."""

    group: str
    state: str
    path: str
    reason: str
    mode: int
    window: int
    ranks: int
    joined: int
    slots: int
    slot_bytes: int
    delivered: int
    gbps: float | None
    cells_per_second: float | None
    retransmissions: int
    retransmissions_per_second: float | None
    late: int


@dataclass(frozen=True, slots=True)
class Look:
    """What the manager said, and when."""

    at: float
    groups: tuple[pb.GroupState, ...]
    topology: pb.Topology


@dataclass(frozen=True, slots=True)
class _Beat:
    """What a rank said of itself, and when."""

    at: float
    payload: int
    delivered: int
    retransmissions: int


class Rates:
    """Rates of ranks, from what they said with their last two signs of life: between those nothing is known."""

    def __init__(self) -> None:
        self._beats: dict[tuple[str, int], _Beat] = {}
        self._rates: dict[tuple[str, int], tuple[float, float, float]] = {}

    def see(self, look: Look) -> None:
        """Take in a look."""
        for state in look.groups:
            for member in state.members:
                if member.silent >= 0:
                    self._beat((state.group, member.rank), look.at - member.silent, member)
        present = {(state.group, member.rank) for state in look.groups for member in state.members}
        for gone in self._beats.keys() - present:
            del self._beats[gone]
            self._rates.pop(gone, None)

    def _beat(self, key: tuple[str, int], at: float, member: pb.MemberState) -> None:
        beat = _Beat(at, member.payload_bytes, member.delivered, member.retransmissions)
        last = self._beats.get(key)
        if last is not None and beat.at - last.at < _SAME:
            return
        self._beats[key] = beat
        self._rates.pop(key, None)
        if last is None or beat.payload < last.payload or beat.delivered < last.delivered:
            # A member that started anew counts from 0.
            return
        seconds = beat.at - last.at
        self._rates[key] = (
            (beat.payload - last.payload) / seconds,
            (beat.delivered - last.delivered) / seconds,
            (beat.retransmissions - last.retransmissions) / seconds,
        )

    def of(self, state: pb.GroupState) -> tuple[float, float, float] | None:
        """Payload bytes/s a rank, cells/s of the slowest rank, packets sent again/s in all; None: not known of all."""
        found = [self._rates.get((state.group, member.rank)) for member in state.members]
        known = [rates for rates in found if rates is not None]
        if not known or len(known) < len(found):
            return None
        payload, cells, again = zip(*known, strict=True)
        return sum(payload) / len(known), min(cells), sum(again)


def rows(look: Look, rates: Rates) -> list[Row]:
    """The groups of a look that have not ended."""
    return [_row(state, rates.of(state)) for state in look.groups if state.state != "ended"]


def _row(state: pb.GroupState, rates: tuple[float, float, float] | None) -> Row:
    payload, cells, again = rates if rates is not None else (None, None, None)
    delivered = [member.delivered for member in state.members]
    most = max(delivered, default=0)
    return Row(
        group=state.group,
        state=state.state,
        path=state.path,
        reason=state.reason,
        mode=state.mode,
        window=state.window,
        ranks=len(state.members),
        joined=sum(member.state == "joined" for member in state.members),
        slots=sum(share.slots for share in state.shares),
        slot_bytes=sum(share.slot_bytes for share in state.shares),
        delivered=min(delivered, default=0),
        gbps=None if payload is None else payload * 8e-9,
        cells_per_second=cells,
        retransmissions=sum(member.retransmissions for member in state.members),
        retransmissions_per_second=again,
        late=sum(cell + max(state.window, 1) < most for cell in delivered),
    )


def screen(look: Look, rates: Rates) -> Group:
    """What a person sees."""
    groups = Table("group", "path", "reason", "ranks", "slots", "Gbit/s", "cells/s", "again", "late")
    for row in rows(look, rates):
        again = str(row.retransmissions)
        if row.retransmissions_per_second:
            again += f" +{row.retransmissions_per_second:.0f}/s"
        groups.add_row(
            row.group,
            row.path if row.state == "active" else row.state,
            row.reason,
            f"{row.joined}/{row.ranks}",
            str(row.slots or "-"),
            "-" if row.gbps is None else f"{row.gbps:.3f}",
            "-" if row.cells_per_second is None else f"{row.cells_per_second:.0f}",
            again,
            str(row.late or "-"),
        )
    engines = Table("engine", "state", "mode", "groups", "slot bytes", "slots")
    for engine in look.topology.engines:
        engines.add_row(
            engine.name,
            engine.state,
            str(engine.mode or "-"),
            _of(engine.groups_used, engine.groups),
            _of(engine.slot_bytes_used, engine.slot_bytes),
            _of(engine.slots_used, engine.slots),
        )
    return Group(_headline(look), groups, engines)


def _of(used: int, limit: int) -> str:
    """What is used of a limit; 0 stands for none."""
    return f"{used}/{limit}" if limit else str(used)


def _headline(look: Look) -> Text:
    up = sum(host.state == "up" for host in look.topology.hosts)
    links = [link.name for link in look.topology.links if link.state != "up"]
    text = f"{time.strftime('%H:%M:%S')}  hosts up {up}/{len(look.topology.hosts)}"
    text += f"  links {len(look.topology.links) - len(links)}/{len(look.topology.links)}"
    return Text(text + (f" (not: {', '.join(links[:8])})" if links else ""))


def as_json_value(look: Look, rates: Rates) -> dict[str, Any]:
    """The same for programs."""
    engines = [
        {
            "engine": engine.name,
            "state": engine.state,
            "groups": engine.groups,
            "groups_used": engine.groups_used,
            "slot_bytes": engine.slot_bytes,
            "slot_bytes_used": engine.slot_bytes_used,
        }
        for engine in look.topology.engines
    ]
    links = [{"link": link.name, "state": link.state} for link in look.topology.links]
    return {"groups": [asdict(row) for row in rows(look, rates)], "engines": engines, "links": links}


def top(
    once: Annotated[bool, typer.Option("--once", help="Look twice, print once, end.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    manager: ManagerAddress = "",
    tls: TlsFolder = None,
    who: As = "",
    admin_token: AdminToken = None,
    as_json: Json = False,
    timeout: Timeout = 5.0,
) -> None:
    """Show groups and engines as they change; with --json a line a look."""
    rates = Rates()
    with open_client(manager, tls, who, admin_token, timeout) as client:

        def look() -> Look:
            groups = tuple(client.list_groups().groups)
            made = Look(time.monotonic(), groups, client.get_topology())
            rates.see(made)
            return made

        first = look()
        if once or as_json:
            # Rates need two looks.
            while True:
                time.sleep(interval)
                _print(look(), rates, as_json)
                if once:
                    return
        with Live(screen(first, rates), auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(screen(look(), rates), refresh=True)


def _print(look: Look, rates: Rates, as_json: bool) -> None:
    if as_json:
        print_json(as_json_value(look, rates))
    else:
        Console().print(screen(look, rates))
