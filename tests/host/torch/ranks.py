"""Runs the ranks of a test: as threads on given process groups, or as processes that call init_process_group."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from epic_host.torch_backend.process_group import EpicProcessGroup
from host.worlds import World

# Importing torch alone takes a minute where its files are not in memory yet.
SECONDS = 240.0


def together(groups: Sequence[EpicProcessGroup], work: Callable[[EpicProcessGroup], Any]) -> list[Any]:
    """What `work(group)` returned or raised, by rank; every rank in a thread of its own."""
    outcome: list[Any] = [None] * len(groups)

    def one(rank: int) -> None:
        try:
            outcome[rank] = work(groups[rank])
        except Exception as error:
            outcome[rank] = error

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(len(groups))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads), f"ranks hang: {outcome}"
    return outcome


def plan_file(folder: Path, worlds: Sequence[tuple[Sequence[int], World]]) -> Path:
    """The static plan of several installed groups: each with the default group's ranks it is for."""
    groups = [
        {
            "ranks": list(ranks),
            "plan": world.plan.to_dict(),
            "transports": [world.transport(rank) for rank in range(len(ranks))],
        }
        for ranks, world in worlds
    ]
    path = folder / "plan.json"
    path.write_text(json.dumps({"groups": groups}))
    return path


def processes(program: str, size: int, folder: Path, environment: Mapping[str, str]) -> list[Any]:
    """What `program(rank)` of tests/host/torch/programs.py returned in `size` processes, or {"error", "message"}.

    One process imports torch and forks into all ranks, before any thread is started: imports are what takes long.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    tests = Path(__file__).parents[2]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tests), *filter(None, sys.path)]),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(size),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        **environment,
    }
    command = [sys.executable, str(Path(__file__).with_name("programs.py")), program, str(folder)]
    child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _, said = child.communicate(timeout=SECONDS)
    finally:
        # The ranks are its children, in its session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    results = [folder / f"{program}.{rank}.json" for rank in range(size)]
    return [
        json.loads(path.read_text()) if path.exists() else {"error": "died", "message": said}
        for path in results
    ]
