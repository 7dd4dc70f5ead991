"""Testbeds for your own programs: `up` starts switches and installs a group, `connect` makes a rank of it."""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from epic_host import Communicator
from epic_models.reference.group import GroupPlan
from epic_spec.errors import ConfigError
from epic_testbed import registry
from epic_testbed.options import Setup
from epic_testbed.session import Session
from epic_testbed.signals import interruptible, undisturbed


@dataclass(frozen=True, slots=True)
class Testbed:
    """A testbed that is up. `namespaces` has each rank's network namespace, None over udp."""

    __test__ = False

    id: str
    directory: str
    transport: str
    ranks: int
    namespaces: list[str | None]
    control: dict[str, str]


def up(setup: Setup, directory: str | None = None) -> Testbed:
    """Start the switches of `setup`, install its group and write `group.json` and a `rank<N>.json` a rank.

    The switches go on after this process ends, until `down`. Raises ConfigError and StartError; nothing is
    left then.
    """
    registry.clean()
    with interruptible():
        session = Session(setup, "testbed", owned=False)
        try:
            session.start()
            session.await_ready(list(session.switches.values()), lambda line: line == "ready", "switch")
            session.install()
            target = Path(directory).absolute() if directory else session.run.path
            namespaces = [session.namespace_of(setup.plan.hosts[rank]) for rank in range(setup.ranks)]
            _write(target, session, namespaces)
            session.run.about["directory"] = str(target)
            session.run.about["control"] = session.group.control
            session.run.about["phase"] = "up"
            session.run.save()
        except BaseException:
            with undisturbed():
                session.close()
            raise
        session.detach()
    return Testbed(
        session.run.id, str(target), setup.transport, setup.ranks, namespaces, dict(session.group.control)
    )


def _write(target: Path, session: Session, namespaces: list[str | None]) -> None:
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / "group.json").write_text(json.dumps(session.group.to_dict(), indent=1))
        for rank, namespace in enumerate(namespaces):
            data = {"rank": rank, "transport": session.transport_of(rank), "namespace": namespace}
            (target / f"rank{rank}.json").write_text(json.dumps(data, indent=1))
    except OSError as error:
        raise ConfigError(f"directory {target}: {error.strerror}, expected one that can be written") from None


def connect(directory: str, rank: int, **options: Any) -> Communicator:
    """The communicator of a rank of the testbed that wrote `directory`; `options` go to Communicator.

    Over netns the caller has to be in the rank's namespace. Raises ConfigError.
    """
    path = Path(directory)
    try:
        group = GroupPlan.from_dict(json.loads((path / "group.json").read_text()))
        own = json.loads((path / f"rank{rank}.json").read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"testbed directory {directory!r}: {error}, "
            f"expected group.json and rank{rank}.json of `epic testbed up`"
        ) from None
    return Communicator(rank, group, own["transport"], **options)


def how_to(testbed: Testbed) -> list[str]:
    """What to type next."""
    switches = len(testbed.control)
    lines = [
        f"testbed {testbed.id} is up: {switches} switch{'es' * (switches > 1)} over {testbed.transport}, "
        f"group of {testbed.ranks} ranks installed",
        f"group and ranks: {testbed.directory}/group.json, rank0.json, …",
        "",
        "A rank is a Python program; save this as rank.py:",
        "",
        "    import sys, numpy",
        "    from epic_testbed.hands_on import connect",
        "",
        "    rank = int(sys.argv[1])",
        f'    comm = connect("{testbed.directory}", rank)',
        "    print(rank, comm.all_reduce(numpy.full(4, rank, numpy.int32)))",
        "    comm.close()",
        "",
        "and start all ranks:",
        "",
    ]
    for rank, namespace in enumerate(testbed.namespaces):
        inside = f"ip netns exec {namespace} " if namespace else ""
        end = "" if rank == testbed.ranks - 1 else " &"
        lines.append(f"    {inside}{sys.executable} rank.py {rank}{end}")
    first = next(iter(testbed.control.values()))
    lines += [
        "",
        f"look into a switch: epic switch counters {first}",
        f"take it down:       epic testbed down {testbed.id}",
    ]
    return lines


def down(run_id: str | None = None) -> list[str]:
    """Stop one testbed, or all, and clean up after dead runs. Living `epic run`s are left alone.

    Returns what was removed. Raises ConfigError for a testbed that is not there.
    """
    removed = registry.clean()
    testbeds = [run for run in registry.runs() if run.kind == "testbed" and run_id in (None, run.id)]
    if run_id is not None and not testbeds and run_id not in removed:
        known = ", ".join(run.id for run in registry.runs() if run.kind == "testbed") or "none is up"
        raise ConfigError(f"testbed {run_id!r} is not up, expected one of: {known}")
    for run in testbeds:
        run.destroy()
        removed.append(run.id)
    return removed


def status() -> list[dict[str, Any]]:
    """All runs of this user: what they are, and their processes."""
    return [
        {
            "id": run.id,
            "kind": run.kind,
            "alive": run.alive(),
            "age_s": round(time.time() - run.started, 1),
            **run.about,
            "owner": run.owner.pid if run.owner else None,
            "namespaces": run.namespaces,
            "processes": [{"node": p.node, "pid": p.pid, "alive": p.alive()} for p in run.processes],
        }
        for run in registry.runs()
    ]


def status_table(rows: list[dict[str, Any]]) -> Table:
    """The rows of `status` for people."""
    wide = shutil.get_terminal_size().columns >= 100
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "kind", "state", "mode", "topology", "ranks", "transport", "age", "processes (pid)"):
        table.add_column(name, overflow="fold")
    for row in rows:
        processes = [
            f"{p['node']} {p['pid'] if wide else ''}".strip() + ("" if p["alive"] else " dead")
            for p in row["processes"]
        ]
        table.add_row(
            row["id"],
            row["kind"],
            "up" if row["alive"] else "dead",
            *(str(row.get(key, "-")) for key in ("mode", "topology", "ranks", "transport")),
            f"{row['age_s']:.0f} s",
            ", ".join(processes),
        )
    return table
