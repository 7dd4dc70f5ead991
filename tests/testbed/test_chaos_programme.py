"""The steps of the chaos test's ranks: every wrong element of every kind of step is seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from epic_models.reference.group import GroupParams
from epic_testbed import verify
from epic_testbed.cases import PRIMITIVES, REDUCING, Case, Inputs
from epic_testbed.chaosmonkey import programme

SEED, JOB, LIFE, RANKS = 5, 2, 1, 3
PARAMS = GroupParams(group=1, mode=3, world_size=RANKS)


class Oracle(SimpleNamespace):
    """A communicator of one rank that gives the right results, by NumPy; `spoil` changes each before it is returned."""

    def __init__(self, rank: int, step: int, spoil: Any = None) -> None:
        super().__init__(rank=rank, world_size=RANKS, params=PARAMS)
        self.case: Case = programme.case_of(SEED, JOB, LIFE, step, RANKS)
        inputs = Inputs(self.case, LIFE, step, SEED * 1000 + JOB, RANKS)
        wanted = verify.expected(inputs, rank, verify.path_of(self.case, PARAMS, False), 3)
        self.spoil = spoil
        self.result: Any = None
        if wanted is not None:
            dtype = inputs.of(0).dtype
            self.result = wanted.values.astype(dtype)

    def _give(self, send: Any, recv: Any = None) -> Any:
        if self.result is None:
            return None
        given = self.result.copy() if self.spoil is None else self.spoil(self.result.copy())
        target = send if recv is None else recv
        if target.size == given.size:
            target[...] = given
        return given

    def barrier(self) -> None:
        """Nothing."""

    def all_reduce(self, send: Any, op: str, recv: Any = None) -> Any:
        return self._give(send, recv)

    def reduce(self, send: Any, root: int, op: str, recv: Any = None) -> Any:
        return self._give(send, recv)

    def broadcast(self, send: Any, root: int) -> Any:
        return self._give(send)

    def reduce_scatter(self, send: Any, op: str, recv: Any = None) -> Any:
        return self._give(np.empty(0), recv)

    def all_gather(self, send: Any, recv: Any = None) -> Any:
        return self._give(send, recv)


def steps_with(primitive: str) -> list[int]:
    """Numbers of steps of a primitive, with elements where it has some."""
    found = []
    for step in range(2000):
        case = programme.case_of(SEED, JOB, LIFE, step, RANKS)
        if case.primitive == primitive and (primitive == "barrier" or case.count >= RANKS):
            found.append(step)
    return found[:12]


@pytest.mark.parametrize("primitive", PRIMITIVES)
def test_right_results_are_right(primitive: str) -> None:
    for step in steps_with(primitive):
        for rank in range(RANKS):
            result = programme.run(Oracle(rank, step), SEED, JOB, LIFE, step)
            assert result.wrong == 0, result


def _one_bit(array: Any) -> Any:
    # The highest bit of an element's exponent or of an integer's sign: no tolerance hides it.
    array.view(np.uint8)[array.itemsize - 1] ^= 0x40
    return array


@pytest.mark.parametrize("primitive", [p for p in PRIMITIVES if p != "barrier"])
@pytest.mark.parametrize(
    "spoil", [_one_bit, lambda array: array[:-1], lambda array: None], ids=["bit", "short", "none"]
)
def test_a_spoilt_result_is_seen(primitive: str, spoil: Any) -> None:
    seen = 0
    for step in steps_with(primitive):
        for rank in range(RANKS):
            comm = Oracle(rank, step)
            if comm.result is None or not comm.result.size:
                continue
            comm.spoil = spoil
            comm._give = lambda send, recv=None, comm=comm: comm.spoil(comm.result.copy())
            assert programme.run(comm, SEED, JOB, LIFE, step).wrong > 0
            seen += 1
    assert seen


def test_a_result_where_there_should_be_none_is_seen() -> None:
    step = steps_with("reduce")[0]
    comm = Oracle(0, step)
    root = comm.case.root
    assert root is not None
    comm = Oracle((root + 1) % RANKS, step)
    comm._give = lambda send, recv=None: np.zeros(1)
    assert programme.run(comm, SEED, JOB, LIFE, step).wrong == 1


def test_what_was_sent_has_to_stay_as_it_was() -> None:
    step = next(s for s in steps_with("all_reduce") if s % 2 == 0)
    comm = Oracle(0, step)
    give = comm._give

    def clobber(send: Any, recv: Any = None) -> Any:
        send.view(np.uint8)[0] ^= 1
        return give(send, recv)

    comm._give = clobber
    assert programme.run(comm, SEED, JOB, LIFE, step).wrong == 1


def test_all_kinds_of_steps_come() -> None:
    cases = [programme.case_of(SEED, JOB, LIFE, step, RANKS) for step in range(500)]
    assert {case.primitive for case in cases} == set(PRIMITIVES)
    assert {case.dtype for case in cases if case.dtype != "-"} == set(programme.DATATYPES)
    assert {case.op for case in cases if case.primitive in REDUCING} == {"sum", "max", "min"}
    assert {case.root for case in cases if case.root is not None} == set(range(RANKS))
