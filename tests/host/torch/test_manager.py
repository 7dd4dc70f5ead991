"""Process groups by the manager: hosts come from torch's store, new_group makes a group of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra torch (see epic_host.torch_backend)")

from epic_testbed.chaosmonkey import layout, leaks
from epic_testbed.chaosmonkey.cluster import Cluster, ClusterOptions
from host.torch.ranks import processes

SIZE = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(ClusterOptions(), kind="test") as made:
        made.start()
        yield made


def environment(cluster: Cluster, **more: str) -> dict[str, str]:
    """Rank r is on the fabric's host r."""
    return {
        "EPIC_GROUP_FILE": "",
        "EPIC_MANAGER": cluster.manager,
        "TEST_HOSTS": " ".join(layout.HOSTS),
        **more,
    }


def nothing_left(cluster: Cluster) -> None:
    assert leaks.settled(lambda: leaks.resources(cluster) + leaks.rank_sockets(cluster), 30.0) == []


def test_every_collective_of_the_public_interface_over_the_network_of_a_manager(
    cluster: Cluster, tmp_path: Path
) -> None:
    found = processes("everything", SIZE, tmp_path, environment(cluster))
    for rank, result in enumerate(found):
        assert "error" not in result, result
        assert result["path"] == "network"
        assert result["all_reduce"] == [10] * 5
        assert result["all_gather"] == [[r, -r] for r in range(SIZE)]
        assert result.get("new_group") == ([4] * 5 if rank in (0, 2) else None)
        assert result["after"] == SIZE
    nothing_left(cluster)


def test_ddp_trains_to_the_same_loss_as_gloo_by_the_manager(cluster: Cluster, tmp_path: Path) -> None:
    found = processes("train", SIZE, tmp_path, environment(cluster))
    for result in found:
        assert "error" not in result, result
        assert result["integers"]["epic"] == result["integers"]["gloo"]
        assert result["floats"]["epic"] == pytest.approx(result["floats"]["gloo"], rel=1e-5)
    nothing_left(cluster)


def test_a_rank_that_dies_is_named_long_before_the_timeout_of_the_group(
    cluster: Cluster, tmp_path: Path
) -> None:
    found = processes("lost", SIZE, tmp_path, environment(cluster, TEST_TIMEOUT="300"))
    for rank, result in enumerate(found):
        if rank != 2:
            assert (result["kind"], result["ranks"]) == ("PeerLostError", [2]), result
            assert result["seconds"] < 30
    nothing_left(cluster)


def test_what_the_manager_refuses_is_said_on_every_rank(cluster: Cluster, tmp_path: Path) -> None:
    found = processes("everything", 2, tmp_path, environment(cluster, TEST_HOSTS="h0 nowhere"))
    for result in found:
        assert "nowhere" in result["message"], result
