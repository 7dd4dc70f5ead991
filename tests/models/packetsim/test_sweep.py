"""Sweeps: every point once, on disk as it comes, gone on with after an interruption; and the page of plots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epic_models import report, report_plots, sweep
from epic_spec.errors import ConfigError

TEXT = """
workers = 1
seeds = [1, 2]
[grid]
"job.0.algorithm" = ["mode3", "ring"]
"faults.loss" = [0.0, 0.01]
[base]
payload_check = true
[base.topology]
kind = "1-2-4"
[[base.job]]
size = "16KiB"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(TEXT)
    return path


def test_an_interrupted_sweep_goes_on_where_it_stopped(file: Path, tmp_path: Path) -> None:
    plan, out = sweep.load(file), tmp_path / "out"
    going = sweep.run(plan, out)
    first = next(going)
    going.close()
    assert first[:2] == (1, 8)
    # As if the process had been killed while it wrote.
    results = out / sweep.RESULTS
    results.write_text(results.read_text() + '{"point": {"job.0')
    rest = list(sweep.run(plan, out))
    assert [count for count, _, _ in rest] == list(range(len(sweep.done(out)) - len(rest) + 1, 9))
    rows = sweep.done(out)
    assert len(rows) == 8
    assert len({json.dumps([row["point"], row["seed"]]) for row in rows}) == 8
    assert all(row["wrong"] == 0 and row["ended"] == "done" for row in rows)

    page = report.write(out).read_text()
    # Times, repeats, and the speed-up over the ring.
    assert page.count("<img") == 3
    assert "mode3" in page
    assert TEXT.strip().splitlines()[0] in page
    assert list(sweep.run(plan, out)) == []


def test_a_folder_of_another_sweep_is_refused(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / sweep.CONFIG).write_text("seeds = [9]\n")
    with pytest.raises(ConfigError, match="has results of another sweep"):
        next(sweep.run(sweep.load(file), out))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"faults.loss" = [0.0, 0.01]', '"faults.lost" = [0.0]', "unknown key 'lost', expected one of loss"),
        ('"faults.loss" = [0.0, 0.01]', '"faults.loss" = [2.0]', "loss = 2.0, expected a number of 0 to 1"),
        ('"faults.loss" = [0.0, 0.01]', '"job.1.size" = [1]', "grid key 'job.1.size' leads nowhere at '1'"),
        ("seeds = [1, 2]", "seeds = []", "seeds = [], expected a list of whole numbers"),
        ("workers = 1", "wrokers = 1", "unknown key 'wrokers', expected one of simulator,"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(
    file: Path, old: str, new: str, message: str
) -> None:
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        sweep.load(file)
    assert message in str(caught.value)


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no results, expected a folder"):
        report.write(tmp_path)


FLOW = """
simulator = "flow"
[grid]
"switches.policy" = ["spatial", "temporal"]
"generate.rate_per_s" = [1.0, 4.0]
"""


def test_a_report_of_jobs_that_share_a_fabric_has_fairness_and_slow_downs(tmp_path: Path) -> None:
    lines = []
    for policy, jain in (("spatial", 0.8), ("temporal", 0.95)):
        for rate in (1.0, 4.0):
            point = {"switches.policy": policy, "generate.rate_per_s": rate}
            figures = {
                "simulator": "flow", "ended": "done", "completion_us": 5e6, "jobs": 7, "jobs_done": 7, "jain": jain,
                "slowdown": {"p95": 2.0 + rate}, "quantiles": [0.0, 0.5, 1.0], "slowdown_quantiles": [1.0, 1.5, 3.0],
            }  # fmt: skip
            lines.append(json.dumps({"point": point, "seed": 1} | figures))
    (tmp_path / sweep.RESULTS).write_text("\n".join(lines) + "\n")
    (tmp_path / sweep.CONFIG).write_text(FLOW)
    page = report.write(tmp_path).read_text()
    # Times, fairness and slow-downs by rate, and the distribution; nothing that packets have.
    assert page.count("<img") == 4
    assert "Fairness of jobs by arrivals, jobs/s" in page
    assert "How jobs slowed down" in page
    assert "Repeats" not in page


def test_lines_keep_their_places_and_seeds_are_gathered() -> None:
    def row(algorithm: str, size: str, seed: int, time: float | None) -> dict[str, object]:
        return {"point": {"a": algorithm, "job.0.size": size}, "seed": seed, "completion_us": time}

    rows = [row("ring", "4KiB", 1, None), row("mode3", "1MiB", 1, 7.0), row("mode3", "4KiB", 1, 3.0)]
    rows.append(row("mode3", "4KiB", 2, 5.0))
    data = report_plots.series(rows, "job.0.size", ["a"], lambda r: r["completion_us"])
    assert data == {"ring": [], "mode3": [(4096, [3.0, 5.0]), (1 << 20, [7.0])]}
    assert list(data) == ["ring", "mode3"]
    # Words come in the order of the rows, which is that of the grid.
    assert [at for at, _ in report_plots.series(rows, "a", [], lambda r: 1.0)[""]] == ["ring", "mode3"]


def test_axes_say_what_a_parameter_is() -> None:
    assert report_plots.label("faults.loss") == "loss, share of packets on each link"
    assert report_plots.label("job.0.rto_min_us") == "rto min, µs"
    assert report_plots.shown("topology.delay_ns", 500.0) == "delay of a link 500 ns"
    assert report_plots.shown("job.0.window", 8) == "window W 8"
    assert report_plots.shown("job.0.size", "4MiB") == "4 MiB"
