"""What every run owns, written down where the next run finds it, so that a kill -9 leaves nothing behind for
long.

A run has a directory `<base>/<run id>` with `run.json`: the owner and the processes (each as pid and start
time, so that a reused pid is not taken for it) and the network namespaces. The base is /run/epic for root,
otherwise $XDG_RUNTIME_DIR/epic or <temporary directory>/epic-<uid>.

A run is alive while its owner is, or, for a testbed that `epic testbed up` left running, while any of its
processes is. `clean` removes runs that are not alive, and only those: their processes, namespaces and
directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError
from epic_testbed import netns

PREFIX = "epic-"
# A directory without run.json is one that is being made; after this long nobody is making it.
_UNFINISHED_SECONDS = 60.0
_KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Process:
    """A process by pid and start time (clock ticks after boot, field 22 of /proc/<pid>/stat)."""

    node: str
    pid: int
    start: int

    @classmethod
    def of(cls, node: str, pid: int) -> Process:
        """The process that has this pid now."""
        return cls(node, pid, start_time(pid) or 0)

    def alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        return self.start != 0 and start_time(self.pid) == self.start


def start_time(pid: int) -> int | None:
    """Start time of a process in clock ticks after boot; None when there is none or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, ValueError):
        return None
    # The command name may contain anything; what follows its last ")" is state, ppid, …
    words = text.rpartition(")")[2].split()
    return None if words[0] in "ZX" else int(words[19])


@dataclass(slots=True)
class Run:
    """One run's record. `owner` None means a testbed that outlives the command that started it."""

    id: str
    path: Path
    kind: str
    boot: str
    started: float
    owner: Process | None
    namespaces: list[str] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def alive(self) -> bool:
        """Whether somebody still uses it."""
        if self.boot != _boot_id():
            return False
        if self.owner is not None:
            return self.owner.alive()
        return any(p.alive() for p in self.processes)

    def save(self) -> None:
        """Write run.json; readers see the old or the new one, never a part."""
        data = asdict(self)
        del data["path"]
        temporary = self.path / "run.json.new"
        temporary.write_text(json.dumps(data, indent=1))
        temporary.replace(self.path / "run.json")

    def disown(self) -> None:
        """From now on the run lives as long as its processes do."""
        self.owner = None
        self.save()

    def namespace(self, node: str) -> str:
        """Name of the network namespace of a node."""
        return f"{PREFIX}{self.id}-{node}"

    def destroy(self) -> None:
        """Kill its processes and remove its namespaces and its directory.

        What is gone already is no error.
        """
        kill(self.processes)
        netns.remove(self.namespaces)
        # By name too: a namespace may have been made after the last save.
        netns.remove(name for name in netns.existing() if name.startswith(f"{PREFIX}{self.id}-"))
        shutil.rmtree(self.path, ignore_errors=True)


def base() -> Path:
    """The directory of all runs of this user, made where absent.

    Raises ConfigError when it is not safe to use.
    """
    if os.geteuid() == 0:
        path = Path("/run/epic")
    elif os.environ.get("XDG_RUNTIME_DIR"):
        path = Path(os.environ["XDG_RUNTIME_DIR"], "epic")
    else:
        path = Path(tempfile.gettempdir(), f"epic-{os.geteuid()}")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = path.lstat()
    except OSError as error:
        raise ConfigError(
            f"run directory {path}: {error.strerror}, expected a directory that can be made"
        ) from None
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        raise ConfigError(f"run directory {path}: owned by uid {info.st_uid}, expected {os.geteuid()}")
    return path


def create(kind: str, about: dict[str, Any] | None = None) -> Run:
    """A new run of this process, until it is given up with `disown`."""
    root = base()
    run_id = secrets.token_hex(3)
    # The record is complete before the directory has the name of a run: a cleaner never sees half of one.
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
    owner = Process.of("owner", os.getpid())
    run = Run(run_id, temporary, kind, _boot_id(), time.time(), owner, about=dict(about or {}))
    run.save()
    run.path = root / run_id
    temporary.rename(run.path)
    return run


def runs() -> Iterator[Run]:
    """Every readable run, alive or not, oldest first."""
    found: list[Run] = []
    for path in base().iterdir():
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            data = json.loads((path / "run.json").read_text())
            owner = data.pop("owner")
            processes = [Process(**p) for p in data.pop("processes")]
            found.append(
                Run(path=path, owner=Process(**owner) if owner else None, processes=processes, **data)
            )
    yield from sorted(found, key=lambda run: run.started)


def clean() -> list[str]:
    """Remove what dead runs left. Returns their ids."""
    dead = [run for run in runs() if not run.alive()]
    for run in dead:
        run.destroy()
    known = {run.path for run in runs()}
    for path in base().iterdir():
        with contextlib.suppress(OSError):
            if path not in known and time.time() - path.stat().st_mtime > _UNFINISHED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
    return [run.id for run in dead]


def free_subnet() -> str:
    """The first of the loopback subnets 127.0.0.0/24, 127.0.1.0/24, … that no living run over udp has.

    Raises ConfigError when all 256 are taken.
    """
    taken = {run.about.get("subnet") for run in runs() if run.alive()}
    for number in range(256):
        subnet = f"127.0.{number}.0/24"
        if subnet not in taken:
            return subnet
    raise ConfigError("every subnet of 127.0.0.0/16 has a run, expected a free one (epic testbed status)")


def kill(processes: Iterable[Process]) -> None:
    """Kill processes and wait, up to a deadline, until they are gone.

    Pids that are other processes by now are left alone.
    """
    waiting = [p for p in processes if p.alive() and p.pid != os.getpid()]
    for process in waiting:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + _KILL_SECONDS
    while any(p.alive() for p in waiting) and time.monotonic() < deadline:
        time.sleep(0.01)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
