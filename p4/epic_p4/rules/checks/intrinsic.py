"""Parsers take off the intrinsic metadata that stands in front of every packet."""

from __future__ import annotations

from collections.abc import Iterator

from epic_p4 import ast
from epic_p4.rules.context import Context
from epic_p4.rules.effects import calls
from epic_p4.rules.finding import Finding
from epic_p4.types import HeaderType

NAME = "intrinsic-metadata"
TITLE = "a parser that extracts anything extracts the intrinsic metadata of its gress too"
SOURCE = "[TNA]: intrinsic metadata stands in front of what a parser gets"


def check(context: Context) -> Iterator[Finding]:
    """Parsers that extract no header of the type."""
    for half in context.halves:
        decl = half.parser.decl
        assert isinstance(decl, ast.ParserDecl)
        wanted = f"{half.gress}_intrinsic_metadata_t"
        bodies: list[ast.ParserDecl] = [decl]
        bodies += [one.decl for one in half.parser.members.values() if isinstance(one.decl, ast.ParserDecl)]
        extracted = {
            argument.type.name
            for body in bodies
            for state in body.states.values()
            for call in calls(state.statements)
            if isinstance(call.callee, ast.Member) and call.callee.name == "extract"
            for argument in call.args
            if argument is not None and isinstance(argument.type, HeaderType)
        }
        # A parser that takes off nothing at all is one that no packet needs, as when egress is bypassed.
        if extracted and wanted not in extracted:
            yield Finding(
                NAME,
                decl.pos,
                f"parser {decl.name} extracts no {wanted}, expected it as the first header of {half.gress}",
            )
