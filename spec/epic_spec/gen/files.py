"""Which file each generator makes, and what would change (`epic spec gen`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError
from epic_spec.gen import lua, markdown, p4, python, tla, verilog

TEXT = Path("spec/epic.md")
GENERATORS = {
    Path("spec/epic_spec/tables.py"): python.generate,
    Path("p4/include/epic_headers.p4"): p4.generate,
    Path("rtl/src/epic_pkg.vh"): verilog.generate,
    Path("tla/EpicConstants.tla"): tla.generate,
    Path("spec/epic.lua"): lua.generate,
}


def outputs(spec: dict[str, Any], repo: Path) -> dict[Path, str]:
    """Every generated file of the checkout `repo` and its text; epic.md where it exists.

    Raises ConfigError when the data lacks a table or key, or epic.md has a wrong marker.
    """
    made: dict[Path, str] = {}
    for path, generate in GENERATORS.items():
        try:
            made[repo / path] = generate(spec)
        except KeyError as error:
            raise ConfigError(f"spec/epic.toml: no {error}, which {path} is made from") from None
    text = repo / TEXT
    if text.exists():
        made[text] = markdown.generate(spec, text.read_text(encoding="utf-8"), str(TEXT))
    return made


def changed(spec: dict[str, Any], repo: Path) -> dict[Path, str]:
    """The outputs that differ from what is on disk."""
    return {path: text for path, text in outputs(spec, repo).items() if _read(path) != text}


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def write(texts: dict[Path, str]) -> None:
    """Write the files, making their folders."""
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
