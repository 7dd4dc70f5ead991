"""`epic run` over loopback, end to end: modes, sizes, datatypes, world sizes, faults, dead nodes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from epic_testbed import registry
from epic_testbed import run as run_module
from epic_testbed.cases import PRIMITIVES, select
from epic_testbed.options import make_setup
from epic_testbed.supervisor import Work
from testbed.helpers import command, epic, leftovers, processes_of, run, subnet

MODES = ("1", "2", "3")
FAULTS = ("--loss", "0.05", "--duplicate", "0.05", "--reorder", "0.05", "--corrupt", "0.01")


def wrong(report: dict[str, Any]) -> int:
    """Wrong elements in all."""
    return sum(int(row["wrong"]) for row in report["collectives"])


def test_the_defaults_are_the_documented_ones() -> None:
    report = run()
    assert report["ok"] is True
    assert (report["mode"], report["topology"], report["ranks"], report["transport"]) == (
        3,
        "1-2-4",
        4,
        "udp",
    )
    assert {row["primitive"] for row in report["collectives"]} == set(PRIMITIVES)
    assert report["faults"] == {"lost": 0, "duplicated": 0, "reordered": 0, "corrupted": 0}
    assert set(report["counters"]) == {"s0", "s1", "s2", "r0", "r1", "r2", "r3"}
    assert report["seconds"] < 60
    assert all(row["time_us"] > 0 for row in report["collectives"])
    assert "error" not in report


@pytest.mark.parametrize("mode", MODES)
def test_every_size_around_a_payload_is_right(mode: str) -> None:
    report = run(
        "--mode", mode, "--dtype", "int8", "--size", "0,1,4095,4096,4097,8192,20001", "--iterations", "2"
    )
    assert wrong(report) == 0
    assert {row["bytes"] for row in report["collectives"]} == {0, 1, 4095, 4096, 4097, 8192, 20001}


@pytest.mark.parametrize("mode", MODES)
def test_every_datatype_and_operator_is_right_or_refused(mode: str) -> None:
    some = "int8,int16,int32,int64,fp16,bf16,fp32" + ("" if mode == "3" else ",fp64")
    primitives = "all_reduce,reduce,reduce_scatter"
    report = run(
        "--mode",
        mode,
        "--collective",
        primitives,
        "--dtype",
        some,
        "--op",
        "all",
        "--size",
        "2000",
        "--iterations",
        "2",
    )
    assert wrong(report) == 0
    checks = {row["check"] for row in report["collectives"] if row["op"] == "sum" and row["dtype"] == "fp32"}
    assert checks == {"fixed" if mode == "3" else "native"}
    sums = run("--mode", mode, "--dtype", "fp64", "--collective", primitives, "--size", "3000")
    assert wrong(sums) == 0


@pytest.mark.parametrize("seed", ["1", "2", "3"])
@pytest.mark.parametrize("mode", MODES)
def test_faults_on_every_link_change_no_result(mode: str, seed: str) -> None:
    report = run(
        "--mode", mode, "--seed", seed, "--size", "4K,40K", "--dtype", "int32", "--iterations", "2", *FAULTS
    )
    assert report["ok"] is True
    assert wrong(report) == 0
    assert report["retransmissions"] > 0
    assert all(count > 0 for count in report["faults"].values()), report["faults"]
    drops = sum(counts.get("drop_icrc", 0) for counts in report["counters"].values())
    assert drops > 0, "corrupted frames have to be noticed"


@pytest.mark.parametrize("ranks", ["1", "2", "5", "8"])
@pytest.mark.parametrize("topology", ["single", "3-level"])
def test_world_sizes(topology: str, ranks: str) -> None:
    report = run(
        "--topology", topology, "--ranks", ranks, "--size", "0,3000", "--iterations", "2", "--dtype", "int32"
    )
    assert report["ok"] is True
    assert (report["topology"], report["ranks"]) == (topology, int(ranks))


@pytest.mark.parametrize("mode", MODES)
def test_every_ordered_pair_of_collectives_back_to_back(mode: str) -> None:
    report = run(
        "--mode", mode, "--pairs", "--back-to-back", "--size", "5000", "--dtype", "int32", "--loss", "0.02"
    )
    order = [row["primitive"] for row in report["collectives"]]
    assert {(a, b) for a, b in itertools.pairwise(order)} == {(a, b) for a in PRIMITIVES for b in PRIMITIVES}
    assert wrong(report) == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--ack-reflection",),
        ("--byte-order", "little", "--dtype", "int32,fp32"),
        ("--icrc", "none"),
        ("--window", "1"),
        ("--payload", "64"),
        ("--mtu", "600"),
        ("--mode", "1", "--reproducible", "--dtype", "fp32"),
        ("--mode", "2", "--reproducible", "--dtype", "fp32"),
    ],
)
def test_options_of_the_group(options: tuple[str, ...]) -> None:
    report = run("--size", "9000", "--iterations", "2", "--loss", "0.02", *options)
    assert report["ok"] is True
    if "--mtu" in options:
        assert report["payload_bytes"] == 512
    if "--ack-reflection" in options:
        assert sum(counts.get("tx_reflected", 0) for counts in report["counters"].values()) > 0


def test_a_topology_file_with_its_own_addresses(tmp_path: Path) -> None:
    first = subnet().removesuffix("0/24")
    path = tmp_path / "mine.toml"
    path.write_text(
        f'ranks = ["h0", "h1", "h0"]\n[hosts]\nh0 = {{ address = "{first}9" }}\nh1 = {{}}\n'
        "[switches]\ns0 = {}\n"
        '[[links]]\nchild = "h0"\nparent = "s0"\nmtu = 1500\n'
        '[[links]]\nchild = "h1"\nparent = "s0"\nrate_gbps = 10\n'
    )
    report = run("--topology", str(path), "--size", "4K", "--dtype", "int32", "--subnet", f"{first}0/24")
    assert (report["ok"], report["topology"], report["ranks"]) == (True, "mine", 3)
    assert report["payload_bytes"] == 1024
    assert report["link_gbps"] == 10


def test_a_switch_that_computes_wrongly_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    setup = make_setup(topology_name="single", ranks=2, subnet=subnet())
    switch = dataclasses.replace(
        setup.switch, engine=lambda _mode, _datapath: "testbed.mutant_engine:OneBitOff"
    )
    mutant = dataclasses.replace(setup, switch=switch)
    cases = select(setup.params, 2, "all_reduce,broadcast", "sum", "int32", "4096", 2)
    code = run_module.run(mutant, Work(cases, 2), as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert code == 1
    assert report["ok"] is False
    # One element a cell, two iterations, each rank but the source of the broadcast… which is checked as well.
    assert [row["wrong"] > 0 for row in report["collectives"]] == [True, True]
    assert "elements wrong, first in all_reduce int32" in report["error"]


@pytest.mark.parametrize("mode", MODES)
def test_a_killed_rank_is_named_by_all_others_within_the_deadline(mode: str) -> None:
    report = run("--mode", mode, "--kill", "rank:2@0.3", "--deadline", "3", *BUSY, expect=1)
    failures = {f["node"]: f for f in report["failures"]}
    assert failures.pop("rank 2")["message"] == "killed by SIGKILL"
    assert set(failures) == {"rank 0", "rank 1", "rank 3"}
    for failure in failures.values():
        assert failure["kind"] == "PeerLostError"
        assert failure["ranks"] == [2]
        assert failure["after_s"] < 1.3 * 3


@pytest.mark.parametrize(("mode", "switch"), [("1", "s1"), ("2", "s1"), ("3", "s1"), ("3", "s0")])
def test_without_a_manager_a_killed_switch_is_named_by_all_ranks_within_the_deadline(
    mode: str, switch: str
) -> None:
    report = run(
        "--no-manager", "--mode", mode, "--kill", f"switch:{switch}@0.3", "--deadline", "3", *BUSY, expect=1
    )
    assert report["managed"] is False
    assert (report["path"], report["epochs"], report["decisions"]) == ("network", [], [])
    failures = {f["node"]: f for f in report["failures"]}
    assert failures.pop(f"switch {switch}")["message"] == "killed by SIGKILL"
    assert set(failures) == {f"rank {rank}" for rank in range(4)}
    for failure in failures.values():
        assert failure["kind"] == "PeerLostError"
        assert f"switch {switch} does not answer" in failure["message"]
        assert failure["edges"]
        assert failure["after_s"] < 1.3 * 3


# Enough to be in the middle of when something is killed.
BUSY = ("--size", "1M", "--iterations", "100", "--dtype", "int32", "--collective", "all_reduce")


def test_a_rank_that_never_calls_is_named() -> None:
    report = run("--silent", "rank:3", "--deadline", "1", "--dtype", "int32", "--size", "4K", expect=1)
    assert {f["node"] for f in report["failures"]} == {"rank 0", "rank 1", "rank 2"}
    assert all(f["ranks"] == [3] for f in report["failures"])
    assert report["collectives"] == []


def test_people_see_a_table_and_the_error_of_every_rank() -> None:
    good = epic("run", "--subnet", subnet(), "--size", "4K", "--iterations", "1", "--dtype", "int32,fp32")
    assert good.returncode == 0
    assert "#wrong" in good.stdout
    assert "check fixed: |error|" in good.stdout
    assert "OK: 11 collectives x 1 iterations, every element right" in good.stdout
    bad = epic("run", "--subnet", subnet(), "--kill", "rank:1@0.2", "--deadline", "1", *BUSY)
    assert bad.returncode == 1
    for rank in (0, 2, 3):
        assert f"rank {rank}: PeerLostError after" in bad.stdout
    assert "Traceback" not in bad.stdout + bad.stderr


def test_captures_decode(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    report = run(
        "--capture",
        str(folder),
        "--size",
        "9000",
        "--dtype",
        "int32",
        "--iterations",
        "1",
        "--corrupt",
        "0.1",
    )
    assert {path.stem for path in folder.iterdir()} == set(report["counters"])
    bad = 0
    for node, counts in report["counters"].items():
        done = epic("pcap", "--json", str(folder / f"{node}.pcap"))
        assert done.returncode == 0, done.stderr
        frames = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(frames) >= counts["rx_frames"] > 0
        bad += sum(frame.get("icrc_ok") is False for frame in frames)
    assert bad > 0


class Running:
    """An `epic run` in the background that would take long."""

    def __init__(self, *args: str) -> None:
        where = () if "--transport" in args else ("--subnet", subnet())
        self.popen = subprocess.Popen(
            command("run", "--json", "--deadline", "2", *where, *args, *LONG),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.id = ""
        self.pids: dict[str, int] = {}

    def wait_for_collectives(self) -> None:
        """Until its ranks run collectives: the record says so."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            mine = [r for r in registry.runs() if r.owner and r.owner.pid == self.popen.pid]
            if mine and mine[0].about["phase"] == "collectives":
                self.id = mine[0].id
                self.pids = {p.node: p.pid for p in mine[0].processes}
                time.sleep(0.5)
                return
            time.sleep(0.1)
        raise AssertionError("the run did not come up")

    def end(self) -> tuple[int, dict[str, Any]]:
        """Exit code and report."""
        out, _ = self.popen.communicate(timeout=60)
        return self.popen.returncode, json.loads(out)


LONG = ("--size", "4M", "--iterations", "1000", "--dtype", "int32", "--collective", "all_reduce")


def test_a_rank_killed_from_outside_is_named_and_nothing_is_left() -> None:
    running = Running()
    running.wait_for_collectives()
    os.kill(running.pids["r1"], signal.SIGKILL)
    code, report = running.end()
    assert code == 1
    assert {f["node"]: f["ranks"] for f in report["failures"] if f["kind"] == "PeerLostError"} == {
        "rank 0": [1],
        "rank 2": [1],
        "rank 3": [1],
    }
    assert leftovers(running.id) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_and_nothing_is_left(number: signal.Signals) -> None:
    running = Running()
    running.wait_for_collectives()
    running.popen.send_signal(number)
    code, report = running.end()
    assert code == 128 + number
    assert report["ok"] is False
    assert f"interrupted by {number.name}" in report["error"]
    assert leftovers(running.id) == []


def test_kill_9_of_the_run_ends_its_processes_and_the_next_run_cleans_up() -> None:
    running = Running()
    running.wait_for_collectives()
    assert len(processes_of(running.id)) == 8
    running.popen.kill()
    running.popen.communicate(timeout=30)
    deadline = time.monotonic() + 5
    while processes_of(running.id) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(running.id) == []
    run("--size", "4K", "--dtype", "int32", "--iterations", "1", "--collective", "barrier")
    assert leftovers(running.id) == []
