"""The rules, one module each: `NAME`, `TITLE`, `SOURCE` (where the limit comes from) and `check(context)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import NamedTuple

from epic_p4.rules.checks import (
    action_alu,
    default_hash,
    deparser,
    gateway_width,
    gress,
    intrinsic,
    register_action,
    register_once,
    register_type,
    shared_index,
    table_once,
)
from epic_p4.rules.context import Context
from epic_p4.rules.finding import Finding

_MODULES: tuple[ModuleType, ...] = (
    register_once,
    register_type,
    register_action,
    action_alu,
    gateway_width,
    default_hash,
    shared_index,
    table_once,
    gress,
    deparser,
    intrinsic,
)


class Rule(NamedTuple):
    """A rule as `epic check p4` lists it."""

    name: str
    title: str
    source: str
    check: Callable[[Context], Iterable[Finding]]


RULES: tuple[Rule, ...] = tuple(Rule(one.NAME, one.TITLE, one.SOURCE, one.check) for one in _MODULES)
