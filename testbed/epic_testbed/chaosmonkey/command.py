"""`epic chaos`: the chaos test as a command."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from epic_testbed.chaosmonkey.schedule import Schedule

Seconds = Annotated[float, typer.Option(min=5.0, max=86400.0, help="How long the monkey is at work.")]
Jobs = Annotated[int, typer.Option(min=1, max=100, help="Jobs of 2 to 8 ranks.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same jobs and the same actions.")]
Groups = Annotated[
    int, typer.Option(min=1, max=1024, help="Groups a switch takes; more fall back to the hosts.")
]
Think = Annotated[float, typer.Option(min=0.0, max=60.0, help="Seconds a rank waits between two steps.")]
Lease = Annotated[float, typer.Option(min=1.0, max=60.0, help="Seconds after which a silent rank is lost.")]
Plan = Annotated[bool, typer.Option("--plan", help="Print what would be done, and do nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]

_PIPE_WIDTH = 120


def register(app: typer.Typer) -> None:
    """Add `epic chaos` to the command."""
    app.command()(chaos)


def chaos(
    seconds: Seconds = 180.0,
    jobs: Jobs = 20,
    seed: Seed = 7,
    groups: Groups = 12,
    think: Think = 1.0,
    lease: Lease = 10.0,
    plan: Plan = False,
    as_json: Json = False,
) -> None:
    """Many jobs on a fabric of three levels while a seeded monkey kills ranks, switches and the manager and cuts links.

    Every element of every collective is checked; at the end nothing may be left: no slot, group entry, address, socket,
    process. Exit code 1 when something was wrong.
    """
    from epic_testbed.chaosmonkey import layout, schedule

    made = schedule.make(seed, seconds, jobs, layout.HOSTS, layout.SWITCHES, layout.LINKS)
    if plan:
        _show_plan(made, as_json)
        return
    from rich.console import Console

    from epic_host.fabric.resources import Capacity
    from epic_testbed.chaosmonkey.cluster import ClusterOptions
    from epic_testbed.chaosmonkey.run import run
    from epic_testbed.chaosmonkey.supervisor import Limits
    from epic_testbed.signals import Interrupted

    begin = time.monotonic()

    def note(text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - begin:6.1f} s] {text}\n")

    options = ClusterOptions(capacity=Capacity(groups=groups), seed=seed)
    try:
        report = run(made, options, Limits(lease=lease, think=think), note)
    except Interrupted as interrupted:
        sys.stderr.write(f"epic chaos: {interrupted}, everything was taken down\n")
        raise typer.Exit(128 + interrupted.number) from None
    if as_json:
        print(json.dumps(report.to_dict()))
    else:
        console = Console()
        # A pipe has no width: nothing is folded then.
        report.show(console if console.is_terminal else Console(width=_PIPE_WIDTH))
    raise typer.Exit(0 if report.ok else 1)


def _show_plan(made: Schedule, as_json: bool) -> None:
    if as_json:
        print(json.dumps(made.to_dict() | {"digest": made.digest}))
        return
    print(f"seed {made.seed}, {made.seconds:g} s, schedule {made.digest}")
    for job in made.jobs:
        print(f"  {job.name}: {job.size} ranks on {' '.join(job.hosts)}")
    for action in made.actions:
        more = f"back after {action.away:.1f} s" if action.away else action.then
        print(f"  {action.at:7.2f} s  {action.kind:8}{action.target:12}{more}")
