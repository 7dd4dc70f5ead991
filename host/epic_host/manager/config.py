"""What a manager is started with: manager.toml.

    fabric = "fabric.toml"                  # hosts, engines, links; file names are relative to this file
    listen = ["unix:/run/epic/manager.sock"]  # and 127.x.y.z:port; other addresses only with [tls]
    database = "manager.db"                 # made when it is not there
    policy = "best_effort"                  # of groups that name none
    placement = "heuristic"                 # or "exact"
    admin_token = "admin.token"             # file with what an admin shows without certificates; made when it is
                                            # not there; without the key there is no admin but by certificate
    metrics = "127.0.0.1:9464"              # Prometheus, loopback only; without the key there are none
    seed = 1                                # tokens and QPNs drawn from it: for tests only

    [tls]                                   # `epic pki issue` makes the files
    ca = "pki/ca.crt"
    certificate = "pki/manager-m0.crt"
    key = "pki/manager-m0.key"

    [limits]
    requests_per_second = 200.0             # of one certificate
    local_requests_per_second = 10000.0     # of all callers without one together
    creates_per_second = 20.0               # of one certificate: CreateGroup, ShrinkGroup
    local_creates_per_second = 1000.0
    burst = 2.0                             # seconds' worth of requests that may come at once
    message_bytes = 262144                  # largest request
    watches = 10000                         # open watch streams
    client_watches = 2500                   # of one certificate
    watch_events = 1024                     # that wait for a slow reader; then it is cut off
    engine_calls = 64                       # engines that are called at once

    [times]                                 # seconds and counts of `epic_host.manager.settings`
    node_lease = 10.0
    call_timeout = 1.0

All but the first three keys may be left out; those of [limits] and [times] above are the defaults.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self

from epic_host.manager.paths import PLACEMENTS
from epic_host.manager.settings import Settings
from epic_host.security.listen import check_listen
from epic_host.security.tls import Tls
from epic_host.transport.config import take
from epic_spec.errors import ConfigError
from epic_spec.loader import read_toml

DEFAULT_POLICY: Final = "best_effort"


def _within(low: float, high: float) -> dict[str, Any]:
    return {"low": low, "high": high}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of what clients may do and of what the manager keeps for them; units as in the file above."""

    requests_per_second: float = field(default=200.0, metadata=_within(0.1, 1e6))
    local_requests_per_second: float = field(default=10000.0, metadata=_within(0.1, 1e6))
    creates_per_second: float = field(default=20.0, metadata=_within(0.01, 1e6))
    local_creates_per_second: float = field(default=1000.0, metadata=_within(0.01, 1e6))
    burst: float = field(default=2.0, metadata=_within(0.1, 3600.0))
    message_bytes: int = field(default=262144, metadata=_within(4096, 1 << 26))
    watches: int = field(default=10000, metadata=_within(1, 1_000_000))
    client_watches: int = field(default=2500, metadata=_within(1, 1_000_000))
    watch_events: int = field(default=1024, metadata=_within(1, 1_000_000))
    engine_calls: int = field(default=64, metadata=_within(1, 1024))

    @classmethod
    def from_dict(cls, data: object, where: str) -> Self:
        """From the TOML section. Raises ConfigError."""
        known = {f.name: f for f in fields(cls)}
        values = take(data, where, (), tuple(known))
        for name, value in values.items():
            whole = isinstance(known[name].default, int)
            low, high = known[name].metadata["low"], known[name].metadata["high"]
            right = isinstance(value, int) if whole else isinstance(value, int | float)
            if isinstance(value, bool) or not right or not low <= value <= high:
                kind = "a whole number" if whole else "a number"
                raise ConfigError(f"{where}: {name} = {value!r}, expected {kind} from {low:g} to {high:g}")
            values[name] = value if whole else float(value)
        return cls(**values)


@dataclass(frozen=True, slots=True)
class ManagerConfig:
    """A checked configuration; paths are absolute or relative to the working folder."""

    fabric: Path
    listen: tuple[str, ...]
    database: Path
    policy: str = DEFAULT_POLICY
    placement: str = PLACEMENTS[0]
    admin_token: Path | None = None
    metrics: str | None = None
    seed: int | None = None
    tls: Tls | None = None
    limits: Limits = field(default_factory=Limits)
    times: Settings = field(default_factory=Settings)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """From a TOML file. Raises ConfigError: one line naming file, key, value and what was expected."""
        data = read_toml(path, "the configuration of a manager")
        try:
            return cls.from_dict(data, path.parent)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], folder: Path) -> Self:
        """From the TOML's values; file names are relative to `folder`. Raises ConfigError."""
        names = tuple(f.name for f in fields(cls))
        values = take(data, "manager", names[:3], names[3:])
        tls = Tls.from_dict(values["tls"], "tls", folder) if "tls" in values else None
        for name, check in _CHECKS.items():
            if name in values:
                values[name] = check(values[name], name, folder)
        for address in values["listen"]:
            check_listen(address, "listen", secure=tls is not None)
        values["tls"] = tls
        values["limits"] = Limits.from_dict(values.get("limits", {}), "limits")
        times = take(values.get("times", {}), "times", (), tuple(f.name for f in fields(Settings)))
        values["times"] = Settings(**times)
        return cls(**values)


def _text(value: object, name: str, folder: Path) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} = {value!r}, expected a text")
    return value


def _file(value: object, name: str, folder: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} = {value!r}, expected a file name")
    path = folder / value
    if not path.parent.is_dir():
        raise ConfigError(f"{name} = {value!r}: folder {path.parent} does not exist, expected one")
    return path


def _addresses(value: object, name: str, folder: Path) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{name} = {json.dumps(value, default=str)}, expected a list of addresses")
    if len(set(value)) != len(value):
        raise ConfigError(f"{name} = {json.dumps(value)}, expected each address once")
    return tuple(value)


def _placement(value: object, name: str, folder: Path) -> str:
    if value not in PLACEMENTS:
        raise ConfigError(f"{name} = {value!r}, expected one of {', '.join(PLACEMENTS)}")
    return str(value)


def _loopback(value: object, name: str, folder: Path) -> str:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    try:
        good = ipaddress.IPv4Address(host).is_loopback and port.isdecimal() and int(port) < 65536
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"{name} = {value!r}, expected 127.x.y.z:port")
    return str(value)


def _seed(value: object, name: str, folder: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} = {value!r}, expected a whole number")
    return value


_CHECKS: Final[dict[str, Callable[[object, str, Path], Any]]] = {
    "fabric": _file,
    "listen": _addresses,
    "database": _file,
    "policy": _text,
    "placement": _placement,
    "admin_token": _file,
    "metrics": _loopback,
    "seed": _seed,
}
