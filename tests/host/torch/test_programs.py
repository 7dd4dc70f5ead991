"""Processes that use torch.distributed as programs do: init_process_group, training, a rank that dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra torch (see epic_host.torch_backend)")

from host.torch.ranks import plan_file, processes
from host.worlds import World, two_level

SIZE = 4
# Each of the 30 steps adds four FP32 gradients in another order than gloo, or as fixed point: each sum is off by
# at most 3 * 2^-24 of the summands' magnitude (fixed point: 4 * 2^-28 of a block's largest), and training carries that
# on. The losses were seen to differ by up to 1.7e-7 of their value; a wrong gradient shows at once.
TOLERANCE = 1e-5


def test_every_collective_of_the_public_interface(world: Callable[..., World], tmp_path: Path) -> None:
    plan = plan_file(
        tmp_path, [(range(SIZE), world(tree=two_level(SIZE))), ((0, 2), world(tree=two_level(2)))]
    )
    found = processes("everything", SIZE, tmp_path, {"EPIC_GROUP_FILE": str(plan)})
    for rank, result in enumerate(found):
        assert "error" not in result, result
        assert result["backend"] == "epic"
        assert (result["rank"], result["size"]) == (rank, SIZE)
        assert result["all_reduce"] == [10] * 5
        assert result["reduce"] == ([3, 0] if rank == 1 else [rank, -rank])
        assert result["broadcast"] == [3.0, 7.0]
        assert result["reduce_scatter_tensor"] == [10 * (3 * rank + i) for i in range(3)]
        assert result["all_gather_into_tensor"] == [0, 0, 1, 10, 2, 20, 3, 30]
        assert result["all_gather"] == [[r, -r] for r in range(SIZE)]
        assert result["reduce_scatter"] == [10 * rank] * 3
        assert result["all_gather_object"] == [{"rank": r} for r in range(SIZE)]
        assert result["async"] == [6 + 4 * i for i in range(8)]
        assert result["completed"]
        assert result.get("new_group") == ([4] * 5 if rank in (0, 2) else None)
        assert result["after"] == SIZE


@pytest.mark.parametrize("datatypes", [("INT32", "FP32"), ("INT32",)], ids=["FP32 engines", "INT32 engines"])
def test_ddp_trains_to_the_same_loss_as_gloo(
    world: Callable[..., World], tmp_path: Path, datatypes: tuple[str, ...]
) -> None:
    made = world(tree=two_level(SIZE), datatypes=datatypes, payload_bytes=1024)
    plan = plan_file(tmp_path, [(range(SIZE), made)])
    found = processes("train", SIZE, tmp_path, {"EPIC_GROUP_FILE": str(plan)})
    for result in found:
        assert "error" not in result, result
        assert result["integers"]["epic"] == result["integers"]["gloo"] == found[0]["integers"]["gloo"]
        losses = result["floats"]
        assert losses["epic"] == found[0]["floats"]["epic"], "ranks of one group see the same"
        assert losses["epic"] == pytest.approx(losses["gloo"], rel=TOLERANCE)
        assert losses["gloo"][-1] < losses["gloo"][0] / 2, "it has to learn something, or it compares nothing"


def test_a_rank_that_dies_is_named_to_the_others(world: Callable[..., World], tmp_path: Path) -> None:
    plan = plan_file(tmp_path, [(range(SIZE), world(tree=two_level(SIZE)))])
    environment = {"EPIC_GROUP_FILE": str(plan), "TEST_TIMEOUT": "4"}
    found = processes("lost", SIZE, tmp_path, environment)
    for rank, result in enumerate(found):
        if rank != 2:
            assert (result["kind"], result["ranks"]) == ("PeerLostError", [2]), result


def test_a_rank_that_dies_in_training_ends_the_others_backward_with_its_name(
    world: Callable[..., World], tmp_path: Path
) -> None:
    plan = plan_file(tmp_path, [(range(SIZE), world(tree=two_level(SIZE)))])
    environment = {"EPIC_GROUP_FILE": str(plan), "TEST_TIMEOUT": "4"}
    found = processes("lost_in_training", SIZE, tmp_path, environment)
    for rank, result in enumerate(found):
        if rank != 2:
            # torch's reducer makes a RuntimeError of it; the text is ours.
            assert result["step"] == 1, result
            assert "PeerLostError" in result["text"] + result["kind"], result
            assert "2" in result["text"], result


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "expected one of them"),
        ({"EPIC_GROUP_FILE": "/nowhere"}, "/nowhere: No such file or directory, expected a static plan"),
        ({"EPIC_GROUP_FILE": "/nowhere", "EPIC_MANAGER": "unix:/x"}, "expected one of them"),
    ],
)
def test_a_start_that_cannot_be_says_why(tmp_path: Path, environment: dict[str, str], message: str) -> None:
    (found,) = processes(
        "everything", 1, tmp_path, {"EPIC_GROUP_FILE": "", "EPIC_MANAGER": "", **environment}
    )
    assert found["error"] == "ConfigError"
    assert message in found["message"]
