"""`epic run --switch rtl`: the main job with simulated RTL as the switch of each node."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from epic_testbed.options import make_setup
from epic_testbed.rtl import build, parameters
from rtl.needs import FULL, need
from testbed.helpers import epic, run, subnet

FAULTS = ("--loss", "0.02", "--duplicate", "0.02", "--reorder", "0.02", "--corrupt", "0.01", "--seed", "5")


@cache
def built(mode: int) -> None:
    """The library is there before the clock of a run starts."""
    need("verilator")
    build.library(parameters.top_of(mode), parameters.complete(mode, {}))


RUNS = [pytest.param(2, "udp"), pytest.param(3, "netns", marks=pytest.mark.netns)]
if FULL:
    RUNS += [pytest.param(3, "udp"), pytest.param(2, "netns", marks=pytest.mark.netns)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("mode", "transport"), RUNS)
def test_collectives_through_the_rtl_are_right(mode: int, transport: str) -> None:
    built(mode)
    if transport == "netns" and os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    report = run(
        "--switch", "rtl", "--mode", str(mode), "--transport", transport, "--size", "4K,20001", "--iterations", "1",
        *(FAULTS if transport == "udp" else ("--loss", "0.02")),
    )  # fmt: skip
    assert report["ok"] is True
    assert sum(row["wrong"] for row in report["collectives"]) == 0
    assert report["faults"]["lost"] > 0
    for name in ("s0", "s1", "s2"):
        counters = report["counters"][name]
        assert counters["cells_completed"] > 0
        assert counters["tx_frames"] > 0


def test_floating_point_is_the_switches_own() -> None:
    """The RTL computes FP32 in Mode III too, unless it is built without; the hosts' fixed-point path is then taken."""
    need("verilator")
    native = make_setup(switch="rtl", subnet="127.77.4.0/24")
    assert native.params.datatypes == ("INT32", "FP32")
    plain = make_setup(switch="rtl", subnet="127.77.4.0/24", parameters={"FP32": "0"})
    assert plain.params.datatypes == ("INT32",)
    assert (native.params.window, native.params.rto_min_us) == (16, 200_000)
    assert make_setup(switch="rtl", window=64, subnet="127.77.4.0/24").params.window == 64
    assert (native.engine, make_setup(mode=2, switch="rtl", subnet="127.77.4.0/24").engine) == (
        "rtl-m3",
        "rtl-m2",
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--mode", "1"], "mode = 1 with switch = rtl, expected mode 2 or 3"),
        (["--payload", "8192"], "payload_bytes = 8192 with switch = rtl, expected at most 4096"),
        (["--window", "256"], "window = 256 with switch = rtl, expected at most 128"),
        (["--set", "LANES=4"], "epic_mode3: no parameter 'LANES', expected one of DATA_W, PORTS,"),
        (["--set", "FP32"], "set = 'FP32', expected NAME=VALUE, each name once"),
        (
            ["--trace", "/nonexistent"],
            "trace with switch = rtl, expected none: it does not record what it does",
        ),
    ],
)
def test_what_it_cannot_do_is_one_line(arguments: list[str], complaint: str) -> None:
    need("verilator")
    done = epic("run", "--switch", "rtl", *arguments)
    assert done.returncode == 2
    assert done.stderr.strip().startswith(f"epic: {complaint}")
    assert len(done.stderr.strip().splitlines()) == 1


def test_other_switches_have_no_parameters() -> None:
    done = epic("run", "--set", "FP32=0")
    assert done.returncode == 2
    assert done.stderr.strip() == "epic: set = FP32 with switch = soft, expected none: it has no parameters"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_group_that_is_too_large_is_refused_by_the_switch(tmp_path: Path) -> None:
    """Nine hosts on one switch: the engine has eight ports, whatever else would fit."""
    built(3)
    path = tmp_path / "star.toml"
    hosts = [f"h{i}" for i in range(9)]
    links = "".join(f'[[links]]\nchild = "{host}"\nparent = "s0"\n' for host in hosts)
    inside = "".join(f"{host} = {{}}\n" for host in hosts)
    path.write_text(f'name = "star"\nroot = "s0"\n[hosts]\n{inside}[switches]\ns0 = {{}}\n{links}')
    done = epic("run", "--switch", "rtl", "--topology", str(path), "--subnet", subnet(), "--size", "4K")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.endswith("is on port 8, this engine has 8")
