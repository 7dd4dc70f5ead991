"""`bmv2`: simple_switch_grpc with epic.p4 in a network namespace, on raw ports; needs root, and BMv2 on PATH."""

from __future__ import annotations

from epic_spec.errors import ConfigError
from epic_testbed import bmv2
from epic_testbed.adapters.soft import MAX_PORTS, SoftDut


class Bmv2Dut(SoftDut):
    """A BMv2 process with its controller. Option `ports`: how many, 2 to 65."""

    NAME = "bmv2"
    PROCESS = "bmv2"
    # BMv2 loses frames when some sixty wait in it.
    IN_FLIGHT = 16
    # Its counters come over P4Runtime, each bank with a request.
    SETTLE_SECONDS = 2.0
    # Registers are read by a program that starts for it.
    CALL_SECONDS = 30.0

    def __init__(self, mode: int, *, ports: str | int = MAX_PORTS) -> None:
        if mode != 3:
            raise ConfigError(f"mode = {mode!r} with dut bmv2, expected 3")
        bmv2.require()
        super().__init__(mode, binding="ethernet", ports=ports, engine="bmv2")
