"""One rank's end of a group over all its epochs: an agent whose path may change under it (epic.md, section 10.5).

Between `prepare` and `resume` the rank has no path: nothing that arrives reaches it, so what `prepare` has reported
stays true. `resume` gives it a new agent of another tree, or of the host path, whose window counts from 0; through
it the rank contributes again, from the cell where the group resumes, what it keeps, and then what is new. Results of
cells that it has are waited for, as the new window demands, and dropped. `tla/Failover.tla` proves it; its `Join`,
`Send` and `RankReceives` are `prepare`, `_repeat` with `submit`, and `_translate` here.

Cells are numbered over all epochs, and so are those in the events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from epic_host.history import History
from epic_models.reference.interfaces import (
    Agent,
    Cell,
    CellDelivered,
    CellFailed,
    EdgeFailed,
    Event,
    Output,
    Stalled,
)
from epic_spec.errors import EpicError
from epic_spec.packets import Packet

# Before the first epoch.
NO_EPOCH = -1


class EpochAgent:
    """An Agent of the whole life of a rank. It has no room until the first `resume`.

    `dropped` counts results of cells that the rank had, `repeated` contributions that it had made in an epoch before,
    `payload_bytes` what it contributed in all, each cell once.
    """

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        self.delivered = 0
        self.dropped = 0
        self.repeated = 0
        self.payload_bytes = 0
        self._agent: Agent | None = None
        self._history = History()
        # Where the epoch began, the next cell for its agent, and the first that no epoch before had.
        self._base = 0
        self._sent = 0
        self._new = 0
        self._past: Counter[str] = Counter()

    @property
    def agent(self) -> Agent | None:
        """The agent of the epoch; None while there is no path."""
        return self._agent

    @property
    def contributed(self) -> int:
        """Cells contributed so far."""
        return self._history.end

    @property
    def outstanding(self) -> int:
        """Cells contributed whose result is not delivered."""
        return self.contributed - self.delivered

    # ---------------------------------------------------------------------- change of epoch

    def prepare(self, epoch: int) -> int | None:
        """The epochs before `epoch` are over. How many results are delivered: from now on no more are until `resume`.

        May come again. None when the rank has gone on in this epoch, or a later one, already.
        """
        if epoch < self.epoch or (epoch == self.epoch and self._agent is not None):
            return None
        self.epoch = epoch
        self._retire()
        return self.delivered

    def resume(self, epoch: int, agent: Agent, base: int, window: int, now: float) -> Output:
        """Go on in `epoch` through the new `agent`, from cell `base` on, with at most `window` cells outstanding.

        Raises EpicError for a change that cannot be right: an epoch that this rank has not prepared for, or a cell
        where it cannot resume.
        """
        if self.epoch not in (epoch, NO_EPOCH) or self._agent is not None:
            raise EpicError(f"epoch {epoch} is granted in epoch {self.epoch}, expected it to be prepared")
        if not self._history.first <= base <= self.delivered:
            raise EpicError(
                f"epoch {epoch} resumes at cell {base}, expected {self._history.first} to {self.delivered}: "
                "what this rank keeps, up to what it has delivered"
            )
        self.epoch = epoch
        self._agent = agent
        self._base = self._sent = base
        self._new = self.contributed
        self._history.keep = window
        return self._repeat(Output(), now)

    def _retire(self) -> None:
        if self._agent is not None:
            self._past.update(self._agent.counters())
            self._agent = None

    # ---------------------------------------------------------------------- the agent

    def room(self) -> int:
        """How many cells `submit` takes now: what is to be repeated goes first."""
        if self._agent is None:
            return 0
        return max(0, self._agent.room() - (self.contributed - self._sent))

    def submit(self, cells: Sequence[Cell], now: float) -> Output:
        """Contribute the next cells. Raises ValueError for more than `room()`."""
        if len(cells) > self.room():
            raise ValueError(f"submit: {len(cells)} cells, expected at most {self.room()}")
        for cell in cells:
            self._history.append(cell)
            self.payload_bytes += 0 if cell.payload is None else len(cell.payload)
        assert self._agent is not None or not cells
        return self._repeat(Output(), now)

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived. Without a path it is nobody's."""
        if self._agent is None:
            return self._unwanted()
        return self._follow(self._agent.receive(port, packet, now), now)

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived."""
        if self._agent is None:
            return self._unwanted()
        return self._follow(self._agent.receive_frame(port, frame, now), now)

    def poll(self, now: float) -> Output:
        """Run the timers that are due."""
        return Output() if self._agent is None else self._follow(self._agent.poll(now), now)

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""
        return None if self._agent is None else self._agent.next_deadline()

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml, over all epochs."""
        total = Counter(self._past)
        if self._agent is not None:
            total.update(self._agent.counters())
        return dict(total)

    # ---------------------------------------------------------------------- inside

    def _unwanted(self) -> Output:
        self._past["rx_frames"] += 1
        self._past["drop_unknown_qpn"] += 1
        return Output()

    def _follow(self, output: Output, now: float) -> Output:
        """What the agent's call caused, in the numbers of the group; then what its window lets through again."""
        if output.events:
            output.events = self._translate(output.events)
        return self._repeat(output, now) if self._sent < self.contributed else output

    def _repeat(self, output: Output, now: float) -> Output:
        """Contribute to the epoch what is contributed to the group, as far as the epoch's window goes."""
        agent = self._agent
        while agent is not None and (count := min(agent.room(), self.contributed - self._sent)) > 0:
            cells = [self._history[self._sent + i] for i in range(count)]
            self.repeated += max(0, min(self._sent + count, self._new) - self._sent)
            self._sent += count
            caused = agent.submit(cells, now)
            caused.events = self._translate(caused.events)
            output.extend(caused)
        return output

    def _translate(self, events: Sequence[Event]) -> list[Event]:
        """Events in the numbers of the group, without the results that are delivered already."""
        kept: list[Event] = []
        for event in events:
            if isinstance(event, EdgeFailed):
                kept.append(event)
                continue
            cell = self._base + event.cell
            if isinstance(event, Stalled):
                kept.append(replace(event, cell=cell))
            elif cell < self.delivered:
                self.dropped += 1
            else:
                self._history.delivered(cell + 1)
                self.delivered = cell + 1
                kept.append(_numbered(event, cell))
        return kept


def _numbered(event: CellDelivered | CellFailed, cell: int) -> CellDelivered | CellFailed:
    return event if event.cell == cell else replace(event, cell=cell)
