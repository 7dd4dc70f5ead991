"""The software switch: its configuration, its process, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epic_host.engines import make_engine
from epic_host.switch import Switch, SwitchConfig
from epic_models.reference.mode3 import Mode3Engine
from epic_spec.errors import AbortedError, ConfigError
from host.worlds import EPIC, World, single, subnet

MakeWorld = Callable[..., World]
MODE3 = "epic_models.reference.mode3:Mode3Engine"


def config(folder: Path, **changes: Any) -> dict[str, Any]:
    made = {
        "name": "s0",
        "engine": MODE3,
        "control": f"unix:{folder}/s0",
        "transport": {"kind": "udp", "address": f"{subnet()}.1", "ports": {}},
    }
    return made | changes


def write(folder: Path, data: object) -> str:
    file = folder / "switch.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(file)


def serve(file: str, *options: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*EPIC, "switch", "serve", "--config", file, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate(timeout=10)[1]
    return process


def epic(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*EPIC, *arguments], capture_output=True, text=True, timeout=60)


# ------------------------------------------------------------------------------------------ configuration


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "switch: name = '', expected a text"),
        ({"speed": 1}, "switch: unknown key 'speed', expected one of name, engine, control, transport"),
        ({"engine": "nosuch"}, "engine 'nosuch' is not known"),
        ({"engine": "nosuch:Engine"}, "engine 'nosuch:Engine' cannot be loaded"),
        ({"engine": "json:Engine"}, "engine 'json:Engine' cannot be loaded"),
        ({"capabilities": [1]}, "switch: capabilities = [1], expected an object"),
        ({"capabilities": {"mode": 2}}, "unknown capability 'mode', expected one of window"),
        ({"capabilities": {"window": 3}}, "window = 3, expected a power of two"),
        ({"capabilities": {"icrc": "full"}}, "icrc = 'full', expected a list of what is offered"),
        ({"capabilities": {"icrc": ["half"]}}, "icrc = 'half', expected one of full, none"),
        ({"control": "tcp:1"}, "control: address 'tcp:1', expected unix:/path or 127.x.y.z:port"),
        ({"transport": {"kind": "udp"}}, "udp transport: no 'address'"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Switch(SwitchConfig.from_dict(config(tmp_path, **change)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "switch.json: not JSON"),
        ("[" * 100_000, "switch.json: not JSON"),
        ("3", "switch.json: switch: 3, expected an object"),
        ("{}", "switch.json: switch: no 'name', expected one of each: name, engine, control, transport"),
        ("\ud800", "switch.json: not JSON"),
    ],
    ids=["cut", "deep", "number", "empty", "encoding"],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "switch.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(ConfigError) as caught:
        SwitchConfig.from_file(tmp_path / "switch.json")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_says_in_one_line_what_is_wrong_and_ends_with_code_2(tmp_path: Path) -> None:
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    good = config(tmp_path)
    taken.bind((good["transport"]["address"], 4791))
    with taken:
        for file, words in (
            (write(tmp_path, good), "is in use by another process"),
            (f"{tmp_path}/none.json", "none.json: No such file"),
        ):
            done = epic("switch", "serve", "--config", file)
            assert done.returncode == 2
            assert words in done.stderr
            assert done.stderr.count("\n") == 1
            assert done.stdout == ""


def test_an_engine_is_known_by_its_class_and_takes_limits() -> None:
    engine = make_engine(MODE3, {"window": 8, "partial_format": ["input"]})
    assert isinstance(engine, Mode3Engine)
    assert (engine.capabilities.window, engine.capabilities.partial_format) == (8, ("input",))


def test_the_reference_engines_are_known_by_name() -> None:
    from importlib.metadata import entry_points

    if not entry_points(group="epic.engines"):
        pytest.skip("the distribution is not installed, so it has no entry points")
    assert isinstance(make_engine("reference-m3"), Mode3Engine)


# ------------------------------------------------------------------------------------------------- the loop


def test_a_call_runs_in_the_loop_and_gives_back_what_it_raises(world: MakeWorld) -> None:
    switch = world(tree=single(1)).switches["s0"]
    assert switch.call(threading.get_ident, 5.0) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        switch.call(lambda: 1 / 0, 5.0)
    assert switch.call(lambda: 3, 5.0) == 3


def test_a_switch_that_has_stopped_refuses_calls_at_once(world: MakeWorld) -> None:
    switch = world(tree=single(1)).switches["s0"]
    switch.stop()
    time.sleep(0.1)
    with pytest.raises(AbortedError, match="switch s0 is shutting down"):
        switch.call(lambda: 3, 5.0)


def test_a_packet_that_fits_no_edge_changes_nothing_and_is_counted(world: MakeWorld) -> None:
    here = world(tree=single(2))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind((here.address[0], 4791))
        for length in range(64):
            stranger.sendto(os.urandom(length), (here.address["s0"], 4791))
    time.sleep(0.2)
    switch = here.switches["s0"]
    counters = switch.call(switch.counters, 5.0)
    dropped = sum(count for name, count in counters.items() if name.startswith("drop_"))
    assert dropped == counters["rx_frames"] == 64
    assert switch.call(lambda: switch.status(1), 5.0).slots == ()


# ---------------------------------------------------------------------------------------------- the process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    process = serve(write(tmp_path, config(tmp_path)))
    assert (tmp_path / "s0").is_socket()
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, "", "")
    assert not (tmp_path / "s0").exists()


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    file = write(tmp_path, config(tmp_path))
    command = [*EPIC, "switch", "serve", "--config", file]
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
            "print(child.stdout.readline().strip(), child.pid, flush=True)\n"
            "time.sleep(60)\n",
            *command,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    word, pid = parent.stdout.readline().split()
    assert word == "ready"
    parent.kill()
    parent.communicate(timeout=10)
    end = time.monotonic() + 10
    while running(int(pid)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not running(int(pid))


def running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_commands_show_a_switch_to_people_and_programs(world: MakeWorld) -> None:
    here = world(tree=single(2))
    here.run(lambda c: c.barrier())
    address = here.plan.control["s0"]
    counters = epic("switch", "counters", address, "--json")
    assert json.loads(counters.stdout)["cells_completed"] == 1
    assert "cells_completed" in epic("switch", "counters", address).stdout
    status = json.loads(epic("switch", "status", address, "1", "--json").stdout)
    assert status == {
        "group": 1,
        "epoch": 0,
        "failed_edges": [],
        "slots": [{"cell": 0, "bitmap": 3, "done": True}],
    }
    assert "0 1" in epic("switch", "status", address, "1").stdout


def test_the_commands_end_with_code_2_for_a_switch_or_group_that_is_not_there(world: MakeWorld) -> None:
    here = world(tree=single(1))
    for arguments, words in (
        (("counters", "unix:/nowhere"), "unix:/nowhere: unavailable, expected a running switch"),
        (("status", here.plan.control["s0"], "7"), "group 7: not installed, expected one of [1]"),
    ):
        done = epic("switch", *arguments)
        assert done.returncode == 2
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
