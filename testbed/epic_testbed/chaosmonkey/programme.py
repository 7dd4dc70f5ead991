"""What the ranks of a job compute: step after step a collective that the seed chooses, every element checked.

A step follows from (seed, job, life, number) and the number of ranks alone: all ranks make the same call, and each
knows what the others put in.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from epic_host import Communicator
from epic_testbed import verify, worker
from epic_testbed.cases import PRIMITIVES, REDUCING, Case, Inputs

# What engines are asked for is INT32: the rest travels as fixed point, keys or limbs over it, on any path alike.
DATATYPES = ("int32", "int8", "int64", "fp32", "bf16")
_SIZES = (0, 8, 1000, 4096, 16384, 40000)
_BYTES_PER_ELEMENT = 8
# Levels of engines on the longest way through the fabric.
_LEVELS = 3


@dataclass(frozen=True, slots=True)
class Result:
    """Elements that were checked, and how many of them are wrong; `what` says in words what was computed."""

    elements: int
    wrong: int
    what: str


def case_of(seed: int, job: int, life: int, step: int, ranks: int) -> Case:
    """The collective of a step."""
    rng = random.Random(f"{seed}/{job}/{life}/{step}")
    primitive = rng.choice(PRIMITIVES)
    size = rng.choice(_SIZES) // _BYTES_PER_ELEMENT * _BYTES_PER_ELEMENT
    dtype = rng.choice(DATATYPES)
    op = rng.choice(("sum", "max", "min")) if primitive in REDUCING else "-"
    if op != "-" and dtype == "int64":
        # 64 bits are ordered in no 32-bit word.
        op = "sum"
    root = rng.randrange(ranks) if primitive in ("reduce", "broadcast") else None
    if primitive == "barrier":
        return Case(primitive, "-", "-", 0)
    return Case(primitive, op, dtype, size, root)


def run(comm: Communicator, seed: int, job: int, life: int, step: int) -> Result:
    """One step of this rank. Raises what the communicator raises."""
    ranks, rank = comm.world_size, comm.rank
    case = case_of(seed, job, life, step, ranks)
    inputs = Inputs(case, life, step, seed * 1000 + job, ranks)
    send, recv = worker.arrays(inputs, rank, in_place=step % 2 == 1)
    before = send.copy() if send is not None and recv is not None else None
    got = worker.call(comm, case, send, recv)
    path = verify.path_of(case, comm.params, False)
    wanted = verify.expected(inputs, rank, path, _LEVELS)
    wrong = 0
    if wanted is not None:
        wrong = wanted.values.size if got is None else wanted.judge(got).wrong
    elif got is not None:
        wrong = 1
    if before is not None and send is not None and send.tobytes() != before.tobytes():
        wrong += 1
    elements = 0 if wanted is None else wanted.values.size
    return Result(elements, wrong, f"{case.primitive} {case.op} {case.dtype} {case.bytes} B of {ranks} ranks")
