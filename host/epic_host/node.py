"""`epic node serve`: a host's part in a fabric. It registers with the manager and keeps its lease.

A host that has registered and goes silent gets no new groups until it is heard again.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from epic_host.cli_options import AdminToken, As, ManagerAddress, Timeout, TlsFolder, open_client
from epic_spec.command import group
from epic_spec.errors import ConfigError, EpicError

if TYPE_CHECKING:
    from epic_host.manager.client import ManagerClient

log = logging.getLogger(__name__)

# Beats in a lease: two may be lost.
_BEATS: Final = 3
# Seconds between attempts at a manager that is away.
_RETRY: Final = 0.5


def register(app: typer.Typer) -> None:
    """Add `epic node` to the command."""
    group(app, "node", "Hosts of a fabric.").command("serve")(serve)


class NodeAgent:
    """Registers `host` and keeps its lease, over restarts of the manager. `mtu` in bytes, 0: not known."""

    def __init__(self, client: ManagerClient, host: str, mtu: int = 0) -> None:
        self._client = client
        self._host = host
        self._mtu = mtu
        self._stopped = threading.Event()
        self._heard = True

    def run(self, ready: Callable[[], object]) -> None:
        """Until `stop`; `ready` is called when the manager knows this host. Raises RefusedError when it will not."""
        wait = self._register()
        ready()
        while not self._stopped.wait(wait):
            wait = self._beat(wait)

    def stop(self) -> None:
        """End `run` soon. From any thread or signal handler."""
        self._stopped.set()

    def _register(self) -> float:
        """Seconds to the next beat."""
        answer = self._client.register_node(host=self._host, mtu=self._mtu, version=_version())
        return answer.lease / _BEATS

    def _beat(self, wait: float) -> float:
        from epic_host.manager import errors

        try:
            answer = self._client.heartbeat(host=self._host)
            # A manager that has lost its store does not know us.
            wait = answer.lease / _BEATS if answer.node_known else self._register()
        except EpicError as error:
            reason = getattr(error, "reason", "")
            if reason not in ("", errors.RATE, errors.BUSY, errors.STOPPING):
                raise
            if self._heard:
                log.warning("node %s: %s; goes on trying", self._host, error)
            self._heard = False
            return min(wait, _RETRY)
        if not self._heard:
            log.warning("node %s: heard again", self._host)
        self._heard = True
        return wait


def serve(
    host: Annotated[str, typer.Option(help="Its name in the fabric; else this machine's.")] = "",
    interface: Annotated[
        list[str] | None, typer.Option(help="Its links (repeatable): the smallest MTU is told the manager.")
    ] = None,
    manager: ManagerAddress = "",
    tls: TlsFolder = None,
    who: As = "",
    admin_token: AdminToken = None,
    timeout: Timeout = 5.0,
    detach: Annotated[bool, typer.Option(help="Keep running when the parent process ends.")] = False,
) -> None:
    """Register this host and keep its lease until SIGTERM or SIGINT. Prints "ready" when the manager knows it.

    At the start it waits --timeout seconds for a manager that is not there yet, later for as long as it takes.
    """
    from epic_host.process import die_with_parent

    if not detach:
        die_with_parent()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    mtu = min((mtu_of(name) for name in interface or ()), default=0)
    with open_client(manager, tls, who, admin_token, timeout, patient=True) as client:
        agent = NodeAgent(client, host or socket.gethostname(), mtu)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        agent.run(lambda: print("ready", flush=True))


def mtu_of(interface: str, system: Path = Path("/sys/class/net")) -> int:
    """The MTU of an interface in bytes, at most what the largest IP packet has. Raises ConfigError."""
    if "/" in interface or interface in ("", ".", ".."):
        raise ConfigError(f"interface {interface!r}, expected the name of one")
    try:
        return min(int((system / interface / "mtu").read_text()), 0xFFFF)
    except (OSError, ValueError):
        known = ", ".join(sorted(path.name for path in system.iterdir())) if system.is_dir() else "one"
        raise ConfigError(f"interface {interface!r} is not there, expected one of {known}") from None


def _version() -> str:
    try:
        return version("epic-inc")
    except PackageNotFoundError:
        return "unknown"
