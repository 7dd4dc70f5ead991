"""The decorator of all compiled functions of the fast data path, and what they use to touch memory by address.

numba keeps compiled code beside the source of the function and reads it again while that file is the same. It does not
see that a function or a constant of another file has changed, so here the stamp covers every file of ours that the
function's module imports, directly or not.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import numba
from llvmlite import ir
from numba.core import caching
from numba.extending import intrinsic as _intrinsic

F = TypeVar("F", bound=Callable[..., Any])

# A machine word in compiled code: a number, a count of bytes, an address.
Word = Any
# numba's types are made at run time.
types: Any = numba.types
carray: Any = numba.carray  # type: ignore[attr-defined]


def intrinsic(function: Callable[..., Any]) -> Any:
    """numba's decorator; the function is called with other arguments than it is written with."""
    return _intrinsic(function)


# The module, and what is taken from it: between parentheses, or to the end of the line.
_IMPORT: Final = re.compile(
    r"^(?:from|import)\s+(epic_[\w.]+)(?:\s+import\s+(?:\(([^)]*)\)|([^(\n]*)))?", re.MULTILINE
)


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Files of ours that a source file imports at its top, which are loaded by the time its functions are decorated.

    Imports inside functions may have happened or not: a stamp must not depend on that.
    """
    found = []
    for module, several, one_line in _IMPORT.findall(path.read_text()):
        names = re.sub("#.*", "", several or one_line).split(",")
        inner = (f"{module}.{name.split()[0]}" for name in names if name.strip())
        for candidate in (module, *inner):
            file = getattr(sys.modules.get(candidate), "__file__", None)
            if file is not None:
                found.append(Path(file))
    return tuple(found)


@cache
def sources(path: Path) -> tuple[Path, ...]:
    """A source file and all files of ours that it imports, directly or not, in the order of their names."""
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting += _imported(file)
    return tuple(sorted(seen))


@cache
def _hash(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def stamp(path: Path) -> str:
    """A digest of a source file and of what it imports."""
    digest = hashlib.sha256()
    for file in sources(path):
        digest.update(_hash(file))
    return digest.hexdigest()


class StampedCache(caching.FunctionCache):
    """numba's, but its stamp covers what the function's file imports."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        digest = stamp(Path(function.__code__.co_filename))
        index: Any = caching.IndexDataCacheFile(  # type: ignore[no-untyped-call]
            cache_path=self._cache_path, filename_base=self._impl.filename_base, source_stamp=digest
        )
        # It compares the version before it unpickles what may name types that are no more.
        index._version = f"{index._version} {digest}"
        self._cache_file = index


def compiled(function: F) -> F:
    """Compile a function with numba at its first call, or load it; it runs without the interpreter's lock.

    No fast maths: results are NumPy's bit for bit.
    """
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy")(function)
    dispatcher._cache = StampedCache(function)
    return dispatcher  # type: ignore[no-any-return]


def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _loader(bits: int, kind: types.Integer) -> Any:
    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(_pointer(builder, arguments[0], bits), align=1)

        return kind(types.uint64), build

    return load


def _storer(bits: int, kind: types.Integer) -> Any:
    @intrinsic
    def store(typingctx: Any, address: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store(arguments[1], _pointer(builder, arguments[0], bits), align=1)
            return context.get_dummy_value()

        return types.void(types.uint64, kind), build

    return store


# Unsigned words in native order at any address, for compiled code only.
load8, load16, load32, load64 = (
    _loader(8, types.uint8),
    _loader(16, types.uint16),
    _loader(32, types.uint32),
    _loader(64, types.uint64),
)
store8, store16, store32, store64 = (
    _storer(8, types.uint8),
    _storer(16, types.uint16),
    _storer(32, types.uint32),
    _storer(64, types.uint64),
)


def _swapper(kind: types.Integer) -> Any:
    @intrinsic
    def swapped(typingctx: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bswap(arguments[0])

        return kind(kind), build

    return swapped


# An unsigned word with its bytes in the other order, for compiled code only. numba computes with 64 bits whatever the
# operands, so the width has to be said.
swapped16, swapped32, swapped64 = _swapper(types.uint16), _swapper(types.uint32), _swapper(types.uint64)


def _viewer(of: types.Number, kind: types.Number) -> Any:
    @intrinsic
    def viewed(typingctx: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(kind))

        return kind(of), build

    return viewed


# A binary32 or binary64 value as an unsigned word and back, for compiled code only.
float_of, double_of = _viewer(types.uint32, types.float32), _viewer(types.uint64, types.float64)
bits_of_float, bits_of_double = _viewer(types.float32, types.uint32), _viewer(types.float64, types.uint64)


@intrinsic
def pointer_to(typingctx: Any, address: Any, kind: Any) -> Any:
    """An address as a pointer to elements of a NumPy scalar type (`np.float32`), for `numba.carray`."""
    element = kind.dtype
    target = types.CPointer(element)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(target))

    return target(types.uint64, kind), build
