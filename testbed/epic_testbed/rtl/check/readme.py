"""What is generated in rtl/README.md, between markers: figures of syntheses and benches, and the list of mutants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from epic_spec.errors import ConfigError
from epic_testbed.rtl.check import measured, mutants
from epic_testbed.rtl.check.model import Figures
from epic_testbed.rtl.check.sources import RTL

README = RTL / "README.md"
BEGIN, END = "<!-- gen:synthesis -->", "<!-- /gen -->"
MUTANTS = "<!-- gen:mutants -->"
MEASURED = "<!-- gen:measured -->"
_TITLES = {
    BEGIN: "the table of syntheses",
    MUTANTS: "the list of mutants",
    MEASURED: "the table of cycles and latency",
}

_HEAD = (
    "| configuration | target | parameters | LUT | FF | block RAM | DSP | Fmax, MHz | a port, Gb/s |\n"
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
)
_SHOWN = ("target", "top", "lut", "ff", "ram", "dsp", "fmax", "path")


def row(name: str, figures: Figures) -> str:
    """A line of the table."""
    parameters = ", ".join(f"{k} {v}" for k, v in figures.items() if k not in _SHOWN)
    cells = [name, figures["target"], f"`{figures['top']}` {parameters}".strip()]
    cells += [f"{figures[key]:,}" for key in ("lut", "ff", "ram", "dsp")]
    fmax, width = figures.get("fmax"), figures.get("DATA_W")
    cells.append("" if fmax is None else f"{fmax:.1f}")
    cells.append("" if fmax is None or width is None else f"{fmax * width / 1000:.1f}")
    return f"| {' | '.join(cells)} |"


def table(rows: Mapping[str, Figures], inside: str, order: Sequence[str]) -> str:
    """The table and the critical paths: `rows`, and of the others in `order` what the table `inside` said before."""
    lines: dict[str, str] = {}
    paths: dict[str, str] = {}
    for text in inside.splitlines():
        if text.startswith("| "):
            lines[text.split("|")[1].strip()] = text
        elif text.startswith("- "):
            paths[text[2:].split(":")[0]] = text
    for full_name, figures in rows.items():
        name = full_name.removeprefix("syn/")
        lines[name] = row(name, figures)
        paths.pop(name, None)
        if "path" in figures:
            paths[name] = f"- {name}: {figures['path']}"
    known = [name for name in order if name in lines]
    said = [paths[name] for name in known if name in paths]
    return "\n".join([_HEAD, *(lines[name] for name in known), "", "Critical paths:", "", *said])


def _split(text: str, begin: str) -> tuple[str, str, str]:
    """The text before what `begin` marks, that, the text behind it. Raises ConfigError."""
    if text.count(begin) != 1 or END not in text.split(begin)[1]:
        raise ConfigError(f"{README}: has no {begin} … {END}, expected it once for {_TITLES[begin]}")
    before, rest = text.split(begin)
    inside, behind = rest.split(END, 1)
    return before + begin, inside.strip(), END + behind


def differences(rows: Mapping[str, Figures], path: Path = README) -> list[str]:
    """What the README says otherwise than the syntheses that ran; one line each."""
    if not rows:
        return []
    _, inside, _ = _split(path.read_text(), BEGIN)
    present = inside.splitlines()
    found = []
    for name, figures in rows.items():
        wanted = row(name.removeprefix("syn/"), figures)
        if wanted not in present:
            found.append(f"rtl/README.md lacks the line of {name} (epic check rtl --write-readme): {wanted}")
    return found


def write(rows: Mapping[str, Figures], order: Sequence[str], path: Path = README) -> None:
    """Put figures into the table; `order` names all configurations, others leave it."""
    before, inside, behind = _split(path.read_text(), BEGIN)
    path.write_text(f"{before}\n{table(rows, inside, order)}\n{behind}")


def measured_differ(results: Mapping[str, Figures], path: Path = README) -> list[str]:
    """What the README says otherwise than the benches that ran; one line each."""
    if not results:
        return []
    _, inside, _ = _split(path.read_text(), MEASURED)
    present = inside.splitlines()
    return [
        f"rtl/README.md lacks a line of {check} (epic check rtl --write-readme): {line}"
        for check, figures in results.items()
        for line in measured.rows(check, figures)
        if line not in present
    ]


def write_measured(results: Mapping[str, Figures], order: Sequence[str], path: Path = README) -> None:
    """Put figures of benches into their table; `order` names all checks that measure, others leave it."""
    before, inside, behind = _split(path.read_text(), MEASURED)
    path.write_text(f"{before}\n{measured.table(results, inside, order)}\n{behind}")


def write_mutants(path: Path = README) -> None:
    """Put the list of mutants there."""
    before, _, behind = _split(path.read_text(), MUTANTS)
    path.write_text(f"{before}\n{mutants.table()}\n{behind}")


def mutants_differ(path: Path = README) -> list[str]:
    """One line when the list there is not that of the mutants."""
    _, inside, _ = _split(path.read_text(), MUTANTS)
    if inside == mutants.table():
        return []
    return ["rtl/README.md has another list of mutants (epic check rtl --write-readme --list)"]
