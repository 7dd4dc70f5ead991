"""The p4_device_config of this server: the P4 program's sources in one JSON document.

BMv2 takes what its compiler made; this server compiles for itself, so its binary is the source. The document is

    {"format": "epic-p4-sources", "main": "bmv2/epic.p4", "include": ["common"], "defines": {"WORDS": "64"},
     "files": {"bmv2/epic.p4": "…", "common/slot.p4": "…"}}

with names relative to one folder. `python -m epic_p4.p4runtime.bundle MAIN OUT` writes it, and the P4Info beside it.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from epic_p4.errors import SourceError
from epic_p4.frontend import compile_file
from epic_p4.p4info import generate, to_text
from epic_p4.p4runtime.device import Pipeline
from epic_p4.switch import P4Switch
from epic_spec.errors import ConfigError

FORMAT = "epic-p4-sources"
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<near>[^"]+)"|<(?P<far>[^>]+)>)', re.MULTILINE)
_KEYS = {"format", "main", "include", "defines", "files"}


def pack(
    main: str | Path, *, include: Sequence[str | Path] = (), defines: Mapping[str, str] | None = None
) -> bytes:
    """The document of a program: `main` and every file that it includes, directly or not.

    Raises ConfigError when `main` cannot be read. Equal sources give equal documents.
    """
    folders = [Path(folder).resolve() for folder in include]
    files: dict[Path, str] = {}
    _collect(Path(main).resolve(), folders, files)
    root = _common(files, folders)
    document = {
        "format": FORMAT,
        "main": Path(main).resolve().relative_to(root).as_posix(),
        "include": [folder.relative_to(root).as_posix() for folder in folders],
        "defines": dict(defines or {}),
        "files": {path.relative_to(root).as_posix(): text for path, text in sorted(files.items())},
    }
    return json.dumps(document, indent=1, sort_keys=True).encode()


def _collect(path: Path, folders: Sequence[Path], files: dict[Path, str]) -> None:
    if path in files:
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"P4 source {path}: {reason}, expected a readable file") from None
    files[path] = text
    for match in _INCLUDE.finditer(text):
        name = match["near"] or match["far"]
        places = [*([path.parent] if match["near"] else []), *folders]
        # What is found nowhere is the front end's own (core.p4), or stands in a branch that is not compiled.
        for place in places:
            if (place / name).is_file():
                _collect((place / name).resolve(), folders, files)
                break


def _common(files: Mapping[Path, str], folders: Sequence[Path]) -> Path:
    root = next(iter(files)).parent
    for path in [*(f.parent for f in files), *folders]:
        while not path.is_relative_to(root):
            root = root.parent
    return root


def load(document: bytes) -> Pipeline:
    """Compile a document. Raises ConfigError, a SourceError for a fault in the sources."""
    data = _parse(document)
    with tempfile.TemporaryDirectory(prefix="epic-p4-") as folder:
        root = Path(folder)
        for name, text in data["files"].items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        try:
            program = compile_file(
                root / data["main"],
                include=[root / name for name in data["include"]],
                defines=data["defines"],
            )
        except SourceError as error:
            # What is said is about the client's files, not about this copy.
            name, message = (text.replace(f"{root}/", "") for text in (error.pos.file, error.message))
            raise SourceError(error.pos._replace(file=name), message) from None
    return Pipeline(generate(program), lambda: P4Switch(program))


def _parse(document: bytes) -> dict[str, Any]:
    expected = f"expected a JSON document of format {FORMAT!r}"
    try:
        data = json.loads(document)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"not JSON ({error}), {expected}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        given = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise ConfigError(f"format {given!r}, {expected}")
    for key in data.keys() ^ _KEYS:
        problem = "unknown" if key in data else "missing"
        raise ConfigError(f"key {key!r}: {problem}, expected {', '.join(sorted(_KEYS))}")
    for key in ("files", "defines"):
        if not isinstance(data[key], dict) or not all(isinstance(v, str) for v in data[key].values()):
            raise ConfigError(f"{key}: expected texts by name")
    if not isinstance(data["include"], list) or not isinstance(data["main"], str):
        raise ConfigError("main, include: expected a name and a list of names")
    for name in [*data["files"], *data["include"]]:
        if (
            not isinstance(name, str)
            or PurePosixPath(name).is_absolute()
            or ".." in PurePosixPath(name).parts
        ):
            raise ConfigError(f"name {name!r}: expected a path below the document's folder")
    if data["main"] not in data["files"]:
        raise ConfigError(f"main {data['main']!r}: expected one of {', '.join(data['files'])}")
    return data


def main(arguments: Sequence[str]) -> int:
    """Write the document and the P4Info (text) of a program."""
    import sys

    from epic_spec.errors import EpicError

    if len(arguments) != 2:
        sys.stderr.write(
            "usage: python -m epic_p4.p4runtime.bundle MAIN.p4 OUT (writes OUT and OUT.p4info.txt)\n"
        )
        return 2
    source, out = arguments
    try:
        document = pack(source)
        info = load(document).info
        Path(out).write_bytes(document)
        Path(f"{out}.p4info.txt").write_text(to_text(info), encoding="utf-8")
    except (EpicError, OSError) as error:
        sys.stderr.write(f"bundle: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
