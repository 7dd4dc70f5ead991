"""The packet simulator as a whole: right sums whatever happens, and the same for the same seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from epic_models.packetsim.build import build
from epic_models.packetsim.config import parse
from epic_models.packetsim.reference import WORLD_TYPE, version
from epic_models.packetsim.result import Result, simulate
from epic_spec.errors import ConfigError

ALGORITHMS = ("mode1", "mode2", "mode3", "ring", "halving_doubling", "double_tree", "parameter_server")
FATTREE = {"kind": "fat_tree", "k": 4}


def run(topology: dict[str, Any], *jobs: dict[str, Any], **more: Any) -> Result:
    data = {"payload_check": True, "seed": 3, "topology": topology, "job": list(jobs), **more}
    return simulate(parse(data, "test"), packets=1 << 15)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "faults", [{}, {"loss": 0.01, "duplicate": 0.01, "reorder": 0.02}], ids=["clean", "faults"]
)
def test_every_algorithm_gives_the_right_sums(algorithm: str, faults: dict[str, float]) -> None:
    job = {"algorithm": algorithm, "size": "100KiB", "ranks": 8, "placement": "spread", "iterations": 2}
    result = run(FATTREE, job | {"straggle_us": 5.0}, faults=faults)
    row = result.to_dict()
    assert result.why == "done"
    assert row["wrong"] == 0
    assert row["checked"] >= 2 * 8 * 7 * 4
    assert (row["retransmissions"] > 0) == bool(faults)


@pytest.mark.parametrize("primitive", ["reduce", "broadcast", "barrier", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("mode", [1, 2, 3])
def test_every_primitive_gives_each_rank_what_it_is_to_receive(mode: int, primitive: str) -> None:
    job = {"algorithm": f"mode{mode}", "primitive": primitive, "root": 5, "size": "150KiB", "ranks": 8}
    result = run({"kind": "tree", "fan_out": [2, 2, 2]}, job, faults={"loss": 0.01})
    assert result.why == "done"
    assert result.to_dict()["wrong"] == 0


def test_a_pause_loses_nothing_where_a_short_buffer_drops() -> None:
    job = {"algorithm": "parameter_server", "size": "200KiB", "ranks": 8, "ecn": False, "window": 64}
    short = {"kind": "spine_leaf", "spines": 1, "leaves": 4, "hosts_per_leaf": 2, "buffer_kib": 16.0}
    dropping = run(short, job).to_dict()
    pausing = run(short | {"pfc": True, "pause_kib": 8.0, "resume_kib": 4.0}, job).to_dict()
    assert dropping["drops"] > 0
    assert pausing["drops"] == 0
    assert sum(link["pauses"] for link in pausing["links"].values()) > 0
    assert dropping["wrong"] == pausing["wrong"] == 0


def test_a_link_that_fails_for_a_while_delays_a_job_and_no_more() -> None:
    job = {"algorithm": "mode3", "size": "256KiB", "window": 16}
    calm = run({"kind": "1-2-4"}, job).to_dict()
    failure = {"link": "h0-l1_0", "at_us": 5.0, "until_us": 400.0}
    hurt = run({"kind": "1-2-4"}, job, failure=[failure]).to_dict()
    assert hurt["wrong"] == 0
    assert hurt["completion_us"] > calm["completion_us"] + 395


def test_a_node_that_stays_away_is_said_to_be_late() -> None:
    result = run(
        {"kind": "1-2-4"}, {"algorithm": "mode2", "size": "64KiB"}, failure=[{"node": "h2", "at_us": 2.0}],
        time_limit_ms=50.0,
    )  # fmt: skip
    assert result.why in ("idle", "time")
    assert 2 in result.jobs[0].late
    assert result.to_dict()["completion_us"] is None


def test_background_traffic_slows_a_job_down() -> None:
    job = {"algorithm": "mode3", "size": "1MiB", "window": 64}
    traffic = {"from": "h4", "to": "h1", "rate_gbps": 60.0, "on_us": 20.0, "off_us": 5.0}
    topology = {"kind": "single", "hosts": 5, "mark_kib": 32.0}
    calm = run(topology, job | {"ranks": 4}).to_dict()
    busy = run(topology, job | {"ranks": 4}, background=[traffic]).to_dict()
    assert busy["completion_us"] > 1.2 * calm["completion_us"]
    assert busy["wrong"] == 0


@pytest.mark.parametrize("algorithm", ["mode1", "mode2", "mode3", "ring"])
@pytest.mark.parametrize(
    "topology",
    [
        {"kind": "dragonfly", "groups": 3, "routers": 2, "hosts": 2},
        {"kind": "spine_leaf", "spines": 2, "leaves": 3, "hosts_per_leaf": 2, "up_gbps": 200.0},
    ],
    ids=lambda topology: topology["kind"],
)
def test_every_topology_carries_every_mode(algorithm: str, topology: dict[str, Any]) -> None:
    result = run(topology, {"algorithm": algorithm, "size": "50KiB"}, faults={"loss": 0.005})
    assert result.why == "done"
    assert result.to_dict()["wrong"] == 0


def test_a_host_link_carries_the_data_once_in_the_network_and_nearly_twice_on_a_ring() -> None:
    hosts, size = 8, 1 << 20
    single = {"kind": "single", "hosts": hosts}
    carried = {}
    for algorithm in ("mode3", "ring"):
        result = run(single, {"algorithm": algorithm, "size": size, "window": 256}, payload_check=False)
        carried[algorithm] = result.to_dict()["host_link_payload_bytes"]
    assert carried == {"mode3": size, "ring": 2 * (hosts - 1) * size // hosts}


@pytest.mark.parametrize("kind", ["exponential", "uniform", "lognormal", "pareto"])
def test_delays_have_the_mean_that_was_asked_for(kind: str) -> None:
    job = {"straggle": kind, "straggle_us": 20.0, "compute_us": 5.0, "start_us": 5.0, "iterations": 4000}
    world, _ = build(
        parse({"seed": 7, "topology": {"kind": "single", "hosts": 4}, "job": [job]}, "t"), packets=64
    )
    random_part = world.starts * 1e-6 - 5.0
    assert random_part.min() >= 0.0
    assert float(random_part.mean()) == pytest.approx(20.0, rel=0.1)
    # No two kinds are alike: shares of delays above four times the mean.
    above = float((random_part > 80.0).mean())
    low, high = {
        "exponential": (0.01, 0.03),
        "uniform": (0.0, 0.0),
        "lognormal": (0.02, 0.05),
        "pareto": (0.01, 0.03),
    }[kind]
    assert low <= above <= high


def test_every_collective_waits_for_a_slow_rank() -> None:
    job = {"algorithm": "mode3", "size": "16KiB", "iterations": 3, "rto_initial_us": 5000, "rto_min_us": 5000}
    calm = run({"kind": "1-2-4"}, job).to_dict()
    slow = run({"kind": "1-2-4"}, job | {"slow_ranks": [2], "slow_us": 70.0}).to_dict()
    assert slow["completion_us"] == pytest.approx(calm["completion_us"] + 3 * 70.0, rel=1e-6)
    assert slow["wrong"] == slow["retransmissions"] == 0


def test_marks_keep_the_queue_of_an_incast_short() -> None:
    job = {"algorithm": "parameter_server", "size": "400KiB", "window": 128}
    topology = {"kind": "single", "hosts": 9, "buffer_kib": 512.0, "mark_kib": 32.0}
    rows = {ecn: run(topology, job | {"ecn": ecn}, sample_us=1.0).to_dict() for ecn in (True, False)}
    # 8 windows of 128 packets do not fit; 8 that marks keep small do, once the first burst is over.
    assert rows[True]["drops"] < rows[False]["drops"]
    late = {
        ecn: row["queues"]["longest_bytes"][len(row["queues"]["longest_bytes"]) // 2 :]
        for ecn, row in rows.items()
    }
    assert sum(late[True]) / len(late[True]) < 0.5 * sum(late[False]) / len(late[False])
    assert rows[True]["wrong"] == rows[False]["wrong"] == 0


def test_queues_are_sampled_where_that_is_asked_for() -> None:
    job = {"algorithm": "parameter_server", "size": "100KiB", "window": 64}
    topology = {"kind": "single", "hosts": 5}
    assert run(topology, job).to_dict()["queues"] is None
    row = run(topology, job, sample_us=0.5).to_dict()
    found = row["queues"]
    deepest = max(link["deepest_bytes"] for name, link in row["links"].items() if name.startswith("s"))
    assert 0.5 * deepest < max(found["longest_bytes"]) <= deepest
    assert next(iter(found["links"])) == "s0-h0"
    assert len(found["longest_bytes"]) == pytest.approx(row["completion_us"] / 0.5, abs=2)


def test_the_same_seed_gives_the_same_result_and_another_one_another() -> None:
    job = {"algorithm": "mode2", "size": "64KiB", "straggle_us": 3.0}
    rows = []
    for seed in (1, 1, 2):
        row = run({"kind": "1-2-4"}, job, faults={"loss": 0.02}, seed=seed).to_dict()
        rows.append(json.dumps({k: v for k, v in row.items() if k not in ("wall_s", "events_per_s", "seed")}))
    assert rows[0] == rows[1] != rows[2]


def test_compiled_code_is_kept_for_these_sources_only(tmp_path: Path) -> None:
    compiled = "from epic_models.packetsim.kernel import kernel\nx = {}\n"
    (tmp_path / "a.py").write_text(compiled.format(1))
    (tmp_path / "b.py").write_text("x = 1\n")
    before = version(tmp_path)
    (tmp_path / "b.py").write_text("x = 2\n")
    assert version(tmp_path) == before
    (tmp_path / "a.py").write_text(compiled.format(2))
    assert version(tmp_path) != before
    assert version() in WORLD_TYPE.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topology": {"kind": "fat_tree", "k": 3}}, "test: topology: k = 3, expected an even number"),
        ({"topology": {"kind": "mesh"}}, "test: topology: kind = 'mesh', expected one of single, 1-2-4,"),
        ({"job": []}, "test: no [[job]], expected at least one"),
        ({"job": [{"algorithm": "mode4"}]}, "test: job[0]: algorithm = 'mode4', expected one of mode1,"),
        ({"job": [{"size": "1 MiBB"}]}, "test: job[0]: size = '1 MiBB', expected bytes"),
        ({"job": [{"windw": 3}]}, "test: job[0]: unknown key 'windw', expected one of algorithm,"),
        ({"job": [{"algorithm": "halving_doubling", "ranks": 3}]}, "ranks = 3, expected a power of two"),
        ({"job": [{"window": 8, "slots": 8}]}, "test: job[0]: slots = 8, expected at least 2 x window = 16"),
        ({"job": [{"straggle": "normal"}]}, "straggle = 'normal', expected one of exponential, uniform,"),
        (
            {"job": [{"slow_ranks": [4], "slow_us": 1}]},
            "slow_ranks = [4], expected a list of ranks from 0 to 3",
        ),
        ({"job": [{"slow_us": 1}]}, "test: job[0]: slow_ranks and slow_us, expected both or neither"),
        ({"faults": {"loss": 2.0}}, "test: faults: loss = 2.0, expected a number of 0 to 1"),
        (
            {"failure": [{"link": "h0-h1", "at_us": 1}]},
            "test: failure[0]: link = 'h0-h1', expected a link such",
        ),
        ({"failure": [{"node": ["h0"], "at_us": 1}]}, "test: failure[0]: node = ['h0'], expected one of h0"),
    ],
)
def test_a_bad_configuration_is_one_line_that_names_key_and_value(
    change: dict[str, Any], message: str
) -> None:
    data: dict[str, Any] = {"topology": {"kind": "single", "hosts": 4}, "job": [{}]}
    with pytest.raises(ConfigError) as caught:
        parse(data | change, "test")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
