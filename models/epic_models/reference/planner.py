"""Plans the collectives of one rank: from a call and its arrays to an Operation. How is said in collectives.py."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from epic_models.reference import numerics
from epic_models.reference.arithmetic import Arithmetic, arithmetic
from epic_models.reference.call import ARITHMETIC, PRIMITIVES, Call, buffers, check
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
from epic_models.reference.fixedpoint import FixedPoint
from epic_models.reference.group import GroupParams
from epic_models.reference.numerics import Array
from epic_models.reference.operation import Operation, Run
from epic_spec.errors import ConfigError
from epic_spec.tables import NO_RANK, TAG_MODULUS, Datatype, Operator, Primitive


class Planner:
    """Plans the collectives of one rank of a group, and remembers how: calls of one kind differ in arrays and tag."""

    # Kinds that are remembered at most.
    KINDS = 1024

    def __init__(self, rank: int, params: GroupParams) -> None:
        self._rank = rank
        self._params = params
        self._kinds: dict[Hashable, _Kind] = {}

    def plan(
        self,
        primitive: str,
        send: Array | None,
        recv: Array | None,
        *,
        operator: Operator | None = None,
        datatype: Datatype | None = None,
        root: int | None = None,
        tag: int,
        reproducible: bool = False,
        shards: Sequence[int] | None = None,
    ) -> Operation:
        """The operation of a collective; arguments and errors are those of `collectives.plan`."""
        if not 0 <= tag < TAG_MODULUS:
            raise ConfigError(f"{primitive}: tag = {tag}, expected 0 to {TAG_MODULUS - 1}")
        sizes = (-1 if send is None else send.size, -1 if recv is None else recv.size)
        some = None if shards is None else tuple(shards)
        key = (primitive, operator, datatype, root, some, sizes, reproducible)
        kind = self._kinds.get(key)
        if kind is None:
            call = check(primitive, send, recv, operator, datatype, root, self._rank, self._params, some)
            # What is wrong with the arrays is said first, as they are the caller's.
            arrays = buffers(call, send, recv)
            kind = _kind(call, reproducible)
            if len(self._kinds) >= self.KINDS:
                self._kinds.clear()
            self._kinds[key] = kind
        else:
            arrays = buffers(kind.call, send, recv)
        return kind.operation(arrays, tag)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What collectives have in common that differ in their arrays and tag only: `runs` have neither."""

    call: Call
    runs: tuple[Run, ...]
    coding: Callable[[Buffers], Coding]

    def operation(self, arrays: Buffers, tag: int) -> Operation:
        """The one of these arrays and this tag."""
        coding = self.coding(arrays)
        runs = [
            Run(
                run.imm | tag,
                None if run.coding is None else coding,
                run.start,
                run.stop,
                run.sends,
                run.receives,
                run.identity,
            )
            for run in self.runs
        ]
        return Operation(self.call.primitive, self.call.description, runs)


@dataclass(frozen=True, slots=True)
class _FixedSumKind(_Kind):
    """Those whose runs follow from what the ranks have."""

    def operation(self, arrays: Buffers, tag: int) -> Operation:
        """The one of these arrays and this tag."""
        return _fixed_sum(replace(self.call, tag=tag), arrays)


def _kind(call: Call, reproducible: bool) -> _Kind:
    """How a call becomes cells. Raises ResourceError when the engines cannot compute it."""
    params = call.params
    how = None
    if call.primitive in ARITHMETIC:
        how = arithmetic(call.operator, call.datatype, params, reproducible)

    def native(arrays: Buffers) -> Coding:
        return Native(arrays, call.datatype, params)

    if call.primitive == "barrier" or call.count == 0:
        return _Kind(call, (call.end(),), native)
    if how is None:
        return _Kind(call, (*_broadcast_runs(call, native(_NOWHERE)), call.end()), native)
    if how.kind == "fixed":
        return _FixedSumKind(call, (), native)
    coding = partial(_combining, call, how)
    wire = call.datatype if how.kind == "native" else Datatype.INT32
    head = () if how.direct else (call.announcement(),)
    return _Kind(call, (*head, *_reduce_runs(call, coding(_NOWHERE), how.operator, wire)), coding)


_NOWHERE = Buffers(None, None)


def _broadcast_runs(call: Call, coding: Coding) -> list[Run]:
    """The data runs of a Broadcast or AllGather."""
    return [
        Run(
            call.imm(Primitive.BROADCAST, Operator.SUM, call.datatype, source),
            coding,
            start,
            stop,
            sends=source == call.rank,
            receives=True,
            identity=True,
        )
        for source, start, stop in call.parts()
    ]


def _combining(call: Call, how: Arithmetic, arrays: Buffers) -> Coding:
    """The coding of a reduction in one stage."""
    if how.kind == "native":
        wide = call.params.partial_format == "fp32" and call.datatype in numerics.HALVES
        return Native(
            arrays,
            call.datatype,
            call.params,
            partial_bytes=4 if wide else 0,
            complement=how.complement,
        )
    if how.kind == "keys":
        return Keys(arrays, call.datatype, call.operator, call.params, complement=how.complement)
    return Limbs(arrays, call.params.world_size, call.params)


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
