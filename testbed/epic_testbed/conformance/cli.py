"""`epic conformance`, `epic conformance list`, `epic conformance merge`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epic_spec.errors import ConfigError

if TYPE_CHECKING:
    from epic_testbed.conformance.case import Case

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
MODES = (1, 2, 3)
SIDES = ("engine", "agent")


def register(app: typer.Typer) -> None:
    """Add `conformance` to the command."""
    conformance = typer.Typer(
        help="The conformance suite: which clauses a device meets.", invoke_without_command=True
    )
    conformance.callback()(run)
    conformance.command("list")(list_cases)
    conformance.command("merge")(merge_reports)
    app.add_typer(conformance, name="conformance")


def run(
    context: typer.Context,
    dut: Annotated[
        str | None, typer.Option(help="The device: reference, soft, ethernet or another adapter.")
    ] = None,
    mode: Annotated[
        int | None, typer.Option(help="1 message termination, 2 packet termination, 3 translation.")
    ] = None,
    case: Annotated[
        str | None, typer.Option(help="Only cases of this name, such as 'm3_*/*'.", metavar="GLOB")
    ] = None,
    clause: Annotated[
        str | None, typer.Option(help="Only cases of this clause, such as EPIC-M3-02.", metavar="ID")
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes QPNs, PSNs and random scripts repeatable.")] = 0,
    deviations: Annotated[
        Path | None, typer.Option(help="TOML file that changes set-up or timeouts.", metavar="FILE")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write report.html, report.json, junit.xml and captures into this directory.", metavar="DIR"
        ),
    ] = None,
    port: Annotated[
        list[str] | None,
        typer.Option(help="A port of the device, such as 0=veth0; as often as needed.", metavar="N=NAME"),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the adapter; as often as needed.", metavar="KEY=VALUE"),
    ] = None,
    datapath: Annotated[
        str | None,
        typer.Option(
            help="The same as --option datapath=…: of soft and soft-agent, which take the fast one where there is one.",
            metavar="reference|fast",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the cases of a mode on a device. Exit code 1 when a case or clause failed."""
    if context.invoked_subcommand is not None:
        return
    if dut is None or mode is None:
        missing = " and ".join(n for n, v in (("--dut NAME", dut), ("--mode M", mode)) if v is None)
        raise ConfigError(f"conformance: {missing} missing, expected a device, or list or merge")
    _check(mode, seed)
    from epic_testbed.conformance import report_files
    from epic_testbed.conformance.deviations import load_deviations
    from epic_testbed.conformance.display import make_display
    from epic_testbed.conformance.results import Request
    from epic_testbed.conformance.runner import run_suite
    from epic_testbed.dut import open_dut

    option = [*(option or []), *([] if datapath is None else [f"datapath={datapath}"])]
    options = adapter_options(port or [], option)
    allowed = load_deviations(deviations)
    words = [w for p in port or [] for w in ("--port", p)] + [w for o in option for w in ("--option", o)]
    request = Request(
        dut, mode, seed, case, clause, str(deviations) if deviations is not None else None, tuple(words)
    )
    if report is not None:
        report_files.prepare(report)
    display = make_display(as_json)
    with display:
        found = run_suite(lambda: open_dut(dut, mode, options), request, allowed, progress=display.progress)
    if report is not None:
        report_files.write(found, report)
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
    else:
        display.summary(found, report)
    raise typer.Exit(0 if found.ok else 1)


def _check(mode: int, seed: int) -> None:
    if mode not in MODES:
        raise ConfigError(f"--mode {mode}, expected 1, 2 or 3")
    if not 0 <= seed < 1 << 32:
        raise ConfigError(f"--seed {seed}, expected 0 to {(1 << 32) - 1}")


def adapter_options(ports: Sequence[str], options: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments of an adapter: `port` {number: name} where ports are given, and each option as text.

    Raises ConfigError for a word of another form or something given twice.
    """
    found: dict[str, Any] = {}
    for word in options:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(f"--option {word!r}, expected KEY=VALUE")
        if key in found or key == "port":
            raise ConfigError(f"--option {word!r}: given twice" if key in found else "use --port for ports")
        found[key] = value
    numbers: dict[int, str] = {}
    for word in ports:
        number, equals, name = word.partition("=")
        if not equals or not number.isdecimal() or not number.isascii() or not name:
            raise ConfigError(f"--port {word!r}, expected N=NAME, such as 0=veth0")
        if int(number) in numbers:
            raise ConfigError(f"--port {word!r}: port {int(number)} is given twice")
        numbers[int(number)] = name
    return found | ({"port": numbers} if numbers else {})


def list_cases(
    mode: Annotated[int | None, typer.Option(help="Only cases of this mode.")] = None,
    side: Annotated[str | None, typer.Option(help="engine or agent.")] = None,
    as_json: Json = False,
) -> None:
    """List cases with what they need and the clauses that they show."""
    if mode is not None:
        _check(mode, 0)
    if side is not None and side not in SIDES:
        raise ConfigError(f"--side {side!r}, expected engine or agent")
    from rich.console import Console
    from rich.table import Table

    from epic_testbed.conformance.case import all_cases

    chosen = [
        c for c in all_cases() if (mode is None or mode in c.modes) and (side is None or c.side == side)
    ]
    if as_json:
        typer.echo(json.dumps({"cases": [_case_row(c) for c in chosen]}))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    for name in ("side", "modes"):
        table.add_column(name, no_wrap=True)
    table.add_column("clauses", overflow="fold")
    table.add_column("needs", overflow="fold")
    for c in chosen:
        needs = ", ".join(f"{name} = {value}" for name, value in c.needs)
        table.add_row(c.name, c.side, ",".join(map(str, c.modes)), " ".join(c.clauses), needs)
    out = Console(file=sys.stdout)
    out.print(table)
    clauses = {clause for c in chosen for clause in c.clauses}
    out.print(f"\n{len(chosen)} cases, {len(clauses)} clauses", highlight=False)


def _case_row(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "side": case.side,
        "modes": list(case.modes),
        "clauses": list(case.clauses),
        "needs": [list(need) for need in case.needs],
        "procedure": case.procedure,
    }


def merge_reports(
    directories: Annotated[
        list[Path], typer.Argument(help="Directories of reports.", metavar="REPORT_DIR...")
    ],
    report: Annotated[
        Path, typer.Option(help="Write matrix.html and matrix.json into this directory.", metavar="DIR")
    ],
    as_json: Json = False,
) -> None:
    """One matrix, realization by clause, of several reports. Exit code 1 when one of them has failed."""
    from epic_testbed.conformance import merge
    from epic_testbed.conformance.display import print_matrix

    columns = merge.columns(directories)
    merge.write(columns, report)
    found = merge.matrix(columns)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        print_matrix(found, report / merge.HTML_FILE)
    raise typer.Exit(0 if found["ok"] else 1)
