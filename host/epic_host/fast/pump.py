"""The loop of a node, compiled: receive, check, work, contribute, send, sleep, without a step of Python a batch.

`Pump.run` goes round until something is to be done that it cannot do: a timer is due, events wait, the other threads
want their turn. What it does between is what `driver.BatchLoop` does step by step, with the node's kernels by address
(see `pointers`). It does not work longer than `SLICE` at a stretch, so that signals, requests and other threads get
their turn.
"""

from __future__ import annotations

import os
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from epic_host.fast.compiled import Word, compiled, load32, types
from epic_host.fast.frames import ARRIVAL, RIGHT, Arrivals, Departures
from epic_host.fast.inbox import receive
from epic_host.fast.outbox import transmit
from epic_host.fast.pointers import Prototype
from epic_host.fast.queues import DEPARTURES, departures_world
from epic_host.fast.syscalls import (
    CLOCK_MONOTONIC,
    CLOCK_THREAD,
    EPOLL_EVENT,
    FATAL,
    TIME,
    clock_gettime,
    epoll_wait,
    i8,
    read,
    u8,
)
from epic_host.fast.wire import admit_at
from epic_host.fast.world import Shape, World
from epic_spec.errors import EpicError

if TYPE_CHECKING:
    from epic_host.fast.node import FastNode
    from epic_host.fast.udp import FastUdpTransport

# Seconds of work at a stretch.
SLICE: Final = 0.05

# Why `run` came back. NOTHING: nothing waits, and it may not sleep. DUE: a timer is, or the time it was to come back.
# TURN: the others' turn. WOKEN: by the descriptor that wakes, or a signal. EVENTS: the node has some, and must take
# them before the next batch comes. STRANGERS: senders whose port has to be looked up. FED: all of the supply is
# contributed. STUCK: a frame is not worked on although nothing is queued. FAILED: `error` says how.
NOTHING, DUE, TURN, WOKEN, EVENTS, STRANGERS, FED, STUCK, FAILED = range(9)
_TAKEN: Final = 9

# Addresses of kernels and of what they work on, 0 for what a node does not have; descriptors, -1 for none.
# Of the batch that was received last, `count` arrivals, those from `first` on are not handled yet; `fresh`: they are
# not admitted. `received` counts arrivals. `until`: when to come back at the latest. `nap`: seconds that it sleeps at
# most when nothing comes. `stop`: another thread wants its turn. `trusted`: nobody asks for an ICRC. `timed`: add up
# the processor time spent in receiving, sending and kernels.
STATE: Final = np.dtype(
    [
        ("receive", "i8"), ("transmit", "i8"), ("admit", "i8"), ("work", "i8"), ("due", "i8"), ("feed", "i8"),
        ("start", "i8"), ("inbox", "i8"), ("outbox", "i8"), ("admission", "i8"), ("world", "i8"), ("cells", "i8"),
        ("attention", "u8"), ("arena", "i8"), ("address", "i8"), ("fd", "i8"), ("epoll", "i8"), ("wake", "i8"),
        ("count", "i8"), ("first", "i8"), ("fresh", "i8"), ("received", "i8"), ("error", "i8"), ("stop", "i8"),
        ("trusted", "i8"), ("timed", "i8"), ("until", "f8"), ("nap", "f8"),
        ("receiving", "f8"), ("sending", "f8"), ("working", "f8"),
    ]
)  # fmt: skip

_PUMP: Final = Shape(
    "Pump",
    {
        "state": STATE, "found": np.int64, "records": ARRIVAL, "generation": np.int64, "departures": DEPARTURES,
        "polled": EPOLL_EVENT, "clock": TIME,
    },
)  # fmt: skip
_pump_at: Final = _PUMP.at

_RECEIVE: Final = Prototype(types.int64, types.int64, types.int64)
_TRANSMIT: Final = Prototype(types.int64, types.int64, types.int64)
_ADMIT: Final = Prototype(types.void, types.int64, types.int64, types.int64, types.int64, types.int64)
# Of a mode: (world, arena, first, stop, now), (world, limit), (world, count, now), (world).
WORK: Final = Prototype(types.int64, types.int64, types.int64, types.int64, types.int64, types.float64)
FEED: Final = Prototype(types.int64, types.int64, types.int64)
START: Final = Prototype(types.void, types.int64, types.int64, types.float64)
DUE_AT: Final = Prototype(types.float64, types.int64)
_call_receive, _call_transmit, _call_admit = _RECEIVE.call, _TRANSMIT.call, _ADMIT.call
_call_work, _call_feed, _call_start, _call_due = WORK.call, FEED.call, START.call, DUE_AT.call


class Kernels(NamedTuple):
    """A node's kernels by address, and what they work on: `world` for `work` and `start`, `cells` for `feed` and `due`.

    `attention` is the address of a word that is not 0 when the node has events to take. 0: the node has no such thing.
    """

    work: int
    world: int
    due: int = 0
    cells: int = 0
    feed: int = 0
    start: int = 0
    attention: int = 0
    trusted: bool = False


# ------------------------------------------------------------------------------------------- compiled


@compiled
def _time(w: Any, clock: Word) -> Word:
    """Seconds of a clock, as Python counts them."""
    clock_gettime(clock, w.clock.ctypes.data)
    return w.clock[0].seconds + 1e-9 * w.clock[0].nanoseconds


@compiled
def _spent(w: Any) -> Word:
    """The thread's processor time, where somebody wants to know."""
    return _time(w, CLOCK_THREAD) if w.state[0].timed else 0.0


@compiled
def _receive(w: Any) -> Word:
    """Take the next batch."""
    s = w.state[0]
    s.first = s.count = 0
    begun = _spent(w)
    taken = _call_receive(s.receive, (s.fd, s.inbox))
    s.receiving += _spent(w) - begun
    if taken <= 0:
        for code in FATAL:
            if -taken == code:
                s.error = code
                return FAILED
        return NOTHING
    s.count, s.fresh = w.found[0], 1
    s.received += s.count
    return STRANGERS if w.found[1] else _TAKEN


@compiled
def _sleep(w: Any, seconds: float) -> Word:
    """Until something arrives: 1. The time is over: 0. Something else ended it: -1."""
    s = w.state[0]
    # In whole milliseconds, rounded up: no timer is waited for in vain.
    limit = -1 if seconds == np.inf else i8(min(np.ceil(seconds * 1e3), 1e9))
    ready = i8(epoll_wait(s.epoll, w.polled.ctypes.data, len(w.polled), limit))
    if ready < 0:
        return -1
    code = 1 if ready else 0
    for k in range(ready):
        if i8(w.polled[k].data) == s.wake:
            # The counter of an eventfd, 8 bytes; its value says nothing.
            read(s.wake, w.clock.ctypes.data, u8(8))
            code = -1
    return code


@compiled
def _handle(w: Any, now: float) -> Word:
    """Work on what was received, contribute what the window takes then, and send."""
    s, out = w.state[0], w.departures
    begun = _spent(w)
    if s.fresh:
        s.fresh = 0
        if s.trusted:
            for i in range(s.count):
                w.records[i].icrc = RIGHT
        _call_admit(s.admit, (s.admission, s.arena, 0, s.count, s.address))
    if not out.count[0]:
        w.generation[0] += 1
    done = _call_work(s.work, (s.world, s.arena, s.first, s.count, now))
    stuck = done == s.first
    s.first = done
    fed = _feed(w, now)
    s.working += _spent(w) - begun
    told = s.attention and load32(s.attention)
    if out.count[0]:
        stuck = False
        begun = _spent(w)
        s.error = _call_transmit(s.transmit, (s.fd, s.outbox))
        s.sending += _spent(w) - begun
        out.count[0] = 0
        if s.error:
            return FAILED
    if told:
        return EVENTS
    if stuck:
        return STUCK
    return FED if fed else _TAKEN


@compiled
def _feed(w: Any, now: float) -> Word:
    """Contribute; whether there is no more to contribute."""
    s, out = w.state[0], w.departures
    if not s.feed:
        return False
    free = len(out.body) - out.count[0]
    count = _call_feed(s.feed, (s.cells, free))
    if count > 0:
        _call_start(s.start, (s.world, count, now))
    return count < 0


@compiled
def _due(w: Any) -> Word:
    """When to come back, or when a timer is due."""
    s = w.state[0]
    return min(s.until, _call_due(s.due, (s.cells,))) if s.due else s.until


@compiled
def run(address: Word) -> Word:
    """Go round; why it ended."""
    w = _pump_at(address)
    s = w.state[0]
    begun = now = _time(w, CLOCK_MONOTONIC)
    worked = False
    while True:
        code = _TAKEN if s.first < s.count else _receive(w)
        if code == NOTHING and s.epoll >= 0:
            now, due = _time(w, CLOCK_MONOTONIC), _due(w)
            # Python looked for signals before this began; one that came since would be slept over. So this ends after
            # a slice, unless nothing has happened at all.
            latest = min(due, begun + SLICE) if worked else due
            if latest <= now:
                return DUE if due <= now else TURN
            slept = _sleep(w, min(latest - now, s.nap))
            if slept < 0:
                return WOKEN
            if slept or latest - now <= s.nap:
                continue
        if code == _TAKEN:
            now = _time(w, CLOCK_MONOTONIC)
            code, worked = _handle(w, now), True
        if code != _TAKEN:
            return code
        if _due(w) <= now:
            return DUE
        if s.stop or now > begun + SLICE:
            return TURN


# ------------------------------------------------------------------------------------------- for Python

_RUN: Final = Prototype(types.int64, types.int64)


def load() -> None:
    """Load what is compiled here, or compile it."""
    _RUN.address(run)


class Pump:
    """The compiled loop of a node over a transport, with their arrivals and departures."""

    def __init__(
        self, node: FastNode, transport: FastUdpTransport, arrivals: Arrivals, departures: Departures
    ) -> None:
        self.node = node
        self.departures = departures
        self._transport = transport
        self._arrivals = arrivals
        node.make_frames(len(arrivals.records))
        self._state = np.zeros(1, STATE)
        s = self._s = self._state[0]
        s["receive"], s["transmit"] = _RECEIVE.address(receive), _TRANSMIT.address(transmit)
        s["admit"] = _ADMIT.address(admit_at)
        s["fd"], s["epoll"], s["wake"] = transport.filenos()[0], -1, -1
        s["arena"], s["address"] = arrivals.arena_address, arrivals.address
        s["inbox"] = transport.inbox.address(arrivals)
        self._world = _PUMP.make(
            state=self._state,
            found=transport.inbox.found,
            records=arrivals.records,
            generation=node.generation,
            departures=departures_world(departures),
            polled=np.zeros(4, EPOLL_EVENT),
            clock=np.zeros(1, TIME),
        )
        self._feed = 0
        # Kept, for kernels know addresses only.
        self._seen: object = None
        self._admission: World | None = None

    @property
    def pending(self) -> bool:
        """Whether a batch is not all worked on; nothing else may take arrivals then."""
        return bool(self._s["first"] != self._s["count"])

    def stop(self) -> None:
        """Let `run` come back soon. From any thread."""
        self._s["stop"] = 1

    def run(
        self, until: float = inf, epoll: int = -1, wake: int = -1, nap: float = inf, feeds: bool = False
    ) -> int:
        """Go round until the time `until` at the latest; why it ended. What the node has to tell is among its events.

        With an `epoll` descriptor it sleeps there, `nap` seconds at a time; `wake` is an eventfd that ends the sleep.
        `feeds`: the node has a supply. Raises OSError for a socket that is none any more.
        """
        s = self._s
        self._refresh()
        s["until"], s["epoll"], s["wake"], s["nap"] = until, epoll, wake, nap
        s["feed"] = self._feed if feeds else 0
        clock = self._transport.clock
        s["timed"] = clock is not None
        code = run(self._world.address)
        s["stop"] = 0
        if clock is not None:
            for name, field in (("receive", "receiving"), ("send", "sending"), ("kernels", "working")):
                clock[name] += float(s[field])
                s[field] = 0
        self._transport.took(int(s["received"]))
        s["received"] = 0
        self.node.settle()
        if code == STRANGERS:
            self._transport.resolve(self._arrivals, int(s["count"]))
        elif code == FAILED:
            raise OSError(int(s["error"]), os.strerror(int(s["error"])))
        elif code == STUCK:
            first, count = int(s["first"]), int(s["count"])
            raise EpicError(f"arrival {first} of {count} is not worked on, expected it with an empty queue")
        return int(code)

    def _refresh(self) -> None:
        """Tables may have been replaced since."""
        node, s = self.node, self._s
        if node.tables is self._seen and self._seen is not None:
            return
        kernels = node.kernels(self.departures)
        s["work"], s["world"], s["due"], s["cells"] = (
            kernels.work,
            kernels.world,
            kernels.due,
            kernels.cells,
        )
        s["start"], s["attention"], s["trusted"] = kernels.start, kernels.attention, kernels.trusted
        self._admission = node.admission(self._arrivals)
        s["admission"] = self._admission.address
        s["outbox"] = self._transport.outbox.address(self.departures, node.edges.rows)
        self._feed = kernels.feed
        self._seen = node.tables
