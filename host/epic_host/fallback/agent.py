"""What both algorithms of the host path share: edges, the window, the order of results, the stall clock.

A `HostAgent` is an Agent: the same cells go in and the same events come out as with engines. Realizes EPIC-A-01 to
EPIC-A-05 and EPIC-H-01 to EPIC-H-09 without engines; the README of this folder says why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from epic_host.fallback.edge import RankEdge, edge_params
from epic_host.fallback.message import NOTE, Arrived, pack, pack_note, unpack
from epic_host.fallback.value import Partial, contribution, rank_of
from epic_host.grants import HostPlan
from epic_models.reference.agent import STALL_FRACTION
from epic_models.reference.cells import primitive
from epic_models.reference.endpoint import DATA_OPCODES, Counters, decode_or_count, misfit
from epic_models.reference.interfaces import Cell, CellDelivered, CellFailed, Output, Stalled
from epic_models.reference.rc import Message
from epic_models.reference.window import CongestionWindow
from epic_spec import psn
from epic_spec.errors import ConfigError
from epic_spec.packets import NULL_BIT, Packet
from epic_spec.tables import Primitive

# Part of the deadline without progress after which a rank tells its neighbours for whom it waits.
NOTE_FRACTION: Final = 0.4


class HostAgent(ABC):
    """One rank's end of the host path."""

    def __init__(self, plan: HostPlan, rank: int) -> None:
        if rank not in plan.edges:
            raise ConfigError(f"host plan: rank = {rank}, expected one of {sorted(plan.edges)}")
        self.params = plan.params
        self.rank = rank
        self.world_size = plan.params.world_size
        self._count = Counters()
        longer = edge_params(plan.params)
        self._edges = {
            peer: RankEdge(peer, edge, longer, self._count) for peer, edge in plan.edges[rank].items()
        }
        self._by_qpn = {edge.edge.local.qpn: edge for edge in self._edges.values()}
        self._window = CongestionWindow(plan.params.window)
        self._next = 0
        self._delivered = 0
        self._sent: dict[int, int] = {}  # descriptors of the cells that are outstanding
        self._results: dict[int, Partial] = {}  # that came before an older one
        self._due = 0.0
        # The last delivery or contribution after none was outstanding; `_progress` is reset by a stall too.
        self._quiet_since = self._progress = 0.0
        deadline = plan.params.deadline_us * 1e-6
        self._stall, self._tell = deadline * STALL_FRACTION, deadline * NOTE_FRACTION
        # For whom each neighbour said that it waits, and when; what was last told, and for which cell.
        self._heard: dict[int, tuple[float, frozenset[int]]] = {}
        self._told: tuple[int, frozenset[int]] | None = None

    # ------------------------------------------------------------------------------------------ the interface

    @property
    def delivered(self) -> int:
        """Results delivered so far, in order."""
        return self._delivered

    @property
    def outstanding(self) -> int:
        """Cells contributed whose result is not delivered."""
        return self._next - self._delivered

    @property
    def settled(self) -> bool:
        """Whether the neighbours have acknowledged all that this rank sent: then none needs it any more.

        An agent that is dropped before may leave others waiting for the results that it passes on.
        """
        return all(edge.failed or not edge.unacknowledged for edge in self._edges.values())

    def room(self) -> int:
        """How many cells `submit` takes now: the result clock (EPIC-A-01) and the congestion window."""
        return max(0, min(self.params.window, self._window.size) - self.outstanding)

    def submit(self, cells: Sequence[Cell], now: float) -> Output:
        """Contribute the next cells. Raises ValueError for more than `room()`.

        Results come from `receive` and `poll` only, also where all that they need is here: then `poll` is due at once.
        """
        if len(cells) > self.room():
            raise ValueError(f"submit: {len(cells)} cells, expected at most {self.room()}")
        output = Output()
        for cell in cells:
            if self.outstanding == 0:
                self._quiet_since = self._progress = now
            number = self._next
            self._next += 1
            own = contribution(self.params, self.rank, cell)
            self._sent[number] = own.held
            self._count["tx_contribution"] += 1
            self._contributed(number, own, output, now)
        self._due = now
        return output

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived; one that cannot be decoded is counted by reason and dropped."""
        packet = decode_or_count(frame, self._count)
        return Output() if packet is None else self.receive(port, packet, now)

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived."""
        self._count["rx_frames"] += 1
        edge = self._by_qpn.get(packet.qpn)
        reason: str | None = "unknown_qpn"
        if not packet.icrc_ok and self.params.icrc == "full":
            reason = "icrc"
        elif edge is not None:
            reason = misfit(edge.edge, self.params, port, packet)
        if edge is None or reason is not None:
            self._count.drop(reason or "unknown_qpn")
            return Output()
        self._count["rx_ce"] += packet.ecn == 3 and packet.opcode in DATA_OPCODES
        output, message = edge.receive(packet, now)
        if message is not None:
            self._take(edge, message, output, now)
            self._flush(output, now)
        return output

    def poll(self, now: float) -> Output:
        """Run the timers that are due: retransmission, who is missing, stall."""
        output = Output()
        for edge in self._edges.values():
            output.extend(edge.poll(now))
        self._flush(output, now)
        if self.outstanding:
            if self._progress + self._stall <= now:
                output.events.append(Stalled(self._delivered, now - self._progress))
                self._progress = now
            elif self._progress + self._tell <= now:
                self._tell_neighbours(output, now)
        return output

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""
        deadlines = [d for edge in self._edges.values() if (d := edge.next_deadline()) is not None]
        if self._delivered in self._results:
            deadlines.append(self._due)
        if self.outstanding:
            told = self._told is not None and self._told[0] == self._delivered
            deadlines.append(self._progress + (self._stall if told else self._tell))
        return min(deadlines, default=None)

    def counters(self) -> dict[str, int]:
        """A copy of the counters; all names of epic.toml are present. Messages between ranks count as partials."""
        return dict(self._count)

    # ----------------------------------------------------------------------------------------- who is missing

    def waiting_for(self) -> tuple[int, ...]:
        """The ranks that hold up the oldest outstanding cell, as far as this rank knows; empty when none does.

        A neighbour whose message is missing is held to be the one, unless it said for whom it waits itself, be it at an
        older cell. What it said before the last result came here may be over.
        """
        if not self.outstanding:
            return ()
        return tuple(sorted(self._missing()))

    def _missing(self) -> frozenset[int]:
        named: set[int] = set()
        blocking = self._blocking(self._delivered)
        for peer in blocking:
            said, ranks = self._heard.get(peer, (-1.0, frozenset()))
            named |= ranks if said >= self._quiet_since and ranks else {peer}
        named.discard(self.rank)
        # All of them wait for this rank, which has contributed: what it sends does not arrive.
        return frozenset(named or {e.peer for e in self._edges.values() if e.unacknowledged} or blocking)

    def _tell_neighbours(self, output: Output, now: float) -> None:
        note = (self._delivered, self._missing())
        if note == self._told:
            return
        self._told = note
        message = pack_note(note[0], self._sent[note[0]], note[1])
        for edge in self._edges.values():
            output.extend(edge.send(message, now))

    def _take_note(self, peer: int, arrived: Arrived, output: Output, now: float) -> None:
        self._heard[peer] = (now, arrived.note())
        if self.outstanding and self._told is not None and self._told[0] == self._delivered:
            self._tell_neighbours(output, now)

    # ---------------------------------------------------------------------------------- messages out and in

    def _send(self, peer: int, cell: int, step: int, partial: Partial, output: Output, now: float) -> None:
        message = pack(self.params, cell, step, partial)
        output.extend(self._edges[peer].send(message, now, cell))

    def _take(self, edge: RankEdge, message: Message, output: Output, now: float) -> None:
        """A whole message came: taken only if the algorithm waits for it, so that memory stays bounded (P5)."""
        try:
            arrived = unpack(message)
            if arrived.step == NOTE:
                arrived.note()
                partial = None
            else:
                cell = psn.nearest(arrived.cell, self._delivered)
                if cell >= self._next + self.params.window or not self._expects(
                    edge.peer, cell, arrived.step
                ):
                    raise ValueError(f"cell {cell} step {arrived.step}: not expected")
                partial = arrived.partial(self.params, result=self._is_result(arrived))
        except ValueError:
            output.extend(edge.refuse("invalid_request"))
            return
        output.extend(edge.accept())
        if partial is None:
            self._take_note(edge.peer, arrived, output, now)
            return
        self._count["rx_contribution"] += 1
        self._arrived(edge.peer, cell, arrived.step, partial, output, now)

    # ------------------------------------------------------------------------------------------------ results

    def _completed(self, cell: int, result: Partial) -> None:
        """The result of a cell is here, its payload None unless this rank receives it."""
        self._count["cells_completed"] += 1
        self._results[cell] = result

    def _flush(self, output: Output, now: float) -> None:
        """Deliver what is here, in order."""
        while (ready := self._results.pop(self._delivered, None)) is not None:
            output.events.append(self._deliver(ready, now))

    def _deliver(self, result: Partial, now: float) -> CellDelivered | CellFailed:
        cell = self._delivered
        self._delivered += 1
        sent = self._sent.pop(cell)
        self._quiet_since = self._progress = now
        self._count["rx_result"] += 1
        self._window.delivered(cell, self._next, congested=result.congested and self.params.ecn)
        # Whoever contributed `cell` has the result of this one: it has all that was sent for it.
        for edge in self._edges.values():
            edge.passed(cell - self.params.window, now)
        if result.err or result.held != sent:
            self._count["cells_poisoned"] += 1
            return CellFailed(cell, sent, result.held, result.record if self.params.conflict_record else None)
        payload = result.payload
        if payload is None and primitive(result.held) == Primitive.BROADCAST and result.length:
            payload = bytes(
                result.length
            )  # its source had nothing, so the zeros of the others are the result
        return CellDelivered(cell, result.held | (NULL_BIT if payload is None else 0), payload)

    def _receives(self, held: int) -> bool:
        """Whether this rank receives the payload (epic.md, section 3.3)."""
        return primitive(held) != Primitive.REDUCE or rank_of(held) == self.rank

    # ------------------------------------------------------------------------------------------ the algorithm

    @abstractmethod
    def _contributed(self, cell: int, own: Partial, output: Output, now: float) -> None:
        """This rank's contribution to a cell is there."""

    @abstractmethod
    def _expects(self, peer: int, cell: int, step: int) -> bool:
        """Whether a message of this kind may come; that the cell is in the window was checked."""

    @abstractmethod
    def _is_result(self, arrived: Arrived) -> bool:
        """Whether a message of this step and descriptor has the payload of a result, not of a partial."""

    @abstractmethod
    def _arrived(self, peer: int, cell: int, step: int, partial: Partial, output: Output, now: float) -> None:
        """A message that was expected came."""

    @abstractmethod
    def _blocking(self, cell: int) -> frozenset[int]:
        """The neighbours whose message for an outstanding cell is what this rank waits for."""


def with_payload(partial: Partial, payload: bytes | None) -> Partial:
    """The same agreement with another payload."""
    return replace(partial, payload=payload)
