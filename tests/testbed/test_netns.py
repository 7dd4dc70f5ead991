"""Runs in network namespaces: real Ethernet frames, and nothing left behind. Needs root."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from epic_testbed import netns
from testbed.helpers import leftovers, processes_of, run
from testbed.test_run import FAULTS, MODES, Running, wrong

pytestmark = [pytest.mark.netns, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

NETNS = ("--transport", "netns", "--iterations", "2")


@pytest.mark.parametrize("seed", ["1", "2", "3"] if int(os.environ.get("EPIC_EXAMPLES", "1")) > 1 else ["1"])
@pytest.mark.parametrize("mode", MODES)
def test_faults_on_every_link_change_no_result(mode: str, seed: str) -> None:
    report = run(*NETNS, "--mode", mode, "--seed", seed, "--size", "9000", "--dtype", "int32", *FAULTS)
    assert report["transport"] == "netns"
    assert report["payload_bytes"] == 1024
    assert wrong(report) == 0
    assert report["retransmissions"] > 0
    assert all(count > 0 for count in report["faults"].values())


def test_ranks_of_one_host_share_its_interface() -> None:
    report = run(*NETNS, "--ranks", "9", "--size", "3000", "--dtype", "int32", "--loss", "0.02")
    assert (report["ok"], report["ranks"]) == (True, 9)


@pytest.mark.parametrize(("mtu", "payload"), [("9000", 8192), ("600", 512)])
def test_the_mtu_is_that_of_the_links(mtu: str, payload: int) -> None:
    report = run(*NETNS, "--mtu", mtu, "--size", "20000", "--dtype", "int32", "--collective", "all_reduce")
    assert report["payload_bytes"] == payload
    # A frame beyond the MTU would not be sent at all.
    assert sum(counts["tx_failed"] for counts in report["counters"].values()) == 0


def test_captures_of_switches_show_whole_frames(tmp_path: Path) -> None:
    run(
        *NETNS,
        "--capture",
        str(tmp_path),
        "--size",
        "4K",
        "--dtype",
        "int32",
        "--topology",
        "single",
        "--ranks",
        "2",
    )
    data = (tmp_path / "s0.pcap").read_bytes()
    # The MAC addresses of the plan: port 0 of the switch, and rank 0.
    assert bytes.fromhex("02010a2f5b65") + bytes.fromhex("02000a2f5b0a") in data


def test_a_dead_switch_is_found_on_links_too() -> None:
    report = run(
        *NETNS,
        "--no-manager",
        "--kill",
        "switch:s2@0.2",
        "--deadline",
        "1",
        "--size",
        "1M",
        "--dtype",
        "int32",
        expect=1,
    )
    assert {f["node"] for f in report["failures"]} == {"switch s2", *(f"rank {rank}" for rank in range(4))}


def test_where_hosts_reach_switches_only_no_other_path_is_promised() -> None:
    report = run(
        *NETNS, "--kill", "switch:s2@0.2", "--deadline", "1", "--size", "1M", "--dtype", "int32", expect=1
    )
    assert {f["node"] for f in report["failures"]} == {f"rank {rank}" for rank in range(4)}
    assert all(f["kind"] in ("PeerLostError", "AbortedError") for f in report["failures"]), report["failures"]
    assert any("s2" in d["text"] for d in report["decisions"])


def test_kill_9_of_the_run_leaves_namespaces_only_until_the_next_run() -> None:
    running = Running("--transport", "netns")
    running.wait_for_collectives()
    mine = [name for name in netns.existing() if running.id in name]
    assert len(mine) == 7
    running.popen.kill()
    running.popen.communicate(timeout=30)
    deadline = time.monotonic() + 5
    while processes_of(running.id) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(running.id) == []
    run("--collective", "barrier")
    assert leftovers(running.id) == []


def test_the_machines_own_interfaces_are_not_touched() -> None:
    def links() -> str:
        command = ["ip", "-brief", "address"]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout

    before = links()
    run(*NETNS, "--collective", "barrier")
    assert links() == before
