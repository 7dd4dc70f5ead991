"""TLA+ values as TLC prints them, as Python values, and back.

Numbers, booleans and strings are int, bool and str; sets are frozenset, sequences tuple, records and other
functions `Fun`, model values `ModelValue`. All are hashable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

from epic_spec.errors import ConfigError

Value = Union[int, bool, str, "ModelValue", frozenset["Value"], tuple["Value", ...], "Fun"]


@dataclass(frozen=True, slots=True)
class ModelValue:
    """A value that is equal to itself only."""

    name: str

    def __str__(self) -> str:
        return self.name


class Fun(Mapping["Value", "Value"]):
    """A function or record; TLA+ does not tell a record from a function on strings."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[Any, Value]) -> None:
        self._items: dict[Value, Value] = dict(items)

    def __getitem__(self, key: Value) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[Value]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"Fun({self._items!r})"

    @property
    def is_record(self) -> bool:
        """Whether every argument is a string that can be a field name."""
        return bool(self._items) and all(isinstance(k, str) and _FIELD.fullmatch(k) for k in self._items)


_FIELD = re.compile(r"\w*[A-Za-z]\w*")
_TOKEN = re.compile(
    r"""\s*(?: (?P<string>"(?:[^"\\]|\\.)*") | (?P<number>-?\d+(?![A-Za-z_0-9])) | (?P<word>\w+)
        | (?P<sign><<|>>|\|->|:>|@@|\.\.|[\[\]{}(),]) )""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def parse(text: str) -> Value:
    """The value that `text` denotes. Raises ConfigError naming what cannot be read."""
    tokens = _tokens(text)
    parser = _Parser(tokens)
    value = parser.value()
    if parser.position != len(tokens):
        raise ConfigError(f"TLA+ value: {tokens[parser.position][1]!r} follows it, expected nothing more")
    return value


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ConfigError(f"TLA+ value: {text[position : position + 20]!r}, expected a value")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self.position = 0

    def _peek(self) -> str:
        return self._tokens[self.position][1] if self.position < len(self._tokens) else ""

    def _take(self, expected: str = "") -> tuple[str, str]:
        if self.position >= len(self._tokens):
            raise ConfigError(f"TLA+ value: it ends early, expected {expected or 'a value'!r}")
        kind, text = self._tokens[self.position]
        if expected and text != expected:
            raise ConfigError(f"TLA+ value: {text!r}, expected {expected!r}")
        self.position += 1
        return kind, text

    def value(self) -> Value:
        kind, text = self._take()
        if kind == "string":
            return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1])
        if kind == "number":
            return self._number(int(text))
        if kind == "word":
            return {"TRUE": True, "FALSE": False}.get(text, ModelValue(text))
        if text == "<<":
            return tuple(self._list(">>"))
        if text == "{":
            return frozenset(self._list("}"))
        if text == "[":
            return self._record()
        if text == "(":
            return self._function()
        raise ConfigError(f"TLA+ value: {text!r}, expected a value")

    def _number(self, low: int) -> Value:
        """A number, or an interval, which is the set of its numbers."""
        if self._peek() != "..":
            return low
        self._take("..")
        kind, high = self._take()
        if kind != "number":
            raise ConfigError(f"TLA+ value: {high!r}, expected a number behind ..")
        return frozenset(range(low, int(high) + 1))

    def _list(self, closing: str) -> Iterator[Value]:
        if self._peek() != closing:
            yield self.value()
            while self._peek() == ",":
                self._take(",")
                yield self.value()
        self._take(closing)

    def _record(self) -> Fun:
        items: dict[Value, Value] = {}
        while self._peek() != "]":
            if items:
                self._take(",")
            _, name = self._take()
            self._take("|->")
            items[name] = self.value()
        self._take("]")
        return Fun(items)

    def _function(self) -> Value:
        """`(a :> x @@ b :> y)`, or a value in parentheses."""
        first = self.value()
        if self._peek() != ":>":
            self._take(")")
            return first
        self._take(":>")
        items = {first: self.value()}
        while self._peek() == "@@":
            self._take("@@")
            key = self.value()
            self._take(":>")
            # The left of two mappings of one argument counts, as in the definition of @@.
            items.setdefault(key, self.value())
        self._take(")")
        return Fun(items)


def show(value: Value) -> str:
    """The value in TLA+, in an order that does not change from run to run."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    if isinstance(value, ModelValue):
        return value.name
    if isinstance(value, tuple):
        return f"<<{', '.join(map(show, value))}>>"
    if isinstance(value, frozenset):
        return f"{{{', '.join(map(show, ordered(value)))}}}"
    if not value:
        return "<<>>"  # the empty function
    if value.is_record:
        return f"[{', '.join(f'{k} |-> {show(value[k])}' for k in ordered(value))}]"
    return f"({' @@ '.join(f'{show(k)} :> {show(value[k])}' for k in ordered(value))})"


def ordered(values: Mapping[Value, Value] | frozenset[Value]) -> list[Value]:
    """Elements or arguments in a fixed order: numbers by size, the rest by how they are written."""
    return sorted(values, key=lambda v: (not isinstance(v, int), v if isinstance(v, int) else 0, show(v)))
