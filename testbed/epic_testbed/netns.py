"""Network namespaces and veth pairs by way of iproute2. One namespace a host or switch, one veth pair a link.

The kernel's own IP stack stays out of it: interfaces get no address, and the transports send and receive
whole frames on packet sockets.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from epic_spec.errors import ConfigError
from epic_testbed.addressing import Veth

_MOUNTED = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_SECONDS = 30


def require() -> None:
    """Check that namespaces can be made here. Raises ConfigError saying what is missing."""
    if os.geteuid() != 0:
        raise ConfigError(
            f"transport netns: running as uid {os.geteuid()}, expected root (or use --transport udp)"
        )
    if shutil.which("ip") is None:
        raise ConfigError("transport netns: command 'ip' not found, expected iproute2 to be installed")


def create(nodes: Iterable[str], veths: Iterable[Veth], name_of: Callable[[str], str]) -> None:
    """Make a namespace for every node and join them by veth pairs, all up.

    `name_of(node)` is the namespace's name. Raises ConfigError with what `ip` said; the caller removes what
    exists.
    """
    nodes, veths = list(nodes), list(veths)
    lines = [f"netns add {name_of(node)}" for node in nodes]
    for veth in veths:
        child, parent = veth.child, veth.parent
        lines.append(
            f"link add {child.name} netns {name_of(child.node)} address {child.mac} mtu {veth.mtu} type veth "
            f"peer name {parent.name} netns {name_of(parent.node)} address {parent.mac} mtu {veth.mtu}"
        )
    _batch(lines)
    for node in nodes:
        names = [e.name for v in veths for e in (v.child, v.parent) if e.node == node]
        # Without an IPv6 link-local address the kernel has nothing to say on these links. A link whose MTU is
        # below 1280 (RFC 8200), or a kernel without IPv6, refuses this and needs it not.
        _batch([f"link set dev {name} addrgenmode none" for name in names], name_of(node), must=False)
        _batch([f"link set dev {name} up" for name in ("lo", *names)], name_of(node))


def remove(names: Iterable[str]) -> None:
    """Remove namespaces, and with them their interfaces. Absent ones are skipped."""
    present = existing()
    lines = [f"netns del {name}" for name in names if name in present]
    if lines:
        subprocess.run(
            ["ip", "-force", "-batch", "-"],
            input="\n".join(lines),
            text=True,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )


def existing() -> set[str]:
    """Names of all named namespaces of this machine."""
    try:
        return {path.name for path in _MOUNTED.iterdir()}
    except OSError:
        return set()


def enter(name: str) -> None:
    """Move the calling thread into a namespace; threads it starts later are in it too.

    Raises OSError when there is no such namespace or the caller is not root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(_MOUNTED / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(fd, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), name)
    finally:
        os.close(fd)


def _batch(lines: list[str], namespace: str | None = None, must: bool = True) -> None:
    """Run lines of `ip`. Raises ConfigError when one fails and `must`; otherwise the lines after it run too."""
    inside = ["-n", namespace] if namespace else []
    command = ["ip", *inside, *([] if must else ["-force"]), "-batch", "-"]
    try:
        done = subprocess.run(
            command,
            input="\n".join(lines) + "\n",
            text=True,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"transport netns: '{' '.join(command)}' did not end within {_SECONDS} s") from None
    if done.returncode and must:
        said = "; ".join(done.stderr.split("\n")[:2]).strip("; ")
        raise ConfigError(f"transport netns: ip failed: {said or done.returncode}, expected it to succeed")
