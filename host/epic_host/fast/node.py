"""What fast engines and agents share: admission of batches, packets as batches of one, counters, events."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from epic_host.fast import frames
from epic_host.fast.frames import FRAME, NO_EDGE, Arrivals, Departures, EdgeTable, find_edge
from epic_host.fast.packets import DATAGRAM_BYTES, arrive, departed
from epic_host.fast.pump import Kernels
from epic_host.fast.queues import departures_world
from epic_host.fast.wire import ADMISSION, admit_at
from epic_host.fast.world import World
from epic_models.reference.endpoint import Counters, decode_or_count
from epic_models.reference.interfaces import Event, Output
from epic_spec.packets import Packet

_FRAMES = 64


class FastNode(ABC):
    """A node whose work on admitted frames is a kernel's."""

    def __init__(self) -> None:
        # Whose kernels a loop may call: an agent of many epochs names another.
        self.pumped: FastNode | None = self
        self.edges = EdgeTable()
        self._counters = frames.counters()
        # Drops of frames that were given as bytes and could not be decoded.
        self._undecoded = Counters()
        # Counts the batches of departures: a body that is queued in the present one must not change.
        self._generation = np.zeros(1, np.int64)
        self._events: list[Event] = []
        # Admitted frames: those from `_at` to `_admitted` are not handled yet, the first of them is arrival `_resume`.
        self._frames = np.zeros(_FRAMES, FRAME)
        self._at = self._admitted = 0
        self._resume = -1
        self._one: tuple[Arrivals, Departures] | None = None
        # The world of the kernels, made for these departures.
        self._made: tuple[Departures, World] | None = None
        # What admission works on, made for these arrivals.
        self._admission: tuple[Arrivals, World] | None = None

    @property
    @abstractmethod
    def burst(self) -> int:
        """How many departures one frame or one timer may cause."""

    @abstractmethod
    def _work(self, arena: int, first: int, stop: int, departures: Departures, now: float) -> int:
        """Handle admitted frames `first` to `stop` of `_frames`, whose bytes are at the address `arena`.

        Returns `stop`, or the frame that has to wait until the departures have been sent.
        """

    @abstractmethod
    def _make_world(self, departures: World) -> World:
        """What the node's kernels work on."""

    @abstractmethod
    def kernels(self, departures: Departures) -> Kernels:
        """What a Pump calls, as long as `tables` stays the same object."""

    @property
    def tables(self) -> object:
        """Another object after every change of what kernels work on, None until they have worked again."""
        return self._made

    @property
    def generation(self) -> NDArray[np.int64]:
        """See `_generation`."""
        return self._generation

    @abstractmethod
    def settle(self) -> None:
        """Make events of what a kernel reported, while the memory of the arrivals is still theirs."""

    def _world(self, departures: Departures) -> World:
        """The same, made again when there are other departures or the tables changed."""
        made = self._made
        if made is None or made[0] is not departures:
            made = self._made = departures, self._make_world(departures_world(departures))
        return made[1]

    def _tables_changed(self) -> None:
        """An array of the world has been replaced. Frames that were admitted before must be admitted again."""
        self._made, self._admission, self._resume = None, None, -1

    # ------------------------------------------------------------------------------------------- batches

    def receive_batch(self, arrivals: Arrivals, first: int, departures: Departures, now: float) -> int:
        """Handle arrivals from number `first` on, and queue what they cause.

        Returns `arrivals.count`, or the number of the arrival to go on with when the departures have been sent: they
        are nearly full, or a body among them would change. Raises ValueError when they hold fewer than `burst` frames.
        """
        self._begin(departures)
        if first != self._resume:
            self._admit(arrivals, first)
        self._at = self._work(arrivals.arena_address, self._at, self._admitted, departures, now)
        if self._at == self._admitted:
            self._resume = -1
            return arrivals.count
        self._resume = int(self._frames[self._at]["arrival"])
        return self._resume

    def _begin(self, departures: Departures) -> None:
        if len(departures.body) < self.burst:
            raise ValueError(
                f"departures for {len(departures.body)} frames, expected room for {self.burst} or more"
            )
        if not departures.count[0]:
            self._generation += 1

    def _admit(self, arrivals: Arrivals, first: int) -> None:
        count = arrivals.count - first
        self.make_frames(count)
        self._at, self._admitted = 0, count
        address = self.admission(arrivals).address
        admit_at(address, arrivals.arena_address, first, arrivals.count, arrivals.address)

    def make_frames(self, count: int) -> None:
        """See to room for so many admitted frames."""
        if count > len(self._frames):
            self._frames = np.zeros(count, FRAME)
            self._tables_changed()

    def admission(self, arrivals: Arrivals) -> World:
        """What `admit_at` works on, while the tables stay as they are."""
        admission = self._admission
        if admission is None or admission[0] is not arrivals:
            world = ADMISSION.make(
                arrivals=arrivals.records,
                edges=self.edges.rows,
                places=self.edges.places,
                counters=self._counters,
                frames=self._frames,
            )
            admission = self._admission = arrivals, world
        return admission[1]

    @abstractmethod
    def poll_batch(self, departures: Departures, now: float) -> None:
        """Run the timers that are due. Some stay due when the departures have to be sent first."""

    @abstractmethod
    def next_deadline(self) -> float | None:
        """When `poll` or `poll_batch` wants to be called next, or None."""

    def take_events(self) -> list[Event]:
        """The events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def counters(self) -> dict[str, int]:
        """A copy of the counters; all names of epic.toml are present."""
        mine = frames.as_dict(self._counters)
        return {name: count + self._undecoded[name] for name, count in mine.items()}

    # ------------------------------------------------------------------------------------------- packets

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived on `port`."""
        arrivals, departures = self._single()
        row = int(find_edge(self.edges.places, self.edges.rows, packet.qpn))
        arrive(arrivals, port, packet, None if row == NO_EDGE else self.edges.edges[row])
        output = Output()
        first = 0
        while first < arrivals.count:
            first = self.receive_batch(arrivals, first, departures, now)
            self._collect(departures, output)
        return output

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived on `port`; one that cannot be decoded is counted by reason and dropped."""
        packet = decode_or_count(frame, self._undecoded)
        return Output() if packet is None else self.receive(port, packet, now)

    def poll(self, now: float) -> Output:
        """Run the timers that are due."""
        _, departures = self._single()
        output = Output()
        while (due := self.next_deadline()) is not None and due <= now:
            self.poll_batch(departures, now)
            self._collect(departures, output)
        return output

    def _single(self) -> tuple[Arrivals, Departures]:
        """Room for one packet, and for what a call causes; it is not there before packets are used."""
        if self._one is None:
            self._one = Arrivals(1, DATAGRAM_BYTES), frames.departures(2 * self.burst)
        return self._one

    def _collect(self, departures: Departures, output: Output) -> None:
        output.sends += departed(departures, self.edges)
        output.events += self.take_events()
        departures.clear()
