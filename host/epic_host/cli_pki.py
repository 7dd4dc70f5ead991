"""`epic pki init` and `epic pki issue`: certificates of a fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from epic_host.cli_options import Json, print_json
from epic_spec.command import group
from epic_spec.errors import ConfigError

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the authority.")]


def register(app: typer.Typer) -> None:
    """Add `epic pki` to the command."""
    pki = group(app, "pki", "Certificates: an authority for a fabric, and who is who.")
    pki.command("init")(init)
    pki.command("issue")(issue)


def init(
    folder: Folder,
    days: Annotated[float, typer.Option(help="How long the authority lasts.")] = 3650.0,
    as_json: Json = False,
) -> None:
    """Make an authority: DIR/ca.crt for everyone, DIR/ca.key for nobody but who issues."""
    from epic_host.security import pki

    made = pki.init(folder, days)
    if as_json:
        print_json({"ca": str(made.ca), "key": str(made.key), "not_after": made.not_after.isoformat()})
        return
    print(f"{made.ca}: valid until {made.not_after:%Y-%m-%d %H:%M} UTC")
    print(f"{made.key}: keep it here; certificates are made with it")


def issue(
    folder: Folder,
    role: Annotated[str, typer.Option(help="node, job, admin, manager or engine.")],
    name: Annotated[str, typer.Option(help="Of the host, job, admin, manager or engine.")],
    hours: Annotated[float, typer.Option(help="How long the certificate lasts.")] = 24.0,
    as_json: Json = False,
) -> None:
    """Give a role and name a key and a certificate: DIR/ROLE-NAME.key, DIR/ROLE-NAME.crt. Again: new ones."""
    from epic_host.security import pki
    from epic_host.security.roles import Role, uri

    if role not in set(Role):
        raise ConfigError(f"--role = {role!r}, expected one of {', '.join(Role)}")
    made = pki.issue(folder, Role(role), name, hours)
    if as_json:
        print_json(
            {
                "uri": uri(Role(role), name),
                "ca": str(made.ca),
                "certificate": str(made.certificate),
                "key": str(made.key),
                "not_after": made.not_after.isoformat(),
            }
        )
        return
    print(f"{made.certificate}: {uri(Role(role), name)}, valid until {made.not_after:%Y-%m-%d %H:%M} UTC")
    print(f"{made.key}: its key; with {made.ca} they are what {role} {name} needs")
