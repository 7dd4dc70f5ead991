"""`epic check rtl`."""

from __future__ import annotations

from typing import Annotated

import typer

from epic_spec.command import check_group


def register(app: typer.Typer) -> None:
    """Add `check rtl` to the command."""
    check_group(app).command("rtl")(check)


def check(
    level: Annotated[str, typer.Option(help="test, or verify: all of it.")] = "test",
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Only checks with such a name, of any level: lint/*, bench/*, proof/*, mutant/*, syn/*; repeatable.",
            metavar="GLOB",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Checks at a time; default the number of cores.", metavar="N")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say which checks there are, run none.")] = False,
    write_readme: Annotated[
        bool,
        typer.Option(
            "--write-readme",
            help="Put figures of syntheses and of the Mode III bench (all, or --only) and the list of mutants "
            "into rtl/README.md; "
            "with --list the mutants alone.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")] = False,
) -> None:
    """Lint, benches, proofs with their mutants, and synthesis of the RTL realization."""
    from epic_testbed.rtl.check import command

    options = command.Options.make(level, only or [], jobs, listing, write_readme, as_json)
    raise typer.Exit(command.run(options))
