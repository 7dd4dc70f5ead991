"""What a job may ask for, checked before anything is changed."""

from __future__ import annotations

import math
import re
from typing import Final

from epic_host.fabric.agreement import check_request
from epic_host.fabric.request import GroupRequest
from epic_host.fabric.topology import Fabric
from epic_host.manager.errors import INVALID, refused
from epic_spec.errors import ConfigError

# "prefer_network": as "auto", but costs are not weighed, and a single rank gets the network too.
PATHS: Final = ("auto", "prefer_network", "network", "host")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/~-]{0,127}")
_BOUNDS: Final = {"lease": (0.1, 3600.0), "deadline": (0.1, 3600.0)}
_RANKS: Final = 0xFFFF
_TREES: Final = 64


def check(fabric: Fabric, request: GroupRequest, policies: frozenset[str]) -> None:
    """Raises RefusedError (`invalid`) naming the field, the value and what was expected."""
    where = f"group {request.name}"

    def expect(good: bool, field: str, expected: str) -> None:
        if not good:
            value = getattr(request, field)
            raise refused(INVALID, f"{where}: {field} = {value!r}, expected {expected}")

    expect(_NAME.fullmatch(request.name) is not None, "name", "letters, digits, _ . : / ~ -, at most 128")
    if not 1 <= len(request.hosts) <= _RANKS:
        raise refused(
            INVALID, f"{where}: {len(request.hosts)} hosts, expected 1 to {_RANKS}, one for each rank"
        )
    expect(request.path in PATHS, "path", f"one of {', '.join(PATHS)}")
    expect(1 <= request.trees <= _TREES, "trees", f"1 to {_TREES}")
    expect(request.typical_bytes >= 0, "typical_bytes", "bytes from 0")
    expect(request.byte_order in (None, "big", "little"), "byte_order", "big or little")
    for field, (low, high) in _BOUNDS.items():
        value = getattr(request, field)
        expect(math.isfinite(value) and low <= value <= high, field, f"{low:g} to {high:g} seconds")
    if request.policy is not None and request.policy not in policies:
        expect(False, "policy", f"one of {', '.join(sorted(policies))}")
    try:
        check_request(fabric, request)
    except ConfigError as error:
        raise refused(INVALID, str(error)) from None
