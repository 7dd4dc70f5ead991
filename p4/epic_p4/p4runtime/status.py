"""Canonical errors of P4Runtime, and how a batch reports them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

from finsy.proto import p4r, rpc_status

from epic_p4.runtime.errors import (
    AlreadyExistsError,
    NotFoundError,
    OutOfRangeError,
    ReadOnlyError,
    TableFullError,
)
from epic_spec.errors import EpicError


class Code(IntEnum):
    """Canonical codes of gRPC that this server uses."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12


class Refusal(EpicError):
    """A request, a stream or one update that is refused; its message is one line."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class BatchRefusal(EpicError):
    """Some elements of a batch were refused: one entry an element, None where it was done."""

    def __init__(self, what: str, results: Sequence[Refusal | None]) -> None:
        failed = [result for result in results if result is not None]
        super().__init__(f"{what}: {len(failed)} of {len(results)} refused, the first: {failed[0].message}")
        self.results = tuple(results)

    def status(self) -> rpc_status.Status:
        """UNKNOWN, with a p4.v1.Error for every element in order, also for those that were done."""
        status = rpc_status.Status(code=Code.UNKNOWN, message=str(self))
        for result in self.results:
            error = p4r.Error(canonical_code=Code.OK)
            if result is not None:
                error = p4r.Error(canonical_code=result.code, message=result.message, space="epic")
            status.details.add().Pack(error)
        return status


_CODES: tuple[tuple[type[EpicError], Code], ...] = (
    (NotFoundError, Code.NOT_FOUND),
    (AlreadyExistsError, Code.ALREADY_EXISTS),
    (OutOfRangeError, Code.OUT_OF_RANGE),
    (ReadOnlyError, Code.PERMISSION_DENIED),
    (TableFullError, Code.RESOURCE_EXHAUSTED),
)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the switch says into a Refusal with its canonical code."""
    try:
        yield
    except Refusal:
        raise
    except EpicError as error:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), Code.INVALID_ARGUMENT)
        raise Refusal(code, str(error)) from None
