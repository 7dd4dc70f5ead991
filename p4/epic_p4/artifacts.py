"""Compiled files that are kept beside the sources, and the hash that says which sources they were made from.

`p4/build/` holds what p4c made (`*.json`, `*.p4info.txtpb`) and `sources.sha256`, one line a source file in the
format of sha256sum, paths relative to p4/: `cd p4 && sha256sum -c build/sources.sha256` checks them too. The
architecture's own files (`<core.p4>` and such) are the compiler's, not ours, and are left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from epic_spec.errors import ConfigError

HASHES = "sources.sha256"
PATTERNS = ("*.json", "*.p4info.txtpb")
_LINE = re.compile(r"(?P<digest>[0-9a-f]{64})  (?P<name>.+)")


def digests(root: Path, sources: Iterable[str | Path]) -> dict[str, str]:
    """SHA-256 of each source below `root`, by relative path; others are the architecture's and are left out.

    Raises ConfigError for a file that can't be read.
    """
    found: dict[str, str] = {}
    top = root.resolve()
    own_includes = Path(__file__).resolve().parent / "include"
    for source in sources:
        path = Path(source).resolve()
        if not path.is_relative_to(top) or path.is_relative_to(own_includes):
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"source {path}: {error.strerror}, expected a readable file") from None
        found[path.relative_to(top).as_posix()] = hashlib.sha256(content).hexdigest()
    return dict(sorted(found.items()))


def write(root: Path, sources: Iterable[str | Path]) -> Path:
    """Write `build/sources.sha256`; to be called after p4c made the artifacts. Returns its path."""
    folder = root / "build"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / HASHES
    lines = [f"{digest}  {name}\n" for name, digest in digests(root, sources).items()]
    target.write_text("".join(lines), encoding="utf-8")
    return target


def present(root: Path) -> list[Path]:
    """The artifacts in `build/`."""
    folder = root / "build"
    return sorted(path for pattern in PATTERNS for path in folder.glob(pattern))


def read(root: Path) -> dict[str, str]:
    """What `build/sources.sha256` says. Raises ConfigError for a line of another form."""
    path = root / "build" / HASHES
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigError(f"{path}:{number}:1: {line!r}, expected a SHA-256, two blanks and a path")
        found[match["name"]] = match["digest"]
    return found


def verify(root: Path, sources: Iterable[str | Path]) -> list[str]:
    """What is wrong with the artifacts, one line each; nothing when they are of these sources or when there are
    none. Raises ConfigError as `read`."""
    if not present(root):
        return []
    if not (root / "build" / HASHES).is_file():
        return [f"build/{HASHES}: not found, expected beside the artifacts"]
    written, now = read(root), digests(root, sources)
    problems = [
        f"{name}: changed since the artifacts were made"
        for name in now
        if written.get(name, now[name]) != now[name]
    ]
    problems += [f"{name}: new since the artifacts were made" for name in now if name not in written]
    problems += [f"{name}: in build/{HASHES}, but no longer a source" for name in written if name not in now]
    return problems
