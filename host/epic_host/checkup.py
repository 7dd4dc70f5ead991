"""What `epic doctor` looks at: each check yields findings, ok, failed or skipped, with the remedy where there is one.

Nothing is changed and nothing is sent: sockets are bound and closed, files are read, the manager is asked.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from epic_host.transport.base import SOCKET_BUFFER
from epic_spec import codec
from epic_spec.errors import ConfigError, EpicError, WireError
from epic_spec.tables import UDP_PORT

Status = Literal["ok", "fail", "skip"]

# What a payload shares its IP packet with: IPv4 20, UDP 8, BTH 12, ImmDt 4, ICRC 4, and 12 between hosts.
OVERHEAD: Final = 60

# Frames of epic.md, section 2.7 (worked example): a contribution, one with Pad bytes, an ACK.
EXAMPLES: Final = (
    "02000a00000102000a00000208004502003800004000401126b10a0000020a000001c00112b700240000"
    "0500ffff0000abcd80fffffeffff100500000001fffffffed9aa71c0",
    "02000a00000102000a00000208004502003800004000401126b10a0000020a000001c00112b700240000"
    "0530ffff0000abcd80000000000394060102030405000000ab69c5e8",
    "02000a00000202000a00000108004502003000004000401126b90a0000010a000002c00112b7001c0000"
    "1100ffff0000123400fffffe1f0000078fda8528",
)

# Command, the arguments that make it say its version, the Debian package, what there is not without it.
TOOLS: Final = (
    ("ip", ("-V",), "iproute2", "network namespaces (epic run --transport netns)"),
    ("tshark", ("--version",), "tshark", "the dissector's test"),
    ("java", ("-version",), "default-jre-headless", "proofs (epic check tla)"),
    ("iverilog", ("-V",), "iverilog", "RTL benches (epic check rtl)"),
    ("g++", ("--version",), "g++", "RTL engines (Verilator)"),
    ("make", ("--version",), "make", "make run, make test"),
    ("perl", ("--version",), "perl", "Verilator"),
)
_TOOL_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and what to do where it is not well."""

    check: str
    thing: str
    status: Status
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """What to look at. `payload` in bytes is what packets shall carry; `needed` names what must not be missing."""

    interfaces: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ("127.0.0.1",)
    peers: tuple[str, ...] = ()
    payload: int = 1024
    needed: frozenset[str] = frozenset()
    ask_manager: Callable[[], Iterator[Finding]] | None = None
    certificates: Callable[[], Iterator[Finding]] | None = None
    system: Path = field(default=Path("/"))


def link(patient: Patient) -> Iterator[Finding]:
    """Each interface is there, up, and has a carrier."""
    for name in patient.interfaces or _default_interfaces(patient):
        base = patient.system / "sys/class/net" / name
        if not base.is_dir():
            yield Finding(
                "link", name, "fail", "no such interface", f"one of {', '.join(_interfaces(patient))}"
            )
            continue
        # Loopback and tunnels say "unknown" and mean up; IFF_UP is bit 0.
        up = int(_read(base / "flags") or "0", 16) & 1
        state, carrier = _read(base / "operstate"), _read(base / "carrier")
        if up and (carrier == "1" or state in ("up", "unknown")):
            speed = _read(base / "speed")
            rate = f", {speed} Mbit/s" if speed.isdecimal() else ""
            yield Finding("link", name, "ok", f"up{rate}")
        elif up:
            yield Finding(
                "link", name, "fail", f"no carrier ({state or 'down'})", "check cable and the other end"
            )
        else:
            yield Finding("link", name, "fail", "down", f"ip link set {name} up")


def mtu(patient: Patient) -> Iterator[Finding]:
    """Packets of the payload fit each interface, and the way to each peer."""
    needed = patient.payload + OVERHEAD
    for name in patient.interfaces or _default_interfaces(patient):
        found = _read(patient.system / "sys/class/net" / name / "mtu")
        if found.isdecimal():
            yield _mtu_finding(name, int(found), needed, f"ip link set {name} mtu {needed}")
    for peer in patient.peers:
        yield _mtu_of_peer(peer, needed)


def _mtu_finding(thing: str, found: int, needed: int, remedy: str) -> Finding:
    # Payloads are multiples of 64 bytes.
    room = max(0, found - OVERHEAD) // 64 * 64
    text = f"{found} bytes: payloads of up to {room} bytes"
    if found >= needed:
        return Finding("mtu", thing, "ok", text)
    return Finding(
        "mtu", thing, "fail", f"{text}, expected {needed - OVERHEAD}", f"{remedy}, or a smaller payload"
    )


def _mtu_of_peer(peer: str, needed: int) -> Finding:
    # From <linux/in.h>; Python has no names for them.
    ip_mtu_discover, ip_pmtudisc_do, ip_mtu = 10, 2, 14
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_IP, ip_mtu_discover, ip_pmtudisc_do)
            probe.connect((peer, UDP_PORT))
            found = probe.getsockopt(socket.IPPROTO_IP, ip_mtu)
        except OSError as error:
            return Finding(
                "mtu", f"to {peer}", "fail", str(error.strerror or error), f"a route to {peer} (ip route)"
            )
    return _mtu_finding(f"to {peer}", found, needed, "a larger MTU on the links to it")


def addresses(patient: Patient) -> Iterator[Finding]:
    """Each address is one of this host's."""
    for address in patient.addresses:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError as error:
                why = str(error.strerror or error)
                yield Finding("address", address, "fail", why, f"ip address add {address}/… dev INTERFACE")
            else:
                yield Finding("address", address, "ok", "is this host's")


def port(patient: Patient) -> Iterator[Finding]:
    """UDP port 4791 is free on each address; a program that holds it on all addresses holds it there too."""
    for address in patient.addresses:
        thing = f"{address}:{UDP_PORT}"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, UDP_PORT))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    yield Finding("port", thing, "skip", f"cannot be tried: {error.strerror}")
                    continue
                holders = (
                    ", ".join(_holders(patient, address)) or "a program of another user, or the kernel's RoCE"
                )
                yield Finding("port", thing, "fail", f"in use by {holders}", "end it, or use another address")
            else:
                yield Finding("port", thing, "ok", "free")


def icrc(patient: Patient) -> Iterator[Finding]:
    """The ICRC of the worked examples is computed, and a wrong one is found."""
    for number, text in enumerate(EXAMPLES):
        frame = bytes.fromhex(text)
        thing, remedy = f"example {number}", "install EPIC anew: its codec is not that of the specification"
        if codec.icrc(frame[:-4]) != frame[-4:]:
            made = codec.icrc(frame[:-4]).hex()
            yield Finding("icrc", thing, "fail", f"{made}, expected {frame[-4:].hex()}", remedy)
            continue
        try:
            codec.decode(frame, icrc="verify")
            codec.decode(frame[:-5] + bytes([frame[-5] ^ 1]) + frame[-4:], icrc="verify")
        except WireError as error:
            good = error.reason == "icrc"
            text = "computed, and a wrong one found" if good else f"refused: {error}"
            yield Finding("icrc", thing, "ok" if good else "fail", text, "" if good else remedy)
        else:
            yield Finding("icrc", thing, "fail", "a frame with a wrong bit is taken", remedy)


def buffers(patient: Patient) -> Iterator[Finding]:
    """Socket buffers may be as large as the transport asks for."""
    for name in ("rmem_max", "wmem_max"):
        found = _read(patient.system / "proc/sys/net/core" / name)
        thing = f"net.core.{name}"
        if not found.isdecimal():
            yield Finding("buffers", thing, "skip", "cannot be read")
        elif int(found) >= SOCKET_BUFFER or _may("net_admin", patient):
            beyond = "" if int(found) >= SOCKET_BUFFER else ", and this user may go beyond"
            yield Finding("buffers", thing, "ok", f"{found} bytes{beyond}")
        else:
            yield Finding(
                "buffers",
                thing,
                "fail",
                f"{found} bytes, expected {SOCKET_BUFFER}",
                f"sysctl {thing}={SOCKET_BUFFER}",
            )


def frames(patient: Patient) -> Iterator[Finding]:
    """Whole Ethernet frames may be sent and received (transports netns and packet)."""
    if _may("net_raw", patient):
        yield Finding("frames", "raw sockets", "ok", "allowed")
    else:
        yield Finding(
            "frames",
            "raw sockets",
            _absent("frames", patient),
            "not allowed to this user",
            "root, or setcap cap_net_raw",
        )


def clock(patient: Patient) -> Iterator[Finding]:
    """The clock is kept by somebody: certificates hold from one time to another."""
    unsynchronized, error = _adjtimex()
    if error:
        yield Finding("time", "clock", "skip", f"the kernel does not say: {error}")
    elif unsynchronized:
        # Without certificates nothing depends on it.
        status: Status = "fail" if patient.certificates is not None else _absent("time", patient)
        yield Finding("time", "clock", status, "not synchronized", "start chronyd, ntpd or systemd-timesyncd")
    else:
        yield Finding("time", "clock", "ok", "synchronized")


def tools(patient: Patient) -> Iterator[Finding]:
    """Programs that parts of EPIC use."""
    for command, arguments, package, what in TOOLS:
        path = shutil.which(command)
        if path is None:
            status = _absent(command, patient, "tools")
            yield Finding(
                "tool", command, status, f"not found: without it no {what}", f"apt-get install {package}"
            )
            continue
        try:
            done = subprocess.run(
                [path, *arguments], capture_output=True, text=True, errors="replace", timeout=_TOOL_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            yield Finding(
                "tool", command, "fail", f"does not run: {error}", f"apt-get install --reinstall {package}"
            )
            continue
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        if done.returncode:
            text = f"ends with {done.returncode}: {lines[0] if lines else 'no output'}"
            yield Finding("tool", command, "fail", text, f"apt-get install --reinstall {package}")
        else:
            yield Finding("tool", command, "ok", lines[0][:80] if lines else "runs")


def certificates(patient: Patient) -> Iterator[Finding]:
    """The certificate is there, of its authority, in its time, and its key is nobody else's to read."""
    if patient.certificates is None:
        yield Finding("tls", "certificate", "skip", "none named (--tls, --as)")
    else:
        yield from _guarded("tls", "certificate", patient.certificates)


def manager(patient: Patient) -> Iterator[Finding]:
    """The manager answers, and so do the engines that it knows."""
    if patient.ask_manager is None:
        yield Finding("manager", "manager", "skip", "none named (--manager)")
    else:
        yield from _guarded("manager", "manager", patient.ask_manager)


Check = Callable[[Patient], Iterator[Finding]]
CHECKS: Final[dict[str, Check]] = {
    "link": link,
    "mtu": mtu,
    "addresses": addresses,
    "port": port,
    "icrc": icrc,
    "buffers": buffers,
    "frames": frames,
    "time": clock,
    "tools": tools,
    "certificates": certificates,
    "manager": manager,
}


def _guarded(check: str, thing: str, ask: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from ask()
    except ConfigError as error:
        yield Finding(check, thing, "fail", str(error), "correct what is named")
    except EpicError as error:
        yield Finding(check, thing, "fail", str(error), "epic manager serve --config manager.toml")


def _absent(name: str, patient: Patient, *also: str) -> Status:
    """How something is that not everyone needs."""
    return "fail" if patient.needed & {name, *also} else "skip"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _interfaces(patient: Patient) -> list[str]:
    base = patient.system / "sys/class/net"
    return sorted(path.name for path in base.iterdir()) if base.is_dir() else []


def _default_interfaces(patient: Patient) -> tuple[str, ...]:
    """Loopback, and the interfaces of default routes."""
    names = {"lo"}
    for line in _read(patient.system / "proc/net/route").splitlines()[1:]:
        columns = line.split()
        if len(columns) > 1 and columns[1] == "00000000":
            names.add(columns[0])
    return tuple(sorted(names))


def _holders(patient: Patient, address: str) -> Iterator[str]:
    """Programs with a socket on port 4791 of this address or of all addresses, where they may be looked into."""
    # /proc/net/udp has the address as the hexadecimal of a native 32-bit number.
    wanted = {f"{number:08X}" for number in (struct.unpack("=I", socket.inet_aton(address))[0], 0)}
    inodes = set()
    for line in _read(patient.system / "proc/net/udp").splitlines()[1:]:
        columns = line.split()
        local, _, number = columns[1].partition(":")
        if int(number, 16) == UDP_PORT and local in wanted:
            inodes.add(f"socket:[{columns[9]}]")
    for process in (patient.system / "proc").glob("[0-9]*"):
        if inodes & set(_open_files(process)):
            yield f"{_read(process / 'comm')} (process {process.name})"


def _open_files(process: Path) -> Iterator[str]:
    """What the files of a process are, as far as this one may see; some are closed meanwhile."""
    try:
        files = list((process / "fd").iterdir())
    except OSError:
        return
    for file in files:
        with contextlib.suppress(OSError):
            yield str(file.readlink())


def _may(capability: str, patient: Patient) -> bool:
    """Whether this process has a capability; numbers of <linux/capability.h>."""
    bit = {"net_admin": 12, "net_raw": 13}[capability]
    for line in _read(patient.system / "proc/self/status").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> bit & 1)
    return os.geteuid() == 0


def _adjtimex() -> tuple[bool, str]:
    """Whether the kernel holds its clock for unsynchronized, and an error. From <sys/timex.h>: STA_UNSYNC."""
    sta_unsync = 0x40
    # struct timex: modes, then (aligned) offset, freq, maxerror, esterror as long, then status as int.
    buffer = ctypes.create_string_buffer(512)
    if ctypes.CDLL(None, use_errno=True).adjtimex(buffer) < 0:
        return False, os.strerror(ctypes.get_errno())
    long = ctypes.sizeof(ctypes.c_long)
    status = struct.unpack_from("=i", buffer, 5 * long)[0]
    return bool(status & sta_unsync), ""
