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
from typing import NamedTuple

from epic_models.reference import numerics
from epic_models.reference.call import ARITHMETIC, PRIMITIVES, Call, buffers, check, describe
from epic_models.reference.coding import (
    Buffers,
    Coding,
    Exponents,
    FixedSum,
    Keys,
    Limbs,
    Native,
    Quantized,
    Specials,
)
from epic_models.reference.fixedpoint import KEYED, FixedPoint
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import ConflictRecord
from epic_models.reference.numerics import FLOATS, Array
from epic_models.reference.operation import Operation, Run
from epic_spec.errors import ResourceError
from epic_spec.packets import ERR_BIT, NULL_BIT, Descriptor
from epic_spec.tables import NO_RANK, Datatype, Operator, Primitive

__all__ = ["PRIMITIVES", "Arithmetic", "Operation", "arithmetic", "describe", "describe_mismatch", "plan"]

_OPPOSITE = {Operator.MAX: Operator.MIN, Operator.MIN: Operator.MAX}


class Arithmetic(NamedTuple):
    """How an operator is computed: `kind` native, keys, limbs or fixed (coding.py), and the wire's operator.

    `complement`: values travel with all bits inverted, and `operator` is the opposite of the user's.
    """

    kind: str
    operator: Operator
    complement: bool = False

    @property
    def direct(self) -> bool:
        """Whether cells say all about the call, so that no announcement is needed."""
        return self.kind == "native" and not self.complement


def arithmetic(
    operator: Operator, datatype: Datatype, params: GroupParams, reproducible: bool = False
) -> Arithmetic:
    """How a group computes `operator` of `datatype`.

    `reproducible` asks for a result that is bitwise independent of the order of arrival: everything but a
    floating-point SUM is; that one is where the engine adds in child order (`ordered`), or as fixed point.
    Raises ResourceError when nothing that the engine offers serves.
    """
    offered = {o for o in (Operator.SUM, Operator.MAX, Operator.MIN) if o.name in params.operators}
    native = datatype.name in params.datatypes
    words = "INT32" in params.datatypes
    float_sum = operator is Operator.SUM and datatype in FLOATS
    if native and operator in offered and not (float_sum and reproducible and not params.ordered):
        return Arithmetic("native", operator)
    if operator is Operator.SUM and words and operator in offered:
        if datatype in FLOATS and Operator.MAX in offered:
            return Arithmetic("fixed", operator)
        if datatype in KEYED and datatype not in FLOATS:
            return Arithmetic("keys", operator)
        if datatype is Datatype.INT64:
            return Arithmetic("limbs", operator)
    opposite = _OPPOSITE.get(operator)
    if opposite is not None:
        if native and datatype not in FLOATS and opposite in offered:
            return Arithmetic("native", opposite, complement=True)
        if words and datatype in KEYED and operator in offered:
            return Arithmetic("keys", operator)
        if words and datatype in KEYED and opposite in offered:
            return Arithmetic("keys", opposite, complement=True)
    how = " reproducibly" if float_sum and reproducible else ""
    raise ResourceError(
        f"group {params.group}: {operator.name} of {datatype.name} cannot be computed{how}: "
        f"the engines offer {'/'.join(params.operators) or 'none'} of {'/'.join(params.datatypes) or 'none'}"
    )


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
    call = check(primitive, send, recv, operator, datatype, root, rank, world_size, params, tag, shards)
    if primitive == "barrier":
        return Operation(primitive, call.description, [call.end()])
    arrays = buffers(call, send, recv)
    how = arithmetic(call.operator, call.datatype, params, reproducible) if primitive in ARITHMETIC else None
    if call.count == 0:
        return Operation(primitive, call.description, [call.end()])
    if how is not None:
        return _fixed_sum(call, arrays) if how.kind == "fixed" else _combining(call, arrays, how)
    coding = Native(arrays, call.datatype, params)
    runs = [
        Run(
            call.imm(Primitive.BROADCAST, Operator.SUM, call.datatype, source),
            coding,
            start,
            stop,
            sends=source == rank,
            receives=True,
            identity=True,
        )
        for source, start, stop in call.parts()
    ]
    return Operation(primitive, call.description, [*runs, call.end()])


def _combining(call: Call, arrays: Buffers, how: Arithmetic) -> Operation:
    """AllReduce, Reduce, ReduceScatter in one stage."""
    coding: Coding
    wire = Datatype.INT32
    if how.kind == "native":
        wire = call.datatype
        partial = 4 if call.params.partial_format == "fp32" and wire in numerics.HALVES else 0
        coding = Native(arrays, wire, call.params, partial_bytes=partial, complement=how.complement)
    elif how.kind == "keys":
        coding = Keys(arrays, call.datatype, call.operator, call.params, complement=how.complement)
    else:
        coding = Limbs(arrays, call.params.world_size, call.params)
    runs = _reduce_runs(call, coding, how.operator, wire)
    head = [] if how.direct else [call.announcement()]
    return Operation(call.primitive, call.description, head + runs)


def _reduce_runs(call: Call, coding: Coding, operator: Operator, wire: Datatype) -> list[Run]:
    """The data runs of a reduction and, where needed, its end cell."""
    runs = [
        Run(
            call.imm(Primitive.ALLREDUCE if owner == NO_RANK else Primitive.REDUCE, operator, wire, owner),
            coding,
            start,
            stop,
            sends=True,
            receives=owner in (NO_RANK, call.rank),
        )
        for owner, start, stop in call.parts()
    ]
    if call.primitive != "all_reduce" or call.count % coding.cell_elements == 0:
        runs.append(call.end())
    return runs


def _fixed_sum(call: Call, arrays: Buffers) -> Operation:
    """A floating-point SUM in two stages; every rank takes part in the first as in an AllReduce."""
    params = call.params
    what = PRIMITIVES.index(call.primitive) << 16 | call.root
    shared = FixedSum(
        FixedPoint(call.datatype, params.world_size),
        arrays,
        call.count,
        (what, call.count),
        call.description,
    )
    exponents, specials = Exponents(shared, params), Specials(shared, params)
    phase1 = call.imm(Primitive.ALLREDUCE, Operator.MAX, Datatype.INT32)
    phase2 = call.imm(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32)

    def special_runs() -> list[Run]:
        total = shared.find_specials()
        return [Run(phase2, specials, 0, total, sends=True, receives=True)] if total else []

    return Operation(
        call.primitive,
        call.description,
        [call.announcement(), Run(phase1, exponents, 0, exponents.size, sends=True, receives=True)],
        later=_reduce_runs(call, Quantized(shared, params), Operator.SUM, Datatype.INT32),
        between=special_runs,
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
