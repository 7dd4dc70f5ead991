"""What a run does: the list of collectives, from the options; and each rank's inputs and expected results.

Inputs follow from (seed, case, iteration, rank) alone, so every rank computes the inputs of all others and
checks its own results element by element, without a second channel. Every iteration has fresh data: a result
that is left over from the one before does not pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_models.reference import collectives, numerics
from epic_models.reference.group import GroupParams
from epic_spec.errors import ConfigError, ResourceError
from epic_spec.tables import DATATYPE_BYTES, Datatype, Operator

Array = NDArray[Any]

PRIMITIVES = ("all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "barrier")
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
OPERATORS = ("sum", "max", "min")

_ALIASES = {
    **{d.name.lower(): d for d in Datatype},
    "float16": Datatype.FP16,
    "float32": Datatype.FP32,
    "float64": Datatype.FP64,
    "bfloat16": Datatype.BF16,
}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
MAX_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Case:
    """One collective: names in lower case (`op` and `dtype` "-" where it has none), `bytes` of the whole
    array.

    The whole array is a rank's input of all_reduce, reduce, broadcast and reduce_scatter, and its result of
    all_gather. `root` is the destination of reduce and the source of broadcast, otherwise None.
    """

    primitive: str
    op: str
    dtype: str
    bytes: int
    root: int | None = None

    @property
    def datatype(self) -> Datatype:
        """The datatype. Barrier has none; ValueError."""
        return _ALIASES[self.dtype]

    @property
    def operator(self) -> Operator:
        """The operator; NONE where the case has none."""
        return Operator.NONE if self.op == "-" else Operator[self.op.upper()]

    @property
    def count(self) -> int:
        """Elements of the whole array."""
        return 0 if self.dtype == "-" else self.bytes // DATATYPE_BYTES[self.datatype.name]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def parse_list(text: str, known: Sequence[str], option: str) -> list[str]:
    """A comma-separated list of names, or `all`. Raises ConfigError naming the option."""
    if text == "all":
        return list(known)
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise ConfigError(f"{option} = {name!r}, expected all or some of {', '.join(known)}")
    return list(dict.fromkeys(names))


def parse_datatypes(text: str) -> list[str]:
    """A comma-separated list of datatypes (`int32`, `fp32` or `float32`, …), or `all`. Raises ConfigError."""
    return list(
        dict.fromkeys(_ALIASES[name].name.lower() for name in parse_list(text, list(_ALIASES), "dtype"))
    )


def parse_sizes(text: str) -> list[int]:
    """Comma-separated sizes in bytes with suffix K, M or G (powers of 1024). Raises ConfigError."""
    sizes: list[int] = []
    for word in text.split(","):
        match = re.fullmatch(r"([0-9]{1,12})([KMG]?)(?:i?B)?", word.strip(), re.IGNORECASE)
        size = int(match[1]) * _UNITS[match[2].upper()] if match else -1
        if not 0 <= size <= MAX_BYTES:
            raise ConfigError(
                f"size = {word.strip()!r}, expected bytes up to 1G, such as 0, 1000, 64K or 1M,4M"
            )
        sizes.append(size)
    return list(dict.fromkeys(sizes))


def build(
    primitives: Sequence[str], ops: Sequence[str], dtypes: Sequence[str], sizes: Sequence[int], ranks: int
) -> list[Case]:
    """The cases in the order they run. Sizes are rounded down to whole elements; roots go round the ranks."""
    cases: list[Case] = []
    for primitive in primitives:
        if primitive == "barrier":
            cases.append(Case(primitive, "-", "-", 0))
            continue
        for dtype in dtypes:
            for op in ops if primitive in REDUCING else ["-"]:
                for size in sizes:
                    whole = size - size % DATATYPE_BYTES[dtype.upper()]
                    root = len(cases) % ranks if primitive in ("reduce", "broadcast") else None
                    cases.append(Case(primitive, op, dtype, whole, root))
    return list(dict.fromkeys(cases))


def shard_bounds(count: int, ranks: int) -> list[int]:
    """Where the shards of reduce_scatter and all_gather begin, and the end: like `numpy.array_split`,
    the first `count mod ranks` shards have one element more.
    """
    small, extra = divmod(count, ranks)
    bounds = [0]
    for rank in range(ranks):
        bounds.append(bounds[-1] + small + (rank < extra))
    return bounds


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of all ranks to one iteration of one case."""

    case: Case
    index: int
    iteration: int
    seed: int
    ranks: int

    def of(self, rank: int, count: int | None = None) -> Array:
        """A rank's input: `count` elements (the whole array where None).

        Integers use the whole range, so that sums wrap. Floats have either sign and magnitudes over 2^16
        (those of 16 bits over 2^2, so that a contribution too many shows); they are numbers of the datatype,
        so that the reduction is the only rounding.
        """
        datatype = self.case.datatype
        count = self.case.count if count is None else count
        dtype = numerics.array_dtype(datatype)
        rng = np.random.default_rng([self.seed & 0xFFFFFFFF, self.index, self.iteration, rank])
        if datatype not in numerics.FLOATS:
            return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
        values = rng.standard_normal(count, dtype=np.float32)
        spread = 1 if datatype in numerics.HALVES else 8
        scale = rng.integers(-spread, spread, count, dtype=np.int8)
        with np.errstate(all="ignore"):
            return np.ldexp(values, scale).astype(dtype)

    def reduced(self) -> tuple[Array, Array]:
        """The reduction over all ranks and the sum of the magnitudes (for error bounds).

        Integers: in their own type, wrapping around, magnitudes empty. Floats: MAX and MIN in their own type,
        SUM in FP64 (extended precision where the platform has it, for FP64 inputs).
        """
        case = self.case
        total = self.of(0)
        if case.datatype not in numerics.FLOATS:
            for rank in range(1, self.ranks):
                _accumulate(case.op)(total, self.of(rank), out=total)
            return total, np.empty(0)
        wide = np.longdouble if case.datatype is Datatype.FP64 else np.float64
        total = total.astype(wide)
        magnitude = np.abs(total)
        for rank in range(1, self.ranks):
            values = self.of(rank).astype(wide)
            _accumulate(case.op)(total, values, out=total)
            magnitude += np.abs(values)
        return total, magnitude


def _accumulate(op: str) -> np.ufunc:
    return {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]


def algbw(case: Case, seconds: float) -> float:
    """Algorithm bandwidth in Gb/s, as nccl-tests has it:
    the whole array over the time of the slowest rank.
    """
    return case.bytes * 8 / seconds / 1e9 if seconds > 0 else 0.0


def every_pair(cases: Sequence[Case]) -> list[Case]:
    """The cases repeated so that every ordered pair of them, each with itself included, comes back to back.

    The de Bruijn sequence of order 2, made of Lyndon words (Fredricksen, Kessler, Maiorana 1978): n^2 cases,
    and the first again to close the circle.
    """
    order: list[Case] = []
    for i, first in enumerate(cases):
        order.append(first)
        for second in cases[i + 1 :]:
            order += [first, second]
    return order + order[:1]


def select(
    params: GroupParams,
    ranks: int,
    primitives: str,
    ops: str,
    dtypes: str,
    sizes: str,
    iterations: int,
    pairs: bool = False,
    reproducible: bool = False,
) -> list[Case]:
    """The cases that a run's options ask for. Raises ConfigError for options that cannot be.

    A reduction that neither the group's engines nor the hosts over INT32 can compute is refused.
    """
    if not 1 <= iterations <= 10_000:
        raise ConfigError(f"iterations = {iterations}, expected 1 to 10000")
    chosen = build(
        parse_list(primitives, PRIMITIVES, "collective"),
        parse_list(ops, OPERATORS, "op"),
        parse_datatypes(dtypes),
        parse_sizes(sizes),
        ranks,
    )
    for case in chosen:
        if case.primitive in REDUCING:
            _check_supported(case, params, reproducible)
    return every_pair(chosen) if pairs else chosen


def _check_supported(case: Case, params: GroupParams, reproducible: bool) -> None:
    try:
        collectives.arithmetic(case.operator, case.datatype, params, reproducible)
    except ResourceError as error:
        raise ConfigError(f"op = {case.op}, dtype = {case.dtype}, mode = {params.mode}: {error}") from None
