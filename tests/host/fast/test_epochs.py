"""Operations that go on by blocks, by cells, and by other cells again, wherever a change of path falls."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import numpy as np
import pytest

from epic_host.epoch_agent import EpochAgent
from epic_host.fast.agent import FastAgent
from epic_host.fast.outlet import Outlet
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Cell
from epic_spec.errors import EpicError, MismatchError
from host.fast.batches import SCALE
from host.fast.epoch_nets import Net, net
from models.worlds import ALL_TYPES, Collective

RUNS = 20 * SCALE
PATHS = ("fast", "fast", "mixed", "reference", "host")


def params(n: int, mode: int = 3, **changes: Any) -> GroupParams:
    values: dict[str, Any] = {
        "window": 4, "slots": 8, "payload_bytes": 64, "message_bytes": 64, "message_buffers": 4, "retry_limit": 100,
        "rto_initial_us": 1000, "rto_min_us": 200, "rto_max_us": 5000, "deadline_us": 100_000_000,
    }  # fmt: skip
    return GroupParams(group=1, mode=mode, world_size=n, **(values | changes))


def random_collective(rng: random.Random, native: bool) -> Collective:
    types = ALL_TYPES if native else ("INT32", "FP32", "INT8", "BF16")
    return Collective(
        rng.choice(
            ["all_reduce", "all_reduce", "reduce", "reduce_scatter", "broadcast", "all_gather", "barrier"]
        ),
        "SUM",
        rng.choice(types),
        count=rng.choice([1, 16, 17, 100, 300]),
        seed=rng.randrange(1000),
        in_place=rng.random() < 0.5,
    )


@pytest.mark.parametrize("mode", [2, 3])
def test_random_changes_of_path(mode: int) -> None:
    repeated = 0
    for seed in range(RUNS):
        rng = random.Random(f"{mode} {seed}")
        native = rng.random() < 0.5
        group = params(
            rng.randint(1, 4),
            mode,
            datatypes=ALL_TYPES if native else ("INT32",),
            byte_order=rng.choice(["big", "little"]),
        )
        with net(group, seed, rng.choice([0.0, 0.0, 0.05])) as here:
            here.change(rng.choice(PATHS))
            for _ in range(rng.randint(1, 5)):
                for _ in range(rng.randint(1, 3)):
                    here.call(random_collective(rng, native))
                here.steps(rng.choice([0, 3, 10, 40]))
                here.change(rng.choice(PATHS))
            try:
                here.settle()
            except BaseException:
                print(f"seed {seed}, mode {mode}")
                raise
            repeated += here.repeated
    assert repeated > 5 * RUNS, "changes fell where nothing was under way"


def in_the_middle_of_a_block(paths: tuple[str, ...] = ("fast", "host", "fast", "reference", "fast")) -> None:
    """A change every few steps in one long collective, whose arrays are written over as it goes."""
    with net(params(3), 1) as here:
        here.change(paths[0])
        here.call(Collective("all_reduce", count=1000, in_place=True))
        # As fixed point, and as INT32 in the order of floats, which lands elsewhere first.
        here.call(Collective("all_reduce", datatype="FP32", count=300, in_place=True))
        here.call(Collective("all_reduce", "MAX", datatype="FP32", count=300, in_place=True))
        here.call(Collective("all_gather", count=200, seed=1))
        for path in paths[1:] * 4:
            here.steps(9)
            here.change(path)
        here.settle()
        assert here.repeated > 20


def a_rank_is_behind() -> None:
    """Rank 0 has delivered what rank 1 lacks, and contributes that again from what its agent kept."""
    with net(params(2), 2) as here:
        here.change("fast")
        here.call(Collective("all_reduce", count=300, in_place=True))
        # Rank 1's results are lost, rank 0 takes its own.
        here.wires[1].waiting.clear()
        here.runtimes[0]._work()
        assert [runtime.epochs.delivered for runtime in here.runtimes] == [4, 0]
        here.change("fast")
        here.settle()
        assert sum(runtime.epochs.dropped for runtime in here.runtimes) == 4


def the_window_is_another() -> None:
    """What is repeated is more than the new epoch's window."""
    with net(params(2, window=8, slots=16), 3) as here:
        here.change("fast")
        here.call(Collective("all_reduce", count=400, in_place=True))
        here.steps(2)
        here.params = params(2, window=2)
        here.change("fast")
        here.steps(5)
        here.params = params(2)
        here.change("fast")
        here.settle()


def again_before_all_is_repeated() -> None:
    """The next change comes while some of what is to be repeated was not, and some was."""
    with net(params(2, window=8, slots=16), 4) as here:
        here.change("fast")
        here.call(Collective("all_reduce", count=400, in_place=True))
        here.steps(1)
        here.params = params(2, window=2)
        for path in ("fast", "fast", "host", "fast", "reference", "fast"):
            here.change(path)
            here.steps(1)
        here.settle()


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        in_the_middle_of_a_block, a_rank_is_behind, the_window_is_another, again_before_all_is_repeated,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    SCENARIOS[name]()


@pytest.mark.parametrize("path", ["fast", "host"])
def test_ranks_that_disagree_fail_alike_after_a_change(path: str) -> None:
    with net(params(2), 5) as here:
        here.change("fast")
        here.call(Collective("all_reduce", count=200))
        here.steps(6)
        more = [Collective("all_reduce", op, count=100, seed=1) for op in ("SUM", "MAX")]
        for rank, collective in enumerate(more):
            _start(here, rank, collective)
        here.change(path)
        for _ in range(5000):
            if all(handle.done() for handles in here.handles for handle in handles):
                break
            here.steps(1)
        for handles in here.handles:
            handles[0].wait(0)
            with pytest.raises(MismatchError, match="ranks disagree"):
                handles[1].wait(0)


def _start(here: Net, rank: int, collective: Collective) -> None:
    from epic_host.handle import Handle
    from models.worlds import Expectation

    operation = Expectation(collective, here.params, 1).operations[rank]
    here.handles[rank].append(Handle(operation.description, None))
    here.runtimes[rank].start(operation, here.handles[rank][-1])


def test_nothing_is_written_after_a_failure_of_a_rank_with_blocks_under_way() -> None:
    with net(params(1), 6) as here:
        here.change("fast")
        here.call(Collective("all_reduce", count=300))
        out = here.calls[0].outputs[0]
        assert out is not None
        here.runtimes[0].fail(EpicError("over"))
        before = out.copy()
        while here.wires[0].waiting:
            here.runtimes[0]._work()
        np.testing.assert_array_equal(out, before)
        with pytest.raises(EpicError, match="over"):
            here.handles[0][0].wait(0)


# ------------------------------------------------------------------------------------------ planted faults

_KEPT, _RETIRE = FastAgent.kept, EpochAgent._retire


def _keeps_nothing_delivered(self: FastAgent) -> list[Cell]:
    return _KEPT(self)[-self.outstanding :] if self.outstanding else []


def _forgets_the_rest(self: EpochAgent) -> None:
    """What was not repeated yet is not kept."""
    sent, self.contributed = self.contributed, self._sent
    _RETIRE(self)
    self.contributed = sent


def _keeps_results(self: FastAgent) -> list[Cell]:
    """As if contributions were read from the user's memory, where results are by now."""
    return [Cell(c.imm, None if c.payload is None else bytes(len(c.payload))) for c in _KEPT(self)]


def _does_not_count(self: Outlet, payload: bytes | None) -> None:
    self._operation.deliver(payload)


MUTANTS: dict[str, tuple[Any, str, Any, str]] = {
    "keeps nothing delivered": (FastAgent, "kept", _keeps_nothing_delivered, "a_rank_is_behind"),
    "keeps results": (FastAgent, "kept", _keeps_results, "in_the_middle_of_a_block"),
    "forgets the rest": (EpochAgent, "_retire", _forgets_the_rest, "again_before_all_is_repeated"),
    "repeats once": (EpochAgent, "repeat", lambda self, departures, now: 0, "a_rank_is_behind"),
    "landings are not counted": (Outlet, "deliver", _does_not_count, "in_the_middle_of_a_block"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_faults_are_seen(name: str) -> None:
    target, attribute, value, scenario = MUTANTS[name]
    with (
        mock.patch.object(target, attribute, value),
        pytest.raises((AssertionError, EpicError, LookupError, ValueError)),
    ):
        SCENARIOS[scenario]()
