"""Recursive doubling: after round k every rank has the partial of 2^(k+1) ranks, after log2(n) the result.

In round k a rank and its partner, whose numbers differ in bit k, send each other what they have and both combine the
two, the lower rank's first. With m the largest power of two not above n, rank r >= m is folded into rank r - m: it
sends its contribution there before round 0 and gets the result from there after the last.

Agreement always goes the whole way, payloads where they are needed: in a Reduce along the tree that ends at the
destination, in a Broadcast along the one that begins at the source.

What is combined is what was sent, so both partners compute the same bits, and all ranks get the same result; the order
of addition is a function of n alone (for a Reduce too), so a result can be reproduced wherever it is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from epic_host.fallback.agent import HostAgent, with_payload
from epic_host.fallback.message import Arrived
from epic_host.fallback.value import Partial, merge, rank_of, result_payload
from epic_host.grants import HostPlan
from epic_models.reference.cells import primitive
from epic_models.reference.interfaces import Output
from epic_spec.tables import Primitive

# Steps: a contribution that is folded in, round k, a result that is folded out.
FOLD_IN, ROUND, FOLD_OUT = 0, 1, 0x80


def base_size(n: int) -> int:
    """The ranks that exchange: the largest power of two not above n."""
    return 1 << n.bit_length() - 1


def partners(rank: int, n: int) -> dict[int, int]:
    """The ranks that `rank` is connected with, each with the step in which it sends to `rank`."""
    base = base_size(n)
    if rank >= base:
        return {rank - base: FOLD_OUT}
    steps = {rank ^ 1 << k: ROUND + k for k in range(base.bit_length() - 1)}
    return steps | ({rank + base: FOLD_IN} if rank + base < n else {})


@dataclass(slots=True)
class _Cell:
    """An outstanding cell: what this rank has of it, and the index of the step that it waits in."""

    value: Partial
    step: int = 0


class DoublingAgent(HostAgent):
    """A rank of recursive doubling."""

    def __init__(self, plan: HostPlan, rank: int) -> None:
        super().__init__(plan, rank)
        self._base = base_size(self.world_size)
        self._steps = partners(rank, self.world_size)
        # Whom this rank waits for, one after the other: what is folded in, then the rounds.
        self._order = sorted(self._steps, key=lambda peer: self._steps[peer])
        self._cells: dict[int, _Cell] = {}
        self._early: dict[tuple[int, int], Partial] = {}  # by cell and peer

    def _folded(self, rank: int) -> int:
        """The rank of the base that acts for a rank."""
        return rank - self._base if rank >= self._base else rank

    # ------------------------------------------------------------------------------------------------ rounds

    def _contributed(self, cell: int, own: Partial, output: Output, now: float) -> None:
        self._cells[cell] = _Cell(own)
        self._enter(cell, output, now)
        self._advance(cell, output, now)

    def _arrived(self, peer: int, cell: int, step: int, partial: Partial, output: Output, now: float) -> None:
        self._early[cell, peer] = partial
        if cell in self._cells:
            self._advance(cell, output, now)

    def _enter(self, cell: int, output: Output, now: float) -> None:
        """Send what this rank says first in the step that it has come to."""
        state = self._cells[cell]
        if state.step == len(self._order):
            return
        peer = self._order[state.step]
        if self.rank >= self._base:
            self._send(peer, cell, FOLD_IN, state.value, output, now)
        elif peer < self._base:
            needed = self._is_needed_by(peer, state.value.held)
            value = state.value if needed else state.value.without_payload()
            self._send(peer, cell, self._steps[peer], value, output, now)

    def _advance(self, cell: int, output: Output, now: float) -> None:
        """Go through the steps whose messages are here."""
        state = self._cells[cell]
        while state.step < len(self._order):
            peer = self._order[state.step]
            theirs = self._early.pop((cell, peer), None)
            if theirs is None:
                return
            if self.rank >= self._base:
                self._fold_out(cell, theirs)
                return
            first, second = (state.value, theirs) if self.rank < peer else (theirs, state.value)
            state.value = merge(self.params, first, second)
            state.step += 1
            self._enter(cell, output, now)
        self._finish(cell, output, now)

    def _finish(self, cell: int, output: Output, now: float) -> None:
        """All rounds are over: this rank of the base has the result."""
        value = self._cells.pop(cell).value
        result = with_payload(value, result_payload(self.params, value))
        extra = self.rank + self._base
        if extra < self.world_size:
            needed = primitive(value.held) == Primitive.ALLREDUCE or (
                (primitive(value.held) == Primitive.REDUCE) == (rank_of(value.held) == extra)
            )
            self._send(extra, cell, FOLD_OUT, result if needed else result.without_payload(), output, now)
        self._completed(cell, result if self._receives(value.held) else result.without_payload())

    def _fold_out(self, cell: int, result: Partial) -> None:
        """The result came to a rank that is not of the base; the source of a Broadcast has the data itself."""
        own = self._cells.pop(cell).value
        if not result.err and primitive(own.held) == Primitive.BROADCAST and own.payload is not None:
            result = with_payload(result, own.payload)
        self._completed(cell, result)

    def _is_needed_by(self, peer: int, held: int) -> bool:
        """Whether a partner needs the payload of this round: a Reduce's only on the way to its destination."""
        if primitive(held) != Primitive.REDUCE:
            return True
        so_far = ((self.rank ^ peer) << 1) - 1  # the bits of this round and those before
        return not (peer ^ self._folded(rank_of(held))) & so_far

    # ------------------------------------------------------------------------------------------------ checks

    def _expects(self, peer: int, cell: int, step: int) -> bool:
        if step != self._steps[peer] or (cell, peer) in self._early:
            return False
        state = self._cells.get(cell)
        if state is None:
            # An extra rank is sent nothing but the answer to its contribution.
            return cell >= self._next and self.rank < self._base
        return self._order.index(peer) >= state.step

    def _is_result(self, arrived: Arrived) -> bool:
        return arrived.step == FOLD_OUT

    def _blocking(self, cell: int) -> frozenset[int]:
        state = self._cells[cell]
        return frozenset({self._order[state.step]})
