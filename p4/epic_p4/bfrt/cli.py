"""`epic tofino`: ports, groups and check list of a Tofino that runs p4/tofino/epic.p4 (see p4/tofino/RUNBOOK.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epic_spec.command import EXIT_FAILED
from epic_spec.command import group as command_group
from epic_spec.errors import ConfigError

if TYPE_CHECKING:
    from epic_p4.bfrt.client import BfrtClient
    from epic_p4.control import GroupController, ProgramModel
    from epic_p4.control.plain import PlainGroup

Address = Annotated[
    str, typer.Option("--address", help="BFRuntime server of the switch.", metavar="HOST:PORT")
]
ProgramName = Annotated[
    str, typer.Option("--name", help="Name under which the switch loaded the program.", metavar="NAME")
]
Source = Annotated[
    Path, typer.Option("--program", help="The P4 source that it was made from.", metavar="FILE")
]
Define = Annotated[
    list[str] | None, typer.Option("--define", "-D", help="Macro it was made with.", metavar="NAME=VALUE")
]
Plans = Annotated[
    list[Path], typer.Option("--group", help="group.json, once for every group.", metavar="FILE")
]
Engine = Annotated[str, typer.Option("--engine", help="Which engine of the tree this switch is.")]
Pipe = Annotated[int, typer.Option("--pipe", min=0, max=7, help="Pipe of the ports: registers are per pipe.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

DEFAULT_ADDRESS = "localhost:50052"


def register(app: typer.Typer) -> None:
    """Add `tofino` to the command."""
    tofino = command_group(app, "tofino", "A Tofino that runs EPIC's program: ports, groups, check list.")
    for command in (ports, check, apply, counters, status, describe):
        tofino.command(command.__name__)(command)


def ports(
    port: Annotated[
        list[str], typer.Option("--port", help="A device port and its speed in Gb/s.", metavar="PORT[:SPEED]")
    ],
    fec: Annotated[str, typer.Option(help="none, fc or rs.")] = "none",
    auto_negotiation: Annotated[bool, typer.Option(help="Negotiate the speed.")] = False,
    mtu: Annotated[int, typer.Option(help="Largest frame in bytes, FCS included.")] = 9216,
    address: Address = DEFAULT_ADDRESS,
    name: ProgramName = "epic",
) -> None:
    """Add, set up and enable ports."""
    from epic_p4.bfrt.ports import PortSetting, bring_up

    settings = []
    for text in port:
        number, _, speed = text.partition(":")
        if not number.isdecimal() or (speed and not speed.isdecimal()):
            raise ConfigError(f"port {text!r}: expected PORT or PORT:SPEED, like 132:100")
        settings.append(PortSetting(int(number), int(speed or 100), fec, auto_negotiation, mtu))
    with _connected(name, address) as client:
        bring_up(client, settings)
    typer.echo(f"{len(settings)} ports enabled")


def check(
    group: Plans,
    engine: Engine,
    address: Address = DEFAULT_ADDRESS,
    name: ProgramName = "epic",
    as_json: Json = False,
) -> None:
    """The check list of installed groups: program, ports, MTU, multicast, clock; a row a check."""
    from epic_p4.bfrt.checklist import checklist, render

    groups = _groups(group, engine)
    with _connected(name, address) as client:
        checks = checklist(client, name, groups)
    if as_json:
        rows = [{"check": c.what, "found": c.found, "expected": c.expected, "good": c.good} for c in checks]
        typer.echo(json.dumps({"checks": rows}))
    else:
        typer.echo(render(checks))
    if not all(one.good for one in checks):
        raise typer.Exit(EXIT_FAILED)


def apply(
    engine: Engine,
    program: Source,
    group: Annotated[
        list[Path] | None,
        typer.Option("--group", help="group.json, once for every group; none removes all.", metavar="FILE"),
    ] = None,
    define: Define = None,
    address: Address = DEFAULT_ADDRESS,
    name: ProgramName = "epic",
    pipe: Pipe = 0,
) -> None:
    """Make the switch have exactly these groups: what was installed before is removed."""
    groups = _groups(group or [], engine)
    model = _model(program, define)
    with _connected(name, address) as client:
        controller = _controller(client, model, pipe)
        controller.reset()
        for one in groups:
            controller.install(one)
    typer.echo(f"{len(groups)} groups installed")


def counters(
    program: Source,
    define: Define = None,
    address: Address = DEFAULT_ADDRESS,
    name: ProgramName = "epic",
    as_json: Json = False,
) -> None:
    """Counters of the switch by the names of the specification; the table leaves out those that are 0."""
    model = _model(program, define)
    with _connected(name, address) as client:
        values = _controller(client, model, 0).counters()
    if as_json:
        typer.echo(json.dumps(values))
        return
    for counter, value in values.items():
        if value:
            typer.echo(f"{counter:<24}{value:>16}")


def status(
    group: Plans,
    engine: Engine,
    program: Source,
    define: Define = None,
    address: Address = DEFAULT_ADDRESS,
    name: ProgramName = "epic",
    pipe: Pipe = 0,
    as_json: Json = False,
) -> None:
    """Live slots of groups that `apply` installed with the same options in the same order."""
    from epic_p4.bfrt.backend import BfrtBackend
    from epic_p4.control import GroupController
    from epic_p4.control.readback import read_slots

    groups = _groups(group, engine)
    model = _model(program, define)
    # Where a group's slots are follows from the groups before it, so planning them again finds them.
    planner = GroupController(_Nowhere(), model)
    places = [planner.install(one) for one in groups]
    with _connected(name, address) as client:
        backend = BfrtBackend(client, pipe=pipe)
        found = {place.group: read_slots(backend, model, place) for place in places}
    rows = [
        {"group": number, "cell": slot.cell, "bitmap": slot.bitmap, "done": slot.done}
        for number, slots in found.items()
        for slot in slots
    ]
    if as_json:
        typer.echo(json.dumps({"slots": rows}))
        return
    for row in rows:
        typer.echo(
            "group {group:<6} cell {cell:<9} bitmap {bitmap:#x} {0}".format(
                "done" if row["done"] else "", **row
            )
        )


def describe(
    program: Source,
    define: Define = None,
    against: Annotated[
        Path | None, typer.Option(help="A bf-rt.json of the SDE to compare with.", metavar="FILE")
    ] = None,
) -> None:
    """Print the bf-rt description of a program, or say how the SDE's differs from what the driver expects."""
    from epic_p4.bfrt.description import describe as description
    from epic_p4.bfrt.description import differences

    ours = description(_model(program, define).schema)
    if against is None:
        typer.echo(json.dumps(ours, indent=1))
        return
    try:
        theirs = json.loads(against.read_text(encoding="utf-8"))
        lines = differences(ours, theirs)
    except OSError as error:
        raise ConfigError(f"{against}: {error.strerror}, expected a readable file") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{against}: not a bf-rt description ({error})") from None
    typer.echo("\n".join(lines) if lines else "no difference")
    if lines:
        raise typer.Exit(EXIT_FAILED)


class _Nowhere:
    """A backend that writes to nothing: only the plan is wanted."""

    def write(self, stage: object) -> None:
        """Nothing."""

    def erase(self, stage: object) -> None:
        """Nothing."""

    def wipe(self, tables: object, multicast: object) -> None:
        """Nothing."""

    def counter(self, name: str, size: int) -> list[int]:
        """Nothing."""
        raise NotImplementedError

    def register(self, name: str, first: int, count: int, field: str = "") -> list[int]:
        """Nothing."""
        raise NotImplementedError


def _groups(paths: list[Path], engine: str) -> list[PlainGroup]:
    from epic_p4.control.plain import read_group

    return [read_group(path, engine) for path in paths]


def _model(source: Path, defines: list[str] | None) -> ProgramModel:
    from epic_p4.control import ProgramModel, schema_of
    from epic_p4.frontend import compile_file
    from epic_p4.p4info import generate

    macros = {}
    for text in defines or []:
        macro, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"define {text!r}: expected NAME=VALUE")
        macros[macro] = value
    return ProgramModel.of(schema_of(generate(compile_file(source, defines=macros))))


def _controller(client: BfrtClient, model: ProgramModel, pipe: int) -> GroupController:
    from epic_p4.bfrt.backend import BfrtBackend
    from epic_p4.control import GroupController

    return GroupController(BfrtBackend(client, pipe=pipe), model)


@contextmanager
def _connected(program: str, address: str) -> Iterator[BfrtClient]:
    from epic_p4.bfrt.client import BfrtError
    from epic_p4.bfrt.sde import connect

    try:
        client = connect(program, address)
    except BfrtError as error:
        raise ConfigError(f"switch {address}: cannot connect: {' '.join(str(error).split())}") from None
    try:
        yield client
    finally:
        client.close()
