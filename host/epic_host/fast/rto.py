"""Adaptive retransmission timeout: `epic_models.reference.rto`, compiled, on any record that has `FIELDS`.

Times are in seconds. Bit for bit the reference's: the same operations in the same order.
"""

from __future__ import annotations

from typing import Any, Final

from epic_host.fast.compiled import Word, compiled
from epic_models.reference.group import GroupParams
from epic_models.reference.rto import ALPHA, BETA, K

FIELDS: Final = (
    ("srtt", "f8"), ("rttvar", "f8"), ("base", "f8"), ("minimum", "f8"), ("maximum", "f8"), ("backoff", "i8"),
    ("sampled", "u1"),
)  # fmt: skip


def reset(record: Any, params: GroupParams) -> None:
    """As it is before the first sample."""
    record["minimum"], record["maximum"] = params.rto_min_us * 1e-6, params.rto_max_us * 1e-6
    record["base"] = min(
        max(params.rto_initial_us * 1e-6, params.rto_min_us * 1e-6), params.rto_max_us * 1e-6
    )
    record["srtt"] = record["rttvar"] = 0.0
    record["backoff"], record["sampled"] = 1, 0


@compiled
def value(r: Any) -> Word:
    """The timeout now, backoff included, within [minimum, maximum]."""
    return min(r.base * r.backoff, r.maximum)


@compiled
def sample(r: Any, rtt: float) -> None:
    """A round-trip time of something sent once only (Karn's rule is the caller's)."""
    if not r.sampled:
        r.srtt, r.rttvar, r.sampled = rtt, rtt / 2, 1
    else:
        r.rttvar += BETA * (abs(r.srtt - rtt) - r.rttvar)
        r.srtt += ALPHA * (rtt - r.srtt)
    r.base = min(max(r.srtt + K * r.rttvar, r.minimum), r.maximum)
    r.backoff = 1


@compiled
def progress(r: Any) -> None:
    """Something new was acknowledged: the path works, so backing off ends."""
    r.backoff = 1


@compiled
def expired(r: Any) -> None:
    """The timer ran out: double the timeout (RFC 6298, 5.5)."""
    if r.base * r.backoff < r.maximum:
        r.backoff *= 2
