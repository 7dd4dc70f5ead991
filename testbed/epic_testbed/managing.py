"""The manager of a run: its files, the group of the run, and what it decided about it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from epic_host.manager.client import ManagerClient
from epic_host.member import create_group
from epic_spec.errors import EpicError
from epic_testbed import fabric
from epic_testbed.options import Setup

# The node's name among a run's processes, and its group's.
NODE: Final = "manager"
GROUP: Final = "run"
# What its process needs, and what ranks need to join.
MODULES: Final = ("epic_host.manager.server", "epic_host.managed")
# Seconds in which the manager has to see every switch once all have started.
SEEN_SECONDS: Final = 30.0
_TICK: Final = 0.02
# The manager is asked at the end of a run, of which it may be a casualty.
_LAST_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Access:
    """What a rank needs to join."""

    manager: str
    group: str
    join_token: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"manager": self.manager, "group": self.group, "join_token": self.join_token}


class Managing:
    """The manager of the run in `directory`."""

    def __init__(self, setup: Setup, directory: Path, control: dict[str, str]) -> None:
        self._setup = setup
        self._directory = directory
        self._control = control
        self.address = f"unix:{directory}/{NODE}.sock"

    def write_files(self) -> Path:
        """fabric.toml and manager.toml; the latter's path."""
        made = fabric.fabric_of(self._setup, self._control)
        (self._directory / "fabric.toml").write_text(made.to_toml())
        config = {
            "fabric": "fabric.toml",
            "listen": [self.address],
            "database": "manager.db",
            "seed": self._setup.seed,
        }
        path = self._directory / "manager.toml"
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items()))
        return path

    def create(self, reproducible: bool) -> Access:
        """Create the group of the run once every switch is seen.

        Raises ConfigError and ResourceError as the manager refuses, EpicError when it does not see a switch.
        """
        setup, params = self._setup, self._setup.params
        self._see_switches()
        name, token = create_group(
            self.address,
            hosts=[setup.plan.hosts[rank] for rank in range(setup.ranks)],
            name=GROUP,
            modes=[params.mode],
            payload_bytes=params.payload_bytes,
            window=params.window,
            datatypes=params.datatypes,
            operators=params.operators,
            byte_order=params.byte_order,
            reproducible=reproducible,
            ack_reflection=params.ack_reflection,
            deadline=params.deadline_us * 1e-6,
            path=self._path(),
        )
        return Access(self.address, name, token)

    def _path(self) -> str:
        """A run is about its switches, and goes to the hosts when they are lost; over netns those reach no others."""
        return "network" if self._setup.transport == "netns" else "prefer_network"

    def _see_switches(self) -> None:
        until = time.monotonic() + SEEN_SECONDS
        with ManagerClient(self.address, timeout=SEEN_SECONDS, patient=True) as client:
            while True:
                unseen = [engine.name for engine in client.get_topology().engines if engine.state != "up"]
                if not unseen:
                    return
                if time.monotonic() > until:
                    names = ", ".join(unseen)
                    raise EpicError(f"the manager does not see switch {names} within {SEEN_SECONDS:.0f} s")
                time.sleep(_TICK)

    def decisions(self) -> list[dict[str, Any]]:
        """What the manager decided about the group, oldest first; empty when it is gone."""
        try:
            with ManagerClient(self.address, timeout=_LAST_SECONDS) as client:
                found = client.explain(group=GROUP)
        except EpicError:
            return []
        return [
            {"epoch": d.epoch, "path": d.path, "reason": d.reason, "text": d.text, "about": dict(d.about)}
            for d in found.decisions
        ]
