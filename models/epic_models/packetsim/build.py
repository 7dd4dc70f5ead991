"""From a configuration to the arrays of a `World`."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from epic_models.packetsim import flows as flow_rules
from epic_models.packetsim import world as w_
from epic_models.packetsim.algorithms import ALGORITHMS, Flow, places
from epic_models.packetsim.config import DISTRIBUTIONS, HEADER_BYTES, PRIMITIVES, Config, Job
from epic_models.packetsim.heap import KIND
from epic_models.packetsim.reference import reference
from epic_models.packetsim.timers import NEVER
from epic_models.packetsim.wheel import BUCKETS
from epic_models.packetsim.world import World, record
from epic_spec.errors import ConfigError

# Packets that may be in flight at once.
PACKETS: Final = 1 << 20
_BIG: Final = 1 << 60


def picoseconds(seconds: float) -> int:
    """A time in seconds as the simulator counts it."""
    return round(seconds / w_.PS) if math.isfinite(seconds) else _BIG


@dataclass(slots=True)
class Plan:
    """Where things are in the arrays: for each job its group, ranks' agents, and its tree's (child, parent) edges."""

    jobs: list[range]
    # (job, child node or rank as text, parent node) of a tree edge -> (child's end, parent's end)
    edges: dict[tuple[int, str, str], tuple[int, int]]


class _Builder:
    def __init__(self, config: Config, packets: int, log: int, script: Sequence[Sequence[int]]) -> None:
        self.config = config
        self.paths: list[int] = []
        self.ends: list[dict[str, Any]] = []
        self.agents: list[dict[str, Any]] = []
        self.entries: list[dict[str, Any]] = []
        self.children: list[int] = []
        self.groups: list[dict[str, Any]] = []
        self.flows: list[dict[str, Any]] = []
        self.flow_list: list[int] = []
        self.segments: list[tuple[int, int, int]] = []
        self.sources: list[dict[str, Any]] = []
        self.pending = self.slots = self.data = self.expected = self.starts = self.ranks = 0
        self.delays: list[int] = []
        self.leaf: list[int] = []
        self.slot_tags: list[tuple[int, int]] = []
        self.plan = Plan([], {})
        self.packets, self.log, self.script = packets, log, script

    # ------------------------------------------------------------------------------------------------------ pieces

    def path(self, a: int, b: int, salt: object) -> tuple[int, int]:
        links = self.config.network.path(a, b, salt)
        start = len(self.paths)
        self.paths += links
        return start, len(self.paths)

    def end(self, job: Job, group: int, node: int, ring: int, **values: Any) -> int:
        self.ends.append(
            {
                "group": group, "node": node, "ring": self.pending, "ring_size": ring, "child": -1, "srtt": -1.0,
                "base": min(max(job.rto_initial, job.rto_min), job.rto_max), "backoff": 1, "deadline": np.inf,
                "not_ready_until": -1.0, "nak_served": -1, "timer_at": NEVER, "part_row": -1, **values,
            }
        )  # fmt: skip
        self.pending += ring
        return len(self.ends) - 1

    def join(self, a: int, b: int, salt: object) -> None:
        """Make two ends each other's peers, with a path each way (the way back is its own ECMP choice)."""
        for one, other in ((a, b), (b, a)):
            start, stop = self.path(self.ends[one]["node"], self.ends[other]["node"], salt)
            self.ends[one] |= {"peer": other, "path": start, "path_stop": stop}

    def group(self, index: int, job: Job, elements: int) -> int:
        """A job's group. `elements`: packets of data that each rank of a host algorithm has."""
        ranks = len(job.hosts)
        slots = job.slots if job.slots is not None else 2 * job.window
        buffers = job.buffers if job.buffers is not None else job.window
        self.groups.append(
            {
                "how": job.mode or w_.HOSTS, "ranks": ranks, "window": job.window,
                "slot_count": {1: buffers, 2: job.window, 3: slots}.get(job.mode or 0, 0),
                "payload": job.payload, "cell_bytes": job.cell_bytes, "bytes": job.size, "cells": job.cells,
                "iterations": job.iterations, "root": job.root, "rto_initial": job.rto_initial,
                "primitive": PRIMITIVES.index(job.primitive),
                "rto_min": job.rto_min, "rto_max": job.rto_max, "retry_limit": job.retry_limit, "rnr": job.rnr,
                "guard": job.guard, "ecn": job.ecn, "header": HEADER_BYTES,
                "starts": self.ranks, "expected": self.expected, "ack_every": job.ack_every, "elements": elements,
                "data": self.data, "delays": len(self.delays),
            }
        )  # fmt: skip
        self.ranks += ranks
        if self.config.payload_check:
            if job.mode is None:
                self.data += job.iterations * ranks * elements
            else:
                self.expected += 4 * job.window
        rng = random.Random(f"starts {self.config.seed}/{index}")
        random_delay = DISTRIBUTIONS[job.distribution]
        for rank in range(ranks):
            for k in range(job.iterations):
                delay = job.start if k == 0 else job.compute
                delay += job.straggle * random_delay(rng) if job.straggle else 0.0
                delay += job.slow if rank in job.slow_ranks else 0.0
                self.delays.append(picoseconds(delay))
        return len(self.groups) - 1

    def rank(self, group: int, job: Job, rank: int, **values: Any) -> int:
        self.agents.append(
            {
                "group": group,
                "rank": rank,
                "node": job.hosts[rank],
                "newest": -1,
                "size": float(job.window),
                **values,
            }
        )
        return len(self.agents) - 1

    # --------------------------------------------------------------------------------------------------- the modes

    def tree(self, index: int, job: Job) -> None:
        group = self.group(index, job, 0)
        packets = 1 if job.mode != 1 else -(-job.message // job.payload)
        ring = job.window * packets
        members: dict[int, list[int]] = {}
        for rank, host in enumerate(job.hosts):
            members.setdefault(host, []).append(rank)
        root, children = self.config.network.tree(job.hosts, f"{self.config.seed}/{index}")
        order = self._leaves(root, children, members)
        self.leaf += [order[rank][0] for rank in range(len(job.hosts))]
        first = len(self.agents)
        for rank in range(len(job.hosts)):
            self.rank(group, job, rank)
        entry_of: dict[int, int] = {}
        for node in self._top_down(root, children):
            entry_of[node] = self._entry(group, node)
        names = self.config.network.names
        for node, entry in entry_of.items():
            below: list[tuple[int | None, int]] = []  # (rank, node)
            for child in children[node]:
                if child in members:
                    below += [(rank, child) for rank in members[child]]
                else:
                    below.append((None, child))
            if len(below) > 64:
                raise ConfigError(
                    f"{self.config.source}: job {job.name}: fan-in {len(below)} at {names[node]}, expected at most 64"
                )
            ends = []
            for number, (rank_here, at) in enumerate(below):
                low, high = order[rank_here] if rank_here is not None else order[-1 - at]
                up = self.end(
                    job,
                    group,
                    node,
                    ring,
                    owner_kind=w_.ENGINE,
                    owner=entry,
                    child=number,
                    low=low,
                    high=high,
                )
                if rank_here is None:
                    down = self.end(
                        job, group, at, ring, owner_kind=w_.ENGINE, owner=entry_of[at], low=low, high=high
                    )
                    self.entries[entry_of[at]]["parent"] = down
                else:
                    down = self.end(
                        job, group, at, ring, owner_kind=w_.AGENT, owner=first + rank_here, low=low, high=high
                    )
                    self.agents[first + rank_here]["end"] = down
                self.join(up, down, f"{index}/{number}")
                ends.append(up)
                label = f"r{rank_here}" if rank_here is not None else names[at]
                self.plan.edges[index, label, names[node]] = (down, up)
            values = self.entries[entry]
            values |= {"children": len(self.children), "fan_in": len(ends), "full": (1 << len(ends)) - 1}
            self.children += ends
        self.plan.jobs.append(range(first, first + len(job.hosts)))

    def _entry(self, group: int, node: int) -> int:
        count = self.groups[group]["slot_count"]
        self.entries.append(
            {"group": group, "node": node, "parent": -1, "slots": self.slots, "slot_count": count}
        )
        self.slot_tags.append((self.slots, count))
        self.slots += count
        return len(self.entries) - 1

    @staticmethod
    def _top_down(root: int, children: dict[int, list[int]]) -> list[int]:
        order, queue = [], [root]
        while queue:
            node = queue.pop(0)
            order.append(node)
            queue += [child for child in children[node] if child in children]
        return order

    @staticmethod
    def _leaves(
        root: int, children: dict[int, list[int]], members: dict[int, list[int]]
    ) -> dict[int, tuple[int, int]]:
        """Leaf positions, so that what is below an edge is a range: of ranks by number, of switches by -1 - node."""
        ranges: dict[int, tuple[int, int]] = {}
        at = 0

        def visit(node: int) -> None:
            nonlocal at
            start = at
            for child in children[node]:
                if child in members:
                    for rank in members[child]:
                        ranges[rank] = (at, at + 1)
                        at += 1
                else:
                    visit(child)
            ranges[-1 - node] = (start, at)

        visit(root)
        return ranges

    # ------------------------------------------------------------------------------------------------- host flows

    def host_flows(self, index: int, job: Job) -> None:
        ranks = len(job.hosts)
        made: Sequence[Flow] = ALGORITHMS[job.algorithm](ranks, job.cells)
        group = self.group(index, job, places(made))
        self.leaf += list(range(ranks))
        first_agent, first_flow = len(self.agents), len(self.flows)
        wakes: dict[int, list[int]] = {}
        for i, flow in enumerate(made):
            for other in flow.waits:
                wakes.setdefault(other, []).append(first_flow + i)
        for rank in range(ranks):
            mine = [first_flow + i for i, f in enumerate(made) if rank in (f.sender, f.receiver)]
            self.rank(group, job, rank, flows=len(self.flow_list), flow_count=len(mine))
            self.flow_list += mine
        for i, flow in enumerate(made):
            number = len(self.flows)
            sender, receiver = first_agent + flow.sender, first_agent + flow.receiver
            ends = [
                self.end(job, group, job.hosts[r], size, owner_kind=w_.FLOW, owner=number)
                for r, size in ((flow.sender, job.window), (flow.receiver, 1))
            ]
            self.join(ends[0], ends[1], f"{index}/{i}")
            values = {
                "group": group, "end": ends[0], "sender": sender, "receiver": receiver, "total": flow.total,
                "offset": flow.offset, "rule": flow.rule, "window": job.window, "size": float(job.window),
                "segments": len(self.segments),
                "segment_count": len(flow.segments), "waits": len(self.flow_list), "wait_count": len(flow.waits),
            }  # fmt: skip
            self.flow_list += [first_flow + other for other in flow.waits]
            values |= {"wakes": len(self.flow_list), "wake_count": len(wakes.get(i, []))}
            self.flow_list += wakes.get(i, [])
            at = 0
            for place, count, what in flow.segments:
                self.segments.append((at, place, what))
                at += count
            self.flows.append(values)
        self.plan.jobs.append(range(first_agent, first_agent + ranks))

    # ---------------------------------------------------------------------------------------------------- the rest

    def background(self) -> None:
        numbers = self.config.network.numbers
        for i, traffic in enumerate(self.config.backgrounds):
            job = Job("background")
            source = len(self.sources)
            ends = [
                self.end(job, 0, numbers[name], 1, owner_kind=w_.SINK, owner=source)
                for name in (traffic.source, traffic.target)
            ]
            self.join(ends[0], ends[1], f"background {i}")
            size = traffic.payload + HEADER_BYTES
            self.sources.append(
                {
                    "end": ends[0], "size": size, "mean": size * 8000 / traffic.rate, "stop": _BIG,
                    "on": traffic.on / w_.PS, "off": traffic.off / w_.PS, "stream": self.config.seed * 1009 + i,
                }
            )  # fmt: skip

    def world(self) -> World:
        config = self.config
        for index, job in enumerate(config.jobs):
            if job.mode is None:
                self.host_flows(index, job)
            else:
                self.tree(index, job)
        self.background()
        lanes = config.lanes if config.payload_check else 0
        links = self._links()
        rows = self._rows() if lanes else 0
        heap = self.packets + len(links) * 3 + len(self.ends) * 4 + len(self.agents) * 2 + 64
        samples = min(4096, int(config.time_limit / config.sample) + 1) if config.sample else 0
        world = World(
            sim=record(w_.SIM, 1),
            wheel=record(w_.WHEEL, len(links)),
            wheel_first=np.full(BUCKETS, -1, np.int32),
            wheel_last=np.full(BUCKETS, -1, np.int32),
            wheel_words=np.zeros(BUCKETS // 64, np.uint64),
            heap_time=np.zeros(heap, np.int64),
            heap_key=np.zeros(heap, np.int64),
            heap_what=np.zeros(heap, np.int64),
            links=links,
            packets=record(w_.PACKET, self.packets),
            paths=np.array(self.paths or [0], np.int32),
            ends=_table(w_.END, self.ends),
            pending=record(w_.PENDING, self.pending),
            agents=_table(w_.AGENT_, self.agents),
            entries=_table(w_.ENTRY, self.entries),
            children=np.array(self.children or [0], np.int32),
            slots=record(w_.SLOT, self.slots),
            groups=_table(w_.GROUP, self.groups),
            starts=np.array(self.delays or [0], np.int64),
            leaf=np.array(self.leaf or [0], np.int32),
            finish=np.full(max(1, len(self.delays)), -1, np.int64),
            flows=_table(w_.FLOW_, self.flows),
            flow_list=np.array(self.flow_list or [0], np.int32),
            segments=np.array(self.segments or [(0, 0, 0)], w_.SEGMENT),
            data=np.zeros((max(1, self.data), max(1, lanes)), np.int32),
            rows=np.zeros((max(1, rows), max(1, lanes)), np.int32),
            row_next=np.arange(1, max(1, rows) + 1, dtype=np.int32),
            expected=np.zeros((max(1, self.expected), max(1, lanes)), np.int32),
            expected_cell=np.full(max(1, self.expected), -1, np.int64),
            changes=self._changes(),
            node_up=np.ones(len(config.network.names), np.uint8),
            sources=_table(w_.SOURCE_, self.sources),
            log=record(w_.LOG, self.log),
            samples=np.zeros((samples, len(links)), np.int64),
            script=np.array(self.script or np.zeros((0, 4)), np.int64).reshape(-1, 4),
        )
        self._begin(world, lanes, rows)
        return world

    def _rows(self) -> int:
        """Rows of values: one a packet in flight, a slot, and a pending packet, at most."""
        return min(self.packets, 1 << 17) + self.slots + self.pending + len(self.ends)

    def _links(self) -> w_.Records:
        network, common = self.config.network, self.config.links
        links = record(w_.LINK, 2 * len(network.wires))
        for k, wire in enumerate(network.wires):
            for directed, (a, b) in ((2 * k, (wire.a, wire.b)), (2 * k + 1, (wire.b, wire.a))):
                link = links[directed]
                link["from_"], link["to"] = a, b
                link["ps_per_byte"], link["delay"] = 8000.0 / wire.rate, round(wire.delay * 1000)
        links["first"] = links["last"] = links["waiting"] = links["waiting_last"] = -1
        links["up"] = 1
        links["capacity"] = int(common.buffer)
        links["mark_above"] = int(common.mark) if math.isfinite(common.mark) else _BIG
        links["xoff"], links["xon"] = int(common.pause), int(common.resume)
        links["loss"], links["duplicate"], links["reorder"] = common.loss, common.duplicate, common.reorder
        links["hold"] = picoseconds(common.hold)
        links["faulty"] = common.loss + common.duplicate + common.reorder > 0
        # A host's own queue has room for what its windows allow, and marks nothing.
        own = links["from_"] < network.hosts
        links["capacity"][own] = links["mark_above"][own] = _BIG
        if common.pfc:
            # Nothing is dropped for want of room: the pause comes before.
            links["capacity"] = _BIG
        return links

    def _changes(self) -> w_.Records:
        network = self.config.network
        rows = []
        for failure in self.config.failures:
            times = [(failure.at, 0)] + ([(failure.until, 1)] if failure.until is not None else [])
            for time, up in times:
                if failure.node is not None:
                    rows.append((picoseconds(time), -1, network.numbers[failure.node], up))
                    continue
                assert failure.link is not None
                k = network.wire_numbers[failure.link]
                rows += [(picoseconds(time), d, -1, up) for d in (2 * k, 2 * k + 1)]
        return np.array(rows or [(_BIG, -1, 0, 1)], w_.CHANGE_)

    def _begin(self, world: World, lanes: int, rows: int) -> None:
        """Free lists, slots as if the cells before their first had been done, and the first events."""
        sim = world.sim[0]
        sim["seed"], sim["lanes"], sim["pfc"] = self.config.seed, lanes, self.config.links.pfc
        sim["log_on"] = self.log > 0
        sim["wheel_shift"] = self._wheel_shift(world.links)
        world.packets["next"] = np.arange(1, len(world.packets) + 1)
        world.packets["next"][-1] = -1
        world.packets["row"] = -1
        world.row_next[-1] = -1
        sim["free_row"] = 0 if rows else -1
        world.pending["row"] = -1
        world.slots["row"] = -1
        for (first, count), entry in zip(self.slot_tags, self.entries, strict=True):
            mine = world.slots[first : first + count]
            mine["tag"] = np.arange(count) - count
            if self.groups[entry["group"]]["how"] == w_.MODE3:
                mine["bitmap"], mine["done"] = entry["full"], 1
        sim["unfinished"] = len(self.agents)
        events: list[tuple[int, int, int]] = []
        for i, agent in enumerate(self.agents):
            events.append((int(world.starts[self._first(agent)]), w_.WAKE * KIND + i, i))
        changes = len(world.changes) if self.config.failures else 0
        events += [(int(world.changes[i]["time"]), w_.CHANGE * KIND + i, i) for i in range(changes)]
        events += [(0, w_.SOURCE * KIND + i, i) for i in range(len(self.sources))]
        if self.config.sample:
            sim["sample_every"] = picoseconds(self.config.sample)
            events.append((0, w_.SAMPLE * KIND, 0))
        # A sorted list is a heap.
        for i, event in enumerate(sorted(events)):
            world.heap_time[i], world.heap_key[i], world.heap_what[i] = event
        sim["heap"] = len(events)
        if lanes:
            for g, group in enumerate(self.groups):
                if group["how"] == w_.HOSTS:
                    flow_rules.fill(reference(world), g)

    def _wheel_shift(self, links: w_.Records) -> int:
        """Such that the wheel reaches as far as two large packets on half of the links take, or farther."""
        size = max(job.payload for job in self.config.jobs) + HEADER_BYTES
        reach = 2 * float(np.median(links["delay"] + size * links["ps_per_byte"]))
        return max(0, math.ceil(math.log2(max(reach, 1.0) / BUCKETS)))

    def _first(self, agent: dict[str, Any]) -> int:
        group = self.groups[agent["group"]]
        return int(group["delays"] + agent["rank"] * group["iterations"])


def _table(dtype: np.dtype[Any], rows: Sequence[dict[str, Any]]) -> w_.Records:
    table = record(dtype, len(rows))
    for i, row in enumerate(rows):
        for key, value in row.items():
            table[i][key] = value
    return table


def build(
    config: Config, *, packets: int = PACKETS, log: int = 0, script: Sequence[Sequence[int]] = ()
) -> tuple[World, Plan]:
    """The world of a configuration, at time 0, and where things are in it.

    `packets` may be in flight at once; `log` receptions are noted; `script` has rows (directed link, number of the
    packet on it, fate, hold in picoseconds) instead of random faults. Raises ConfigError.
    """
    builder = _Builder(config, packets, log, script)
    return builder.world(), builder.plan
