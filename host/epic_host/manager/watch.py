"""Watchers of groups: each has a bounded queue of events, so that a slow reader costs no memory and holds up nobody."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final

from epic_host.manager import errors
from epic_host.manager.effects import Event
from epic_host.manager.errors import RefusedError, refused

# The group that watchers of the whole fabric name.
ALL: Final = ""


class Watcher:
    """One open stream. `cut` is set when nothing more comes: its reader was too slow, or the manager stops."""

    def __init__(self, group: str, client: str, bound: int, first: Iterable[Event]) -> None:
        self.group = group
        self.client = client
        self.cut: asyncio.Event = asyncio.Event()
        self._bound = bound
        # What is true at the start is not the reader's slowness, however much it is.
        self._events: deque[Event] = deque(first)
        self._spare = len(self._events)
        self._ready = asyncio.Event()
        if self._events:
            self._ready.set()
        self.refusal: RefusedError | None = None

    def push(self, event: Event) -> None:
        """Queue an event, or cut the reader off."""
        if self.cut.is_set():
            return
        if len(self._events) >= self._bound + self._spare:
            text = f"watch: more than {self._bound} events unread, expected a faster reader; watch again"
            self.end(refused(errors.SLOW, text))
        else:
            self._events.append(event)
            self._ready.set()

    def end(self, why: RefusedError) -> None:
        """Nothing more comes: the reader is told why."""
        self._events.clear()
        self.refusal = why
        self.cut.set()
        self._ready.set()

    async def next(self) -> Event:
        """The next event. Raises RefusedError when the stream was ended."""
        while not self._events:
            if self.refusal is not None:
                raise self.refusal
            self._ready.clear()
            await self._ready.wait()
        self._spare = max(0, self._spare - 1)
        return self._events.popleft()


class Watchers:
    """All open streams, at most `limit`, at most `client_limit` of one client, `bound` events waiting in each."""

    def __init__(self, limit: int, client_limit: int, bound: int) -> None:
        self._limit = limit
        self._client_limit = client_limit
        self._bound = bound
        self._by_group: dict[str, set[Watcher]] = {}
        self._clients: Counter[str] = Counter()
        self.cut_off = 0

    def __len__(self) -> int:
        return self._clients.total()

    def open(
        self, group: str, client: str, first: Callable[[], Iterable[Event]], *, bounded: bool
    ) -> Watcher:
        """A watcher of a group (ALL: of every one) whose first events are those of `first`, called when there is room.

        `bounded`: the limit of one client is that of `client` too. Raises RefusedError when there are too many.
        """
        if len(self) >= self._limit:
            raise refused(errors.RATE, f"watch: {len(self)} are open, expected at most {self._limit}")
        if bounded and self._clients[client] >= self._client_limit:
            raise refused(
                errors.RATE, f"watch: {client} has {self._client_limit} open, expected at most that many"
            )
        watcher = Watcher(group, client, self._bound, first())
        self._by_group.setdefault(group, set()).add(watcher)
        self._clients[client] += 1
        return watcher

    def close(self, watcher: Watcher) -> None:
        """Forget a watcher."""
        self._by_group[watcher.group].remove(watcher)
        if not self._by_group[watcher.group]:
            del self._by_group[watcher.group]
        self._clients[watcher.client] -= 1
        if not self._clients[watcher.client]:
            del self._clients[watcher.client]

    def publish(self, event: Event) -> None:
        """Hand an event to those who watch its group, and to those who watch all."""
        for key in {event.group, ALL}:
            for watcher in self._by_group.get(key, ()):
                before = watcher.cut.is_set()
                watcher.push(event)
                self.cut_off += watcher.cut.is_set() and not before

    def end(self) -> None:
        """The manager stops: tell everyone, so that they watch again when it is back."""
        for watchers in self._by_group.values():
            for watcher in watchers:
                watcher.end(refused(errors.STOPPING, "manager: is shutting down, expected one that runs"))
