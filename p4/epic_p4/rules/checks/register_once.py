"""A register, counter or meter is touched at most once by any packet: its stage is passed once."""

from __future__ import annotations

from collections.abc import Iterator

from epic_p4 import ast
from epic_p4.rules.context import Context
from epic_p4.rules.effects import STATEFUL, Use
from epic_p4.rules.finding import Finding
from epic_p4.rules.flow import Alternative, Branch, Flow, Site

NAME = "register-once"
TITLE = "a register, counter or meter is touched at most once on every path"
SOURCE = "[p4c] mau/table_placement.cpp: its memory is in one stage, which a packet passes once"


def check(context: Context) -> Iterator[Finding]:
    """For each object the first touch that follows another one on a path."""
    for half in context.halves:
        flow = half.flow
        registers = dict.fromkeys(
            use.object for unit in flow.units for use in unit.uses() if use.object.decl.name in STATEFUL
        )
        for register in registers:
            clash = _clash(flow, register)
            if clash is not None:
                first, second = clash
                yield Finding(
                    NAME,
                    second.pos,
                    f"{register.decl.name.lower()} {register.name} is touched a second time on a path that touched "
                    f"it at {first.pos.line}:{first.pos.column}, expected once a packet",
                )


def _clash(flow: Flow, register: ast.Instance) -> tuple[Use, Use] | None:
    """The touch reached latest that a path leads to through another."""
    arrived: list[Use | None] = [None] * len(flow.sites)
    for site in flow.sites:
        before = arrived[site.number]
        for option in site.unit.alternatives:
            touches = _touches(option, register)
            chain = ([before] if before is not None else []) + touches
            if touches and len(chain) > 1:
                return chain[0], chain[1]
        for after, branch in site.next:
            touched = before or _first(site, branch, register)
            if touched is not None and arrived[after.number] is None:
                arrived[after.number] = touched
    return None


def _first(site: Site, branch: Branch, register: ast.Instance) -> Use | None:
    for number, option in enumerate(site.unit.alternatives):
        if branch is None or number in branch:
            for use in _touches(option, register):
                return use
    return None


def _touches(option: Alternative, register: ast.Instance) -> list[Use]:
    return [use for use in option.uses() if use.object is register]
