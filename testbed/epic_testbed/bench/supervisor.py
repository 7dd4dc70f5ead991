"""Who may run now: brings the contenders up, gives them their turns, and makes rows of what they say.

Every wait has a deadline; who has not answered by then is named.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from epic_spec.errors import EpicError
from epic_testbed.bench.cases import Sweep
from epic_testbed.bench.rows import Row, Times
from epic_testbed.session import Session

_OPEN_SECONDS: Final = 120.0
# For one turn of a contender.
_TURN_SECONDS: Final = 600.0
_TICK: Final = 0.5


@dataclass(slots=True)
class _Peer:
    """The end of a rank's line."""

    end: socket.socket
    contender: str = ""
    rank: int = -1
    pending: bytes = b""
    heard: list[dict[str, Any]] = field(default_factory=list)


class BenchError(EpicError):
    """A contender's process failed or was silent; the message says which."""


class Supervisor:
    """Measures `sweep` on a Session that it brings up, for EPIC and `peers`; `on_row` gets each size when done."""

    def __init__(
        self,
        session: Session,
        sweep: Sweep,
        peers: Sequence[str],
        sum_path: str,
        on_row: Callable[[Row], None],
    ) -> None:
        self._session, self._sweep = session, sweep
        self._contenders = ["epic", *peers]
        self._sum_path, self._on_row = sum_path, on_row
        self._ranks = session.setup.ranks
        self._selector = selectors.DefaultSelector()
        self._lines: dict[tuple[str, int], _Peer] = {}

    def run(self) -> list[Row]:
        """All sizes. Raises BenchError, StartError, ConfigError; the caller closes the session."""
        session = self._session
        session.start()
        session.write("group.json", session.group.to_dict())
        path = str(session.run.path / "bench.sock")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen(self._ranks * len(self._contenders))
            self._selector.register(server, selectors.EVENT_READ)
            session.await_ready(
                list(session.switches.values()), lambda line: line.strip() == "ready", "switch"
            )
            session.install()
            for contender in self._contenders:
                self._spawn(contender, path)
            session.record()
            wanted = {(c, r) for c in self._contenders for r in range(self._ranks)}
            self._until(lambda: wanted <= set(self._lines), _OPEN_SECONDS, lambda: wanted - set(self._lines))
        for contender in self._contenders:
            self._ask(contender, {"do": "open"}, _OPEN_SECONDS)
        rows = [self._measure(index) for index in range(len(self._sweep.cases))]
        for line in self._lines.values():
            line.end.sendall(b'{"do": "quit"}\n')
        return rows

    def close(self) -> None:
        """Close the lines, which ends every process that is left."""
        for line in self._lines.values():
            line.end.close()
        self._selector.close()

    # ---------------------------------------------------------------------- turns

    def _measure(self, index: int) -> Row:
        case, sweep = self._sweep.cases[index], self._sweep
        row = Row(case, self._ranks, {name: Times() for name in self._contenders})
        for number, iterations in enumerate(sweep.rounds):
            # The order changes from round to round: nobody is always the one after somebody else.
            turn = number % len(self._contenders)
            for name in self._contenders[turn:] + self._contenders[:turn]:
                times = row.times[name]
                if times.missing:
                    continue
                before = self._switch_profiles() if name == "epic" else {}
                said = self._ask(
                    name,
                    {
                        "do": "run",
                        "case": index,
                        "warmup": sweep.warmup if number == 0 else min(1, sweep.warmup),
                        "iterations": iterations,
                        "check": sweep.check and number == 0,
                    },
                    _TURN_SECONDS,
                )
                if any(line["event"] == "none" for line in said):
                    times.missing = next(line["why"] for line in said if line["event"] == "none")
                    continue
                if name == "epic":
                    self._add_switches(times, before)
                times.us += [
                    sum(each) / len(each) for each in zip(*(line["us"] for line in said), strict=True)
                ]
                times.wrong += sum(line["wrong"] for line in said)
                for line in said:
                    for key, value in line["profile"].items():
                        times.spend(f"rank {key}", value)
        self._on_row(row)
        return row

    def _switch_profiles(self) -> dict[str, int]:
        """Microseconds of all switches so far; empty where they do not say."""
        total: dict[str, int] = {}
        for counters in self._session.counters().values():
            for key, value in counters.items():
                if key.startswith("profile_"):
                    total[key] = total.get(key, 0) + value
        return total

    def _add_switches(self, times: Times, before: dict[str, int]) -> None:
        for key, value in self._switch_profiles().items():
            what = key.removeprefix("profile_").removesuffix("_us")
            times.spend(f"switch {what}", (value - before[key]) * 1e-6)

    def _ask(self, contender: str, what: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
        """Tell all ranks of a contender, and hear each of them."""
        lines = [self._lines[contender, rank] for rank in range(self._ranks)]
        for line in lines:
            line.end.sendall(json.dumps(what).encode() + b"\n")
        self._until(
            lambda: all(line.heard for line in lines),
            seconds,
            lambda: {(line.contender, line.rank) for line in lines if not line.heard},
        )
        return [line.heard.pop(0) for line in lines]

    # ---------------------------------------------------------------------- processes and lines

    def _spawn(self, contender: str, path: str) -> None:
        session = self._session
        config: dict[str, Any] = {}
        if contender == "gloo":
            config = {"port": _free_ports(1)[0]}
        elif contender == "ring":
            config = {"ports": _free_ports(self._ranks)}
        file: dict[str, Any] = {
            "contender": contender,
            "rank": None,
            "ranks": self._ranks,
            "socket": path,
            "cases": [case.to_dict() for case in self._sweep.cases],
            "seed": self._sweep.seed,
            "levels": session.setup.plan.tree.depth(),
            "config": config,
        }
        if contender == "mpi":
            name = session.write("mpi.json", file)
            session.children.spawn("mpi", "mpi", name)
            return
        for rank in range(self._ranks):
            own = {**file, "rank": rank}
            if contender == "epic":
                own["config"] = {
                    "group": str(session.run.path / "group.json"),
                    "transport": session.transport_of(rank),
                    "datapath": session.setup.datapath,
                    "reproducible": False,
                    "sum_path": self._sum_path,
                    "profile": session.setup.profile,
                }
            node = f"{contender}{rank}"
            session.children.spawn(node, "bench", session.write(f"{node}.json", own))

    def _until(
        self, done: Callable[[], bool], seconds: float, missing: Callable[[], set[tuple[str, int]]]
    ) -> None:
        """Hear lines until `done`."""
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until:
                names = ", ".join(f"{c} rank {r}" for c, r in sorted(missing()))
                raise BenchError(f"bench: no answer from {names} within {seconds:.0f} s")
            for key, _ in self._selector.select(_TICK):
                if key.data is None:
                    end, _ = key.fileobj.accept()  # type: ignore[union-attr]
                    self._selector.register(end, selectors.EVENT_READ, _Peer(end))
                else:
                    self._hear(key.data)
            for child in self._session.children.all:
                if child.popen.poll() is not None:
                    raise BenchError(f"bench: {child.node} ended: {child.complaint()}")

    def _hear(self, line: _Peer) -> None:
        data = line.end.recv(1 << 16)
        *whole, line.pending = (line.pending + data).split(b"\n")
        for text in whole:
            said = json.loads(text)
            if said["event"] == "hello":
                line.contender, line.rank = said["contender"], said["rank"]
                self._lines[line.contender, line.rank] = line
            elif said["event"] == "error":
                raise BenchError(f"bench: {line.contender} rank {line.rank}: {said['message']}")
            else:
                line.heard.append(said)
        if not data:
            self._selector.unregister(line.end)


def _free_ports(count: int) -> list[int]:
    """TCP ports of loopback that are free now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [end.getsockname()[1] for end in held]
    finally:
        for end in held:
            end.close()
