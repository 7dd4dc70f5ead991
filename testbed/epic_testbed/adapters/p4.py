"""`p4-v1model` and `p4-tna`: epic.p4 run by the executor, frame by frame, in this process and in virtual time."""

from __future__ import annotations

from epic_spec.errors import ConfigError
from epic_testbed.adapters.virtual import VirtualDut
from epic_testbed.dut import DutTraits
from epic_testbed.p4.device import P4Device
from epic_testbed.p4.program import TARGETS


class P4Dut(VirtualDut):
    """A P4 program that answers at once: a pipeline has no timers."""

    TARGET: str

    def __init__(self, mode: int) -> None:
        if mode != 3:
            raise ConfigError(f"mode = {mode!r} with dut {self.TARGET}, expected 3")
        target = TARGETS[self.TARGET]
        traits = DutTraits(
            self.TARGET,
            target.offers,
            ports=target.offers.children + 1,
            details={"program": target.path.name, "architecture": self.TARGET.partition("-")[2]},
        )
        super().__init__(P4Device(self.TARGET), traits, net=(77, 0x4D))


class P4V1modelDut(P4Dut):
    """p4/bmv2/epic.p4."""

    TARGET = "p4-v1model"


class P4TnaDut(P4Dut):
    """p4/tofino/epic.p4."""

    TARGET = "p4-tna"
