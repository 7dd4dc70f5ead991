"""Registers of BMv2 over its own control port: its P4Runtime answers UNIMPLEMENTED to them.

`simple_switch_CLI` is a program that comes with BMv2. It is asked by its standard input, so nothing has to be quoted.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence

from epic_p4.control.backend import BackendError

DEFAULT_THRIFT_PORT = 9090
_CLI = "simple_switch_CLI"

# A command and its standard input; gives its standard output. Raises BackendError.
Runner = Callable[[Sequence[str], str], str]


def run(command: Sequence[str], commands: str, *, timeout: float = 10.0) -> str:
    """Run a program on this machine."""
    try:
        done = subprocess.run(
            command, input=commands, capture_output=True, text=True, timeout=timeout, check=False
        )
    except FileNotFoundError:
        raise BackendError(f"{command[0]}: not found on PATH, expected BMv2's command line tool") from None
    except subprocess.TimeoutExpired:
        raise BackendError(f"{command[0]}: no answer within {timeout:g} s") from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise BackendError(
            f"{command[0]}: exit code {done.returncode}: {reason[-1] if reason else 'no message'}"
        )
    return done.stdout


class Bmv2Registers:
    """Reads the registers of a simple_switch.

    `runner` may run the tool elsewhere, for instance in the switch's network namespace.
    """

    def __init__(self, thrift_port: int = DEFAULT_THRIFT_PORT, runner: Runner = run) -> None:
        self._command = (_CLI, "--thrift-port", str(thrift_port))
        self._runner = runner

    def registers(self, names: Sequence[str], first: int, count: int) -> Sequence[Sequence[int]]:
        """Consecutive cells of several registers, with one run of the tool: its start costs the most."""
        # One line with all cells is faster than many lines, for the tool waits after each.
        output = self._runner(self._command, "".join(f"register_read {name}\n" for name in names))
        return [_cells(output, name, first, count) for name in names]

    def register(self, name: str, first: int, count: int, field: str = "") -> Sequence[int]:
        """Consecutive cells of a register. Raises BackendError."""
        if field:
            raise BackendError(
                f"register {name}: field {field!r} is asked for, BMv2 has plain registers only"
            )
        return self.registers([name], first, count)[0]


def _cells(output: str, name: str, first: int, count: int) -> Sequence[int]:
    """The cells of a register in what the tool printed. Raises BackendError."""
    found = re.search(rf"{re.escape(name)}\s*=\s*(?P<values>\d[\d,\s]*)", output)
    if found is None:
        error = next(
            (line for line in output.splitlines() if "rror" in line or "nvalid" in line), "no values"
        )
        raise BackendError(f"register {name}: {error.strip()}, expected its values from {_CLI}")
    values = [int(value) for value in found["values"].replace("\n", " ").split(",") if value.strip()]
    if len(values) < first + count:
        raise BackendError(f"register {name}: {len(values)} cells, expected at least {first + count}")
    return values[first : first + count]
