"""Engines by name: entry points of the group `epic.engines`, or `module:Class` for one that has none."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final, Protocol

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import check_value
from epic_models.reference.interfaces import Engine
from epic_spec.errors import ConfigError
from epic_spec.tables import CAPABILITIES

GROUP: Final = "epic.engines"


class ServedEngine(Engine, Protocol):
    """An engine that says what it offers and what is installed."""

    capabilities: EngineCapabilities

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""


def make_engine(
    name: str,
    capabilities: Mapping[str, Any] | None = None,
    parameters: Mapping[str, int | str] | None = None,
) -> ServedEngine:
    """A new engine; `capabilities` overrides some of what it offers, by the names of epic.toml, `parameters` are those
    that an engine of its kind is built with.

    Raises ConfigError for an unknown engine, capability, parameter or value.
    """
    factory = _factory(name)
    if parameters:
        if "parameters" not in inspect.signature(factory).parameters:
            given = ", ".join(parameters)
            raise ConfigError(
                f"engine {name}: parameters {given}, expected none: this engine has no parameters"
            )
        factory = partial(factory, parameters=parameters)
    engine: ServedEngine = factory()
    if not capabilities:
        return engine
    return factory(_limited(engine.capabilities, capabilities, f"engine {name}"))  # type: ignore[no-any-return]


def _factory(name: str) -> Any:
    if ":" not in name:
        points = entry_points(group=GROUP)
        if name not in points.names:
            known = ", ".join(sorted(points.names)) or "one that is installed"
            raise ConfigError(f"engine {name!r} is not known, expected {known}, or module:Class")
        return points[name].load()
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"engine {name!r} cannot be loaded ({error}), expected module:Class") from None


def _limited(offered: EngineCapabilities, changes: Mapping[str, Any], where: str) -> EngineCapabilities:
    values = {f.name: getattr(offered, f.name) for f in fields(offered)}
    for name, value in changes.items():
        if name not in values or name == "mode":
            known = ", ".join(k for k in values if k != "mode")
            raise ConfigError(f"{where}: unknown capability {name!r}, expected one of {known}")
        if CAPABILITIES[name]["kind"] == "choice":
            # An engine offers a set of the choices that a group has one of.
            if not isinstance(value, list | tuple) or not value:
                raise ConfigError(f"{where}: {name} = {value!r}, expected a list of what is offered")
            for choice in value:
                check_value(name, choice, where)
        else:
            check_value(name, value, where)
        values[name] = tuple(value) if isinstance(value, list) else value
    return EngineCapabilities(**values)
