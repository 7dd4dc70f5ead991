"""Front-panel ports of a Tofino: brought up before a group is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epic_p4.bfrt import names
from epic_p4.bfrt.client import BfrtClient, BfrtError, KeyField, Value
from epic_p4.control.backend import BackendError
from epic_spec.errors import ConfigError

SPEEDS = (10, 25, 40, 50, 100, 200, 400)
_FEC = {"none": "BF_FEC_TYP_NONE", "fc": "BF_FEC_TYP_FIRECODE", "rs": "BF_FEC_TYP_REED_SOLOMON"}


@dataclass(frozen=True, slots=True)
class PortSetting:
    """How a port is set up. `mtu` is the largest Ethernet frame, FCS included."""

    port: int
    speed: int = 100  # Gb/s
    fec: str = "none"
    auto_negotiation: bool = False
    mtu: int = 9216

    def __post_init__(self) -> None:
        if self.speed not in SPEEDS:
            raise ConfigError(
                f"port {self.port}: speed = {self.speed}, expected one of {', '.join(map(str, SPEEDS))} (Gb/s)"
            )
        if self.fec not in _FEC:
            raise ConfigError(f"port {self.port}: fec = {self.fec!r}, expected one of {', '.join(_FEC)}")
        if not 64 <= self.mtu <= 10240:
            raise ConfigError(f"port {self.port}: mtu = {self.mtu}, expected 64 to 10240")

    def data(self) -> dict[str, Value]:
        """The fields of the $PORT table."""
        return {
            names.PORT_SPEED: f"BF_SPEED_{self.speed}G",
            names.PORT_FEC: _FEC[self.fec],
            names.PORT_AUTO_NEGOTIATION: "PM_AN_DEFAULT" if self.auto_negotiation else "PM_AN_FORCE_DISABLE",
            names.PORT_ENABLE: True,
            names.PORT_RX_MTU: self.mtu,
            names.PORT_TX_MTU: self.mtu,
        }


def bring_up(client: BfrtClient, settings: Sequence[PortSetting]) -> None:
    """Add and enable ports; one that exists is given the settings. Raises BackendError."""
    for setting in settings:
        key = [KeyField(names.PORT_ID, setting.port)]
        try:
            table = client.table(names.PORTS)
            try:
                table.add(key, setting.data())
            except BfrtError as error:
                if not error.exists:
                    raise
                table.modify(key, setting.data())
        except BfrtError as error:
            raise BackendError(f"switch {client.address}: port {setting.port}: {error}") from None
