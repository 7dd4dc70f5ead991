"""Trees of unlike engines, by a real manager: a Tofino program below a software root, and what cannot be one tree."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from epic_host import Communicator
from epic_host.fabric.topology import EngineNode, Fabric, HostNode, Link
from epic_host.manager.client import ManagerClient
from epic_host.member import create_group
from epic_host.switch import Switch, SwitchConfig
from host.cluster import end_manager, start_manager, write_manager
from host.worlds import subnet

RANKS = 4


@contextmanager
def fabric(folder: Path, engines: dict[str, str]) -> Iterator[str]:
    """Root s0 with leaves s1 and s2, two hosts below each; the manager's address. `engines` by name of the switch."""
    net = subnet()
    address = {name: f"{net}.{200 + i}" for i, name in enumerate(engines)}
    links = [Link(f"h{i}", f"s{1 + i // 2}", 0, i % 2) for i in range(RANKS)]
    links += [Link("s1", "s0", 2, 0), Link("s2", "s0", 2, 1)]
    plan = Fabric(
        {f"h{i}": HostNode(f"h{i}", f"{net}.{16 * i}/28") for i in range(RANKS)},
        {name: EngineNode(name, f"unix:{folder}/{name}", address[name]) for name in engines},
        tuple(links),
    )
    listen = write_manager(folder, plan)
    ports = {
        "s0": {address["s1"]: 0, address["s2"]: 1},
        "s1": {f"{net}.0/28": 0, f"{net}.16/28": 1, address["s0"]: 2},
        "s2": {f"{net}.32/28": 0, f"{net}.48/28": 1, address["s0"]: 2},
    }
    switches = []
    for name, engine in engines.items():
        transport = {"kind": "udp", "address": address[name], "ports": ports[name]}
        config = {"name": name, "engine": engine, "control": f"unix:{folder}/{name}", "transport": transport}
        switch = Switch(SwitchConfig.from_dict(config))
        thread = threading.Thread(target=switch.run)
        thread.start()
        switches.append((switch, thread))
    manager = None
    try:
        manager = start_manager(folder, listen, set(engines))
        yield listen
    finally:
        if manager is not None:
            end_manager(manager)
        for switch, thread in switches:
            switch.stop()
            thread.join(10)
            switch.close()


def all_reduce(manager: str, **request: object) -> tuple[list[np.ndarray], list[str], int]:
    """The sums that four ranks get, their paths, and the payload of the group's packets."""
    name, token = create_group(
        manager, hosts=[f"h{i}" for i in range(RANKS)], lease=5.0, deadline=20.0, **request
    )
    sums: list[np.ndarray] = [np.zeros(0)] * RANKS
    paths = [""] * RANKS
    payload = [0] * RANKS

    def one(rank: int) -> None:
        with Communicator.join(manager, name, rank, join_token=token, timeout=30.0) as comm:
            sums[rank] = comm.all_reduce(np.arange(500, dtype=np.int32) + rank)
            paths[rank], payload[rank] = comm.path, comm.params.payload_bytes

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a rank hangs"
    return sums, paths, payload[0]


EXPECTED = RANKS * np.arange(500) + sum(range(RANKS))


def test_a_tofino_program_is_a_leaf_below_a_software_root(tmp_path: Path) -> None:
    with fabric(tmp_path, {"s0": "reference-m3", "s1": "p4-tna", "s2": "reference-m3"}) as manager:
        sums, paths, payload = all_reduce(manager, path="network")
        with ManagerClient(manager, timeout=20.0) as client:
            offers = {engine.name: engine.mode for engine in client.get_topology().engines}
    for result in sums:
        np.testing.assert_array_equal(result, EXPECTED)
    assert paths == ["network"] * RANKS
    # What the pipeline can take, for all of the tree.
    assert payload <= 256
    assert offers == {"s0": 3, "s1": 3, "s2": 3}


def test_modes_that_cannot_be_one_tree_go_over_the_hosts_and_it_is_said_why(tmp_path: Path) -> None:
    with fabric(tmp_path, {"s0": "reference-m2", "s1": "p4-tna", "s2": "reference-m2"}) as manager:
        sums, paths, _ = all_reduce(manager, name="mixed", payload_bytes=256)
        with ManagerClient(manager, timeout=20.0) as client:
            decisions = client.explain(group="mixed").decisions
    for result in sums:
        np.testing.assert_array_equal(result, EXPECTED)
    assert paths == ["host"] * RANKS
    assert decisions[0].reason in ("mixed_tree", "no_capability")
    assert "mode" in decisions[0].text
