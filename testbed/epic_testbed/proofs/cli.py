"""`epic check tla`."""

from __future__ import annotations

from typing import Annotated

import typer

from epic_spec.command import check_group


def register(app: typer.Typer) -> None:
    """Add `check tla` to the command."""
    check_group(app).command("tla")(tla)


def tla(
    level: Annotated[str, typer.Option(help="test, or verify: the long campaign too.")] = "test",
    model: Annotated[
        str | None, typer.Option(help="Only models whose name matches, of any level.", metavar="GLOB")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(help="Leave a model of the level out (repeatable).", metavar="NAME")
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option(
            help="Check that a recorded run (NDJSON file, or the directory of `epic run --trace`) is a behaviour "
            "of its mode's specification, in place of the models.",
            metavar="FILE|DIR",
        ),
    ] = None,
    guards: Annotated[
        bool,
        typer.Option(
            "--guards", help="Take away each guard in turn; every one must be missed by some model."
        ),
    ] = False,
    render: Annotated[
        str | None,
        typer.Option(
            help="Write the counterexamples found as message sequences (.txt, .svg).", metavar="DIR"
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Workers at a time; default the number of cores.", metavar="N")
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option(help="Where the specifications are; default tla/ of this checkout.", metavar="DIR"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")] = False,
) -> None:
    """Run the TLC models of tla/ and hold what they find against tla/manifest.toml."""
    from epic_testbed.proofs import command

    options = command.Options.make(level, model, jobs, directory, as_json, render, tuple(skip or ()))
    if trace:
        code = command.check_traces(options, trace)
    elif guards:
        code = command.check_guards(options)
    else:
        code = command.check_models(options)
    raise typer.Exit(code)
