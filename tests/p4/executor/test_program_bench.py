"""The bench of epic.p4 measures packets that do the work it speaks of."""

from __future__ import annotations

import pytest

from epic_p4 import program_bench
from epic_spec.errors import ConfigError


@pytest.mark.parametrize("arch", program_bench.PROGRAMS)
def test_every_second_packet_completes_a_cell(arch: str) -> None:
    switch, controller = program_bench.controlled(program_bench.PROGRAMS[arch])
    group = program_bench.two_children(controller.program.capabilities.icrc[0])
    controller.install(group)
    sent = [len(switch.process(port, frame)) for port, frame in program_bench.contributions(group, 64)]
    assert sent == [0, 2] * program_bench.CELLS
    counters = {name: count for name, count in controller.counters().items() if count}
    assert counters == {
        "rx_frames": 2 * program_bench.CELLS,
        "rx_contribution": 2 * program_bench.CELLS,
        "cells_completed": program_bench.CELLS,
        "tx_result": 2 * program_bench.CELLS,
        "tx_frames": 2 * program_bench.CELLS,
    }


def test_more_words_than_the_program_has_are_refused() -> None:
    with pytest.raises(ConfigError, match="words = 65, expected at most 64"):
        program_bench.rates(65, 0.01)
