"""Files: what is in them, what is refused, traces, and the commands."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from epic_models.flowsim import config as configs
from epic_models.flowsim import sharing, trace
from epic_models.flowsim.config import load, parse
from epic_models.sim_cli import sim_app
from epic_spec.errors import ConfigError

TEXT = """
seed = 7
[topology]
kind = "fat_tree"
k = 4
[[job]]
name = "train"
ranks = 8
tp = 2
iterations = 2
[[job.phase]]
compute_us = 100.0
algorithm = "mode3"
size = "1MiB"
over = "dp"
[generate]
jobs = 5
rate_per_s = 100.0
ranks = [2, 4]
iterations = [1, 2]
"""

BASE: dict[str, Any] = {"topology": {"kind": "fat_tree", "k": 4}}
JOB: dict[str, Any] = {"ranks": 8, "size": "1MiB"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "flow.toml"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "here: no job, expected [[job]], [trace] or [generate]"),
        ({"jobs": []}, "here: no job, expected"),
        ({"job": [JOB], "sede": 1}, "here: unknown key 'sede', expected one of topology,"),
        ({"job": [JOB | {"windwo": 1}]}, "here: job[0]: unknown key 'windwo', expected one of hosts,"),
        ({"job": [JOB | {"ranks": 17}]}, "here: job[0]: ranks = 17, expected a whole number of 1 to 16"),
        ({"job": [JOB | {"tp": 3}]}, "here: job[0]: ranks = 8, expected a multiple of tp x pp = 3"),
        ({"job": [JOB | {"size": "1 furlong"}]}, "here: job[0]: size = '1 furlong', expected bytes"),
        ({"job": [JOB | {"size": 0}]}, "here: job[0]: size = 0, expected 1 or more (or primitive barrier)"),
        (
            {"job": [JOB | {"algorithm": "mode4"}]},
            "algorithm = 'mode4', expected one of mode1, mode2, mode3, ring",
        ),
        (
            {"job": [{"ranks": 6, "algorithm": "halving_doubling"}]},
            "here: job[0]: ranks = 6 of a group, expected a power of two with halving_doubling",
        ),
        (
            {"job": [{"ranks": 6, "fallback": "halving_doubling"}]},
            "here: job[0]: ranks = 6 of a group, expected a power of two with halving_doubling",
        ),
        (
            {"job": [{"ranks": 6, "algorithm": "double_tree", "primitive": "reduce"}]},
            "here: job[0]: primitive = 'reduce', expected all_reduce with double_tree",
        ),
        ({"job": [{"hosts": ["h0", "h16"]}]}, "here: job[0]: host 'h16', expected one of h0 to h15"),
        ({"job": [{"hosts": ["h0", "h0"]}]}, "here: job[0]: host 'h0' is there twice, expected each once"),
        ({"job": [{"hosts": "h0"}]}, "here: job[0]: hosts = 'h0', expected a list of host names"),
        (
            {"job": [{"ranks": 4, "primitive": "reduce", "root": 4}]},
            "here: job[0]: root = 4, expected less than the group's 4 ranks",
        ),
        (
            {"job": [{"ranks": 4, "phase": [{"algorithm": "mode3"}, {"algorithm": "mode2"}]}]},
            "here: job[0]: phase[1]: algorithm = 'mode2', expected one mode for all phases over 'all'",
        ),
        ({"job": [{"ranks": 4, "phase": [{"sizes": 1}]}]}, "here: job[0]: phase[0]: unknown key 'sizes'"),
        (
            {"job": [JOB], "topology": {"kind": "fat_tree", "k": 5}},
            "here: topology: k = 5, expected an even number",
        ),
        (
            {"job": [JOB], "topology": {"kind": "torus"}},
            "here: topology: kind = 'torus', expected one of single,",
        ),
        ({"job": [JOB], "switches": {"slot_kib": 1}}, "here: switches: policy = None, expected a text"),
        (
            {"job": [JOB], "switches": {"policy": "fair"}},
            "here: switches: policy 'fair' is not known, expected one of best_effort, spatial, temporal",
        ),
        (
            {"job": [JOB], "switches": {"policy": "spatial", "quantum_ms": 5.0}},
            "here: switches: policy spatial: options quantum, expected those it has",
        ),
        (
            {"job": [JOB], "trace": {"file": "none.jsonl"}},
            "none.jsonl: No such file or directory, expected a trace",
        ),
        ({"generate": {"jobs": 1}}, "here: generate: rate_per_s = None, expected a number of 1e-09 to 1e+09"),
        (
            {"generate": {"jobs": 1, "rate_per_s": 1.0, "ranks": [32]}},
            "here: generate: ranks = 32, expected a whole number of 1 to 16",
        ),
        (
            {"generate": {"jobs": 1, "rate_per_s": 1.0, "gradients": ["2MiB", "1MiB"]}},
            "here: generate: gradients = [2097152.0, 1048576.0], expected the least first",
        ),
        (
            {"generate": {"jobs": 1, "rate_per_s": 1.0, "iterations": [1, 2, 3]}},
            "here: generate: iterations = [1, 2, 3], expected one value, or the least and the greatest",
        ),
    ],
)
def test_a_bad_file_is_one_line_that_names_key_and_value(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(BASE | data, "here").jobs()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_is_used_once() -> None:
    with pytest.raises(ConfigError, match=r"job name 'mode3' is used twice, expected each once"):
        parse(BASE | {"job": [JOB, JOB]}, "here").jobs()


def test_limits_without_anybody_who_has_policies_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where only the models are installed; without limits nothing is asked of anybody."""
    monkeypatch.setattr(sharing, "entry_points", lambda group: ())
    with pytest.raises(ConfigError) as caught:
        parse(BASE | {"job": [JOB], "switches": {"policy": "spatial"}}, "here")
    assert str(caught.value) == (
        "here: switches: policy = 'spatial', expected a package that has policies: none that is installed has an "
        "entry point epic.sharing (epic_host has)"
    )
    assert parse(BASE | {"job": [JOB]}, "here").limits is None


def test_another_package_may_have_the_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mine", f"{__name__}:Mine", sharing.GROUP)
    monkeypatch.setattr(sharing, "entry_points", lambda group: (point,))
    monkeypatch.setattr(EntryPoint, "load", lambda self: Mine)
    limits = parse(BASE | {"job": [JOB], "switches": {"policy": "mine", "groups": 3}}, "here").limits
    assert limits is not None
    assert sharing.maker(limits) is Mine
    assert limits.groups == 3


class Mine:
    @staticmethod
    def check(limits: sharing.Limits) -> None:
        assert limits.policy == "mine"


def test_every_key_of_the_docstring_is_known() -> None:
    """The reference of all keys is the module's docstring: it is a file that is taken, but for its trace."""
    text = (configs.__doc__ or "").split("jobs, listed, from a trace, or drawn.")[1]
    text = (
        text.replace('[trace]\nfile = "jobs.jsonl"', "")
        .replace("k = 74 ", "k = 12 ")
        .replace("quantum_ms", "#")
    )
    from epic_spec.loader import parse_toml

    config = parse(parse_toml(text, "docstring", "a simulation"), "docstring")
    assert config.limits is not None
    assert len(config.jobs()) == 10_001


def test_a_trace_gives_the_same_jobs(file: Path, tmp_path: Path) -> None:
    jobs = load(file).jobs()
    assert [job.name for job in jobs] == ["train", *(f"j{k}" for k in range(5))]
    trace.write(tmp_path / "jobs.jsonl", jobs)
    again = parse(BASE | {"trace": {"file": "jobs.jsonl"}}, "again", tmp_path).jobs()
    assert len(again) == len(jobs)
    for job, other in zip(jobs, again, strict=True):
        assert rounded(other.to_table()) == rounded(job.to_table())
    (tmp_path / "jobs.jsonl").write_text('{"ranks": 2}\n{"ranks": 3')
    with pytest.raises(ConfigError, match=r"jobs\.jsonl: line 2: .*expected a job as JSON"):
        parse(BASE | {"trace": {"file": "jobs.jsonl"}}, "again", tmp_path)


def rounded(table: Any) -> Any:
    """Microseconds become seconds and microseconds again."""
    if isinstance(table, dict):
        return {key: rounded(value) for key, value in table.items()}
    if isinstance(table, list):
        return [rounded(value) for value in table]
    return float(f"{table:.12g}") if isinstance(table, float) else table


def test_drawn_jobs_are_what_was_asked_for() -> None:
    data = BASE | {
        "generate": {
            "jobs": 2000,
            "rate_per_s": 50.0,
            "ranks": [4, 8],
            "tp": [1, 2],
            "pp": [1, 2],
            "iterations": 3,
        }
    }
    jobs = parse(data, "x").jobs()
    assert jobs[-1].start == pytest.approx(40.0, rel=0.1)
    assert {job.ranks for job in jobs} == {4, 8}
    assert {(job.tp, job.pp) for job in jobs} == {(1, 1), (2, 1), (1, 2), (2, 2)}
    assert all(job.ranks // (job.tp * job.pp) >= 2 and job.exclusive for job in jobs)
    assert {job.iterations for job in jobs} == {3}
    sizes = [job.phases[-1].size * job.tp * job.pp for job in jobs]
    assert (64 << 20) * 0.99 < min(sizes) < (80 << 20)
    assert (3 << 30) < max(sizes) < (4 << 30) * 1.01


# ---------------------------------------------------------------------------------------------------------- commands


def test_flow_prints_and_writes(file: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(sim_app, ["flow", str(file), "--out", str(tmp_path / "out"), "--seed", "3"])
    assert ran.exit_code == 0, ran.output
    assert "train" in ran.output
    assert "done: 6 of 6 jobs on 16 hosts" in ran.output
    row = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (row["seed"], row["jobs_done"], row["simulator"]) == (3, 6, "flow")
    jobs = (tmp_path / "out" / "jobs.csv").read_text().splitlines()
    assert jobs[0].startswith("name,ranks,arrived_us")
    assert len(jobs) == 7
    links = (tmp_path / "out" / "links.csv").read_text().splitlines()
    assert links[0] == "link,bytes,utilization"
    assert len(links) > 16
    as_json = CliRunner().invoke(sim_app, ["flow", str(file), "--json", "--seed", "3"])
    found = json.loads(as_json.output)
    assert len(found["per_job"]) == 6
    assert {"packets", "drops", "retransmissions", "wrong", "links"} <= found.keys()
    assert {k: v for k, v in row.items() if k not in ("wall_s", "events_per_s")}.items() <= found.items()


def test_trace_writes(file: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(sim_app, ["trace", str(file), str(tmp_path / "t.jsonl")])
    assert ran.exit_code == 0, ran.output
    assert "6 jobs in" in ran.output
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == 6


def test_what_cannot_be_written_is_said(file: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    ran = CliRunner().invoke(sim_app, ["flow", str(file), "--out", str(tmp_path / "taken")])
    assert isinstance(ran.exception, ConfigError)
    assert "expected a folder that can be written" in str(ran.exception)
