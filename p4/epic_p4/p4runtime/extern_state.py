"""Indexed counters and registers of one switch as P4Runtime entities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from finsy.proto import p4d, p4r

from epic_p4.control.schema import Counter, Register, Schema
from epic_p4.p4runtime.status import Code, Refusal
from epic_p4.p4runtime.table_state import Undo
from epic_p4.p4runtime.values import decode, encode
from epic_p4.switch import P4Switch


def _only_modify(kind: int, what: str) -> None:
    if kind != p4r.Update.MODIFY:
        raise Refusal(Code.INVALID_ARGUMENT, f"{what}: it can only be modified")


def _indices(asked: p4r.Index | None, size: int, what: str) -> Sequence[int]:
    """The index asked for, or all when none is."""
    if asked is None:
        return range(size)
    if asked.index < 0:
        raise Refusal(Code.INVALID_ARGUMENT, f"{what}: index {asked.index}, expected 0 to {size - 1}")
    if asked.index >= size:
        raise Refusal(Code.OUT_OF_RANGE, f"{what}: index {asked.index}, expected 0 to {size - 1}")
    return (asked.index,)


class ExternState:
    """Writes and reads the counters and registers of a switch."""

    def __init__(self, switch: P4Switch, schema: Schema) -> None:
        self._switch = switch
        self._schema = schema

    def write_counter(self, kind: int, entry: p4r.CounterEntry) -> Undo:
        """Set one cell of a counter, or all. Raises Refusal."""
        counter = self._schema.counter(entry.counter_id)
        what = f"counter {counter.name}"
        _only_modify(kind, what)
        indices = _indices(entry.index if entry.HasField("index") else None, counter.size, what)
        if not entry.HasField("data"):
            return lambda: None
        before = {i: self._switch.counter_read(counter.name, i) for i in indices}
        for index in indices:
            self._switch.counter_write(counter.name, index, entry.data.packet_count, entry.data.byte_count)

        def undo() -> None:
            for index, counts in before.items():
                self._switch.counter_write(counter.name, index, *counts)

        return undo

    def read_counter(self, query: p4r.CounterEntry) -> Iterator[p4r.CounterEntry]:
        """The cells that a query asks for. Raises Refusal."""
        counters = [self._schema.counter(query.counter_id)] if query.counter_id else self._schema.counters
        for counter in counters:
            asked = query.index if query.counter_id and query.HasField("index") else None
            for index in _indices(asked, counter.size, f"counter {counter.name}"):
                yield self._counter_cell(counter, index)

    def _counter_cell(self, counter: Counter, index: int) -> p4r.CounterEntry:
        packets, octets = self._switch.counter_read(counter.name, index)
        return p4r.CounterEntry(
            counter_id=counter.id,
            index=p4r.Index(index=index),
            data=p4r.CounterData(packet_count=packets, byte_count=octets),
        )

    def write_register(self, kind: int, entry: p4r.RegisterEntry) -> Undo:
        """Set one cell of a register, or all. Raises Refusal."""
        register = self._schema.register(entry.register_id)
        what = f"register {register.name}"
        _only_modify(kind, what)
        indices = _indices(entry.index if entry.HasField("index") else None, register.size, what)
        if not entry.HasField("data"):
            raise Refusal(Code.INVALID_ARGUMENT, f"{what}: data is missing")
        values = _values(entry.data, register)
        before = {i: self._cell(register, i) for i in indices}
        for index in indices:
            self._set(register, index, values)

        def undo() -> None:
            for index, old in before.items():
                self._set(register, index, old)

        return undo

    def read_register(self, query: p4r.RegisterEntry) -> Iterator[p4r.RegisterEntry]:
        """The cells that a query asks for. Raises Refusal."""
        registers = (
            [self._schema.register(query.register_id)] if query.register_id else self._schema.registers
        )
        for register in registers:
            asked = query.index if query.register_id and query.HasField("index") else None
            for index in _indices(asked, register.size, f"register {register.name}"):
                yield p4r.RegisterEntry(
                    register_id=register.id,
                    index=p4r.Index(index=index),
                    data=_data(self._cell(register, index), register),
                )

    def _cell(self, register: Register, index: int) -> dict[str, int]:
        names = [name for name, _ in register.members] or [""]
        return {name: self._switch.register_read(register.name, index, name) for name in names}

    def _set(self, register: Register, index: int, values: dict[str, int]) -> None:
        for name, value in values.items():
            self._switch.register_write(register.name, index, value, name)


def _values(data: p4d.P4Data, register: Register) -> dict[str, int]:
    """The values of a cell by member name, "" for a plain register."""
    what = f"register {register.name}"
    if not register.members:
        return {"": _bits(data, register.width, what)}
    if data.WhichOneof("data") != "struct" or len(data.struct.members) != len(register.members):
        raise Refusal(
            Code.INVALID_ARGUMENT, f"{what}: data is not a struct of {len(register.members)} members"
        )
    pairs = zip(register.members, data.struct.members, strict=True)
    return {name: _bits(member, width, f"{what}: {name}") for (name, width), member in pairs}


def _bits(data: p4d.P4Data, width: int, what: str) -> int:
    kind = data.WhichOneof("data")
    if kind != "bitstring":
        raise Refusal(Code.INVALID_ARGUMENT, f"{what}: data is {kind or 'unset'}, expected a bit<{width}>")
    return decode(data.bitstring, width, what)


def _data(values: dict[str, int], register: Register) -> p4d.P4Data:
    if not register.members:
        return p4d.P4Data(bitstring=encode(values[""]))
    members = [p4d.P4Data(bitstring=encode(values[name])) for name, _ in register.members]
    return p4d.P4Data(struct=p4d.P4StructLike(members=members))
