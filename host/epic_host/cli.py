"""Commands of this package: `epic switch serve|counters|status` here, those of the manager in modules of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from epic_host import bench_manager, bench_switch, cli_group, cli_manager, cli_pki, doctor, node, top
from epic_host.cli_options import As, Json, Timeout, TlsFolder, credentials

switch_app = typer.Typer(no_args_is_help=True, help="Software switches: run one, look into one.")

Address = Annotated[
    str, typer.Argument(help="Control address: unix:/path or 127.x.y.z:port, others with --tls.")
]


def register(app: typer.Typer) -> None:
    """Add this package's commands to the `epic` command."""
    app.add_typer(switch_app, name="switch")
    for module in (cli_manager, node, cli_group, cli_pki, top, doctor, bench_manager, bench_switch):
        module.register(app)


@switch_app.command()
def serve(
    config: Annotated[Path, typer.Option(help="JSON file: name, engine, control, transport, and more.")],
    datapath: Annotated[
        str | None,
        typer.Option(
            help="Turn the file's engine reference-mN into fast-mN (fast), or back (reference); else it is as the file"
            " says.",
            metavar="reference|fast",
        ),
    ] = None,
    detach: Annotated[bool, typer.Option(help="Keep running when the parent process ends.")] = False,
) -> None:
    """Run a switch until SIGTERM or SIGINT. Prints "ready" when it serves."""
    from epic_host import serving

    serving.serve(config, datapath, detach=detach)


@switch_app.command()
def counters(
    address: Address, tls: TlsFolder = None, who: As = "", as_json: Json = False, timeout: Timeout = 5.0
) -> None:
    """Print the counters of a switch; the table leaves out those that are 0."""
    from epic_host.control import EngineClient

    with EngineClient(address, timeout, credentials(tls, who)) as client:
        counts = client.counters()
    if as_json:
        print(json.dumps(counts, sort_keys=True))
        return
    table = Table("counter", "value")
    for name, value in sorted(counts.items()):
        if value:
            table.add_row(name, str(value))
    Console().print(table)


@switch_app.command()
def status(
    address: Address,
    group: Annotated[int, typer.Argument(min=0, help="Group number.")],
    tls: TlsFolder = None,
    who: As = "",
    as_json: Json = False,
    timeout: Timeout = 5.0,
) -> None:
    """Print the live slots of a group and its edges in error."""
    from epic_host.control import EngineClient

    with EngineClient(address, timeout, credentials(tls, who)) as client:
        state = client.status(group)
    if as_json:
        slots: list[dict[str, Any]] = [
            {"cell": s.cell, "bitmap": s.bitmap, "done": s.done} for s in state.slots
        ]
        print(
            json.dumps(
                {
                    "group": state.group,
                    "epoch": state.epoch,
                    "failed_edges": list(state.failed_edges),
                    "slots": slots,
                }
            )
        )
        return
    table = Table("cell", "children that contributed", "done")
    for slot in state.slots:
        children = [str(i) for i in range(slot.bitmap.bit_length()) if slot.bitmap >> i & 1]
        table.add_row(str(slot.cell), " ".join(children) or "-", "yes" if slot.done else "no")
    console = Console()
    console.print(f"group {state.group}, epoch {state.epoch}")
    console.print(f"edges in error: {', '.join(state.failed_edges) or 'none'}")
    console.print(table)
