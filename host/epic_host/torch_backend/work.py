"""What a collective called with `async_op=True` gives: torch's Work around handles of a communicator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any

import torch
import torch.distributed as dist

from epic_host.handle import Handle
from epic_spec.errors import DeadlineError


class EpicWork(dist._Work):
    """One collective. `handles` end it together; then `finish` completes `tensors`, in the group's own thread.

    The future has `tensors` as its value, or the error. Methods may be called from any thread.
    """

    def __init__(
        self, handles: Sequence[Handle], tensors: list[torch.Tensor], finish: Callable[[], None]
    ) -> None:
        super().__init__()
        self._handles = tuple(handles)
        self._tensors = tensors
        self._finish = finish
        self._ended = Event()
        self._error: Exception | None = None
        self._future: Any = torch.futures.Future()

    def run(self) -> None:
        """Wait for the handles, complete the tensors. The wait ends: a communicator has a deadline."""
        try:
            for handle in self._handles:
                handle.wait()
            self._finish()
        except Exception as error:
            self._error = error
        # First the event: a callback of the future may ask this work whether it is completed.
        self._ended.set()
        if self._error is None:
            self._future.set_result(self._tensors)
        else:
            self._future.set_exception(self._error)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for the end. Raises what ended the collective, DeadlineError when `timeout` (0: none) is over."""
        seconds = timeout.total_seconds()
        if not self._ended.wait(seconds if seconds > 0 else None):
            names = ", ".join(handle.description for handle in self._handles)
            raise DeadlineError(f"{names}: not done within {seconds:g} s")
        if self._error is not None:
            raise self._error.with_traceback(None)
        return True

    def synchronize(self) -> None:
        """As `wait`: there is no stream to put it on."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended, well or with an error."""
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._ended.is_set() and self._error is None

    def exception(self) -> Exception | None:
        """What ended it, or None."""
        return self._error

    def get_future(self) -> Any:
        """A future whose value is the list of tensors."""
        return self._future

    def result(self) -> list[torch.Tensor]:
        """The tensors. Raises what ended the collective."""
        self.wait()
        return self._tensors


class Finisher:
    """The thread that completes works in the order of their calls, which is the order in which they end."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    def add(self, work: EpicWork) -> EpicWork:
        """Complete `work` when its turn has come."""
        self._executor.submit(work.run)
        return work

    def close(self) -> None:
        """End the thread when what it has is done: after the communicator was closed, at once."""
        self._executor.shutdown(wait=True)
