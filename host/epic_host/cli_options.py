"""Options that the commands of the control plane share: which manager, as whom, how the answer is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epic_spec.errors import ConfigError

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from epic_host.manager.client import ManagerClient
    from epic_host.security.tls import Tls

ManagerAddress = Annotated[
    str,
    typer.Option(
        "--manager", envvar="EPIC_MANAGER", help="Manager: unix:/path, 127.x.y.z:port, others with --tls."
    ),
]
TlsFolder = Annotated[
    Path | None, typer.Option("--tls", envvar="EPIC_TLS", help="Folder of certificates (epic pki).")
]
As = Annotated[
    str, typer.Option("--as", envvar="EPIC_AS", help="Who to be, with --tls: ROLE/NAME, e.g. admin/alice.")
]
AdminToken = Annotated[
    Path | None,
    typer.Option(
        "--admin-token",
        envvar="EPIC_ADMIN_TOKEN_FILE",
        help="File with the manager's admin token (without --tls).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Timeout = Annotated[float, typer.Option(min=0.01, help="Seconds to wait for an answer.")]


def credentials(folder: Path | None, who: str) -> Tls | None:
    """The files of ROLE/NAME in a folder; None without a folder. Raises ConfigError."""
    if folder is None:
        return None
    from epic_host.security.tls import Tls

    role, _, name = who.partition("/")
    if not role or not name:
        raise ConfigError(f"--as = {who!r}, expected ROLE/NAME like admin/alice with --tls")
    return Tls.of_folder(folder, role, name)


def open_client(
    manager: str,
    tls: Path | None = None,
    who: str = "",
    admin_token: Path | None = None,
    timeout: float = 5.0,
    *,
    patient: bool = False,
) -> ManagerClient:
    """A client of the manager that the options name, see ManagerClient. Raises ConfigError."""
    if not manager:
        raise ConfigError("no manager named, expected --manager ADDRESS or EPIC_MANAGER")
    from epic_host.manager.access import read_admin_token
    from epic_host.manager.client import ManagerClient

    token = None if admin_token is None else read_admin_token(admin_token)
    return ManagerClient(manager, credentials(tls, who), timeout, patient=patient, admin_token=token)


def as_dict(message: Message) -> dict[str, Any]:
    """A message as JSON's values: the names of its .proto file, whole numbers as numbers, nothing left out."""
    # Here and below, so that no other command waits for its import.
    from google.protobuf.json_format import MessageToDict

    plain = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _numbers(message, plain)


def print_json(value: Any) -> None:
    """Print JSON on one line."""
    print(json.dumps(value, sort_keys=True))


def _numbers(message: Message, plain: dict[str, Any]) -> dict[str, Any]:
    """protobuf's JSON has 64-bit numbers as texts; Python's has them as numbers."""
    for field in message.DESCRIPTOR.fields:
        value = plain.get(field.name)
        if value is None:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            kind = field.message_type.fields_by_name["value"]
            if kind.cpp_type in _LONG:
                plain[field.name] = {key: int(item) for key, item in value.items()}
        elif field.message_type is not None:
            items = getattr(message, field.name)
            for part, text in zip(items, value, strict=True) if field.is_repeated else [(items, value)]:
                _numbers(part, text)
        elif field.cpp_type in _LONG:
            plain[field.name] = [int(item) for item in value] if field.is_repeated else int(value)
    return plain


# FieldDescriptor.CPPTYPE_INT64 and CPPTYPE_UINT64.
_LONG = (2, 4)
