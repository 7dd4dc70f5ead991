"""The rows of what benches of whole engines measure in rtl/README.md: cycles a cell, and latency."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from epic_testbed.rtl.check.model import Figures

# The benches that measure: of each configuration, figures `SIZE B: NAME` for each of NAMES and several sizes.
PREFIX = "bench/epic_mode3/"
NAMES = (
    "beats a frame",
    "cycles from frame to frame",
    "cycles a cell",
    "first beat in to first beat out",
    "last beat in to first beat out",
)
HEAD = (
    "| configuration | payload | beats of a frame | a frame every | a cell every | first beat in to first beat out "
    "| last beat in to first beat out |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
)
_SIZE = re.compile(r"(\d+) B: ")


def configuration(check: str) -> str:
    """What the table calls a check: its parameters, without the simulator, for both must count the same cycles."""
    return check.rsplit("/", 1)[-1].replace("=", " ").replace(",", ", ")


def rows(check: str, figures: Figures) -> list[str]:
    """The lines of a configuration, the largest payload first. Raises KeyError where a figure is missing."""
    sizes = sorted({int(m[1]) for key in figures if (m := _SIZE.match(key))}, reverse=True)
    name = configuration(check)
    lines = []
    for size in sizes:
        cells = [f"{figures[f'{size} B: {key}']:g}" for key in NAMES]
        lines.append(f"| {' | '.join([name, str(size), *cells])} |")
    return lines


def table(results: Mapping[str, Figures], inside: str, order: Iterable[str]) -> str:
    """The table: `results`, and of the others in `order`, all checks by name, what the table `inside` said before."""
    lines: dict[str, list[str]] = {}
    for text in inside.splitlines()[2:]:
        lines.setdefault(text.split("|")[1].strip(), []).append(text)
    for check, figures in results.items():
        lines[configuration(check)] = rows(check, figures)
    known: Sequence[str] = list(dict.fromkeys(configuration(check) for check in order))
    return "\n".join([HEAD, *(line for name in known for line in lines.get(name, []))])
