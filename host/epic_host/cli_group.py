"""`epic group create|list|show|destroy` and `epic explain GROUP`: groups of a manager."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from epic_host.cli_options import (
    AdminToken,
    As,
    Json,
    ManagerAddress,
    Timeout,
    TlsFolder,
    as_dict,
    open_client,
    print_json,
)
from epic_spec.command import group
from epic_spec.errors import ConfigError

if TYPE_CHECKING:
    from epic_host.proto.epic.v1 import manager_pb2 as pb

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]


def register(app: typer.Typer) -> None:
    """Add `epic group` and `epic explain` to the command."""
    groups = group(app, "group", "Groups of a manager: make, list, look into, end.")
    groups.command("create")(create)
    groups.command("list")(list_groups)
    groups.command("show")(show)
    groups.command("destroy")(destroy)
    app.command("explain")(explain)


def create(
    hosts: Annotated[str, typer.Option(help="Host of each rank, comma-separated: h0,h1,h1.")],
    name: Annotated[str, typer.Option(help="Name of the group; empty: the manager makes one.")] = "",
    mode: Annotated[list[int] | None, typer.Option(help="Accepted mode, best first (repeatable).")] = None,
    datatype: Annotated[list[str] | None, typer.Option(help="Computed by engines (repeatable).")] = None,
    operator: Annotated[list[str] | None, typer.Option(help="Computed by engines (repeatable).")] = None,
    path: Annotated[str, typer.Option(help="auto, prefer_network, network or host.")] = "auto",
    policy: Annotated[str | None, typer.Option(help="Who shares the fabric out; else the manager's.")] = None,
    window: Annotated[int | None, typer.Option(min=1, help="Largest window, cells.")] = None,
    payload: Annotated[int | None, typer.Option(min=1, help="Largest payload, bytes.")] = None,
    trees: Annotated[int, typer.Option(min=1, help="Over how many trees cells may go.")] = 1,
    rate: Annotated[float | None, typer.Option(min=0.0, help="Gbit/s that a rank wants at most.")] = None,
    typical: Annotated[int | None, typer.Option(min=1, help="Bytes of a typical collective.")] = None,
    lease: Annotated[float | None, typer.Option(help="Seconds of silence that end a rank.")] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds that joining or a change may take.")] = None,
    reproducible: Annotated[bool, typer.Option(help="Floating point the same every time.")] = False,
    token_file: Annotated[
        Path | None, typer.Option(help="Write the join token here (mode 600) instead of printing it.")
    ] = None,
    request_id: Annotated[str, typer.Option(help="The same id again: the same group.")] = "",
    manager: ManagerAddress = "",
    tls: TlsFolder = None,
    who: As = "",
    admin_token: AdminToken = None,
    as_json: Json = False,
    timeout: Timeout = 5.0,
) -> None:
    """Ask for a group. Prints its name and what its ranks show to join."""
    from epic_host.proto.epic.v1 import manager_pb2 as pb

    spec = pb.GroupSpec(
        name=name,
        hosts=[host.strip() for host in hosts.split(",")],
        modes=mode or (),
        datatypes=datatype or (),
        operators=operator or (),
        path=path,
        policy=policy,
        window=window,
        payload_bytes=payload,
        trees=trees,
        rate_gbps=rate,
        typical_bytes=typical,
        lease=lease,
        deadline=deadline,
        reproducible=reproducible,
    )
    with open_client(manager, tls, who, admin_token, timeout) as client:
        made = client.create_group(spec=spec, request_id=request_id)
    answer = {"group": made.group, "join_token": made.join_token}
    if token_file is not None:
        _write_token(token_file, answer.pop("join_token"))
        answer["token_file"] = str(token_file)
    if as_json:
        print_json(answer)
        return
    for key, value in answer.items():
        print(f"{key.replace('_', ' ')}: {value}")


def list_groups(
    manager: ManagerAddress = "",
    tls: TlsFolder = None,
    who: As = "",
    admin_token: AdminToken = None,
    as_json: Json = False,
    timeout: Timeout = 5.0,
) -> None:
    """The groups that one may see."""
    with open_client(manager, tls, who, admin_token, timeout) as client:
        answer = client.list_groups()
    if as_json:
        print_json(as_dict(answer)["groups"])
        return
    Console().print(groups_table(answer.groups))


def show(
    name: GroupName,
    manager: ManagerAddress = "",
    tls: TlsFolder = None,
    who: As = "",
    admin_token: AdminToken = None,
    as_json: Json = False,
    timeout: Timeout = 5.0,
) -> None:
    """One group: its path, its members, its share of engines."""
    with open_client(manager, tls, who, admin_token, timeout) as client:
        state = client.explain(group=name).group
    if as_json:
        print_json(as_dict(state))
        return
    console = Console()
    console.print(groups_table([state]))
    if state.mode:
        sizes = f"mode {state.mode}, window {state.window}, cells of {state.payload_bytes} bytes"
        console.print(f"{sizes}, {state.trees} trees, policy {state.policy}")
    members = Table("rank", "host", "address", "state", "epoch", "delivered", "given", "again", "silent")
    for member in state.members:
        silent = "-" if member.silent < 0 else f"{member.silent:.1f} s"
        numbers = (member.epoch, member.delivered, member.contributed, member.retransmissions)
        members.add_row(
            str(member.rank), member.host, member.address or "-", member.state, *map(str, numbers), silent
        )
    console.print(members)
    if state.shares:
        shares = Table("engine", "tree", "number", "fan-in", "slots", "slot bytes")
        for share in state.shares:
            parts = (share.tree, share.group_number, share.fan_in, share.slots, share.slot_bytes)
            shares.add_row(share.engine, *map(str, parts))
        console.print(shares)


def destroy(
    name: GroupName,
    token_file: Annotated[
        Path | None, typer.Option(help="File with its join token; an admin needs none.")
    ] = None,
    manager: ManagerAddress = "",
    tls: TlsFolder = None,
    who: As = "",
    admin_token: AdminToken = None,
    timeout: Timeout = 5.0,
) -> None:
    """End a group."""
    token = ""
    if token_file is not None:
        try:
            token = token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{token_file}: {error}, expected a file with a join token") from None
    with open_client(manager, tls, who, admin_token, timeout) as client:
        client.destroy_group(group=name, token=token)
    print(f"{name}: ended")


def explain(
    name: GroupName,
    manager: ManagerAddress = "",
    tls: TlsFolder = None,
    who: As = "",
    admin_token: AdminToken = None,
    as_json: Json = False,
    timeout: Timeout = 5.0,
) -> None:
    """Why a group does or does not use the network, what it waits for, and which rank is late."""
    with open_client(manager, tls, who, admin_token, timeout) as client:
        answer = client.explain(group=name)
    if as_json:
        print_json(as_dict(answer))
        return
    state = answer.group
    print(f"group {state.group}, epoch {state.epoch}: {state.state}, path {state.path or 'none'}")
    print(f"because {state.reason or 'nothing is decided'}: {state.text or '-'}")
    print("waits for: " + ("; ".join(answer.waits_for) or "nothing"))
    late = ", ".join(f"rank {rank} by {cells} cells" for rank, cells in sorted(answer.late.items()))
    print(f"late: {late or 'nobody'}")
    print("decisions:")
    for decision in answer.decisions:
        what = f"epoch {decision.epoch}  {decision.path}  {decision.reason}{_about(decision)}"
        print(f"  {_when(decision.at)}  {what}: {decision.text}")


def groups_table(groups: Any) -> Table:
    """Groups, one a line."""
    table = Table("group", "job", "state", "epoch", "path", "reason", "ranks", "age")
    for state in groups:
        joined = sum(member.state == "joined" for member in state.members)
        path = f"{state.path} ({state.algorithm})" if state.algorithm else state.path or "-"
        table.add_row(
            state.group,
            state.job or "-",
            state.state,
            str(state.epoch),
            path,
            state.reason,
            f"{joined}/{len(state.members)}",
            f"{state.age:.0f} s",
        )
    return table


def _when(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at * 1000) % 1000:03d}"


def _about(decision: pb.DecisionRecord) -> str:
    return "".join(f" {key}={value}" for key, value in sorted(decision.about.items()))


def _write_token(path: Path, token: str) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w") as out:
            os.fchmod(out.fileno(), 0o600)
            out.write(token + "\n")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}, expected a file for the token") from None
