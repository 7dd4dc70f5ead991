"""Sweeps of the flow-level simulator, by processes and on a Dask cluster."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Any

import pytest

from epic_models import executors, sweep
from epic_spec.errors import ConfigError

TEXT = """
simulator = "flow"
workers = 1
seeds = [1, 2]
[grid]
"generate.rate_per_s" = [10.0, 1000.0]
[base.topology]
kind = "fat_tree"
k = 4
[base.generate]
jobs = 8
rate_per_s = 1.0
ranks = [2, 4, 8]
placement = "random"
iterations = [1, 3]
"""


def plan(folder: Path) -> sweep.Sweep:
    path = folder / "sweep.toml"
    path.write_text(TEXT)
    return sweep.load(path)


def results(folder: Path, executor: str | None = None) -> dict[str, Any]:
    found = {}
    for _, total, row in sweep.run(plan(folder), folder / "out", executor):
        assert total == 4
        assert row["ended"] == "done"
        key = f"{row['point']} {row['seed']}"
        found[key] = {k: v for k, v in row.items() if k not in ("wall_s", "events_per_s")}
    return found


def test_processes_give_what_one_run_gives(tmp_path: Path) -> None:
    found = results(tmp_path)
    assert len(found) == 4
    waits = {
        (row["point"]["generate.rate_per_s"], row["seed"]): row["mean_wait_us"] for row in found.values()
    }
    assert all(waits[1000.0, seed] > waits[10.0, seed] for seed in (1, 2))
    # The same in this process, so on any number of workers.
    settings = plan(tmp_path)
    for point, seed in settings.points():
        row = sweep._one("flow", settings.config(point, seed), settings.source, str(tmp_path))
        wanted = found[f"{point} {seed}"]
        assert {key: row[key] for key in row if key in wanted} == {
            key: wanted[key] for key in wanted if key in row
        }
    assert list(sweep.run(settings, tmp_path / "out")) == []


def test_points_are_checked_by_the_simulator_that_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(TEXT.replace('"generate.rate_per_s"', '"generate.rate"'))
    with pytest.raises(ConfigError, match=r"base with generate.rate = 10.0: generate: unknown key 'rate'"):
        sweep.load(path)
    path.write_text(TEXT.replace('"flow"', '"flows"'))
    with pytest.raises(ConfigError, match=r"simulator = 'flows', expected one of packet, flow"):
        sweep.load(path)


@pytest.mark.parametrize("name", ["dask", "dask://", "dask://host", "dask://host:port", "tcp://host:1"])
def test_an_executor_is_an_address(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected dask://HOST:PORT of a Dask scheduler"):
        next(sweep.run(plan(tmp_path), tmp_path / "out", name))


def test_without_dask_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ConfigError) as caught:
        next(sweep.run(plan(tmp_path), tmp_path / "out", "dask://127.0.0.1:1"))
    assert str(caught.value) == (
        "executor = 'dask://127.0.0.1:1', expected the package distributed: pip install 'epic-inc[dask]'"
    )


@pytest.fixture
def cluster() -> Any:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address=":0",
    ) as made:
        yield made.scheduler_address.replace("tcp://", "dask://")


def test_a_cluster_gives_what_processes_give(cluster: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert results(tmp_path / "a", cluster) == {
        key: row | {"config": str(tmp_path / "a" / "sweep.toml")}
        for key, row in results(tmp_path / "b").items()
    }


def test_workers_with_other_sources_are_refused(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "sources", lambda: secrets.token_hex())
    with pytest.raises(ConfigError, match=r"has other sources of epic_models, expected the same"):
        next(sweep.run(plan(tmp_path), tmp_path / "out", cluster))


def test_nobody_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "_PATIENCE", 1)
    with pytest.raises(ConfigError, match=r"expected a Dask scheduler there"):
        next(sweep.run(plan(tmp_path), tmp_path / "out", "dask://127.44.1.2:9"))
