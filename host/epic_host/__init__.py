"""What runs on servers: communicator, transports, software switch."""

from __future__ import annotations

from epic_host.communicator import Communicator, shard_sizes
from epic_host.handle import Handle

__all__ = ["Communicator", "Handle", "shard_sizes"]
