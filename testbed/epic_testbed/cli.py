"""`epic run` and `epic testbed up|down|status`."""

from __future__ import annotations

import dataclasses
import json
import sys
from enum import StrEnum
from typing import Annotated

import typer

from epic_testbed.chaosmonkey import command as chaosmonkey
from epic_testbed.proofs import cli as proofs

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
Topology = Annotated[str, typer.Option(help="single, 1-2-4, 3-level or a TOML file.", metavar="NAME|FILE")]
Ranks = Annotated[
    int | None, typer.Option(help="Number of ranks, 1 to 64; default 4, or as many as a file places.")
]
Mode = Annotated[int, typer.Option(help="1 message termination, 2 packet termination, 3 translation.")]
Loss = Annotated[float, typer.Option(help="Probability that a node loses a frame it sends.")]
Duplicate = Annotated[float, typer.Option(help="Probability that it sends a frame twice.")]
Reorder = Annotated[float, typer.Option(help="Probability that later frames overtake one.")]
Corrupt = Annotated[float, typer.Option(help="Probability that it flips bits of a frame.")]
Seed = Annotated[int, typer.Option(help="Makes data, QPNs, PSNs and fault decisions repeatable.")]
Mtu = Annotated[int | None, typer.Option(help="MTU in bytes; default 1500 for netns, 65535 for udp.")]
Payload = Annotated[
    int | None, typer.Option(help="Payload of a packet in bytes; default the largest that fits the MTU.")
]
Window = Annotated[int | None, typer.Option(help="Cells that a rank may have outstanding.")]
Subnet = Annotated[
    str | None, typer.Option(help="Addresses to use; default 127.0.0.0/24 for udp, 10.47.91.0/24 for netns.")
]
Deadline = Annotated[
    float, typer.Option(help="Seconds without progress until a rank gives up with an error.")
]
Capture = Annotated[str | None, typer.Option(help="Write a pcap a node into this directory.", metavar="DIR")]
Trace = Annotated[
    str | None,
    typer.Option(
        help="Record what every node does into this directory, for `epic check tla --trace`.", metavar="DIR"
    ),
]
AckReflection = Annotated[
    bool,
    typer.Option("--ack-reflection", help="Mode 3: hosts are RC endpoints, the tree reflects their ACKs."),
]
Reproducible = Annotated[
    bool, typer.Option("--reproducible", help="Floating point independent of the order of arrival.")
]


class Transport(StrEnum):
    """Where the nodes are."""

    udp = "udp"
    netns = "netns"


class ByteOrder(StrEnum):
    """Byte order of payload elements."""

    big = "big"
    little = "little"


class Icrc(StrEnum):
    """Whether ICRCs are generated and verified."""

    full = "full"
    none = "none"


class DatapathName(StrEnum):
    """How frames are worked on."""

    reference = "reference"
    fast = "fast"


class Switch(StrEnum):
    """What the switches are."""

    soft = "soft"
    p4 = "p4"
    p4_tna = "p4-tna"
    bmv2 = "bmv2"
    rtl = "rtl"


SwitchName = Annotated[
    Switch,
    typer.Option(
        help="What the switches are. p4: epic.p4 for v1model, executed here. p4-tna: the same for Tofino."
        " bmv2: simple_switch_grpc, which must be on PATH. rtl: the Verilog engines, simulated (modes 2 and 3)."
    ),
]
Datapath = Annotated[
    DatapathName | None,
    typer.Option(
        help="How ranks and software switches work on frames: one by one as the reference, or in batches. Default fast,"
        " where there is one: over udp, in modes 2 and 3, without --trace.",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A parameter of the top module with --switch rtl, such as FP32=0.", metavar="NAME=VALUE"
    ),
]


def register(app: typer.Typer) -> None:
    """Add `run`, `testbed`, `chaos` and `check` to the command."""
    proofs.register(app)
    chaosmonkey.register(app)
    app.command("run")(run)
    testbed = typer.Typer(help="Trees of switches for hands-on work.", no_args_is_help=True)
    testbed.command("up")(up)
    testbed.command("down")(down)
    testbed.command("status")(status)
    app.add_typer(testbed, name="testbed")


def run(
    mode: Mode = 3,
    topology: Topology = "1-2-4",
    ranks: Ranks = None,
    collective: Annotated[
        str,
        typer.Option(
            help="all, or some of all_reduce, reduce, broadcast, reduce_scatter, all_gather, barrier."
        ),
    ] = "all",
    op: Annotated[str, typer.Option(help="all, or some of sum, max, min.")] = "sum",
    dtype: Annotated[
        str, typer.Option(help="all, or some of int8, int16, int32, int64, fp16, bf16, fp32, fp64.")
    ] = "int32,fp32",
    size: Annotated[str, typer.Option(help="Bytes, with K or M, separated by commas.")] = "4K,64K,256K",
    iterations: Annotated[int, typer.Option(help="How often each case runs, with fresh data.")] = 3,
    loss: Loss = 0.0,
    duplicate: Duplicate = 0.0,
    reorder: Reorder = 0.0,
    corrupt: Corrupt = 0.0,
    seed: Seed = 0,
    transport: Annotated[
        Transport, typer.Option(help="udp: loopback addresses. netns: network namespaces, needs root.")
    ] = Transport.udp,
    mtu: Mtu = None,
    payload: Payload = None,
    window: Window = None,
    subnet: Subnet = None,
    deadline: Deadline = 5.0,
    capture: Capture = None,
    trace: Trace = None,
    byte_order: Annotated[
        ByteOrder, typer.Option(help="Byte order of the elements on the wire.")
    ] = ByteOrder.big,
    icrc: Annotated[
        Icrc | None,
        typer.Option(help="none: ICRC is sent as 0 and not verified; default full where the switch can."),
    ] = None,
    ack_reflection: AckReflection = False,
    reproducible: Reproducible = False,
    back_to_back: Annotated[
        bool,
        typer.Option(
            "--back-to-back", help="No barrier between collectives (times then include waiting for others)."
        ),
    ] = False,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Order the cases so that each follows each, itself included.")
    ] = False,
    kill: Annotated[
        list[str] | None,
        typer.Option(
            help="kill -9 a node: rank:NUMBER@SECONDS or switch:NAME@SECONDS.", metavar="NODE@SECONDS"
        ),
    ] = None,
    silent: Annotated[
        list[str] | None, typer.Option(help="rank:NUMBER never calls a collective.", metavar="NODE")
    ] = None,
    switch: SwitchName = Switch.soft,
    parameters: Set = None,
    datapath: Datapath = None,
    manager: Annotated[
        bool | None,
        typer.Option(
            help="A manager gives the group its path: collectives survive a lost switch. Without one the group is"
            " installed once. Default: with one, but for --switch rtl, whose slow simulation needs timers of its own.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring up a tree of switches and ranks, run collectives over real sockets, check every element against
    NumPy.
    """
    from epic_testbed import cases as case_module
    from epic_testbed import chaos, run, switches
    from epic_testbed.options import Faults, make_setup
    from epic_testbed.supervisor import Work

    setup = make_setup(
        mode=mode,
        topology_name=topology,
        ranks=ranks,
        transport=transport.value,
        faults=Faults(loss, duplicate, reorder, corrupt),
        seed=seed,
        mtu=mtu,
        payload=payload,
        window=window,
        subnet=subnet,
        deadline=deadline,
        byte_order=byte_order.value,
        icrc=None if icrc is None else icrc.value,
        ack_reflection=ack_reflection,
        reproducible=reproducible,
        capture=capture,
        trace=trace,
        switch=switch.value,
        parameters=switches.parse(parameters or []),
        datapath=None if datapath is None else datapath.value,
    )
    cases = case_module.select(
        setup.params, setup.ranks, collective, op, dtype, size, iterations, pairs, reproducible
    )
    work = Work(cases, iterations, reproducible, back_to_back, chaos.parse(kill or [], silent or [], setup))
    managed = setup.switch.rto_min_us is None if manager is None else manager
    raise typer.Exit(run.run(setup, work, as_json, managed))


def up(
    mode: Mode = 3,
    topology: Topology = "1-2-4",
    ranks: Ranks = None,
    transport: Annotated[Transport, typer.Option(help="udp, or netns (needs root).")] = Transport.udp,
    loss: Loss = 0.0,
    duplicate: Duplicate = 0.0,
    reorder: Reorder = 0.0,
    corrupt: Corrupt = 0.0,
    seed: Seed = 0,
    mtu: Mtu = None,
    payload: Payload = None,
    window: Window = None,
    subnet: Subnet = None,
    deadline: Deadline = 5.0,
    capture: Capture = None,
    ack_reflection: AckReflection = False,
    switch: SwitchName = Switch.soft,
    parameters: Set = None,
    datapath: Datapath = None,
    directory: Annotated[
        str | None, typer.Option(help="Where to write group.json and rank0.json, …; default: the run's own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Start switches and install a group, for your own programs as ranks."""
    from epic_testbed import hands_on, switches
    from epic_testbed.options import Faults, make_setup

    setup = make_setup(
        mode=mode,
        topology_name=topology,
        ranks=ranks,
        transport=transport.value,
        faults=Faults(loss, duplicate, reorder, corrupt),
        seed=seed,
        mtu=mtu,
        payload=payload,
        window=window,
        subnet=subnet,
        deadline=deadline,
        ack_reflection=ack_reflection,
        capture=capture,
        switch=switch.value,
        parameters=switches.parse(parameters or []),
        datapath=None if datapath is None else datapath.value,
    )
    testbed = hands_on.up(setup, directory)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(testbed)))
    else:
        typer.echo("\n".join(hands_on.how_to(testbed)))


def down(
    run_id: Annotated[str | None, typer.Argument(help="Which testbed; all of them by default.")] = None,
    as_json: Json = False,
) -> None:
    """Stop testbeds that `up` started, and clean up after runs that were killed."""
    from epic_testbed import hands_on

    gone = hands_on.down(run_id)
    if as_json:
        typer.echo(json.dumps({"removed": gone}))
    else:
        typer.echo("\n".join(f"{name}: removed" for name in gone) or "nothing was up")


def status(as_json: Json = False) -> None:
    """Show testbeds and runs with their processes."""
    from rich.console import Console

    from epic_testbed import hands_on

    rows = hands_on.status()
    if as_json:
        typer.echo(json.dumps({"runs": rows}))
        return
    Console(file=sys.stdout).print(hands_on.status_table(rows) if rows else "nothing is up")
