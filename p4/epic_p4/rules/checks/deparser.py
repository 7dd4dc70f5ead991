"""What belongs into deparsers and what does not: a deparser computes nothing but checksums."""

from __future__ import annotations

from collections.abc import Iterator

from epic_p4 import ast
from epic_p4.rules.context import Context
from epic_p4.rules.effects import calls
from epic_p4.rules.fields import Scope
from epic_p4.rules.finding import Finding
from epic_p4.rules.pipeline import Half
from epic_p4.rules.text import start, text

NAME = "deparser"
TITLE = (
    "mirrors, resubmits, digests and checksums are made outside the stages; a deparser computes nothing else"
)
SOURCE = "[TNA] 7, Checksum, Digest, Mirror, Resubmit"

_OUTSIDE = frozenset({"Checksum", "Digest", "Mirror", "Resubmit"})


def check(context: Context) -> Iterator[Finding]:
    """The stages' controls and the deparsers."""
    for half in context.halves:
        yield from _stages(half)
        yield from _deparser(half)


def _stages(half: Half) -> Iterator[Finding]:
    for scope in half.flow.world.scopes.values():
        decl = scope.instance.decl
        assert isinstance(decl, ast.ControlDecl)
        for call in calls([decl.body, decl.locals]):
            instance = _object(call, scope)
            if instance is not None and instance.decl.name in _OUTSIDE:
                yield Finding(
                    NAME,
                    start(call),
                    f"{instance.decl.name} {instance.name} is used in {half.gress}, expected in its parser or deparser",
                )


def _deparser(half: Half) -> Iterator[Finding]:
    decl = half.deparser.decl
    assert isinstance(decl, ast.ControlDecl)
    scope = Scope(half.deparser, half.places, half.flow.world)
    for node in ast.walk(decl.body):
        value = node.value if isinstance(node, ast.Assign | ast.VarDecl) else None
        if value is None:
            continue
        instance = _object(value, scope) if isinstance(value, ast.Call) else None
        if instance is None or instance.decl.name != "Checksum":
            yield Finding(
                NAME,
                start(value),
                f"deparser {decl.name} computes {text(value)}, expected a checksum only: compute it in {half.gress}",
            )


def _object(call: ast.Call, scope: Scope) -> ast.Instance | None:
    if call.kind is not ast.CallKind.METHOD or not isinstance(call.callee, ast.Member):
        return None
    return scope.object(call.callee.base)
