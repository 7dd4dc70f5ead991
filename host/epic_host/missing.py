"""Asking the engines of a tree who is missing, beside the data path (P8).

grpc is imported here, and only when something has gone wrong or seems about to.
"""

from __future__ import annotations

import importlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from epic_models.reference.diagnosis import Diagnosis, diagnose
from epic_models.reference.group import GroupPlan
from epic_models.reference.interfaces import GroupStatus
from epic_spec.errors import EpicError

_PARALLEL: Final = 16
# Seconds kept between the last answer and the moment it is needed.
_MARGIN: Final = 0.05


def warm_up() -> None:
    """Import what `ask` needs in a thread of its own: that takes longer than asking."""
    threading.Thread(target=importlib.import_module, args=("epic_host.control",), daemon=True).start()


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


class Inquiry:
    """Finds out in the background who holds up `cell`, as fresh as possible at the time `needed`."""

    def __init__(self, plan: GroupPlan, cell: int, needed: float) -> None:
        self.cell = cell
        self.needed = needed
        self.latest: Diagnosis | None = None
        self._plan = plan
        self._ended = threading.Event()
        if plan.control:
            threading.Thread(target=self._run, name="inquiry", daemon=True).start()

    def cancel(self) -> None:
        """The cell made progress after all."""
        self._ended.set()

    def _run(self) -> None:
        # Once now, to have an answer at all; once more just in time, for a rank may come while we wait.
        for _ in range(2):
            begin = time.monotonic()
            self.latest = ask(self._plan, self.cell, max(0.01, self.needed - begin - _MARGIN))
            took = time.monotonic() - begin
            if self._ended.wait(max(0.0, self.needed - time.monotonic() - 2 * took - _MARGIN)):
                return
