"""One rank's cells dealt over several trees: cell k of the epoch travels on tree k mod T as its cell k div T.

The window is the group's, over all trees together, so what follows from it (epic.md, section 3.1: C1 to C3) holds for
the numbers that the rank counts in, and so does what a rank keeps for another epoch (section 10.5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from epic_models.reference.endpoint import Counters, decode_or_count
from epic_models.reference.group import RankGroup
from epic_models.reference.interfaces import (
    Agent,
    Cell,
    CellDelivered,
    CellFailed,
    Event,
    Output,
    Stalled,
)
from epic_models.reference.registry import make_agent
from epic_spec.errors import ConfigError
from epic_spec.packets import Packet


class StripedAgent:
    """The agents of one rank on T trees, seen as one. Parameters are those of the first; group numbers differ."""

    def __init__(self, groups: Sequence[RankGroup]) -> None:
        qpns = [group.edge.local.qpn for group in groups]
        for group in groups:
            where = f"group {group.params.group}, rank {group.rank}"
            if qpns.count(group.edge.local.qpn) > 1:
                raise ConfigError(
                    f"{where}: QPN {group.edge.local.qpn:#x} is that of two trees, expected one each"
                )
            if replace(group.params, group=groups[0].params.group) != groups[0].params:
                raise ConfigError(
                    f"{where}: parameters differ from those of the first tree, expected equal ones"
                )
        self.params = groups[0].params
        self.rank = groups[0].rank
        self._agents: list[Agent] = [make_agent(group) for group in groups]
        self._tree = {qpn: tree for tree, qpn in enumerate(qpns)}
        self._count = Counters()  # of frames that reach no tree
        self._next = 0
        self._delivered = 0
        self._ready: list[deque[CellDelivered | CellFailed]] = [deque() for _ in groups]

    @property
    def delivered(self) -> int:
        """Results delivered so far, in order."""
        return self._delivered

    @property
    def outstanding(self) -> int:
        """Cells contributed whose result is not delivered."""
        return self._next - self._delivered

    def locate(self, cell: int) -> tuple[int, int]:
        """The tree that a cell travels on, and its number there."""
        return cell % len(self._agents), cell // len(self._agents)

    def room(self) -> int:
        """How many cells `submit` takes now: up to the window, and to the first whose tree has no room."""
        trees = len(self._agents)
        until_full = (
            (tree - self._next) % trees + agent.room() * trees for tree, agent in enumerate(self._agents)
        )
        return max(0, min(self.params.window - self.outstanding, *until_full))

    def submit(self, cells: Sequence[Cell], now: float) -> Output:
        """Contribute the next cells. Raises ValueError for more than `room()`."""
        if len(cells) > self.room():
            raise ValueError(f"submit: {len(cells)} cells, expected at most {self.room()}")
        output = Output()
        for cell in cells:
            tree = self._next % len(self._agents)
            self._next += 1
            self._merge(tree, self._agents[tree].submit([cell], now), output)
        return output

    def receive_frame(self, port: int, frame: bytes, now: float) -> Output:
        """An Ethernet frame arrived; one that cannot be decoded is counted by reason and dropped."""
        packet = decode_or_count(frame, self._count)
        return Output() if packet is None else self.receive(port, packet, now)

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """A decoded packet arrived; the first tree's agent counts one that is for none."""
        tree = self._tree.get(packet.qpn, 0)
        output = Output()
        self._merge(tree, self._agents[tree].receive(port, packet, now), output)
        return output

    def poll(self, now: float) -> Output:
        """Run the timers that are due."""
        output = Output()
        for tree, agent in enumerate(self._agents):
            self._merge(tree, agent.poll(now), output)
        return output

    def next_deadline(self) -> float | None:
        """When `poll` wants to be called next, or None."""
        return min((d for agent in self._agents if (d := agent.next_deadline()) is not None), default=None)

    def counters(self) -> dict[str, int]:
        """Counters summed over the trees; all names of epic.toml are present."""
        total = dict(self._count)
        for agent in self._agents:
            for name, value in agent.counters().items():
                total[name] += value
        return total

    def _merge(self, tree: int, output: Output, into: Output) -> None:
        """Append what a tree's agent caused, its results in their place among those of all trees."""
        into.sends += output.sends
        trees = len(self._agents)
        for event in output.events:
            if isinstance(event, CellDelivered | CellFailed):
                self._ready[tree].append(replace(event, cell=event.cell * trees + tree))
            elif isinstance(event, Stalled):
                into.events.append(replace(event, cell=event.cell * trees + tree))
            else:
                into.events.append(event)
        into.events += self._in_order()

    def _in_order(self) -> list[Event]:
        ready: list[Event] = []
        while queue := self._ready[self._delivered % len(self._agents)]:
            ready.append(queue.popleft())
            self._delivered += 1
        return ready
