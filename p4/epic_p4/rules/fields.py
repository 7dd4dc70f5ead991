"""Which bits an expression names: storage places, and sets of bits of fields.

A leaf is a field that has no fields of its own, by a path such as `hdr.ipv4.ttl`; a header's validity is the leaf
`….$valid`. A control that another one applies sees its caller's places under its own parameter names (`Scope`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from epic_p4 import ast
from epic_p4.types import (
    BoolType,
    EnumType,
    ErrorType,
    Fielded,
    HeaderType,
    StackType,
    Type,
    underlying,
    width,
)

VALID = "$valid"


class Fields:
    """An immutable set of bits: for each leaf a mask."""

    __slots__ = ("masks",)

    def __init__(self, masks: Mapping[str, int] | None = None) -> None:
        self.masks: Mapping[str, int] = dict(masks or {})

    def __or__(self, other: Fields) -> Fields:
        if not other.masks:
            return self
        if not self.masks:
            return other
        merged = dict(self.masks)
        for leaf, mask in other.masks.items():
            merged[leaf] = merged.get(leaf, 0) | mask
        return Fields(merged)

    def __and__(self, other: Fields) -> Fields:
        small, large = sorted((self.masks, other.masks), key=len)
        return Fields({leaf: both for leaf, mask in small.items() if (both := mask & large.get(leaf, 0))})

    def __bool__(self) -> bool:
        return bool(self.masks)

    def __iter__(self) -> Iterator[str]:
        return iter(self.masks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self.masks == other.masks

    def __hash__(self) -> int:
        return hash(frozenset(self.masks.items()))

    def __repr__(self) -> str:
        return f"Fields({', '.join(sorted(self.masks))})"

    @property
    def bits(self) -> int:
        """How many bits."""
        return sum(mask.bit_count() for mask in self.masks.values())

    def bytes(self) -> frozenset[str]:
        """The bytes that hold the bits, as the crossbar takes them: byte-aligned pieces of each leaf."""
        return frozenset(
            f"{leaf}/{byte}"
            for leaf, mask in self.masks.items()
            for byte in range((mask.bit_length() + 7) // 8)
            if mask >> 8 * byte & 0xFF
        )


NO_FIELDS = Fields()


def union(parts: Iterable[Fields]) -> Fields:
    """All bits of all parts."""
    merged: dict[str, int] = {}
    for part in parts:
        for leaf, mask in part.masks.items():
            merged[leaf] = merged.get(leaf, 0) | mask
    return Fields(merged)


@dataclass(frozen=True, slots=True)
class Place:
    """A variable or a part of one. `data` places are parameters that the control plane gives (action data)."""

    path: str
    type: Type
    data: bool = False
    bits: tuple[int, int] | None = None  # (high, low) of a slice

    def fields(self) -> Fields:
        """Its bits; action data is no field."""
        if self.data:
            return NO_FIELDS
        if self.bits is not None:
            high, low = self.bits
            return Fields({self.path: (1 << high + 1) - (1 << low)})
        return Fields(dict(leaves(self.path, self.type)))


@dataclass(slots=True)
class World:
    """What all scopes of a gress share: the scope of every control met so far (a RegisterAction reads with its
    declarer's names), and the objects declared at the top level."""

    scopes: dict[ast.Instance, Scope] = field(default_factory=dict)
    top: Mapping[ast.Node, ast.Instance] = field(default_factory=dict)


@dataclass(slots=True)
class Scope:
    """The instance whose code is read, and what its parameters and variables stand for."""

    instance: ast.Instance
    places: dict[ast.Node, Place] = field(default_factory=dict)
    world: World = field(default_factory=World, repr=False)

    def inner(self, places: Mapping[ast.Node, Place]) -> Scope:
        """The same with more names."""
        return Scope(self.instance, {**self.places, **places}, self.world)

    def of(self, instance: ast.Instance | None) -> Scope | None:
        """The scope of another control instance."""
        return self.world.scopes.get(instance) if instance is not None else None

    def find(self, decl: ast.Node) -> Place | None:
        """The place of a parameter or variable."""
        known = self.places.get(decl)
        if known is None and isinstance(decl, ast.VarDecl):
            known = Place(f"{self.instance.name}.{decl.name}", decl.type)
        return known

    def object(self, expression: ast.Expression) -> ast.Instance | None:
        """The extern or control instance that an expression names."""
        if isinstance(expression, ast.Name) and expression.decl is not None:
            found = self.instance.members.get(expression.decl) or self.world.top.get(expression.decl)
            if found is not None:
                return found
            if isinstance(expression.decl, ast.Param):
                given = self.instance.args.get(expression.decl.name)
                if isinstance(given, ast.Instance):
                    return given
        const = expression.const
        if isinstance(const, ast.Instance):
            return const
        owner = self.instance.owner
        return Scope(owner, world=self.world).object(expression) if owner is not None else None


def leaf_width(type_: Type) -> int:
    """Bits that a leaf takes in the packet header vector."""
    type_ = underlying(type_)
    known = width(type_)
    if known is not None:
        return known
    if isinstance(type_, EnumType):
        return max(1, (len(type_.members) - 1).bit_length())
    return 16 if isinstance(type_, ErrorType) else 1


def leaves(path: str, type_: Type) -> Iterator[tuple[str, int]]:
    """(leaf, mask of all its bits) of everything below a path."""
    type_ = underlying(type_)
    if isinstance(type_, Fielded):
        for one in type_.fields:
            yield from leaves(f"{path}.{one.name}", one.type)
        if isinstance(type_, HeaderType):
            yield f"{path}.{VALID}", 1
    elif isinstance(type_, StackType):
        for index in range(type_.size):
            yield from leaves(f"{path}[{index}]", type_.element)
    else:
        yield path, (1 << leaf_width(type_)) - 1


def resolve(expression: ast.Expression, scope: Scope) -> Place | None:
    """The place that an expression names, None when it computes something. Casts that keep or widen are seen
    through: the container is the same."""
    match expression:
        case ast.Name(decl=decl) if decl is not None:
            return scope.find(decl)
        case ast.Member(kind=ast.MemberKind.FIELD):
            base = resolve(expression.base, scope)
            return base and Place(f"{base.path}.{expression.name}", expression.type, base.data)
        case ast.Index():
            base = resolve(expression.base, scope)
            if base is None:
                return None
            index = expression.index.const
            # A variable index may be any element.
            if not isinstance(index, int):
                return base
            return Place(f"{base.path}[{index}]", expression.type, base.data)
        case ast.Slice():
            base = resolve(expression.base, scope)
            if base is None:
                return None
            offset = base.bits[1] if base.bits else 0
            return Place(
                base.path, expression.type, base.data, (expression.hi + offset, expression.lo + offset)
            )
        case ast.Cast():
            base = resolve(expression.operand, scope)
            kept, held = width(expression.type), width(expression.operand.type)
            if base is None or isinstance(underlying(expression.type), BoolType):
                return base
            if kept is not None and held is not None and kept < held:
                low = base.bits[1] if base.bits else 0
                return Place(base.path, expression.type, base.data, (kept - 1 + low, low))
            return base
        case _:
            return None
