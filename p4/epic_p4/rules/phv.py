"""How much of the packet header vector a program takes: an estimate by size of container.

A field that is added to or subtracted from has a container of its own; all other fields are packed into bytes of any
container. Header fields that no unit reads or writes travel beside the stages, in tagalong containers or CLOTs.
Headers that no path holds together share containers: counted are the heaviest path through the parser and the one
through the stages that makes the most headers valid. Metadata is counted by the stages in which it is alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from epic_p4 import ast
from epic_p4.rules.effects import Effect, is_known
from epic_p4.rules.fields import VALID, Scope, leaves, resolve
from epic_p4.rules.flow import Unit
from epic_p4.rules.parse import Parser
from epic_p4.rules.pipeline import Half
from epic_p4.rules.target import Target
from epic_p4.types import Fielded, HeaderType, StackType, Type, underlying, width

_CARRIES = frozenset({"+", "-", "|+|", "|-|"})
_SIZES = (8, 16, 32)


@dataclass(slots=True)
class Usage:
    """One gress: `own` counts containers of fields that need their own, the rest is in bytes; bits of metadata in
    all and alive at once at most."""

    own: dict[int, int] = field(default_factory=lambda: dict.fromkeys(_SIZES, 0))
    header_bytes: int = 0
    beside_bytes: int = 0
    metadata_bits: int = 0
    metadata_peak: int = 0
    headers: int = 0

    @property
    def bytes(self) -> int:
        """All bytes of normal containers, metadata at its peak."""
        own = sum(size // 8 * count for size, count in self.own.items())
        return own + self.header_bytes + -(-self.metadata_peak // 8) + -(-self.headers // 8)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Both gresses against the chip. `lacking` says what is too much, empty when all fits."""

    bits: int
    available: int
    beside_bits: int
    beside_available: int
    lacking: str


def usage(half: Half, first: Mapping[Unit, int], last: Mapping[Unit, int]) -> Usage:
    """The estimate for one gress; `first` and `last` are the stages of its units."""
    used = Usage()
    touched: dict[str, int] = {}
    for unit in half.flow.units:
        for leaf, mask in (unit.inputs | unit.operands | unit.writes).masks.items():
            touched[leaf] = touched.get(leaf, 0) | mask
    carried = _carried(half)
    parser = Parser(half.parser, Scope(half.parser, half.places))
    parsed = parser.effects()
    header_leaves: set[str] = set()
    headers = _headers(half, parsed)
    for path, header in headers.items():
        used.headers += 1
        header_leaves.update(leaf for leaf, _ in leaves(path, header))
    weights = {path: width(header) or 0 for path, header in headers.items()}
    together = parser.heaviest(weights) | _made(half, weights)
    for path, header in headers.items():
        if path in together:
            _pack(used, path, header, touched, carried)
    metadata = {
        leaf: mask for leaf, mask in touched.items() if leaf not in header_leaves and VALID not in leaf
    }
    _metadata(used, half, metadata, carried, parsed, first, last)
    return used


def verdict(usages: list[Usage], chip: Target) -> Verdict:
    """Whether the containers are enough: those of a size for the fields that need it, the rest for the bytes."""
    available = sum(size * count for size, count in chip.containers.items())
    beside = 8 * sum(one.beside_bytes for one in usages)
    spilled = max(0, beside - chip.beside_bits)
    bits = 8 * sum(one.bytes for one in usages) + spilled
    lacking = ""
    for size, count in chip.adding.items():
        own = sum(one.own[size] for one in usages)
        if own > count:
            lacking = (
                f"{own} containers of {size} bits for fields that are added to, expected at most {count}"
            )
            break
    if not lacking and bits > available:
        lacking = f"{bits} bits of containers, expected at most {available}"
    return Verdict(bits, available, min(beside, chip.beside_bits), chip.beside_bits, lacking)


def _pack(used: Usage, path: str, header: Type, touched: Mapping[str, int], carried: set[str]) -> None:
    """Runs of neighbouring fields with the same fate share bytes."""
    run_bits, run_touched = 0, False

    def flush() -> None:
        nonlocal run_bits
        if run_touched:
            used.header_bytes += -(-run_bits // 8)
        else:
            used.beside_bytes += -(-run_bits // 8)
        run_bits = 0

    for leaf, mask in leaves(path, header):
        if leaf.endswith(VALID):
            continue
        bits = mask.bit_length()
        if leaf in carried and bits in _SIZES:
            flush()
            used.own[bits] += 1
            continue
        if (leaf in touched) is not run_touched and run_bits % 8 == 0:
            flush()
            run_touched = leaf in touched
        run_touched = run_touched or leaf in touched
        run_bits += bits
    flush()


def _metadata(
    used: Usage,
    half: Half,
    touched: Mapping[str, int],
    carried: set[str],
    parsed: list[Effect],
    first: Mapping[Unit, int],
    last: Mapping[Unit, int],
) -> None:
    """Bits of metadata, and the most that are alive in one stage. What the parser sets is alive from the start, what
    leaves with the packet (read by the deparser or the traffic manager) to the end."""
    end = max(last.values(), default=0)
    from_parser = {leaf for effect in parsed for leaf in effect.writes}
    to_deparser = _deparser_reads(half)
    born: dict[str, int] = {}
    dies: dict[str, int] = {}
    for unit in half.flow.units:
        if unit not in first:
            continue
        for leaf in unit.writes:
            born[leaf] = min(born.get(leaf, end), first[unit])
            dies[leaf] = max(dies.get(leaf, 0), last[unit])
        for leaf in unit.inputs | unit.operands:
            dies[leaf] = max(dies.get(leaf, 0), last[unit])
    alive = [0] * (end + 1)
    for leaf, mask in touched.items():
        bits = mask.bit_length()
        bits = bits if bits < 8 and leaf not in carried else 8 * -(-bits // 8)
        used.metadata_bits += bits
        start = 0 if leaf in from_parser else born.get(leaf, 0)
        stop = end if leaf in to_deparser or "intr_md" in leaf or "_md_for_" in leaf else dies.get(leaf, end)
        for stage in range(start, stop + 1):
            alive[stage] += bits
    used.metadata_peak = max(alive, default=0)


def _carried(half: Half) -> set[str]:
    """Leaves that an addition or subtraction reads or writes."""
    found: set[str] = set()
    for unit in half.flow.units:
        for option in unit.alternatives:
            for effect in option.effects:
                if any(
                    isinstance(node, ast.Binary) and node.op in _CARRIES and not is_known(node)
                    for node in ast.walk(effect.statement)
                ):
                    found.update(effect.writes)
                    found.update(effect.operands)
    return found


def _headers(half: Half, parsed: list[Effect]) -> dict[str, HeaderType]:
    """The headers that the parser extracts or a unit makes valid."""
    found: dict[str, HeaderType] = {}
    types = {
        path: header for place in half.places.values() for path, header in _below(place.path, place.type)
    }
    valid = {leaf for effect in parsed for leaf in effect.writes if leaf.endswith(VALID)}
    valid |= {leaf for unit in half.flow.units for leaf in unit.writes if leaf.endswith(VALID)}
    for leaf in sorted(valid):
        path = leaf.removesuffix(f".{VALID}")
        if path in types:
            found[path] = types[path]
    return found


def _made(half: Half, weights: Mapping[str, int]) -> frozenset[str]:
    """The headers that the path which makes the most of them makes valid."""

    def weight(paths: frozenset[str]) -> int:
        return sum(weights.get(path, 0) for path in paths)

    best: list[frozenset[str]] = [frozenset()] * len(half.flow.sites)
    for site in reversed(half.flow.sites):
        options = [
            frozenset(
                leaf.removesuffix(f".{VALID}")
                for effect in option.effects
                for leaf in effect.writes
                if leaf.endswith(VALID)
            )
            for option in site.unit.alternatives
        ]
        behind = max((best[after.number] for after, _ in site.next), key=weight, default=frozenset())
        best[site.number] = max(options, key=weight, default=frozenset()) | behind
    return max(best, key=weight, default=frozenset())


def _below(path: str, type_: Type) -> Iterator[tuple[str, HeaderType]]:
    type_ = underlying(type_)
    if isinstance(type_, HeaderType):
        yield path, type_
    elif isinstance(type_, Fielded):
        for one in type_.fields:
            yield from _below(f"{path}.{one.name}", one.type)
    elif isinstance(type_, StackType):
        for index in range(type_.size):
            yield from _below(f"{path}[{index}]", type_.element)


def _deparser_reads(half: Half) -> set[str]:
    decl = half.deparser.decl
    assert isinstance(decl, ast.ControlDecl)
    scope = Scope(half.deparser, half.places)
    found: set[str] = set()
    for node in ast.walk(decl.body):
        if isinstance(node, ast.Member | ast.Name) and isinstance(node, ast.Expression):
            place = resolve(node, scope)
            if place is not None and not isinstance(underlying(place.type), Fielded):
                found.update(place.fields())
    return found
