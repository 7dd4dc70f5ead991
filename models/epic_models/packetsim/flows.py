"""Host algorithms as flows: reliable connections whose packets may be sent when others have arrived.

A flow's packets are numbered over all iterations; in each it has `total`. Packet j of an iteration may be sent when
every flow that it waits for has brought more than j - offset packets (PIPELINED), or all of its own (WHOLE). With these
two rules ring, trees, recursive halving and doubling, and a parameter server are data (`algorithms`).

With values, packets carry parts of the sender's elements as they are when they are sent, and are added to or stored
over the receiver's, as the flow's segment says.
"""

from __future__ import annotations

import numpy as np

from epic_models.packetsim import ranks, rc
from epic_models.packetsim.kernel import entry, kernel
from epic_models.packetsim.net import free_row, new_row
from epic_models.packetsim.world import ACK, ACKREQ, ADD, CE, DATA, WHOLE


@kernel
def _segment(w, flow, within):  # type: ignore[no-untyped-def]
    """The segment that packet `within` of an iteration belongs to."""
    low, high = flow.segments, flow.segments + flow.segment_count - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if w.segments[middle].first <= within:
            low = middle
        else:
            high = middle - 1
    return w.segments[low]


@kernel
def _element(w, group, rank, iteration, place):  # type: ignore[no-untyped-def]
    return group.data + ((np.int64(iteration) * group.ranks + rank) * group.elements + place)


@kernel
def _bytes(w, group, place):  # type: ignore[no-untyped-def]
    """Payload bytes of the packet with elements at `place`; the last of the data may be short."""
    return min(np.int64(group.payload), max(group.bytes - place * group.payload, np.int64(1)))


@kernel
def limit(w, flow):  # type: ignore[no-untyped-def]
    """How many packets, over all iterations, may have been sent by now."""
    agent = w.agents[flow.sender]
    group = w.groups[flow.group]
    begun = np.int64(agent.available)
    if begun == 0:
        return np.int64(0)
    k = begun - 1
    least = flow.total
    for i in range(flow.waits, flow.waits + flow.wait_count):
        other = w.flows[w.flow_list[i]]
        got = other.got - k * other.total
        if flow.rule == WHOLE:
            if got < other.total:
                least = np.int64(0)
        else:
            least = min(least, flow.offset + max(got, np.int64(0)))
    if group.iterations < begun:
        return flow.total * group.iterations
    return k * flow.total + min(least, flow.total)


@kernel
def pump(w, index):  # type: ignore[no-untyped-def]
    """Send what the flow's window and its limit allow."""
    flow = w.flows[index]
    end = w.ends[flow.end]
    group = w.groups[flow.group]
    flow.limit = max(flow.limit, limit(w, flow))
    while end.next < flow.limit and end.next - end.una < np.int64(flow.size) and not end.failed:
        within = end.next % flow.total
        segment = _segment(w, flow, within)
        place = segment.place + within - segment.first
        row = new_row(w)
        if row >= 0:
            sender = w.agents[flow.sender]
            source = _element(w, group, sender.rank, end.next // flow.total, place)
            for lane in range(w.sim[0].lanes):
                w.rows[row, lane] = w.data[source, lane]
        rc.send(w, flow.end, 0, _bytes(w, group, place), row)


@kernel
def arrived(w, index, p, at_sender):  # type: ignore[no-untyped-def]
    """A packet of a flow has come: an acknowledgement to its sender, or data to its receiver."""
    flow = w.flows[index]
    if at_sender:
        if p.kind != DATA:
            before = w.ends[flow.end].una
            rc.on_ack(w, flow.end, p.kind, p.number)
            if p.kind == ACK:
                _react(w, flow, p, before)
            pump(w, index)
        return
    end_index = w.ends[flow.end].peer
    end = w.ends[end_index]
    if p.kind != DATA:
        return
    arrival = rc.classify(end, p.number)
    if arrival != rc.EXPECTED:
        rc.out_of_order(w, end_index, arrival)
        return
    _take(w, flow, p)
    flow.got += 1
    end.part_ce |= p.flags & CE
    rc.accept(w, end_index, True, p.flags & ACKREQ, end.part_ce)
    if p.flags & ACKREQ:
        end.part_ce = 0
    _count(w, flow)
    for i in range(flow.wakes, flow.wakes + flow.wake_count):
        pump(w, w.flow_list[i])


@kernel
def _react(w, flow, p, before):  # type: ignore[no-untyped-def]
    """A mark that an acknowledgement brings back halves the window, once a window; without marks it grows by a packet a
    window: what an agent does with results (EPIC-H-08), and in DCTCP's place here.
    """
    if not w.groups[flow.group].ecn:
        return
    end = w.ends[flow.end]
    if p.flags & CE:
        if p.number >= flow.recover:
            flow.size = max(1.0, flow.size / 2)
            flow.recover = end.next
    else:
        flow.size = min(float(flow.window), flow.size + (end.una - before) / flow.size)


@kernel
def _take(w, flow, p):  # type: ignore[no-untyped-def]
    """Add the packet's values to the receiver's, or store them."""
    if p.row < 0:
        return
    group = w.groups[flow.group]
    within = p.number % flow.total
    segment = _segment(w, flow, within)
    place = segment.place + within - segment.first
    target = _element(w, group, w.agents[flow.receiver].rank, p.number // flow.total, place)
    for lane in range(w.sim[0].lanes):
        if segment.what == ADD:
            w.data[target, lane] += w.rows[p.row, lane]
        else:
            w.data[target, lane] = w.rows[p.row, lane]
    free_row(w, p.row)
    p.row = -1


@kernel
def _count(w, flow):  # type: ignore[no-untyped-def]
    """The receiver has a packet more; its collective may have ended."""
    agent = w.agents[flow.receiver]
    agent.delivered += 1
    if agent.iteration < w.groups[flow.group].iterations and agent.available == agent.iteration + 1:
        settle(w, flow.receiver)


@kernel
def settle(w, index):  # type: ignore[no-untyped-def]
    """End the collective of a rank when all that it waits for has come."""
    agent = w.agents[index]
    group = w.groups[agent.group]
    k = np.int64(agent.iteration)
    for i in range(agent.flows, agent.flows + agent.flow_count):
        flow = w.flows[w.flow_list[i]]
        if flow.receiver == index and flow.got < (k + 1) * flow.total:
            return
    if w.sim[0].lanes:
        _check(w, agent, k)
    if group.iterations > agent.iteration:
        ranks.ended(w, index)


@kernel
def _check(w, agent, iteration):  # type: ignore[no-untyped-def]
    """Every element of the rank against the sum of what the ranks began with."""
    s, group = w.sim[0], w.groups[agent.group]
    for place in range(group.elements):
        for lane in range(s.lanes):
            total = np.int32(0)
            for rank in range(group.ranks):
                total = np.int32(total + initial(w, agent.group, rank, iteration, place, lane))
            s.checked += 1
            if w.data[_element(w, group, agent.rank, iteration, place), lane] != total:
                s.wrong += 1


@kernel
def initial(w, group_index, rank, iteration, place, lane):  # type: ignore[no-untyped-def]
    """What a rank begins with."""
    x = np.uint64(w.sim[0].seed) + np.uint64(group_index * 7919 + rank * 104729 + iteration * 1299709)
    x = x * np.uint64(6364136223846793005) + np.uint64(place * 64 + lane + 1)
    x ^= x >> np.uint64(29)
    return np.int32((x * np.uint64(2862933555777941757)) & np.uint64(0xFFFFFFFF))


@entry
def fill(w, group_index):  # type: ignore[no-untyped-def]
    """Give every rank its elements, before the start."""
    group = w.groups[group_index]
    for iteration in range(group.iterations):
        for rank in range(group.ranks):
            for place in range(group.elements):
                for lane in range(w.sim[0].lanes):
                    w.data[_element(w, group, rank, iteration, place), lane] = initial(
                        w, group_index, rank, iteration, place, lane
                    )
