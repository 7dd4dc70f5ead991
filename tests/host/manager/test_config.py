"""manager.toml: what it says, and one line for each thing that is wrong with it."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from epic_host.manager import config
from epic_host.manager.config import Limits, ManagerConfig
from epic_host.manager.settings import Settings
from epic_spec.errors import ConfigError

GOOD = """
fabric = "fabric.toml"
listen = ["unix:/run/m.sock", "127.0.0.1:4792"]
database = "m.db"
policy = "spatial"
placement = "exact"
admin_token = "admin.token"
metrics = "127.0.0.1:9464"
seed = 7

[limits]
burst = 3
watches = 5

[times]
node_lease = 2.5
"""


def test_the_file_says_what_the_manager_does(tmp_path: Path) -> None:
    path = tmp_path / "manager.toml"
    path.write_text(GOOD)
    made = ManagerConfig.from_file(path)
    assert made.fabric == tmp_path / "fabric.toml"
    assert made.listen == ("unix:/run/m.sock", "127.0.0.1:4792")
    assert (made.policy, made.seed, made.metrics) == ("spatial", 7, "127.0.0.1:9464")
    assert made.placement == "exact"
    assert (made.limits.burst, made.limits.watches, made.limits.client_watches) == (3.0, 5, 2500)
    assert (made.times.node_lease, made.times.lost_after) == (2.5, 2)


def test_what_is_not_said_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "manager.toml"
    path.write_text('fabric = "f"\nlisten = ["unix:/m"]\ndatabase = "d"\n')
    made = ManagerConfig.from_file(path)
    assert (made.limits, made.tls, made.admin_token) == (Limits(), None, None)


@pytest.mark.parametrize(
    ("was", "becomes", "says"),
    [
        ('fabric = "fabric.toml"\n', "", r"no 'fabric', expected"),
        ("seed = 7", "sead = 7", r"unknown key 'sead', expected one of"),
        ("seed = 7", "seed = 7.5", r"seed = 7.5, expected a whole number"),
        ("seed = 7", "seed = true", r"seed = True, expected a whole number"),
        ('"unix:/run/m.sock"', '"unix:run/m.sock"', r"listen: path run/m.sock, expected an absolute one"),
        ('"unix:/run/m.sock"', '"10.0.0.1:1"', r"listen: address '10.0.0.1:1', expected unix:/path or 127"),
        ('"unix:/run/m.sock"', '"127.0.0.1:0"', r"listen: address '127.0.0.1:0', expected"),
        ('"unix:/run/m.sock"', '"127.0.0.1:4792"', r"listen = .*, expected each address once"),
        ('["unix:/run/m.sock", "127.0.0.1:4792"]', "[]", r"listen = \[\], expected a list of addresses"),
        ('["unix:/run/m.sock", "127.0.0.1:4792"]', "3", r"listen = 3, expected a list of addresses"),
        ('database = "m.db"', 'database = ""', r"database = '', expected a file name"),
        ('database = "m.db"', 'database = "no/m.db"', r"database = 'no/m.db': folder .* does not exist"),
        (
            'placement = "exact"',
            'placement = "best"',
            r"placement = 'best', expected one of heuristic, exact",
        ),
        ('policy = "spatial"', "policy = 1", r"policy = 1, expected a text"),
        ('"127.0.0.1:9464"', '"0.0.0.0:9464"', r"metrics = '0.0.0.0:9464', expected 127.x.y.z:port"),
        ("burst = 3", "burst = 0", r"limits: burst = 0, expected a number from 0.1 to 3600"),
        ("burst = 3", "burst = nan", r"limits: burst = nan, expected a number"),
        ("burst = 3", 'burst = "3"', r"limits: burst = '3', expected a number"),
        ("watches = 5", "watches = 5.5", r"limits: watches = 5.5, expected a whole number"),
        ("watches = 5", "watch = 5", r"limits: unknown key 'watch'"),
        ("node_lease = 2.5", "node_lease = 0", r"manager: node_lease = 0, expected a number above 0"),
        ("node_lease = 2.5", "lease = 1", r"times: unknown key 'lease'"),
        ("[times]", "[tls]\nca = 'x'\n[times]", r"tls: no 'certificate'"),
        (
            "[times]",
            "[tls]\nca = 'x'\ncertificate = 'y'\nkey = 'z'\n[times]",
            r"x: No such file or directory",
        ),
        ("seed = 7", "seed = ", r"not TOML"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_file(tmp_path: Path, was: str, becomes: str, says: str) -> None:
    path = tmp_path / "manager.toml"
    assert was in GOOD
    path.write_text(GOOD.replace(was, becomes))
    with pytest.raises(ConfigError, match=says) as caught:
        ManagerConfig.from_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_the_example_of_the_docstring_has_every_key_and_the_defaults(tmp_path: Path) -> None:
    assert config.__doc__ is not None
    example = tomllib.loads(
        "".join(line for line in config.__doc__.splitlines(True) if line.startswith("    "))
    )
    assert set(example) == {f.name for f in fields(ManagerConfig)}
    assert Limits(**example["limits"]) == Limits()
    assert set(example["limits"]) == {f.name for f in fields(Limits)}
    assert Settings(**example["times"]) == Settings()
    del example["tls"]
    made = ManagerConfig.from_dict(example, tmp_path)
    assert (made.policy, made.placement, made.seed) == ("best_effort", "heuristic", 1)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"none\.toml: No such file or directory, expected the configuration"
    ):
        ManagerConfig.from_file(tmp_path / "none.toml")
