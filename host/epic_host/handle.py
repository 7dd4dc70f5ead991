"""A collective that was started: its completion, its error, its result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from epic_spec.errors import DeadlineError, EpicError


class Handle:
    """What a collective called with `async_op=True` returns. Its methods may be called from any thread."""

    def __init__(
        self,
        description: str,
        result: NDArray[Any] | None,
        serve: Callable[[Handle, float | None], None] | None = None,
    ) -> None:
        """`serve(handle, until)` may work towards the end in the thread that waits, until a time.monotonic time."""
        self.description = description
        self._result = result
        self._serve = serve
        self._done = False
        self._error: EpicError | None = None
        # Held until the end: whoever gets it has waited for that.
        self._gate = threading.Lock()
        self._gate.acquire()

    def done(self) -> bool:
        """Whether the collective has ended, with its result or with an error."""
        return self._done

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the end, at most `timeout` seconds.

        Raises DeadlineError when the time is over (the collective goes on), else what ended the collective.
        Without a timeout the wait still ends: a collective that makes no progress fails at the deadline of
        its communicator.
        """
        if not self._done:
            until = None if timeout is None else time.monotonic() + timeout
            if self._serve is not None:
                self._serve(self, until)
            if not self._done and not self._ended_by(until):
                raise DeadlineError(f"{self.description}: not done within {timeout:g} s")
        if self._error is not None:
            raise self._error.with_traceback(None)

    def result(self, timeout: float | None = None) -> NDArray[Any] | None:
        """Wait as `wait` does and give the array with the result; None where this rank receives none."""
        self.wait(timeout)
        return self._result

    def _ended_by(self, until: float | None) -> bool:
        if not self._gate.acquire(timeout=-1 if until is None else max(0.0, until - time.monotonic())):
            return False
        # The next one who waits.
        self._gate.release()
        return True

    def _end(self, error: EpicError | None = None) -> None:
        """Called once, by the communicator."""
        if not self._done:
            self._error = error
            self._done = True
            self._gate.release()
