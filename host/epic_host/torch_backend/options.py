"""What the backend is told: `init_process_group("epic", pg_options=Options(...))`, or by the environment."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from epic_spec.errors import ConfigError
from epic_spec.tables import Datatype

PATHS = ("auto", "network", "host")
# More than other groups have: signs of life come from a thread that shares its processor with the training.
DEFAULT_LEASE = 15.0


@dataclass(frozen=True, slots=True)
class Options:
    """Where a process group's collectives run. Exactly one of `manager` and `group_file` is given.

    `manager`: address of the EPIC manager; `host`: name of this host in its fabric. `group_file`: a static plan, see
    `epic_host.torch_backend.static`. `datatypes` are what the engines must compute: others are emulated over INT32 or
    refused (epic.md, section 6). `path`: "auto", "network" (an error instead of the hosts) or "host".
    `reproducible`: results are bitwise independent of the order of arrival. `lease`: seconds without a sign of life
    after which the manager holds a rank lost. `credentials`: as ManagerClient takes.
    """

    manager: str | None = None
    group_file: str | None = None
    host: str | None = None
    datatypes: tuple[str, ...] = ("INT32",)
    path: str = "auto"
    reproducible: bool = False
    lease: float = DEFAULT_LEASE
    credentials: Any = None

    def __post_init__(self) -> None:
        if (self.manager is None) == (self.group_file is None):
            raise ConfigError(
                f"torch backend epic: manager = {self.manager!r}, group_file = {self.group_file!r}, "
                "expected one of them (EPIC_MANAGER=address or EPIC_GROUP_FILE=path)"
            )
        for datatype in self.datatypes:
            if datatype not in Datatype.__members__:
                known = ", ".join(Datatype.__members__)
                raise ConfigError(
                    f"torch backend epic: datatypes (EPIC_DATATYPES) has {datatype!r}, expected some of {known}"
                )
        if not 0 < self.lease < math.inf:
            raise ConfigError(
                f"torch backend epic: lease (EPIC_LEASE) = {self.lease}, expected seconds above 0"
            )
        if self.path not in PATHS:
            raise ConfigError(
                f"torch backend epic: path (EPIC_PATH) = {self.path!r}, expected one of {', '.join(PATHS)}"
            )

    @property
    def host_name(self) -> str:
        """This host's name in the fabric: `host`, else what the system calls it."""
        return self.host or socket.gethostname()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """From EPIC_MANAGER, EPIC_GROUP_FILE, EPIC_HOST, EPIC_DATATYPES (comma list), EPIC_PATH, EPIC_LEASE (seconds)
        and EPIC_REPRODUCIBLE (0 or 1). Raises ConfigError.
        """
        reproducible = environment.get("EPIC_REPRODUCIBLE", "0")
        if reproducible not in ("0", "1"):
            raise ConfigError(f"torch backend epic: EPIC_REPRODUCIBLE = {reproducible!r}, expected 0 or 1")
        lease = environment.get("EPIC_LEASE") or str(DEFAULT_LEASE)
        try:
            seconds = float(lease)
        except ValueError:
            raise ConfigError(
                f"torch backend epic: EPIC_LEASE = {lease!r}, expected a number of seconds"
            ) from None
        datatypes = environment.get("EPIC_DATATYPES") or "INT32"
        return cls(
            manager=environment.get("EPIC_MANAGER") or None,
            group_file=environment.get("EPIC_GROUP_FILE") or None,
            host=environment.get("EPIC_HOST") or None,
            datatypes=tuple(name.strip().upper() for name in datatypes.split(",")),
            path=environment.get("EPIC_PATH") or "auto",
            reproducible=reproducible == "1",
            lease=seconds,
        )
