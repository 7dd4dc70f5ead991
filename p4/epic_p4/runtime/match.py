"""Values of match keys and table entries as the control plane gives and gets them. All numbers are ints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Exact:
    """The key has this value."""

    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    """The first `prefix` bits of the key are those of `value`; the other bits of `value` are 0."""

    value: int
    prefix: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """The key agrees with `value` where `mask` is 1; `value` is 0 where `mask` is 0."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    """low <= key <= high."""

    low: int
    high: int


MatchValue = Exact | Lpm | Ternary | Range


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry. Keys that are left out of `match` match anything (lpm, ternary and range keys only).

    `priority` is of P4Runtime: a larger number wins; 0 where no key is ternary or range. `const`: from the program's
    `const entries`.
    """

    table: str
    match: Mapping[str, MatchValue]
    action: str
    params: Mapping[str, int] = field(default_factory=dict)
    priority: int = 0
    const: bool = False
