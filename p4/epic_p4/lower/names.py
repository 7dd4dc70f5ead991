"""Python names for P4 names: no keyword, no builtin, no name of the generated code itself, each once in its scope."""

from __future__ import annotations

import builtins
import keyword
import re

_TAKEN = frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | frozenset(dir(builtins))


def identifier(name: str) -> str:
    """`name` as a Python identifier; names with a leading underscore are left to the generated code."""
    name = re.sub(r"\W", "_", name)
    if name in _TAKEN or name in _METHODS:
        return name + "_"
    return "p4" + name if name.startswith("_") or not name else name


# What the classes of headers and structs define themselves: no field may hide it.
_METHODS = frozenset({"assign", "copy", "reset", "same", "pack", "set_valid"})


class Scope:
    """Hands out names, each once."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """`name`, or with a number behind it when it was given before."""
        count = self._used.get(name, 0)
        while True:
            made = name if count == 0 else f"{name}_{count + 1}"
            count += 1
            if made not in self._used:
                break
        self._used[name] = count
        self._used.setdefault(made, 1)
        return made
