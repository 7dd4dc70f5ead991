"""The one module that knows the SDE's client: its calls, checked against a stand-in for the library."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from epic_p4.bfrt.client import BfrtError, KeyField
from epic_p4.bfrt.sde import connect
from epic_spec.errors import ConfigError


class StandIn(ModuleType):
    """The names of bfrt_grpc.client that are used, with the arguments that the library takes."""

    class BfruntimeRpcException(Exception):
        """A call failed."""

    class BfruntimeReadWriteRpcException(BfruntimeRpcException):
        """Some parts of a call failed."""

        def __init__(self, code: int) -> None:
            super().__init__("a part failed")
            self.code = code

        def sub_errors_get(self) -> list[tuple[int, Any]]:
            """(index, error)."""
            return [(0, type("Error", (), {"canonical_code": self.code})())]

    def __init__(self) -> None:
        super().__init__("bfrt_grpc.client")
        self.calls: list[tuple[Any, ...]] = []
        self.failure: Exception | None = None
        self.KeyTuple = lambda name, value=None, mask=None, prefix_len=None: (name, value, mask, prefix_len)
        self.Target = lambda device_id=0, pipe_id=0xFFFF: (device_id, pipe_id)

    def DataTuple(  # noqa: N802
        self,
        name: str,
        val: object = None,
        str_val: object = None,
        int_arr_val: object = None,
        bool_arr_val: object = None,
        bool_val: object = None,
    ) -> tuple[str, str, object]:
        """A field, with which kind it was given as."""
        kinds = {
            "val": val,
            "str": str_val,
            "ints": int_arr_val,
            "bools": bool_arr_val,
            "bool": bool_val,
        }
        ((kind, value),) = [(k, v) for k, v in kinds.items() if v is not None]
        return name, kind, value

    def ClientInterface(  # noqa: N802
        self, grpc_addr: str, client_id: int, device_id: int, num_tries: int
    ) -> StandIn:
        """A connection."""
        self.calls.append(("connect", grpc_addr, client_id, device_id))
        if self.failure is not None:
            raise self.failure
        return self

    def bind_pipeline_config(self, name: str) -> None:
        """Bind."""
        self.calls.append(("bind", name))

    def bfrt_info_get(self, name: str) -> StandIn:
        """The program's tables."""
        return self

    def table_get(self, name: str) -> StandIn:
        """A table."""
        if name == "pipe.none":
            raise KeyError(name)
        return self

    def make_key(self, tuples: list[Any]) -> tuple[str, list[Any]]:
        """A key."""
        return "key", tuples

    def make_data(self, tuples: list[Any], action: str | None = None) -> tuple[str, list[Any], str | None]:
        """Data."""
        return "data", tuples, action

    def __getattr__(self, name: str) -> Any:
        if name not in ("entry_add", "entry_mod", "entry_del", "entry_get", "tear_down_stream"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            if self.failure is not None:
                raise self.failure
            form = type("Form", (), {"__init__": lambda s, v: setattr(s, "v", v), "to_dict": lambda s: s.v})
            return iter([(form({"x": 7, "action_name": "a"}), form({"$K": {"value": 3}}))])  # type: ignore[call-arg]

        return call


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """bfrt_grpc as if it were installed."""
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "bfrt_grpc", ModuleType("bfrt_grpc"))
    monkeypatch.setitem(sys.modules, "bfrt_grpc.client", stand_in)
    return stand_in


def test_without_the_sde_one_line_says_what_is_missing_and_where_it_comes_from() -> None:
    with pytest.raises(ConfigError, match=r"bfrt_grpc: cannot be imported .* the Tofino SDE.* on PYTHONPATH"):
        connect("epic")


def test_connecting_binds_to_the_program(library: StandIn) -> None:
    client = connect("epic", "192.0.2.1:50052", client_id=3)
    client.close()
    assert library.calls == [
        ("connect", "192.0.2.1:50052", 3, 0),
        ("bind", "epic"),
        ("tear_down_stream",),
    ]


def test_values_go_over_by_their_kind(library: StandIn) -> None:
    table = connect("epic").table("pipe.t")
    key = [KeyField("k", 1), KeyField("p", 2, prefix=8), KeyField("m", 4, mask=12)]
    table.add(key, {"n": 1, "s": "x", "b": True, "ns": [1, 2], "bs": [False], "none": []}, "act")
    assert library.calls[-1] == (
        "entry_add",
        (0, 0xFFFF),
        [("key", [("k", 1, None, None), ("p", 2, None, 8), ("m", 4, 12, None)])],
        [
            (
                "data",
                [
                    ("n", "val", 1),
                    ("s", "str", "x"),
                    ("b", "bool", True),
                    ("ns", "ints", [1, 2]),
                    ("bs", "bools", [False]),
                    ("none", "ints", []),
                ],
                "act",
            )
        ],
    )


def test_entries_are_read_from_the_hardware(library: StandIn) -> None:
    (entry,) = connect("epic").table("pipe.t").get([[KeyField("$K", 3)]])
    assert (entry.key, entry.data) == ({"$K": 3}, {"x": 7, "action_name": "a"})
    assert library.calls[-1][-1] == {"from_hw": True}


@pytest.mark.parametrize(
    ("code", "not_found", "exists"), [(5, True, False), (6, False, True), (8, False, False)]
)
def test_the_reason_of_a_failure_is_kept(library: StandIn, code: int, not_found: bool, exists: bool) -> None:
    table = connect("epic").table("pipe.t")
    library.failure = StandIn.BfruntimeReadWriteRpcException(code)
    for call in (
        table.clear,
        lambda: table.delete([]),
        lambda: table.modify([], {}),
        lambda: list(table.get()),
    ):
        with pytest.raises(BfrtError) as error:
            call()
        assert (error.value.not_found, error.value.exists) == (not_found, exists)


def test_an_unknown_table_and_a_dead_switch_are_errors_of_the_driver(library: StandIn) -> None:
    client = connect("epic")
    with pytest.raises(BfrtError, match=r"table pipe\.none: not in the program"):
        client.table("pipe.none")
    library.failure = StandIn.BfruntimeRpcException("no connection")
    with pytest.raises(BfrtError, match="no connection"):
        connect("epic")
