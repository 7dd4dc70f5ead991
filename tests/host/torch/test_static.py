"""Options from the environment, and static plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra torch (see epic_host.torch_backend)")

from epic_host.torch_backend import static
from epic_host.torch_backend.options import Options
from epic_spec.errors import ConfigError
from host.torch.ranks import plan_file
from host.worlds import World, single


def test_options_follow_from_the_environment() -> None:
    given = {
        "EPIC_MANAGER": "unix:/m",
        "EPIC_HOST": "h3",
        "EPIC_DATATYPES": "int32, fp32",
        "EPIC_REPRODUCIBLE": "1",
    }
    options = Options.from_environment(given)
    assert options == Options("unix:/m", None, "h3", ("INT32", "FP32"), "auto", True)
    assert options.host_name == "h3"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "manager = None, group_file = None"),
        ({"EPIC_DATATYPES": "int32,float"}, "datatypes .* has 'FLOAT', expected some of"),
        ({"EPIC_LEASE": "soon"}, "EPIC_LEASE = 'soon', expected a number of seconds"),
        ({"EPIC_LEASE": "0"}, "lease .* = 0.0, expected seconds above 0"),
        ({"EPIC_PATH": "best"}, "path .* = 'best', expected one of auto, network, host"),
        ({"EPIC_REPRODUCIBLE": "yes"}, "EPIC_REPRODUCIBLE = 'yes', expected 0 or 1"),
    ],
)
def test_options_that_are_wrong_are_named(given: dict[str, str], message: str) -> None:
    base = {"EPIC_MANAGER": "unix:/m"} if given else {}
    with pytest.raises(ConfigError, match=message):
        Options.from_environment({**base, **given})


def test_an_installed_group_serves_one_process_group(tmp_path: Path) -> None:
    worlds = [World(tmp_path, tree=single(n)) for n in (3, 2, 2)]
    path = str(plan_file(tmp_path, [((0, 1, 2), worlds[0]), ((0, 2), worlds[1]), ((0, 2), worlds[2])]))
    taken = [static.take(path, 1, (0, 2))[0] for _ in range(2)]
    assert taken == [worlds[1].plan, worlds[2].plan]
    # Another rank, as a thread of this process, takes its own.
    assert static.take(path, 0, (0, 2))[0] == worlds[1].plan
    with pytest.raises(ConfigError, match=r"2 groups of ranks \[0, 2\], expected one more"):
        static.take(path, 1, (0, 2))
    plan, transport = static.take(path, 2, (0, 1, 2))
    assert plan == worlds[0].plan
    assert transport == worlds[0].transport(2)


def test_the_directory_of_a_testbed_is_a_plan_of_one_group(tmp_path: Path) -> None:
    world = World(tmp_path, tree=single(2))
    (tmp_path / "group.json").write_text(json.dumps(world.plan.to_dict()))
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text(
            json.dumps({"rank": rank, "transport": world.transport(rank)})
        )
    plan, transport = static.take(str(tmp_path), 1, (0, 1))
    assert (plan, transport) == (world.plan, world.transport(1))
    with pytest.raises(ConfigError, match=r"0 groups of ranks \[0\]"):
        static.take(str(tmp_path), 0, (0,))


def _plan(groups: Any) -> Callable[[Path], None]:
    return lambda path: (path.write_text(json.dumps(groups)), None)[1]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "No such file or directory, expected a static plan"),
        (lambda path: path.write_text("{"), "not JSON .* expected a static plan"),
        (_plan([]), "no list 'groups'"),
        (
            _plan({"groups": [{"ranks": [0]}]}),
            r"groups\[0\] has \['ranks'\], expected plan, ranks and transports",
        ),
        (
            _plan({"groups": [{"ranks": [0, 1], "plan": {}, "transports": [{}]}]}),
            "1 transports, expected one each of 2",
        ),
    ],
)
def test_a_plan_that_is_wrong_is_named(tmp_path: Path, write: Callable[[Path], Any], message: str) -> None:
    path = tmp_path / "plan.json"
    write(path)
    with pytest.raises(ConfigError, match=message):
        static.take(str(path), 0, (0,))
