"""`epic bench COLLECTIVE`: its sizes and figures, the ring it is held against, and whole runs with peers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import numpy as np
import pytest

from epic_spec.command import build_app, run
from epic_spec.errors import ConfigError
from epic_testbed.bench import cases, contenders, display, ring
from epic_testbed.bench.rows import Row, Times
from epic_testbed.bench.supervisor import _free_ports
from epic_testbed.cases import Case, Inputs, shard_bounds


def test_sizes_grow_by_factor_or_step():
    assert cases.sizes("8", "64M", 4, None)[:3] == [8, 32, 128]
    assert cases.sizes("8", "64M", 4, None)[-1] == 32 << 20
    assert cases.sizes("1K", "1K", 2, None) == [1024]
    assert cases.sizes("0", "12", 2, "4") == [0, 4, 8, 12]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("64", "8", 2, None), "-e = 8, expected at least -b = 64"),
        (("8", "64", 1, None), "-f = 1, expected 2 or more"),
        (("0", "64", 2, None), "-b = 0, expected at least 1 byte"),
        (("8", "64", 2, "0"), "-i = 0, expected at least 1 byte"),
        (("8x", "64", 2, None), "size = '8x'"),
        (("8,16", "64", 2, None), "-b = 8,16, expected one size"),
    ],
)
def test_bad_sizes(arguments, line):
    with pytest.raises(ConfigError, match=line):
        cases.sizes(*arguments)


def test_cases_are_whole_elements():
    assert [c.bytes for c in cases.cases("all_reduce", [1, 8, 13], "sum", "fp32", 0, 4)] == [4, 8, 12]
    assert cases.cases("broadcast", [64], "sum", "int8", 2, 4) == [Case("broadcast", "-", "int8", 64, 2)]
    assert [c.primitive for c in cases.cases("barrier", [8, 64], "sum", "fp32", 0, 4)] == ["barrier"]
    with pytest.raises(ConfigError, match="-r = 4, expected a rank from 0 to 3"):
        cases.cases("reduce", [64], "sum", "fp32", 4, 4)


def test_rounds_share_the_iterations_out():
    assert cases.Sweep([], 12, 1, True, 0).rounds == [3, 3, 2, 2, 2]
    assert cases.Sweep([], 3, 1, True, 0).rounds == [1, 1, 1]


def test_bandwidths_are_nccl_tests():
    times = {"epic": Times([100.0, 200.0, 300.0]), "ring": Times([400.0])}
    row = Row(Case("all_reduce", "sum", "fp32", 1_000_000), 4, times)
    assert row.algbw("epic") == pytest.approx(40.0)
    assert row.busbw("epic") == pytest.approx(60.0)
    assert row.ratio("ring") == pytest.approx(2.0)
    assert cases.bus_factor("all_gather", 4) == cases.bus_factor("reduce_scatter", 4) == 0.75
    assert cases.bus_factor("broadcast", 4) == 1.0
    found = row.to_dict(3, "fast")
    assert found["time_us"] == {"min": 100.0, "median": 200.0, "p99": 298.0, "max": 300.0}
    assert found["peers"]["ring"]["ratio"] == 2.0


def test_a_peer_without_the_collective_is_named():
    row = Row(
        Case("reduce_scatter", "sum", "fp32", 4), 4, {"epic": Times([1.0]), "gloo": Times(missing="no such")}
    )
    assert row.to_dict(3, "fast")["peers"]["gloo"] == {"missing": "no such"}
    assert "n/a" in display.line(row, ["gloo"])
    assert display.notes([row, row], ["gloo"]) == ["# n/a: no such"]


def on_a_ring(ranks: int, work: Callable[[int, ring.Ring], None]) -> None:
    ports = _free_ports(ranks)
    failures: list[BaseException] = []

    def one(rank: int) -> None:
        try:
            end = ring.join(rank, ranks, {"ports": ports})
            work(rank, end)
            end.barrier()
            end.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failures


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 7, 100_003])
def test_the_ring_computes_what_it_is_measured_for(ranks, count):
    def work(rank: int, end: ring.Ring) -> None:
        for primitive, op in [
            ("all_reduce", "sum"), ("all_reduce", "max"), ("reduce", "sum"), ("reduce_scatter", "min"),
            ("all_gather", "-"), ("broadcast", "-"), ("barrier", "-"),
        ]:  # fmt: skip
            root = 1 if primitive in ("reduce", "broadcast") else None
            case = Case(primitive, op, "-" if primitive == "barrier" else "int32", 4 * count, root)
            if primitive == "barrier":
                end.bind(case, np.zeros(0), np.zeros(0))()
                continue
            inputs = Inputs(case, 0, 0, 5, ranks)
            sent, received = contenders.buffers(case, rank, ranks)
            send = inputs.of(rank, sent) if primitive == "all_gather" else inputs.of(rank)
            recv = contenders.empty(case, received)
            if primitive == "broadcast" and rank == root:
                recv[:] = send
            before = send.copy()
            end.bind(case, send, recv)()
            assert (send == before).all()
            bounds = shard_bounds(count, ranks)
            if primitive == "all_gather":
                wanted = np.concatenate([inputs.of(r, bounds[r + 1] - bounds[r]) for r in range(ranks)])
            elif primitive == "broadcast":
                wanted = inputs.of(1)
            else:
                whole = np.stack([inputs.of(r) for r in range(ranks)])
                wanted = {"sum": whole.sum(0, dtype=np.int32), "max": whole.max(0), "min": whole.min(0)}[op]
                if primitive == "reduce_scatter":
                    wanted = wanted[bounds[rank] : bounds[rank + 1]]
            if primitive != "reduce" or rank == root:
                assert (recv == wanted).all()

    on_a_ring(ranks, work)


def bench(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(build_app(), ["bench", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_a_run_beside_the_ring(capsys):
    code, out, err = bench(
        "all_reduce", "-b", "8", "-e", "64K", "-f", "8192", "-n", "6", "-w", "1", "-d", "int32",
        "--ranks", "2", "--peer", "ring", "--datapath", "reference", "--json", capsys=capsys,
    )  # fmt: skip
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["size_bytes"] for row in rows] == [8, 65536]
    named = {
        "count",
        "type",
        "redop",
        "root",
        "algbw_gbps",
        "busbw_gbps",
        "wrong",
        "mode",
        "datapath",
        "ranks",
    }
    for row in rows:
        assert named <= {*row}
        assert row["wrong"] == row["peers"]["ring"]["wrong"] == 0
        times = row["time_us"]
        assert 0 < times["min"] <= times["median"] <= times["p99"] <= times["max"]
        assert row["peers"]["ring"]["ratio"] > 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--peer", "nccl"), "--peer = 'nccl', expected one of gloo, mpi, ring"),
        (("-d", "int32,fp32"), "expected one datatype and one operator"),
        (("-d", "fp8"), "dtype = 'fp8'"),
        (("-r", "4"), "-r = 4, expected a rank from 0 to 3"),
        (("--mode", "1", "--datapath", "fast"), "datapath"),
    ],
)
def test_bad_options_are_one_line(arguments, line, capsys):
    code, out, err = bench("all_reduce", *arguments, capsys=capsys)
    assert code == 2
    assert line in err
    assert not out
    assert len(err.strip().splitlines()) == 1
