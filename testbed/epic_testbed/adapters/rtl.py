"""`rtl`: the engine in Verilog, simulated in this process, frame by frame and in virtual time."""

from __future__ import annotations

from epic_spec.errors import ConfigError
from epic_testbed.adapters.virtual import VirtualDut
from epic_testbed.dut import Dut, DutTraits
from epic_testbed.rtl.device import RtlDevice


class SimulatedDut(VirtualDut):
    """A Verilated engine."""

    def __init__(self, device: RtlDevice, top: str) -> None:
        shape = device.shape
        traits = DutTraits(
            "rtl",
            device.offers,
            ports=shape.ports,
            details={"top": top, "data_width": str(8 * shape.bytes), "ports": str(shape.ports)},
        )
        self._simulation = device
        super().__init__(device, traits, net=(78, 0x4E))

    def send(self, port: int, frame: bytes) -> None:
        """A frame arrives now."""
        # A stream has no frame without a byte; the shortest is as truncated as that.
        super().send(port, frame or bytes(1))

    def close(self) -> None:
        """Ends the simulation."""
        self._simulation.close()


class RtlDut(SimulatedDut):
    """A Mode III engine has no timers: each frame is taken to its end."""

    def __init__(self, mode: int, **parameters: int | str) -> None:
        if mode != 3:
            raise ConfigError(f"mode = {mode!r} with dut rtl, expected 3")
        super().__init__(RtlDevice(parameters), "epic_mode3")


def open_rtl(mode: int, **parameters: int | str) -> Dut:
    """The simulated RTL of a mode; `parameters` are those of its top module. Raises ConfigError for mode 1."""
    if mode == 2:
        from epic_testbed.adapters.rtl2 import Mode2RtlDut

        return Mode2RtlDut(mode, **{name: int(value) for name, value in parameters.items()})
    if mode != 3:
        raise ConfigError(f"mode = {mode!r} with dut rtl, expected 2 or 3")
    return RtlDut(mode, **parameters)
