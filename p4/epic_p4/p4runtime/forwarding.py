"""The forwarding state of one switch as P4Runtime entities: what Write and Read do once a pipeline is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from finsy.proto import p4r

from epic_p4.control.schema import Schema
from epic_p4.p4runtime.extern_state import ExternState
from epic_p4.p4runtime.replication import ReplicationState
from epic_p4.p4runtime.status import BatchRefusal, Code, Refusal, refusals
from epic_p4.p4runtime.table_state import TableState, Undo
from epic_p4.switch import P4Switch

# Entities that a P4 program of this project has no use for; each is refused by its name.
_UNSUPPORTED = {
    "extern_entry": "extern entries",
    "action_profile_member": "action profiles",
    "action_profile_group": "action profiles",
    "meter_entry": "meters",
    "direct_meter_entry": "meters",
    "value_set_entry": "parser value sets",
    "digest_entry": "digests",
}
_KINDS = (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE)


class Forwarding:
    """A switch and the schema of its program."""

    def __init__(self, switch: P4Switch, schema: Schema) -> None:
        self.switch = switch
        self._tables = TableState(switch, schema)
        self._externs = ExternState(switch, schema)
        self._replication = ReplicationState(switch)

    def write(self, updates: Sequence[p4r.Update], atomicity: int) -> None:
        """Do the updates in order. Raises BatchRefusal when some are refused.

        CONTINUE_ON_ERROR does the others all the same; the other two undo them and do nothing. All are atomic for
        packets, for no packet is processed between the updates of a call.
        """
        if atomicity not in p4r.WriteRequest.Atomicity.values():
            raise Refusal(Code.INVALID_ARGUMENT, f"atomicity {atomicity}: unknown, expected 0 to 2")
        all_or_none = atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR
        results: list[Refusal | None] = []
        undo: list[Undo] = []
        for update in updates:
            try:
                undo.append(self._update(update))
                results.append(None)
            except Refusal as refusal:
                results.append(refusal)
                if all_or_none:
                    break
        failed = [result for result in results if result is not None]
        if not failed:
            return
        if all_or_none:
            for step in reversed(undo):
                step()
            undone = Refusal(Code.ABORTED, "not done, for another update of the batch was refused")
            results = [failed[0] if i == len(results) - 1 else undone for i in range(len(updates))]
        raise BatchRefusal("write", results)

    def _update(self, update: p4r.Update) -> Undo:
        if update.type not in _KINDS:
            raise Refusal(
                Code.INVALID_ARGUMENT, f"update type {update.type}: expected INSERT, MODIFY or DELETE"
            )
        entity = update.entity
        write: dict[str, Callable[[], Undo]] = {
            "table_entry": lambda: self._tables.write(update.type, entity.table_entry),
            "direct_counter_entry": lambda: self._tables.write_counter(
                update.type, entity.direct_counter_entry
            ),
            "counter_entry": lambda: self._externs.write_counter(update.type, entity.counter_entry),
            "register_entry": lambda: self._externs.write_register(update.type, entity.register_entry),
            "packet_replication_engine_entry": lambda: self._replication.write(
                update.type, entity.packet_replication_engine_entry
            ),
        }
        with refusals():
            return write[_supported(entity)]()

    def read(self, entities: Sequence[p4r.Entity]) -> Iterator[p4r.Entity]:
        """What each query asks for; at the end BatchRefusal when some were refused."""
        results: list[Refusal | None] = []
        for query in entities:
            try:
                with refusals():
                    yield from self._read(query)
                results.append(None)
            except Refusal as refusal:
                results.append(refusal)
        if any(results):
            raise BatchRefusal("read", results)

    def _read(self, query: p4r.Entity) -> Iterator[p4r.Entity]:
        kind = _supported(query)
        if kind == "table_entry":
            for entry in self._tables.read(query.table_entry):
                yield p4r.Entity(table_entry=entry)
        elif kind == "direct_counter_entry":
            for direct in self._tables.read_counters(query.direct_counter_entry):
                yield p4r.Entity(direct_counter_entry=direct)
        elif kind == "counter_entry":
            for counter in self._externs.read_counter(query.counter_entry):
                yield p4r.Entity(counter_entry=counter)
        elif kind == "register_entry":
            for register in self._externs.read_register(query.register_entry):
                yield p4r.Entity(register_entry=register)
        else:
            for group in self._replication.read(query.packet_replication_engine_entry):
                yield p4r.Entity(packet_replication_engine_entry=group)


def _supported(entity: p4r.Entity) -> str:
    kind = entity.WhichOneof("entity")
    if kind is None:
        raise Refusal(Code.INVALID_ARGUMENT, "entity: it is empty, expected a kind of entity")
    if kind in _UNSUPPORTED:
        raise Refusal(Code.UNIMPLEMENTED, f"{kind}: {_UNSUPPORTED[kind]} are not supported")
    return kind
