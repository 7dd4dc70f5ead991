"""One pointer to a `World` for compiled code: passing thirty arrays to each function would cost more than they do."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.experimental import structref

from epic_models.packetsim.world import World


@structref.register
class WorldType(types.StructRef):
    """The compiled type: the fields of `World`, by name."""

    def preprocess_fields(self, fields: Any) -> Any:
        """Fields as they are in memory."""
        return tuple((name, types.unliteral(kind)) for name, kind in fields)  # type: ignore[no-untyped-call]


class WorldReference(structref.StructRefProxy):
    """A `World` as compiled functions take it. It shares the arrays."""

    def __new__(cls, *arrays: Any) -> Any:
        """From the arrays in order."""
        return structref.StructRefProxy.__new__(cls, *arrays)  # type: ignore[no-untyped-call]


structref.define_proxy(WorldReference, WorldType, list(World._fields))  # type: ignore[no-untyped-call]


def reference(world: World) -> Any:
    """The reference to pass. The world must live as long."""
    return WorldReference(*world)
