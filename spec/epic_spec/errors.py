"""The one exception tree (architecture rule 6); its kinds are those of `[[error]]` in epic.toml."""

from __future__ import annotations

from collections.abc import Sequence


class EpicError(Exception):
    """Base of every error that EPIC raises on purpose. Its message is one line."""


class WireError(EpicError):
    """A frame that cannot be decoded or built.

    `reason` is a name from the `[[drop]]` table of epic.toml, so that a receiver counts `drop_<reason>`.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class ConfigError(EpicError):
    """A file, argument or group description is wrong; says the thing, the value and what was expected."""


class ResourceError(EpicError):
    """An engine or manager has no room, or does not offer the capability that was asked for."""


class CollectiveError(EpicError):
    """A collective ended without its result."""


class MismatchError(CollectiveError):
    """Ranks disagree about what a collective is; the message says what each side sent."""


class PeerLostError(CollectiveError):
    """Ranks or edges are missing.

    `ranks` are the ranks known to be missing, `edges` the tree edges (named `child-parent`) without answer.
    """

    def __init__(self, message: str, ranks: Sequence[int] = (), edges: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.ranks = tuple(ranks)
        self.edges = tuple(edges)


class DeadlineError(CollectiveError, TimeoutError):
    """`wait(timeout)` ended before the collective did; the collective itself goes on."""


class AbortedError(CollectiveError):
    """The communicator was aborted or closed."""
