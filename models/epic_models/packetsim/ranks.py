"""What a rank does with results, and when it contributes: `epic_models.reference.agent` and the program above it.

A rank runs its collectives one after the other; each begins when the one before has ended here, plus a delay of its own
(compute, straggling).
"""

from __future__ import annotations

import numpy as np

from epic_models.packetsim import cells
from epic_models.packetsim.heap import push
from epic_models.packetsim.kernel import kernel
from epic_models.packetsim.net import new_row
from epic_models.packetsim.world import CE, NULL, WAKE


@kernel
def room(agent, group):  # type: ignore[no-untyped-def]
    """How many cells the rank may contribute now: the result clock and the congestion window."""
    return min(np.int64(group.window), np.int64(agent.size)) - (agent.next - agent.delivered)


@kernel
def contribution(w, agent, cell):  # type: ignore[no-untyped-def]
    """(payload bytes, row of values) of a rank's contribution; (0, -1) for NULL."""
    group = w.groups[agent.group]
    if not cells.contributes(group, agent.rank, cell):
        return np.int64(0), -1
    row = new_row(w)
    if row >= 0:
        for lane in range(w.sim[0].lanes):
            w.rows[row, lane] = cells.word(w, agent.group, agent.rank, cell, lane)
    return cells.size(group, cell), row


@kernel
def deliver(w, index, flags, row):  # type: ignore[no-untyped-def]
    """The next result in order is here. `row` stays the caller's."""
    agent = w.agents[index]
    group = w.groups[agent.group]
    cell = agent.delivered
    agent.delivered += 1
    if flags & CE and group.ecn:
        if cell >= agent.recover:
            # One reaction a window: marks on cells sent before the reduction say nothing new.
            agent.size = max(1.0, agent.size / 2)
            agent.recover = agent.next
    else:
        agent.size = min(float(group.window), agent.size + 1.0 / agent.size)
    if w.sim[0].lanes:
        rank = w.leaf[group.starts + agent.rank]
        expects = cells.receives(w, group, rank, rank + 1, cell)
        if expects != (flags & NULL == 0):
            w.sim[0].wrong += 1
        elif expects:
            cells.check(w, agent.group, cell, row)
    if agent.delivered == agent.available:
        ended(w, index)


@kernel
def ended(w, index):  # type: ignore[no-untyped-def]
    """A collective has ended at a rank; the next one begins after the rank's own delay."""
    s, agent = w.sim[0], w.agents[index]
    group = w.groups[agent.group]
    place = group.delays + agent.rank * group.iterations + agent.iteration
    w.finish[place] = s.now
    agent.iteration += 1
    if agent.iteration == group.iterations:
        s.unfinished -= 1
        return
    push(w, s.now + w.starts[place + 1], WAKE, np.int64(index), index)
