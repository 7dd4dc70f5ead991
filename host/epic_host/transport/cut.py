"""Links that are cut while a run goes on: a file names the peers whose packets a transport drops, both ways.

The file holds a JSON list of IPv4 networks, `["127.20.1.0/28", "127.20.0.3/32"]`; while there is none, nothing is
cut. It is looked at again at most every 50 ms, and by a node that starts, so a cut outlives a restart of the node.
Its writer replaces it whole (`write_cuts`): a reader never sees half of one.
"""

from __future__ import annotations

import ipaddress
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from epic_spec.errors import ConfigError

log = logging.getLogger(__name__)

# Seconds between looks at the file.
INTERVAL: Final = 0.05


def write_cuts(path: Path, networks: Iterable[str]) -> None:
    """Cut the links to these networks, and no others."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(sorted(networks)))
    temporary.replace(path)


def read_cuts(path: Path) -> tuple[ipaddress.IPv4Network, ...]:
    """The networks that are cut. Raises ConfigError for a file that is not a list of IPv4 networks."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"cuts {path}: {error.strerror}, expected a file that can be read") from None
    try:
        data = json.loads(text)
        if not isinstance(data, list) or not all(isinstance(item, str) for item in data):
            raise ValueError("not a list of texts")
        return tuple(ipaddress.IPv4Network(item) for item in data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"cuts {path}: {error}, expected a JSON list of IPv4 networks") from None


class Cut:
    """What a transport asks for every packet. Construction raises ConfigError for a file that is not right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._networks = read_cuts(path)
        self._known: dict[str, bool] = {}
        self._stamp = self._stat()
        self._next = 0.0
        self.dropped = 0

    def blocks(self, address: str, now: float) -> bool:
        """Whether a packet to or from `address` is dropped; counted in `dropped` when it is."""
        if now >= self._next:
            self._next = now + INTERVAL
            self._look()
        blocked = self._known.get(address)
        if blocked is None:
            at = ipaddress.IPv4Address(address)
            blocked = self._known[address] = any(at in network for network in self._networks)
        self.dropped += blocked
        return blocked

    def _look(self) -> None:
        stamp = self._stat()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._networks = read_cuts(self._path)
        except ConfigError as error:
            # A node that runs does not end for it: what was cut stays cut.
            log.warning("%s", error)
            return
        self._known.clear()

    def _stat(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        # A replaced file has another inode, even within one tick of the clock.
        return found.st_ino, found.st_mtime_ns
