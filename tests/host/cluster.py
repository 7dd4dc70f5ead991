"""A fabric with a real manager: its process, real switches in this one, and ranks that join over gRPC."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from epic_host import Communicator
from epic_host.fabric.topology import EngineNode, Fabric, HostNode, Link
from epic_host.managed import ManagedCommunicator
from epic_host.manager.client import ManagerClient
from epic_host.member import create_group
from epic_host.switch import Switch, SwitchConfig
from epic_models.reference.endpoint import EngineCapabilities
from host.worlds import EPIC, subnet

LEASE = 2.0


def write_manager(folder: Path, fabric: Fabric, *lines: str) -> str:
    """The files of a manager in `folder`, with more lines of its configuration; its address."""
    address = f"unix:{folder}/m.sock"
    (folder / "fabric.toml").write_text(fabric.to_toml())
    settings = {"fabric": "fabric.toml", "listen": [address], "database": "m.db", "seed": 1}
    values = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    (folder / "manager.toml").write_text("\n".join([*values, *lines, ""]))
    return address


def start_manager(folder: Path, address: str, engines: set[str]) -> subprocess.Popen[str]:
    """The process of the manager of `folder`, when it sees these engines up, and no other."""
    manager = subprocess.Popen(
        # Otherwise it would end with the thread that starts it.
        [*EPIC, "manager", "serve", "--config", str(folder / "manager.toml"), "--detach"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert manager.stdout is not None
    assert manager.stdout.readline() == "ready\n"
    with ManagerClient(address, timeout=20.0, patient=True) as client:
        end = time.monotonic() + 20
        while {e.name for e in client.get_topology().engines if e.state == "up"} != engines:
            assert time.monotonic() < end, "the manager does not see the switches"
            time.sleep(0.02)
    return manager


def end_manager(manager: subprocess.Popen[str]) -> None:
    """kill -9, and wait for it."""
    assert manager.stdout is not None
    manager.send_signal(signal.SIGKILL)
    manager.wait(10)
    manager.stdout.close()


class Cluster:
    """Hosts h0, h1, …, each with a link to every one of the switches s0, s1, …: any switch is a tree by itself."""

    def __init__(self, folder: Path, hosts: int = 3, switches: int = 2, mode: int = 3) -> None:
        self._folder = folder
        self._net = subnet()
        self.hosts = [f"h{i}" for i in range(hosts)]
        self.names = [f"s{i}" for i in range(switches)]
        self.mode = mode
        self.switches: dict[str, tuple[Switch, threading.Thread]] = {}
        self.manager: subprocess.Popen[str] | None = None
        offer = EngineCapabilities(
            mode, window=16, slots=32, payload_bytes=256, message_bytes=256, message_buffers=16
        )
        fabric = Fabric(
            {h: HostNode(h, f"{self._pool(i)}") for i, h in enumerate(self.hosts)},
            {
                s: EngineNode(s, f"unix:{folder}/{s}", f"{self._net}.{200 + i}", offer=offer)
                for i, s in enumerate(self.names)
            },
            tuple(
                Link(h, s, at_host, at_switch)
                for at_switch, h in enumerate(self.hosts)
                for at_host, s in enumerate(self.names)
            ),
        )  # fmt: skip
        self.address = write_manager(folder, fabric, "[times]", "quarantine = 0.2")

    def _pool(self, host: int) -> str:
        """16 addresses a host."""
        return f"{self._net}.{16 * host}/28"

    def start(self) -> None:
        for name in self.names:
            self.start_switch(name)
        self.start_manager()

    def start_switch(self, name: str) -> None:
        index = self.names.index(name)
        ports = {self._pool(i): i for i in range(len(self.hosts))}
        config = {
            "name": name,
            "engine": f"reference-m{self.mode}",
            "control": f"unix:{self._folder}/{name}",
            "transport": {"kind": "udp", "address": f"{self._net}.{200 + index}", "ports": ports},
        }
        switch = Switch(SwitchConfig.from_dict(config))
        thread = threading.Thread(target=switch.run)
        thread.start()
        self.switches[name] = switch, thread

    def kill_switch(self, name: str) -> None:
        switch, thread = self.switches.pop(name)
        switch.stop()
        thread.join(10)
        switch.close()

    def start_manager(self) -> None:
        """Start the manager and wait until it sees every switch that there is."""
        self.manager = start_manager(self._folder, self.address, set(self.switches))

    def kill_manager(self) -> None:
        assert self.manager is not None
        end_manager(self.manager)

    def client(self) -> ManagerClient:
        return ManagerClient(self.address, timeout=20.0, patient=True)

    def create(self, ranks: int = 3, **request: Any) -> tuple[str, str]:
        hosts = [self.hosts[r % len(self.hosts)] for r in range(ranks)]
        return create_group(self.address, hosts=hosts, **({"lease": LEASE, "deadline": 5.0} | request))

    def join(self, group: tuple[str, str], rank: int, **options: Any) -> ManagedCommunicator:
        return Communicator.join(self.address, group[0], rank, join_token=group[1], timeout=20.0, **options)

    def run(
        self,
        group: tuple[str, str],
        work: Callable[[ManagedCommunicator], Any],
        ranks: int = 3,
        **options: Any,
    ) -> dict[int, Any]:
        """`work(comm)` of every rank in a thread of its own: what each returned or raised, by rank."""
        outcome: dict[int, Any] = {}

        def one(rank: int) -> None:
            try:
                with self.join(group, rank, **options) as comm:
                    outcome[rank] = work(comm)
            except Exception as error:
                outcome[rank] = error

        threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(ranks)]
        end = time.monotonic() + 60
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        assert not any(thread.is_alive() for thread in threads), f"ranks hang; those that ended: {outcome}"
        return outcome

    def installed(self) -> dict[str, tuple[int, ...]]:
        """Groups on the switches that are up."""
        return {name: switch.call(switch.groups, 5.0) for name, (switch, _) in self.switches.items()}

    def close(self) -> None:
        if self.manager is not None and self.manager.poll() is None:
            self.kill_manager()
        for name in list(self.switches):
            self.kill_switch(name)
