"""Addresses that control services listen on: which are allowed, and a socket file freed when its owner was killed."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import Final

from epic_spec.errors import ConfigError

# Bytes of sun_path, less the terminating zero.
UNIX_PATH_LIMIT: Final = 107


def is_local(address: str) -> bool:
    """Whether `address` is `unix:/path` or on the loopback network: where plain text is allowed."""
    if address.startswith("unix:"):
        return Path(address.removeprefix("unix:")).is_absolute()
    found = _parsed(address)
    return found is not None and found.is_loopback


def check_listen(address: str, where: str, *, secure: bool) -> None:
    """Raises ConfigError unless a server may listen there: `unix:/path`, or IPv4:port, loopback only without TLS."""
    if address.startswith("unix:"):
        path = Path(address.removeprefix("unix:"))
        if not path.is_absolute() or len(str(path)) > UNIX_PATH_LIMIT:
            raise ConfigError(
                f"{where}: path {path}, expected an absolute one of at most {UNIX_PATH_LIMIT} bytes"
            )
        return
    found = _parsed(address)
    if secure and found is None:
        raise ConfigError(f"{where}: address {address!r}, expected unix:/path or an IPv4 address and port")
    if not secure and (found is None or not found.is_loopback):
        raise ConfigError(
            f"{where}: address {address!r}, expected unix:/path or 127.x.y.z:port "
            "(others only with TLS: plain text stays on this machine)"
        )


def claim(address: str, where: str, *, secure: bool = False) -> Path | None:
    """Check an address; the socket file that it names, freed when a killed process left it behind.

    Raises ConfigError when the address is not allowed or the path is in use.
    """
    check_listen(address, where, secure=secure)
    if not address.startswith("unix:"):
        return None
    path = Path(address.removeprefix("unix:"))
    if not path.parent.is_dir():
        raise ConfigError(f"{where}: folder {path.parent} does not exist, expected one for the socket")
    if path.exists() and not path.is_socket():
        raise ConfigError(f"{where}: {path} is not a socket, expected a free path")
    if path.is_socket():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(path)) == 0:
                raise ConfigError(f"{where}: {path} is in use by another process, expected a free path")
        path.unlink(missing_ok=True)
    return path


def _parsed(address: str) -> ipaddress.IPv4Address | None:
    host, _, port = address.rpartition(":")
    try:
        found = ipaddress.IPv4Address(host)
        return found if port.isdecimal() and 0 < int(port) < 65536 else None
    except ValueError:
        return None
