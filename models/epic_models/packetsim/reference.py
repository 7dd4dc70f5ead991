"""One pointer to a `World` for compiled code.

Compiled functions take a table of addresses and make an array of it where they use one, `w.links` as in Python. Passing
thirty arrays to every function, or counting references to them, would cost more than the work: the world outlives every
call, so nothing has to be counted.
"""

# numba's extension interface has no types.
# mypy: disable-error-code="no-untyped-call, untyped-decorator, override, unused-ignore"

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import populate_array

from epic_models.packetsim import world as w_
from epic_models.packetsim.world import World

# Element type and dimensions of each field, in the order of World.
_KINDS: dict[str, tuple[Any, int]] = {
    "sim": (w_.SIM, 1), "heap_time": (np.int64, 1), "heap_key": (np.int64, 1), "heap_what": (np.int64, 1),
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
    """A digest of the sources in a folder, this package's by default.

    numba keeps compiled code by the types of the arguments and the age of one file. It sees neither that records have
    another layout nor that a function of another file has changed, so the type's name has to.
    """
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        digest.update(source.read_bytes())
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
        super().__init__(manager, kind, ir.IntType(64))


@unbox(WorldType)
def _unbox(kind: Any, value: Any, c: Any) -> NativeValue:
    attribute = c.pyapi.object_getattr_string(value, "address")
    address = c.pyapi.long_as_longlong(attribute)
    c.pyapi.decref(attribute)
    return NativeValue(address)


def _array_type(name: str) -> types.Array:
    dtype, dimensions = _KINDS[name]
    return types.Array(from_dtype(np.dtype(dtype)), dimensions, "C")


@infer_getattr
class _Attributes(AttributeTemplate):
    key = WorldType

    def generic_resolve(self, kind: Any, name: str) -> types.Array | None:
        """The type of a field."""
        return _array_type(name) if name in _KINDS else None


@lower_getattr_generic(WorldType)
def _field(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    array_type = _array_type(name)
    word = ir.IntType(64)
    table = builder.inttoptr(value, word.as_pointer())
    at = _WORDS * _ORDER.index(name)

    def load(offset: int) -> Any:
        return builder.load(builder.gep(table, [ir.Constant(word, at + offset)]))

    array = context.make_array(array_type)(context, builder)
    item = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    lengths = [load(1 + d) for d in range(array_type.ndim)]
    steps = [ir.Constant(word, item)]
    if array_type.ndim == 2:
        steps = [builder.mul(lengths[1], ir.Constant(word, item)), *steps]
    populate_array(
        array,
        data=builder.inttoptr(load(0), array.data.type),
        shape=lengths,
        strides=steps,
        itemsize=ir.Constant(word, item),
        meminfo=None,
    )
    return array._getvalue()


def reference(world: World) -> WorldReference:
    """The reference to pass."""
    return WorldReference(world)
