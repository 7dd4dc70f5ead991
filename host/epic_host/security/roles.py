"""Roles: who a caller is by its certificate, and which methods a role may call.

A certificate says who its holder is by one URI in its subject alternative names, `epic://ROLE/NAME`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final

from epic_spec.errors import EpicError


class Role(StrEnum):
    """What a certificate is for."""

    NODE = "node"  # a host: registers itself and keeps its lease
    JOB = "job"  # a job: its own groups
    ADMIN = "admin"  # everything
    MANAGER = "manager"  # the manager: installs on engines
    ENGINE = "engine"  # an engine: is called by the manager


# What can be in a URI, a DNS name, a file name and a log line alike.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
NAME_RULE: Final = "1 to 63 letters, digits, _, . or -, a letter or digit first"
SCHEME: Final = "epic"

# Methods of epic.v1.Manager by role; what is not here nobody may call.
_JOBS = frozenset({Role.JOB, Role.ADMIN})
MANAGER_METHODS: Final[dict[str, frozenset[Role]]] = {
    "RegisterNode": frozenset({Role.NODE, Role.ADMIN}),
    "Heartbeat": frozenset({Role.NODE, Role.JOB, Role.ADMIN}),
    "CreateGroup": _JOBS,
    "JoinGroup": _JOBS,
    "ReportEpoch": _JOBS,
    "ReportFault": _JOBS,
    "LeaveGroup": _JOBS,
    "DestroyGroup": _JOBS,
    "ShrinkGroup": _JOBS,
    "ListGroups": _JOBS,
    "Explain": _JOBS,
    "GetTopology": _JOBS,
    "Watch": _JOBS,
    "SetUsable": frozenset({Role.ADMIN}),
}
# Every method of epic.v1.Engine: an engine is shared by jobs, so none of them may look into it.
ENGINE_ROLES: Final = frozenset({Role.MANAGER, Role.ADMIN})


class IdentityError(EpicError):
    """A certificate that says of nobody who it is, or not at this time."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. Without certificates (`role` None) a caller is whoever is on this machine, and `peer` its address.

    `admin`: it may do everything, by its role or by the admin token.
    """

    role: Role | None
    name: str
    peer: str
    admin: bool = False

    @property
    def job(self) -> str:
        """The job that it acts for: its certificate's name; empty without one, then tokens tell."""
        return self.name if self.role is Role.JOB else ""

    def __str__(self) -> str:
        return f"caller at {self.peer}" if self.role is None else f"{self.role} {self.name!r}"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a certificate says: its holder, and from when to when (UTC)."""

    role: Role
    name: str
    not_before: datetime
    not_after: datetime

    def check(self, now: datetime) -> None:
        """Raises IdentityError outside its time: a connection can outlast the certificate it was opened with."""
        if not self.not_before <= now <= self.not_after:
            raise IdentityError(
                f"certificate of {self.role} {self.name!r}: valid from {self.not_before:%Y-%m-%d %H:%M} to "
                f"{self.not_after:%Y-%m-%d %H:%M} UTC, it is {now:%Y-%m-%d %H:%M}"
            )


@lru_cache(maxsize=4096)
def identity(certificate: bytes) -> Identity:
    """Who a certificate (PEM) is of. The chain was checked by TLS. Raises IdentityError."""
    # Only those who use TLS need it.
    from cryptography import x509

    try:
        parsed = x509.load_pem_x509_certificate(certificate)
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (ValueError, x509.ExtensionNotFound) as error:
        raise IdentityError(f"certificate: {error}, expected a URI {SCHEME}://ROLE/NAME") from None
    found = [uri for uri in uris if uri.startswith(f"{SCHEME}://")]
    if len(found) != 1:
        raise IdentityError(f"certificate: {len(found)} URIs {SCHEME}://ROLE/NAME, expected one")
    role, name = parse_uri(found[0])
    return Identity(role, name, parsed.not_valid_before_utc, parsed.not_valid_after_utc)


def uri(role: Role, name: str) -> str:
    """The URI of a holder."""
    return f"{SCHEME}://{role}/{name}"


def parse_uri(text: str) -> tuple[Role, str]:
    """Role and name of `epic://ROLE/NAME`. Raises IdentityError."""
    role, _, name = text.removeprefix(f"{SCHEME}://").partition("/")
    if role not in set(Role) or not NAME.fullmatch(name):
        known = "|".join(Role)
        raise IdentityError(f"certificate: URI {text!r}, expected {SCHEME}://({known})/NAME")
    return Role(role), name


def utc_now() -> datetime:
    """The time that certificates are checked against."""
    return datetime.now(UTC)
