"""The runner: every case on a reset device, and a report whatever the device does."""

from __future__ import annotations

import inspect
import itertools
import random
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_spec.errors import ConfigError
from epic_testbed.adapters.reference import ReferenceDut
from epic_testbed.conformance import guard, runner
from epic_testbed.conformance.bench import Bench, Failure
from epic_testbed.conformance.case import Unmet
from epic_testbed.conformance.deviations import Deviations
from epic_testbed.conformance.guard import GuardedAgentDut, GuardedDut, Limits, Overrun
from epic_testbed.conformance.results import Run, Status
from epic_testbed.conformance.runner import Runner
from epic_testbed.dut import AgentDut, Dut, DutError, DutTraits
from testbed import broken_duts as duts

# A run on a device that misbehaves is over long before this.
SOON = 15.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Short waits; and no test may take long."""
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0.2)
    started = time.monotonic()
    yield
    assert time.monotonic() - started < SOON


def statuses(run: Run) -> list[str]:
    return [r.status.value for r in run.results]


def reasons(run: Run) -> list[str]:
    return [r.reason for r in run.results]


# ------------------------------------------------------------------------------------------ devices that work


def test_a_case_that_finds_what_it_expects_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    run = duts.run(monkeypatch, [duts.make(duts.two_cells)])
    assert (statuses(run), reasons(run), run.ok) == (["pass"], [""], True)
    assert [c.id for c in run.clauses if c.status is Status.PASS] == [duts.CLAUSE]


def test_a_case_that_finds_something_else_fails_with_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    run = duts.run(monkeypatch, [duts.make(duts.wrong)])
    (result,) = run.results
    assert (result.status, run.ok) == (Status.FAIL, False)
    assert result.reason == "child 0: wrong cell 0"
    assert "(4)" in result.expected[0]
    assert "(3)" in result.arrived[0]
    assert [f.sent_by_device for f in result.frames] == [False, False, True]


def test_a_case_fails_when_the_device_says_more_than_was_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent_about_the_second_result(bench: Bench) -> None:
        duts.one_cell(bench)
        bench.contribute_all(1, [(1,), (2,)])

    run = duts.run(monkeypatch, [duts.make(silent_about_the_second_result)])
    assert reasons(run) == ["frames that must not be sent"]


def test_each_case_gets_a_device_without_the_groups_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = duts.run(monkeypatch, [duts.make(duts.two_cells, f"n{i}") for i in range(3)])
    assert statuses(run) == ["pass"] * 3


def test_seeds_differ_by_case_and_repeat_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[int]] = {}

    def keep(name: str) -> Callable[[Bench], None]:
        return lambda bench: seen.setdefault(name, []).append(bench.seed)

    cases = [duts.make(keep("a"), "a"), duts.make(keep("b"), "b")]
    duts.run(monkeypatch, cases, seed=5)
    duts.run(monkeypatch, cases[1:], seed=5)
    duts.run(monkeypatch, cases[1:], seed=6)
    (a,), (b, again, other) = seen["a"], seen["b"]
    assert a != b == again != other


# ------------------------------------------------------------------------------- what a device does not offer


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (("datatypes", "FP64"), "datatypes = INT32, FP32, the case needs FP64"),
        (("datatypes", ("FP32", "FP64")), "datatypes = INT32, FP32, the case needs FP32, FP64"),
        (("ecn", True), "ecn = false, the case needs true"),
        (("children", 9), "children = 8, the case needs 9"),
        (("virtual_time", False), "virtual_time = true, the case needs false"),
        (("binding", "udp"), "binding = ethernet, the case needs udp"),
    ],
)
def test_a_need_that_is_not_met_makes_the_case_not_applicable(
    need: tuple[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = duts.run(monkeypatch, [duts.make(duts.wrong, needs=(need,))], small_device)
    assert (statuses(run), reasons(run)) == (["na"], [reason])


@pytest.mark.parametrize(
    "need",
    [("datatypes", "FP32"), ("datatypes", ("FP32", "INT32")), ("ecn", False), ("children", 8), ("ports", 3)],
)
def test_a_need_that_is_met_lets_the_case_run(need: tuple[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run = duts.run(monkeypatch, [duts.make(duts.one_cell, needs=(need,))], small_device)
    assert statuses(run) == ["pass"]


def small_device() -> Dut:
    class Small(ReferenceDut):
        def traits(self) -> DutTraits:
            found = super().traits()
            offered = replace(found.capabilities, ecn=False, children=8, datatypes=("INT32", "FP32"))
            return replace(found, capabilities=offered, ports=9)

    return Small(3)


def test_a_need_that_no_device_knows_is_an_error_of_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="case own/one-cell: needs 'wings'"):
        duts.run(monkeypatch, [duts.make(duts.one_cell, needs=(("wings", 2),))])


def test_a_case_that_finds_a_limit_while_it_runs_is_not_applicable(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(bench: Bench) -> None:
        bench.install(20)

    run = duts.run(monkeypatch, [duts.make(many)], small_device)
    assert (statuses(run), reasons(run)) == (["na"], ["children = 8, the case needs 20"])


# ----------------------------------------------------------------------------------- devices that do not work


def test_a_device_that_dies_in_a_case_fails_it_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [duts.make(duts.two_cells, "first"), duts.make(duts.two_cells, "second")]
    run = duts.run(monkeypatch, cases, lambda: duts.DiesOnce(3))
    assert statuses(run) == ["fail", "pass"]
    assert reasons(run)[0] == "the device failed: the process was killed by SIGSEGV"
    assert run.broken == ""


def test_a_device_that_stays_dead_fails_what_is_left_with_that_line(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [duts.make(duts.two_cells, name) for name in ("first", "second", "third")]
    run = duts.run(monkeypatch, cases, lambda: duts.StaysDead(3))
    assert statuses(run) == ["fail"] * 3
    assert reasons(run)[1:] == [
        "the device failed at reset: no answer to the reset",
        "not tried: the device did not come back (the device failed at reset: no answer to the reset)",
    ]
    assert run.broken


def test_a_device_that_floods_fails_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    run = duts.run(monkeypatch, [duts.make(duts.one_cell)], lambda: duts.Floods(3))
    assert statuses(run) == ["fail"]
    assert "flood" in reasons(run)[0] or "does not stop" in reasons(run)[0]
    assert len(run.results[0].log) <= sum(runner.LOG_FAILED) + 1
    assert len(run.results[0].frames) <= guard.TRACE_FRAMES


def test_a_case_that_waits_for_a_flood_to_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def patient(bench: Bench) -> None:
        """Takes frames for ever."""
        bench.install(2)
        bench.contribute_all(0, [(1,), (2,)])
        while bench.dut.receive(0.001):
            pass

    run = duts.run(monkeypatch, [duts.make(patient)], lambda: duts.Floods(3))
    assert statuses(run) == ["fail"]
    assert reasons(run)[0].startswith("the device floods: ")


@pytest.mark.parametrize("device", [duts.TalksGarbage, duts.TalksNonsense])
def test_a_device_that_talks_garbage_fails_the_case(
    device: type[ReferenceDut], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = duts.run(monkeypatch, [duts.make(duts.one_cell)], lambda: device(3))
    assert statuses(run) == ["fail"]
    assert "frame" in reasons(run)[0]
    assert run.results[0].expected
    assert run.results[0].arrived


def test_a_device_that_blocks_fails_the_case_and_the_next_gets_a_new_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocked = duts.Blocks(3)
    devices: Iterator[Dut] = iter([blocked, ReferenceDut(3)])
    cases = [duts.make(duts.one_cell, "first"), duts.make(duts.one_cell, "second")]
    run = duts.run(monkeypatch, cases, lambda: next(devices), limit=1.5)
    blocked.released.set()
    assert statuses(run) == ["fail", "pass"]
    assert reasons(run)[0] == "blocked in receive: did not come back within 1.5 s"
    assert blocked.closed == 1


def test_a_device_that_blocks_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[duts.Blocks] = []
    cases = [duts.make(duts.one_cell, f"n{i}") for i in range(5)]
    run = duts.run(monkeypatch, cases, lambda: duts.BlocksUntilClosed(3, opened), limit=0.2)
    assert statuses(run) == ["fail"] * 5
    assert len(opened) == runner.PATIENCE
    assert all(d.closed == 1 for d in opened)
    assert reasons(run)[3].startswith("not tried: 3 cases in a row ran out of time")


def test_a_case_that_never_ends_by_itself_is_stopped_at_its_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def endless(bench: Bench) -> None:
        """Swallows everything that an exception can say."""
        while True:
            try:
                bench.dut.advance(1.0)
            except Exception:
                continue

    monkeypatch.setattr(runner, "GRACE_SECONDS", 10.0)
    run = duts.run(monkeypatch, [duts.make(endless), duts.make(duts.one_cell)], limit=1.5)
    assert statuses(run) == ["fail", "pass"]
    assert reasons(run)[0] == "the case did not end within 1.5 s"


def test_a_device_that_cannot_be_opened_again_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = duts.Blocks(3)
    devices: Iterator[Dut] = iter([blocked])
    cases = [duts.make(duts.one_cell, "first"), duts.make(duts.one_cell, "second")]
    run = duts.run(monkeypatch, cases, lambda: next(devices), limit=0.2)
    blocked.released.set()
    assert statuses(run) == ["fail", "fail"]
    assert reasons(run)[1].startswith("not tried: the device did not come back (the device cannot be opened")


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (duts.Raises, "the device failed: receive: KeyError: 'no\\nsuch\\nport'"),
        (duts.Exits, "the suite could not go on: SystemExit: 3 (broken_duts.py:"),
        (duts.Refuses, "the device refused: group 1: no slots left"),
    ],
)
def test_whatever_an_adapter_raises_is_a_line(
    device: type[ReferenceDut], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = duts.run(monkeypatch, [duts.make(duts.one_cell)], lambda: device(3))
    assert statuses(run) == ["fail"]
    assert reasons(run)[0].startswith(reason)
    assert "\n" not in reasons(run)[0]


def test_a_bug_of_a_case_is_a_line_that_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(bench: Bench) -> None:
        """Divides."""
        assert bench.seed // 0

    run = duts.run(monkeypatch, [duts.make(buggy)])
    assert reasons(run)[0].startswith("the suite could not go on: ZeroDivisionError: ")
    assert "(test_conformance_runner.py:" in reasons(run)[0]


def test_a_deviation_that_cannot_be_is_not_laid_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    deviations = Deviations({"window": 4, "slots": 4})
    run = duts.run(monkeypatch, [duts.make(duts.one_cell)], allowed=deviations)
    assert reasons(run)[0].startswith("the case cannot be set up: group 1: slots = 4")
    assert run.deviations == ("setup.slots = 4", "setup.window = 4")


def test_a_failure_inside_hypothesis_is_reported_as_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def random_case(bench: Bench) -> None:
        """Looks for a number above 10."""

        @settings(database=None, max_examples=200, derandomize=True)
        @given(st.integers(0, 1000))
        def look(number: int) -> None:
            bench.dut.reset()
            if number > 10:
                raise Failure("too large", ["at most 10"], [str(number)])

        look()

    run = duts.run(monkeypatch, [duts.make(random_case)])
    (result,) = run.results
    assert (result.reason, result.expected, result.arrived) == ("too large", ("at most 10",), ("11",))


def test_the_time_limit_also_ends_a_search_of_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    # The clock of the limit jumps, so that a busy machine changes nothing: no second passes for the case before.
    calls = itertools.count()
    clock = types.SimpleNamespace(monotonic=lambda: 0.0 if next(calls) < 50 else 1000.0)
    monkeypatch.setattr(guard, "time", clock)
    monkeypatch.setattr(runner, "GRACE_SECONDS", 10.0)
    tried: list[int] = []

    def long_search(bench: Bench) -> None:
        """Tries examples for longer than a case may take."""

        @settings(database=None, max_examples=100_000, deadline=None)
        @given(st.integers())
        def look(number: int) -> None:
            tried.append(number)
            bench.dut.advance(0.001)

        look()

    run = duts.run(monkeypatch, [duts.make(long_search)], limit=30)
    assert reasons(run) == ["the case did not end within 30 s"]
    assert 10 < len(tried) < 100


# ----------------------------------------------------------------------------------------- opening and closing


def test_a_device_that_cannot_be_opened_has_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def opener() -> Dut:
        raise ZeroDivisionError("no\ndevice")

    with pytest.raises(DutError, match="the device cannot be opened: ZeroDivisionError: no device"):
        duts.run(monkeypatch, [duts.make(duts.one_cell)], opener)


def test_a_device_that_does_not_open_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "OPEN_SECONDS", 0.1)
    stop = threading.Event()

    def opener() -> Dut:
        stop.wait()
        return ReferenceDut(3)

    with pytest.raises(DutError, match=r"the device did not open within 0\.1 s"):
        duts.run(monkeypatch, [duts.make(duts.one_cell)], opener)
    stop.set()


def test_a_device_of_another_mode_is_refused_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[duts.Blocks] = []
    with pytest.raises(ConfigError, match="device 'own' realizes mode 2, not mode 3"):
        duts.run(monkeypatch, [duts.make(duts.one_cell)], lambda: duts.Blocks(2, opened))
    assert [d.closed for d in opened] == [1]


def test_the_device_is_closed_once_also_when_the_run_is_interrupted() -> None:
    opened: list[duts.Blocks] = []
    found = Runner(lambda: duts.Blocks(3, opened), limit=0.2)
    with pytest.raises(KeyboardInterrupt), found:
        raise KeyboardInterrupt
    assert [d.closed for d in opened] == [1]


def test_a_device_whose_close_hangs_does_not_hang_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()

    class NeverCloses(ReferenceDut):
        def close(self) -> None:
            stop.wait()

    run = duts.run(monkeypatch, [duts.make(duts.one_cell)], lambda: NeverCloses(3))
    stop.set()
    assert statuses(run) == ["pass"]


def test_all_calls_of_a_device_come_from_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    class Watched(ReferenceDut):
        def __init__(self, mode: int) -> None:
            threads.add(threading.get_ident())
            super().__init__(mode)

        def reset(self) -> None:
            threads.add(threading.get_ident())
            super().reset()

        def send(self, port: int, frame: bytes) -> None:
            threads.add(threading.get_ident())
            super().send(port, frame)

        def close(self) -> None:
            threads.add(threading.get_ident())

    duts.run(monkeypatch, [duts.make(duts.one_cell, f"n{i}") for i in range(3)], lambda: Watched(3))
    assert len(threads) == 1


# ------------------------------------------------------------------------------------------------- the guard


@pytest.mark.parametrize(("guarded", "base"), [(GuardedDut, Dut), (GuardedAgentDut, AgentDut)])
def test_every_call_of_a_device_goes_through_the_guard(guarded: type, base: type) -> None:
    public = {n for n, f in vars(base).items() if inspect.isfunction(f) and not n.startswith("_")}
    assert public <= vars(guarded).keys()


def test_the_trace_has_every_frame_since_the_reset_in_order_with_growing_times() -> None:
    limits = Limits(10.0)
    bench = Bench(guard.guarded(ReferenceDut(3), limits), seed=3)  # type: ignore[arg-type]
    duts.two_cells(bench)
    bench.dut.reset()
    bench.groups.clear()
    duts.one_cell(bench)
    frames = [s.frame for s in bench.log if s.frame is not None][-4:]
    assert [f.data for f in limits.trace] == frames
    times = [f.time for f in limits.trace]
    assert times == sorted(set(times))


def test_a_case_whose_time_is_over_is_stopped_before_and_after_a_call() -> None:
    limits = Limits(0.01)
    with pytest.raises(Overrun):
        limits.call("sleep", time.sleep, 0.02)
    with pytest.raises(Overrun):
        limits.call("nothing", lambda: None)


def test_lines_are_bounded() -> None:
    word = "x" * random.Random(1).randrange(1000, 2000)
    assert len(guard.one_line(DutError(word))) == guard.LINE
    assert guard.one_line(DutError("a\n b")) == "a b"
    assert guard.one_line(ValueError()) == "ValueError"
    assert guard.one_line(Unmet("ecn", False, True)) == "Unmet: ecn = false, the case needs true"
