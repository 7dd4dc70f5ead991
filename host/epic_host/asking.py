"""Who is asked when a rank of a managed group gets no results: the manager, which looks into the engines and decides.

What it answers is one of three: a new epoch comes, ranks are lost, or everything answers; then the ranks it names are
late. Where it does not answer, there is nothing to say yet: it may be back in time (`epoch_runtime` bounds the wait).
And one that is just back does not know yet who is lost: it finds out when their leases have ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from epic_host.missing import Inquiry
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_models.reference.diagnosis import Diagnosis
from epic_models.reference.interfaces import EdgeFailed
from epic_spec.errors import PeerLostError

# (edge, what was seen) -> verdict, None for no answer.
Report = Callable[[str, str], pb.ReportFaultResponse | None]
# Ranks that the rank itself knows to hold its oldest cell up.
Late = Callable[[], tuple[int, ...]]
# Whether the manager was there for long enough to know which ranks are lost.
Sure = Callable[[], bool]
# Seconds kept between the last answer and the moment it is needed.
_MARGIN: Final = 0.05
# A question that is not answered when it should be is looked at again after so long.
_AGAIN: Final = 0.05


class Manager:
    """Asks by `report`. `late` is what the rank knows itself: on the host path nobody knows it better."""

    def __init__(self, report: Report, late: Late, sure: Sure) -> None:
        self._report = report
        self._late = late
        self._sure = sure
        self._busy = threading.Semaphore()

    def early(self, cell: int, seconds: float) -> None:
        """Let the manager look at once: where an engine is gone, a new epoch comes long before the deadline."""
        self._tell("", f"no result of cell {cell} for {seconds:.1f} s")

    def inquire(self, cell: int, needed: float) -> Inquiry:
        """Ask for a verdict."""
        return ManagerInquiry(self._report, self._late, self._sure, cell, needed)

    def edge_failed(self, event: EdgeFailed) -> PeerLostError | None:
        """Tell the manager, which finds another path, or whom is missing."""
        self._tell(event.edge, event.reason)
        return None

    def _tell(self, edge: str, what: str) -> None:
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._told, args=(edge, what), name="fault report", daemon=True).start()

    def _told(self, edge: str, what: str) -> None:
        try:
            self._report(edge, what)
        finally:
            self._busy.release()


class ManagerInquiry:
    """Asks in the background who holds up `cell`, as fresh as possible at the time `needed`."""

    def __init__(self, report: Report, late: Late, sure: Sure, cell: int, needed: float) -> None:
        self.needed = needed
        self._report = report
        self._late = late
        self._sure = sure
        self._what = f"no result of cell {cell}, and the deadline is near"
        self._latest: pb.ReportFaultResponse | None = None
        self._answered = False
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="inquiry", daemon=True).start()

    def answer(self) -> Diagnosis | None:
        """Who is lost or late; None while nobody knows, or another path comes."""
        verdict = self._latest
        if verdict is None and not self._answered:
            # The manager is still looking.
            self.needed = time.monotonic() + _AGAIN
        if verdict is None or verdict.verdict == "epoch" or (verdict.verdict == "wait" and not self._sure()):
            return None
        own = self._late() if verdict.verdict == "wait" else ()
        if not own:
            text = verdict.text or "the manager names nobody"
            return Diagnosis(tuple(verdict.ranks), tuple(verdict.edges), text)
        names = ", ".join(map(str, own))
        return Diagnosis(own, tuple(verdict.edges), f"rank{'s' * (len(own) > 1)} {names} did not contribute")

    def cancel(self) -> None:
        """The cell made progress, or has another path."""
        self._ended.set()

    def _run(self) -> None:
        # Once now, to have an answer at all; once more just in time, for a rank may come while we wait.
        for _ in range(2):
            begin = time.monotonic()
            self._latest = self._report("", self._what)
            self._answered = True
            took = time.monotonic() - begin
            if self._ended.wait(max(0.0, self.needed - time.monotonic() - 2 * took - _MARGIN)):
                return
