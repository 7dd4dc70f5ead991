"""Faults planted into the compiled rates: filling over all flows in fractions sees each of them.

Each is compiled anew, so only `EPIC_EXAMPLES` above 1 tries all; by default one.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epic_models.flowsim import state
from models.flowsim.fairness import CASES, Running, equal, filled, some_flow

FULL = CASES > 60
# What is planted: (file, text, instead).
FAULTS = {
    "nobody is taken in": ("filling.py", "outside += t.mark != mark", "outside += 0"),
    "who is freed is not looked at": ("rates.py", "filling.seed(s, s.entries[other].owner)", "pass"),
    "who has more is not taken in": ("filling.py", "if freed or t.rate > low * (1.0 + _SAME):", "if freed:"),
    "weights do not count": ("filling.py", "weight += entry.weight", "weight += 1.0"),
    "a link that is passed stays full": ("filling.py", "if level > key * (1.0 + 1e-13):", "if False:"),
    "bounds are forgotten": ("rates.py", "bound = min(bound, float(", "bound = min(np.inf, float("),
}


@pytest.fixture
def mutant(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """`rates` of a copy of the package with a fault in it."""
    name, old, new = FAULTS[request.param]
    package = f"flow_mutant_{list(FAULTS).index(request.param)}"
    (tmp_path / package).mkdir()
    for source in ("__init__.py", "state.py", "ends.py", "filling.py", "rates.py"):
        text = (Path(state.__file__).parent / source).read_text()
        if source == name:
            assert text.count(old) == 1, (source, old)
            text = text.replace(old, new)
        (tmp_path / package / source).write_text(text.replace("epic_models.flowsim", package))
    sys.path.insert(0, str(tmp_path))
    try:
        yield importlib.import_module(f"{package}.rates")
    finally:
        sys.path.remove(str(tmp_path))
        for module in [module for module in sys.modules if module.startswith(package)]:
            del sys.modules[module]


def wrong(rates: Any) -> bool:
    """Whether any of some random worlds has rates that are not max-min fair."""
    for seed in range(40):
        rng = random.Random(seed)
        world = Running([float(rng.randint(1, 12)) for _ in range(rng.randint(2, 7))])
        world.rates = rates.Rates(rates.np.array(world.capacity))
        for _ in range(20):
            if world.flows and rng.random() < 0.4:
                world.stop(rng.choice(list(world.flows)))
            else:
                world.start(some_flow(rng, len(world.capacity)))
            if not equal(world.found(), filled(world.capacity, world.flows)):
                return True
    return False


@pytest.mark.parametrize("mutant", list(FAULTS) if FULL else list(FAULTS)[:1], indirect=True)
def test_a_fault_in_the_rates_is_seen(mutant: Any) -> None:
    assert wrong(mutant)


def test_without_a_fault_nothing_is_wrong() -> None:
    from epic_models.flowsim import rates

    assert not wrong(rates)
