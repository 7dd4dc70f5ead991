"""Source file in, checked program out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from epic_p4.ast import Program
from epic_p4.check.program import check
from epic_p4.errors import Pos, SourceError
from epic_p4.parser import parse
from epic_p4.preprocess import Preprocessed, preprocess_file, preprocess_text


def compile_file(
    path: str | Path,
    *,
    include: Sequence[str | Path] = (),
    defines: Mapping[str, str] | None = None,
    arch: str | None = None,
    need_main: bool = True,
) -> Program:
    """Preprocess, parse and check `path`.

    `include` are directories for #include, `defines` macros; `arch` ("v1model", "tna") is what the program must
    be for. Without `need_main` the file may lack an instance main. Raises the first SourceError; its `others`
    are the further ones.
    """
    return _compile(preprocess_file(path, include=include, defines=defines), str(path), arch, need_main)


def compile_text(
    text: str,
    name: str = "<text>",
    *,
    include: Sequence[str | Path] = (),
    defines: Mapping[str, str] | None = None,
    arch: str | None = None,
    need_main: bool = True,
) -> Program:
    """As `compile_file`, of a text."""
    return _compile(preprocess_text(text, name, include=include, defines=defines), name, arch, need_main)


def _compile(source: Preprocessed, name: str, arch: str | None, need_main: bool) -> Program:
    try:
        program = check(parse(source), name, arch=arch, need_main=need_main)
    except RecursionError:
        raise SourceError(
            Pos(name, 1, 1), "an expression or block is nested too deep to be checked"
        ) from None
    program.sources = source.sources
    return program


def check_file(
    path: str | Path,
    *,
    include: Sequence[str | Path] = (),
    defines: Mapping[str, str] | None = None,
    arch: str | None = None,
) -> list[str]:
    """The errors of a program, one line each, in the order found; empty when it is right.

    For `epic check p4`.
    """
    try:
        compile_file(path, include=include, defines=defines, arch=arch)
    except SourceError as error:
        return [str(error), *map(str, error.others)]
    return []
