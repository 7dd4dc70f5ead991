"""A small world for the tests of this folder: switches and ranks on loopback addresses of the test's own."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from epic_host import Communicator
from epic_host.switch import Switch, SwitchConfig
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.tree import LinkEnd, Node, Tree, build_group
from epic_spec.codec import mac_of_ip

# Test processes at the same time use different networks, tests of one process different subnets of its own.
NETWORK = 20 + os.getpid() % 230
_subnets = itertools.count(1)

EPIC = [
    sys.executable,
    "-c",
    "import sys; from epic_spec.command import build_app, run; from epic_host.cli import register; "
    "sys.exit(run(build_app([register]), sys.argv[1:]))",
]


def subnet() -> str:
    """The first three bytes of addresses that no other test uses."""
    return f"127.{NETWORK}.{next(_subnets) % 250}"


def single(ranks: int) -> Tree:
    return Tree("s0", {"s0": tuple(range(ranks))})


def two_level(ranks: int) -> Tree:
    half = (ranks + 1) // 2
    return Tree("s0", {"s0": ("s1", "s2"), "s1": tuple(range(half)), "s2": tuple(range(half, ranks))})


class World:
    """Switches (threads of this process, or processes of their own), an installed group, and its ranks."""

    def __init__(
        self,
        folder: Path,
        mode: int = 3,
        tree: Tree | None = None,
        faults: Mapping[str, Any] | None = None,
        processes: bool = False,
        engine: str | None = None,
        datapath: str = "reference",
        faulty_ranks: bool = True,
        **params: Any,
    ) -> None:
        self.tree = tree or single(3)
        # Injected by every node, or by the switches alone.
        self.faults = dict(faults or {})
        self.faulty_ranks = faulty_ranks
        # Of the ranks; `engine` says what the switches do.
        self.datapath = datapath
        self.engine = engine or f"epic_models.reference.mode{mode}:Mode{mode}Engine"
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.switches: dict[str, Switch] = {}
        self.comms: dict[int, Communicator] = {}
        self._threads: list[threading.Thread] = []
        self._seeds = itertools.count(1)
        ranks = self.tree.ranks_below(self.tree.root)
        net = subnet()
        self.address: dict[Node, str] = {r: f"{net}.{10 + r}" for r in ranks}
        self.address |= {s: f"{net}.{101 + i}" for i, s in enumerate(self.tree.engines())}
        ends: dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]] = {}
        self._ports: dict[Node, dict[str, int]] = {node: {} for node in self.address}
        for parent in self.tree.engines():
            for child in self.tree.children[parent]:
                low, high = (self._port(a, b) for a, b in ((child, parent), (parent, child)))
                ends[child, parent] = (low, high)
        defaults: dict[str, Any] = {"payload_bytes": 256, "message_bytes": 1024, "window": 16, "slots": 32}
        defaults |= {"message_buffers": 16, "rto_min_us": 20_000, "deadline_us": 10_000_000}
        self.plan: GroupPlan = build_group(
            self.tree,
            GroupParams(group=1, mode=mode, world_size=len(ranks), **(defaults | params)),
            ends,
            control={s: f"unix:{folder}/{s}" for s in self.tree.engines()},
        )
        self._folder = folder
        self._start = self._spawn if processes else self._serve

    def start(self) -> None:
        """Start the switches and install the group."""
        for name in self.tree.engines():
            self._start(name)

    def _port(self, node: Node, peer: Node) -> LinkEnd:
        ports = self._ports[node]
        port = ports[self.address[peer]] = len(ports)
        return LinkEnd(port, self.address[node], mac_of_ip(self.address[node]))

    def transport(self, node: Node) -> dict[str, Any]:
        config: dict[str, Any] = {"kind": "udp", "address": self.address[node], "ports": self._ports[node]}
        if self.faults and (self.faulty_ranks or isinstance(node, str)):
            config["faults"] = self.faults | {"seed": next(self._seeds)}
        return config

    def switch_config(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "engine": self.engine,
            "control": self.plan.control[name],
            "transport": self.transport(name),
        }

    def _serve(self, name: str) -> None:
        switch = self.switches[name] = Switch(SwitchConfig.from_dict(self.switch_config(name)))
        self._threads.append(threading.Thread(target=switch.run))
        self._threads[-1].start()
        switch.call(lambda: switch.install(self.plan.engines[name]), 5.0)

    def _spawn(self, name: str) -> None:
        from epic_host.control import EngineClient

        file = self._folder / f"{name}.json"
        file.write_text(json.dumps(self.switch_config(name)))
        process = subprocess.Popen(
            [*EPIC, "switch", "serve", "--config", str(file)], stdout=subprocess.PIPE, text=True
        )
        self.processes[name] = process
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with EngineClient(self.plan.control[name]) as client:
            client.install(self.plan.engines[name])

    def join(self, rank: int, **options: Any) -> Communicator:
        """The communicator of a rank."""
        options = {"datapath": self.datapath} | options
        self.comms[rank] = Communicator(rank, self.plan, self.transport(rank), **options)
        return self.comms[rank]

    def run(
        self, work: Callable[[Communicator], Any], ranks: tuple[int, ...] | None = None, **options: Any
    ) -> dict[int, Any]:
        """`work(comm)` of every rank in a thread of its own: what each returned or raised, by rank."""
        outcome: dict[int, Any] = {}

        def one(rank: int, comm: Communicator) -> None:
            try:
                outcome[rank] = work(comm)
            except Exception as error:
                outcome[rank] = error

        chosen = ranks if ranks is not None else tuple(self.plan.ranks)
        comms = {r: self.comms.get(r) or self.join(r, **options) for r in chosen}
        threads = [threading.Thread(target=one, args=pair, daemon=True) for pair in comms.items()]
        end = time.monotonic() + 60
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(end - time.monotonic())
        assert not any(thread.is_alive() for thread in threads), f"ranks hang; those that ended: {outcome}"
        return outcome

    def close(self) -> None:
        for comm in self.comms.values():
            comm.close()
        for switch in self.switches.values():
            switch.stop()
        for thread in self._threads:
            thread.join(10)
        for switch in self.switches.values():
            switch.close()
        for process in self.processes.values():
            process.kill()
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()
