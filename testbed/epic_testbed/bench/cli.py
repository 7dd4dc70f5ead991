"""`epic bench all_reduce|reduce|broadcast|reduce_scatter|all_gather|barrier`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import typer

from epic_spec.command import bench_group
from epic_spec.errors import ConfigError
from epic_testbed import registry
from epic_testbed.bench import breakdown, cases, display
from epic_testbed.bench.contenders import require
from epic_testbed.bench.rows import Row
from epic_testbed.bench.supervisor import Supervisor
from epic_testbed.cases import PRIMITIVES
from epic_testbed.cli import ByteOrder, Datapath, Icrc, Json, Mode, Payload, Seed, Topology, Window
from epic_testbed.options import FLOATS, INTEGERS, make_setup
from epic_testbed.session import Session
from epic_testbed.signals import Interrupted, interruptible

_EXIT_WRONG, _EXIT_SIGNAL = 1, 128


def register(app: typer.Typer) -> None:
    """Add the collectives to `epic bench`."""
    group = bench_group(app)
    for primitive in PRIMITIVES:
        group.command(primitive, help=f"Time of {primitive} by size, beside peers.")(_command(primitive))


def _command(primitive: str) -> Callable[..., None]:
    def bench(
        begin: Annotated[str, typer.Option("-b", help="Smallest size: bytes, or with K, M, G.")] = "8",
        end: Annotated[str, typer.Option("-e", help="Largest size.")] = "64M",
        factor: Annotated[int, typer.Option("-f", help="Each size is so many times the one before.")] = 4,
        step: Annotated[
            str | None, typer.Option("-i", help="Each size is so many bytes more, instead.")
        ] = None,
        iterations: Annotated[int, typer.Option("-n", min=1, help="Timed iterations a size.")] = 20,
        warmup: Annotated[int, typer.Option("-w", min=0, help="Iterations before them.")] = 5,
        check: Annotated[
            int, typer.Option("-c", min=0, max=1, help="1: check every element once a size.")
        ] = 1,
        op: Annotated[str, typer.Option("-o", help="sum, max or min.")] = "sum",
        dtype: Annotated[str, typer.Option("-d", help="int8 to int64, fp16, bf16, fp32, fp64.")] = "fp32",
        root: Annotated[int, typer.Option("-r", help="Root of reduce and broadcast.")] = 0,
        peer: Annotated[
            list[str] | None, typer.Option(help="gloo, mpi or ring, measured in turn; may be given again.")
        ] = None,
        mode: Mode = 3,
        topology: Topology = "single",
        ranks: Annotated[int, typer.Option(min=1, max=64, help="Number of ranks.")] = 4,
        payload: Payload = 8192,
        window: Window = 128,
        datapath: Datapath = None,
        byte_order: Annotated[
            ByteOrder, typer.Option(help="Byte order of elements on the wire.")
        ] = ByteOrder.big,
        icrc: Annotated[Icrc, typer.Option(help="Whether ICRCs are generated and verified.")] = Icrc.full,
        fixed_point: Annotated[
            bool,
            typer.Option("--fixed-point", help="Engines add integers only, floats go as fixed point."),
        ] = False,
        profile: Annotated[
            bool, typer.Option("--profile", help="Say where the time goes, a line a size.")
        ] = False,
        seed: Seed = 0,
        as_json: Json = False,
    ) -> None:
        peers = list(dict.fromkeys(peer or []))
        for name in peers:
            require(name)
        sizes = cases.sizes(begin, end, factor, step)
        sweep = cases.Sweep(
            cases.cases(primitive, sizes, op, dtype, root, ranks), iterations, warmup, bool(check), seed
        )
        setup = make_setup(
            mode=mode, topology_name=topology, ranks=ranks, payload=payload, window=window, seed=seed,
            byte_order=byte_order.value, icrc=icrc.value, datapath=None if datapath is None else datapath.value,
            deadline=60.0,
        )  # fmt: skip
        if profile and setup.datapath != "fast":
            raise ConfigError(f"--profile with datapath = {setup.datapath}, expected fast, which knows")
        rates: dict[str, float] | None = None
        if profile and topology == "single" and not as_json:
            from epic_host.fast.profile import rates as measured

            rates = measured(setup.params.payload_bytes)
        offered = INTEGERS if fixed_point else INTEGERS + FLOATS
        setup = replace(setup, params=replace(setup.params, datatypes=offered), profile=profile)

        def show(row: Row) -> None:
            if as_json:
                print(json.dumps(row.to_dict(mode, setup.datapath)), flush=True)
                return
            print(display.line(row, peers), flush=True)
            for text in breakdown.lines(row, rates) if profile else []:
                print(text, flush=True)

        for run_id in registry.clean():
            print(f"epic: cleaned up after run {run_id}, whose owner is gone", file=sys.stderr)
        if not as_json:
            print("\n".join(display.head(setup, peers, iterations, warmup)), flush=True)
        try:
            with interruptible(), Session(setup, "bench") as session:
                supervisor = Supervisor(session, sweep, peers, "fixed" if fixed_point else "native", show)
                try:
                    rows = supervisor.run()
                finally:
                    supervisor.close()
        except Interrupted as signal:
            raise SystemExit(_EXIT_SIGNAL + signal.number) from None
        if not as_json:
            for text in display.notes(rows, peers):
                print(text)
        if any(times.wrong for row in rows for times in row.times.values()):
            raise SystemExit(_EXIT_WRONG)

    bench.__doc__ = f"Time of {primitive} by size."
    return bench
