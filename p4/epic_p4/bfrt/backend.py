"""The driver: groups on a Tofino. Table and register names come from the program's own description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from epic_p4.bfrt import names
from epic_p4.bfrt.client import BfrtClient, BfrtError, Entry, KeyField, Value
from epic_p4.control.backend import BackendError
from epic_p4.control.entries import MulticastGroup, RegisterFill, Stage
from epic_p4.control.program import LAST_CHILDREN, LAST_EDGE
from epic_p4.runtime.match import Exact, Lpm, MatchValue, TableEntry, Ternary

# Node numbers: of an edge's own group the edge's number, and from these on.
_CHILDREN_NODES = 0x10000
_FLOOD_NODES = 0x20000


class BfrtBackend:
    """A Tofino behind BFRuntime. `pipe` is the one that the groups' ports are in: registers are per pipe."""

    def __init__(self, client: BfrtClient, *, pipe: int = 0) -> None:
        self._client = client
        self._pipe = pipe

    def write(self, stage: Stage) -> None:
        """Add entries and groups and set register cells. Raises BackendError."""
        for item in stage:
            if isinstance(item, MulticastGroup):
                self._add_group(item)
            elif isinstance(item, RegisterFill):
                self._fill(item)
            else:
                with self._explained(f"table {item.table}: add"):
                    table = self._client.table(names.table(item.table))
                    table.add(_keys(item.match), dict(item.params), item.action)

    def erase(self, stage: Stage) -> None:
        """Remove the entries and groups of a stage; one that is absent is no error. Raises BackendError."""
        for item in stage:
            if isinstance(item, MulticastGroup):
                self._delete_group(item.number, [node.number for node in _nodes(item)])
            elif isinstance(item, TableEntry):
                self._delete(names.table(item.table), _keys(item.match))

    def wipe(self, tables: Sequence[str], multicast: range) -> None:
        """Remove all entries of these tables and all multicast groups of these numbers. Raises BackendError."""
        for table in tables:
            with self._explained(f"table {table}: clear"):
                self._client.table(names.table(table)).clear()
        for entry in self._get(names.MULTICAST_GROUPS, None):
            number = entry.key[names.GROUP_ID]
            if number in multicast:
                nodes = entry.data[names.NODE_ID]
                assert isinstance(nodes, Sequence)
                self._delete_group(number, [int(node) for node in nodes])

    def counter(self, name: str, size: int) -> Sequence[int]:
        """The packet counts of a counter's cells, summed over the pipes. Raises BackendError."""
        keys = [[KeyField(names.COUNTER_INDEX, index)] for index in range(size)]
        values = [0] * size
        for entry in self._get(names.table(name), keys):
            values[entry.key[names.COUNTER_INDEX]] = _number(entry.data[names.COUNTER_PACKETS])
        return values

    def register(self, name: str, first: int, count: int, field: str = "") -> Sequence[int]:
        """Consecutive cells of a register, as this backend's pipe has them. Raises BackendError."""
        keys = [[KeyField(names.REGISTER_INDEX, index)] for index in range(first, first + count)]
        values = {}
        for entry in self._get(names.table(name), keys):
            pipes = entry.data[names.register_field(name, field)]
            if not isinstance(pipes, Sequence) or self._pipe >= len(pipes):
                where = f"switch {self._client.address}: register {name}"
                raise BackendError(f"{where}: {pipes!r}, expected a number for pipe {self._pipe}")
            values[entry.key[names.REGISTER_INDEX]] = _number(pipes[self._pipe])
        missing = [index for index in range(first, first + count) if index not in values]
        if missing:
            raise BackendError(
                f"switch {self._client.address}: register {name}: no cell {missing[0]} in the answer"
            )
        return [values[index] for index in range(first, first + count)]

    def _fill(self, item: RegisterFill) -> None:
        field = names.register_field(item.register)
        with self._explained(f"register {item.register}: set"):
            table = self._client.table(names.table(item.register))
            for index, value in enumerate(item.values, item.first):
                table.modify([KeyField(names.REGISTER_INDEX, index)], {field: value})

    def _add_group(self, group: MulticastGroup) -> None:
        made = _nodes(group)
        with self._explained(f"multicast group {group.number}: add"):
            nodes = self._client.table(names.MULTICAST_NODES)
            for node in made:
                data: dict[str, Value] = {
                    names.NODE_RID: node.rid,
                    names.NODE_LAGS: [],
                    names.NODE_PORTS: list(node.ports),
                }
                nodes.add([KeyField(names.NODE_ID, node.number)], data)
            count = len(made)
            self._client.table(names.MULTICAST_GROUPS).add(
                [KeyField(names.GROUP_ID, group.number)],
                {
                    names.NODE_ID: [node.number for node in made],
                    names.NODE_XID_VALID: [False] * count,
                    names.NODE_XID: [0] * count,
                },
            )

    def _delete_group(self, number: int, nodes: Sequence[int]) -> None:
        self._delete(names.MULTICAST_GROUPS, [KeyField(names.GROUP_ID, number)])
        for node in nodes:
            self._delete(names.MULTICAST_NODES, [KeyField(names.NODE_ID, node)])

    def _delete(self, table: str, key: Sequence[KeyField]) -> None:
        try:
            self._client.table(table).delete(key)
        except BfrtError as error:
            if not error.not_found:
                raise self._failed(f"table {table}: delete", error) from None

    def _get(self, table: str, keys: Sequence[Sequence[KeyField]] | None) -> list[Entry]:
        with self._explained(f"table {table}: read"):
            return list(self._client.table(table).get(keys))

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except BfrtError as error:
            raise self._failed(what, error) from None

    def _failed(self, what: str, error: BfrtError) -> BackendError:
        return BackendError(f"switch {self._client.address}: {what}: {' '.join(str(error).split())}")


@dataclass(frozen=True, slots=True)
class _Node:
    """Copies with one rid. The engine takes a node in one group only, so an edge has one for each group it is in."""

    number: int
    rid: int
    ports: tuple[int, ...]


def _nodes(group: MulticastGroup) -> list[_Node]:
    if group.number <= LAST_EDGE:
        return [_Node(rid, rid, (port,)) for port, rid in group.replicas]
    if group.number <= LAST_CHILDREN:
        return [_Node(_CHILDREN_NODES + rid, rid, (port,)) for port, rid in group.replicas]
    return [_Node(_FLOOD_NODES + group.number, 0, tuple(port for port, _ in group.replicas))]


def _keys(match: Mapping[str, MatchValue]) -> list[KeyField]:
    return [_key(name, value) for name, value in match.items()]


def _key(name: str, value: MatchValue) -> KeyField:
    match value:
        case Exact(number):
            return KeyField(name, number)
        case Lpm(number, prefix):
            return KeyField(name, number, prefix=prefix)
        case Ternary(number, mask):
            return KeyField(name, number, mask=mask)
    raise BackendError(f"key {name}: a range, expected a value, a prefix or a mask")


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise BackendError(f"value {value!r}, expected a whole number")
    return value
