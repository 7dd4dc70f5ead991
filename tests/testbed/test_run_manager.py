"""`epic run` with its manager: what is killed is survived where it can be, and named where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from epic_host.fabric.topology import Fabric
from epic_testbed.fabric import fabric_of
from epic_testbed.options import make_setup
from testbed.helpers import epic, run, subnet
from testbed.test_run import FAULTS, wrong

MANY = ("--size", "256K", "--iterations", "25", "--dtype", "int32", "--collective", "all_reduce")


def paths(report: dict[str, Any]) -> list[str]:
    return [epoch["path"] for epoch in sorted(report["epochs"], key=lambda epoch: epoch["epoch"])]


@pytest.mark.parametrize(("mode", "switch"), [("1", "s1"), ("3", "s0")])
def test_a_killed_switch_is_survived_with_every_element_right(mode: str, switch: str) -> None:
    report = run("--mode", mode, "--kill", f"switch:{switch}@0.3", *MANY)
    assert report["ok"] is True
    assert wrong(report) == 0
    assert report["killed"] == [switch]
    assert paths(report) == ["network", "host"]
    assert report["path"] == "host"
    assert report["epochs"][-1]["reason"] == "engine_lost"
    lost = [d for d in report["decisions"] if d["reason"] == "engine_lost"]
    assert any(f"engine {switch} " in d["text"] for d in lost)
    # All went over the network until then, and over the hosts from there on.
    assert report["counters"]["r0"]["tx_contribution"] > report["epochs"][-1]["resume"]


def test_floats_and_faults_of_every_kind_over_a_change_of_path() -> None:
    report = run(
        "--mode", "2", "--kill", "switch:s2@0.3", "--dtype", "fp32,fp16", "--size", "20000",
        "--iterations", "15", "--collective", "all_reduce,reduce_scatter", *FAULTS,
    )  # fmt: skip
    assert report["ok"] is True
    assert paths(report) == ["network", "host"]
    assert all(count > 0 for count in report["faults"].values())


def test_people_see_the_change_of_path_and_why() -> None:
    done = epic("run", "--subnet", subnet(), "--kill", "switch:s0@0.3", *MANY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "path host from cell " in done.stdout
    assert "path host, 2 epochs; the manager's decisions:" in done.stdout
    assert "killed on request: s0" in done.stdout
    assert "every element right" in done.stdout


def test_what_is_asked_for_is_what_the_group_gets() -> None:
    options = ("--window", "128", "--icrc", "none", "--byte-order", "little", "--ranks", "2")
    report = run("--dtype", "int32", "--size", "4K", "--iterations", "1", *options)
    assert report["managed"] is True
    assert paths(report) == ["network"]
    assert [d["reason"] for d in report["decisions"]] == ["granted"]
    assert report["killed"] == []
    assert report["window"] == 128


def test_the_fabric_of_a_run_is_that_of_its_plan() -> None:
    setup = make_setup(topology_name="1-2-4", ranks=6, subnet="127.3.2.0/24", mtu=1500)
    control = {name: f"unix:/run/{name}" for name in setup.plan.switches}
    fabric = fabric_of(setup, control)
    assert Fabric.from_toml(fabric.to_toml(), "again") == fabric
    assert fabric.engines["s1"].address == setup.plan.addresses["s1"]
    # Two hosts have two ranks each, and an address for each of them.
    pools = [host.pool for host in fabric.hosts.values()]
    assert sorted(",".join(pools).split(",")) == sorted(setup.plan.addresses[rank] for rank in range(6))
    for link in fabric.links:
        assert link.mtu == 1500
    offer = fabric.engines["s0"].offer
    assert offer is not None
    assert (offer.mode, offer.window, offer.datatypes) == (3, 64, setup.params.datatypes)
