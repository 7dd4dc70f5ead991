"""Jobs: phases, iterations, hosts, what jobs do to each other; and that nothing hangs on the order or the machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from epic_models.flowsim import draws
from epic_models.flowsim.config import Config, parse
from epic_models.flowsim.result import Result, jain, simulate
from epic_models.flowsim.sharing import Ask, Grant, Limits, Move

SINGLE = {"kind": "single", "hosts": 16}


def run(*jobs: dict[str, Any], topology: dict[str, Any] | None = None, **more: Any) -> Result:
    return simulate(parse({"topology": topology or SINGLE, "job": list(jobs), **more}, "here"))


def times(result: Result) -> dict[str, float]:
    """Seconds from a job's beginning to its end."""
    return {job.job.name: job.end - job.began for job in result.ends if job.end is not None}


def alone(**job: Any) -> float:
    return times(run({"name": "a", **job}))["a"]


def test_iterations_are_computing_and_communicating_in_turn() -> None:
    once = alone(ranks=4, size="1MiB", window=256)
    assert alone(ranks=4, size="1MiB", window=256, iterations=5, compute_us=100.0) == pytest.approx(
        5 * (once + 100e-6), rel=1e-12
    )


def test_phases_follow_each_other() -> None:
    ring = alone(ranks=4, size="2MiB", algorithm="ring")
    tree = alone(ranks=4, size="1MiB")
    phases = [
        {"compute_us": 50.0},
        {"algorithm": "ring", "size": "2MiB"},
        {"algorithm": "mode3", "size": "1MiB"},
    ]
    assert alone(ranks=4, phase=phases, iterations=3) == pytest.approx(3 * (ring + tree + 50e-6), rel=1e-12)


def test_groups_of_training() -> None:
    """16 ranks, tp 2, pp 2: which ranks communicate over what."""
    (job,) = parse({"topology": SINGLE, "job": [{"ranks": 16, "tp": 2, "pp": 2}]}, "x").jobs()
    assert job.groups("tp").tolist()[:3] == [[0, 1], [2, 3], [4, 5]]
    assert job.groups("pp").tolist()[:3] == [[0, 2], [1, 3], [4, 6]]
    assert job.groups("dp").tolist() == [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]]
    assert job.groups("all").tolist() == [list(range(16))]
    assert replace(job, tp=1).groups("tp").shape == (0, 1)


@pytest.mark.parametrize("apart", [False, True])
def test_groups_that_do_not_meet_take_the_time_of_one(apart: bool) -> None:
    """On one switch each of four groups has its own links."""
    phase = {"algorithm": "mode3", "size": "1MiB", "over": "dp"}
    four = run({"ranks": 16, "tp": 4, "phase": [phase]}, apart=apart)
    assert times(four)["mode3"] == pytest.approx(alone(ranks=4, size="1MiB"), rel=1e-12)
    assert four.ends[0].slowdown == pytest.approx(1.0)


def test_groups_apart_end_one_by_one_and_the_phase_with_the_last() -> None:
    """Two groups; a job beside them is in the way of one. Apart, the other one is as fast as alone."""
    narrow = {"kind": "spine_leaf", "spines": 1, "leaves": 2, "hosts_per_leaf": 4, "up_gbps": 100.0}
    phase = {"algorithm": "mode3", "size": "4MiB", "over": "tp"}
    # Ranks h0 h4 are one group, over the spine; h1 h2 another, under one leaf.
    pair = {"name": "pair", "hosts": ["h0", "h4", "h1", "h2"], "tp": 2, "phase": [phase]}
    other = {"name": "other", "hosts": ["h3", "h7"], "size": "4MiB"}
    for apart in (False, True):
        result = run(pair, other, topology=narrow, apart=apart)
        pair_end = result.ends[[end.job.name for end in result.ends].index("pair")]
        assert pair_end.slowdown == pytest.approx(2.0, rel=0.02)
        # Alone as the whole job is alone: its two groups do not meet.
        assert pair_end.alone == pytest.approx(
            times(run({"name": "x", "hosts": ["h0", "h4"], "size": "4MiB"}, topology=narrow))["x"], rel=1e-9
        )


def test_two_jobs_on_one_link_take_twice_as_long() -> None:
    job = {"ranks": 8, "size": "64MiB", "window": 256}
    result = run({"name": "a", **job}, {"name": "b", **job})
    found = times(result)
    assert found["a"] == pytest.approx(found["b"], rel=1e-12)
    assert found["a"] == pytest.approx(2 * alone(**job), rel=1e-3)
    assert [end.slowdown for end in result.ends] == pytest.approx([2.0, 2.0], rel=1e-3)
    # The one that comes later has half of the link until the other one is through.
    late = run({"name": "a", **job}, {"name": "b", **job, "start_us": 0.5e6 * alone(**job)})
    found = times(late)
    assert found["a"] == pytest.approx(1.5 * alone(**job), rel=1e-3)
    assert found["b"] == pytest.approx(1.5 * alone(**job), rel=1e-3)


def test_rings_and_trees_share_by_connections() -> None:
    """An inner link of k connections of one job and one of another: k + 1 equal parts."""
    narrow = {"kind": "spine_leaf", "spines": 1, "leaves": 2, "hosts_per_leaf": 8, "up_gbps": 100.0}
    # Each rank sends to one under the other leaf, so the ring goes up eight times; the tree once.
    ring = {
        "name": "ring", "algorithm": "chain", "size": "64MiB", "window": 1024,
        "hosts": [f"h{i // 2 + 8 * (i % 2)}" for i in range(6)],
    }  # fmt: skip
    tree = {"name": "tree", "hosts": ["h7", "h15"], "size": "64MiB", "window": 1024}
    found = times(run(ring, tree, topology=narrow))
    # Up from the first leaf: three of the chain's connections, the tree, and acknowledgements of two the other way.
    data, acks = (64 << 20) * (1110 / 1024) / 12.5e9, 86 / 1110
    assert found["tree"] == pytest.approx((3 + 2 * acks + 1) * data, rel=2e-3)


def test_the_order_of_jobs_changes_nothing() -> None:
    """Listed the other way round: every job ends as before. (Trees hang on a job's number: here all are fixed.)"""
    rng = np.random.default_rng(1)
    jobs = [
        {
            "name": f"j{i}", "hosts": [f"h{h}" for h in rng.choice(16, 5, replace=False)],
            "size": int(rng.integers(1, 64)) << 16, "iterations": int(rng.integers(1, 4)),
            "algorithm": ["mode3", "ring"][i % 2], "start_us": float(rng.integers(0, 500)),
        }
        for i in range(12)
    ]  # fmt: skip
    first = run(*jobs)
    again = run(*reversed(jobs))
    wanted, found = times(first), times(again)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-9)


def test_bytes_on_links_are_what_jobs_bring_over_them() -> None:
    result = run({"ranks": 4, "size": "1MiB", "iterations": 3})
    links = result.links()
    assert len(links) == 8
    assert {link["bytes"] for link in links.values()} == {3 * 1024 * 1110}
    lasted = result.simulation.now
    assert links["h0-s0"]["utilization"] == pytest.approx(3 * 1024 * 1110 / 12.5e9 / lasted, rel=1e-6)


def test_exclusive_jobs_wait_for_hosts_in_order() -> None:
    job = {"ranks": 10, "size": "1MiB", "exclusive": True, "compute_us": 1000.0}
    result = run(*({"name": name, **job, "start_us": float(k)} for k, name in enumerate("abc")))
    ends = {end.job.name: end for end in result.ends}
    assert ends["b"].began == pytest.approx(ends["a"].end)
    assert ends["c"].began == pytest.approx(ends["b"].end)
    assert all(end.slowdown == pytest.approx(1.0) for end in result.ends)
    # Six hosts are free, but the one that came first is not overtaken.
    small = {"name": "small", "ranks": 2, "exclusive": True, "start_us": 1.5, "size": "1KiB"}
    ends = {
        end.job.name: end
        for end in run(*({"name": n, **job, "start_us": float(k)} for k, n in enumerate("ab")), small).ends
    }
    assert ends["small"].began >= ends["b"].began


def test_the_slowest_rank_counts() -> None:
    """The draw of the largest of n exponential delays: its mean is the harmonic number."""
    for ranks in (1, 8, 512):
        found = [draws.slowest("exponential", 2.0, ranks, draws.uniform(1, ranks, k)) for k in range(4000)]
        harmonic = sum(1 / k for k in range(1, ranks + 1))
        assert np.mean(found) == pytest.approx(2.0 * harmonic, rel=0.05)
    assert np.mean(
        [draws.slowest("uniform", 2.0, 3, draws.uniform(2, k)) for k in range(4000)]
    ) == pytest.approx(3.0, rel=0.05)
    assert np.mean(
        [draws.slowest("pareto", 2.0, 1, draws.uniform(3, k)) for k in range(20000)]
    ) == pytest.approx(2.0, rel=0.1)
    seeds = [alone(ranks=8, size="1KiB", straggle_us=100.0, iterations=50) for _ in range(2)]
    assert seeds[0] == seeds[1]


def test_the_time_limit_ends_it() -> None:
    job = {"ranks": 8, "size": "1GiB"}
    result = run({"name": "a", **job}, {"name": "b", "ranks": 2, "size": "1KiB"}, time_limit_s=0.01)
    row = result.to_dict()
    assert (result.why, row["completion_us"], row["jobs"], row["jobs_done"]) == ("time", None, 2, 1)
    assert result.jobs()[0]["ended_us"] is None


def generated(**more: Any) -> dict[str, Any]:
    return {
        "topology": {"kind": "fat_tree", "k": 8},
        "generate": {
            "jobs": 40, "rate_per_s": 20.0, "ranks": [4, 8, 16], "tp": [1, 2], "pp": [1, 2], "straggle": 0.1,
            "placement": "random", "algorithm": ["mode3", "ring"], "iterations": [2, 4],
        },
        **more,
    }  # fmt: skip


def test_the_same_seed_gives_the_same_and_another_another() -> None:
    def row(seed: int) -> dict[str, Any]:
        result = simulate(parse(generated(seed=seed), "x"))
        row = result.to_dict() | {"jobs_": result.jobs()}
        return {key: value for key, value in row.items() if key not in ("wall_s", "events_per_s")}

    first = row(3)
    assert first == row(3)
    assert first["jct_us"] != row(4)["jct_us"]
    assert first["jobs_done"] == 40
    assert 0 < first["utilization"]["max"] <= 1.0 + 1e-9
    assert min(first["slowdown_quantiles"]) >= 1.0 - 1e-6


def test_jain() -> None:
    assert jain([2.0, 2.0, 2.0]) == 1.0
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert jain([]) is None


# ----------------------------------------------------------------------------------------------------------- sharing


class Scripted:
    """A policy that does at given times what it is told: (time, group, into the network)."""

    def __init__(self, config: Config, script: Sequence[tuple[float, str, bool]], first: bool) -> None:
        self.config, self.script, self.first = config, list(script), first
        self.asks: dict[str, Ask] = {}
        self.log: list[tuple[str, str, float]] = []

    def grant(self, name: str) -> Grant:
        ask = self.asks[name]
        return Grant(self.config.topology.climbs(np.array(ask.hosts), "any"), ask.cut.window)

    def join(self, ask: Ask, now: float) -> Grant | None:
        self.asks[ask.name] = ask
        return self.grant(ask.name) if self.first else None

    def leave(self, group: str, now: float) -> None:
        self.log.append(("leave", group, now))

    def freed(self, group: str, now: float) -> None:
        self.log.append(("freed", group, now))

    def moves(self, now: float) -> Sequence[Move]:
        due = [entry for entry in self.script if entry[0] <= now + 1e-12]
        self.script = self.script[len(due) :]
        return [Move(name, self.grant(name) if there else None) for _, name, there in due]

    def next_turn(self, now: float) -> float | None:
        return self.script[0][0] if self.script else None


def shared(
    monkeypatch: pytest.MonkeyPatch, script: Sequence[tuple[float, str, bool]], first: bool, **job: Any
) -> tuple[Result, Scripted]:
    config = parse({"topology": SINGLE, "job": [{"name": "a", **job}]}, "x")
    config = replace(config, limits=Limits("scripted", change=1e-3))
    policy = Scripted(config, script, first)
    monkeypatch.setattr("epic_models.flowsim.sharing.maker", lambda limits: lambda network, limits: policy)
    return simulate(config), policy


JOB = {"ranks": 8, "size": "64MiB", "window": 256}


def test_a_turn_is_never_asked_for_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer of a job half a picosecond before a turn: both are one event, but the policy sees its own time."""
    asked: list[float] = []
    turn = 100e-6 + 5e-13

    class Exact(Scripted):
        def moves(self, now: float) -> Sequence[Move]:
            asked.append(now)
            assert len(asked) < 20
            return ()

        def next_turn(self, now: float) -> float | None:
            return turn if now < turn else None

    config = replace(
        parse({"topology": SINGLE, "job": [{**JOB, "compute_us": 100.0}]}, "x"), limits=Limits("exact")
    )
    policy = Exact(config, (), True)
    monkeypatch.setattr("epic_models.flowsim.sharing.maker", lambda limits: lambda network, limits: policy)
    simulate(config)
    assert turn in asked


def test_a_group_without_a_grant_is_on_its_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = shared(monkeypatch, [], False, **JOB)
    (end,) = result.ends
    assert times(result)["a"] == pytest.approx(alone(**JOB, algorithm="ring"), rel=1e-12)
    assert end.slowdown == pytest.approx(alone(**JOB, algorithm="ring") / alone(**JOB))
    assert (end.in_network, end.never) == (0.0, 1)
    granted, _ = shared(monkeypatch, [], True, **JOB)
    assert times(granted)["a"] == pytest.approx(alone(**JOB), rel=1e-12)
    assert granted.to_dict()["network_share"] == 1.0


def test_a_change_of_path_keeps_what_has_been_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a collective: half in the network, a pause, half between the hosts; and the other way."""
    network, ring = alone(**JOB), alone(**JOB, algorithm="ring")
    for first, before, after in ((True, network, ring), (False, ring, network)):
        result, policy = shared(monkeypatch, [(before / 2, "a", not first)], first, **JOB)
        assert times(result)["a"] == pytest.approx(before / 2 + 1e-3 + after / 2, rel=2e-3)
        assert result.to_dict()["path_changes"] == 1
        # Who leaves the network frees its place when the change is over, not before.
        freed = [time for what, _, time in policy.log if what == "freed"]
        assert freed == ([pytest.approx(before / 2 + 1e-3)] if first else [])
    (end,) = result.ends
    assert end.in_network + end.on_hosts == pytest.approx(end.communicating, rel=1e-9)


def test_a_change_while_computing_holds_up_only_what_comes_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is over before the collective begins; or 0.4 ms of it are left then."""
    ring = alone(**JOB, algorithm="ring")
    for at, extra in ((1e-3, 0.0), (9.4e-3, 0.4e-3)):
        result, _ = shared(monkeypatch, [(at, "a", False)], True, **JOB, compute_us=10_000.0)
        assert times(result)["a"] == pytest.approx(10e-3 + extra + ring, rel=1e-9)


def test_two_changes_in_one_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the hosts and back before it has gone on: nothing is lost and nothing done twice."""
    network = alone(**JOB)
    script = [(network / 2, "a", False), (network / 2 + 0.5e-3, "a", True)]
    result, _ = shared(monkeypatch, script, True, **JOB)
    assert times(result)["a"] == pytest.approx(network + 1.5e-3, rel=2e-3)


def test_steps_go_on_where_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recursive halving has many steps; a change to the network in the middle leaves half."""
    job = JOB | {"fallback": "halving_doubling"}
    hosts, network = alone(**JOB, algorithm="halving_doubling"), alone(**JOB)
    result, _ = shared(monkeypatch, [(hosts / 2, "a", True)], False, **job)
    assert times(result)["a"] == pytest.approx(hosts / 2 + 1e-3 + network / 2, rel=0.01)


def test_nothing_is_left_behind() -> None:
    result = simulate(parse(generated(), "x"))
    simulation = result.simulation
    assert not simulation._owners
    assert not simulation._timers
    assert not simulation._running
    state = simulation.rates._state
    assert (state.links["first"] == -1).all()
    assert state.sim[0]["ends"] == 0
    assert len(simulation.rates._numbers) == simulation.rates._used
    assert math.isinf(simulation.rates.next_end)
