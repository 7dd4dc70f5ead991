"""Collectives as sequences of masked-AllReduce cells (design, section 2), pure and pull-based.

`plan` makes an `Operation`; whoever drives the agent pulls cells from it as the window opens and delivers the
results in order. Arrays are read and written one cell at a time.

How a collective becomes cells:

* Data is cut into *full* cells (as many whole elements as a payload holds) and one shorter cell for the rest.
* A collective ends with an *end cell* (operator NONE, NULL) except an AllReduce whose last data cell is not
  full. So no collective's cells are the beginning of another's, and ranks that disagree about a count or a
  primitive meet a cell about which they disagree before any is done. An empty collective is its end cell.
* ReduceScatter is a Reduce run a shard, AllGather a Broadcast run a shard.
* In the last cell of a Broadcast run the ranks that do not send data send zeros of the length they expect.
* Where the engine's own arithmetic does not serve (datatype or operator not offered, order not fixed but
  `reproducible` asked for, MAX in place of MIN), the first cell is an *announcement*: primitive BROADCAST
  without a source (rank 0xFFFF), NULL, with the user's operator and datatype. The cells that follow name
  INT32, so without it an INT32 and, say, an FP32 collective could be taken for one.
"""

from __future__ import annotations

from collections.abc import Sequence

from epic_models.reference.arithmetic import Arithmetic, arithmetic
from epic_models.reference.call import PRIMITIVES, describe
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import ConflictRecord
from epic_models.reference.numerics import Array
from epic_models.reference.operation import Operation
from epic_models.reference.planner import Planner
from epic_spec.errors import ConfigError
from epic_spec.packets import ERR_BIT, NULL_BIT, Descriptor
from epic_spec.tables import NO_RANK, Datatype, Operator, Primitive

__all__ = [
    "PRIMITIVES",
    "Arithmetic",
    "Operation",
    "Planner",
    "arithmetic",
    "describe",
    "describe_mismatch",
    "plan",
]


def plan(
    primitive: str,
    send: Array | None,
    recv: Array | None,
    *,
    operator: Operator | None = None,
    datatype: Datatype | None = None,
    root: int | None = None,
    rank: int,
    world_size: int,
    params: GroupParams,
    tag: int,
    reproducible: bool = False,
    shards: Sequence[int] | None = None,
) -> Operation:
    """The operation of one rank for one collective.

    Arrays are C-contiguous, of any shape, of `numerics.array_dtype(datatype)`; `recv` is written in place.
    With n = `world_size` and `shards` the elements of each rank's shard (default: equal ones):

        all_reduce      send and recv of equal size
        reduce          send; at the root recv of equal size (elsewhere recv is left as it is)
        broadcast       at the root send (and recv, where wanted); elsewhere recv (send is not read)
        reduce_scatter  send of sum(shards) elements, recv of shards[rank]
        all_gather      send of shards[rank] elements, recv of sum(shards)
        barrier         no array, datatype or operator

    In place: send and recv are the same memory, or send is None; in reduce_scatter recv, in all_gather send,
    is the rank's own shard of the other. Where they overlap in another way, `send` is copied first.
    `tag` is the collective counter modulo 64. Raises ConfigError for arguments that do not fit, ResourceError
    when the group's engines cannot compute it.
    """
    if world_size != params.world_size:
        raise ConfigError(f"{primitive}: world_size = {world_size}, the group has {params.world_size}")
    return Planner(rank, params).plan(
        primitive,
        send,
        recv,
        operator=operator,
        datatype=datatype,
        root=root,
        tag=tag,
        reproducible=reproducible,
        shards=shards,
    )


def describe_mismatch(own: str, sent_imm: int, held_imm: int, record: ConflictRecord | None) -> str:
    """One line for the MismatchError of a poisoned cell: what this rank called and what each side sent.

    `own` is the Operation's description, `sent_imm` this rank's descriptor of the cell, `held_imm` the one of
    the result, `record` the two contributions that disagreed, where the group has conflict records.
    """
    line = f"ranks disagree: this rank called {own} and sent [{_decode(sent_imm)}]"
    if record is None:
        return f"{line}, the engine holds [{_decode(held_imm)}]"
    return (
        f"{line}, one side sent [{_decode(record.held)}, {_size(record.held_length)}], "
        f"another [{_decode(record.other)}, {_size(record.other_length)}]"
    )


def _decode(imm: int) -> str:
    try:
        descriptor = Descriptor.unpack(imm & ~(NULL_BIT | ERR_BIT))
    except ValueError:
        return f"descriptor {imm:#010x}"
    if descriptor.primitive is Primitive.BROADCAST and descriptor.rank == NO_RANK and descriptor.operator:
        return (
            f"start of {descriptor.operator.name} {descriptor.datatype.name} over INT32 tag={descriptor.tag}"
        )
    return str(descriptor)


def _size(length: int) -> str:
    return f"{length} bytes" if length else "no payload"
