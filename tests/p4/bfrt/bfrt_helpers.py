"""A BFRuntime switch that remembers, and refuses what the program's bf-rt description does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epic_p4.bfrt import names
from epic_p4.bfrt.client import BfrtError, Entry, KeyField, Value
from epic_p4.bfrt.description import describe, fixed_tables
from epic_p4.control.schema import Schema

PIPES = 2


@dataclass
class FakeTable:
    """One table: its description, its entries, and what was asked of it."""

    client: FakeSwitch
    form: dict[str, Any]
    entries: dict[tuple[tuple[str, int], ...], dict[str, object]] = field(default_factory=dict)

    def add(self, key: Sequence[KeyField], data: Mapping[str, Value], action: str = "") -> None:
        """Add an entry."""
        number = self._key(key)
        assert self.form["table_type"] not in ("Register", "Counter"), "cells can only be modified"
        self._check_data(data, action)
        if number in self.entries:
            raise BfrtError(f"{self.form['name']}: Already exists", exists=True)
        if self.form["size"] and len(self.entries) >= self.form["size"]:
            raise BfrtError(f"{self.form['name']}: Not enough space")
        self.client.check_nodes(self.form["name"], data)
        self.client.calls.append(("add", self.form["name"], number))
        self.entries[number] = {**data, "action_name": action}

    def modify(self, key: Sequence[KeyField], data: Mapping[str, Value], action: str = "") -> None:
        """Change an entry or a cell."""
        number = self._key(key)
        self._check_data(data, action)
        cells = self.form["table_type"] in ("Register", "Counter")
        if not cells and number not in self.entries:
            raise BfrtError(f"{self.form['name']}: Object not found", not_found=True)
        self.client.calls.append(("modify", self.form["name"], number))
        if self.form["table_type"] == "Register":
            self.entries.setdefault(number, {}).update({n: [v] * PIPES for n, v in data.items()})
        else:
            self.entries.setdefault(number, {}).update(data)

    def delete(self, key: Sequence[KeyField]) -> None:
        """Remove an entry."""
        number = self._key(key)
        if number not in self.entries:
            raise BfrtError(f"{self.form['name']}: Object not found", not_found=True)
        if self.form["name"] == names.MULTICAST_NODES and number[0][1] in self.client.used_nodes():
            raise BfrtError(f"node {number[0][1]}: in use")
        self.client.calls.append(("delete", self.form["name"], number))
        del self.entries[number]

    def clear(self) -> None:
        """Remove all entries."""
        self.client.calls.append(("clear", self.form["name"], ()))
        self.entries.clear()

    def get(self, keys: Sequence[Sequence[KeyField]] | None = None) -> Iterable[Entry]:
        """Entries with these keys, or all."""
        cells = self.form["table_type"] in ("Register", "Counter")
        wanted = list(self.entries) if keys is None else [self._key(key) for key in keys]
        for number in wanted:
            if number not in self.entries and not cells:
                raise BfrtError(f"{self.form['name']}: Object not found", not_found=True)
            zero: object = [0] * PIPES if self.form["table_type"] == "Register" else 0
            empty = {datum["singleton"]["name"]: zero for datum in self.form["data"]}
            yield Entry(dict(number), {**empty, **self.entries.get(number, {})})

    def _key(self, key: Sequence[KeyField]) -> tuple[tuple[str, int], ...]:
        forms = {form["name"]: form for form in self.form["key"]}
        for part in key:
            assert part.name in forms, f"{self.form['name']}: no key {part.name}"
            form = forms[part.name]
            assert 0 <= part.value < 1 << form["type"]["width"], f"{part.name} = {part.value} does not fit"
            assert (part.prefix is not None) == (form["match_type"] == "LPM")
            assert (part.mask is not None) == (form["match_type"] == "Ternary")
        exact = {name for name, form in forms.items() if form["match_type"] == "Exact"}
        assert exact <= {part.name for part in key}, f"{self.form['name']}: a key is missing"
        if self.form["table_type"] in ("Register", "Counter"):
            assert key[0].value < self.form["size"], f"{self.form['name']}: index {key[0].value}"
        return tuple((part.name, part.value) for part in key)

    def _check_data(self, data: Mapping[str, Value], action: str) -> None:
        if self.form["action_specs"]:
            actions = {spec["name"]: spec["data"] for spec in self.form["action_specs"]}
            assert action in actions, f"{self.form['name']}: no action {action}"
            forms = {form["name"]: form for form in actions[action]}
            assert forms.keys() == data.keys(), f"{action}: {sorted(data)}, expected {sorted(forms)}"
        else:
            assert not action
            forms = {d["singleton"]["name"]: d["singleton"] for d in self.form["data"]}
            writable = {d["singleton"]["name"] for d in self.form["data"] if not d["read_only"]}
            assert data.keys() <= writable, (
                f"{self.form['name']}: {sorted(data)}, expected {sorted(writable)}"
            )
        for name, value in data.items():
            many = value if isinstance(value, list | tuple) else [value]
            assert isinstance(value, list | tuple) == forms[name]["repeated"], f"{name}: a list or not"
            for one in many:
                _fits(name, one, forms[name]["type"])


def _fits(name: str, value: object, kind: Mapping[str, Any]) -> None:
    expected = {"bytes": int, "bool": bool, "string": str}[kind["type"]]
    assert type(value) is expected, f"{name} = {value!r}, expected {expected.__name__}"
    if kind["type"] == "bytes":
        assert isinstance(value, int)
        assert 0 <= value < 1 << kind["width"], f"{name} = {value} does not fit {kind['width']} bits"


class FakeSwitch:
    """A switch with a program's tables and the fixed ones."""

    def __init__(self, schema: Schema, program: str = "epic") -> None:
        self.address = "192.0.2.1:50052"
        self.program = program
        self.calls: list[tuple[str, str, tuple[tuple[str, int], ...]]] = []
        forms = [*describe(schema)["tables"], *fixed_tables()["tables"]]
        self.tables = {form["name"]: FakeTable(self, form) for form in forms}

    def table(self, name: str) -> FakeTable:
        """A table by name."""
        if name not in self.tables:
            raise BfrtError(f"table {name}: not in the program")
        return self.tables[name]

    def close(self) -> None:
        """Nothing to leave."""

    def used_nodes(self) -> set[int]:
        """Nodes that are in a group."""
        groups = self.tables[names.MULTICAST_GROUPS].entries.values()
        return {node for data in groups for node in data[names.NODE_ID]}  # type: ignore[attr-defined]

    def check_nodes(self, table: str, data: Mapping[str, Value]) -> None:
        """The engine takes a node that exists, and in one group only."""
        if table != names.MULTICAST_GROUPS:
            return
        there = {number[0][1] for number in self.tables[names.MULTICAST_NODES].entries}
        given = data[names.NODE_ID]
        assert isinstance(given, list)
        for node in given:
            if node not in there:
                raise BfrtError(f"node {node}: not there")
            if node in self.used_nodes():
                raise BfrtError(f"node {node}: in another group")

    def ports(self, group: int) -> set[tuple[int, int]]:
        """(port, rid) that a multicast group reaches."""
        nodes = self.tables[names.MULTICAST_NODES].entries
        data = self.tables[names.MULTICAST_GROUPS].entries[(names.GROUP_ID, group),]
        found = [nodes[(names.NODE_ID, node),] for node in data[names.NODE_ID]]  # type: ignore[attr-defined]
        return {(port, node[names.NODE_RID]) for node in found for port in node[names.NODE_PORTS]}  # type: ignore[attr-defined, misc]
