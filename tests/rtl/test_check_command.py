"""`epic check rtl` as a command: which checks there are, and what it answers to wrong input."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial

import pytest
import typer

from epic_spec.command import build_app, run
from epic_spec.errors import ConfigError
from epic_testbed.proofs.scratch import scratch
from epic_testbed.rtl.check import (
    bench,
    cli,
    display,
    lint,
    manifest,
    measured,
    mutants,
    proof,
    readme,
    runner,
    sources,
    synth,
)
from epic_testbed.rtl.check.model import LEVELS, Check, Kind
from rtl.needs import need

need("cocotb")


@pytest.fixture
def app() -> typer.Typer:
    return build_app([cli.register])


def listed(app: typer.Typer, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict]:
    assert run(app, ["check", "rtl", "--list", "--json", *arguments]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)["checks"]}


def test_every_module_is_linted(app: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    assert {f"lint/{name}" for name in sources.modules()} <= set(listed(app, capsys))


def test_verify_has_what_test_has(app: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    small, large = listed(app, capsys), listed(app, capsys, "--level", "verify")
    assert set(small) < set(large)
    assert all(row["level"] in LEVELS for row in large.values())
    assert any(name.startswith("mutant/") for name in large)


def test_only_reaches_every_level(app: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    found = listed(app, capsys, "--only", "syn/*", "--only", "mutant/epic_fifo-plain/*")
    assert "syn/fp32-add" in found and "mutant/epic_fifo-plain/never-full" in found
    assert not any(name.startswith("lint/") for name in found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--level", "all"], "level = 'all', expected one of test, verify"),
        (["--jobs", "0"], "jobs = 0, expected 1 to 256"),
        (["--only", "lint/nothing"], "only = 'lint/nothing': no check has such a name"),
    ],
)
def test_bad_input_is_one_line(
    app: typer.Typer, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(app, ["check", "rtl", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_a_manifest_with_an_unknown_key_is_refused(tmp_path) -> None:
    path = tmp_path / "proofs.toml"
    path.write_text('[one]\nproperties = "epic_fifo_props"\ncover = 3\ndeep = 4\n')
    with pytest.raises(ConfigError, match=r"proofs\.toml: one: deep = 4, expected no such key"):
        proof.rows(path)


def test_parameters_are_integers(tmp_path) -> None:
    row = manifest.Row(tmp_path / "lint.toml", "epic_fifo", {"sets": [{"DEPTH": "4"}]})
    with pytest.raises(ConfigError, match="expected a table of integers"):
        row.parameter_sets("sets")


def test_a_module_uses_what_its_text_instantiates() -> None:
    known = sources.modules()
    names = [path.stem for path in sources.closure(["epic_fifo"], known)]
    assert names == ["epic_fifo", "epic_ram"]


def test_a_module_uses_what_its_macros_instantiate() -> None:
    """Of what it includes, the macros; not what comments there show."""
    names = [path.stem for path in sources.closure(["epic_m2_rto"], sources.modules())]
    assert names == ["epic_m2_rto", "epic_cut"]


def test_every_folder_with_tests_is_a_bench() -> None:
    folders = {check.name.split("/")[1] for check in bench.checks()}
    assert folders == {folder.name for folder in bench.folders()}


def test_every_proof_has_a_mutant() -> None:
    by_properties = {p.name: p.top for p in proof.rows()}
    hunted = {by_properties[m.proof] for m in proof.mutants()}
    assert hunted == set(by_properties.values())


def test_lint_names_modules_that_exist() -> None:
    assert {row.name for row in lint.rows()} == set(sources.modules())


FIGURES = {
    "target": "ecp5-85", "top": "epic_icrc", "DATA_W": 128,
    "lut": 1702, "ff": 283, "ram": 0, "dsp": 0, "fmax": 112.0, "path": "a to b",
}  # fmt: skip


def test_the_readme_must_have_the_figures(tmp_path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"before\n{readme.BEGIN}\n{readme.END}\nbehind\n")
    rows = {"syn/icrc-128": FIGURES}
    assert len(readme.differences(rows, path)) == 1
    readme.write(rows, ["icrc-128", "rx-128"], path)
    assert readme.differences(rows, path) == []
    text = path.read_text()
    assert text.startswith("before\n") and text.endswith("behind\n")
    assert "| icrc-128 | ecp5-85 | `epic_icrc` DATA_W 128 | 1,702 | 283 | 0 | 0 | 112.0 | 14.3 |" in text
    assert len(readme.differences({"syn/icrc-128": {**FIGURES, "lut": 1703}}, path)) == 1
    # Another one comes; this one stays until its configuration is gone.
    readme.write({"syn/rx-128": {**FIGURES, "lut": 9, "path": "c to d"}}, ["icrc-128", "rx-128"], path)
    assert readme.differences(rows, path) == [] and "- rx-128: c to d" in path.read_text()
    readme.write({}, ["rx-128"], path)
    assert "icrc-128" not in path.read_text()


def test_the_readme_has_its_markers() -> None:
    text = readme.README.read_text()
    assert readme.differences({}) == [] == readme.measured_differ({})
    assert all(text.count(mark) == 1 for mark in (readme.BEGIN, readme.MEASURED, readme.MUTANTS))


def test_the_readme_must_have_the_cycles_that_benches_count(tmp_path) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"before\n{readme.MEASURED}\n{readme.END}\nbehind\n")
    tiny, wide = (
        f"{measured.PREFIX}icarus/DATA_W=64,PORTS=2",
        f"{measured.PREFIX}verilator/DATA_W=512,PORTS=2",
    )
    figures = {f"{size} B: {name}": size + at for size in (0, 64) for at, name in enumerate(measured.NAMES)}
    results = {tiny: {"tests": 18, **figures, "64 B: cycles a cell": 66.25}}
    assert len(readme.measured_differ(results, path)) == 2
    readme.write_measured(results, [tiny, wide], path)
    assert readme.measured_differ(results, path) == []
    assert (
        "| DATA_W 64, PORTS 2 | 64 | 64 | 65 | 66.25 | 67 | 68 |\n| DATA_W 64, PORTS 2 | 0 |"
        in path.read_text()
    )
    (told,) = readme.measured_differ({tiny: {**figures}}, path)
    assert tiny in told and told.endswith("| DATA_W 64, PORTS 2 | 64 | 64 | 65 | 66 | 67 | 68 |")
    # Another configuration comes; this one stays until it is gone.
    readme.write_measured({wide: figures}, [wide, tiny], path)
    assert readme.measured_differ({**results, wide: figures}, path) == []
    readme.write_measured({}, [wide], path)
    assert "DATA_W 64" not in path.read_text() and "DATA_W 512" in path.read_text()
    assert path.read_text().startswith("before\n") and path.read_text().endswith("behind\n")


def test_what_the_readme_says_of_cycles_is_measured_in_level_test() -> None:
    """Given the checks that measure, then one is of level test and in the table, and the table has no others' lines."""
    measuring = {
        measured.configuration(c.name): c.level for c in bench.checks() if c.name.startswith(measured.PREFIX)
    }
    inside = readme.README.read_text().split(readme.MEASURED)[1].split(readme.END)[0]
    told = [line.split("|")[1].strip() for line in inside.strip().splitlines()[2:]]
    assert set(told) <= set(measuring)
    assert "test" in {measuring[name] for name in told}


def test_every_module_has_a_mutant_and_the_readme_lists_them() -> None:
    assert readme.mutants_differ() == []
    assert set(sources.modules()) <= {mutant.module for mutant in mutants.every()}


def test_a_list_of_mutants_that_is_old_is_told_and_written_anew(tmp_path, monkeypatch) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"before\n{readme.MUTANTS}\n| `epic_fifo` | 1 | none | |\n{readme.END}\nbehind\n")
    assert len(readme.mutants_differ(path)) == 1
    readme.write_mutants(path)
    assert readme.mutants_differ(path) == []
    assert path.read_text().startswith("before\n") and path.read_text().endswith("behind\n")
    monkeypatch.setattr(mutants, "modules", lambda: {**sources.modules(), "epic_none": tmp_path})
    with pytest.raises(ConfigError, match="epic_none: no mutant"):
        mutants.table()


@pytest.mark.parametrize(
    ("deadline", "worker", "message"),
    [
        (
            0.05,
            "import time; time.sleep(20)",
            r"worker list: not finished after 0\.\d s \(deadline 0\.05 s\)",
        ),
        (20.0, "raise SystemExit('no such module')", r"rtl/tb: the benches can't be listed: no such module"),
    ],
)
def test_benches_that_cannot_be_listed_are_a_check_that_fails(
    app: typer.Typer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path,
    deadline: float,
    worker: str,
    message: str,
) -> None:
    (tmp_path / "worker.py").write_text(worker)
    monkeypatch.setattr(bench, "_WORKER", tmp_path / "worker.py")
    monkeypatch.setattr(bench, "_LIST_DEADLINE", deadline)
    assert run(app, ["check", "rtl", "--only", "bench/epic_rx*", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["checks"]
    assert row["name"] == bench.LISTING and row["result"] == "fail"
    assert re.fullmatch(message, row["message"])


def test_every_bench_can_be_read() -> None:
    """A bench that can't is a check that fails: it would be seen only when all checks run."""
    assert [row["error"] for row in bench.listed() if "error" in row] == []


def test_the_traps_of_the_readme_are_tests_of_benches() -> None:
    text = readme.README.read_text()
    table = text.split("## Traps, and where they are tried")[1].split("\n## ")[0]
    named = 0
    for line in table.splitlines():
        if not line.startswith("| ") or "tried by" in line or line.startswith("| ---"):
            continue
        for part in line.split("|")[2].split(";"):
            folders, tests = re.findall(r"\bepic_\w+", part), re.findall(r"`(\w+)`", part)
            assert folders, line
            for folder in folders:
                bench_text = (bench.TB / folder / f"test_{folder}.py").read_text()
                for test in tests:
                    assert re.search(rf"async def {test}\(dut|\"{test}\"", bench_text), f"{folder}: {test}"
                    named += 1
    assert named >= 12


def test_every_bench_has_the_sources_of_its_module() -> None:
    """Verilator finds what a bench does not name, Icarus does not."""
    known = sources.modules()
    for row in bench.listed():
        if row["simulator"] is not None:
            needed = {path.name for path in sources.closure([row["top"]], known)}
            assert needed <= set(row["sources"]), row["folder"]


def test_a_harness_connects_every_port() -> None:
    ports = {
        "clk": {"direction": "input", "bits": [2]},
        "data": {"direction": "input", "bits": [3, 4, 5]},
        "sum": {"direction": "output", "bits": [6, 7]},
    }
    text = synth.harness("unit", ports)
    assert "unit dut (.clk(clk), .data(in[0 +: 3]), .sum(out[0 +: 2]));" in text


def test_timing_takes_the_path_of_the_clock() -> None:
    def step(kind: str, delay: float, to: str) -> dict:
        return {"type": kind, "delay": delay, "from": {"cell": "dut.a_TRELLIS_FF_Q"}, "to": {"cell": to}}

    steps = [step("clk-to-q", 0.5, "x"), step("routing", 2.0, "x"), step("logic", 0.5, "x")]
    path = [*steps, step("setup", 0.0, "dut.b_TRELLIS_FF_Q_1")]
    report = {
        "fmax": {"clk": {"achieved": 123.456}},
        "critical_paths": [
            {"from": "<async>", "to": "posedge clk", "path": []},
            {"from": "posedge clk", "to": "posedge clk", "path": path},
        ],
    }
    figures = synth.timing(report)
    assert figures["fmax"] == 123.5
    assert figures["path"] == "a to b: 1.0 ns logic in 1 levels, 2.0 ns routing"


def test_a_bench_that_fails_is_run_again_with_waves(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a simulation in which a test fails, then the test is named and the waves of a second run can be opened."""
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import json, pathlib, sys\n"
        "said = {'passed': ['idle'], 'failed': {'burst': 'beat 3'}, 'figures': {'gap': 2}, 'log': 'sim.log',\n"
        "        'waves': 'unit.fst' if 'waves' in sys.argv else ''}\n"
        "pathlib.Path(sys.argv[3]).write_text(json.dumps(said))\n"
    )
    monkeypatch.setattr(bench, "_WORKER", worker)
    monkeypatch.setattr(bench, "_simulator", lambda name: None)
    row = {"folder": "unit", "simulator": "icarus", "parameters": {}}
    check = Check("bench/unit", Kind.BENCH, "test", 20.0, partial(bench._cocotb, row))
    with scratch("check") as files:
        (result,) = asyncio.run(runner.run([check], files, 1, display.Silent(), tmp_path / "keep"))
    assert result.message == "burst: beat 3 (log: sim.log)"
    assert result.figures == {"tests": 1, "gap": 2}
    assert result.look == "gtkwave unit.fst"
