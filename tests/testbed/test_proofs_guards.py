"""Guard removal: guards with names and conjuncts without are found, and each is noticed by a model or survives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epic_spec import command as epic_command
from epic_spec.errors import ConfigError
from epic_spec.loader import REPO
from epic_testbed.proofs import cli, conjuncts, guards, manifest
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
    assert found["Restart: x = Limit"]["killed_by"] is None
    # With a reason they may survive.
    survivor = (
        '[[survivor]]\nmodule = "Counter.tla"\nguard = "{}"\ntext = "says the same as the line before"\n'
    )
    text += survivor.format("Restart: x = Limit")
    (folder / "manifest.toml").write_text(text + survivor.format("never_needed"))
    code, out = check("--guards", "--directory", str(folder), capsys=capsys)
    assert code == 0, out
    assert "says the same as the line before" in out
    # One that is listed but noticed, or that is no guard, fails the check.
    for guard, chosen in (("limit", ("--model", "Counter:limit")), ("nothing", ())):
        (folder / "manifest.toml").write_text(text + survivor.format("never_needed") + survivor.format(guard))
        code, out = check("--guards", "--directory", str(folder), *chosen, capsys=capsys)
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


SHAPES = """---- MODULE Shapes ----
EXTENDS Naturals
CONSTANTS Broken, Fast
VARIABLES x, y
vars == <<x, y>>
Has(guard) == guard \\notin Broken
Small(n) == n < 3 /\\ n >= 0     \\* no action: one guard where an action has it
Move(n) ==
    LET to == x + n IN
    /\\ x < 4 /\\ Small(n) (* a comment *)
    /\\ Has("odd") => to # 7
    /\\ \\/ /\\ y = 0
          /\\ y' = 1
       \\/ y = 1 /\\ y'
                      = 0
    /\\ \\/ Fast
       \\/ \\A k \\in {n} :
             /\\ k > 0
             /\\ k < 3
    /\\ x' = to
Wait == IF x = 4 /\\ y = 0 THEN x' = 0 /\\ UNCHANGED y ELSE ~Has("odd") /\\ x = 3 /\\ UNCHANGED vars
Unused == x = 9 /\\ UNCHANGED vars
Next == \\/ \\E n \\in 1 .. 2 : n # 3 /\\ Move(n)
        \\/ Wait
Spec == x = 0 /\\ y = 0 /\\ [][Next]_vars
====
"""


def shapes(folder: Path, text: str = SHAPES) -> Path:
    """The module Shapes in a folder."""
    path = folder / "Shapes.tla"
    path.write_text(text)
    return path


@needs_java
def test_every_conjunct_of_an_action_is_found_with_its_kind(tmp_path: Path) -> None:
    found = [(c.kind, c.name) for c in conjuncts.read(shapes(tmp_path)) if c.kind not in ("group", "effect")]
    assert found == [
        ("guard", "Move: x < 4"),
        ("guard", "Move: Small(n)"),
        ("named", 'Move: Has("odd") => to # 7'),
        ("guard", "Move: y = 0"),
        ("guard", "Move: y = 1"),
        ("guard", "Move: \\/ Fast \\/ \\A k \\in {n} : /\\ k > 0 /\\ k < 3"),
        ("guard", "Move: k > 0"),
        ("guard", "Move: k < 3"),
        ("condition", "Wait: x = 4 /\\ y = 0"),
        ("guard", "Wait: x = 4"),
        ("guard", "Wait: y = 0"),
        ("named", 'Wait: ~Has("odd")'),
        ("mutant", "Wait: x = 3"),
        ("guard", "Next: n # 3"),
    ]
    effects = [c.name for c in conjuncts.read(shapes(tmp_path)) if c.kind == "effect"]
    assert effects == [
        "Move: y' = 1", "Move: y' = 0", "Move: x' = to", "Wait: x' = 0", "Wait: UNCHANGED y", "Wait: UNCHANGED vars"
    ]  # fmt: skip


@needs_java
def test_names_stay_when_lines_are_added_and_equal_ones_are_numbered(tmp_path: Path) -> None:
    names = [c.name for c in conjuncts.read(shapes(tmp_path))]
    longer = SHAPES.replace("Move(n) ==", "(* one\n   more *)\n\nMove(n) ==")
    assert [c.name for c in conjuncts.read(shapes(tmp_path, longer))] == names
    twice = SHAPES.replace("y = 1 /\\", "y = 0 /\\")
    assert "Move: y = 0 (2)" in [c.name for c in conjuncts.read(shapes(tmp_path, twice))]


@needs_java
def test_without_a_conjunct_the_rest_of_the_module_is_what_it_was(tmp_path: Path) -> None:
    before = conjuncts.read(shapes(tmp_path))
    for gone in before:
        if gone.kind != "guard":
            continue
        after = conjuncts.read(shapes(tmp_path, conjuncts.without(SHAPES, gone)))
        within = [c for c in before if c.place.within(gone.place)]
        assert gone in within
        assert len(after) == len(before) - len(within) + 1, gone.name  # TRUE is there for it


def test_a_short_conjunct_before_a_list_of_several_lines_is_refused() -> None:
    text = "A == /\\ up /\\ \\/ x' = 1\n              \\/ x' = 2\n"
    up = conjuncts.Conjunct("A: up", conjuncts.GUARD, conjuncts.Place(1, 9, 1, 10))
    with pytest.raises(ConfigError, match="too short to be taken away"):
        conjuncts.without(text, up)
    assert (
        conjuncts.without("A == /\\ up /\\ x' = 1\n     /\\ y\n", up)
        == "A == /\\ TRUE /\\ x' = 1\n     /\\ y\n"
    )


@needs_java
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("x' = to", "~(x' = 9)", 'an action of an unknown shape: "~(x\' = 9)"'),
        ("x' = to", "Small(x') /\\ x' = to", "an operator that gets a step or a next state"),
        ("Next ==", "Other ==", "no definition Next"),
        ("x' = to", "x' = nowhere", "SANY cannot read it"),
    ],
)
def test_a_shape_that_is_not_known_is_an_error(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = SHAPES.replace(old, new)
    if old == "Next ==":
        text = text.replace("[Next]", "[Other]")
    with pytest.raises(ConfigError) as error:
        conjuncts.read(shapes(tmp_path, text))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def unnamed_project(folder: Path, survivors: str = "") -> Path:
    """Shapes with one model, whose invariants notice some of the conjuncts."""
    folder.mkdir(exist_ok=True)
    text = SHAPES.replace("====\n", "Bounded == x \\in 0 .. 5\nSteps == [][y # y' \\/ x' = 0]_vars\n====\n")
    shapes(folder, text)
    (folder / "good.cfg").write_text(
        "CONSTANTS\n Broken = {}\n Fast = FALSE\nSPECIFICATION Spec\nINVARIANT Bounded\nPROPERTY Steps\n"
    )
    model = row("good", spec="Shapes.tla", kind="exhaustive", expected="ok", distinct_states=9, depth=5)
    (folder / "manifest.toml").write_text(model + survivors)
    return folder


@needs_java
def test_a_conjunct_is_noticed_by_a_violation_or_survives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = unnamed_project(tmp_path)
    code, out = check(
        "--guards", "--directory", str(folder), "--model", "Shapes:Move: *", "--json", capsys=capsys
    )
    report = json.loads(out)
    assert code == 1
    found = {g["guard"]: g for g in report["guards"]}
    assert found["Move: x < 4"]["result"] == "violation:Bounded"
    assert found["Move: x < 4"]["named"] is False
    assert found["Move: k < 3"]["killed_by"] is None
    assert found["Move: k < 3"]["tried"] == ["good"]
    assert {c["kind"] for c in report["conjuncts"]["Shapes.tla"]} >= {"guard", "named", "effect"}
    # With a reason it may survive; one that is listed and noticed, or that is none, is an error.
    survivor = '[[survivor]]\nmodule = "Shapes.tla"\nguard = \'{}\'\ntext = "two is the most"\n'
    unnamed_project(tmp_path, survivor.format("Move: k < 3"))
    code, out = check("--guards", "--directory", str(folder), "--model", "Shapes:Move: k < 3", capsys=capsys)
    assert code == 0, out
    assert "two is the most" in out
    unnamed_project(tmp_path, survivor.format("Move: x < 4") + survivor.format("Move: x < 5"))
    code, out = check("--guards", "--directory", str(folder), capsys=capsys)
    assert code == 1
    assert "(listed as a survivor)" in out
    assert "Shapes.tla: Move: x < 5 is listed as a survivor, but there is no such guard" in out


@needs_java
def test_the_actions_of_every_mode_of_this_checkout_are_read_and_each_survivor_is_a_guard() -> None:
    found = guards.items_of(REPO / "tla")
    assert set(found) == {"Mode1.tla", "Mode2.tla", "Mode3.tla", "Failover.tla", "Manager.tla"}
    for module, items in found.items():
        assert sum(item.kind == conjuncts.GUARD for item in items) >= 5, module
        assert sum(item.kind == conjuncts.EFFECT for item in items) >= 20, module
    named = guards.guards_of(REPO / "tla")
    known = {(module, item.name) for module, items in found.items() for item in items if item.kind == "guard"}
    known |= {(module, name) for module, names in named.items() for name in names}
    survivors = {(s.module, s.guard) for s in manifest.load(REPO / "tla").survivors}
    assert survivors <= known
