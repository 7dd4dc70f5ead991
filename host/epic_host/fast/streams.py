"""Stores that go past the cache, for arrays that are too large to stay in it until somebody reads them.

A store into a line that is not in the cache reads the line first; a whole line written at once without the cache is not
read (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Streaming Store Instructions"). Such stores are
not in order with others: `fence` stands between them and whatever tells that the data is there.
"""

from __future__ import annotations

import platform
from typing import Any, Final

import numpy as np
from llvmlite import ir

from epic_host.fast.compiled import Word, compiled, intrinsic, types
from epic_host.fast.lanes import swap_copy

# Bytes of a line.
_LINE: Final = 64
_FENCE: Final = platform.machine() in ("x86_64", "AMD64")


def _mover(size: int) -> Any:
    """Moves a line from any address to a line, the bytes of elements of `size` in the other order."""

    @intrinsic
    def move(typingctx: Any, target: Any, source: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(ir.IntType(8 * size), _LINE // size)
            line = builder.load(builder.inttoptr(arguments[1], vector.as_pointer()), align=1)
            if size > 1:
                name = f"llvm.bswap.v{_LINE // size}i{8 * size}"
                kind = ir.FunctionType(vector, (vector,))
                line = builder.call(builder.module.declare_intrinsic(name, (), kind), [line])
            store = builder.store(line, builder.inttoptr(arguments[0], vector.as_pointer()), align=_LINE)
            one = ir.Constant(ir.IntType(32), 1)
            store.set_metadata("nontemporal", builder.module.add_metadata([one]))
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), build

    return move


_move1, _move2, _move4, _move8 = (_mover(size) for size in (1, 2, 4, 8))


@intrinsic
def fence(typingctx: Any) -> Any:
    """Streamed data is written before whatever is stored afterwards, for compiled code only."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _FENCE:
            kind = ir.FunctionType(ir.VoidType(), ())
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse.sfence", (), kind), [])
        else:
            builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), build


@compiled
def stream(target: Word, source: Word, n: Word, size: Word) -> None:
    """As `lanes.swap_copy`, past the cache as far as `target` has whole lines. Call `fence` afterwards."""
    to, from_ = np.uint64(target), np.uint64(source)
    line = np.uint64(_LINE)
    head = np.int64((line - to % line) % line)
    if head % size or n * size < head + _LINE:
        swap_copy(to, from_, n, size)
        return
    swap_copy(to, from_, head // size, size)
    lines = (n * size - head) // _LINE
    at, end = np.uint64(head), np.uint64(head + lines * _LINE)
    if size == 4:
        while at < end:
            _move4(to + at, from_ + at)
            at += line
    elif size == 8:
        while at < end:
            _move8(to + at, from_ + at)
            at += line
    elif size == 2:
        while at < end:
            _move2(to + at, from_ + at)
            at += line
    else:
        while at < end:
            _move1(to + at, from_ + at)
            at += line
    swap_copy(to + end, from_ + end, n - np.int64(end) // size, size)
