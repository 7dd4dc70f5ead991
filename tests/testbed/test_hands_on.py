"""`epic testbed up`, `status`, `down`, with a program of the user's own as ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from epic_testbed import hands_on
from testbed.helpers import SECONDS, epic, leftovers, processes_of, subnet

root = [pytest.mark.netns, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]
TRANSPORTS = ["udp", pytest.param("netns", marks=root)]


def up(*args: str) -> dict[str, Any]:
    """A testbed that is up."""
    where = ("--subnet", subnet()) if "netns" not in args else ()
    done = epic("testbed", "up", "--json", *where, *args)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def program(testbed: dict[str, Any], folder: Path) -> Path:
    """The program that `up` tells its user to write, taken from what it prints."""
    lines = hands_on.how_to(hands_on.Testbed(**testbed))
    begin, end = lines.index("    import sys, numpy"), lines.index("    comm.close()")
    path = folder / "rank.py"
    path.write_text(textwrap.dedent("\n".join(lines[begin : end + 1])))
    return path


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", ["1", "3"])
def test_the_printed_instructions_work(mode: str, transport: str, tmp_path: Path) -> None:
    testbed = up(
        "--mode", mode, "--transport", transport, "--ranks", "3", "--directory", str(tmp_path / "bed")
    )
    try:
        assert (tmp_path / "bed" / "group.json").exists()
        script = program(testbed, tmp_path)
        ranks = []
        for rank, namespace in enumerate(testbed["namespaces"]):
            inside = ["ip", "netns", "exec", namespace] if namespace else []
            command = [*inside, sys.executable, str(script), str(rank)]
            ranks.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        outputs = [popen.communicate(timeout=SECONDS)[0] for popen in ranks]
        assert outputs == [f"{rank} [3 3 3 3]\n" for rank in range(3)]
    finally:
        down = epic("testbed", "down", testbed["id"])
    assert down.stdout == f"{testbed['id']}: removed\n"
    assert leftovers(testbed["id"]) == []


def test_a_testbed_stays_up_beside_runs_and_is_shown() -> None:
    testbed = up("--topology", "3-level", "--ranks", "8")
    try:
        assert len(processes_of(testbed["id"])) == 7
        assert epic("run", "--subnet", subnet(), "--collective", "barrier").returncode == 0
        rows = json.loads(epic("testbed", "status", "--json").stdout)["runs"]
        row = next(row for row in rows if row["id"] == testbed["id"])
        assert (row["kind"], row["alive"], row["topology"], row["ranks"]) == ("testbed", True, "3-level", 8)
        assert all(process["alive"] for process in row["processes"])
        assert testbed["id"] in epic("testbed", "status").stdout
        first = next(iter(testbed["control"].values()))
        counters = epic("switch", "counters", first, "--json")
        assert json.loads(counters.stdout)["rx_frames"] == 0
    finally:
        epic("testbed", "down", testbed["id"])
    assert leftovers(testbed["id"]) == []


def test_up_that_cannot_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    where = subnet()
    done = epic("testbed", "up", "--subnet", where, "--directory", str(tmp_path / "file" / "x"))
    assert done.returncode == 2
    assert done.stderr.startswith("epic: directory ")
    assert len(done.stderr.splitlines()) == 1
    # Its addresses are free again.
    assert epic("run", "--subnet", where, "--collective", "barrier").returncode == 0


def test_a_run_finds_room_beside_a_testbed() -> None:
    first = json.loads(epic("testbed", "up", "--json", "--topology", "single", "--ranks", "1").stdout)
    try:
        second = epic("run", "--json", "--collective", "barrier")
        assert second.returncode == 0, second.stderr
        rows = {row["id"]: row for row in json.loads(epic("testbed", "status", "--json").stdout)["runs"]}
        assert rows[first["id"]]["subnet"] != json.loads(second.stdout)["subnet"]
    finally:
        epic("testbed", "down", first["id"])


def test_up_prints_how_to_go_on() -> None:
    done = epic("testbed", "up", "--subnet", subnet(), "--topology", "single", "--ranks", "2")
    assert done.returncode == 0
    run_id = done.stdout.split()[1]
    try:
        assert f"epic testbed down {run_id}" in done.stdout
        assert "from epic_testbed.hands_on import connect" in done.stdout
        assert "rank.py 1" in done.stdout
    finally:
        assert epic("testbed", "down", run_id).returncode == 0
