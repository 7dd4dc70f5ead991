"""BMv2 as the switch of a run: `simple_switch_grpc` in a network namespace, driven through P4Runtime.

`serve` is the process of one switch: it starts simple_switch_grpc on the interfaces of its namespace, loads the program
that p4c made (p4/build), and serves the same control service as the software switch. BMv2's Thrift server listens on
every address and takes no other choice, so it never runs outside a namespace of its own.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from epic_host.control import ControlServer
from epic_host.transport.config import take
from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus
from epic_p4.control import GroupController, ProgramModel
from epic_p4.p4runtime.bmv2 import Bmv2Registers
from epic_p4.p4runtime.client import P4RuntimeBackend, PipelineConfig
from epic_spec.errors import AbortedError, ConfigError, EpicError
from epic_testbed.p4 import BMV2, group_status
from epic_testbed.p4.program import SOURCES
from epic_testbed.tied import tied

T = TypeVar("T")

PROGRAM: Final = "simple_switch_grpc"
CLI: Final = "simple_switch_CLI"
# Made by p4c from p4/bmv2/epic.p4; `epic check p4` says when the sources have changed since.
PIPELINE: Final = (SOURCES / "build" / "epic.p4info.txtpb", SOURCES / "build" / "epic.json")
GRPC: Final = ("127.0.0.1", 9559)
THRIFT_PORT: Final = 9090
READY_SECONDS: Final = 20.0
TERM_SECONDS: Final = 3.0
_PUBLIC: Final = "github.com/p4lang/behavioral-model"


class Bmv2Error(EpicError):
    """simple_switch_grpc did not start, or has ended."""


def require() -> None:
    """Check that BMv2 and the compiled program are here.

    Raises ConfigError: what is missing, where it was looked for, how to get it.
    """
    for program, what in ((PROGRAM, "BMv2 with gRPC"), (CLI, "its command line tool")):
        if shutil.which(program) is None:
            raise ConfigError(
                f"{program}: not found on PATH, expected {what} (no Debian package exists: build {_PUBLIC}"
                " with --with-pi and put its programs on PATH, or use --switch p4)"
            )
    for path in PIPELINE:
        if not path.is_file():
            raise ConfigError(f"{path}: no such file, expected what p4c makes of {SOURCES / 'bmv2/epic.p4'}")


class SimpleSwitch:
    """A running simple_switch_grpc without a program. Ends with this process, whatever ends it."""

    def __init__(self, ports: Mapping[int, str], log: Path) -> None:
        """`ports` are interfaces of the calling thread's namespace. Raises Bmv2Error when it does not come up."""
        command = [PROGRAM, "--no-p4", "--device-id", "1", "--thrift-port", str(THRIFT_PORT)]
        for port, interface in sorted(ports.items()):
            command += ["-i", f"{port}@{interface}"]
        command += ["--", "--grpc-server-addr", f"{GRPC[0]}:{GRPC[1]}"]
        self._log = log
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                tied(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            self.check()
            with socket.socket() as probe:
                probe.settimeout(0.2)
                if probe.connect_ex(GRPC) == 0:
                    return
            time.sleep(0.05)
        raise Bmv2Error(f"{PROGRAM}: no gRPC server at {GRPC[0]}:{GRPC[1]} within {READY_SECONDS:g} s")

    def check(self) -> None:
        """Raises Bmv2Error when the process has ended."""
        code = self._popen.poll()
        if code is not None:
            lines = self._log.read_text(errors="replace").strip().splitlines()
            raise Bmv2Error(f"{PROGRAM}: ended with {code}: {lines[-1] if lines else 'it said nothing'}")

    def close(self) -> None:
        """End it: it stops on SIGTERM, not on SIGINT."""
        self._popen.terminate()
        try:
            self._popen.wait(TERM_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


class Bmv2Switch:
    """A BMv2 with the EPIC program, as the control service sees an engine."""

    engine_name = "bmv2"

    def __init__(self, name: str, ports: Mapping[int, str], log: Path) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._switch = SimpleSwitch(ports, log)
        try:
            self._backend = P4RuntimeBackend(
                f"{GRPC[0]}:{GRPC[1]}",
                pipeline=PipelineConfig.from_files(*PIPELINE),
                registers=Bmv2Registers(THRIFT_PORT),
            )
        except BaseException:
            self._switch.close()
            raise
        # The switch is new and ends with this controller, so generations start from the first.
        self._controller = GroupController(self._backend, ProgramModel.of(self._backend.schema))

    def run(self) -> None:
        """Until `stop`. Raises Bmv2Error when simple_switch_grpc ends before."""
        while not self._stop.wait(0.2):
            self._switch.check()

    def stop(self) -> None:
        """End `run` soon."""
        self._stop.set()

    def close(self) -> None:
        """Leave and end the switch."""
        self._stop.set()
        self._backend.close()
        self._switch.close()

    def call(self, work: Callable[[], T], timeout: float) -> T:
        """Run `work`, one at a time. Raises TimeoutError while another takes too long, AbortedError at the end."""
        if not self._lock.acquire(timeout=timeout):
            raise TimeoutError(f"switch {self.name} is busy, no answer within {timeout:g} s")
        try:
            if self._stop.is_set():
                raise AbortedError(f"switch {self.name} is shutting down")
            return work()
        finally:
            self._lock.release()

    def capabilities(self) -> EngineCapabilities:
        """What the program offers on BMv2."""
        return BMV2

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return self._controller.groups()

    def install(self, entry: EngineGroup) -> None:
        """Install a group. Raises ConfigError, ResourceError, BackendError."""
        BMV2.check(entry)
        self._controller.install(entry)

    def remove(self, group: int) -> None:
        """Remove a group. Raises ConfigError when it is not installed."""
        self._controller.remove(group)

    def status(self, group: int) -> GroupStatus:
        """Slots, read over Thrift: BMv2's P4Runtime has no register reads."""
        return group_status(self._controller.status(group))

    def counters(self) -> dict[str, int]:
        """The program's counters."""
        return self._controller.counters()


def serve(path: Path) -> None:
    """The process of one switch: `path` has what a software switch is given. Prints "ready" when it serves."""
    config = _config(path)
    ports = {int(port): interface for port, interface in config["transport"]["ports"].items()}
    switch = Bmv2Switch(config["name"], ports, path.with_suffix(".bmv2.log"))
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: switch.stop())
        control = ControlServer(config["control"], switch)
        try:
            print("ready", flush=True)
            switch.run()
        finally:
            control.close()
    finally:
        switch.close()


def _config(path: Path) -> dict[str, Any]:
    values = take(
        json.loads(path.read_text()), "switch", ("name", "engine", "control", "transport"), ("trace",)
    )
    if values.get("trace") is not None:
        raise ConfigError("trace with switch = bmv2: a BMv2 records nothing, expected none")
    if values["transport"].get("kind") != "packet":
        raise ConfigError(f"transport = {values['transport'].get('kind')!r}, expected packet (netns)")
    return values
