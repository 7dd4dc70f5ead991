"""Adaptive retransmission timeout after RFC 6298: SRTT, RTTVAR, doubling on expiry (EPIC-F-01)."""

from __future__ import annotations

from epic_models.reference.group import GroupParams

ALPHA = 1 / 8  # RFC 6298 (2.3)
BETA = 1 / 4
K = 4


class RetransmissionTimeout:
    """The timeout of one edge, in seconds."""

    def __init__(self, params: GroupParams) -> None:
        self._minimum = params.rto_min_us * 1e-6
        self._maximum = params.rto_max_us * 1e-6
        self._base = min(max(params.rto_initial_us * 1e-6, self._minimum), self._maximum)
        self._srtt: float | None = None
        self._rttvar = 0.0
        self._backoff = 1

    @property
    def value(self) -> float:
        """The timeout now, backoff included, within [rto_min, rto_max]."""
        return min(self._base * self._backoff, self._maximum)

    def sample(self, rtt: float) -> None:
        """A round-trip time of something sent once only (Karn's rule is the caller's)."""
        if self._srtt is None:
            self._srtt, self._rttvar = rtt, rtt / 2
        else:
            self._rttvar += BETA * (abs(self._srtt - rtt) - self._rttvar)
            self._srtt += ALPHA * (rtt - self._srtt)
        self._base = min(max(self._srtt + K * self._rttvar, self._minimum), self._maximum)
        self._backoff = 1

    def progress(self) -> None:
        """Something new was acknowledged: the path works, so backing off ends."""
        self._backoff = 1

    def expired(self) -> None:
        """The timer ran out: double the timeout (RFC 6298, 5.5)."""
        if self._base * self._backoff < self._maximum:
            self._backoff *= 2
