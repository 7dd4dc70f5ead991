"""Random groups and random traffic: the engine in Verilog and the golden one never part."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epic_models.reference.group import EngineGroup
from p4.program.test_random import STEPS, Step, _frame, _front, _groups
from p4.program.twins import Twins
from rtl.engine.device import TwinDevice, engine
from rtl.needs import FULL, need


def test_random_traffic() -> None:
    """Groups come and go on one engine: what one leaves in the memories must not reach the next (EPIC-E-04)."""
    need("verilator")
    engine().reset()

    @settings(deadline=None, max_examples=40 if FULL else 6, suppress_health_check=list(HealthCheck))
    @given(_groups("v1model"), st.booleans(), STEPS)
    def traffic(group: EngineGroup, record: bool, steps: list[Step]) -> None:
        group = replace(group, params=replace(group.params, conflict_record=record))
        device = TwinDevice(engine())
        try:
            twins = Twins("v1model", group, device=device)  # type: ignore[arg-type]
            for step in steps:
                twins.frame(*_frame(group, "v1model", _front(twins), step))
        finally:
            device.clear()

    traffic()
