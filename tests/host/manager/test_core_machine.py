"""Hypothesis looks for a sequence of acts that breaks an invariant of the manager's core, and shortens what it
finds.
"""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from epic_host.manager.effects import EngineCall
from epic_host.manager.errors import NoResourceError
from epic_host.manager.settings import Settings
from host.manager.core_world import Faults, SimMember, World, make_fabric, request

SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
HOSTS = ("h0", "h1", "h2", "h3")


class CoreMachine(RuleBasedStateMachine):
    """Acts on a world that checks its invariants by itself after all that happens in it."""

    @initialize(
        shape=st.sampled_from(["single", "tree", "spine"]),
        shares=st.integers(1, 2),
        policy=st.sampled_from(["best_effort", "spatial", "temporal"]),
        lost=st.sampled_from([0.0, 0.1]),
        late=st.sampled_from([0.0, 0.2]),
        seed=st.integers(0, 1000),
    )
    def begin(self, shape: str, shares: int, policy: str, lost: float, late: float, seed: int) -> None:
        fabric = make_fabric(shape, hosts=4 if shape == "single" else 2, shares=shares, pool=60)
        self.world = World(
            fabric,
            seed=seed,
            policy=policy,
            faults=Faults(lost=lost, twice=late, late=late),
            settings=Settings(quarantine=1.0),
        )
        self.calls: list[EngineCall] = []
        self.world.on_call = self.remember

    def remember(self, call: EngineCall) -> bool:
        if call.kind in ("install", "remove"):
            self.calls.append(call)
        return False

    def running(self) -> list[SimMember]:
        return [m for m in self.world.members.values() if m.running and m.joined is not None]

    @rule(
        hosts=st.lists(st.sampled_from(HOSTS), min_size=1, max_size=4),
        path=st.sampled_from(["auto", "auto", "host", "network"]),
        missing=st.sampled_from([0, 0, 0, 1]),
    )
    def create(self, hosts: list[str], path: str, missing: int) -> None:
        try:
            made = self.world.create(request(*hosts, name="", path=path, lease=1.0))
        except NoResourceError:
            return
        assert made is not None
        for rank in range(len(hosts) - missing):
            self.world.spawn(made[0], rank, made[1])

    @rule(seconds=st.sampled_from([0.003, 0.02, 0.2, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.world.run(seconds)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def kill_rank(self, data: st.DataObject) -> None:
        members = self.running()
        members[data.draw(st.integers(0, len(members) - 1))].alive = False

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        members = self.running()
        for member in self.world.peers(members[data.draw(st.integers(0, len(members) - 1))]):
            if member.running:
                self.world.leave(member)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), edge=st.sampled_from(["", "r0-s0", "l0-p0", "r0-r1"]))
    def report_fault(self, data: st.DataObject, edge: str) -> None:
        members = self.running()
        self.world.report_fault(members[data.draw(st.integers(0, len(members) - 1))], edge)

    @rule(data=st.data(), down=st.sampled_from([0.0, 0.3, 3.0]))
    def crash_engine(self, data: st.DataObject, down: float) -> None:
        self.world.crash_engine(data.draw(st.sampled_from(sorted(self.world.engines))), down)

    @rule(data=st.data(), usable=st.booleans())
    def set_usable(self, data: st.DataObject, usable: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.engines)))
        self.world.ask(lambda core: core.set_usable(engine=name, usable=usable, now=self.world.now))

    @precondition(lambda self: self.world.core is not None)
    @rule(down=st.sampled_from([0.0, 0.5, 2.0]))
    def kill_manager(self, down: float) -> None:
        self.world.kill_manager(down)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def late_call(self, data: st.DataObject) -> None:
        """A call that was made at any time before is carried out now, perhaps again."""
        call = self.calls[data.draw(st.integers(0, len(self.calls) - 1))]
        self.world._arrive(call, self.world._life)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        for member in world.members.values():
            member.alive = False
        world.faults.lost = world.faults.late = 0.0
        world.run(15.0)
        assert all(group.state == "ended" for group in world.book.groups.values())
        world.check_nothing_left()


CoreMachine.TestCase.settings = settings(
    max_examples=12 * SCALE, stateful_step_count=20, deadline=None, print_blob=True
)
test_no_sequence_of_acts_breaks_an_invariant = CoreMachine.TestCase
