"""The registry of runs: what a dead run left is removed, what belongs to a living one is not touched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from epic_spec.errors import ConfigError
from epic_testbed import netns, registry
from epic_testbed.options import make_setup
from epic_testbed.registry import Process, Run
from epic_testbed.session import Session


@pytest.fixture(autouse=True)
def own_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base directory of the test's own, so that other runs of this machine stay out of it."""
    base = tmp_path / "runs"
    base.mkdir()
    monkeypatch.setattr(registry, "base", lambda: base)
    return base


@pytest.fixture
def stray() -> Iterator[subprocess.Popen[bytes]]:
    """A process that goes on until somebody kills it."""
    popen = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield popen
    popen.kill()
    popen.wait()


def dead_process() -> Process:
    """A process that was, and is no more."""
    popen = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = Process.of("owner", popen.pid)
    popen.communicate()
    return process


def orphan(run: Run, *processes: Process) -> None:
    """Make a run look like one whose owner was killed."""
    run.owner = dead_process()
    run.processes = list(processes)
    run.save()


def test_a_living_run_is_left_alone(stray: subprocess.Popen[bytes]) -> None:
    run = registry.create("run")
    run.processes = [Process.of("s0", stray.pid)]
    run.save()
    assert registry.clean() == []
    assert run.path.exists()
    assert stray.poll() is None


def test_a_dead_run_is_removed_with_its_processes(stray: subprocess.Popen[bytes]) -> None:
    run = registry.create("run")
    (run.path / "s0.sock").touch()
    orphan(run, Process.of("s0", stray.pid))
    assert registry.clean() == [run.id]
    assert not run.path.exists()
    assert stray.wait(5) == -9


def test_a_reused_pid_is_not_taken_for_the_process_that_had_it(stray: subprocess.Popen[bytes]) -> None:
    run = registry.create("run")
    orphan(run, replace(Process.of("s0", stray.pid), start=1))
    assert registry.clean() == [run.id]
    assert stray.poll() is None


def test_a_run_of_an_earlier_boot_is_dead_although_its_pids_are_in_use() -> None:
    run = registry.create("run")
    run.boot = "another boot"
    run.save()
    assert registry.clean() == [run.id]


def test_a_testbed_lives_as_long_as_one_of_its_processes(stray: subprocess.Popen[bytes]) -> None:
    run = registry.create("testbed")
    run.disown()
    run.processes = [dead_process(), Process.of("s1", stray.pid)]
    run.save()
    assert registry.clean() == []
    stray.kill()
    stray.wait()
    assert registry.clean() == [run.id]


def test_a_testbed_that_is_only_starting_is_not_cleaned_up_by_another_command() -> None:
    setup = make_setup(topology_name="single", ranks=2, subnet="127.9.201.0/24")
    session = Session(setup, "testbed", owned=False)
    try:
        assert registry.clean() == []
        assert session.run.path.is_dir()
    finally:
        session.close()


def test_a_directory_that_is_being_made_is_not_touched_until_it_is_old(own_base: Path) -> None:
    young, old = own_base / ".new-a", own_base / ".new-b"
    young.mkdir()
    old.mkdir()
    os.utime(old, (time.time() - 3600,) * 2)
    assert registry.clean() == []
    assert young.exists()
    assert not old.exists()


def test_a_record_that_cannot_be_read_harms_nobody(own_base: Path) -> None:
    for name, text in {"a": "{", "b": "[]", "c": '{"id": 1}', "d": ""}.items():
        (own_base / name).mkdir()
        (own_base / name / "run.json").write_text(text)
    run = registry.create("run")
    assert [found.id for found in registry.runs()] == [run.id]
    assert registry.clean() == []


def test_what_is_saved_is_read_back() -> None:
    run = registry.create("run", about={"mode": 3})
    run.namespaces = ["epic-x-s0"]
    run.save()
    assert list(registry.runs()) == [run]
    assert run.owner == Process.of("owner", os.getpid())


def test_runs_beside_each_other_get_subnets_of_their_own() -> None:
    assert registry.free_subnet() == "127.0.0.0/24"
    first = registry.create("run", about={"subnet": "127.0.0.0/24"})
    registry.create("run", about={"subnet": "127.0.1.0/24"})
    assert registry.free_subnet() == "127.0.2.0/24"
    orphan(first)
    assert registry.free_subnet() == "127.0.0.0/24"


@pytest.mark.netns
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_namespaces_of_a_dead_run_are_removed_those_of_a_living_one_are_not() -> None:
    dead, living = registry.create("run"), registry.create("run")
    for run in (dead, living):
        netns.create(["s0", "h0"], [], run.namespace)
        run.namespaces = [run.namespace("s0")]  # h0 was made after the last save
        run.save()
    try:
        orphan(dead)
        registry.clean()
        left = {name for name in netns.existing() if dead.id in name or living.id in name}
        assert left == {living.namespace("s0"), living.namespace("h0")}
    finally:
        living.destroy()
    assert not [name for name in netns.existing() if living.id in name]


def test_a_base_directory_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match=r"epic: owned by uid \d+, expected 4242"):
        registry.base()
