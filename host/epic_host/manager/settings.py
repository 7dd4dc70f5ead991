"""Times and bounds of the manager's core."""

from __future__ import annotations

from dataclasses import dataclass, fields

from epic_spec.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Settings:
    """Seconds, but for what is counted.

    An engine that does not answer is given up after `lost_after` calls: within `probe_interval` + `lost_after` times
    `call_timeout` at most, much sooner when the connection is refused. A member whose lease ended is found at once;
    what its group held is free in the engines as soon as they have answered a call each.
    """

    node_lease: float = 10.0
    # Between two looks at an engine that has groups, and at one that has none.
    probe_interval: float = 0.5
    idle_interval: float = 2.0
    call_timeout: float = 1.0
    retry_interval: float = 0.1
    lost_after: int = 2
    # How long installs of an epoch may take before it is placed otherwise, and how often that is tried.
    install_timeout: float = 2.0
    attempts: int = 3
    # A link that loses or is in error is not used for this long; doubled each time up to the limit.
    link_hold: float = 5.0
    link_hold_limit: float = 60.0
    # An engine that refused a group is not offered it again for this long.
    avoid: float = 10.0
    # A fault report is answered within this time.
    inquiry_timeout: float = 1.5
    # An address that a member gave up is not given again for this long.
    quarantine: float = 5.0
    # How long a group that takes nothing but the network waits for its turn.
    queue_limit: float = 60.0
    policy_interval: float = 0.25
    # Groups that ended are remembered for `explain`.
    keep_ended: float = 60.0
    keep_groups: int = 256
    keep_decisions: int = 64

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ConfigError(f"manager: {f.name} = {value!r}, expected a number above 0")
