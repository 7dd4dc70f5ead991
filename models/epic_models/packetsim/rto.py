"""The retransmission timeout of an end: `epic_models.reference.rto`, compiled. Realizes EPIC-F-01."""

from __future__ import annotations

from epic_models.packetsim.kernel import kernel


@kernel
def value(end, group):  # type: ignore[no-untyped-def]
    """The timeout now, in seconds."""
    return min(end.base * end.backoff, group.rto_max)


@kernel
def sample(end, group, rtt):  # type: ignore[no-untyped-def]
    """A round-trip time of something that was sent once only."""
    if end.srtt < 0.0:
        end.srtt, end.rttvar = rtt, rtt / 2
    else:
        end.rttvar += 1 / 4 * (abs(end.srtt - rtt) - end.rttvar)
        end.srtt += 1 / 8 * (rtt - end.srtt)
    end.base = min(max(end.srtt + 4 * end.rttvar, group.rto_min), group.rto_max)
    end.backoff = 1


@kernel
def expired(end, group):  # type: ignore[no-untyped-def]
    """The timer ran out."""
    if end.base * end.backoff < group.rto_max:
        end.backoff *= 2
