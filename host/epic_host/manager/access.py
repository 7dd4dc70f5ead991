"""Who may call what, and how often: everything that is asked of a caller before the core hears of it.

With certificates the role tells (`epic_host.security.roles`). Without them callers are whoever is on this machine: they
may do what a job may, members show tokens, and what only an admin may do needs the admin token.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from epic_host.manager import errors
from epic_host.manager.client import ADMIN_TOKEN
from epic_host.manager.config import Limits
from epic_host.manager.errors import refused
from epic_host.manager.limits import Rate, RateLimit
from epic_host.security.roles import MANAGER_METHODS, Caller, IdentityError, Role, identity, utc_now
from epic_host.security.server import caller_of, peer_certificate
from epic_spec.errors import ConfigError

# Methods that take resources, with a rate of their own.
_TAKING: Final = frozenset({"CreateGroup", "ShrinkGroup"})
_LOCAL: Final = "local"
_TOKEN_BYTES: Final = 32


class Access:
    """Admits calls. `admin_token` is what an admin shows where there are no certificates, None: nobody can."""

    def __init__(self, limits: Limits, admin_token: str | None, clock: Callable[[], float]) -> None:
        self._admin_token = admin_token
        self._clock = clock

        def rate(per_second: float) -> RateLimit:
            return RateLimit(Rate(per_second, max(1.0, per_second * limits.burst)))

        self._rates = {
            (False, False): rate(limits.requests_per_second),
            (False, True): rate(limits.local_requests_per_second),
            (True, False): rate(limits.creates_per_second),
            (True, True): rate(limits.local_creates_per_second),
        }

    def admit(self, method: str, context: Any) -> Caller:
        """The caller of a method. Raises RefusedError: `who`, `not_yours` or `rate`."""
        try:
            caller = caller_of(context)
        except IdentityError as error:
            raise refused(errors.WHO, str(error)) from None
        caller = self._with_token(caller, context)
        self._limit(method, caller)
        if not caller.admin and caller.role is not None:
            allowed = MANAGER_METHODS.get(method, frozenset())
            if caller.role not in allowed:
                roles = ", ".join(sorted(allowed)) or "nobody"
                raise refused(errors.NOT_YOURS, f"{method}: {caller} may not call it, expected {roles}")
        return caller

    @staticmethod
    def seconds_left(context: Any) -> float | None:
        """How long the caller's certificate still holds; None without one."""
        certificate = peer_certificate(context)
        if certificate is None:
            return None
        return (identity(certificate).not_after - utc_now()).total_seconds()

    @staticmethod
    def client(caller: Caller) -> str:
        """What limits count a caller as. All that have no certificate are one: nothing tells them apart for sure."""
        return _LOCAL if caller.role is None else f"{caller.role}/{caller.name}"

    @staticmethod
    def need_admin(caller: Caller, what: str) -> None:
        """Raises RefusedError unless the caller is an admin."""
        if not caller.admin:
            how = "the admin token (admin_token in the manager's configuration)"
            if caller.role is not None:
                how = "a certificate of the role admin"
            raise refused(errors.NOT_YOURS, f"{what}: {caller} may not, expected {how}")

    @staticmethod
    def need_host(caller: Caller, host: str) -> None:
        """Raises RefusedError for a node that speaks for another."""
        if caller.role is Role.NODE and host != caller.name:
            raise refused(errors.NOT_YOURS, f"host = {host!r}: {caller} may not, expected {caller.name!r}")

    def _with_token(self, caller: Caller, context: Any) -> Caller:
        shown = dict(context.invocation_metadata() or ()).get(ADMIN_TOKEN)
        if shown is None or caller.role is not None:
            return caller
        text = shown if isinstance(shown, str) else ""
        if self._admin_token is None or not hmac.compare_digest(text.encode(), self._admin_token.encode()):
            raise refused(
                errors.WHO, f"{caller}: the admin token is not right, expected that of this manager"
            )
        return Caller(caller.role, caller.name, caller.peer, admin=True)

    def _limit(self, method: str, caller: Caller) -> None:
        client, local, now = self.client(caller), caller.role is None, self._clock()
        kinds = (False, True) if method in _TAKING else (False,)
        for taking in kinds:
            limit = self._rates[taking, local]
            if not limit.admits(client, now):
                what = "groups" if taking else "requests"
                raise refused(
                    errors.RATE,
                    f"{method}: too many {what} of {client}, expected at most {limit.rate.per_second:g} a second; "
                    f"ask again in {limit.wait(client):.2f} s",
                )


def admin_token_of(path: Path | None) -> str | None:
    """The admin token in a file that its owner alone can read, made when it is not there. Raises ConfigError."""
    if path is None:
        return None
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return read_admin_token(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}, expected a file for the admin token") from None
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    with os.fdopen(file, "w") as out:
        out.write(token + "\n")
    return token


def read_admin_token(path: Path) -> str:
    """The token in a file. Raises ConfigError where there is none, or others may read it."""
    try:
        mode = path.stat().st_mode
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise ConfigError(f"{path}: {reason}, expected a file with the admin token") from None
    if mode & 0o077:
        raise ConfigError(f"{path}: mode {mode & 0o777:o}, expected 600: the admin token is its owner's only")
    if len(token) < _TOKEN_BYTES or not token.isascii() or not token.isprintable():
        raise ConfigError(f"{path}: no token, expected at least {_TOKEN_BYTES} printable characters")
    return token
