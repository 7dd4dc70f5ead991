"""Control plane of an engine over gRPC (`proto/epic/v1/engine.proto`).

Importing this package imports grpc; a rank does so only when it has to ask who is missing.
"""

from __future__ import annotations

import logging
import os

# Before grpc is imported: its C core would print its own lines beside our one-line errors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from epic_host.control.client import EngineClient, EngineUnreachableError
from epic_host.control.server import ControlServer

__all__ = ["ControlServer", "EngineClient", "EngineUnreachableError"]


def _as_text(record: logging.LogRecord) -> bool:
    """Keep what a record says and not the objects that it says it of."""
    record.msg, record.args = record.getMessage(), ()
    return True


# grpc.aio logs a server that was never started while that is being freed (level DEBUG, seen in grpcio 1.85): a handler
# that keeps records would keep memory that is gone, and the process would crash.
logging.getLogger("grpc._cython.cygrpc").addFilter(_as_text)
