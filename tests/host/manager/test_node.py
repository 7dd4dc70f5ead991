"""A host's agent: it registers, keeps its lease over a restart of the manager, and is told what it may not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from epic_host.manager.client import ManagerClient
from epic_host.manager.errors import ManagerUnreachableError, RefusedError
from epic_host.node import NodeAgent, mtu_of
from epic_spec.errors import ConfigError
from host.manager.served import Running, config_of, managed

SHORT = {"node_lease": 0.6}


@contextmanager
def running(agent: NodeAgent) -> Iterator[None]:
    """The agent in a thread, registered."""
    ready = threading.Event()
    thread = threading.Thread(target=agent.run, args=(ready.set,))
    thread.start()
    try:
        assert ready.wait(10)
        yield
    finally:
        agent.stop()
        thread.join(10)
        assert not thread.is_alive()


def state(manager: Running, host: str = "h0") -> str:
    hosts = manager.do(lambda now: manager.core.topology(now).hosts)
    return next(h.state for h in hosts if h.name == host)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_host_is_up_while_its_agent_runs_and_lost_after(tmp_path: Path) -> None:
    with managed(config_of(tmp_path, times=SHORT)) as manager, manager.client() as client:
        assert state(manager) == "unknown"
        with running(NodeAgent(client, "h0", 1500)):
            beats = manager.server.service.calls
            until(lambda: beats["Heartbeat", "OK"] >= 4)
            assert state(manager) == "up"
        until(lambda: state(manager) == "lost")


def test_a_host_is_up_again_after_a_restart_of_the_manager_and_after_it_has_forgotten(tmp_path: Path) -> None:
    config = config_of(tmp_path, times=SHORT)
    client = ManagerClient(config.listen[0], timeout=5.0)
    agent = NodeAgent(client, "h0")
    with managed(config) as manager:
        ready = threading.Event()
        thread = threading.Thread(target=agent.run, args=(ready.set,))
        thread.start()
        assert ready.wait(10)
        assert state(manager) == "up"
    # A new store: this manager has never heard of the host.
    (tmp_path / "m.db").unlink()
    with managed(config) as again:
        until(lambda: state(again) == "up")
    agent.stop()
    thread.join(10)
    client.close()


def test_a_host_that_is_not_of_the_fabric_is_told_so(tmp_path: Path) -> None:
    with (
        managed(config_of(tmp_path)) as manager,
        manager.client() as client,
        pytest.raises(RefusedError, match="is not of the fabric"),
    ):
        NodeAgent(client, "elsewhere").run(lambda: None)


def test_without_a_manager_it_does_not_begin(tmp_path: Path) -> None:
    with (
        ManagerClient(f"unix:{tmp_path}/none", timeout=0.5) as client,
        pytest.raises(ManagerUnreachableError),
    ):
        NodeAgent(client, "h0").run(lambda: None)


def test_the_mtu_is_that_of_the_interface(tmp_path: Path) -> None:
    (tmp_path / "eth0").mkdir()
    (tmp_path / "eth0" / "mtu").write_text("9000\n")
    (tmp_path / "lo").mkdir()
    (tmp_path / "lo" / "mtu").write_text("65536\n")
    assert (mtu_of("eth0", tmp_path), mtu_of("lo", tmp_path)) == (9000, 65535)
    for name in ("eth1", "../eth0", ""):
        with pytest.raises(ConfigError, match="expected"):
            mtu_of(name, tmp_path)
