"""Policies by name. A new one is a file with its class and a line here, or an entry point `epic.policies` elsewhere."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any, Final, cast

from epic_host.fabric.policies.base import GroupView, Move, Policy, Verdict
from epic_spec.errors import ConfigError

__all__ = ["BUILT_IN", "GROUP", "GroupView", "Move", "Policy", "Verdict", "load", "names"]

GROUP: Final = "epic.policies"

BUILT_IN: Final = {
    "best_effort": "epic_host.fabric.policies.best_effort:BestEffort",
    "spatial": "epic_host.fabric.policies.spatial:Spatial",
    "temporal": "epic_host.fabric.policies.temporal:Temporal",
}


def names() -> tuple[str, ...]:
    """All policies that there are."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))}))


def load(name: str, **options: Any) -> Policy:
    """A policy with its options, such as `quantum`. Raises ConfigError for an unknown name or option."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        kind = getattr(importlib.import_module(module), attribute)
    else:
        points = {point.name: point for point in entry_points(group=GROUP)}
        if name not in points:
            raise ConfigError(f"policy {name!r} is not known, expected one of {', '.join(names())}")
        kind = points[name].load()
    try:
        return cast(Policy, kind(**options))
    except TypeError as error:
        raise ConfigError(
            f"policy {name}: options {', '.join(options)}, expected those it has ({error})"
        ) from None
