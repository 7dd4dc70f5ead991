"""Seeded faults on a stream of frames: loss, duplication, reordering, corruption.

Sans-I/O, so that the in-memory network and the socket transports inject the same faults in the same way.
The decisions are repeatable: each kind of fault has random streams of its own, derived from the seed (those
of a frame apart from those of its duplicate), and every frame takes its decisions from them. Changing the
rate of one kind therefore leaves the decisions of the others as they were.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from random import Random
from typing import Generic, TypeVar

from epic_spec.errors import ConfigError

T = TypeVar("T", bound=Hashable)

# A reordered frame is overtaken by this many frames at most.
MAX_OVERTAKERS = 8
MAX_FLIPPED_BITS = 3


@dataclass(frozen=True, slots=True)
class FaultRates:
    """Probability of each fault per frame, from 0 to 1. Raises ConfigError for a value outside."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ConfigError(f"faults: {f.name} = {value!r}, expected a number from 0 to 1")

    @property
    def any(self) -> bool:
        """Whether any rate is above 0."""
        return bool(self.loss or self.duplicate or self.reorder or self.corrupt)


@dataclass(slots=True)
class FaultCounts:
    """How many frames each fault has hit so far."""

    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0

    def to_dict(self) -> dict[str, int]:
        """The counts by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(slots=True, eq=False)
class _Held(Generic[T]):
    """A reordered frame: it leaves when `overtakers` reaches 0 or at `deadline` (seconds)."""

    key: T
    frame: bytes
    deadline: float
    overtakers: int


class FaultInjector(Generic[T]):
    """Faults on the frames pushed into it; `key` names the link, and order is kept or broken per key.

    A frame may be lost; a duplicated one leaves twice; each copy may have 1 to 3 bits flipped, and may be
    held back until 1 to 8 later frames of its key were pushed or `hold` seconds went by, whichever is first.
    """

    def __init__(self, rates: FaultRates, seed: int, hold: float = 0.002) -> None:
        self.rates = rates
        self.counts = FaultCounts()
        self._hold = hold
        self._active = rates.any
        self._loss, self._duplicate = (Random(f"{seed}/{kind}") for kind in ("loss", "duplicate"))
        # For the frame and for its duplicate.
        self._corrupt = [Random(f"{seed}/corrupt/{copy}") for copy in range(2)]
        self._reorder = [Random(f"{seed}/reorder/{copy}") for copy in range(2)]
        # In the order of arrival, which with a constant hold is the order of deadlines.
        self._held: list[_Held[T]] = []

    def push(self, key: T, frame: bytes, now: float, *, first: int = 0) -> list[tuple[T, bytes]]:
        """The frames that leave now because `frame` came, in order.

        Bits are flipped only at byte offsets from `first` on (the part that an integrity check protects).
        """
        if not self._active:
            return [(key, frame)]
        rates, counts = self.rates, self.counts
        lost = self._loss.random() < rates.loss
        duplicated = self._duplicate.random() < rates.duplicate
        leaving: list[tuple[T, bytes]] = []
        held: list[_Held[T]] = []
        if lost:
            counts.lost += 1
        else:
            counts.duplicated += duplicated
        # The decisions of a lost frame are drawn too, so that the streams stay in step with the frames.
        for i in range(1 + duplicated):
            copy, corrupted = self._corrupted(frame, first, self._corrupt[i])
            overtakers = self._overtakers(self._reorder[i])
            if lost:
                continue
            counts.corrupted += corrupted
            if overtakers:
                counts.reordered += 1
                held.append(_Held(key, copy, now + self._hold, overtakers))
            else:
                leaving.append((key, copy))
        leaving += self._overtaken(key)
        self._held += held
        return leaving

    def poll(self, now: float) -> list[tuple[T, bytes]]:
        """The held frames whose time is up."""
        due = 0
        while due < len(self._held) and self._held[due].deadline <= now:
            due += 1
        if not due:
            return []
        leaving = [(h.key, h.frame) for h in self._held[:due]]
        del self._held[:due]
        return leaving

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""
        return self._held[0].deadline if self._held else None

    def _overtaken(self, key: T) -> list[tuple[T, bytes]]:
        """Held frames of `key` that one more frame has now passed often enough."""
        if not self._held:
            return []
        leaving: list[tuple[T, bytes]] = []
        for h in [h for h in self._held if h.key == key]:
            h.overtakers -= 1
            if not h.overtakers:
                self._held.remove(h)
                leaving.append((key, h.frame))
        return leaving

    def _overtakers(self, stream: Random) -> int:
        """By how many frames this one is to be overtaken; 0 when it keeps its place."""
        return stream.randint(1, MAX_OVERTAKERS) if stream.random() < self.rates.reorder else 0

    def _corrupted(self, frame: bytes, first: int, stream: Random) -> tuple[bytes, bool]:
        """The frame, maybe with flipped bits, and whether it has any."""
        if stream.random() >= self.rates.corrupt or len(frame) <= first:
            return frame, False
        bits = range(first * 8, len(frame) * 8)
        flipped = bytearray(frame)
        for bit in stream.sample(bits, min(len(bits), stream.randint(1, MAX_FLIPPED_BITS))):
            flipped[bit >> 3] ^= 1 << (bit & 7)
        return bytes(flipped), True
