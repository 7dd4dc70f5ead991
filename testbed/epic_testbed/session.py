"""A testbed being up: namespaces, switch processes, a manager or an installed group, and the end of all that."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from epic_host.control import EngineClient
from epic_models.reference.group import GroupPlan
from epic_models.reference.tree import build_group
from epic_spec.errors import ConfigError, EpicError
from epic_testbed import addressing, kernels, managing, netns, registry
from epic_testbed.managing import Access, Managing
from epic_testbed.options import Setup
from epic_testbed.processes import MODULES, Child, Children
from epic_testbed.registry import Process, Run
from epic_testbed.signals import undisturbed

READY_SECONDS = 30.0
# A process more costs this much start-up on a slow core.
READY_SECONDS_PER_PROCESS = 2.0


class StartError(EpicError):
    """A process of the run did not come up; the message says which and what it said."""


class Session:
    """Brings a Setup up (`start`) and takes it down (`close`, or the end of a `with`).

    With `owned` False the processes outlive this one: `epic testbed up`. `managed`: a manager gives the group its
    path, `manager` is its process and `managing` what is asked of it; otherwise the group is installed once and
    stays.
    """

    def __init__(self, setup: Setup, kind: str, owned: bool = True, managed: bool = False) -> None:
        self.setup = setup
        self.owned = owned
        if setup.transport == "udp":
            addressing.check_free(setup.plan.addresses)
        for option in ("capture", "trace"):
            if (path := getattr(setup, option)) is not None:
                _make_directory(option, path)
        about = {
            "mode": setup.params.mode,
            "topology": setup.topology.name,
            "ranks": setup.ranks,
            "transport": setup.transport,
            "subnet": setup.plan.subnet,
            "phase": "starting",
        }
        self.run: Run = registry.create(kind, about)
        self.children = Children(
            self.run.path,
            die_with_parent=owned,
            modules=(*MODULES, *managing.MODULES) if managed else MODULES,
            calls=(kernels.call(setup.datapath, setup.params.mode), *setup.switch.calls),
        )
        self.switches: dict[str, Child] = {}
        self.group: GroupPlan = self._build_group()
        self.managing = Managing(setup, self.run.path, self.group.control) if managed else None
        self.manager: Child | None = None
        self._clients: dict[str, EngineClient] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with undisturbed():
            self.close()

    def _build_group(self) -> GroupPlan:
        setup = self.setup
        control = {name: f"unix:{self.run.path}/{name}.sock" for name in setup.plan.switches}
        return build_group(setup.plan.tree, setup.params, setup.plan.ends, setup.seed, control)

    def namespace_of(self, node: str) -> str | None:
        """The network namespace of a host or switch; None over udp."""
        return self.run.namespace(node) if self.setup.transport == "netns" else None

    def transport_of(self, node: int | str) -> dict[str, Any]:
        """The transport configuration of a rank or switch, faults and capture included."""
        plan = self.setup.plan
        config = dict(plan.ranks[node] if isinstance(node, int) else plan.switches[node])
        return config | self._extras(f"r{node}" if isinstance(node, int) else node)

    def own_transport_of(self, rank: int) -> dict[str, Any]:
        """What a rank adds to the transport that the manager gives it."""
        extras = self._extras(f"r{rank}")
        if self.setup.transport == "udp":
            return extras
        config = {k: v for k, v in self.setup.plan.ranks[rank].items() if k != "address"}
        return config | extras

    def _extras(self, name: str) -> dict[str, Any]:
        config: dict[str, Any] = {}
        if self.setup.faults.any:
            config["faults"] = self.setup.faults.of(name, self.setup.seed)
        if self.setup.capture is not None:
            config["capture"] = str(Path(self.setup.capture).absolute() / f"{name}.pcap")
        return config

    def trace_of(self, node: int | str) -> str | None:
        """The file for the recording of a rank or switch, or None."""
        if self.setup.trace is None:
            return None
        name = f"r{node}" if isinstance(node, int) else node
        return str(Path(self.setup.trace).absolute() / f"{name}.ndjson")

    def start(self) -> None:
        """Namespaces, then the manager and switches, each with its control socket. `install` waits for them."""
        plan, kind = self.setup.plan, self.setup.switch
        self.children.prepare()
        if kind.prepare is not None:
            kind.prepare(self.setup.params.mode, self.setup.parameters)
        if self.setup.transport == "netns":
            nodes = [*plan.switches, *dict.fromkeys(plan.hosts.values())]
            self.run.namespaces = [self.run.namespace(node) for node in nodes]
            self.run.save()
            netns.create(nodes, plan.veths, self.run.namespace)
        if self.managing is not None:
            path = self.managing.write_files()
            self.manager = self.children.spawn(managing.NODE, "manager", path)
        for name in plan.switches:
            config: dict[str, Any] = {
                "name": name,
                "engine": self.setup.engine,
                "control": self.group.control[name],
                "transport": self.transport_of(name),
            }
            if (trace := self.trace_of(name)) is not None:
                config["trace"] = trace
            if self.setup.parameters:
                config["parameters"] = dict(self.setup.parameters)
            if self.setup.profile:
                config["profile"] = True
            path = self.write(f"{name}.json", config)
            self.switches[name] = self.children.spawn(name, kind.process, path, self.namespace_of(name))
        self.record()

    def write(self, name: str, data: object) -> Path:
        """A JSON file in the run's directory."""
        path = self.run.path / name
        path.write_text(json.dumps(data))
        return path

    def record(self) -> None:
        """Note all children in the run's record, so that the next run can end them if this one is killed."""
        self.run.processes = [Process.of(child.node, child.pid) for child in self.children.all]
        self.run.save()

    def note(self, key: str, value: str) -> None:
        """Something about the run, for `epic testbed status`."""
        self.run.about[key] = value
        self.run.save()

    def await_ready(self, children: list[Child], is_ready: Any, what: str) -> None:
        """Wait until every child has written a line for which `is_ready(line)` holds.

        Raises StartError for one that ends or takes longer than 30 s and 2 s a process.
        """
        waiting = set(children)
        limit = READY_SECONDS + READY_SECONDS_PER_PROCESS * len(self.children.all)
        deadline = time.monotonic() + limit
        while waiting:
            left = deadline - time.monotonic()
            if left <= 0:
                names = ", ".join(sorted(child.node for child in waiting))
                raise StartError(f"{what} {names} not ready within {limit:.0f} s")
            for child, line in self.children.wait(min(left, 1.0)):
                if line is None:
                    raise StartError(f"{what} {child.node} did not start: {child.complaint()}")
                if child in waiting and is_ready(line):
                    waiting.discard(child)

    def install(self) -> None:
        """Install the group on every switch; they must be ready. Raises ConfigError, ResourceError."""
        for name, entry in self.group.engines.items():
            self._clients[name] = EngineClient(self.group.control[name])
            self._clients[name].install(entry)

    def create_group(self, reproducible: bool) -> Access:
        """Let the manager create the group; it and the switches must be ready.

        Raises ConfigError, ResourceError, EpicError.
        """
        assert self.managing is not None
        access = self.managing.create(reproducible)
        for name in self.group.engines:
            self._clients[name] = EngineClient(self.group.control[name])
        return access

    def counters(self) -> dict[str, dict[str, int]]:
        """Counters of every switch that answers, by name."""
        found: dict[str, dict[str, int]] = {}
        for name, client in self._clients.items():
            with contextlib.suppress(EpicError):
                found[name] = client.counters()
        return found

    def close(self) -> None:
        """End every process and remove all that the run made. More than one call is allowed."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self.children.close()
        self.run.destroy()

    def detach(self) -> None:
        """Leave the switches running (`owned` False); the run's record now is what takes them down.

        Until here the run was this process's: one that is only starting has no processes to show that it lives.
        """
        self.run.disown()
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self.children.leave()


def _make_directory(option: str, path: str) -> None:
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{option} = {path!r}: {error.strerror}, expected a directory that can be made"
        ) from None
