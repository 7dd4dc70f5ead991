"""Broken engines for the conformance suite: what is broken, the clause that it breaks, and the modes it shows in.

The faults of `models.mutants` that concern engines are taken over; those here break rules that only a view from the
wire shows. `test_conformance_mutants.py` requires for each a failing case that cites the broken clause.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from epic_models.reference import cells, endpoint, mode2, mode3, numerics
from epic_models.reference.interfaces import Output
from epic_spec import codec
from epic_spec.errors import WireError
from epic_spec.packets import ERR_BIT
from epic_spec.tables import Datatype, Operator
from models.mutants import MUTANTS as MODEL_MUTANTS

Patch = Callable[[], AbstractContextManager[Any]]

# Faults of agents: the suite for hosts has its own.
_OF_AGENTS = {
    "results delivered as they come",
    "contributions never repeated",
    "window by sends, not results",
    "no stall clock",
    "congestion marks ignored",
}
# An engine may acknowledge a stored packet that did not ask for it (epic.md, section 13).
_ALLOWED = {"ACK before the message is whole"}
# The same fault under two scenarios, or one that black-box frames cannot reach: tags and packet numbers wrap after
# 2^24 cells.
_TWICE = {
    "early bcast release under loss (II)",
    "early release under loss (I)",
    "descriptor not compared, whole group",
    "no child resends",
    "tags compared as plain numbers",
    "packet numbers do not wrap (I)",
    "packet numbers do not wrap (II)",
}


def attribute(target: Any, name: str, value: Any) -> Patch:
    """Replace an attribute of a class or module."""
    return lambda: mock.patch.object(target, name, value)


def modes_of(clause: str) -> tuple[int, ...]:
    """The modes in which a clause of a mode, or of all, can be broken."""
    part = clause.split("-")[1]
    return {"M1": (1,), "M2": (2,), "M3": (3,)}.get(part, (1, 2, 3))


# name -> (clause, modes in which some case must see it, how)
MUTANTS: dict[str, tuple[str, tuple[int, ...], Patch]] = {
    name: (clause, modes_of(clause), patch)
    for name, (clause, _scenario, patch) in MODEL_MUTANTS.items()
    if name not in _OF_AGENTS | _TWICE | _ALLOWED
}
for _name, _modes in {
    "no epoch tag": (3,),
    "no dedup": (3,),
    "results not suppressed (III)": (3,),
    "early result (I)": (1,),
    "early result (II)": (2,),
    "early result (III)": (3,),
    "added as they come": (1,),
    "sizes not checked (III)": (3,),
    "no retry limit": (1, 2),
    "gap accepted": (2,),
    "no window guard": (3,),
}.items():
    _clause, _, _patch = MUTANTS[_name]
    MUTANTS[_name] = (_clause, _modes, _patch)


def mutant(name: str, clause: str, patch: Patch, modes: tuple[int, ...] | None = None) -> None:
    """Add a fault."""
    MUTANTS[name] = (clause, modes or modes_of(clause), patch)


# -------------------------------------------------------------------------------------------- installation

_REMOVE = endpoint.EngineBase.remove
_INSTALL = endpoint.EngineBase.install


def _leave_bindings(self: Any, group: int) -> None:
    bindings = dict(self._bindings)
    machine = self._groups[group]
    _REMOVE(self, group)
    self._residue = machine
    self._bindings = bindings


def _reuse_machine(self: Any, entry: Any, now: float) -> None:
    residue = getattr(self, "_residue", None)
    if residue is None:
        _INSTALL(self, entry, now)
        return
    self._bindings = {}
    with mock.patch.object(type(self), "_make", lambda *_: residue):
        _INSTALL(self, entry, now)


@contextmanager
def _residue() -> Iterator[None]:
    with (
        mock.patch.object(endpoint.EngineBase, "remove", _leave_bindings),
        mock.patch.object(endpoint.EngineBase, "install", _reuse_machine),
    ):
        yield


_STATUS = endpoint.EngineBase.status


def _blind_status(self: Any, group: int) -> Any:
    status = _STATUS(self, group)
    return replace(status, slots=tuple(replace(s, bitmap=0) for s in status.slots))


mutant("a group leaves its slots behind", "EPIC-E-04", _residue)
mutant(
    "every installation accepted",
    "EPIC-E-18",
    attribute(endpoint.EngineCapabilities, "check", lambda self, entry: None),
)
mutant("bitmaps not shown", "EPIC-F-04", attribute(endpoint.EngineBase, "status", _blind_status))


def _uncounted(self: Any) -> dict[str, int]:
    return {name: value for name, value in self._count.items() if name != "rx_contribution"}


mutant("contributions not counted", "EPIC-E-09", attribute(endpoint.EngineBase, "counters", _uncounted))


# ------------------------------------------------------------------------------------------------ the wire

_CODEC_DECODE = codec.decode
_IP_AT, _UDP_AT = 14, 34


def _fix_ip(frame: bytes) -> bytes:
    """The frame with a right IP checksum."""
    header = bytearray(frame[_IP_AT:_UDP_AT])
    header[10:12] = b"\0\0"
    total = sum(struct.unpack(">10H", bytes(header)))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = struct.pack(">H", ~total & 0xFFFF)
    return frame[:_IP_AT] + bytes(header) + frame[_UDP_AT:]


def _forgiving(reason: str, repair: Callable[[bytes], bytes]) -> Patch:
    """A decoder that repairs what it should drop, ICRC included, for it takes the frame as good."""

    def decode(frame: bytes, *, icrc: codec.IcrcMode = "verify") -> Any:
        try:
            return _CODEC_DECODE(frame, icrc=icrc)
        except WireError as error:
            if error.reason != reason:
                raise
            return _CODEC_DECODE(repair(bytes(frame)), icrc="ignore")

    return lambda: mock.patch.object(endpoint.codec, "decode", decode)


def _without_options(frame: bytes) -> bytes:
    words = frame[_IP_AT] & 15
    header = bytearray(frame[_IP_AT:_UDP_AT])
    header[0] = 0x45
    length = struct.unpack(">H", header[2:4])[0] - 4 * (words - 5)
    header[2:4] = struct.pack(">H", length)
    return _fix_ip(frame[:_IP_AT] + bytes(header) + frame[_IP_AT + 4 * words :])


def _whole(frame: bytes) -> bytes:
    return _fix_ip(frame[: _IP_AT + 6] + b"\x40\x00" + frame[_IP_AT + 8 :])


def _tver_zero(frame: bytes) -> bytes:
    return frame[:43] + bytes([frame[43] & 0xF0]) + frame[44:]


def _untagged(frame: bytes) -> bytes:
    return frame[:12] + frame[16:]


mutant("VLAN tags skipped", "EPIC-W-03", _forgiving("vlan", _untagged))
mutant("IP options skipped", "EPIC-W-04", _forgiving("ip_options", _without_options))
mutant("fragments taken as whole", "EPIC-W-05", _forgiving("fragment", _whole))
mutant("IP checksum not verified", "EPIC-W-06", _forgiving("ip_checksum", _fix_ip))
mutant("TVer ignored", "EPIC-W-08", _forgiving("tver", _tver_zero))

_DATA = endpoint.EdgeEnd.data


def _emitting(change: Callable[[Any, Any], Any]) -> Patch:
    """An engine whose data packets are changed before they leave."""

    def data(self: Any, *args: Any, **more: Any) -> Any:
        port, packet = _DATA(self, *args, **more)
        return port, change(self, packet)

    return attribute(endpoint.EdgeEnd, "data", data)


mutant("ICRC not generated", "EPIC-W-11", _emitting(lambda self, p: p.but(icrc_ok=False)))
mutant(
    "results carry the engine's own addresses as destination",
    "EPIC-E-07",
    _emitting(lambda self, p: p.but(dst_mac=p.src_mac)),
)
mutant("another P_Key on results", "EPIC-E-07", _emitting(lambda self, p: p.but(pkey=0x8001)))
mutant("no AckReq", "EPIC-W-22", _emitting(lambda self, p: p.but(ackreq=False)))
mutant("PSNs from another base", "EPIC-W-16", _emitting(lambda self, p: p.but(psn=(p.psn + 1) & 0xFFFFFF)))
mutant("every result marked", "EPIC-E-08", _emitting(lambda self, p: p.but(ecn=3)))


# ---------------------------------------------------------------------------------------------- arithmetic

_REDUCE = numerics.reduce_into
_LOAD = numerics.load
_STORE = numerics.store


def _on(kind: str, other: Callable[[Any, Any, Operator], None]) -> Patch:
    """Arithmetic that is wrong for integers ("i") or floats ("f")."""

    def reduce_into(acc: Any, values: Any, operator: Operator) -> None:
        if acc.dtype.kind == kind:
            other(acc, values, operator)
        else:
            _REDUCE(acc, values, operator)

    return attribute(cells.numerics, "reduce_into", reduce_into)


def _saturate(acc: Any, values: Any, operator: Operator) -> None:
    if operator is not Operator.SUM:
        _REDUCE(acc, values, operator)
        return
    info = np.iinfo(acc.dtype)
    total = [max(info.min, min(info.max, int(a) + int(b))) for a, b in zip(acc, values, strict=True)]
    acc[:] = np.array(total, acc.dtype)


def _unsigned(acc: Any, values: Any, operator: Operator) -> None:
    if operator is Operator.SUM:
        _REDUCE(acc, values, operator)
        return
    u = np.dtype(f"u{acc.dtype.itemsize}")
    choose = np.maximum if operator is Operator.MAX else np.minimum
    acc[:] = choose(acc.view(u), values.view(u)).view(acc.dtype)


def _ignore_nan(acc: Any, values: Any, operator: Operator) -> None:
    if operator is Operator.SUM:
        _REDUCE(acc, values, operator)
        return
    acc[:] = (np.fmax if operator is Operator.MAX else np.fmin)(acc, values)


def _zeros_equal(acc: Any, values: Any, operator: Operator) -> None:
    if operator is Operator.SUM:
        _REDUCE(acc, values, operator)
    elif operator is Operator.MAX:
        acc[:] = np.where(values > acc, values, np.where(np.isnan(values), values, acc))
    else:
        acc[:] = np.where(values < acc, values, np.where(np.isnan(values), values, acc))


def _narrow(payload: Any, datatype: Datatype, order: str, *, wide: bool = False) -> Any:
    values = _LOAD(payload, datatype, order, wide=wide)
    return values.astype(np.float16) if datatype is Datatype.FP16 and not wide else values


def _store_narrow(acc: Any, datatype: Datatype, order: str, *, wide: bool = False) -> bytes:
    return _STORE(acc.astype(np.float32) if acc.dtype == np.float16 else acc, datatype, order, wide=wide)


@contextmanager
def _half_accumulator() -> Iterator[None]:
    def reduce_into(acc: Any, values: Any, operator: Operator) -> None:
        if acc.dtype == np.float16 and operator is Operator.SUM:
            acc += values
        else:
            _REDUCE(acc, values, operator)

    with (
        mock.patch.object(cells.numerics, "load", _narrow),
        mock.patch.object(cells.numerics, "store", _store_narrow),
        mock.patch.object(cells.numerics, "reduce_into", reduce_into),
    ):
        yield


def _other_order(payload: Any, datatype: Datatype, order: str, *, wide: bool = False) -> Any:
    return _LOAD(payload, datatype, "little" if order == "big" else "big", wide=wide)


mutant("integers saturate", "EPIC-N-01", _on("i", _saturate))
mutant("integers compared as unsigned", "EPIC-N-01", _on("i", _unsigned))
mutant("NaN ignored by MAX and MIN", "EPIC-N-03", _on("f", _ignore_nan))
mutant("zeros of either sign are equal", "EPIC-N-03", _on("f", _zeros_equal))
mutant("FP16 accumulated in FP16", "EPIC-N-04", _half_accumulator)
mutant("payloads read in the other byte order", "EPIC-N-07", attribute(cells.numerics, "load", _other_order))


# ------------------------------------------------------------------------------------------ cells and modes

_ADD = cells.CellValue.add
_OUTPUT = cells.CellValue._output


def _last_descriptor(
    self: Any, child: int, edge: Any, imm: int, payload: Any, *, congested: bool = False
) -> None:
    _ADD(self, child, edge, imm, payload, congested=congested)
    if self.err:
        self._held = imm & 0xFFFFFF3F


def _null_is_zero_length(
    self: Any, child: int, edge: Any, imm: int, payload: Any, *, congested: bool = False
) -> None:
    if payload is None and not imm & ERR_BIT and self._length is not None:
        self.err = True
    _ADD(self, child, edge, imm, payload, congested=congested)


def _first_32(self: Any, entry: Any, counters: Any) -> None:
    _M3_INIT(self, entry, counters)
    self._full &= 0xFFFFFFFF


_M3_INIT = mode3.Mode3Group.__init__
_COUNT_IN = mode3.Mode3Group._count_in
_FINISH = mode3.Mode3Group._finish


def _partial_twice(self: Any, *args: Any) -> Output:
    output = _COUNT_IN(self, *args)
    if self._parent is not None:
        output.sends *= 2
    return output


def _acknowledges(self: Any, child: int, cell: int, slot: Any, packet: Any, *more: Any) -> Output:
    output = _COUNT_IN(self, child, cell, slot, packet, *more)
    output.sends.append(self._children[child].ack(cell, endpoint.ack_aeth(0)))
    return output


def _forgets(self: Any, cell: int, slot: Any, imm: int, payload: Any) -> Output:
    for other in self._slots:
        if other is not slot and other.done:
            other.result = None
    return _FINISH(self, cell, slot, imm, payload)


def _first_child_only(self: Any, cell: int, slot: Any, imm: int, payload: Any) -> Output:
    output = _FINISH(self, cell, slot, imm, payload)
    return Output(output.sends[:1])


def _reflect_all(self: Any, end: Any, packet: Any) -> Output:
    return Output([end.ack((packet.psn - end.edge.psn_tx) & 0xFFFFFF, packet.aeth)])


_PUBLISH = mode2.Mode2Group._publish


def _publish_once(self: Any, message: Any, now: float) -> Output:
    """Results reach the first child only."""
    output = _PUBLISH(self, message, now)
    first = self._children[0].end.edge.peer.ip
    return Output([s for s in output.sends if s[1].dst_ip == first], output.events)


mutant(
    "an ERR cell carries the last descriptor",
    "EPIC-D-05",
    attribute(cells.CellValue, "add", _last_descriptor),
)
mutant(
    "NULL taken as a payload of length 0",
    "EPIC-E-05",
    attribute(cells.CellValue, "add", _null_is_zero_length),
)
mutant("bitmap of 32 children", "EPIC-E-13", attribute(mode3.Mode3Group, "__init__", _first_32), (3,))
mutant("partial sent twice", "EPIC-M3-06", attribute(mode3.Mode3Group, "_count_in", _partial_twice))
mutant("Mode III engine acknowledges", "EPIC-M3-13", attribute(mode3.Mode3Group, "_count_in", _acknowledges))
mutant("a done slot forgets its result", "EPIC-M3-14", attribute(mode3.Mode3Group, "_finish", _forgets))
mutant(
    "result to the first child only (III)",
    "EPIC-M3-07",
    attribute(mode3.Mode3Group, "_finish", _first_child_only),
)
mutant(
    "acknowledgements reflected unasked", "EPIC-M3-16", attribute(mode3.Mode3Group, "_reflect", _reflect_all)
)
mutant(
    "result to the first child only (II)",
    "EPIC-M2-08",
    attribute(mode2.Mode2Group, "_publish", _publish_once),
)
