"""The control plane of a device by way of a command that the vendor gives (see testbed/CONFORMANCE.md).

`CMD capabilities|install|remove|counters|status|reset` gets a JSON object on standard input and writes one on
standard output. Exit code 0 is good, 2 a group that is not well formed or not installed, 3 a group that the device
has no room or capability for; any other means that the device failed. The reason is the first line of standard
error.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup, check_value
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_spec.errors import ConfigError, ResourceError
from epic_spec.tables import CAPABILITIES
from epic_testbed.dut import DutError

# What is read of an answer at most; the status of 4096 slots is below a tenth of it.
ANSWER_BYTES: Final = 4 << 20
_STDERR_BYTES: Final = 65536
_KINDS: Final = {2: ConfigError, 3: ResourceError}


class HookControl:
    """Runs the vendor's command, in a process group of its own that ends with its deadline."""

    def __init__(self, command: str, mode: int, timeout: float) -> None:
        """`command` is split as a shell would; `timeout` in seconds bounds each call.

        Raises ConfigError when it is empty or not well quoted.
        """
        try:
            self._command = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"option hook = {command!r}: {error}, expected a command") from None
        if not self._command or shutil.which(self._command[0]) is None:
            raise ConfigError(f"option hook = {command!r}, expected a command that can be run")
        self._mode = mode
        self._timeout = timeout
        self._about = self._read_capabilities()

    @property
    def name(self) -> str:
        """What the device calls itself."""
        return str(self._about.get("name", self._command[0]))

    def reads(self, what: str) -> bool:
        """Whether `counters` or `status` can be asked for."""
        return bool(self._about.get(f"reads_{what}", True))

    def capabilities(self) -> EngineCapabilities:
        """What the device offers; a capability that its answer leaves out has the default of epic.toml."""
        values: dict[str, Any] = {"mode": self._mode}
        known = {f.name for f in fields(EngineCapabilities)}
        given = self._about.get("capabilities", {})
        if not isinstance(given, Mapping):
            raise self._bad("capabilities", f"capabilities = {given!r}, expected an object")
        for name, row in CAPABILITIES.items():
            if name in known and name != "mode":
                values[name] = _as_offered(row, row["default"])
        for name, value in given.items():
            if name not in known:
                raise self._bad(
                    "capabilities", f"unknown capability {name!r}, expected one of {', '.join(known)}"
                )
            values[name] = self._capability(name, value)
        return EngineCapabilities(**values)

    def install(self, group: EngineGroup) -> None:
        """Install a group."""
        self._call("install", group.to_dict())

    def remove(self, group: int) -> None:
        """Remove a group."""
        self._call("remove", {"group": group})

    def counters(self) -> Mapping[str, int]:
        """Counters by the names of epic.toml; one that is missing counts as 0."""
        answer = self._call("counters", {})
        for name, value in answer.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise self._bad("counters", f"{name} = {value!r}, expected a whole number")
        return answer

    def status(self, group: int) -> GroupStatus:
        """Slots and failed edges."""
        answer = self._call("status", {"group": group})
        try:
            slots = tuple(
                SlotStatus(int(s["cell"]), int(s["bitmap"]), bool(s["done"])) for s in answer["slots"]
            )
            return GroupStatus(
                group, int(answer.get("epoch", 0)), slots, tuple(map(str, answer.get("failed_edges", ())))
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._bad(
                "status", f"{error!r}, expected slots (cell, bitmap, done) and failed_edges"
            ) from None

    def reset(self) -> None:
        """Remove every group."""
        self._call("reset", {})

    def close(self) -> None:
        """Nothing is held between calls."""

    # ---------------------------------------------------------------------------------------------- inside

    def _read_capabilities(self) -> dict[str, Any]:
        about = self._call("capabilities", {"mode": self._mode})
        for name in about:
            if name not in ("name", "capabilities", "reads_counters", "reads_status"):
                raise self._bad(
                    "capabilities",
                    f"unknown key {name!r}, expected name, capabilities, reads_counters, reads_status",
                )
        return about

    def _capability(self, name: str, value: Any) -> Any:
        try:
            if CAPABILITIES[name]["kind"] == "choice":
                if not isinstance(value, list) or not value:
                    raise ConfigError(f"{name} = {value!r}, expected a list of what is offered")
                for choice in value:
                    check_value(name, choice, "capabilities")
            else:
                check_value(name, value, "capabilities")
        except (ConfigError, TypeError) as error:
            raise self._bad("capabilities", str(error)) from None
        return tuple(value) if isinstance(value, list) else value

    def _bad(self, verb: str, what: str) -> DutError:
        return DutError(f"hook {self._command[0]} {verb}: {what}")

    def _call(self, verb: str, question: dict[str, Any]) -> dict[str, Any]:
        code, output, complaint = self._run(verb, json.dumps(question).encode())
        if code:
            first = next((line.strip() for line in complaint.splitlines() if line.strip()), "")
            text = f"hook {self._command[0]} {verb}: {first or f'exit code {code}'}"
            raise _KINDS.get(code, DutError)(text)
        if not output.strip():
            return {}
        try:
            answer = json.loads(output)
        except (ValueError, RecursionError) as error:
            raise self._bad(verb, f"its output is not JSON ({error})") from None
        if not isinstance(answer, dict):
            raise self._bad(verb, "its output is not a JSON object")
        return answer

    def _run(self, verb: str, question: bytes) -> tuple[int, bytes, str]:
        """Exit code, standard output and standard error. Raises DutError at the deadline."""
        deadline = time.monotonic() + self._timeout
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            # Files, not pipes: a command that does not read its input, or says much, cannot block.
            stdin.write(question)
            stdin.seek(0)
            try:
                child = subprocess.Popen(
                    [*self._command, verb],
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    start_new_session=True,
                )
            except OSError as error:
                raise self._bad(verb, f"cannot be run ({error.strerror})") from None
            try:
                output = self._read(child, verb, deadline)
                code = child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise self._late(verb) from None
            finally:
                # What the command has left running in its group goes too.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                assert child.stdout is not None
                child.stdout.close()
            stderr.seek(0)
            return code, output, stderr.read(_STDERR_BYTES).decode(errors="replace")

    def _read(self, child: subprocess.Popen[bytes], verb: str, deadline: float) -> bytes:
        assert child.stdout is not None
        found = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise self._late(verb)
                data = os.read(child.stdout.fileno(), 1 << 16)
                if not data:
                    return bytes(found)
                found += data
                if len(found) > ANSWER_BYTES:
                    raise self._bad(verb, f"its output is longer than {ANSWER_BYTES} bytes")

    def _late(self, verb: str) -> DutError:
        return self._bad(verb, f"no answer within {self._timeout:g} s")


def _as_offered(row: Mapping[str, Any], default: Any) -> Any:
    if row["kind"] == "choice":
        return (default,)
    return tuple(default) if row["kind"] == "set" else default
