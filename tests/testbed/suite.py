"""Running engine cases of the conformance suite on a device, for tests of adapters."""

from __future__ import annotations

from fnmatch import fnmatchcase

from epic_spec.errors import EpicError
from epic_testbed.conformance.bench import Bench, Failure
from epic_testbed.conformance.case import all_cases, unmet
from epic_testbed.dut import Dut


def failures(dut: Dut, pattern: str = "*", seed: int = 1) -> list[str]:
    """Cases of the device's mode that apply and fail, each with its reason. At least one case must apply."""
    found, count = [], 0
    for case in all_cases():
        applies = case.side == "engine" and dut.traits().mode in case.modes and not unmet(case, dut.traits())
        if not applies or not fnmatchcase(case.name, pattern):
            continue
        count += 1
        try:
            dut.reset()
            bench = Bench(dut, seed=seed)
            case.function(bench)
            bench.finish()
        except (Failure, EpicError) as error:
            found.append(f"{case.name}: {error}")
    assert count > 0, f"no case {pattern} applies"
    return found
