"""What agents of all modes share: the window, the order of results, agreement, and the stall clock.

Realizes EPIC-A-01, EPIC-A-03, EPIC-H-01 to EPIC-H-08 and EPIC-F-03. A mode adds how contributions are sent and
repaired.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

from epic_models.reference.cells import unpack_record
from epic_models.reference.endpoint import DATA_OPCODES, Counters, EdgeEnd, decode_or_count, misfit
from epic_models.reference.group import RankGroup
from epic_models.reference.interfaces import Cell, CellDelivered, CellFailed, Output, Stalled
from epic_models.reference.window import CongestionWindow
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT, NULL_BIT, Packet

# A stall is reported before the deadline, so that asking the engines who is missing ends within it.
STALL_FRACTION = 0.8


class AgentBase(ABC):
    """One rank's end of one tree."""

    def __init__(self, group: RankGroup) -> None:
        self.group = group
        self.params = group.params
        self._end = EdgeEnd(group.edge, group.params)
        self._count = Counters()
        self._window = CongestionWindow(group.params.window)
        self._next = 0
        self._delivered = 0
        self._sent: deque[int] = deque()  # descriptors of cells delivered … next-1
        self._progress = 0.0
        self._stall = group.params.deadline_us * 1e-6 * STALL_FRACTION

    @property
    def delivered(self) -> int:
        """Results delivered so far, in order."""
        return self._delivered

    @property
    def outstanding(self) -> int:
        """Cells contributed whose result is not delivered."""
        return self._next - self._delivered

    def room(self) -> int:
        """How many cells `submit` takes now: the result clock (EPIC-A-01) and the congestion window."""
        return max(0, min(self.params.window, self._window.size) - self.outstanding)

    def submit(self, cells: Sequence[Cell], now: float) -> Output:
        """Contribute the next cells. Raises ValueError for more than `room()`."""
        if len(cells) > self.room():
            raise ValueError(f"submit: {len(cells)} cells, expected at most {self.room()}")
        output = Output()
        for cell in cells:
            if self.outstanding == 0:
                self._progress = now
            number = self._next
            self._next += 1
            self._sent.append(cell.imm)
            output.extend(self._transmit(number, cell, now))
        return output

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived; one that cannot be decoded is counted by reason and dropped."""
        packet = decode_or_count(frame, self._count)
        return Output() if packet is None else self.receive(port, packet, now)

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived."""
        self._count["rx_frames"] += 1
        edge = self._end.edge
        reason: str | None
        if not packet.icrc_ok and self.params.icrc == "full":
            reason = "icrc"
        elif packet.qpn != edge.local.qpn:
            reason = "unknown_qpn"
        else:
            reason = misfit(edge, self.params, port, packet)
        if reason is not None:
            self._count.drop(reason)
            return Output()
        self._count["rx_ce"] += packet.ecn == 3 and packet.opcode in DATA_OPCODES
        return self._admitted(packet, now)

    def poll(self, now: float) -> Output:
        """Run the timers that are due, the stall clock included."""
        output = Output()
        deadline = self._timer_deadline()
        if deadline is not None and deadline <= now:
            output = self._timers(now)
        # As in `next_deadline`: rounding must not make the two differ.
        if self.outstanding and self._progress + self._stall <= now:
            output.events.append(Stalled(self._delivered, now - self._progress))
            self._progress = now
        return output

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""
        timer = self._timer_deadline()
        if not self.outstanding:
            return timer
        stall = self._progress + self._stall
        return stall if timer is None else min(timer, stall)

    def counters(self) -> dict[str, int]:
        """A copy of the counters; all names of epic.toml are present."""
        return dict(self._count)

    def _deliver(
        self, imm: int, payload: bytes | None, *, congested: bool, now: float
    ) -> CellDelivered | CellFailed:
        """The next result in order is here."""
        cell, sent = self._delivered, self._sent.popleft()
        self._delivered += 1
        self._progress = now
        self._window.delivered(cell, self._next, congested=congested and self.params.ecn)
        if imm & ERR_BIT or imm & AGREEMENT_MASK != sent & AGREEMENT_MASK:
            self._count["cells_poisoned"] += 1
            return CellFailed(cell, sent, imm & AGREEMENT_MASK, unpack_record(imm, payload, self.params))
        return CellDelivered(cell, imm, None if imm & NULL_BIT else payload)

    @abstractmethod
    def _transmit(self, number: int, cell: Cell, now: float) -> Output:
        """Send contribution `number` for the first time."""

    @abstractmethod
    def _admitted(self, packet: Packet, now: float) -> Output:
        """A packet came over the edge."""

    @abstractmethod
    def _timers(self, now: float) -> Output:
        """The retransmission timer is due."""

    @abstractmethod
    def _timer_deadline(self) -> float | None:
        """When the retransmission timer is due, or None."""
