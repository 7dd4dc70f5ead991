"""How the manager says no: one exception, the word for programs on it, at the server and at the client alike."""

from __future__ import annotations

from typing import Final

from epic_spec.errors import ConfigError, EpicError, ResourceError

# The words of the table in manager.proto.
INVALID: Final = "invalid"
EXISTS: Final = "exists"
NOT_FOUND: Final = "not_found"
NOT_YOURS: Final = "not_yours"
WHO: Final = "who"
NO_RESOURCE: Final = "no_resource"
RATE: Final = "rate"
STATE: Final = "state"
EPOCH: Final = "epoch"
STOPPING: Final = "stopping"
BUSY: Final = "busy"
FAILED: Final = "failed"
SLOW: Final = "slow"


class RefusedError(EpicError):
    """A request that the manager refused; nothing changed. `reason` is a word of the table in manager.proto."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class InvalidRequestError(RefusedError, ConfigError):
    """A field is not what was expected (`invalid`)."""


class NoResourceError(RefusedError, ResourceError):
    """The network was asked for and cannot be had (`no_resource`)."""


class NotAllowedError(RefusedError):
    """Another job's group, a role that may not do this, or nobody the manager knows (`not_yours`, `who`)."""


class ManagerUnreachableError(EpicError):
    """The manager did not answer in time, or is not there."""


_KINDS: Final[dict[str, type[RefusedError]]] = {
    INVALID: InvalidRequestError,
    NO_RESOURCE: NoResourceError,
    NOT_YOURS: NotAllowedError,
    WHO: NotAllowedError,
}


def refused(reason: str, text: str) -> RefusedError:
    """The error for a reason."""
    return _KINDS.get(reason, RefusedError)(reason, text)
