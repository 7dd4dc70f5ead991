"""One rank of a run: opens a Communicator, runs the cases, checks each result, and reports on standard
output.

Talks to the supervisor in lines. It hears `open`, `go`, then `quit`; it says one JSON object a line:

    {"event": "loaded"}                                       modules are imported, compiled code is loaded
    {"event": "ready", "params", "datapath"}                  the transport is open, there is a path (after `open`)
    {"event": "epoch", "epoch", "path", "resume", "reason"}   one began, the first included; there is a manager
    {"event": "alive"}                                        every few seconds, whatever goes on
    {"event": "iteration", "case", "iteration", "us", "wrong", "err", "at"}
    {"event": "error", "case", "kind", "message", "ranks", "edges", "at"}
    {"event": "done", "counters", "faults"}                   always the last, after an error too

`at` is `time.monotonic()`, which on Linux all processes share.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epic_host import Communicator
from epic_host.fast.ranks import load_agents
from epic_models.reference import numerics
from epic_models.reference.group import GroupPlan
from epic_spec.errors import EpicError
from epic_testbed import verify
from epic_testbed.cases import Array, Case, Inputs, shard_bounds

_BEAT_SECONDS = 2.0
_PATTERN = 0x5A
_output = threading.Lock()


@dataclass(frozen=True, slots=True)
class Work:
    """What the supervisor wrote for this rank.

    Without a manager `group` is the plan of the installed group. With one, `access` names the file that says how to
    join, which is there when `open` is heard. `levels`: of switches in the tree. `datapath` as of a Communicator.
    """

    rank: int
    levels: int
    transport: dict[str, Any]
    cases: list[Case]
    iterations: int
    seed: int
    reproducible: bool
    back_to_back: bool
    silent: bool
    trace: str | None = None
    group: str | None = None
    access: str | None = None
    patience: float | None = None
    datapath: str = "reference"

    @classmethod
    def load(cls, path: str) -> Work:
        """From the file that the supervisor wrote."""
        data = json.loads(Path(path).read_text())
        cases = [Case(**case) for case in data.pop("cases")]
        return cls(cases=cases, **data)


def say(event: str, **fields: Any) -> None:
    """One line to the supervisor, from any thread."""
    with _output:
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()


def beat() -> None:
    """Say that this process is alive, from a thread of its own, for as long as it is."""
    while True:
        time.sleep(_BEAT_SECONDS)
        say("alive")


def hear(word: str) -> None:
    """Wait for a line from the supervisor; its end of the pipe closing ends this process."""
    if sys.stdin.readline().strip() != word:
        sys.exit(0)


def arrays(inputs: Inputs, rank: int, in_place: bool) -> tuple[Array | None, Array | None]:
    """What this rank sends, and an array to receive into (None: in place, or nothing to receive).

    Arrays to receive into are filled with a pattern, so that an element that is never written shows.
    """
    case = inputs.case
    if case.primitive == "barrier":
        return None, None
    dtype = numerics.array_dtype(case.datatype)
    bounds = shard_bounds(case.count, inputs.ranks)
    mine = slice(bounds[rank], bounds[rank + 1])
    if case.primitive == "all_gather":
        own = inputs.of(rank, mine.stop - mine.start)
        whole = _patterned(case.count, dtype)
        if not in_place:
            return own, whole
        whole[mine] = own
        return whole, None
    if case.primitive == "broadcast" and rank != case.root:
        return _patterned(case.count, dtype), None
    send = inputs.of(rank)
    if in_place or case.primitive == "broadcast":
        return send, None
    return send, _patterned(
        mine.stop - mine.start if case.primitive == "reduce_scatter" else case.count, dtype
    )


def _patterned(count: int, dtype: np.dtype[Any]) -> Array:
    return np.full(count * dtype.itemsize, _PATTERN, np.uint8).view(dtype)


def call(comm: Communicator, case: Case, send: Array | None, recv: Array | None) -> Array | None:
    """Run the case's collective; the result, None where this rank receives none."""
    if send is None:
        comm.barrier()
        return None
    if case.primitive == "all_reduce":
        return comm.all_reduce(send, case.op, recv=recv)
    if case.primitive == "reduce_scatter":
        return comm.reduce_scatter(send, case.op, recv=recv)
    if case.primitive == "all_gather":
        return comm.all_gather(send, recv=recv)
    assert case.root is not None
    if case.primitive == "reduce":
        return comm.reduce(send, case.root, case.op, recv=recv)
    return comm.broadcast(send, case.root)


class Runner:
    """Runs the cases on one communicator."""

    def __init__(self, work: Work, comm: Communicator) -> None:
        self._work = work
        self._comm = comm
        self._epochs = 0
        self.case = 0

    def run(self) -> None:
        """All cases. Raises what the communicator raises; `case` is the one that was running."""
        for index, case in enumerate(self._work.cases):
            self.case = index
            for iteration in range(self._work.iterations):
                self._iterate(case, iteration)

    def _iterate(self, case: Case, iteration: int) -> None:
        work = self._work
        inputs = Inputs(case, self.case, iteration, work.seed, self._comm.world_size)
        # In place every other time; otherwise what was sent has to stay as it was.
        send, recv = arrays(inputs, work.rank, in_place=iteration % 2 == 1)
        before = send.copy() if send is not None and recv is not None else None
        if not work.back_to_back and case.primitive != "barrier":
            # Ranks check at different speeds; the clock starts when all are here.
            self._comm.barrier()
        begin = time.perf_counter()
        got = call(self._comm, case, send, recv)
        seconds = time.perf_counter() - begin
        self.tell_epochs()
        verdict = self._judge(inputs, got)
        if before is not None and send is not None and send.tobytes() != before.tobytes():
            verdict = verify.Verdict(verdict.wrong + 1, verdict.max_abs_err)
        say(
            "iteration",
            case=self.case,
            iteration=iteration,
            us=round(seconds * 1e6, 1),
            wrong=verdict.wrong,
            err=verdict.max_abs_err,
            at=time.monotonic(),
        )

    def _judge(self, inputs: Inputs, got: Array | None) -> verify.Verdict:
        path = verify.path_of(inputs.case, self._comm.params, self._work.reproducible)
        wanted = verify.expected(inputs, self._work.rank, path, self._levels())
        if wanted is None:
            return verify.Verdict(0 if got is None else 1, 0.0)
        return verify.Verdict(wanted.values.size, 0.0) if got is None else wanted.judge(got)

    def tell_epochs(self) -> None:
        """Say which epochs have begun since it was said last."""
        epochs = self._comm.epochs if self._work.access is not None else ()
        for epoch in epochs[self._epochs :]:
            say("epoch", epoch=epoch.epoch, path=epoch.path, resume=epoch.resume, reason=epoch.reason)
        self._epochs = len(epochs)

    def _levels(self) -> int:
        """How often a value is rounded to 16 bits at most: at each level of switches, or at each rank."""
        hosts = any(epoch.path == "host" for epoch in self._comm.epochs)
        return max(self._work.levels, self._comm.world_size if hosts else 0)


def guarded(runner: Runner, action: Callable[[], None]) -> bool:
    """Run `action`; report what it raises. True when it raised nothing."""
    try:
        action()
    except Exception as error:
        if not isinstance(error, EpicError):
            traceback.print_exc()
        say(
            "error",
            case=runner.case,
            kind=type(error).__name__,
            message=" ".join(str(error).split()),
            ranks=list(getattr(error, "ranks", ())),
            edges=list(getattr(error, "edges", ())),
            at=time.monotonic(),
        )
        return False
    return True


def _communicator(work: Work) -> Communicator:
    """The rank's communicator: of the installed group, or of the manager's."""
    options: dict[str, Any] = {
        "reproducible": work.reproducible,
        "trace": work.trace,
        "datapath": work.datapath,
    }
    if work.access is None:
        assert work.group is not None
        plan = GroupPlan.from_dict(json.loads(Path(work.group).read_text()))
        return Communicator(work.rank, plan, work.transport, **options)
    access = json.loads(Path(work.access).read_text())
    return Communicator.join(
        access["manager"],
        access["group"],
        work.rank,
        join_token=access["join_token"],
        transport=work.transport,
        patience=work.patience,
        **options,
    )


def main(path: str) -> None:
    """The life of a rank's process. Exit code 0 when all went well, 1 after an error."""
    work = Work.load(path)
    if work.access is not None:
        # What joining needs takes a while to import.
        importlib.import_module("epic_host.managed")
    if work.datapath == "fast":
        load_agents()
    say("loaded")
    hear("open")
    comm = _communicator(work)
    say("ready", params=comm.params.to_dict(), datapath=comm.datapath)
    hear("go")
    threading.Thread(target=beat, daemon=True).start()
    runner = Runner(work, comm)
    runner.tell_epochs()
    good = True
    if work.silent:
        # Like a rank whose program is stuck elsewhere: here, and alive, but it calls nothing.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    else:
        good = guarded(runner, runner.run)
    runner.tell_epochs()
    say("done", counters=comm.counters(), faults=comm.faults())
    # Stay until all are done: a peer may still need this rank to answer.
    hear("quit")
    with contextlib.suppress(EpicError):
        comm.close()
    sys.exit(0 if good else 1)
