"""The engine in Verilog does what the golden one does, frame by frame: same frames out, same counters, same slots."""

from __future__ import annotations

import pytest

from p4.program.scripts import SCRIPTS
from rtl.engine.device import RtlWorld


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str) -> None:
    SCRIPTS[name](RtlWorld("v1model", 64))
