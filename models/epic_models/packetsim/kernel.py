"""How the simulator's functions are compiled.

`kernel` is for functions that only compiled code calls: they become part of their callers, and nothing of them is
kept on disk. `entry` is for those that Python calls. Neither looks for divisions by zero, which cannot be here, so
that nothing is raised and no caller has to look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from numba import njit, types

# numba's types do not know all of its options.
_njit: Final[Any] = njit
entry: Final = _njit(error_model="numpy", no_cfunc_wrapper=True, cache=True)
_inner: Final = _njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def kernel(function: Callable[..., Any]) -> Any:
    """A compiled function whose whole numbers are all int64, however wide the caller's are.

    numba would compile it once for each combination of widths.
    """
    made = _inner(function)
    template = made.get_call_template

    def widened(args: Any, kws: Any) -> Any:
        return template(tuple(map(_wide, args)), {name: _wide(kind) for name, kind in kws.items()})

    made.get_call_template = widened
    return made


def _wide(kind: Any) -> Any:
    plain = types.unliteral(kind)  # type: ignore[no-untyped-call, unused-ignore]
    if (isinstance(plain, types.Integer) and plain is not types.uint64) or isinstance(plain, types.Boolean):
        return types.int64
    return plain
