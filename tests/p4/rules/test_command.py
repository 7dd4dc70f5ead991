"""`epic check p4` and `epic bench p4`: exit codes, text, JSON, the compilers on PATH, the artifacts' hash."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from epic_p4 import artifacts, cli
from epic_p4.rules import command
from epic_p4.rules.compilers import Job, run_all
from epic_spec.command import build_app, check_group, run
from epic_spec.errors import ConfigError
from p4.rules.programs import register, register_action, source

GOOD = source(
    "meta.m = add.execute(meta.s);",
    register("r") + register_action("add", "r", "value = value + 1; rv = value;"),
)
BROKEN = source("hdr.data.t = hdr.data.t + 1;")
LONG = source(" ".join(f"meta.m = meta.m + {n};" for n in range(1, 14)))
WORDS = (
    source("WORK", "REGISTERS")
    .replace(
        "WORK",
        "".join(f"\n#if WORDS > {n}\n        meta.m = a{n}.execute(meta.s);\n#endif\n" for n in range(60)),
    )
    .replace(
        "REGISTERS",
        "".join(
            f"\n#if WORDS > {n}\n"
            + register(f"r{n}", "pair_t", 65536)
            + register_action(f"a{n}", f"r{n}", "rv = value.lo;", "pair_t")
            + "#endif\n"
            for n in range(60)
        ),
    )
)
V1MODEL = """#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct headers_t { h_t h; }
struct meta_t { }
parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { pkt.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply { } }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { std.egress_spec = 1; } }
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout meta_t meta) { apply { } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def epic(*args: str) -> int:
    return run(build_app([cli.register]), args)


def check(path: Path, *args: str) -> int:
    return epic("check", "p4", "--program", str(path), "--target", "tofino1", *args)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to stand in, with nothing on PATH."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "t.p4"
    path.write_text(text)
    return path


def script(folder: Path, name: str, text: str) -> None:
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_good_program_ends_with_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(written(folder, GOOD)) == 0
    out = capsys.readouterr().out
    assert "12 kept, 0 broken" in out
    assert "fits: about 1 of 12 stages" in out
    assert "not run: p4c-barefoot, bf-p4c, p4c not found on PATH" in out


@pytest.mark.parametrize("text", [GOOD, BROKEN, LONG, WORDS])
def test_lines_stay_within_100_columns(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(written(folder, text), "--explain", "-D", "WORDS=60", "--words", "8,60")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10
    assert [line for line in lines if len(line) > 100] == []


def test_a_broken_rule_ends_with_1_and_is_named_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(written(folder, BROKEN)) == 1
    out = capsys.readouterr().out
    line = 1 + BROKEN[: BROKEN.index("hdr.data.t + 1")].count("\n")
    assert "11 kept, 1 broken" in out
    assert f"t.p4:{line}:14: statement does + on bit<24>" in out


def test_too_many_stages_end_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(folder, LONG)
    assert check(path) == 1
    assert "13 stages, expected at most 12" in capsys.readouterr().out
    assert epic("check", "p4", "--program", str(path), "--target", "tofino2") == 0


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (GOOD.replace("value = value + 1", "value = valu + 1"), "t.p4:"),
        (GOOD.replace("apply {", "apply { bit<8> ;", 1), "t.p4:"),
    ],
)
def test_bad_source_ends_with_2_and_one_line(
    text: str, place: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(written(folder, text)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"epic: {place}")
    assert said.err.count("\n") == 1
    line, column = said.err.removeprefix(f"epic: {place}").split(":")[:2]
    assert line.isdigit() and column.isdigit()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--target", "tofino9"), "target = 'tofino9', expected one of tofino1, tofino2"),
        (("--arch", "psa"), "arch = 'psa', expected one of v1model, tna"),
        (("--define", "1X=2"), "define = '1X=2', expected NAME or NAME=VALUE"),
        (("--words", "8..16"), "words = '8..16', expected numbers"),
        (("--deadline", "0"), "deadline = 0, expected more than 0"),
        (("--include", "nowhere"), "include = 'nowhere', expected a directory"),
        (("--program", "nothing.p4"), "program = 'nothing.p4'"),
        (("--arch", "v1model"), "v1model"),
    ],
)
def test_bad_options_end_with_2(
    args: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(folder, GOOD)
    assert epic("check", "p4", "--program", str(path), *args) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_json_has_rules_stages_memory_and_compilers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(written(folder, GOOD), "--json") == 0
    result = found(capsys)
    (program,) = result["programs"]
    assert (result["ok"], program["name"], program["arch"], program["fits"]) == (True, "t", "tna", True)
    assert {rule["rule"] for rule in program["rules"]} >= {"register-once", "one-stage"}
    assert all(rule["ok"] and rule["source"] for rule in program["rules"])
    assert program["stages"]["needed"] == 1
    assert program["stages"]["each"][0]["use"]["stateful_alus"] == 1
    assert program["sram"] == {"blocks": 2, "available": 960}
    assert program["memories"][0]["name"] == "I.r"
    assert program["compilers"] == [
        {
            "name": "p4c for Tofino",
            "result": "not run",
            "seconds": 0.0,
            "warnings": 0,
            "detail": "p4c-barefoot, bf-p4c, p4c not found on PATH",
        }
    ]


def test_json_of_a_broken_rule_has_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(written(folder, BROKEN), "--json") == 1
    rules = {rule["rule"]: rule for rule in found(capsys)["programs"][0]["rules"]}
    (finding,) = rules["action-alu"]["findings"]
    assert (finding["file"], finding["column"]) == ("t.p4", 14)


def test_a_program_for_v1model_has_no_stages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(folder, V1MODEL)
    assert check(path, "--json") == 0
    (program,) = found(capsys)["programs"]
    assert program["rules"] == []
    assert "stages" not in program
    assert [one["name"] for one in program["compilers"]] == ["p4test", "p4c-bm2-ss"]
    assert check(path, "--words", "8") == 2


def test_words_says_what_fits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Registers of 65,536 pairs take a stage each: twelve fit."""
    assert check(written(folder, WORDS), "--define", "WORDS=1", "--words", "1,12,13", "--json") == 0
    trials = found(capsys)["programs"][0]["words"]
    assert [(one["words"], one["fits"], one["stages"]) for one in trials] == [
        (1, True, 1),
        (12, True, 12),
        (13, False, 13),
    ]


def test_compilers_on_path_are_run_with_the_sources_macros(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script(folder, "p4test", 'echo "$@" > seen; echo "t.p4(1): [--Wwarn=unused] warning: x" >&2')
    script(folder, "p4c-bm2-ss", 'echo "t.p4(3): [--Werror=not-found] error: no y" >&2; exit 1')
    assert check(written(folder, V1MODEL), "-D", "WORDS=8", "--json") == 1
    test, bmv2 = found(capsys)["programs"][0]["compilers"]
    assert (test["result"], test["warnings"]) == ("ok", 1)
    assert "-DWORDS=8" in (folder / "seen").read_text()
    assert bmv2["result"] == "failed"
    assert bmv2["detail"] == "exit code 1: t.p4(3): [--Werror=not-found] error: no y"
    assert check(folder / "t.p4", "--no-compilers") == 0


def test_a_compiler_past_its_deadline_is_stopped(folder: Path) -> None:
    script(folder, "p4test", "exec /bin/sleep 60")
    outcome = run_all(Job(written(folder, V1MODEL), "v1model"), 0.2)[0]
    assert (outcome.result, outcome.good) == ("timeout", False)
    assert outcome.seconds < 30


def test_the_driver_p4c_is_used_for_tofino_only_where_it_has_it(folder: Path) -> None:
    job = Job(written(folder, GOOD), "tna", "tofino2")
    script(folder, "p4c", 'case "$1" in --target-help) echo bmv2;; *) echo "$@" > seen;; esac')
    assert run_all(job, 30)[0].result == "not run"
    script(folder, "p4c", 'case "$1" in --target-help) echo bmv2 tofino;; *) echo "$@" > seen;; esac')
    assert run_all(job, 30)[0].result == "ok"
    assert "--target tofino2 --arch t2na" in (folder / "seen").read_text()


# -- artifacts


def tree(folder: Path) -> tuple[Path, list[Path]]:
    root = folder / "p4"
    (root / "bmv2").mkdir(parents=True)
    (root / "build").mkdir()
    main, part = root / "bmv2" / "epic.p4", root / "part.p4"
    main.write_text(V1MODEL.replace("header h_t { bit<8> a; }", '#include "../part.p4"'))
    part.write_text("header h_t { bit<8> a; }\n")
    return root, [main, part]


def test_artifacts_of_these_sources_are_good_and_others_are_named(folder: Path) -> None:
    root, sources = tree(folder)
    assert artifacts.verify(root, sources) == []
    (root / "build" / "epic.json").write_text("{}")
    assert artifacts.verify(root, sources) == [
        "build/sources.sha256: not found, expected beside the artifacts"
    ]
    artifacts.write(root, sources)
    assert artifacts.verify(root, sources) == []
    sources[1].write_text("header h_t { bit<16> a; }\n")
    assert artifacts.verify(root, sources) == ["part.p4: changed since the artifacts were made"]
    assert artifacts.verify(root, sources[:1]) == ["part.p4: in build/sources.sha256, but no longer a source"]
    new = root / "new.p4"
    new.write_text("")
    assert "new.p4: new since the artifacts were made" in artifacts.verify(root, [*sources, new])


def test_the_hash_leaves_out_what_is_not_ours_and_reads_as_sha256sum(folder: Path) -> None:
    root, sources = tree(folder)
    outside = folder / "core.p4"
    outside.write_text("")
    path = artifacts.write(root, [*sources, outside])
    assert [line.split("  ")[1] for line in path.read_text().splitlines()] == ["bmv2/epic.p4", "part.p4"]
    assert list(artifacts.read(root)) == ["bmv2/epic.p4", "part.p4"]
    path.write_text("what\n")
    with pytest.raises(ConfigError, match=r"sources\.sha256:1:1: 'what', expected a SHA-256"):
        artifacts.read(root)


def test_stale_artifacts_end_with_1(folder: Path) -> None:
    root, _ = tree(folder)
    (root / "build" / "epic.json").write_text("{}")
    options = command.Options.make(["v1model"], None, "tofino1", [], [], None, False, 10.0, False, False)
    options = dataclasses.replace(options, root=folder)
    result = command.check("v1model", options)
    assert not result.ok
    artifacts.write(root, [root / "bmv2" / "epic.p4", root / "part.p4"])
    result = command.check("v1model", options)
    assert result.ok
    assert list(result.artifacts.found) == ["build/epic.json"]


# -- the command


def test_check_is_one_group_for_all_packages(capsys: pytest.CaptureFixture[str]) -> None:
    from epic_testbed.proofs import cli as proofs

    app = build_app([cli.register, proofs.register])
    assert sorted(one.name or "" for one in check_group(app).registered_commands) == ["p4", "tla"]
    assert run(app, ["check", "--help"]) == 0
    out = capsys.readouterr().out
    assert "tla" in out
    assert "p4" in out


def test_bench_prints_a_rate_for_each_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    assert epic("bench", "p4", "--words", "2", "--seconds", "0.05", "--json") == 0
    rows = found(capsys)["rows"]
    assert {row["name"].removesuffix(", 2 words") for row in rows} == {
        "epic.p4, v1model",
        "epic.p4, tna",
        "v1model",
        "tna",
    }
    assert all(row["packets_per_second"] > 0 and row["words"] == 2 for row in rows)
    assert epic("bench", "p4", "--words", "0") == 2
