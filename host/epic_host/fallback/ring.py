"""The ring: cell s is combined along the ring up to rank s mod n, and its result goes on round it.

Every rank sends to the next one only. With o = s mod n, the *owner* of cell s, and positions counted from o + 1:

* first pass, from position 0 to the owner: each rank waits for the partial of the one before, adds its own
  contribution, sends it on. At the owner every rank has contributed (P3).
* second pass, from the owner to the position before it: the result.

So each rank sends 2(n-1)/n messages a cell, and the owners take turns. Agreement always makes both passes in full;
payloads take part of the way where that is enough: in a Reduce to d they start behind d (ranks up to d contribute
to the agreement in the first pass, and add their data in the second), in a Broadcast they go from the source once
round. Both then load a link with (n-1)/n of the data, AllReduce with 2(n-1)/n.

The order of addition of a cell follows from its number and n (for a Reduce, from its destination), so every rank gets
the same bits, and so does a program that is run again. The same collective called at another place of a program may
add in another order.
"""

from __future__ import annotations

from epic_host.fallback.agent import HostAgent, with_payload
from epic_host.fallback.message import Arrived
from epic_host.fallback.value import Partial, merge, rank_of, result_payload
from epic_host.grants import HostPlan
from epic_models.reference.cells import primitive
from epic_models.reference.interfaces import Output
from epic_spec.packets import AGREEMENT_MASK
from epic_spec.tables import Primitive

FIRST, SECOND = 0, 1


class RingAgent(HostAgent):
    """A rank on the ring."""

    def __init__(self, plan: HostPlan, rank: int) -> None:
        super().__init__(plan, rank)
        self._before = (rank - 1) % self.world_size
        self._after = (rank + 1) % self.world_size
        self._early: dict[int, Partial] = {}  # first pass of cells that this rank has not contributed
        self._first: dict[int, Partial] = {}  # own contributions that wait for the first pass
        # Then for the second: own contributions, and of a Broadcast what the first pass brought.
        self._second: dict[int, Partial] = {}

    def _position(self, rank: int, cell: int) -> int:
        """Where a rank stands on the way of a cell: 0 starts, n - 1 owns it."""
        return (rank - cell - 1) % self.world_size

    def _named(self, held: int, cell: int) -> int:
        """The position of the destination or source that a descriptor names; the owner's when it names none."""
        rank = rank_of(held)
        return self._position(rank, cell) if rank < self.world_size else self.world_size - 1

    def _joins_late(self, held: int, cell: int) -> bool:
        """Whether this rank's payload is added in the second pass: it is not behind a Reduce's destination."""
        last = self.world_size - 1
        return (
            primitive(held) == Primitive.REDUCE
            and self._position(self.rank, cell) <= self._named(held, cell) < last
        )

    # ------------------------------------------------------------------------------------------------ passes

    def _contributed(self, cell: int, own: Partial, output: Output, now: float) -> None:
        early = self._early.pop(cell, None)
        if early is None and self._position(self.rank, cell):
            self._first[cell] = own
        else:
            self._first_pass(cell, own, early, output, now)

    def _arrived(self, peer: int, cell: int, step: int, partial: Partial, output: Output, now: float) -> None:
        if step == SECOND:
            self._second_pass(cell, partial, output, now)
        elif cell in self._first:
            self._first_pass(cell, self._first.pop(cell), partial, output, now)
        else:
            self._early[cell] = partial

    def _first_pass(
        self, cell: int, own: Partial, before: Partial | None, output: Output, now: float
    ) -> None:
        """This rank's turn in the first pass: `before` is what the ranks before it contributed."""
        late = self._joins_late(own.held, cell)
        mine = own.without_payload() if late else own
        partial = mine if before is None else merge(self.params, before, mine)
        if self._position(self.rank, cell) == self.world_size - 1:
            self._turn(cell, partial, output, now)
            return
        self._second[cell] = own if late else partial
        self._send(self._after, cell, FIRST, partial, output, now)

    def _turn(self, cell: int, partial: Partial, output: Output, now: float) -> None:
        """The first pass ends at this rank, the owner: the second one begins."""
        if not self._passes_partial(partial.held) or rank_of(partial.held) == self.rank:
            partial = with_payload(partial, result_payload(self.params, partial))
        self._finish(cell, partial, output, now)

    def _second_pass(self, cell: int, partial: Partial, output: Output, now: float) -> None:
        kept = self._second.pop(cell)
        if not partial.err:
            if self._joins_late(kept.held, cell):
                partial = merge(self.params, partial, kept)
                if rank_of(kept.held) == self.rank:
                    partial = with_payload(partial, result_payload(self.params, partial))
            elif primitive(kept.held) == Primitive.BROADCAST and partial.payload is None:
                partial = with_payload(partial, kept.payload)
        self._finish(cell, partial, output, now)

    def _finish(self, cell: int, partial: Partial, output: Output, now: float) -> None:
        """Send a cell in its second pass on, and take its result."""
        position = (self._position(self.rank, cell) + 1) % self.world_size
        if position < self.world_size - 1:
            needed = self._is_needed_from(position, partial.held, cell)
            self._send(
                self._after, cell, SECOND, partial if needed else partial.without_payload(), output, now
            )
        mine = partial if self._receives(partial.held) else partial.without_payload()
        self._completed(cell, mine)

    def _is_needed_from(self, position: int, held: int, cell: int) -> bool:
        """Whether the rank at a position, or one behind it, needs the payload in the second pass."""
        named = self._named(held, cell)
        if primitive(held) == Primitive.REDUCE:
            return position <= named < self.world_size - 1
        return primitive(held) != Primitive.BROADCAST or position < named

    def _passes_partial(self, held: int) -> bool:
        """Whether the second pass has partials, not results: ranks of a Reduce add to them."""
        return primitive(held) == Primitive.REDUCE

    # ------------------------------------------------------------------------------------------------ checks

    def _expects(self, peer: int, cell: int, step: int) -> bool:
        if peer != self._before:
            return False
        position = self._position(self.rank, cell)
        if step == FIRST:
            waits = cell in self._first or (cell >= self._next and cell not in self._early)
            return position > 0 and waits
        return step == SECOND and cell in self._second

    def _is_result(self, arrived: Arrived) -> bool:
        return arrived.step == SECOND and not self._passes_partial(arrived.imm & AGREEMENT_MASK)

    def _blocking(self, cell: int) -> frozenset[int]:
        return frozenset({self._before} - {self.rank})
