"""Ranks on the host path in virtual time, each followed by the abstract machine."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from epic_host.fallback.agent import HostAgent
from epic_host.fallback.plan import host_plan, make_host_agent
from epic_host.grants import HostPlan
from epic_models.reference.abstract import AbstractMachine
from epic_models.reference.driver import Member, run_members
from epic_models.reference.faults import FaultInjector, FaultRates
from epic_models.reference.group import GroupParams
from epic_models.reference.interfaces import Agent, Event
from epic_models.reference.network import LinkModel, Network
from epic_models.reference.tree import LinkEnd
from epic_spec.errors import CollectiveError, PeerLostError
from models.worlds import ALL_TYPES, Collective, Expectation, Followed

GROUP = 1


def ends(n: int) -> list[LinkEnd]:
    """Where the ranks are attached: an address of its own each."""
    return [
        LinkEnd(0, f"10.0.{r >> 8}.{r & 255}", f"02:00:00:00:{r >> 8:02x}:{r & 255:02x}") for r in range(n)
    ]


def params(n: int, **changes: object) -> GroupParams:
    """Small and quick parameters."""
    values: dict[str, Any] = {
        "mode": 3, "window": 4, "slots": 8, "payload_bytes": 64, "datatypes": ALL_TYPES,
        "rto_initial_us": 1000, "rto_min_us": 200, "rto_max_us": 5000, "retry_limit": 100, "deadline_us": 10_000_000,
    }  # fmt: skip
    return GroupParams(group=GROUP, world_size=n, **(values | changes))


class HostNetwork(Network):
    """The ranks of one host plan, joined as it says."""

    def __init__(
        self,
        plan: HostPlan,
        faults: FaultRates | None = None,
        *,
        seed: int = 0,
        links: LinkModel | None = None,
        agents: Callable[[HostPlan, int], Agent] = make_host_agent,
    ) -> None:
        super().__init__([], faults, seed=seed, links=links)
        for rank, edges in plan.edges.items():
            self.agents[GROUP, rank] = agents(plan, rank)
            self.events[GROUP, rank] = []
            self._faults[rank] = FaultInjector(
                faults or FaultRates(), zlib.crc32(f"{seed}/{rank}".encode()), hold=2e-4
            )
            for peer, edge in edges.items():
                self._far[rank, edge.port, edge.peer.ip] = (peer, plan.edges[peer][rank].port)


class HostWorld:
    """One group on the host path, with the abstract machine beside it. Ranks in `late` begin when told to."""

    def __init__(
        self,
        group: GroupParams,
        algorithm: str,
        faults: FaultRates | None = None,
        *,
        seed: int = 0,
        links: LinkModel | None = None,
        follow: bool = True,
    ) -> None:
        self.params = group
        self.machine = AbstractMachine(group)
        self.plan = host_plan(group, ends(group.world_size), algorithm, seed)
        self.hosts: dict[int, HostAgent] = {}
        self._follow = follow
        self.net: Network = HostNetwork(self.plan, faults, seed=seed, links=links, agents=self._agent)
        self.members = [Member(self.net, GROUP, r, self._diagnosis(r)) for r in range(group.world_size)]

    def _agent(self, plan: HostPlan, rank: int) -> Agent:
        self.hosts[rank] = make_host_agent(plan, rank)
        return Followed(self.hosts[rank], rank, self.machine) if self._follow else self.hosts[rank]

    def _diagnosis(self, rank: int) -> Callable[[int], CollectiveError]:
        def lost(cell: int) -> CollectiveError:
            missing = self.hosts[rank].waiting_for()
            return PeerLostError(f"cell {cell}: ranks {missing} are missing", missing)

        return lost

    def call(self, *sequence: Collective, tag: int = 0) -> list[Expectation]:
        """Every rank calls the sequence."""
        expected = [Expectation(c, self.params, tag + i) for i, c in enumerate(sequence)]
        for e in expected:
            for rank, operation in enumerate(e.operations):
                self.members[rank].call(operation)
        return expected

    def start_late(self, rank: int) -> Callable[[], None]:
        """The rank has no agent yet: what comes is lost. Call the result to give it one."""
        self.net.dead.add(rank)
        return lambda: self.net.dead.discard(rank)

    def run(self, seconds: float = 30.0) -> bool:
        return run_members(self.net, self.members, seconds)

    def settle(self, seconds: float = 30.0) -> None:
        """Run to the end and require it: P4 as bounded liveness in virtual time."""
        done = self.run(seconds)
        waiting = [m.rank for m in self.members if not m.finished]
        assert done, f"P4: ranks {waiting} still wait after {seconds} s of virtual time"

    def check(self, *sequence: Collective, seconds: float = 30.0) -> None:
        """Every rank calls the sequence, and all results are right."""
        expected = self.call(*sequence)
        self.settle(seconds)
        for member in self.members:
            if member.error is not None:
                raise member.error
        for e in expected:
            e.check()

    def events(self, rank: int) -> Sequence[Event]:
        return self.net.events[GROUP, rank]


@st.composite
def host_params(draw: Callable[[Any], Any], n: int) -> GroupParams:
    """Random parameters of a group; a third of them of Mode I, whose cells are several packets."""
    window = draw(st.sampled_from([1, 2, 4, 8, 64]))
    return replace(
        params(n),
        mode=draw(st.sampled_from([1, 2, 3])),
        window=window,
        slots=2 * window,
        payload_bytes=draw(st.sampled_from([64, 128])),
        message_bytes=draw(st.sampled_from([64, 256, 320])),
        message_buffers=1,
        datatypes=draw(st.sampled_from([("INT32",), ALL_TYPES])),
        byte_order=draw(st.sampled_from(["big", "little"])),
        conflict_record=draw(st.booleans()),
        ordered=draw(st.booleans()),
        partial_format=draw(st.sampled_from(["input", "fp32"])),
        deadline_us=20_000_000,
    )
