"""Rate limits: tokens come back with time, one client does not use up another's, and the clients kept are bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_host.manager.errors import RefusedError
from epic_host.manager.limits import Rate, RateLimit
from host.manager.served import config_of, managed, spec


def test_a_burst_is_admitted_then_the_rate() -> None:
    limit = RateLimit(Rate(10.0, 5.0))
    assert [limit.admits("a", 0.0) for _ in range(6)] == [True] * 5 + [False]
    assert limit.wait("a") == pytest.approx(0.1)
    assert [limit.admits("a", 0.1), limit.admits("a", 0.1)] == [True, False]
    assert [limit.admits("a", 100.0) for _ in range(6)] == [True] * 5 + [False]


def test_clients_have_tokens_of_their_own() -> None:
    limit = RateLimit(Rate(1.0, 1.0))
    assert limit.admits("a", 0.0)
    assert not limit.admits("a", 0.0)
    assert limit.admits("b", 0.0)


def test_the_clients_kept_are_bounded() -> None:
    limit = RateLimit(Rate(1.0, 1.0), clients=3)
    for number in range(100):
        limit.admits(str(number), 0.0)
    assert len(limit._buckets) == 3


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 2)), max_size=60),
    st.floats(0.1, 50),
    st.floats(1, 20),
)
def test_no_client_ever_gets_more_than_burst_and_rate(
    asked: list[tuple[str, float]], per_second: float, burst: float
) -> None:
    limit, now = RateLimit(Rate(per_second, burst)), 0.0
    admitted: dict[str, list[float]] = {"a": [], "b": []}
    for client, pause in asked:
        now += pause
        if limit.admits(client, now):
            admitted[client].append(now)
    for times in admitted.values():
        for first in range(len(times)):
            for last in range(first, len(times)):
                most = burst + per_second * (times[last] - times[first])
                assert last - first + 1 <= most + 1e-6


def _reasons(call: Any, count: int) -> list[str]:
    reasons = []
    for _ in range(count):
        try:
            call()
            reasons.append("ok")
        except RefusedError as error:
            reasons.append(error.reason)
    return reasons


def test_who_asks_too_often_is_refused_and_may_ask_again(tmp_path: Path) -> None:
    limits = {"local_requests_per_second": 20.0, "burst": 0.5}
    with managed(config_of(tmp_path, limits=limits)) as running, running.client() as client:
        reasons = _reasons(client.list_groups, 40)
        assert reasons[:10] == ["ok"] * 10
        assert set(reasons) == {"ok", "rate"}
        with pytest.raises(
            RefusedError, match=r"too many requests of local, expected at most 20 a second; ask again"
        ):
            for _ in range(100):
                client.list_groups()


def test_groups_have_a_rate_of_their_own(tmp_path: Path) -> None:
    limits = {"local_creates_per_second": 0.1, "burst": 30.0}
    with managed(config_of(tmp_path, limits=limits)) as running, running.client() as client:
        assert _reasons(lambda: client.create_group(spec=spec()), 5) == ["ok"] * 3 + ["rate"] * 2
        assert _reasons(client.list_groups, 5) == ["ok"] * 5
        assert len(client.list_groups().groups) == 3
