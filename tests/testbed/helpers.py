"""What the tests of the testbed share: the command, subnets, and looking for leftovers."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from epic_testbed import netns, registry

# A whole run is over long before this, also on a busy machine.
SECONDS = 120


def subnet() -> str:
    """A loopback subnet that, out of 32768, hardly another test that runs now is using."""
    return f"127.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}.0/24"


def command(*args: str) -> list[str]:
    """The command line of `epic`.

    Runs are of the reference data path, whose processes start sooner, unless a test names one.
    """
    if (args[:1] == ("run",) or args[:2] == ("testbed", "up")) and "--datapath" not in args:
        args = (*args, "--datapath", "reference")
    return [sys.executable, "-m", "epic_spec.command", *args]


def epic(*args: str) -> subprocess.CompletedProcess[str]:
    """Run `epic` to its end."""
    return subprocess.run(command(*args), capture_output=True, text=True, timeout=SECONDS, check=False)


def run(*args: str, expect: int = 0) -> dict[str, Any]:
    """The JSON object of `epic run`, over udp in a subnet of its own where no transport is given."""
    where = () if "--transport" in args else ("--subnet", subnet())
    done = epic("run", "--json", *where, *args)
    assert done.returncode == expect, (
        f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"expected one line, got {len(lines)}"
    found: dict[str, Any] = json.loads(lines[0])
    return found


def processes_of(run_id: str) -> list[int]:
    """Pids of processes whose command line names a run's directory."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(f"/{run_id}/".encode() in word for word in words) and b"epic_testbed.child" in words:
                found.append(int(path.name))
    return found


def leftovers(run_id: str) -> list[str]:
    """What is left of a run: processes, namespaces, its directory."""
    found = [f"process {pid}" for pid in processes_of(run_id)]
    found += [name for name in netns.existing() if name.startswith(f"{registry.PREFIX}{run_id}-")]
    path = registry.base() / run_id
    return found + ([str(path)] if path.exists() else [])
