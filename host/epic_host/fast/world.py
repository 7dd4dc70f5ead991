"""Many arrays as one word for compiled code, so that passing them on costs nothing.

A kernel that takes arrays, or a tuple of them, counts references to each at every use and call, which costs more than
the work on a frame. So kernels pass each other a World: the address of a table that has address and length of every
array. `w.slots` is then an array as in Python, of whose owner compiled code knows nothing: whoever makes a World keeps
it while kernels run, and a World keeps its arrays.

Python calls a kernel with `world.address`, for numba knows the type of a number at once, and the kernel makes the World
of it with its shape's `at`:

    SHAPE = Shape("Mode2", {"slots": SLOT, "departures": DEPARTURES})
    at = SHAPE.at

    @compiled
    def work(address, first, stop):
        w = at(address)
"""

# numba's extension interface has no types.
# mypy: disable-error-code="no-untyped-call, untyped-decorator, override, unused-ignore"

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import populate_array
from numpy.typing import DTypeLike

# Address and length of a field's array, or the address of the table of a World.
_WORDS: Final = 2
_WORD: Final = ir.IntType(64)


class Shape:
    """What a kind of World has: arrays of one dimension by the type of their elements, and Worlds by their Shape."""

    def __init__(self, name: str, fields: Mapping[str, DTypeLike | Shape]) -> None:
        self.fields: dict[str, np.dtype[Any] | Shape] = {
            key: kind if isinstance(kind, Shape) else np.dtype(kind) for key, kind in fields.items()
        }
        # numba keeps compiled code by the names of types: another layout has to have another.
        text = "; ".join(f"{k}: {v.key if isinstance(v, Shape) else v.descr}" for k, v in self.fields.items())
        self.key: str = f"{name}<{hashlib.sha256(text.encode()).hexdigest()[:16]}>"
        self.order = tuple(self.fields)
        # numba has one instance of equal types; it may have been made when a file was read.
        self.type = WorldType(self.key, self)
        self.type.shape = self
        self.at = _caster(self.type)

    def make(self, **values: Any) -> World:
        """A World of these arrays and Worlds. Raises TypeError for one that is missing or of another type."""
        return World(self, values)


class World:
    """Arrays by name. The name `address` is that of the table."""

    def __init__(self, shape: Shape, values: Mapping[str, Any]) -> None:
        if set(values) != set(shape.fields):
            raise TypeError(f"world of {sorted(values)}, expected {sorted(shape.fields)}")
        self.shape = shape
        self.values = dict(values)
        self._table = np.zeros(_WORDS * len(shape.order), np.int64)
        self.address = int(self._table.ctypes.data)
        for i, name in enumerate(shape.order):
            value, kind = values[name], shape.fields[name]
            at = self._table[_WORDS * i : _WORDS * (i + 1)]
            if isinstance(kind, Shape):
                if not isinstance(value, World) or value.shape is not kind:
                    raise TypeError(f"world: {name} is {type(value).__name__}, expected a World {kind.key}")
                at[0] = value.address
                continue
            if value.dtype != kind or value.ndim != 1 or not value.flags.c_contiguous:
                raise TypeError(f"world: {name} is {value.dtype}{value.shape}, expected a row of {kind}")
            at[:] = value.ctypes.data, len(value)


class WorldType(types.Type):
    """The type of a World in compiled code."""

    def __init__(self, key: str, shape: Shape | None) -> None:
        super().__init__(name=f"EpicWorld({key})")
        self.world_key = key
        self.shape = shape

    def __reduce__(self) -> tuple[Any, ...]:
        """numba keeps signatures in files: the type of a Shape that is no more is then one without fields."""
        return WorldType, (self.world_key, None)

    def field(self, name: str) -> types.Type | None:
        """The type of a field."""
        kind = None if self.shape is None else self.shape.fields.get(name)
        if kind is None:
            return None
        return kind.type if isinstance(kind, Shape) else types.Array(from_dtype(kind), 1, "C")


@register_model(WorldType)
class _Model(models.PrimitiveModel):
    """The address of the table."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD)


def _caster(kind: WorldType) -> Any:
    """For compiled code: the World whose address a word is."""

    @intrinsic
    def at(typingctx: Any, address: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return arguments[0]

        return kind(types.int64), build

    return at


@infer_getattr
class _Attributes(AttributeTemplate):
    key = WorldType

    def generic_resolve(self, kind: WorldType, name: str) -> types.Type | None:
        """The type of a field."""
        return kind.field(name)


@lower_getattr_generic(WorldType)
def _field(context: Any, builder: Any, kind: WorldType, value: Any, name: str) -> Any:
    field = kind.field(name)
    assert kind.shape is not None
    table = builder.inttoptr(value, _WORD.as_pointer())
    first = _WORDS * kind.shape.order.index(name)

    def load(offset: int) -> Any:
        return builder.load(builder.gep(table, [ir.Constant(_WORD, first + offset)]))

    if isinstance(field, WorldType):
        return load(0)
    assert isinstance(field, types.Array)
    array = context.make_array(field)(context, builder)
    item = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(field.dtype)))
    populate_array(
        array,
        data=builder.inttoptr(load(0), array.data.type),
        shape=[load(1)],
        strides=[item],
        itemsize=item,
        meminfo=None,
    )
    return array._getvalue()
