"""Sub-commands of this package: `epic spec gen|lint|show` and `epic pcap`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from epic_spec import capture, lint, pcap, show
from epic_spec.gen import files
from epic_spec.loader import REPO, load

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def register(app: typer.Typer) -> None:
    """Add `spec` and `pcap` to the command."""
    spec = typer.Typer(help="The specification: generators, linter, look-up.", no_args_is_help=True)
    spec.command("gen")(spec_gen)
    spec.command("lint")(spec_lint)
    spec.command("show")(spec_show)
    app.add_typer(spec, name="spec")
    app.command("pcap")(decode_capture)


def spec_gen(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if a file would change.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Generate every file that derives from spec/epic.toml."""
    changed = files.changed(load(), REPO)
    if not check:
        files.write(changed)
    names = [str(path.relative_to(REPO)) for path in changed]
    if as_json:
        typer.echo(json.dumps({"ok": not (check and names), "changed": names}))
    else:
        for name in names:
            typer.echo(f"{name}: would change, run `epic spec gen`" if check else f"{name}: written")
        if not names:
            typer.echo("everything is up to date")
    raise typer.Exit(1 if check and names else 0)


def spec_lint(as_json: Json = False) -> None:
    """Check spec/epic.toml, spec/epic.md, what the sources cite and what the conformance suite covers."""
    coverage = lint.load_coverage()
    findings = lint.lint(load(), REPO, coverage)
    if as_json:
        rows = [f._asdict() for f in findings]
        typer.echo(
            json.dumps({"ok": not findings, "coverage_checked": coverage is not None, "findings": rows})
        )
    else:
        for finding in findings:
            typer.echo(f"{finding.where}: {finding.what}")
        typer.echo(f"{len(findings)} findings" if findings else "no findings")
        if coverage is None:
            typer.echo("coverage by the conformance suite was not checked: no suite is installed")
    raise typer.Exit(1 if findings else 0)


def spec_show(
    what: Annotated[
        str, typer.Argument(help="A table (counters, clauses, ...), or a name or id in one.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Look up a clause, a counter, a capability, or list a whole table."""
    found = show.find(load(), what)
    if as_json:
        typer.echo(json.dumps(found.rows if found.many else found.rows[0], ensure_ascii=False))
    else:
        for text in show.text(found):
            typer.echo(text)


def decode_capture(
    file: Annotated[Path, typer.Argument(help="A pcap or pcapng file of link type Ethernet.")],
    stale: Annotated[
        int, typer.Option(min=1, max=1 << 23, help="How many PSNs behind the newest a packet is stale.")
    ] = capture.DEFAULT_STALE,
    as_json: Json = False,
) -> None:
    """Decode a capture, one line a frame."""
    annotator = capture.Annotator(stale)
    start_ns = None
    for record in pcap.read(file):
        line = annotator.line(record)
        if as_json:
            sys.stdout.write(json.dumps(line.to_dict()) + "\n")
            continue
        if start_ns is None:
            start_ns = record.time_ns
            sys.stdout.write(capture.HEADING + "\n")
        sys.stdout.write(capture.text(line, start_ns) + "\n")
