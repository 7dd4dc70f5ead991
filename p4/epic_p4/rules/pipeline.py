"""The gresses of a TNA program: which control is which, and what their parameters are called here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from epic_p4 import ast
from epic_p4.errors import Pos, SourceError
from epic_p4.rules.fields import Place
from epic_p4.rules.flow import Flow, Gress, build
from epic_p4.types import Type


@dataclass(slots=True)
class Half:
    """One gress. `places` bind parameters of its parser, control and deparser; parameters of equal type share a
    place, which is how the architecture hands headers and metadata on."""

    gress: Gress
    parser: ast.Instance
    control: ast.Instance
    deparser: ast.Instance
    places: dict[ast.Node, Place]
    flow: Flow


def halves(program: ast.Program) -> list[Half]:
    """Ingress and egress of the first pipe. Raises SourceError for a program of another architecture."""
    pipe = _pipe(program)
    if pipe is None:
        raise SourceError(Pos(program.file, 1, 1), "no TNA Pipeline in main, expected Switch(Pipeline(...))")
    return [_half(gress, pipe, program.top) for gress in Gress]


def _pipe(program: ast.Program) -> ast.Instance | None:
    if program.main is None:
        return None
    candidates = [program.main, *program.main.args.values()]
    for one in candidates:
        if isinstance(one, ast.Instance) and one.decl.name == "Pipeline":
            return one
    return None


def _half(gress: Gress, pipe: ast.Instance, top: Mapping[ast.Node, ast.Instance]) -> Half:
    parts: list[ast.Instance] = []
    for name in (f"{gress}_parser", str(gress), f"{gress}_deparser"):
        part = pipe.args.get(name)
        assert isinstance(part, ast.Instance), name
        parts.append(part)
    parser, control, deparser = parts
    names: dict[Type, str] = {}
    places: dict[ast.Node, Place] = {}
    for part in (control, parser, deparser):
        assert isinstance(part.decl, ast.ControlDecl | ast.ParserDecl)
        for param in part.decl.params:
            path = names.setdefault(param.type, param.name)
            places[param] = Place(path, param.type)
    return Half(gress, parser, control, deparser, places, build(gress, control, places, top))
