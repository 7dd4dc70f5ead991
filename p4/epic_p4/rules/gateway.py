"""The condition of an `if` as the rows a gateway matches.

A gateway sees up to four bytes of fields, compared bit by bit with constants or with each other, and twelve bits
from the hash, which is also where comparisons by order are made (bf-p4c/mau/gateway.cpp, specs/device.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass

from epic_p4 import ast
from epic_p4.errors import Pos
from epic_p4.rules.effects import reads
from epic_p4.rules.fields import NO_FIELDS, VALID, Fields, Scope, resolve, union
from epic_p4.rules.text import start
from epic_p4.types import BoolType, underlying

MAX_ROWS = 64
_ORDER = ("<", ">", "<=", ">=")


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison. `order` says by order rather than equality; `flaw` says why no gateway can do it.

    `fields` are compared with constants; `against` are those that are compared with other fields, byte by byte: the
    other ones come in on a bus of their own and need no room.
    """

    pos: Pos
    fields: Fields
    against: Fields = NO_FIELDS
    order: bool = False
    flaw: str = ""


Row = tuple[Term, ...]
"""Terms that must all hold."""


def rows(condition: ast.Expression, scope: Scope, wanted: bool = True) -> list[Row]:
    """The disjunctive normal form of a condition (of its negation when not `wanted`), cut at MAX_ROWS rows."""
    match condition:
        case _ if isinstance(condition.const, bool):
            return [()] if condition.const is wanted else []
        case ast.Unary(op="!"):
            return rows(condition.operand, scope, not wanted)
        case ast.Cast() if isinstance(underlying(condition.operand.type), BoolType):
            return rows(condition.operand, scope, wanted)
        case ast.Binary(op="&&" | "||" as op):
            left = rows(condition.left, scope, wanted)
            right = rows(condition.right, scope, wanted)
            if (op == "&&") is wanted:
                return [a + b for a in left for b in right][:MAX_ROWS]
            return (left + right)[:MAX_ROWS]
        case _:
            return [(_term(condition, scope),)]


def _term(condition: ast.Expression, scope: Scope) -> Term:
    fields = reads(condition, scope)
    if isinstance(condition, ast.Binary):
        order = condition.op in _ORDER
        operands = (condition.left, condition.right)
        constants = [one.const for one in operands if one.const is not None]
        if order and len(constants) == 1 and _is_equality(condition):
            order = False
        masked = [_masked(one, scope) for one in operands]
        if any(one is None for one in masked):
            return Term(start(condition), fields, order=order, flaw="computes an operand")
        if order and not constants:
            return Term(start(condition), fields, order=order, flaw="compares two fields by order")
        left, right = (one or NO_FIELDS for one in masked)
        if left and right:
            return Term(start(condition), NO_FIELDS, max(left, right, key=lambda one: one.bits))
        return Term(start(condition), left | right, order=order)
    if isinstance(condition, ast.Call) and condition.kind is not ast.CallKind.HEADER:
        if condition.kind is ast.CallKind.TABLE_APPLY:
            return Term(start(condition), Fields())
        return Term(start(condition), fields, flaw="calls something")
    return Term(start(condition), fields)


def _is_equality(condition: ast.Binary) -> bool:
    """`x > 0`, `x >= 1`, `x < 1`, `x <= 0` of unsigned values ask only whether x is 0."""
    left, right, op = condition.left.const, condition.right.const, condition.op
    if left is not None:
        op = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}[op]
        right = left
    return (op, right) in ((">", 0), ("<=", 0), (">=", 1), ("<", 1))


def _masked(operand: ast.Expression, scope: Scope) -> Fields | None:
    """The bits of an operand that is a constant, a place, or one under a constant mask; None if it is computed."""
    if operand.const is not None:
        return Fields()
    place = resolve(operand, scope)
    if place is not None:
        return place.fields()
    if isinstance(operand, ast.Cast):
        return _masked(operand.operand, scope)
    if isinstance(operand, ast.Binary) and operand.op == "&":
        for one, other in ((operand.left, operand.right), (operand.right, operand.left)):
            place = resolve(one, scope)
            if place is not None and isinstance(other.const, int) and place.bits is None:
                leaves = place.fields().masks
                if len(leaves) == 1:
                    return Fields({leaf: mask & other.const for leaf, mask in leaves.items()})
    if isinstance(operand, ast.Binary) and operand.op == "++":
        left, right = _masked(operand.left, scope), _masked(operand.right, scope)
        return None if left is None or right is None else left | right
    if isinstance(operand, ast.Call) and operand.kind is ast.CallKind.HEADER:
        return reads(operand, scope)
    return None


@dataclass(frozen=True, slots=True)
class Need:
    """What a row asks: bytes of the search bus and bits of the hash; `order_bits` are those compared by order."""

    bytes: int
    hash_bits: int
    order_bits: int


def need(row: Row, max_bytes: int, max_hash_bits: int) -> Need:
    """Fill the bytes first, with fields compared to each other and then with the fullest bytes of the others; what is
    left goes to the hash. Validity bits lie together, eight in a byte (an estimate: the compiler places them)."""
    ordered = union(term.fields for term in row if term.order)
    against = union(term.against for term in row)
    equal = union(term.fields for term in row if not term.order).masks
    order_bits = sum(mask.bit_length() for mask in ordered.masks.values())
    pieces = [
        count
        for leaf, mask in equal.items()
        if not leaf.endswith(VALID)
        for byte in range(0, mask.bit_length(), 8)
        if (count := (mask >> byte & 0xFF).bit_count())
    ]
    valid = sum(1 for leaf in equal if leaf.endswith(VALID))
    pieces += [min(8, valid - first) for first in range(0, valid, 8)]
    pieces.sort(reverse=True)
    used = len(against.bytes())
    room = max(0, max_bytes - used)
    bits = order_bits + sum(pieces[room:])
    # What is over in the hash is told as bytes that are missing.
    over = pieces[room:] if bits > max_hash_bits and order_bits <= max_hash_bits else []
    return Need(used + len(pieces[:room]) + len(over), order_bits if over else bits, order_bits)
