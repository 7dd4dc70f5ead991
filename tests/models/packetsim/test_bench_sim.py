"""`epic bench sim`: memory of a packet, the workload that ns-3 has too, and what is said without ns-3."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epic_models import bench_ns3, bench_sim
from epic_models.packetsim.config import parse
from epic_models.packetsim.result import simulate
from epic_models.sim_cli import register
from epic_spec.command import build_app, run


def test_a_packet_in_flight_takes_128_bytes_at_most() -> None:
    found = bench_sim.measure(("memory",), 1, None, lambda _: None)["memory"]
    assert 64 <= found["bytes_per_packet"] < found["with_values"] <= 128


def test_the_peers_workload_is_a_packet_and_its_acknowledgement_over_three_links() -> None:
    pairs, shard = 3, 40
    row = simulate(parse(bench_ns3.workload(pairs, shard, 16), "t"), packets=1 << 12).to_dict()
    assert row["ended"] == "done"
    whole = pairs * 2 * (2 * shard) * 2 * 3
    # It ends when the last packets are there: their acknowledgements still are on their way.
    assert whole - pairs * 2 * 16 * 3 <= row["packet_hops"] <= whole
    assert row["retransmissions"] == row["drops"] == 0


def test_without_ns3_the_bench_says_how_to_get_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_ns3.find(tmp_path) is None
    app = build_app([register])
    assert run(app, ["bench", "sim", "--only", "ns3", "--ns3", str(tmp_path), "--repeat", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["ns3"]
    assert found["peer"] is None
    assert "pip install --no-deps ns3==" in found["why"]
    assert found["packetsim"]["hops"] > 0


def test_ns3_ends_at_the_same_time() -> None:
    folder = bench_ns3.find()
    if folder is None:
        pytest.skip(f"ns-3 is not installed ({bench_ns3.HOW})")
    pairs, shard, window = 2, 100, 16
    theirs = bench_ns3.run(folder, pairs, shard, window)
    ours = simulate(parse(bench_ns3.workload(pairs, shard, window), "t"), packets=1 << 12)
    assert theirs["completion_ps"] == pytest.approx(float(ours.world.sim[0]["now"]), rel=1e-6)


@pytest.mark.parametrize(
    ("args", "message"),
    [(["--only", "speeed"], "--only = 'speeed', expected one of speed, memory, ns3, fat-tree, flow")],
)
def test_a_bad_option_is_one_line(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build_app([register]), ["bench", "sim", *args]) == 2
    assert message in capsys.readouterr().err
