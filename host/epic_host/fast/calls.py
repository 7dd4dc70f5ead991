"""Loops over memory as functions that kernels call.

A compiled function contains all that it calls, so kernels that used lanes.py and crc.py directly would each hold, and
compile again, all their loops. Here each is compiled once, with C's calling convention, and linked by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import llvmlite.binding
from numba import types
from numba.core.ccallback import CFunc

from epic_host.fast import crc, lanes, streams
from epic_host.fast.compiled import StampedCache

_ADDRESS: Final = types.uint64
_INT: Final = types.int64
_BOOL: Final = types.boolean
# They hold the code that the symbols stand for.
_BODIES: Final[list[Any]] = []


def link(function: Callable[..., Any], result: Any, *arguments: Any) -> Any:
    """What compiled functions call in place of `function`, a plain function of these types. Their names all differ."""
    signature = result(*arguments)
    body: Any = CFunc(function, (tuple(arguments), result), locals={}, options={"nopython": True})
    body._cache = StampedCache(function)
    body.compile()
    symbol = f"epic_fast_{function.__name__}"
    _BODIES.append(body)
    llvmlite.binding.add_symbol(symbol, body.address)
    return types.ExternalFunction(symbol, signature)


def _copy(target, source, count):  # type: ignore[no-untyped-def]
    lanes.copy(target, source, count)


def _swap_copy(target, source, n, size):  # type: ignore[no-untyped-def]
    lanes.swap_copy(target, source, n, size)


def _stream(target, source, n, size):  # type: ignore[no-untyped-def]
    streams.stream(target, source, n, size)


def _or_into(target, source, count):  # type: ignore[no-untyped-def]
    lanes.or_into(target, source, count)


def _load(acc, payload, n, datatype, big, wide):  # type: ignore[no-untyped-def]
    lanes.load(acc, payload, n, datatype, big, wide)


def _combine(acc, payload, n, datatype, operator, big, wide, scratch):  # type: ignore[no-untyped-def]
    lanes.combine(acc, payload, n, datatype, operator, big, wide, scratch)


def _store(target, acc, n, datatype, big, wide):  # type: ignore[no-untyped-def]
    lanes.store(target, acc, n, datatype, big, wide)


def _crc_update(state, address, count):  # type: ignore[no-untyped-def]
    return crc.crc_update(state, address, count)


# As in lanes.py, streams.py and crc.py; the types are those of the kernels.
copy: Final = link(_copy, types.void, _ADDRESS, _ADDRESS, _INT)
swap_copy: Final = link(_swap_copy, types.void, _ADDRESS, _ADDRESS, _INT, _INT)
stream: Final = link(_stream, types.void, _ADDRESS, _ADDRESS, _INT, _INT)
or_into: Final = link(_or_into, types.void, _ADDRESS, _ADDRESS, _INT)
load: Final = link(_load, types.void, _ADDRESS, _ADDRESS, _INT, _INT, _BOOL, _BOOL)
combine: Final = link(_combine, types.void, _ADDRESS, _ADDRESS, _INT, _INT, _INT, _BOOL, _BOOL, _ADDRESS)
store: Final = link(_store, types.void, _ADDRESS, _ADDRESS, _INT, _INT, _BOOL, _BOOL)
crc_update: Final = link(_crc_update, types.uint32, types.uint32, _ADDRESS, _INT)
