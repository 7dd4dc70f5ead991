"""Signals that end a run: turned into an exception once, and kept away while things are cleaned up."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal asked the run to end; `number` is which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise Interrupted inside, once; then they are ignored. Main thread only."""

    def on_signal(number: int, frame: object) -> None:
        for ending in ENDING:
            signal.signal(ending, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, on_signal) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """The signals that end a run are ignored inside. Main thread only."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
