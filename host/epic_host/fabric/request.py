"""What a job asks of the fabric for one group."""

from __future__ import annotations

from dataclasses import dataclass

# Seconds without a sign of life after which a member's lease, and with it the group's grant, ends.
DEFAULT_LEASE = 3.0
# Bytes of a typical collective, where the job does not say: what the cost model weighs paths with.
DEFAULT_TYPICAL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """A group that is asked for. `hosts[r]` is the host of rank r; a host may have several ranks.

    Limits are of what the job can use, not of what it gets: `payload_bytes` is an upper limit (None: as the engines and
    links allow), `window` the one that is wanted (None: what rate and round trip need), `modes` those it accepts, best
    first (empty: any). `datatypes` and `operators` are what engines must compute (others are emulated by the hosts or
    refused, epic.md section 6). `rate_gbps` is what each rank wants to send at most; None: its link's rate. `trees`:
    how many trees the cells may be dealt over. `path`: "auto" (network, or hosts where that is faster or nothing is to
    be had), "prefer_network" (the same without asking what is faster), "network" (an error instead of the hosts) or
    "host". `policy`: name of the policy that shares the fabric out, None: the manager's default. `lease` and `deadline`
    in seconds.
    """

    name: str
    hosts: tuple[str, ...]
    modes: tuple[int, ...] = ()
    payload_bytes: int | None = None
    window: int | None = None
    datatypes: tuple[str, ...] = ("INT32",)
    operators: tuple[str, ...] = ("SUM", "MAX", "MIN")
    byte_order: str | None = None
    reproducible: bool = False
    ack_reflection: bool = False
    rate_gbps: float | None = None
    trees: int = 1
    typical_bytes: int = DEFAULT_TYPICAL_BYTES
    path: str = "auto"
    policy: str | None = None
    lease: float = DEFAULT_LEASE
    deadline: float = 5.0

    @property
    def world_size(self) -> int:
        """How many ranks the group has."""
        return len(self.hosts)
