"""tla/manifest.toml: what is wrong in it is said in one line; and configurations of TLC."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_spec.errors import ConfigError
from epic_spec.loader import REPO
from epic_testbed.proofs import manifest
from epic_testbed.proofs.config import TlcConfig
from testbed import proofs_helpers as helpers
from testbed.proofs_helpers import row


def test_rows_of_the_main_file_and_of_its_parts_are_read(tmp_path: Path) -> None:
    folder = helpers.small_project(tmp_path)
    (folder / "more.cfg").write_text(helpers.model("more"))
    (folder / "manifest.d").mkdir()
    part = row("more", kind="simulation", expected="ok", traces=5, depth=9, level="verify")
    part += '[[survivor]]\nmodule = "Counter.tla"\nguard = "never_needed"\ntext = "not needed"\n'
    (folder / "manifest.d" / "part.toml").write_text(part)
    found = manifest.load(folder)
    assert [m.name for m in found.models] == ["good", "bad", "more"]
    assert [m.name for m in found.select("test")] == ["good", "bad"]
    assert [m.name for m in found.select("verify")] == ["good", "bad", "more"]
    assert [m.name for m in found.select("test", "m*")] == ["more"]
    assert found.models[1].violated == "Small"
    assert found.survivors == (manifest.Survivor("Counter.tla", "never_needed", "not needed"),)


WRONG = [
    (row("good", kind=None), "model 'good': kind is missing"),
    (row("good", colour="red"), "model 'good': unknown key 'colour', expected one of name, spec"),
    (row("good", kind="proof"), "kind = 'proof', expected one of exhaustive, simulation, liveness, mutant"),
    (row("good", level="all"), "level = 'all', expected one of test, verify"),
    (row("good", seconds="long"), "seconds = 'long', expected int or float"),
    (row("good", seconds=-1), "seconds = -1, expected a positive number"),
    (row("good", workers=True), "workers = True, expected int"),
    (row("good", text=""), "text = '', expected one line of text"),
    (row("good", spec="Nowhere.tla"), "spec = 'Nowhere.tla', expected a module in"),
    (row("good", clause=["EPIC-NONE"]), "clause 'EPIC-NONE', expected an id of spec/epic.toml"),
    (row("good", expected="ok"), "expected = 'ok', expected a violation or deadlock of a mutant"),
    (row("good", expected="broken"), "expected = 'broken', expected ok, deadlock or violation:<name>"),
    (row("good", expected="violation:Large"), "expected = 'violation:Large', good.cfg checks Small"),
    (row("good", kind="exhaustive", expected="ok"), "distinct_states is missing, expected it for kind exhaustive"),
    (row("good", kind="simulation", expected="ok"), "traces is missing, expected it for kind simulation"),
    (row("good", distinct_states=5), "distinct_states is not compared for kind mutant, expected no such key"),
    (row("nothing"), "nothing.cfg: No such file or directory, expected a TLC configuration"),
    (row("good") + row("good"), "model 'good' is there twice, expected each once"),
    ("[[modell]]\n", "unknown key 'modell', expected [[model]] or [[survivor]]"),
    ("model = 3\n", "model is not a list of tables, expected [[model]]"),
    ("[[model", "expected TOML"),
    ('[[survivor]]\nmodule = "Counter.tla"\n', "survivor '?': guard is missing"),
    (
        '[[survivor]]\nmodule = "No.tla"\nguard = "g"\ntext = "t"\n',
        "survivor 'g': module = 'No.tla', expected a module in",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[m for _, m in WRONG])
def test_a_wrong_manifest_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    folder = helpers.small_project(tmp_path)
    (folder / "manifest.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        manifest.load(folder)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


SURVIVOR = '[[survivor]]\nmodule = "Counter.tla"\nguard = "g"\ntext = "t"\n'


def _parts(folder: Path, **texts: str) -> Path:
    """A project whose rows stand in manifest.d only, one file for each of `texts`."""
    helpers.small_project(folder)
    (folder / "manifest.toml").write_text("# Rows are in manifest.d.\n")
    (folder / "manifest.d").mkdir()
    for name, text in texts.items():
        (folder / "manifest.d" / f"{name}.toml").write_text(text)
    return folder


def test_parts_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = _parts(tmp_path, b=row("good"), a=row("bad") + SURVIVOR)
    (folder / "manifest.d" / "notes.txt").write_text("no rows")
    found = manifest.load(folder)
    assert [m.name for m in found.models] == ["bad", "good"]
    assert [s.guard for s in found.survivors] == ["g"]


@pytest.mark.parametrize(
    ("again", "what"), [(row("bad"), "model 'bad'"), (SURVIVOR, "survivor 'g' of Counter.tla")]
)
def test_what_stands_in_two_files_is_refused_with_both(tmp_path: Path, again: str, what: str) -> None:
    folder = _parts(tmp_path, a=row("bad") + SURVIVOR, b=again)
    first, second = folder / "manifest.d" / "a.toml", folder / "manifest.d" / "b.toml"
    with pytest.raises(ConfigError) as raised:
        manifest.load(folder)
    assert str(raised.value) == f"{second}: {what} is there twice, also in {first}, expected each once"


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[m for _, m in WRONG])
def test_a_wrong_part_is_refused_by_its_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        manifest.load(_parts(tmp_path, part=text))
    assert message in str(raised.value)
    assert message.startswith("nothing.cfg") or str(tmp_path / "manifest.d" / "part.toml") in str(
        raised.value
    )


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"manifest\.toml: no such file, expected the list of models"):
        manifest.load(tmp_path)


def test_a_model_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    found = manifest.load(helpers.small_project(tmp_path))
    with pytest.raises(ConfigError, match="model = 'x': no such model, expected one of bad, good"):
        found.select("test", "x")


def test_a_configuration_says_what_it_checks_and_what_constants_are() -> None:
    config = TlcConfig.parse(
        """\\* INVARIANT Comment
        CONSTANTS W = 2  Broken = {"a",
          "b"}  Calls <- MCCalls
        SPECIFICATION Spec
        INVARIANTS TypeOK Abstract!P1
        PROPERTY Live (* PROPERTY Other *)
        """
    )
    assert config.invariants == ("TypeOK", "Abstract!P1")
    assert config.properties == ("Live",)
    assert config.value_of("W") == "2"
    assert config.value_of("Calls") is None
    assert config.has("Calls")
    assert not config.has("N")
    changed = config.with_value("Broken", '{"c"}')
    assert changed.value_of("Broken") == '{"c"}'
    assert changed.value_of("W") == "2"
    assert config.only_constants().split() == [
        "CONSTANTS",
        "W",
        "=",
        "2",
        "Broken",
        "=",
        '{"a",',
        '"b"}',
        "Calls",
        "<-",
        "MCCalls",
    ]
    with pytest.raises(ConfigError, match="constant N has 0 values, expected 1"):
        config.with_value("N", "1")


def test_the_manifest_of_this_checkout_is_right() -> None:
    found = manifest.load(REPO / "tla")
    test = found.select("test")
    assert len(test) >= 25
    assert sum(m.kind == "mutant" for m in test) >= 10
