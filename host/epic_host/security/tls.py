"""Mutual TLS of the control plane: three files, and the channels and servers that use them.

Both ends show a certificate of the same authority. A server is known by its role: its certificate has the DNS names
`ROLE.epic` and `NAME.ROLE.epic`, which a job's certificate never has, so that nobody with a job's key can pose as the
manager or as an engine. A client is known by the URI of its certificate (`roles.py`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import grpc

from epic_host.security.listen import is_local
from epic_host.transport.config import take
from epic_spec.errors import ConfigError

log = logging.getLogger(__name__)

# Under this domain servers are named; it is nobody's: names are checked in certificates only, never looked up.
DOMAIN: Final = "epic"

_BEGIN_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_BEGIN_KEY: Final = b"-----BEGIN "


def server_name(role: str, name: str | None = None) -> str:
    """The DNS name in the certificate of a server of this role, of any of them where `name` is None."""
    return f"{role}.{DOMAIN}" if name is None else f"{name}.{role}.{DOMAIN}"


@dataclass(frozen=True, slots=True)
class Tls:
    """What one end of mutual TLS needs: the authority's certificate, its own, and the key of its own. PEM files."""

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def from_dict(cls, data: object, where: str = "tls", folder: Path | None = None) -> Self:
        """From {"ca", "certificate", "key"}: file names, relative to `folder`. Raises ConfigError."""
        values = take(data, where, ("ca", "certificate", "key"))
        for key, value in values.items():
            if not isinstance(value, str) or not value:
                raise ConfigError(f"{where}: {key} = {value!r}, expected a file name")
            values[key] = (folder or Path()) / value
        made = cls(**values)
        made.read()
        return made

    @classmethod
    def of_folder(cls, folder: Path, role: str, name: str) -> Self:
        """The files that `epic pki issue --role ROLE --name NAME` has put into `folder`."""
        made = cls(folder / "ca.crt", folder / f"{role}-{name}.crt", folder / f"{role}-{name}.key")
        made.read()
        return made

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Contents of the authority's certificate, the certificate and the key. Raises ConfigError naming the file."""
        found = [_pem(path, begin) for path, begin in zip(self._paths(), _BEGINS, strict=True)]
        return found[0], found[1], found[2]

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For a client. Reads the files."""
        ca, certificate, key = self.read()
        return grpc.ssl_channel_credentials(
            root_certificates=ca, private_key=key, certificate_chain=certificate
        )

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a server that admits only clients with a certificate of the authority.

        Files that were replaced (certificates are short-lived) are read again at the next connection.
        """
        files = _Files(self)
        return grpc.dynamic_ssl_server_credentials(
            files.configuration(), files.changed, require_client_authentication=True
        )

    def _paths(self) -> tuple[Path, Path, Path]:
        return self.ca, self.certificate, self.key


_BEGINS: Final = (_BEGIN_CERTIFICATE, _BEGIN_CERTIFICATE, _BEGIN_KEY)


def _pem(path: Path, begin: bytes) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}, expected a PEM file") from None
    if begin not in content:
        what = "a private key" if begin == _BEGIN_KEY else "a certificate"
        raise ConfigError(f"{path}: not {what}, expected PEM text")
    return content


class _Files:
    """The server's files: their configuration, and again when one of them has changed."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._lock = threading.Lock()
        self._seen = self._stamps()

    def configuration(self) -> Any:
        ca, certificate, key = self._tls.read()
        return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=ca)

    def changed(self) -> Any:
        """gRPC asks at every handshake; None: go on with what there is."""
        with self._lock:
            try:
                stamps = self._stamps()
                if stamps == self._seen:
                    return None
                made = self.configuration()
            except (OSError, ConfigError) as error:
                # Half replaced: the next connection looks again.
                log.warning("tls: %s: kept the certificate that was read before", error)
                return None
            self._seen = stamps
            return made

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        stats = [path.stat() for path in (self._tls.ca, self._tls.certificate, self._tls.key)]
        return tuple((stat.st_mtime_ns, stat.st_size) for stat in stats)


def open_channel(
    address: str,
    tls: Tls | None = None,
    role: str = "manager",
    name: str | None = None,
    options: Sequence[tuple[str, Any]] = (),
) -> grpc.Channel:
    """A channel to `address`. With `tls` the server must show a certificate of this role (and name, where given).

    Without, plain text, only to `unix:/path` and loopback addresses. Raises ConfigError.
    """
    if tls is None:
        if not is_local(address):
            raise ConfigError(
                f"address {address!r} without TLS, expected unix:/path or 127.x.y.z:port, or a certificate"
            )
        return grpc.insecure_channel(address, options=list(options))
    named = ("grpc.ssl_target_name_override", server_name(role, name))
    return grpc.secure_channel(address, tls.channel_credentials(), options=[*options, named])
