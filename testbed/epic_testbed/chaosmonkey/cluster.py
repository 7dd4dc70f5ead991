"""The fabric as processes: ten switches and a manager, killed and brought back; links cut and joined."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from epic_host.control import EngineClient
from epic_host.fabric.resources import Capacity
from epic_host.manager.client import ManagerClient
from epic_host.transport.cut import write_cuts
from epic_spec.errors import ConfigError, EpicError
from epic_testbed import managing, registry
from epic_testbed.chaosmonkey import layout
from epic_testbed.processes import MODULES, Child, Children
from epic_testbed.registry import Process, Run

_READY_SECONDS = 60.0
_TICK = 0.1
# What children say that need not be told.
_QUIET = ("exited", "killed", "still running", "manager: plain text")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """A switch's `capacity` and `engine`, the manager's `policy`, and its [times] where they are not the default."""

    capacity: Capacity = field(default_factory=lambda: Capacity(groups=12))
    engine: str = "reference-m3"
    policy: str = "best_effort"
    seed: int = 1
    times: dict[str, float] = field(default_factory=dict)


class Cluster:
    """Up after `start`, down after `close` or the end of a `with`. Lines of other children are the caller's."""

    def __init__(self, options: ClusterOptions | None = None, kind: str = "chaos") -> None:
        registry.clean()
        self.options = options = options or ClusterOptions()
        self.run, block = _claim(kind)
        self.layout = layout.Layout(block, self.run.path, options.capacity)
        self.children = Children(
            self.run.path, modules=(*MODULES, *managing.MODULES, "epic_testbed.chaosmonkey.worker")
        )
        self.manager = f"unix:{self.run.path}/manager.sock"
        self.now: dict[str, Child] = {}
        # Switches and manager that have said that they serve.
        self.ready: set[str] = set()
        self._started: dict[str, int] = {}
        self._cut: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start everything and wait until it serves. Raises EpicError naming what did not come up."""
        folder = self.run.path
        (folder / "fabric.toml").write_text(self.layout.fabric().to_toml())
        lines = [
            'fabric = "fabric.toml"',
            f"listen = [{json.dumps(self.manager)}]",
            'database = "manager.db"',
            'admin_token = "admin.token"',
            f"policy = {json.dumps(self.options.policy)}",
            f"seed = {self.options.seed}",
            "[times]",
            *(f"{name} = {value}" for name, value in self.options.times.items()),
        ]
        (folder / "manager.toml").write_text("\n".join(lines) + "\n")
        for name in layout.SWITCHES:
            config = self.layout.switch(name, self.options.engine)
            (folder / f"{name}.json").write_text(json.dumps(config))
        for name in (*layout.SWITCHES, "manager"):
            self.bring(name)
        self._await(set(self.now))

    def bring(self, name: str) -> Child:
        """Start a switch or the manager; it was not running."""
        if name == "manager":
            return self.spawn(name, "manager", self.run.path / "manager.toml")
        return self.spawn(name, "switch", self.run.path / f"{name}.json")

    def spawn(self, name: str, what: str, path: Path) -> Child:
        """Start a child; the log of each start is a file of its own, NAME.1.log, NAME.2.log, …"""
        self._started[name] = self._started.get(name, 0) + 1
        child = self.children.spawn(f"{name}.{self._started[name]}", what, path)
        self.now[name] = child
        self.run.processes = [
            Process.of(known.node, known.pid) for known in self.children.all if known.popen.poll() is None
        ]
        self.run.save()
        return child

    def kill(self, name: str) -> None:
        """kill -9, and no zombie."""
        child = self.now.pop(name)
        self.ready.discard(name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        child.popen.wait(_READY_SECONDS)

    def hear(self, child: Child, line: str) -> None:
        """A line of a switch or the manager."""
        name = child.node.rpartition(".")[0]
        if line.strip() == "ready" and self.now.get(name) is child:
            self.ready.add(name)

    def cut(self, link: str) -> None:
        """Drop what crosses a link, in both directions. A host's link is that to its leaf, not that between hosts."""
        self._cut.add(link)
        self._write(link)

    def join(self, link: str) -> None:
        """The link carries again."""
        self._cut.discard(link)
        self._write(link)

    def client(self, timeout: float = 10.0) -> ManagerClient:
        """A client of the manager, as an admin, that waits for one that is being restarted."""
        token = self.run.path / "admin.token"
        return ManagerClient(
            self.manager, timeout=timeout, patient=True, admin_token=token.read_text().strip()
        )

    def engine(self, name: str) -> EngineClient:
        """A client of a switch's control plane."""
        return EngineClient(self.layout.control(name))

    def logs(self) -> dict[str, str]:
        """The last line on standard error of each child that wrote there."""
        found = {child.node: child.complaint() for child in self.children.all if child.stderr_path.exists()}
        return {node: line for node, line in found.items() if not line.startswith(_QUIET)}

    def close(self) -> None:
        """End every process and remove all that the run made. More than one call is allowed."""
        self.children.close()
        self.run.destroy()

    def _write(self, link: str) -> None:
        """Tell the upper end, which drops what comes and what goes; one end is enough."""
        high = link.partition("-")[2]
        if link not in layout.LINKS:
            raise ConfigError(f"link {link!r}, expected one of {', '.join(layout.LINKS)}")
        lows = [low for low, end in layout.pairs() if end == high and f"{low}-{high}" in self._cut]
        write_cuts(self.layout.cuts(high), [self.layout.network(low) for low in lows])

    def _await(self, names: set[str]) -> None:
        until = time.monotonic() + _READY_SECONDS
        while waiting := names - self.ready:
            if time.monotonic() > until:
                late = ", ".join(sorted(waiting))
                raise EpicError(f"chaos: {late} not ready within {_READY_SECONDS:g} s")
            for child, line in self.children.wait(_TICK):
                if line is None:
                    raise EpicError(f"chaos: {child.node} did not start: {child.complaint()}")
                self.hear(child, line)


def _claim(kind: str) -> tuple[Run, int]:
    """A run of this process with a block of addresses that no other run has."""
    while True:
        block = layout.free_block()
        run = registry.create(kind, {"subnet": f"127.{block}.0.0/16", "transport": "udp"})
        rivals = [
            other
            for other in registry.runs()
            if other.about.get("subnet") == run.about["subnet"] and other.alive() and other.id != run.id
        ]
        # Of two that begin at the same time the first one keeps it.
        if all((run.started, run.id) < (other.started, other.id) for other in rivals):
            return run, block
        run.destroy()
