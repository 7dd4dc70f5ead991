"""What the control plane did wrong, and what the data plane program did wrong.

The control errors are told apart by class, because P4Runtime answers each with another canonical code.
"""

from __future__ import annotations

from epic_spec.errors import ConfigError, EpicError, ResourceError


class ControlError(ConfigError):
    """A control-plane call that cannot be done as asked (P4Runtime: INVALID_ARGUMENT)."""


class NotFoundError(ControlError):
    """The named table, entry, group or extern does not exist (NOT_FOUND)."""


class AlreadyExistsError(ControlError):
    """An entry or group with this key is already there (ALREADY_EXISTS)."""


class OutOfRangeError(ControlError):
    """An index beyond the size of a register or counter (OUT_OF_RANGE)."""


class ReadOnlyError(ControlError):
    """A constant table or default action cannot be changed (PERMISSION_DENIED)."""


class TableFullError(ResourceError):
    """A table has as many entries as its size says (RESOURCE_EXHAUSTED)."""


class ExecutionError(EpicError):
    """The P4 program did what its architecture forbids: the fault is in the program, not in the packet."""
