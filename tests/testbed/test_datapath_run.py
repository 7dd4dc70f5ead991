"""`epic run` on the fast data path: the default where there is one, with the results of the reference path."""

from __future__ import annotations

import pytest

from epic_testbed import kernels
from epic_testbed.options import make_setup
from testbed.helpers import run

FAULTS = ("--loss", "0.02", "--duplicate", "0.02", "--reorder", "0.05", "--corrupt", "0.01")
SMALL = ("--size", "4K,64K", "--iterations", "2", "--collective", "all_reduce,reduce_scatter,barrier")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile here, where it may take its time: a run has a limit."""
    for mode in (2, 3):
        kernels.prepare("fast", mode)


@pytest.mark.parametrize("mode", ["2", "3"])
def test_faults_on_every_link_change_no_result(mode: str) -> None:
    found = run("--mode", mode, "--datapath", "fast", "--no-manager", *FAULTS, *SMALL)
    assert found["ok"]
    assert found["datapath"] == "fast"
    assert all(row["wrong"] == 0 for row in found["collectives"])
    assert min(found["faults"].values()) > 0
    assert found["retransmissions"] > 0
    for name in ("s0", "s1", "s2"):
        assert found["counters"][name]["cells_completed"] > 0


def test_a_managers_group_is_on_it_too() -> None:
    found = run("--topology", "single", "--ranks", "2", "--datapath", "fast", *SMALL)
    assert (found["ok"], found["managed"], found["datapath"]) == (True, True, "fast")


@pytest.mark.parametrize(
    ("options", "path", "engine"),
    [
        ({}, "fast", "fast-m3"),
        ({"mode": 2}, "fast", "fast-m2"),
        ({"mode": 1}, "reference", "reference-m1"),
        ({"trace": "/nowhere"}, "reference", "reference-m3"),
        ({"datapath": "reference"}, "reference", "reference-m3"),
        # The ranks' own; the switch is another.
        ({"switch": "p4"}, "fast", "p4-v1model"),
    ],
)
def test_it_is_the_default_where_there_is_one(options: dict[str, object], path: str, engine: str) -> None:
    setup = make_setup(subnet="127.77.6.0/24", **options)  # type: ignore[arg-type]
    assert (setup.datapath, setup.engine) == (path, engine)
