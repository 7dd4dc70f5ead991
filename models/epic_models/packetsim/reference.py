"""One pointer to a `World` for compiled code.

Compiled functions take a table of addresses; `w.links[i]` is a load from it and a sum. Passing thirty arrays to every
function, or counting references to them, would cost more than the work, and as numba's arrays, with their lengths,
steps and indices from the end, the same code takes longer to compile and to run.
"""

# numba's extension interface has no types.
# mypy: disable-error-code="no-untyped-call, untyped-decorator, override, unused-ignore"

from __future__ import annotations

import hashlib
import operator
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.imputils import lower_builtin, lower_getattr, lower_getattr_generic
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

from epic_models.packetsim import world as w_
from epic_models.packetsim.world import World

# Element type and dimensions of each field, in the order of World.
_KINDS: dict[str, tuple[Any, int]] = {
    "sim": (w_.SIM, 1), "wheel": (w_.WHEEL, 1), "wheel_first": (np.int32, 1), "wheel_last": (np.int32, 1),
    "wheel_words": (np.uint64, 1), "heap_time": (np.int64, 1), "heap_key": (np.int64, 1), "heap_what": (np.int64, 1),
    "links": (w_.LINK, 1), "packets": (w_.PACKET, 1), "paths": (np.int32, 1), "ends": (w_.END, 1),
    "pending": (w_.PENDING, 1), "agents": (w_.AGENT_, 1), "entries": (w_.ENTRY, 1), "children": (np.int32, 1),
    "slots": (w_.SLOT, 1), "groups": (w_.GROUP, 1), "starts": (np.int64, 1), "leaf": (np.int32, 1),
    "finish": (np.int64, 1), "flows": (w_.FLOW_, 1), "flow_list": (np.int32, 1), "segments": (w_.SEGMENT, 1),
    "data": (np.int32, 2), "rows": (np.int32, 2), "row_next": (np.int32, 1), "expected": (np.int32, 2),
    "expected_cell": (np.int64, 1), "changes": (w_.CHANGE_, 1), "node_up": (np.uint8, 1),
    "sources": (w_.SOURCE_, 1), "log": (w_.LOG, 1), "samples": (np.int64, 2), "script": (np.int64, 2),
}  # fmt: skip
_ORDER = tuple(World._fields)
# Address and two lengths a field.
_WORDS = 3
_WORD = ir.IntType(64)


class WorldReference:
    """What compiled functions take. It keeps the world, whose arrays it shares."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.table = np.zeros(_WORDS * len(_ORDER), np.int64)
        for i, name in enumerate(_ORDER):
            array, (dtype, dimensions) = getattr(world, name), _KINDS[name]
            if array.dtype != np.dtype(dtype) or array.ndim != dimensions or not array.flags.c_contiguous:
                raise TypeError(f"world.{name}: {array.dtype}, {array.ndim} dimensions, expected {dtype}")
            shape = (*array.shape, 1)
            self.table[_WORDS * i : _WORDS * (i + 1)] = (array.ctypes.data, shape[0], shape[1])
        self.address = int(self.table.ctypes.data)


def version(folder: Path = Path(__file__).parent) -> str:
    """A digest of the sources in a folder, this package's by default, that are compiled: those that use `kernel`, and
    those that say how records are laid out and found.

    numba keeps compiled code by the types of the arguments and the age of one file. It sees neither that records have
    another layout nor that a function of another file has changed, so the type's name has to.
    """
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        text = source.read_bytes()
        if source.name in ("world.py", "kernel.py", "reference.py") or b"packetsim.kernel import" in text:
            digest.update(text)
    return digest.hexdigest()[:16]


class WorldType(types.Type):
    """The type of a WorldReference in compiled code."""

    def __init__(self) -> None:
        super().__init__(name=f"EpicWorld({version()})")


WORLD_TYPE = WorldType()


@typeof_impl.register(WorldReference)
def _typeof(value: Any, context: Any) -> WorldType:
    return WORLD_TYPE


@register_model(WorldType)
class _Model(models.PrimitiveModel):
    """The address of the table."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD)


@unbox(WorldType)
def _unbox(kind: Any, value: Any, c: Any) -> NativeValue:
    attribute = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_longlong(attribute)
    c.pyapi.decref(attribute)
    return NativeValue(address)


class TableType(types.Type):
    """The type of `w.links` in compiled code: a field of the world, by index only."""

    def __init__(self, field: str) -> None:
        self.field = field
        dtype, self.ndim = _KINDS[field]
        self.dtype = from_dtype(np.dtype(dtype))
        super().__init__(name=f"EpicTable({field}, {version()})")


_TABLES = {name: TableType(name) for name in _KINDS}


@register_model(TableType)
class _TableModel(models.PrimitiveModel):
    """The address of the world's table of addresses."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD)


@infer_getattr
class _Attributes(AttributeTemplate):
    key = WorldType

    def generic_resolve(self, kind: Any, name: str) -> TableType | None:
        """The type of a field."""
        return _TABLES.get(name)


@lower_getattr_generic(WorldType)
def _field(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    return value


@infer_getattr
class _TableAttributes(AttributeTemplate):
    key = TableType

    def resolve_shape(self, table: TableType) -> Any:
        """The lengths."""
        return types.UniTuple(types.intp, table.ndim)


@lower_getattr(TableType, "shape")
def _shape(context: Any, builder: Any, kind: TableType, value: Any) -> Any:
    lengths = [_word(builder, kind, value, 1 + d) for d in range(kind.ndim)]
    return context.make_tuple(builder, types.UniTuple(types.intp, kind.ndim), lengths)


def _index(table: Any, index: Any) -> Any:
    """The type of a whole index, or None."""
    if isinstance(table, TableType):
        if table.ndim == 1 and isinstance(index, types.Integer):
            return types.intp
        if table.ndim == 2 and isinstance(index, types.BaseTuple) and len(index) == 2:
            return types.UniTuple(types.intp, 2)
    return None


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        table, index = args
        whole = _index(table, index)
        return None if whole is None else signature(table.dtype, table, whole)


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        table, index, _ = args
        whole = _index(table, index)
        if whole is None or isinstance(table.dtype, types.Record):
            return None
        return signature(types.none, table, whole, table.dtype)


def _word(builder: Any, kind: TableType, value: Any, offset: int) -> Any:
    """A word of the table of addresses. It never changes, so one load serves a whole function."""
    table = builder.inttoptr(value, _WORD.as_pointer())
    place = builder.gep(table, [ir.Constant(_WORD, _WORDS * _ORDER.index(kind.field) + offset)])
    load = builder.load(place)
    load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return load


def _address(context: Any, builder: Any, kind: TableType, value: Any, index: Any) -> Any:
    """Where an item is. Indices count from the start: none is checked, and none from the end."""
    if kind.ndim == 2:
        row, column = cgutils.unpack_tuple(builder, index, 2)
        index = builder.add(builder.mul(row, _word(builder, kind, value, 2)), column)
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    return builder.add(_word(builder, kind, value, 0), builder.mul(index, ir.Constant(_WORD, item)))


@lower_builtin(operator.getitem, TableType, types.Any)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind = sig.args[0]
    address = _address(context, builder, kind, *args)
    if isinstance(kind.dtype, types.Record):
        return builder.inttoptr(address, context.get_value_type(kind.dtype))
    pointer = builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer())
    return context.unpack_value(builder, kind.dtype, pointer)


@lower_builtin(operator.setitem, TableType, types.Any, types.Any)
def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind = sig.args[0]
    address = _address(context, builder, kind, *args[:2])
    pointer = builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer())
    context.pack_value(builder, kind.dtype, args[2], pointer)
    return context.get_dummy_value()


def reference(world: World) -> WorldReference:
    """The reference to pass."""
    return WorldReference(world)
