"""The P4 programs in the testbed: the whole conformance suite on both, and as the switches of a run."""

from __future__ import annotations

import shutil
from dataclasses import asdict

import pytest

from epic_p4.control import ProgramModel, schema_of
from epic_p4.p4info import generate
from epic_spec.errors import ConfigError
from epic_testbed import bmv2
from epic_testbed.adapters.p4 import P4Dut, P4TnaDut, P4V1modelDut
from epic_testbed.conformance.case import select
from epic_testbed.conformance.results import Status
from epic_testbed.conformance.runner import Runner
from epic_testbed.options import make_setup
from epic_testbed.p4.program import TARGETS, compiled
from testbed.helpers import epic, run

DUTS: dict[str, type[P4Dut]] = {"p4-v1model": P4V1modelDut, "p4-tna": P4TnaDut}
# What the programs do not offer; every case that does not apply must say one of these.
NOT_OFFERED = {
    "p4-v1model": {"conflict_record", "datatypes", "partial_format", "byte_order"},
    "p4-tna": {"conflict_record", "datatypes", "partial_format", "byte_order", "icrc", "window_guard"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DUTS)
def test_the_whole_conformance_suite(name: str) -> None:
    cases = list(select(3, "engine"))
    with Runner(lambda: DUTS[name](3)) as runner:
        results = list(runner.run(cases))
    assert len(results) == len(cases)
    assert [(r.case.name, r.reason) for r in results if r.status is Status.FAIL] == []
    reasons = {u.capability for r in results if r.status is Status.NA for u in r.unmet}
    assert reasons == NOT_OFFERED[name]


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_offered_is_what_the_program_can(name: str) -> None:
    model = ProgramModel.of(schema_of(generate(compiled(name))))
    offered = asdict(TARGETS[name].offers)
    assert {key: offered[key] for key in asdict(model.capabilities)} == asdict(model.capabilities)


@pytest.mark.parametrize("switch", ["p4", "p4-tna"])
def test_collectives_through_p4_switches_are_right(switch: str) -> None:
    faults = ["--loss", "0.05", "--duplicate", "0.05", "--reorder", "0.05"]
    faults += ["--corrupt", "0.01"] if switch == "p4" else []
    report = run("--switch", switch, "--size", "4K", "--iterations", "1", *faults, "--seed", "3")
    assert report["ok"] is True
    assert sum(row["wrong"] for row in report["collectives"]) == 0
    assert report["faults"]["lost"] > 0
    assert report["counters"]["s0"]["cells_completed"] > 0
    assert report["counters"]["s0"]["tx_replay"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--switch", "p4", "--mode", "2"], "mode = 2 with switch = p4, expected mode 3"),
        (
            ["--switch", "p4", "--payload", "512"],
            "payload_bytes = 512 with switch = p4, expected at most 256",
        ),
        (["--switch", "p4-tna", "--icrc", "full"], "icrc = full with switch = p4-tna, expected none"),
        (["--switch", "p4", "--byte-order", "little"], "byte_order = little with switch = p4, expected big"),
        (
            ["--switch", "p4-tna", "--corrupt", "0.1"],
            "corrupt = 0.1 with icrc = none, expected icrc = full, which detects it",
        ),
        (["--switch", "bmv2"], "transport = udp with switch = bmv2, expected netns"),
    ],
)
def test_what_a_switch_cannot_do_is_one_line(arguments: list[str], complaint: str) -> None:
    done = epic("run", *arguments)
    assert done.returncode == 2
    assert done.stderr.strip().endswith(complaint)
    assert len(done.stderr.strip().splitlines()) == 1


def test_other_modes_have_no_p4_device() -> None:
    with pytest.raises(ConfigError, match="mode = 2 with dut p4-v1model, expected 3"):
        P4V1modelDut(2)


def test_a_missing_bmv2_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        bmv2.require()
    said = str(caught.value)
    assert said.startswith("simple_switch_grpc: not found on PATH, expected BMv2 with gRPC")
    assert "--switch p4" in said


def test_the_switch_can_be_left_to_the_setup() -> None:
    setup = make_setup(switch="p4", subnet="127.77.3.0/24")
    assert (setup.engine, setup.params.payload_bytes, setup.params.datatypes) == (
        "p4-v1model",
        256,
        ("INT32",),
    )
    assert setup.params.icrc == "full"
    tna = make_setup(switch="p4-tna", subnet="127.77.3.0/24")
    assert (tna.params.icrc, tna.params.window_guard, tna.params.conflict_record) == ("none", False, False)
