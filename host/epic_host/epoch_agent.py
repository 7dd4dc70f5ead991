"""One rank's end of a group over all its epochs: an agent whose path may change under it (epic.md, section 10.5).

Between `prepare` and `resume` the rank has no path: nothing that arrives reaches it, so what `prepare` has reported
stays true. `resume` gives it a new agent of another tree, or of the host path, whose window counts from 0; through
it the rank contributes again, from the cell where the group resumes, what it keeps, and then what is new. Results of
cells that it has are waited for, as the new window demands, and dropped. `tla/Failover.tla` proves it; its `Join`,
`Send` and `RankReceives` are `prepare`, `_repeat` with `submit`, and `_translate` here.

Cells are numbered over all epochs, and so are those in the events.

An epoch's agent may be one of the fast data path. Then it may be driven in batches: new cells come in blocks, and it
keeps what was contributed itself until the epoch is over; what is repeated goes cell by cell here too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    # They need numba, which the reference data path never imports.
    from epic_host.fast.blocks import Block
    from epic_host.fast.frames import Arrivals, Departures, EdgeTable
    from epic_host.fast.node import FastNode

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
        self.contributed = 0
        self.dropped = 0
        self.repeated = 0
        self.payload_bytes = 0
        self._agent: Agent | None = None
        # The same, when it works in batches.
        self._fast: Any = None
        self._offered: Block | None = None
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

    def resume(
        self, epoch: int, agent: Agent, base: int, window: int, now: float, batches: bool = False
    ) -> Output:
        """Go on in `epoch` through the new `agent`, from cell `base` on, with at most `window` cells outstanding.

        With `batches` it is a fast agent that is driven in batches; `repeat` is for the caller then.
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
        self._fast = agent if batches else None
        self._base = self._sent = base
        self._new = self.contributed
        self._history.keep = window
        return Output() if batches else self._repeat(Output(), now)

    def _retire(self) -> None:
        if self._fast is not None:
            # It has kept what went through it; what it was not given yet is here still.
            kept = self._fast.kept()
            rest = [self._history[number] for number in range(self._sent, self.contributed)]
            self._history.restart(self._sent - len(kept), [*kept, *rest])
        if self._agent is not None:
            self._past.update(self._agent.counters())
            self._agent = self._fast = None

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
            self.contributed += 1
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

    # ---------------------------------------------------------------------- the agent, in batches

    @property
    def edges(self) -> EdgeTable:
        """As of the agent of the epoch."""
        edges: EdgeTable = self._fast.edges
        return edges

    @property
    def burst(self) -> int:
        """As of the agent of the epoch."""
        burst: int = self._fast.burst
        return burst

    @property
    def pumped(self) -> FastNode | None:
        """Whose kernels a loop may call: the agent of the epoch."""
        fast: FastNode | None = self._fast
        return fast

    @property
    def repeats(self) -> bool:
        """Whether something contributed is still to be contributed to this epoch."""
        return self._sent < self.contributed

    def submit_block(self, block: Block, departures: Departures, now: float) -> None:
        """Contribute the next cells. Raises ValueError for more than `room()`."""
        if block.cells > self.room():
            raise ValueError(f"submit_block: {block.cells} cells, expected at most {self.room()}")
        self._fast.submit_block(block, departures, now)
        self.contributed += block.cells
        self._sent += block.cells
        if block.source:
            self.payload_bytes += block.bytes_of(block.cells)

    def supply(self, block: Block, departures: Departures) -> bool:
        """As of the agent of the epoch."""
        offered: bool = self._fast.supply(block, departures)
        self._offered = block
        return offered

    def supplied(self) -> int:
        """As of the agent of the epoch; 0 when it is gone."""
        block, self._offered = self._offered, None
        count: int = 0 if self._fast is None else self._fast.supplied()
        self.contributed += count
        self._sent += count
        if block is not None and block.source and count:
            self.payload_bytes += block.bytes_of(count)
        return count

    def submit_cells(self, cells: Sequence[Cell], departures: Departures, now: float) -> None:
        """Contribute the next cells; their results are events. Raises ValueError for more than `room()`."""
        if len(cells) > self.room():
            raise ValueError(f"submit_cells: {len(cells)} cells, expected at most {self.room()}")
        self._fast.submit_cells(cells, departures, now)
        self.contributed += len(cells)
        self._sent += len(cells)
        self.payload_bytes += sum(0 if cell.payload is None else len(cell.payload) for cell in cells)

    def repeat(self, departures: Departures, now: float) -> int:
        """Contribute again what is due to be, as far as window and `departures` go; how many cells."""
        free = len(departures.body) - int(departures.count[0])
        count: int = min(self._fast.room(), self._new - self._sent, free)
        if count <= 0:
            return 0
        cells = [self._history[self._sent + i] for i in range(count)]
        self._fast.submit_cells(cells, departures, now)
        self._sent += count
        self.repeated += count
        return count

    def receive_batch(self, arrivals: Arrivals, first: int, departures: Departures, now: float) -> int:
        """As of the agent of the epoch."""
        done: int = self._fast.receive_batch(arrivals, first, departures, now)
        return done

    def poll_batch(self, departures: Departures, now: float) -> None:
        """As of the agent of the epoch."""
        self._fast.poll_batch(departures, now)

    def take_events(self) -> list[Event]:
        """What has happened, in the numbers of the group; what has landed is in `delivered` then."""
        if self._fast is None:
            return []
        events = self._translate(self._fast.take_events())
        self.delivered = max(self.delivered, self._base + self._fast.delivered)
        return events

    def forget(self) -> None:
        """Write to no array any more."""
        if self._fast is not None:
            self._fast.forget()

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
