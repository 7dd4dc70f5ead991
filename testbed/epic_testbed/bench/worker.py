"""One rank of one contender: does what the supervisor says, over a Unix socket, one JSON object a line.

It hears {"do": "open"}, {"do": "run", "case", "warmup", "iterations", "check"}, {"do": "quit"}, and says {"event":
"hello", "contender", "rank"}, {"event": "open"}, {"event": "times", "us", "wrong", "profile"}, {"event": "none", "why"}
for a collective that the contender does not have, {"event": "error", "message"}. While it is not its turn it waits for
a line.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epic_spec.errors import EpicError
from epic_testbed import verify
from epic_testbed.bench.contenders import Contender, buffers, empty, open_contender
from epic_testbed.cases import Array, Case, Inputs


@dataclass(frozen=True, slots=True)
class Work:
    """What the supervisor wrote for the ranks of a contender. `rank` is None where MPI says which one this is."""

    contender: str
    rank: int | None
    ranks: int
    socket: str
    cases: list[Case]
    seed: int
    levels: int
    config: dict[str, Any]

    @classmethod
    def load(cls, path: str) -> Work:
        """From a file."""
        data = json.loads(Path(path).read_text())
        return cls(cases=[Case(**case) for case in data.pop("cases")], **data)


class Line:
    """The socket to the supervisor."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._file = self._socket.makefile("r")

    def say(self, event: str, **fields: Any) -> None:
        """One line."""
        self._socket.sendall(json.dumps({"event": event, **fields}).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next line; the supervisor's end being closed ends this process."""
        line = self._file.readline()
        if not line:
            os._exit(0)
        heard: dict[str, Any] = json.loads(line)
        return heard


class Rank:
    """Runs cases on a contender."""

    def __init__(self, work: Work, rank: int, contender: Contender) -> None:
        self._work, self._rank, self._contender = work, rank, contender
        self._held: tuple[int, Array, Array] | None = None

    def run(
        self, index: int, warmup: int, iterations: int, check: bool
    ) -> tuple[list[float], int, dict[str, float]]:
        """Microseconds of each iteration, elements that were wrong, seconds by what they were spent on."""
        case, contender = self._work.cases[index], self._contender
        send, recv = self._buffers(index)
        wrong = self._check(index, case) if check else 0
        collective = contender.bind(case, send, recv)
        for _ in range(warmup):
            collective()
        contender.barrier()
        before = contender.profile()
        times, clock = [], time.perf_counter
        for _ in range(iterations):
            begin = clock()
            collective()
            times.append((clock() - begin) * 1e6)
        spent = {key: seconds - before[key] for key, seconds in contender.profile().items()}
        return times, wrong, spent

    def _buffers(self, index: int) -> tuple[Array, Array]:
        """Arrays of zeros, kept from one turn to the next: memory that was never touched would cost page faults."""
        if self._held is None or self._held[0] != index:
            case = self._work.cases[index]
            if case.primitive == "barrier":
                nothing = empty(Case("all_reduce", "sum", "int8", 0), 0)
                self._held = (index, nothing, nothing)
            else:
                sent, received = buffers(case, self._rank, self._work.ranks)
                self._held = (index, empty(case, sent), empty(case, received))
        return self._held[1:]

    def _check(self, index: int, case: Case) -> int:
        """Once with data of which every element is known."""
        work = self._work
        inputs = Inputs(case, index, 0, work.seed, work.ranks)
        if case.primitive == "barrier":
            self._contender.bind(case, *self._buffers(index))()
            return 0
        sent, received = buffers(case, self._rank, work.ranks)
        send = inputs.of(self._rank, sent) if case.primitive == "all_gather" else inputs.of(self._rank)
        recv = empty(case, received)
        if case.primitive == "broadcast" and self._rank == case.root:
            recv[:] = send
        self._contender.bind(case, send, recv)()
        # The engines of a peer add in some order as ours do: the bound for sums in any order holds for it too.
        path = "exact" if case.op != "sum" else _path(case, work.config)
        wanted = verify.expected(inputs, self._rank, path, work.levels)
        return 0 if wanted is None else wanted.judge(recv).wrong


def _path(case: Case, config: dict[str, Any]) -> str:
    from epic_models.reference import numerics

    if case.datatype not in numerics.FLOATS:
        return "exact"
    return str(config.get("sum_path", "native"))


def main(path: str) -> None:
    """The life of a rank's process."""
    work = Work.load(path)
    line = Line(work.socket)
    rank = work.rank
    if rank is None:
        from mpi4py import MPI

        rank = int(MPI.COMM_WORLD.Get_rank())
    line.say("hello", contender=work.contender, rank=rank)
    ranks: Rank | None = None
    contender: Contender | None = None
    while True:
        heard = line.hear()
        try:
            if heard["do"] == "open":
                contender = open_contender(work.contender, rank, work.ranks, work.config)
                ranks = Rank(work, rank, contender)
                line.say("open")
            elif heard["do"] == "run":
                assert ranks is not None
                times, wrong, profile = ranks.run(
                    heard["case"], heard["warmup"], heard["iterations"], heard["check"]
                )
                line.say("times", us=times, wrong=wrong, profile=profile)
            else:
                if contender is not None:
                    contender.close()
                return
        except NotImplementedError as error:
            line.say("none", why=str(error))
        except Exception as error:
            if not isinstance(error, EpicError):
                traceback.print_exc()
            line.say("error", message=" ".join(f"{type(error).__name__}: {error}".split()))
            sys.exit(1)
