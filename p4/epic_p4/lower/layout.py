"""Where fields lie in bytes, and the Python expressions that take them out and put them in.

A header is cut into groups of fields that start and end on a byte, a group into pieces that `struct` knows (1, 2, 4, 8
bytes). One `unpack_from` then reads a header, one `pack` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from epic_p4.lower.names import identifier
from epic_p4.types import BoolType, IntType, Type, underlying, width

_CODES = {8: "Q", 4: "I", 2: "H", 1: "B"}


def bits(type_: Type) -> int:
    """Size of a scalar in bits; error and enums without representation, which never leave the switch, count 32."""
    size = width(type_)
    return 32 if size is None else size


def to_signed(code: str, size: int) -> str:
    """The two's complement number whose `size` bits are `code`."""
    half = 1 << (size - 1)
    return f"(({code}) ^ {half:#x}) - {half:#x}"


def from_bits(code: str, type_: Type) -> str:
    """A value of `type_` from an unsigned number that fits it."""
    type_ = underlying(type_)
    if isinstance(type_, BoolType):
        return f"({code}) != 0"
    if isinstance(type_, IntType):
        return to_signed(code, type_.width)
    return code


def to_bits(code: str, type_: Type) -> str:
    """The unsigned number with the bits of a value."""
    type_ = underlying(type_)
    if isinstance(type_, IntType):
        return f"({code} & {(1 << type_.width) - 1:#x})"
    return code


@dataclass(slots=True)
class Group:
    """Fields (name, type) between two byte boundaries."""

    size: int = 0
    fields: list[tuple[str, Type]] = field(default_factory=list)

    def pieces(self) -> list[int]:
        """Sizes in bytes of what `struct` reads, the first one highest."""
        left, found = self.size // 8, []
        # The odd bytes come first, so that the long pieces are the low ones.
        for size in (1, 2, 4):
            if left & size:
                found.append(size)
                left -= size
        return found + [8] * (left // 8)


def groups(fields: Sequence[tuple[str, Type]]) -> list[Group]:
    """Fields cut at byte boundaries. The last group may end inside a byte."""
    made: list[Group] = []
    for name, type_ in fields:
        if not made or made[-1].size % 8 == 0:
            made.append(Group())
        made[-1].fields.append((name, type_))
        made[-1].size += bits(type_)
    return [group for group in made if group.size]


@dataclass(frozen=True, slots=True)
class Reader:
    """How a header is read: the format, the targets of the unpacked numbers, and the assignments that follow.

    Targets and assignments name the header `{h}`.
    """

    format: str
    size: int
    targets: tuple[str, ...]
    after: tuple[str, ...]


def reader(fields: Sequence[tuple[str, Type]]) -> Reader:
    """For whole bytes only."""
    letters, targets, after, total = ">", [], [], 0
    for number, group in enumerate(groups(fields)):
        pieces = group.pieces()
        letters += "".join(_CODES[size] for size in pieces)
        total += group.size // 8
        alone = len(group.fields) == 1
        if alone and len(pieces) == 1 and from_bits("x", group.fields[0][1]) == "x":
            targets.append("{h}." + identifier(group.fields[0][0]))
            continue
        names = [f"_g{number}" if len(pieces) == 1 else f"_g{number}_{part}" for part in range(len(pieces))]
        targets += names
        whole = _join(names, pieces)
        if len(pieces) > 1 and not alone:
            after.append(f"_g{number} = {whole}")
            whole = f"_g{number}"
        rest = group.size
        for name, type_ in group.fields:
            rest -= bits(type_)
            code = f"{whole} >> {rest}" if rest else whole
            if not alone:
                code = f"{code} & {(1 << bits(type_)) - 1:#x}" if rest + bits(type_) < group.size else code
            after.append("{h}." + f"{identifier(name)} = {from_bits(code, type_)}")
    return Reader(letters, total, tuple(targets), tuple(after))


def _join(names: Sequence[str], sizes: Sequence[int]) -> str:
    parts, shift = [], 0
    for name, size in zip(reversed(names), reversed(sizes), strict=True):
        parts.append(f"{name} << {shift}" if shift else name)
        shift += size * 8
    return " | ".join(reversed(parts))


def packed(values: Sequence[tuple[str, Type]]) -> tuple[str, list[str]]:
    """The `struct` format and the arguments of `pack` for (code of the value, type); whole bytes only."""
    letters, args = ">", []
    for group in groups(values):
        pieces = group.pieces()
        letters += "".join(_CODES[size] for size in pieces)
        code = joined_bits(group.fields)
        if len(pieces) == 1:
            args.append(code)
            continue
        rest = group.size
        for size in pieces:
            rest -= size * 8
            high = f"({code}) >> {rest}" if rest else code
            args.append(high if rest + size * 8 == group.size else f"({high}) & {(1 << size * 8) - 1:#x}")
    return letters, args


def joined_bits(values: Sequence[tuple[str, Type]]) -> str:
    """One number with the bits of all values, the first one highest."""
    shift, parts = 0, []
    for code, type_ in reversed(values):
        one = to_bits(code, type_)
        parts.append(f"({one}) << {shift}" if shift else f"{one}" if len(values) == 1 else f"({one})")
        shift += bits(type_)
    return " | ".join(reversed(parts)) or "0"
