"""Trace validation: recordings of the reference agents and engines are behaviours of the TLA+ specifications, and
falsified ones are not."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from epic_host.switch import SwitchConfig
from epic_spec import psn
from epic_spec.errors import ConfigError
from epic_spec.loader import REPO
from epic_spec.tables import SYNDROME_MASK, Syndrome
from epic_testbed.proofs import recording
from epic_testbed.proofs.scratch import scratch
from epic_testbed.proofs.tlc import Pool
from epic_testbed.proofs.traces import TraceVerdict, behaviour, check
from models.mutants import MUTANTS
from testbed import helpers, trace_runs
from testbed.proofs_helpers import needs_java
from testbed.trace_runs import SINGLE, THREE_LEVELS, TWO_LEVELS, Scenario

# TLC checks many recordings in one run: minutes on a loaded machine.
pytestmark = pytest.mark.timeout(1200)


MODES = (1, 2, 3)
# Packets that the recordings of a mode must have among them.
OPCODES = {
    1: {"SEND_FIRST", "SEND_LAST_IMM", "ACK", "NAK", "RNR_NAK"},
    2: {"ACK", "NAK"},
    3: {"ACK", "NAK"},  # of hosts whose acknowledgements are reflected
}


def scenarios(mode: int) -> list[tuple[Scenario, int]]:
    """Groups and how often each runs; together at least 30 recordings a mode."""
    if mode == 1:
        # Messages of two packets, and of one and two; and fewer buffers than the window has cells: RNR NAKs.
        two: dict[str, Any] = {"elements": 32}
        return [
            (Scenario(mode, TWO_LEVELS, 2, wraps=True, **two), 10),
            (Scenario(mode, TWO_LEVELS, 2, options={"message_buffers": 1}, **two), 8),
            (Scenario(mode, SINGLE, 1), 6),
            (
                Scenario(
                    mode, THREE_LEVELS, 4, trace_runs.PROGRAM * 2, options={"message_buffers": 2}, **two
                ),
                6,
            ),
            (Scenario(mode, TWO_LEVELS, 2, odd={1: "operator", 3: "gives up", 6: "half"}, **two), 6),
        ]
    # Mode III has twice as many slots, so twice as many cells use them as often.
    short, long = (trace_runs.PROGRAM * n for n in ((1, 2) if mode == 2 else (2, 4)))
    found = [
        (Scenario(mode, TWO_LEVELS, 2, short, wraps=True), 10),
        (Scenario(mode, SINGLE, 1), 8),
        (Scenario(mode, THREE_LEVELS, 4, long), 4),
        (Scenario(mode, TWO_LEVELS, 2, short, odd={1: "operator", 3: "gives up", 6: "length"}), 8),
    ]
    if mode == 3:
        found.append((Scenario(mode, TWO_LEVELS, 2, short, options={"ack_reflection": True}), 4))
    return found


def verdicts(paths: Sequence[Path]) -> list[TraceVerdict]:
    """What TLC says of recordings in files."""
    behaviours = [behaviour(r) for path in paths for r in recording.load(path)]
    with scratch("test") as files:
        pool = Pool(files, 2)
        try:
            return check(behaviours, pool, files.folder, REPO / "tla")
        finally:
            pool.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("traces")


@needs_java
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_recordings_of_faulty_runs_are_behaviours_of_the_specification(mode: int, folder: Path) -> None:
    paths, repairs, faults = [], 0, Counter[str]()
    for number, (scenario, count) in enumerate(scenarios(mode)):
        for seed in range(count):
            lines = scenario.record(seed, counts=faults)
            assert trace_runs.slot_reuses(lines, scenario.params()) > 2
            paths.append(trace_runs.write(folder / f"m{mode}-{number}-{seed}.ndjson", lines))
            repairs += sum('"call": "poll"' in line for line in lines)
    found = verdicts(paths)
    text = "".join(path.read_text() for path in paths)
    seen = set(re.findall(r'"opcode": "(\w+)"', text))
    seen |= {Syndrome(int(s) & SYNDROME_MASK).name for s in re.findall(r'"syndrome": (\d+)', text)}
    assert len(found) >= 30
    assert [v for v in found if not v.accepted] == []
    assert min(v.lines for v in found) > 50
    # The faults were real, several of each kind a recording: timers had to repair them, and what the modes have for
    # them was seen.
    assert min(faults[kind] for kind in ("lost", "duplicated", "reordered")) > 3 * len(found), faults
    assert repairs > len(found)
    sent = {int(s) for s in re.findall(r'"psn": (\d+)', text)}
    assert {0, psn.MODULUS - 1} <= sent
    assert {"SEND_ONLY_IMM"} | OPCODES[mode] <= seen
    assert "CellFailed" in text
    assert "CellDelivered" in text


@needs_java
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_changed_dropped_and_swapped_lines_are_noticed(mode: int, folder: Path) -> None:
    lines = Scenario(mode, TWO_LEVELS, 2).record(3)
    paths = [trace_runs.write(folder / f"f{mode}-true.ndjson", lines)]
    for falsify in trace_runs.FALSIFICATIONS:
        altered = falsify(trace_runs.loaded(lines))
        paths.append(trace_runs.write(folder / f"f{mode}-{falsify.__name__}.ndjson", altered))
    found = verdicts(paths)
    assert found[0].accepted, found[0]
    assert [v.name for v in found[1:] if v.accepted] == []
    # The verdict names the line from which on it is no behaviour.
    assert all(v.where.startswith(v.name) and "no step of the specification" in v.reason for v in found[1:])


# Planted faults of the engines and agents (tests/models/mutants.py) that a faulty run meets.
BROKEN_CODE = [
    (1, "no RNR NAK"),
    (1, "RNR NAK read as ACK"),
    (1, "bcast not waited for"),
    (1, "ACK before the message is whole"),
    (1, "early release under loss (I)"),
    (1, "early result (I)"),
    (2, "early bcast release under loss (II)"),
    (2, "a NAK for every packet"),
    (2, "old packets not acknowledged"),
    (2, "gap accepted"),
    (2, "result before completion taken (II)"),
    (2, "ERR not sent"),
    (3, "N = W"),
    (3, "no dedup"),
    (3, "replay to all"),
    (3, "any child resends"),
    (3, "any result accepted"),
    (3, "results delivered as they come"),
    (3, "results not suppressed (III)"),
    (3, "ERR of a child not taken"),
    (3, "descriptor not compared"),
    (3, "window by sends, not results"),
    (3, "ACK reflected without translation"),
]


@needs_java
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_recordings_of_broken_code_are_no_behaviours_of_the_specification(mode: int, folder: Path) -> None:
    paths = []
    for number, (_, name) in enumerate(b for b in BROKEN_CODE if b[0] == mode):
        options = {"message_buffers": 1} if mode == 1 else {}
        options |= {"ack_reflection": True} if "reflected" in name else {}
        elements = 32 if mode == 1 else 16
        odd = {1: "operator", 3: "gives up"}
        scenario = Scenario(mode, TWO_LEVELS, 2, elements=elements, odd=odd, options=options)
        with MUTANTS[name][2]():
            lines = scenario.record(3, to_its_end=False)
        paths.append(trace_runs.write(folder / f"b{mode}-{number}.ndjson", lines))
    found = verdicts(paths)
    names = [name for m, name in BROKEN_CODE if m == mode]
    assert [name for name, v in zip(names, found, strict=True) if v.accepted] == []
    assert all("no step of the specification" in v.reason for v in found)


@needs_java
@pytest.mark.slow
@pytest.mark.parametrize("name", list(trace_runs.SCHEDULES))
def test_a_run_made_to_exercise_a_rule_tells_right_code_from_code_without_it(
    name: str, tmp_path: Path
) -> None:
    schedule = trace_runs.SCHEDULES[name]
    paths = [trace_runs.write(tmp_path / "right.ndjson", schedule.record())]
    for number, patch in enumerate(schedule.broken):
        with patch():
            lines = schedule.record(to_its_end=False)
        paths.append(trace_runs.write(tmp_path / f"broken-{number}.ndjson", lines))
    right, *broken = verdicts(paths)
    assert right.accepted, right
    # Refused for what the rule says, not for something else on the way.
    for verdict in broken:
        assert not verdict.accepted
        assert verdict.reason.startswith(f"no step of the specification: {schedule.refused}"), verdict.reason


@needs_java
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ACK before store (II)", "no window guard"])
def test_a_rank_that_overruns_its_window_is_refused_unless_it_is_said_to_be_rogue(
    name: str, tmp_path: Path
) -> None:
    lines = trace_runs.SCHEDULES[name].record()
    plain = [line.replace(', "rogue": true', "") for line in lines]
    assert plain != lines
    other = [
        x.replace('"call": "install"', '"call": "install", "rogue": true') if '"node": "r1"' in x else x
        for x in plain
    ]
    assert other != plain
    paths = [trace_runs.write(tmp_path / f"{i}.ndjson", x) for i, x in enumerate((plain, other))]
    for verdict in verdicts(paths):
        assert not verdict.accepted
        assert verdict.reason.startswith("no step of the specification: act=contribute node=r0 cell=2")


@needs_java
@pytest.mark.slow
def test_recordings_in_which_an_edge_goes_into_error_are_behaviours(folder: Path) -> None:
    paths = []
    for mode in (1, 2):
        scenario = Scenario(
            mode, TWO_LEVELS, 2, elements=32 if mode == 1 else 16, options={"retry_limit": 2}, killed=1
        )
        lines = scenario.record(1, to_its_end=False)
        assert any("EdgeFailed" in line for line in lines)
        paths.append(trace_runs.write(folder / f"d{mode}.ndjson", lines))
    assert [v for v in verdicts(paths) if not v.accepted] == []


@needs_java
@pytest.mark.parametrize("mode", MODES)
def test_a_recording_in_which_nobody_does_anything_is_rejected(mode: int, folder: Path) -> None:
    lines = [line for line in Scenario(mode).record(0) if '"install"' in line]
    (verdict,) = verdicts([trace_runs.write(folder / f"e{mode}.ndjson", lines)])
    assert not verdict.accepted
    assert verdict.reason == "empty: no node did anything"


@needs_java
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_run_over_sockets_is_a_behaviour_of_the_specification(mode: int, tmp_path: Path) -> None:
    faults = ("--loss", "0.03", "--duplicate", "0.03", "--reorder", "0.03", "--seed", "7")
    # Over loopback a message of Mode I is at most two packets.
    sizes = ("--size", "4K", "--iterations", "1", "--window", "4", "--payload", "1024")
    sizes = sizes if mode != 1 else (*sizes[:-1], "8192")
    helpers.run(
        "--mode", str(mode), "--collective", "all_reduce,broadcast,barrier", "--dtype", "int32",
        "--trace", str(tmp_path / "trace"), *sizes, *faults,
    )  # fmt: skip
    done = helpers.epic("check", "tla", "--json", "--trace", str(tmp_path / "trace"))
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (0, True), report
    (verdict,) = report["traces"]
    assert verdict["lines"] > 100


def test_a_switch_whose_trace_is_no_file_name_is_refused() -> None:
    config = {"name": "s", "engine": "reference-m3", "control": "unix:/x", "trace": 3}
    transport = {"kind": "udp", "address": "127.0.0.9", "ports": {"127.0.0.8": 0}}
    with pytest.raises(ConfigError, match="switch: trace = 3, expected a file name"):
        SwitchConfig.from_dict(config | {"transport": transport})


def test_a_run_whose_recordings_have_no_place_is_refused() -> None:
    done = helpers.epic("run", "--trace", "/dev/null/x", "--subnet", helpers.subnet())
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == "epic: trace = '/dev/null/x': Not a directory, expected a directory that can be made\n"
    )


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.ndjson"
    path.write_text("")
    with pytest.raises(ConfigError, match="no line in it, expected a recording"):
        recording.load(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON, expected a line of a recording"),
        ("[]", "no object, expected a line of a recording"),
        ('{"t": "x"}', "t = 'x', expected int"),
        ('{"t": 1, "node": "s", "group": 1, "call": "jump"}', "call = 'jump', expected install, submit"),
        ('{"t": 1, "node": "q", "group": 1, "call": "poll"}', "node q has not been installed before"),
        ('{"t": 1, "node": "r0", "group": 1, "call": "receive"}', "call receive without a packet"),
        (
            '{"t": 1, "node": "r0", "group": 1, "call": "receive", "packet": {}}',
            "expected a line of a recording",
        ),
        (
            '{"t": 1, "node": "r0", "group": 1, "call": "install", "entry": {"rank": 0}}',
            "installed a second time",
        ),
    ],
)
def test_a_line_that_is_none_is_named_with_file_and_number(tmp_path: Path, line: str, message: str) -> None:
    lines = [x for x in Scenario(3).record(0) if '"install"' in x]
    path = trace_runs.write(tmp_path / "x.ndjson", [*(x.replace('"t": ', '"t": -') for x in lines), line])
    with pytest.raises(ConfigError) as raised:
        recording.load(path)
    assert message in str(raised.value)
    assert "x.ndjson" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("mode", "node"), [(1, "r0"), (2, "s"), (3, "s")])
def test_only_a_rank_of_modes_2_and_3_can_be_rogue(mode: int, node: str, tmp_path: Path) -> None:
    lines = trace_runs.loaded(Scenario(mode).record(0))
    for line in lines:
        if (line["node"], line["call"]) == (node, "install"):
            line["rogue"] = True
    with pytest.raises(ConfigError, match=f"node {node} is rogue, expected a rank of Mode II or III"):
        recording.load(trace_runs.write(tmp_path / "x.ndjson", lines))


def test_a_node_without_a_recording_is_named(tmp_path: Path) -> None:
    lines = [x for x in Scenario(3).record(0) if '"node": "a"' not in x]
    path = trace_runs.write(tmp_path / "x.ndjson", lines)
    with pytest.raises(ConfigError, match="nodes a did not record, expected every node of group 1"):
        recording.load(path)


def test_a_directory_is_one_recording_merged_by_time(tmp_path: Path) -> None:
    lines = Scenario(3).record(1)
    for node in ("s", "a", "r0", "r1", "r2"):
        trace_runs.write(tmp_path / f"{node}.ndjson", [x for x in lines if f'"node": "{node}"' in x])
    (whole,) = recording.load(trace_runs.write(tmp_path.parent / "whole.ndjson", lines))
    (merged,) = recording.load(tmp_path)
    assert [s.line for s in merged.steps] == [s.line for s in whole.steps]
    assert merged.children == {"s": ("a", "r2"), "a": ("r0", "r1")}


def test_packets_have_numbers_without_wrap(tmp_path: Path) -> None:
    lines = Scenario(3).record(1)
    (found,) = recording.load(trace_runs.write(tmp_path / "x.ndjson", lines))
    submits = [s for s in found.steps if s.node == "r0" and s.call == "submit"]
    assert [p.number for s in submits for p in s.sends] == list(range(len(trace_runs.PROGRAM)))
    base = found.bases["r0"][0]
    assert submits[3].line["sends"][0]["psn"] == psn.add(base, 3)
