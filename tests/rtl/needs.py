"""What tests of the RTL need beside Python, and how many of them run.

A test whose tools are missing is skipped, with the reason, on a developer's machine; in continuous integration
(CI=true) it fails, for there a tool that is missing is a test that nobody runs.

`make test` runs a sample of benches, mutants and proofs; EPIC_RTL=full runs all of them, as `epic check rtl` does.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

from epic_spec.errors import ConfigError
from epic_testbed.rtl import build
from epic_testbed.rtl.check import tools
from epic_testbed.rtl.check.model import ToolMissing

FULL = os.environ.get("EPIC_RTL") == "full"


def need(*names: str) -> None:
    """Skip the test that calls this, or the module when called outside one, unless these tools are here; in CI fail.

    verilator (with its compiler), icarus, yosys (with the solver), cocotb.
    """
    for name in names:
        reason = missing(name)
        if reason is None:
            continue
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true, but {reason}", pytrace=False)
        pytest.skip(reason, allow_module_level=True)


def missing(name: str) -> str | None:
    """Why a tool can't be used; None when it can."""
    try:
        if name == "verilator":
            build.require()
        elif name == "icarus":
            tools.icarus()
        elif name == "yosys":
            tools.abc()
            tools.smtbmc()
        elif name == "cocotb":
            _package("cocotb")
            _package("cocotbext.axi")
        else:
            raise ValueError(f"{name}: no such tool")
    except (ConfigError, ToolMissing) as error:
        return str(error)
    return None


def _package(name: str) -> None:
    try:
        found = importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise ToolMissing(f"{name} is not installed: {tools.EXTRA}")
