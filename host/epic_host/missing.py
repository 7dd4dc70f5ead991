"""Who is asked when a rank gets no results (P8), beside the data path: here the engines of its tree.

grpc is imported here, and only when something has gone wrong or seems about to.
"""

from __future__ import annotations

import importlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from epic_models.reference.diagnosis import Diagnosis, diagnose
from epic_models.reference.group import GroupPlan
from epic_models.reference.interfaces import EdgeFailed, GroupStatus
from epic_spec.errors import EpicError, PeerLostError

_PARALLEL: Final = 16
# Seconds kept between the last answer and the moment it is needed.
_MARGIN: Final = 0.05


class Inquiry(Protocol):
    """A question who holds up a cell; the answer is `needed` at a time."""

    needed: float

    def answer(self) -> Diagnosis | None:
        """What is known now; None: nothing is, and there is reason to wait on: until `needed`, where that was moved."""

    def cancel(self) -> None:
        """The cell made progress after all."""


class Asker(Protocol):
    """Whom a rank asks. From the thread of the communicator; nothing here waits."""

    def early(self, cell: int, seconds: float) -> None:
        """There is no result of `cell` since `seconds`, which may yet be nothing."""

    def inquire(self, cell: int, needed: float) -> Inquiry:
        """Find out who holds up `cell`."""

    def edge_failed(self, event: EdgeFailed) -> PeerLostError | None:
        """This rank's own edge is in error. What that means for its collectives; None: another path may come."""


class Engines:
    """Asks the engines of `plan` for rank `rank`."""

    def __init__(self, plan: GroupPlan, rank: int) -> None:
        self._plan = plan
        self._edge = plan.ranks[rank].edge.name
        self._warm = not plan.control

    def early(self, cell: int, seconds: float) -> None:
        """Import what `ask` needs in a thread of its own: that takes longer than asking."""
        if not self._warm:
            self._warm = True
            threading.Thread(target=importlib.import_module, args=("epic_host.control",), daemon=True).start()

    def inquire(self, cell: int, needed: float) -> Inquiry:
        """Ask all engines of the tree for their slots."""
        return EngineInquiry(self._plan, self._edge, cell, needed)

    def edge_failed(self, event: EdgeFailed) -> PeerLostError | None:
        """Nothing can come any more."""
        return PeerLostError(f"edge {event.edge} is in error: {event.reason}", edges=(event.edge,))


def ask(plan: GroupPlan, cell: int, timeout: float) -> Diagnosis:
    """Who holds up `cell`, from the status of every engine; one that has not answered in time is lost."""
    from epic_host.control import EngineClient

    end = time.monotonic() + timeout

    def status(engine: str) -> GroupStatus | None:
        address = plan.control.get(engine)
        if address is None:
            return None
        try:
            with EngineClient(address, max(0.01, end - time.monotonic())) as client:
                return client.status(plan.params.group)
        except EpicError:
            return None

    with ThreadPoolExecutor(min(_PARALLEL, len(plan.engines)), thread_name_prefix="ask") as pool:
        return diagnose(plan, dict(zip(plan.engines, pool.map(status, plan.engines), strict=True)), cell)


class EngineInquiry:
    """Finds out in the background who holds up `cell`, as fresh as possible at the time `needed`."""

    def __init__(self, plan: GroupPlan, edge: str, cell: int, needed: float) -> None:
        self.needed = needed
        self._cell = cell
        self._plan = plan
        self._edge = edge
        self._latest: Diagnosis | None = None
        self._ended = threading.Event()
        if plan.control:
            threading.Thread(target=self._run, name="inquiry", daemon=True).start()

    def answer(self) -> Diagnosis | None:
        """What the engines said; where none did, all that this rank knows: nothing comes over its own edge."""
        if self._latest is not None:
            return self._latest
        why = (
            "no switch answered in time"
            if self._plan.control
            else "no switch can be asked: no control addresses"
        )
        text = f"cell {self._cell}, over edge {self._edge}: {why} to say who is missing"
        return Diagnosis((), (self._edge,), text)

    def cancel(self) -> None:
        """The cell made progress after all."""
        self._ended.set()

    def _run(self) -> None:
        # Once now, to have an answer at all; once more just in time, for a rank may come while we wait.
        for _ in range(2):
            begin = time.monotonic()
            self._latest = ask(self._plan, self._cell, max(0.01, self.needed - begin - _MARGIN))
            took = time.monotonic() - begin
            if self._ended.wait(max(0.0, self.needed - time.monotonic() - 2 * took - _MARGIN)):
                return
