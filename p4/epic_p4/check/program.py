"""Checks a whole program."""

from __future__ import annotations

from collections.abc import Sequence

from epic_p4 import ast
from epic_p4.check.declarations import Declarations
from epic_p4.check.instances import Elaborator
from epic_p4.errors import Pos, SourceError
from epic_p4.types import PackageType

_ARCHITECTURES = {"V1Switch": "v1model", "Switch": "tna"}
"""Architecture by the name of main's package."""


def check(
    declarations: Sequence[ast.Declaration], file: str, *, arch: str | None = None, need_main: bool = True
) -> ast.Program:
    """The checked program. Raises the first error; `error.others` has the rest.

    `arch` is what the caller expects: another one is an error. Without `need_main` a file of declarations
    only (such as one to be included) passes too.
    """
    checker = Declarations()
    checker.check(declarations)
    _raise(checker.context.failures)
    program = ast.Program(
        file=file,
        arch="",
        declarations=list(declarations),
        errors=tuple(checker.context.error_members),
        match_kinds=tuple(checker.context.match_kinds),
        types=checker.context.types,
    )
    Elaborator(program).run()
    main = program.main
    if main is None:
        if need_main or arch:
            raise SourceError(Pos(file, 1, 1), "no instance main, expected e.g. V1Switch(…) main;")
        return program
    if not isinstance(main.type, PackageType):
        at = main.node.pos if main.node else Pos(file, 1, 1)
        raise SourceError(at, f"main: instance of {main.type}, expected a package")
    program.arch = _ARCHITECTURES.get(main.type.name, "")
    if arch and program.arch != arch:
        at = main.node.pos if main.node else Pos(file, 1, 1)
        raise SourceError(
            at, f"main: package {main.type.name} is {program.arch or 'unknown'}, expected {arch}"
        )
    return program


def _raise(failures: list[SourceError]) -> None:
    if failures:
        first = failures[0]
        first.others = tuple(failures[1:])
        raise first
