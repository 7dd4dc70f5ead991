"""Functions that generated code calls by name."""

from __future__ import annotations

from typing import Any, NoReturn

from epic_p4.runtime.errors import ExecutionError


def element(items: list[Any], index: int) -> Any:
    """An element of a header stack; beyond its end an invalid header that nobody else sees."""
    return items[index] if index < len(items) else type(items[0])()


def padded(value: int, size: int) -> bytes:
    """The `size` bits of `value` as bytes, with zeros behind a last byte that is not full."""
    return (value << (-size % 8)).to_bytes((size + 7) // 8, "big")


def stuck(name: str, pos: str) -> NoReturn:
    """A parser goes round and round."""
    raise ExecutionError(f"{pos}: parser {name} loops without taking a byte, expected an end")
