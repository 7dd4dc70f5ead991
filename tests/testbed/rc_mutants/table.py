"""The table of broken engines of Modes I and II, and how a fault is put into the reference engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

Patch = Callable[[], AbstractContextManager[Any]]

# name -> (clause that is broken, mode, case that must fail, how)
MUTANTS: dict[str, tuple[str, int, str, Patch]] = {}


def mutant(name: str, clause: str, mode: int, case: str, patch: Patch) -> None:
    """Add a fault."""
    MUTANTS[name] = (clause, mode, case, patch)


def both(name: str, clauses: tuple[str, str], cases: str | tuple[str, str], patch: Patch) -> None:
    """Add a fault that both modes can have: (clause in Mode I, in Mode II), and the case of both or of each."""
    names = (cases, cases) if isinstance(cases, str) else cases
    for mode, (clause, case) in enumerate(zip(clauses, names, strict=True), 1):
        mutant(f"{name} ({'I' * mode})", clause, mode, case, patch)


def attribute(target: Any, name: str, value: Any) -> Patch:
    """Replace an attribute of a class or module."""
    return lambda: mock.patch.object(target, name, value)


def attributes(*changes: tuple[Any, str, Any]) -> Patch:
    """Replace several."""

    @contextmanager
    def patch() -> Iterator[None]:
        with ExitStack() as stack:
            for target, name, value in changes:
                stack.enter_context(mock.patch.object(target, name, value))
            yield

    return patch
