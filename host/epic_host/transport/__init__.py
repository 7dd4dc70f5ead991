"""Transports: what carries packets between nodes, chosen by a configuration (see `transport.config`)."""

from __future__ import annotations

from epic_host.transport.base import Transport
from epic_host.transport.config import FaultConfig, PacketConfig, TransportConfig, UdpConfig, transport_config
from epic_host.transport.packet import PacketTransport
from epic_host.transport.udp import UdpTransport

__all__ = [
    "FaultConfig",
    "PacketConfig",
    "PacketTransport",
    "Transport",
    "TransportConfig",
    "UdpConfig",
    "UdpTransport",
    "open_transport",
    "transport_config",
]


def open_transport(config: object) -> Transport:
    """Open the transport of a configuration (JSON form or dataclass).

    Raises ConfigError, in one line, for a bad configuration, an address in use or not of this machine, a
    missing interface or privilege, or a capture file that cannot be written.
    """
    checked = config if isinstance(config, UdpConfig | PacketConfig) else transport_config(config)
    return UdpTransport(checked) if isinstance(checked, UdpConfig) else PacketTransport(checked)
