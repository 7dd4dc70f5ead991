"""A group from the JSON file of a whole tree is the group of the golden model, and what is wrong is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epic_models.reference.tree import Tree, build_group
from epic_p4.control import GroupController, ProgramModel
from epic_p4.control.plain import read_group
from epic_spec.errors import ConfigError
from p4.control.control_helpers import RecordingBackend, params, schema

PLAN = build_group(Tree("s0", {"s0": (0, 1, "s1"), "s1": (2,)}), params(), seed=4)


def written(folder: Path, change: Callable[[Any], None] = lambda data: None) -> Path:
    """group.json with something changed."""
    data = json.loads(json.dumps(PLAN.to_dict()))
    change(data)
    path = folder / "group.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("engine", ["s0", "s1"])
def test_a_file_installs_what_the_golden_group_installs(tmp_path: Path, engine: str) -> None:
    group = read_group(written(tmp_path), engine)
    backends = RecordingBackend(), RecordingBackend()
    for backend, one in zip(backends, (group, PLAN.engines[engine]), strict=True):
        GroupController(backend, ProgramModel.of(schema())).install(one)
    assert backends[0].there == backends[1].there


def remove(*path: Any) -> Callable[[Any], None]:
    """A change that removes a key."""

    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return change


def put(value: object, *path: Any) -> Callable[[Any], None]:
    """A change that sets a key."""

    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


ROOT = ("engines", "s0")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (remove("engines"), "key 'engines' is missing, expected a group.json"),
        (remove("engines", "s0"), "engine 's0', expected one of s1"),
        (remove(*ROOT, "children"), r"engines\.s0\.children: None, expected a list of edges"),
        (remove(*ROOT, "children", 1, "port"), r"engines\.s0\.children\[1\]: key 'port' is missing"),
        (put("x", *ROOT, "children", 1, "port"), r"children\[1\]\.port: 'x', expected a whole number"),
        (put(True, *ROOT, "children", 1, "port"), r"children\[1\]\.port: True, expected a whole number"),
        (put(7, *ROOT, "children", 0, "ranks"), r"children\[0\]\.ranks: 7, expected a list"),
        (remove(*ROOT, "children", 0, "peer", "qpn"), r"children\[0\]\.peer: key 'qpn' is missing"),
        (put(None, *ROOT, "params"), r"engines\.s0\.params: None, expected a table"),
        (
            put(["XOR"], *ROOT, "params", "operators"),
            r"params\.operators: 'XOR', expected some of SUM, MAX, MIN",
        ),
        (put(12, *ROOT, "params", "slots"), r"params\.slots: 12, expected a power of two, 8 or more"),
        (put(1, *ROOT, "params", "ecn"), r"params\.ecn: 1, expected true or false"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(
    tmp_path: Path, change: Callable[[Any], None], message: str
) -> None:
    with pytest.raises(ConfigError, match=rf"group file .*group\.json: {message}|{message}") as error:
        read_group(written(tmp_path, change), "s0")
    assert str(error.value).startswith("group file ")


def test_a_file_that_is_missing_or_no_json(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        read_group(tmp_path / "none.json", "s0")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ConfigError, match="not JSON"):
        read_group(tmp_path / "bad.json", "s0")
