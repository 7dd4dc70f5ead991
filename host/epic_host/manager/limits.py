"""How often a client may ask: a token bucket a client, of a bounded number of clients."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

# Clients whose buckets are kept; the one that asked longest ago is forgotten first.
_CLIENTS: Final = 4096


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` requests on average, `burst` at once."""

    per_second: float
    burst: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimit:
    """Token buckets by client: each request takes a token, `rate.per_second` come back, `rate.burst` fit in."""

    def __init__(self, rate: Rate, clients: int = _CLIENTS) -> None:
        self.rate = rate
        self._clients = clients
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def admits(self, client: str, now: float) -> bool:
        """Take a token of `client` at time `now` (seconds, never going back); False when it has none."""
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _Bucket(self.rate.burst, now)
            # A client that is forgotten gets a full bucket when it comes again: no worse than a new one.
            if len(self._buckets) > self._clients:
                self._buckets.popitem(last=False)
        else:
            bucket.tokens = min(self.rate.burst, bucket.tokens + (now - bucket.at) * self.rate.per_second)
            bucket.at = now
        self._buckets.move_to_end(client)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def wait(self, client: str) -> float:
        """Seconds until `client` has a token, as of its last request."""
        bucket = self._buckets.get(client)
        return 0.0 if bucket is None else max(0.0, (1 - bucket.tokens) / self.rate.per_second)
