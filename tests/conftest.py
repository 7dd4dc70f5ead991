"""Settings of all tests. `EPIC_EXAMPLES=N` makes hypothesis try N times as many examples (`make verify`)."""

from __future__ import annotations

import os

from hypothesis import settings

_SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))


def pytest_configure() -> None:
    """A failing property prints how to replay it; how long an example takes is no property."""
    settings.register_profile("epic", print_blob=True, max_examples=100 * _SCALE, deadline=None)
    settings.load_profile("epic")
