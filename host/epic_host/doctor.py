"""`epic doctor`: is this host fit for EPIC? A line for each thing, ok, fail or skip, with the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from epic_host import checkup
from epic_host.checkup import CHECKS, Finding, Patient
from epic_host.cli_options import (
    AdminToken,
    As,
    Json,
    ManagerAddress,
    Timeout,
    TlsFolder,
    credentials,
    open_client,
    print_json,
)
from epic_spec.command import EXIT_FAILED
from epic_spec.errors import ConfigError

if TYPE_CHECKING:
    from epic_host.manager.client import ManagerClient
    from epic_host.security.tls import Tls

_COLOURS = {"ok": "green", "fail": "red", "skip": "yellow"}
# Hours before its end from which on a certificate is worth a warning.
_SOON = 1.0


def register(app: typer.Typer) -> None:
    """Add `epic doctor` to the command."""
    app.command("doctor")(doctor)


def doctor(
    interface: Annotated[list[str] | None, typer.Option(help="Interface to look at (repeatable).")] = None,
    address: Annotated[list[str] | None, typer.Option(help="Address that a rank binds (repeatable).")] = None,
    peer: Annotated[list[str] | None, typer.Option(help="Address at the other end (repeatable).")] = None,
    payload: Annotated[int, typer.Option(min=64, max=8192, help="Bytes that packets shall carry.")] = 1024,
    need: Annotated[
        list[str] | None,
        typer.Option(help="A tool, or tools, frames, time: fail where skipped else (repeatable)."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help=f"{', '.join(CHECKS)} (repeatable).")] = None,
    manager: ManagerAddress = "",
    tls: TlsFolder = None,
    who: As = "",
    admin_token: AdminToken = None,
    as_json: Json = False,
    timeout: Timeout = 5.0,
) -> int:
    """Look at link, MTU, addresses, ICRC, port 4791, time, tools and the manager. Exit code 1 when something failed."""
    for name in only or ():
        if name not in CHECKS:
            raise ConfigError(f"--only = {name!r}, expected one of {', '.join(CHECKS)}")
    known = {"tools", "frames", "time", *(tool[0] for tool in checkup.TOOLS)}
    for name in need or ():
        if name not in known:
            raise ConfigError(f"--need = {name!r}, expected one of {', '.join(sorted(known))}")

    def ask() -> Iterator[Finding]:
        with open_client(manager, tls, who, admin_token, timeout) as client:
            yield from _of_manager(client)

    patient = Patient(
        interfaces=tuple(interface or ()),
        addresses=tuple(address or ("127.0.0.1",)),
        peers=tuple(peer or ()),
        payload=payload,
        needed=frozenset(need or ()),
        ask_manager=ask if manager else None,
        certificates=None if tls is None else lambda: _of_certificate(credentials(tls, who)),
    )
    findings: list[Finding] = []
    console = Console(highlight=False)
    for name in only or CHECKS:
        for finding in CHECKS[name](patient):
            findings.append(finding)
            if not as_json:
                console.print(_line(finding), soft_wrap=True)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    failed = sum(finding.status == "fail" for finding in findings)
    if not as_json:
        console.print(f"{len(findings)} looked at, {failed} failed")
    return EXIT_FAILED if failed else 0


def _line(finding: Finding) -> str:
    colour = _COLOURS[finding.status]
    remedy = f"; remedy: {finding.remedy}" if finding.remedy else ""
    text = escape(f"{finding.check} {finding.thing}: {finding.text}{remedy}")
    return f"[{colour}]{finding.status:4}[/{colour}]  {text}"


def _of_manager(client: ManagerClient) -> Iterator[Finding]:
    topology = client.get_topology()
    text = (
        f"answers; {len(topology.hosts)} hosts, {len(topology.engines)} engines, {len(topology.links)} links"
    )
    yield Finding("manager", client.address, "ok", text)
    for engine in topology.engines:
        if engine.state == "up":
            yield Finding("engine", engine.name, "ok", f"{engine.kind or 'engine'} at {engine.control}")
        elif engine.state == "out":
            yield Finding(
                "engine", engine.name, "skip", "taken out of use", f"epic manager use {engine.name}"
            )
        else:
            remedy = f"epic switch serve for it at {engine.control}"
            yield Finding(
                "engine", engine.name, "fail", f"{engine.state}: does not answer the manager", remedy
            )
    for link in topology.links:
        if link.state == "lost":
            yield Finding(
                "link", link.name, "fail", "held for lost by the manager", "check cable and both ends"
            )


def _of_certificate(tls: Tls | None) -> Iterator[Finding]:
    from epic_host.security.roles import identity, utc_now

    assert tls is not None
    holder = identity(tls.read()[1])
    thing = f"{holder.role}/{holder.name}"
    remedy = f"epic pki issue {tls.ca.parent} --role {holder.role} --name {holder.name}"
    left = (holder.not_after - utc_now()).total_seconds() / 3600
    if left <= 0 or utc_now() < holder.not_before:
        yield Finding(
            "tls",
            thing,
            "fail",
            f"outside its time, which ends {holder.not_after:%Y-%m-%d %H:%M} UTC",
            remedy,
        )
    else:
        soon = f"; soon: {remedy}" if left < _SOON else ""
        yield Finding("tls", thing, "ok", f"valid for {left:.1f} h more{soon}")
    yield _of_chain(tls, thing, remedy)
    yield _of_key(tls.key, thing)


def _of_chain(tls: Tls, thing: str, remedy: str) -> Finding:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    ca, certificate, key = tls.read()
    holder = x509.load_pem_x509_certificate(certificate)
    try:
        holder.verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
        own = load_pem_private_key(key, None).public_key() == holder.public_key()
    except (ValueError, TypeError, InvalidSignature):
        return Finding("tls", thing, "fail", f"not issued by the authority of {tls.ca}", remedy)
    if not own:
        return Finding("tls", thing, "fail", f"{tls.key} is not its key", remedy)
    return Finding("tls", thing, "ok", "issued by its authority, with its key")


def _of_key(key: Path, thing: str) -> Finding:
    mode = key.stat().st_mode & 0o777
    if mode & 0o077:
        return Finding("tls", thing, "fail", f"{key}: mode {mode:o}, others may read it", f"chmod 600 {key}")
    return Finding("tls", thing, "ok", f"{key}: its owner's only")
