"""Control plane of an engine over gRPC (`proto/epic/v1/engine.proto`).

Importing this package imports grpc; a rank does so only when it has to ask who is missing.
"""

from __future__ import annotations

import os

# Before grpc is imported: its C core would print its own lines beside our one-line errors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from epic_host.control.client import EngineClient, EngineUnreachableError
from epic_host.control.server import ControlServer

__all__ = ["ControlServer", "EngineClient", "EngineUnreachableError"]
