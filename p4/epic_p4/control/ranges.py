"""Who has which slots and which numbers: allocators without a switch."""

from __future__ import annotations

from epic_spec.errors import ResourceError


class SlotRanges:
    """Aligned power-of-two ranges of one slot memory, first fit.

    A range is aligned to its size, so that the data plane finds a slot as `base + (cell & mask)` and may or the two.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._taken: dict[int, int] = {}  # base -> count

    def take(self, count: int, who: str) -> int:
        """The base of a free range of `count` slots, a power of two. Raises ResourceError."""
        for base in range(0, self.total - count + 1, count):
            if self._is_free(base, count):
                self._taken[base] = count
                return base
        raise ResourceError(
            f"{who}: slots = {count}, expected at most {self.largest_free()}: "
            f"{self.free()} of {self.total} slots of this switch are free"
        )

    def give_back(self, base: int) -> None:
        """Free the range at `base`."""
        del self._taken[base]

    def free(self) -> int:
        """How many slots nobody has."""
        return self.total - sum(self._taken.values())

    def largest_free(self) -> int:
        """The largest range that `take` would find, 0 for none."""
        count = 1 << max(self.total.bit_length() - 1, 0)
        while count and not any(
            self._is_free(base, count) for base in range(0, self.total - count + 1, count)
        ):
            count >>= 1
        return count

    def _is_free(self, base: int, count: int) -> bool:
        return all(base + count <= other or other + size <= base for other, size in self._taken.items())


class Numbers:
    """Numbers from `first` to `last`; one given back is used again as late as possible.

    A frame that is still on its way through the switch carries the number of an edge that may be gone by then: a
    number taken at once by another group would send that frame over the wrong edge.
    """

    def __init__(self, first: int, last: int, what: str) -> None:
        self._first, self._last, self._what = first, last, what
        self._next = first
        self._taken: set[int] = set()

    def take(self, count: int, who: str) -> tuple[int, ...]:
        """`count` numbers. Raises ResourceError, and has taken none then."""
        room = self._last - self._first + 1 - len(self._taken)
        if count > room:
            raise ResourceError(f"{who}: needs {count} {self._what}, expected at most {room} (those free)")
        found: list[int] = []
        while len(found) < count:
            number = self._next
            self._next = self._first if number == self._last else number + 1
            if number not in self._taken:
                self._taken.add(number)
                found.append(number)
        return tuple(found)

    def give_back(self, numbers: tuple[int, ...]) -> None:
        """Free numbers."""
        self._taken.difference_update(numbers)
