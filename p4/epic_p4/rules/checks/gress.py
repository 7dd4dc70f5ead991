"""A register, counter or meter belongs to one gress."""

from __future__ import annotations

from collections.abc import Iterator

from epic_p4 import ast
from epic_p4.rules.context import Context
from epic_p4.rules.effects import STATEFUL
from epic_p4.rules.finding import Finding
from epic_p4.rules.flow import Gress

NAME = "one-gress"
TITLE = "a register, counter or meter is used by ingress or by egress, not by both"
SOURCE = "PrincetonUniversity/lucid #25: its Tofino back end refuses it; for p4c an estimate"


def check(context: Context) -> Iterator[Finding]:
    """Objects declared at the top level that both controls use."""
    owner: dict[ast.Instance, Gress] = {}
    told: set[ast.Instance] = set()
    for half in context.halves:
        for unit in half.flow.units:
            for use in unit.uses():
                if use.object.decl.name not in STATEFUL:
                    continue
                first = owner.setdefault(use.object, half.gress)
                if first is not half.gress and use.object not in told:
                    told.add(use.object)
                    yield Finding(
                        NAME,
                        use.pos,
                        f"{use.object.decl.name.lower()} {use.object.name} is used in {half.gress} and in {first}, "
                        "expected one of them",
                    )
