"""The event loop: takes the earliest event and lets it happen."""

from __future__ import annotations

import math

import numpy as np

from epic_models.packetsim import flows, mode3, ranks, rc, rcmodes, wheel
from epic_models.packetsim.heap import drop_first, push
from epic_models.packetsim.kernel import entry, kernel
from epic_models.packetsim.net import (
    enqueue,
    enter_ingress,
    forward,
    free_packet,
    paused,
    sent,
    transmit,
    uniform,
)
from epic_models.packetsim.timers import NEVER, arm
from epic_models.packetsim.world import (
    AGENT,
    ARRIVE,
    CHANGE,
    ENGINE,
    FLOW,
    HOSTS,
    LATE,
    MODE3,
    PAUSE,
    PLAIN,
    PS,
    SAMPLE,
    SENT,
    SINK,
    SOURCE,
    TIMER,
    WAKE,
)

# Why `run` came back.
DONE, IDLE, TIME, EVENTS, FULL = range(5)


@entry
def run(w, until, most_events):  # type: ignore[no-untyped-def]
    """Go on until every collective has ended (DONE), nothing is left to happen (IDLE), the time `until` (picoseconds),
    so many events, or until an array is full (FULL).
    """
    s = w.sim[0]
    left = most_events
    while s.unfinished > 0:
        if s.full:
            return FULL
        link = wheel.first(w)
        if s.heap > 0:
            if link >= 0 and _heap_first(w, link):
                link = -1
        elif link < 0:
            return IDLE
        time = w.wheel[link].time if link >= 0 else w.heap_time[0]
        if time > until:
            s.now = until
            return TIME
        if left == 0:
            return EVENTS
        left -= 1
        s.events += 1
        if link >= 0:
            wheel.drop(w, link)
            s.now = time
            _arrive(w, link)
            continue
        kind = w.heap_key[0] >> 56
        what = w.heap_what[0]
        drop_first(w)
        s.now = time
        if kind == ARRIVE:
            _arrive(w, what)
        elif kind == SENT:
            sent(w, what)
        elif kind == PAUSE:
            paused(w, what)
        elif kind == LATE:
            enqueue(w, w.paths[w.packets[what].at], what)
        elif kind == WAKE:
            _wake(w, what)
        elif kind == TIMER:
            _timer(w, what)
        elif kind == CHANGE:
            _change(w, what)
        elif kind == SOURCE:
            _source(w, what)
        elif kind == SAMPLE:
            _sample(w)
    return DONE


@kernel
def _heap_first(w, link):  # type: ignore[no-untyped-def]
    """Whether the heap's first event is before a link's entry in the wheel."""
    arrival, time = w.wheel[link], w.heap_time[0]
    return time < arrival.time or (time == arrival.time and w.heap_key[0] < arrival.order)


@kernel
def _arrive(w, index):  # type: ignore[no-untyped-def]
    """The first packet on a link has crossed it."""
    s, link = w.sim[0], w.links[index]
    i = link.first
    p = w.packets[i]
    link.first = p.next
    if link.first >= 0:
        following = w.packets[link.first]
        wheel.insert(w, index, following.time, following.order)
    s.hops += 1
    if not w.node_up[link.to] or not link.up:
        link.lost += 1
        free_packet(w, i)
        return
    p.at += 1
    if p.at < p.stop:
        if s.pfc:
            enter_ingress(w, i, index)
        forward(w, i)
        return
    _receive(w, p)
    free_packet(w, i)


@kernel
def _receive(w, p):  # type: ignore[no-untyped-def]
    """A packet is where it was to go."""
    s, end = w.sim[0], w.ends[p.end]
    if s.log_on and s.log_used < w.log.shape[0]:
        entry = w.log[s.log_used]
        s.log_used += 1
        entry.time, entry.end, entry.number, entry.kind = s.now, p.end, p.number, p.kind
        entry.flags, entry.size = p.flags, p.size
    owner = end.owner_kind
    if owner == SINK:
        w.sources[end.owner].arrived += 1
    elif owner == FLOW:
        flows.arrived(w, end.owner, p, w.flows[end.owner].end == p.end)
    elif owner == AGENT:
        agent = w.agents[end.owner]
        if w.groups[agent.group].how == MODE3:
            mode3.on_result(w, end.owner, p)
        else:
            rcmodes.at_agent(w, end.owner, p)
        _pump(w, end.owner)
    elif owner == ENGINE:
        entry = w.entries[end.owner]
        if w.groups[entry.group].how == MODE3:
            if end.child >= 0:
                mode3.on_child(w, end.owner, end.child, p)
            else:
                mode3.on_parent(w, end.owner, p)
        elif end.child >= 0:
            rcmodes.on_child(w, end.owner, end.child, p)
        else:
            rcmodes.on_parent(w, end.owner, p)


@kernel
def _pump(w, index):  # type: ignore[no-untyped-def]
    """Contribute what the window allows."""
    agent = w.agents[index]
    group = w.groups[agent.group]
    while agent.next < agent.available and ranks.room(agent, group) > 0 and not agent.failed:
        if group.how == MODE3:
            mode3.contribute(w, index)
        else:
            rcmodes.contribute(w, index)


@kernel
def _wake(w, index):  # type: ignore[no-untyped-def]
    """A rank begins its next collective."""
    agent = w.agents[index]
    group = w.groups[agent.group]
    if group.how == HOSTS:
        agent.available = agent.iteration + 1
        for i in range(agent.flows, agent.flows + agent.flow_count):
            if w.flows[w.flow_list[i]].sender == index:
                flows.pump(w, w.flow_list[i])
        flows.settle(w, index)
        return
    agent.available += group.cells
    _pump(w, index)


@kernel
def _timer(w, index):  # type: ignore[no-untyped-def]
    """An end's timer: due, or to be scheduled again."""
    s, end = w.sim[0], w.ends[index]
    if s.now != end.timer_at:
        return  # an earlier one has taken its place
    end.timer_at = NEVER
    if not w.node_up[end.node]:
        return
    group = w.groups[end.group]
    mode3_agent = group.how == MODE3
    due = mode3.deadline(w, end.owner) if mode3_agent else rc.next_deadline(end)
    if due == np.inf:
        return
    if np.int64(math.ceil(due / PS)) > s.now:
        arm(w, index, due)
        return
    now = max(s.now * PS, due)
    if mode3_agent:
        mode3.timer(w, end.owner, now)
        arm(w, index, mode3.deadline(w, end.owner))
        return
    if rc.poll(w, index):
        _edge_failed(w, index)
    if end.owner_kind == ENGINE and end.child >= 0:
        rcmodes.publish_completed(w, end.owner)
    arm(w, index, rc.next_deadline(end))


@kernel
def _edge_failed(w, index):  # type: ignore[no-untyped-def]
    """An end has given its edge up; a rank's collectives end without results then."""
    end = w.ends[index]
    if end.owner_kind == AGENT:
        w.agents[end.owner].failed = 1
    elif end.owner_kind == FLOW:
        w.agents[w.flows[end.owner].sender].failed = 1


@kernel
def _change(w, index):  # type: ignore[no-untyped-def]
    """A link or a node fails or comes back."""
    change = w.changes[index]
    if change.link >= 0:
        w.links[change.link].up = change.up
    else:
        w.node_up[change.node] = change.up


@kernel
def _source(w, index):  # type: ignore[no-untyped-def]
    """Background traffic: the next packet of a source, or the next turn of an on-off source."""
    s, source = w.sim[0], w.sources[index]
    if s.now > source.stop:
        return
    if source.off > 0.0 and s.now >= source.until:
        source.is_on = 1 - source.is_on
        mean = source.on if source.is_on else source.off
        source.count += 1
        x = uniform(source.stream, source.count, 1, 1)
        source.until = s.now + np.int64(-math.log(1.0 - x) * mean)
    s.order += 1
    if source.off > 0.0 and not source.is_on:
        push(w, source.until, SOURCE, s.order, index)
        return
    transmit(w, source.end, PLAIN, source.count, 0, source.size, -1, 0)
    source.count += 1
    x = uniform(source.stream, source.count, 2, 2)
    push(w, s.now + np.int64(-math.log(1.0 - x) * source.mean) + 1, SOURCE, s.order, index)


@kernel
def _sample(w):  # type: ignore[no-untyped-def]
    """Note how long every queue is."""
    s = w.sim[0]
    if s.samples < w.samples.shape[0]:
        for index in range(w.links.shape[0]):
            link = w.links[index]
            if s.pfc:
                w.samples[s.samples, index] = link.queued
            elif link.free_at > s.now:
                w.samples[s.samples, index] = np.int64((link.free_at - s.now) / link.ps_per_byte)
        s.samples += 1
        s.order += 1
        push(w, s.now + s.sample_every, SAMPLE, s.order, 0)
