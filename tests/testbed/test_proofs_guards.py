"""Guard removal: guards are found by name, and each is noticed by a model or said to survive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epic_spec import command as epic_command
from epic_spec.loader import REPO
from epic_testbed.proofs import cli, guards, manifest
from testbed import proofs_helpers as helpers
from testbed.proofs_helpers import needs_java, row


def check(*args: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and output of `epic check tla`, in this process."""
    code = epic_command.run(epic_command.build_app([cli.register]), ["check", "tla", *args])
    out, err = capsys.readouterr()
    return code, out + err


def test_guards_are_found_by_both_ways_of_writing_them(tmp_path: Path) -> None:
    folder = helpers.small_project(tmp_path)
    assert guards.guards_of(folder) == {"Counter.tla": ["limit", "never_needed", "restart"]}


def test_guards_of_extended_modules_count_and_those_in_comments_do_not(tmp_path: Path) -> None:
    (tmp_path / "Base.tla").write_text(
        'MODULE Base\nCONSTANT Broken\n\\* Has("no")\n(* Has("never") *)\nF(x) == "shared" \\notin Broken\n'
    )
    (tmp_path / "Top.tla").write_text(
        'EXTENDS Naturals,\n  Base\nVARIABLE x\nNext == Has( "own" ) /\\ F(x)\n'
    )
    (tmp_path / "MCTop.tla").write_text("EXTENDS Top\nOther == 1\n")
    assert guards.guards_of(tmp_path) == {"Top.tla": ["own", "shared"]}
    assert guards.extended(tmp_path / "MCTop.tla") == {
        tmp_path / f"{n}.tla" for n in ("MCTop", "Top", "Base")
    }


def test_a_guards_own_mutant_is_tried_first_then_good_models_the_quick_ones_first(tmp_path: Path) -> None:
    configs = {name: helpers.model(name) for name in ("slow", "quick", "late")}
    configs |= {
        "bad": helpers.model("bad", broken='{"limit"}'),
        "two": helpers.model("two", broken='{"limit", "x"}'),
    }
    good = {"kind": "exhaustive", "expected": "ok", "distinct_states": 9, "depth": 5}
    rows = {
        "slow": row("slow", seconds=9.0, **good),
        "quick": row("quick", seconds=2.0, **good),
        "late": row("late", level="verify", **good),
        "bad": row("bad", seconds=5.0),
        "two": row("two"),
    }
    found = manifest.load(helpers.project(tmp_path, rows, configs))
    assert [m.name for m in guards.candidates(found, "Counter.tla", "limit")] == ["bad", "quick", "slow"]
    assert [m.name for m in guards.candidates(found, "Counter.tla", "restart")] == ["quick", "slow"]


@needs_java
def test_a_guard_that_nothing_notices_survives_and_fails_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = helpers.small_project(tmp_path)
    comes_back = helpers.model("live", "PROPERTY ComesBack")
    (folder / "live.cfg").write_text(comes_back)
    text = (folder / "manifest.toml").read_text()
    text += row("live", kind="liveness", expected="ok", distinct_states=9, seconds=0.5)
    (folder / "manifest.toml").write_text(text)
    code, out = check("--guards", "--directory", str(folder), "--json", capsys=capsys)
    found = {g["guard"]: g for g in json.loads(out)["guards"]}
    assert code == 1
    assert found["limit"]["killed_by"] == "bad"
    assert found["limit"]["result"] == "violation:Small"
    assert found["restart"]["killed_by"] == "live"
    assert found["restart"]["result"] == "violation:ComesBack"
    assert found["never_needed"]["killed_by"] is None
    assert found["never_needed"]["tried"] == ["live", "good"]
    # With a reason it may survive.
    survivor = (
        '[[survivor]]\nmodule = "Counter.tla"\nguard = "{}"\ntext = "says the same as the line before"\n'
    )
    (folder / "manifest.toml").write_text(text + survivor.format("never_needed"))
    code, out = check("--guards", "--directory", str(folder), capsys=capsys)
    assert code == 0, out
    assert "says the same as the line before" in out
    # One that is listed but noticed, or that is no guard, fails the check.
    for guard in ("limit", "nothing"):
        (folder / "manifest.toml").write_text(text + survivor.format("never_needed") + survivor.format(guard))
        code, out = check("--guards", "--directory", str(folder), capsys=capsys)
        assert code == 1
        assert "listed as a survivor" in out


@needs_java
def test_a_model_that_does_not_begin_notices_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = helpers.small_project(tmp_path)
    (folder / "bad.cfg").write_text('CONSTANT Broken = {"limit"}\nSPECIFICATION Spec\nINVARIANT Small\n')
    (folder / "manifest.toml").write_text(row("bad"))
    code, out = check("--guards", "--directory", str(folder), "--model", "Counter:limit", capsys=capsys)
    assert code == 1
    assert "survives 1 models, the last with error: The constant parameter Limit is not assigned" in out


@needs_java
def test_guards_are_chosen_by_module_and_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = helpers.small_project(tmp_path)
    code, out = check("--guards", "--directory", str(folder), "--model", "Counter:lim*", capsys=capsys)
    assert code == 0, out
    assert "1 guards, 1 noticed when taken away" in out
    code, out = check("--guards", "--directory", str(folder), "--model", "Nothing", capsys=capsys)
    assert code == 2
    assert out.count("\n") == 1


def test_every_mode_of_this_checkout_has_guards_with_names() -> None:
    found = guards.guards_of(REPO / "tla")
    for module in ("Mode2.tla", "Mode3.tla"):
        assert len(found[module]) >= 15
