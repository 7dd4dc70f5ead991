"""What is measured: one collective over a range of sizes, by the options of nccl-tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epic_spec.errors import ConfigError
from epic_spec.tables import DATATYPE_BYTES
from epic_testbed.cases import OPERATORS, PRIMITIVES, REDUCING, Case, parse_datatypes, parse_list, parse_sizes

ROOTED = ("reduce", "broadcast")
# Turns of a contender at a size, at most: what disturbs the machine for a while then disturbs all of them.
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Sweep:
    """The cases in order, and how each is measured."""

    cases: Sequence[Case]
    iterations: int
    warmup: int
    check: bool
    seed: int

    @property
    def rounds(self) -> list[int]:
        """Timed iterations of each round."""
        count = min(ROUNDS, self.iterations)
        each, more = divmod(self.iterations, count)
        return [each + (i < more) for i in range(count)]


def sizes(begin: str, end: str, factor: int, step: str | None) -> list[int]:
    """Sizes in bytes from `begin` to `end`: each `factor` times the one before, or `step` more.

    Raises ConfigError.
    """
    first, last = _size("-b", begin), _size("-e", end)
    if last < first:
        raise ConfigError(f"-e = {end}, expected at least -b = {begin}")
    if step is not None:
        by = _size("-i", step)
        if by < 1:
            raise ConfigError(f"-i = {step}, expected at least 1 byte")
        return list(range(first, last + 1, by))
    if factor < 2:
        raise ConfigError(f"-f = {factor}, expected 2 or more")
    if first < 1 < last:
        raise ConfigError(
            f"-b = {begin}, expected at least 1 byte, since sizes grow by the factor -f = {factor}"
        )
    found = [first]
    while found[-1] * factor <= last and found[-1]:
        found.append(found[-1] * factor)
    return found


def _size(option: str, text: str) -> int:
    found = parse_sizes(text)
    if len(found) != 1:
        raise ConfigError(f"{option} = {text}, expected one size")
    return found[0]


def cases(primitive: str, wanted: Sequence[int], op: str, dtype: str, root: int, ranks: int) -> list[Case]:
    """A case a size, rounded down to whole elements. Raises ConfigError."""
    if primitive not in PRIMITIVES:
        raise ConfigError(f"collective = {primitive!r}, expected one of {', '.join(PRIMITIVES)}")
    if primitive == "barrier":
        return [Case("barrier", "-", "-", 0)]
    (datatype, *more) = parse_datatypes(dtype)
    (operator, *others) = parse_list(op, OPERATORS, "op")
    if more or others:
        raise ConfigError(f"-d = {dtype}, -o = {op}, expected one datatype and one operator")
    if not 0 <= root < ranks:
        raise ConfigError(f"-r = {root}, expected a rank from 0 to {ranks - 1}")
    item = DATATYPE_BYTES[datatype.upper()]
    found = [
        Case(
            primitive,
            operator if primitive in REDUCING else "-",
            datatype,
            max(size - size % item, item),
            root if primitive in ROOTED else None,
        )
        for size in wanted
    ]
    return list(dict.fromkeys(found))


def bus_factor(primitive: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests define it (doc/PERFORMANCE.md there)."""
    if primitive == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if primitive in ("reduce_scatter", "all_gather"):
        return (ranks - 1) / ranks
    return 1.0
