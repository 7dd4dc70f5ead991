"""`epic manager serve`: run a manager. `epic manager use`: take an engine or a link out of use, or into it again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from epic_host.cli_options import AdminToken, As, ManagerAddress, Timeout, TlsFolder, open_client
from epic_spec.command import group


def register(app: typer.Typer) -> None:
    """Add `epic manager` to the command."""
    manager = group(app, "manager", "The manager of a fabric: groups, leases, engines.")
    manager.command("serve")(serve)
    manager.command("use")(use)


def serve(
    config: Annotated[Path, typer.Option(help="TOML file: fabric, listen, database, and more.")],
    detach: Annotated[bool, typer.Option(help="Keep running when the parent process ends.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every decision on stderr.")] = False,
) -> None:
    """Run a manager until SIGTERM or SIGINT. Prints "ready" when it serves."""
    from epic_host.manager.config import ManagerConfig
    from epic_host.manager.server import run
    from epic_host.process import die_with_parent

    if not detach:
        die_with_parent()
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s")
    run(ManagerConfig.from_file(config), lambda: print("ready", flush=True))


def use(
    name: Annotated[str, typer.Argument(help="An engine, or a link like s0-s1.")],
    out: Annotated[bool, typer.Option("--out", help="Out of use: its groups move elsewhere.")] = False,
    manager: ManagerAddress = "",
    tls: TlsFolder = None,
    who: As = "",
    admin_token: AdminToken = None,
    timeout: Timeout = 5.0,
) -> None:
    """Put an engine or a link into use, or with --out out of it (admins only)."""
    with open_client(manager, tls, who, admin_token, timeout) as client:
        engines = {engine.name for engine in client.get_topology().engines}
        if name in engines:
            client.set_usable(engine=name, usable=not out)
        else:
            client.set_usable(link=name, usable=not out)
    print(f"{name}: {'out of use' if out else 'in use'}")
