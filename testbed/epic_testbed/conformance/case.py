"""What a test case is: a name, the clauses it shows, where it applies, a procedure in words, and a function."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError
from epic_spec.tables import CLAUSES
from epic_testbed.dut import DutTraits

GROUPS = Path(__file__).parent / "cases"


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `function` takes a bench (engine side) or a host bench (agent side) and raises `Failure`.

    `needs` are conditions on a device's traits, each (capability, what it must be): a device that does not meet one
    makes the case not applicable, with that capability as the reason. `modes` are the modes it is written for.
    """

    name: str
    group: str
    clauses: tuple[str, ...]
    modes: tuple[int, ...]
    side: str
    procedure: str
    needs: tuple[tuple[str, Any], ...]
    function: Callable[[Any], None]


class Unmet(Exception):
    """What a device does not offer and a case needs. Also raised by a bench that finds it out while a case runs."""

    def __init__(self, capability: str, offered: Any, needed: Any) -> None:
        super().__init__(f"{capability} = {_value(offered)}, the case needs {_value(needed)}")
        self.capability = capability
        self.offered = offered
        self.needed = needed


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def unmet(case: Case, traits: DutTraits) -> list[Unmet]:
    """The needs of a case that a device does not meet: a set must contain the value, a limit must reach it.

    Raises ConfigError for a need that is neither a trait nor a capability.
    """
    missing = []
    for name, needed in case.needs:
        source = traits if hasattr(traits, name) else traits.capabilities
        if not hasattr(source, name):
            raise ConfigError(f"case {case.name}: needs {name!r}, expected a trait or capability of a device")
        offered = getattr(source, name)
        if isinstance(offered, tuple):
            met = set(needed if isinstance(needed, tuple) else (needed,)) <= set(offered)
        elif isinstance(offered, int) and not isinstance(offered, bool) and not isinstance(needed, bool):
            met = offered >= needed
        else:
            met = offered == needed
        if not met:
            missing.append(Unmet(name, offered, needed))
    return missing


_REGISTRY: dict[str, Case] = {}


def case(
    *clauses: str,
    modes: tuple[int, ...] = (1, 2, 3),
    side: str = "engine",
    needs: tuple[tuple[str, Any], ...] = (),
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a function as a case; its name is `<folder>/<function>`, its docstring the procedure."""

    def register(function: Callable[[Any], None]) -> Callable[[Any], None]:
        group = function.__module__.split(".")[-2]
        name = f"{group}/{function.__name__.replace('_', '-')}"
        for clause in clauses:
            if clause not in CLAUSES:
                raise ConfigError(f"case {name}: clause {clause!r} is not in epic.toml")
        if name in _REGISTRY and _REGISTRY[name].function.__module__ != function.__module__:
            raise ConfigError(f"case {name}: defined twice")
        doc = " ".join((function.__doc__ or "").split())
        if not doc:
            raise ConfigError(f"case {name}: has no procedure (its docstring)")
        _REGISTRY[name] = Case(name, group, clauses, modes, side, doc, needs, function)
        return function

    return register


def all_cases() -> list[Case]:
    """Every case of every folder below `cases`, in the order of folders and definitions."""
    package = f"{__package__}.cases"
    for folder in sorted(p.name for p in GROUPS.iterdir() if (p / "plan.md").is_file()):
        for module in pkgutil.iter_modules([str(GROUPS / folder)]):
            importlib.import_module(f"{package}.{folder}.{module.name}")
    return list(_REGISTRY.values())


def select(mode: int, side: str, pattern: str | None = None, clause: str | None = None) -> Iterator[Case]:
    """The cases of a mode and side, by name pattern (shell style) and clause.

    Raises ConfigError when nothing is left, naming the filter.
    """
    if clause is not None and clause not in CLAUSES:
        raise ConfigError(f"clause {clause!r}: unknown, expected one of epic.toml, such as EPIC-M3-02")
    chosen = [
        c
        for c in all_cases()
        if mode in c.modes
        and c.side == side
        and (pattern is None or fnmatchcase(c.name, pattern))
        and (clause is None or clause in c.clauses)
    ]
    if not chosen:
        raise ConfigError(
            f"no case for mode {mode}, side {side}, --case {pattern or '*'}, --clause {clause or 'any'}"
        )
    yield from chosen
