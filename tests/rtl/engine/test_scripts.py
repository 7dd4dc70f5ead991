"""The engine in Verilog does what the golden one does, frame by frame: same frames out, same counters, same slots."""

from __future__ import annotations

import pytest

from p4.program.scripts import SCRIPTS
from rtl.engine.device import RtlWorld
from rtl.needs import need


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str) -> None:
    need("verilator")
    SCRIPTS[name](RtlWorld("v1model", 64))
