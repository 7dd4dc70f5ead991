"""A collective that was started: its completion, its error, its result."""

from __future__ import annotations

import threading
from typing import Any

from numpy.typing import NDArray

from epic_spec.errors import DeadlineError, EpicError


class Handle:
    """What a collective called with `async_op=True` returns. Its methods may be called from any thread."""

    def __init__(self, description: str, result: NDArray[Any] | None) -> None:
        self.description = description
        self._result = result
        self._ended = threading.Event()
        self._error: EpicError | None = None

    def done(self) -> bool:
        """Whether the collective has ended, with its result or with an error."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end, at most `timeout` seconds.

        Raises DeadlineError when the time is over (the collective goes on), else what ended the collective.
        Without a timeout the wait still ends: a collective that makes no progress fails at the deadline of
        its communicator.
        """
        if not self._ended.wait(timeout):
            raise DeadlineError(f"{self.description}: not done within {timeout:g} s")
        if self._error is not None:
            raise self._error.with_traceback(None)

    def result(self, timeout: float | None = None) -> NDArray[Any] | None:
        """Wait as `wait` does and give the array with the result; None where this rank receives none."""
        self.wait(timeout)
        return self._result

    def _end(self, error: EpicError | None = None) -> None:
        """Called once, by the communicator."""
        if not self._ended.is_set():
            self._error = error
            self._ended.set()
