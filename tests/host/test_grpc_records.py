"""Records of grpc's logger that a handler keeps hold no object of grpc: one of them is a server that is being freed."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: without the filter of epic_host.control it crashes.
_SCRIPT = """
import asyncio, gc, logging
import epic_host.control
import grpc.aio

kept = []
class Keeper(logging.Handler):
    def emit(self, record):
        kept.append(record)

logger = logging.getLogger("grpc._cython.cygrpc")
logger.setLevel(logging.DEBUG)
logger.addHandler(Keeper())

async def never_started():
    grpc.aio.server().add_insecure_port("127.0.0.1:0")

asyncio.run(never_started())
gc.collect()
assert any("__dealloc__" in record.getMessage() for record in kept), "grpc no longer says so"
assert not any(record.args for record in kept)
del kept[:]
"""


def test_a_server_that_was_never_started_is_not_kept_while_it_is_freed() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
