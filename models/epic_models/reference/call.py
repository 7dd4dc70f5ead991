"""What a rank calls: the arguments of a collective, checked, and put into words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from epic_models.reference import numerics
from epic_models.reference.coding import Buffers
from epic_models.reference.group import GroupParams
from epic_models.reference.numerics import Array
from epic_models.reference.operation import Run
from epic_spec.errors import ConfigError
from epic_spec.packets import Descriptor
from epic_spec.tables import NO_RANK, Datatype, Operator, Primitive

PRIMITIVES: Final = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "barrier")
ARITHMETIC: Final = ("all_reduce", "reduce", "reduce_scatter")
ROOTED: Final = ("reduce", "broadcast")
_END = {
    "all_reduce": Primitive.ALLREDUCE,
    "reduce": Primitive.REDUCE,
    "broadcast": Primitive.BROADCAST,
    "reduce_scatter": Primitive.REDUCE,
    "all_gather": Primitive.BROADCAST,
    "barrier": Primitive.ALLREDUCE,
}


def describe(
    primitive: str, operator: Operator | None, datatype: Datatype | None, count: int, root: int | None
) -> str:
    """A call in words: `reduce(SUM, FP32, 1024 elements, root 3)`."""
    words = [operator.name] if operator is not None and primitive in ARITHMETIC else []
    if datatype is not None and primitive != "barrier":
        words += [datatype.name, f"{count} element{'s' * (count != 1)}"]
    if root is not None and primitive in ROOTED:
        words.append(f"root {root}")
    return f"{primitive}({', '.join(words)})"


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of `plan` that every step needs, checked; `root` is NO_RANK where there is none."""

    primitive: str
    operator: Operator
    datatype: Datatype
    root: int
    rank: int
    params: GroupParams
    tag: int
    shards: tuple[int, ...]
    count: int
    description: str

    def imm(self, primitive: Primitive, operator: Operator, datatype: Datatype, rank: int = NO_RANK) -> int:
        """A descriptor of this collective."""
        return Descriptor(primitive, operator, datatype, rank, tag=self.tag).pack()

    def parts(self) -> list[tuple[int, int, int]]:
        """(rank that owns it, first element, end) of each run; NO_RANK: everybody's."""
        if self.shards:
            bounds = pairwise(accumulate(self.shards, initial=0))
            return [(r, start, stop) for r, (start, stop) in enumerate(bounds) if stop > start]
        return [(self.root, 0, self.count)]

    def end(self) -> Run:
        """The end cell."""
        return Run(self.imm(_END[self.primitive], Operator.NONE, self.datatype, self.root))

    def announcement(self) -> Run:
        """The cell before those of an emulation."""
        return Run(self.imm(Primitive.BROADCAST, self.operator, self.datatype))


def check(
    primitive: str,
    send: Array | None,
    recv: Array | None,
    operator: Operator | None,
    datatype: Datatype | None,
    root: int | None,
    rank: int,
    params: GroupParams,
    shards: Sequence[int] | None,
) -> Call:
    """The call of these arguments of `plan`, which says what they are, with tag 0. Raises ConfigError."""
    world_size = params.world_size
    if primitive not in PRIMITIVES:
        raise ConfigError(f"primitive {primitive!r}, expected one of {', '.join(PRIMITIVES)}")
    if not 0 <= rank < world_size:
        raise ConfigError(f"{primitive}: rank = {rank}, expected 0 to {world_size - 1}")
    if primitive in ROOTED and (root is None or not 0 <= root < world_size):
        raise ConfigError(f"{primitive}: root = {root}, expected 0 to {world_size - 1}")
    if primitive not in ROOTED and root is not None:
        raise ConfigError(f"{primitive}: root = {root}, expected none")
    if (primitive in ARITHMETIC) != (operator not in (None, Operator.NONE)):
        expected = "SUM, MAX or MIN" if primitive in ARITHMETIC else "none"
        raise ConfigError(f"{primitive}: operator = {operator!r}, expected {expected}")
    if (primitive == "barrier") != (datatype is None):
        raise ConfigError(f"{primitive}: datatype = {datatype!r}, expected {'none' if datatype else 'one'}")
    if primitive == "barrier" and not (send is None and recv is None):
        raise ConfigError("barrier: expected no arrays")
    sizes = _shards(primitive, send, shards, world_size)
    count = sum(sizes) if sizes else _count(send, recv, primitive != "broadcast" or rank == root)
    return Call(
        primitive,
        operator or Operator.NONE,
        datatype if datatype is not None else Datatype.INT32,
        NO_RANK if root is None else root,
        rank,
        params,
        0,
        sizes,
        count,
        describe(primitive, operator, datatype, count, root),
    )


def _shards(
    primitive: str, send: Array | None, shards: Sequence[int] | None, world_size: int
) -> tuple[int, ...]:
    """Elements of each rank's shard; empty for primitives that have none."""
    if primitive not in ("reduce_scatter", "all_gather"):
        if shards is not None:
            raise ConfigError(f"{primitive}: shards = {tuple(shards)}, expected none")
        return ()
    if shards is not None:
        if len(shards) != world_size or min(shards) < 0:
            raise ConfigError(
                f"{primitive}: shards = {tuple(shards)}, expected {world_size} sizes of 0 or more"
            )
        return tuple(shards)
    if send is None:
        raise ConfigError(f"{primitive}: send = None, expected an array")
    if primitive == "all_gather":
        return (int(send.size),) * world_size
    if send.size % world_size:
        raise ConfigError(
            f"reduce_scatter: send has {send.size} elements, expected a multiple of {world_size} or shards"
        )
    return (int(send.size) // world_size,) * world_size


def _count(send: Array | None, recv: Array | None, reads_send: bool) -> int:
    """Elements of an unsharded collective; `buffers` checks the arrays against it."""
    array = recv if send is None or not reads_send else send
    return 0 if array is None else int(array.size)


def buffers(call: Call, send: Array | None, recv: Array | None) -> Buffers:
    """Flat views of the arrays that this rank uses, checked. Raises ConfigError."""
    if call.primitive == "barrier":
        return Buffers(None, None)
    own = sum(call.shards[: call.rank])
    if call.primitive == "reduce_scatter":
        return _pair(call, send, call.count, 0, recv, call.shards[call.rank], own)
    if call.primitive == "all_gather":
        return _pair(call, send, call.shards[call.rank], own, recv, call.count, 0)
    at_root = call.rank == call.root
    if call.primitive == "broadcast":
        sends, receives = at_root, not at_root or recv is not None
    else:
        sends, receives = True, call.primitive == "all_reduce" or at_root
    if sends and receives and send is None:
        send = recv
    return _pair(call, send, call.count if sends else None, 0, recv, call.count if receives else None, 0)


def _pair(
    call: Call,
    send: Array | None,
    send_size: int | None,
    send_base: int,
    recv: Array | None,
    recv_size: int | None,
    recv_base: int,
) -> Buffers:
    """Buffers of arrays that have the given sizes; an array whose size is None is not used."""
    source = None if send_size is None else _flat(call, "send", send, send_size)
    same = send is recv and send_size == recv_size
    target = source if same else None if recv_size is None else _flat(call, "recv", recv, recv_size)
    if target is not None and not target.flags.writeable:
        raise ConfigError(f"{call.description}: recv is read-only")
    return Buffers(_apart(source, target, recv_base - send_base), target, send_base, recv_base)


def _flat(call: Call, name: str, array: Array | None, count: int) -> Array:
    dtype = numerics.array_dtype(call.datatype)
    if array is None:
        raise ConfigError(f"{call.description}: {name} = None, expected an array of {count} elements")
    if array.dtype != dtype or array.size != count:
        raise ConfigError(
            f"{call.description}: {name} is {array.size} x {array.dtype}, expected {count} x {dtype}"
        )
    if not array.flags.c_contiguous:
        raise ConfigError(f"{call.description}: {name} is not C-contiguous")
    return array.reshape(-1)


def _apart(send: Array | None, recv: Array | None, shift: int) -> Array | None:
    """`send`, or a copy of it where results would overwrite elements that are not yet sent.

    That cannot happen when element i of `recv` is element i + `shift` of `send`, since the contribution to a
    cell is pulled before its result comes.
    """
    if send is None or recv is None or send is recv or not np.may_share_memory(send, recv):
        return send
    distance = recv.__array_interface__["data"][0] - send.__array_interface__["data"][0]
    return send if distance == shift * send.itemsize else send.copy()
