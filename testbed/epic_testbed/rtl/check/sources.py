"""The modules of rtl/src: which file holds which, and what each needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from epic_spec.errors import ConfigError
from epic_spec.loader import REPO

RTL = REPO / "rtl"
SRC = RTL / "src"

_MODULE = re.compile(r"^\s*module\s+(\w+)", re.MULTILINE)
_INCLUDE = re.compile(r'^\s*`include\s+"(\w+\.vh)"', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def modules(source: Path = SRC) -> dict[str, Path]:
    """Module names to their files. Raises ConfigError where a file holds not just the module that it is named for."""
    found: dict[str, Path] = {}
    for path in sorted(source.glob("*.v")):
        names = _MODULE.findall(_COMMENT.sub("", path.read_text()))
        if names != [path.stem]:
            raise ConfigError(f"{path}: holds modules {names}, expected {path.stem} alone")
        found[path.stem] = path
    if not found:
        raise ConfigError(f"{source}: no *.v, expected the modules of the RTL realization")
    return found


def closure(tops: list[str], known: dict[str, Path]) -> list[Path]:
    """The files of `tops` and of all modules that they use, directly or not, each once."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        order.append(name)
        for used in instances(known[name], known):
            visit(used)

    for top in tops:
        visit(top)
    return [known[name] for name in order]


def instances(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The known modules that the text of a file instantiates, itself or by a macro of what it includes."""
    text = path.read_text()
    included = (path.parent / name for name in _INCLUDE.findall(text))
    text = _COMMENT.sub("", text + "".join(header.read_text() for header in included if header.is_file()))
    for name in known:
        if re.search(rf"\b{name}\s*(#\s*\(|\w+\s*\()", text) and not re.search(rf"\bmodule\s+{name}\b", text):
            yield name
