"""The SDE's client behind the interface of `client.py`. The only module that imports bfrt_grpc, and only when used."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import grpc

from epic_p4.bfrt.client import BfrtError, Entry, KeyField, Value
from epic_spec.errors import ConfigError

DEFAULT_ADDRESS = "localhost:50052"
_ALL_PIPES = 0xFFFF
_NOT_FOUND = grpc.StatusCode.NOT_FOUND.value[0]
_ALREADY_EXISTS = grpc.StatusCode.ALREADY_EXISTS.value[0]


def connect(
    program: str, address: str = DEFAULT_ADDRESS, *, device: int = 0, client_id: int = 0
) -> SdeClient:
    """Bind to a program that runs on a switch.

    Raises ConfigError when the SDE's client is not there, BfrtError when the switch is not.
    """
    try:
        library = importlib.import_module("bfrt_grpc.client")
    except ImportError as error:
        raise ConfigError(
            f"bfrt_grpc: cannot be imported ({error}); it comes with the Tofino SDE, "
            "expected its folder (…/lib/python3.x/site-packages/tofino) on PYTHONPATH"
        ) from None
    with _errors(library):
        interface = library.ClientInterface(address, client_id=client_id, device_id=device, num_tries=3)
        interface.bind_pipeline_config(program)
        info = interface.bfrt_info_get(program)
    return SdeClient(library, interface, info, address, program, device)


class SdeClient:
    """A connection through bfrt_grpc."""

    def __init__(
        self, library: Any, interface: Any, info: Any, address: str, program: str, device: int
    ) -> None:
        self._library = library
        self._interface = interface
        self._info = info
        self._target = library.Target(device_id=device, pipe_id=_ALL_PIPES)
        self._tables: dict[str, SdeTable] = {}
        self.address = address
        self.program = program

    def table(self, name: str) -> SdeTable:
        """A table by name. Raises BfrtError when the program has none."""
        if name not in self._tables:
            try:
                table = self._info.table_get(name)
            except Exception as error:  # the SDE raises a bare KeyError or a class of its own, by version
                raise BfrtError(f"table {name}: not in the program ({error})") from None
            self._tables[name] = SdeTable(self._library, table, self._target)
        return self._tables[name]

    def close(self) -> None:
        """Leave the switch."""
        self._interface.tear_down_stream()


class SdeTable:
    """One table through bfrt_grpc."""

    def __init__(self, library: Any, table: Any, target: Any) -> None:
        self._library = library
        self._table = table
        self._target = target

    def add(self, key: Sequence[KeyField], data: Mapping[str, Value], action: str = "") -> None:
        """Add an entry."""
        with _errors(self._library):
            self._table.entry_add(self._target, [self._key(key)], [self._data(data, action)])

    def modify(self, key: Sequence[KeyField], data: Mapping[str, Value], action: str = "") -> None:
        """Change an entry."""
        with _errors(self._library):
            self._table.entry_mod(self._target, [self._key(key)], [self._data(data, action)])

    def delete(self, key: Sequence[KeyField]) -> None:
        """Remove an entry."""
        with _errors(self._library):
            self._table.entry_del(self._target, [self._key(key)])

    def clear(self) -> None:
        """Remove all entries."""
        with _errors(self._library):
            self._table.entry_del(self._target, None)

    def get(self, keys: Sequence[Sequence[KeyField]] | None = None) -> Iterable[Entry]:
        """Entries, read from the hardware."""
        wanted = None if keys is None else [self._key(key) for key in keys]
        with _errors(self._library):
            found = self._table.entry_get(self._target, wanted, {"from_hw": True})
            for data, key in found:
                fields = {name: value["value"] for name, value in key.to_dict().items()}
                yield Entry(fields, data.to_dict())

    def _key(self, fields: Sequence[KeyField]) -> Any:
        tuples = [
            self._library.KeyTuple(field.name, field.value, mask=field.mask, prefix_len=field.prefix)
            for field in fields
        ]
        return self._table.make_key(tuples)

    def _data(self, data: Mapping[str, Value], action: str) -> Any:
        tuples = [self._datum(name, value) for name, value in data.items()]
        return self._table.make_data(tuples, action) if action else self._table.make_data(tuples)

    def _datum(self, name: str, value: Value) -> Any:
        make = self._library.DataTuple
        if isinstance(value, bool):
            return make(name, bool_val=value)
        if isinstance(value, int):
            return make(name, value)
        if isinstance(value, str):
            return make(name, str_val=value)
        # An empty list says nothing of its kind: LAG ids are the only list that is ever empty, and are numbers.
        if value and isinstance(value[0], bool):
            return make(name, bool_arr_val=list(value))
        return make(name, int_arr_val=list(value))


@contextmanager
def _errors(library: Any) -> Iterator[None]:
    """Turn the SDE's exceptions into BfrtError, and say which reason it was."""
    batch = library.BfruntimeReadWriteRpcException
    try:
        yield
    except batch as error:
        codes = {detail.canonical_code for _, detail in error.sub_errors_get()}
        raise BfrtError(
            str(error), not_found=codes == {_NOT_FOUND}, exists=codes == {_ALREADY_EXISTS}
        ) from None
    except (library.BfruntimeRpcException, grpc.RpcError) as error:
        raise BfrtError(str(error)) from None
