"""Runs collectives over an in-memory network: the part of a host runtime that needs no sockets.

Each rank has a queue of operations; cells of the next are pulled when those of the one before are out, so all
ranks present the same sequence of cells (EPIC-A-06).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from epic_models.reference.collectives import describe_mismatch
from epic_models.reference.interfaces import Cell, CellDelivered, CellFailed, EdgeFailed, Event, Stalled
from epic_models.reference.network import Network
from epic_models.reference.operation import Operation
from epic_spec.errors import CollectiveError, MismatchError, PeerLostError


class Member:
    """One rank's queue of operations in one group. `error` is what ended them all."""

    def __init__(
        self, network: Network, group: int, rank: int, diagnose: Callable[[int], CollectiveError]
    ) -> None:
        self.rank = rank
        self.error: CollectiveError | None = None
        self.failed_at: float | None = None
        self._network = network
        self._group = group
        self._diagnose = diagnose
        self._outgoing: deque[Operation] = deque()
        self._incoming: deque[Operation] = deque()
        self._seen = 0

    def call(self, operation: Operation) -> None:
        """Start an operation behind those already called."""
        self._outgoing.append(operation)
        self._incoming.append(operation)

    @property
    def finished(self) -> bool:
        """Whether every operation has ended, with results or in error."""
        return self.error is not None or not self._incoming

    def pump(self) -> None:
        """Take the results that have come and contribute what the window lets through."""
        events = self._network.events[self._group, self.rank]
        while self._seen < len(events):
            self._take(events[self._seen])
            self._seen += 1
        agent = self._network.agents[self._group, self.rank]
        while self.error is None and agent.room() and (cell := self._pull()) is not None:
            self._network.submit(self._group, self.rank, [cell])

    def _pull(self) -> Cell | None:
        while self._outgoing:
            cell = self._outgoing[0].pull()
            if cell is not None or not self._outgoing[0].pulled_all:
                return cell
            self._outgoing.popleft()
        return None

    def _take(self, event: Event) -> None:
        if self.error is not None:
            return
        try:
            match event:
                case CellDelivered():
                    self._incoming[0].deliver(event.payload)
                    if self._incoming[0].finished:
                        self._incoming.popleft()
                case CellFailed():
                    own = self._incoming[0].description
                    raise MismatchError(describe_mismatch(own, event.sent, event.held, event.record))
                case Stalled():
                    raise self._diagnose(event.cell)
                case EdgeFailed():
                    raise PeerLostError(f"edge {event.edge}: {event.reason}", edges=[event.edge])
        except CollectiveError as error:
            self.error = error
            self.failed_at = self._network.now


def run_members(network: Network, members: list[Member], seconds: float) -> bool:
    """Let virtual time pass until every member that lives has finished; False when `seconds` were not enough."""

    def settled() -> bool:
        for member in members:
            if member.rank not in network.dead:
                member.pump()
        return all(member.finished for member in members if member.rank not in network.dead)

    return network.run(seconds, settled)
