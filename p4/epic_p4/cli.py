"""`epic check p4` and `epic bench p4`."""

from __future__ import annotations

from typing import Annotated

import typer

from epic_spec.command import bench_group, check_group

Program = Annotated[
    list[str] | None,
    typer.Option(help="v1model, tna or a P4 file, several times; default both.", metavar="NAME|FILE"),
]
Define = Annotated[
    list[str] | None, typer.Option("--define", "-D", help="Preprocessor macro.", metavar="NAME=VALUE")
]
Include = Annotated[
    list[str] | None, typer.Option("--include", "-I", help="Directory for #include.", metavar="DIR")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]


def register(app: typer.Typer) -> None:
    """Add `check p4` and `bench p4` to the command."""
    check_group(app).command("p4")(check)
    bench_group(app).command("p4")(bench)


def check(
    program: Program = None,
    arch: Annotated[
        str | None, typer.Option(help="v1model or tna: what the program must be for.", metavar="ARCH")
    ] = None,
    define: Define = None,
    include: Include = None,
    target: Annotated[str, typer.Option(help="tofino1 or tofino2: whose limits count.")] = "tofino2",
    words: Annotated[
        str | None,
        typer.Option(help="Say what fits with these values of WORDS too.", metavar="N,N,..."),
    ] = None,
    compilers: Annotated[bool, typer.Option(help="Run p4c's compilers too, where they are on PATH.")] = True,
    deadline: Annotated[float, typer.Option(help="Seconds that each of these may take.")] = 300.0,
    explain: Annotated[bool, typer.Option("--explain", help="Say how the estimates are made.")] = False,
    as_json: Json = False,
) -> None:
    """Compile the P4 programs, hold them against the rules of the ASIC, and estimate stages and memory."""
    from epic_p4.rules import command

    options = command.Options.make(
        program or [],
        arch,
        target,
        include or [],
        define or [],
        words,
        compilers,
        deadline,
        explain,
        as_json,
    )
    raise typer.Exit(command.run(options))


def bench(
    words: Annotated[int, typer.Option(help="Payload words of a packet, 1 to 64.", metavar="N")] = 64,
    seconds: Annotated[float, typer.Option(help="How long to measure each program.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Packets a second that the executor does: epic.p4 and a bare aggregation program, for each architecture."""
    import json

    from epic_p4 import program_bench
    from epic_p4.bench import yardsticks
    from epic_spec.errors import ConfigError

    if not 1 <= words <= 64:
        raise ConfigError(f"words = {words}, expected 1 to 64, what the programs are compiled for")
    if not 0 < seconds <= 3600:
        raise ConfigError(f"seconds = {seconds:g}, expected more than 0 and at most 3600")
    rates = [*program_bench.rates(words, seconds), *yardsticks(words, seconds)]
    if as_json:
        rows = [
            {
                "name": one.name,
                "words": words,
                "packets": one.packets,
                "seconds": round(one.seconds, 4),
                "packets_per_second": round(one.per_second, 1),
            }
            for one in rates
        ]
        typer.echo(json.dumps({"ok": True, "rows": rows}))
        return
    typer.echo(f"{'program':<28} {'packets':>9} {'seconds':>8} {'packets/s':>10}")
    for one in rates:
        typer.echo(f"{one.name:<28} {one.packets:>9} {one.seconds:>8.2f} {one.per_second:>10.0f}")
