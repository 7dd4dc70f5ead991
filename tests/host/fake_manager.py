"""A manager for one group, in this process: real switches and sockets, no gRPC; epochs change when a test says so."""

from __future__ import annotations

import itertools
import json
import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from epic_host.fallback.plan import host_plan
from epic_host.grants import Grant
from epic_host.manager.errors import ManagerUnreachableError, refused
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.switch import Switch, SwitchConfig
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_spec.codec import mac_of_ip
from host.worlds import subnet

LEASE = 0.6


class FakeManager:
    """`switches` named s0, s1, …, each of which alone can be the tree of the group's `n` ranks; and the host path."""

    def __init__(self, folder: Path, n: int = 3, mode: int = 3, switches: int = 2, **params: Any) -> None:
        net = subnet()
        self.addresses = [f"{net}.{10 + rank}" for rank in range(n)]
        defaults: dict[str, Any] = {"payload_bytes": 256, "message_bytes": 256, "window": 8, "slots": 16}
        defaults |= {"message_buffers": 8, "rto_min_us": 20_000, "deadline_us": 2_000_000}
        self.params = GroupParams(group=1, mode=mode, world_size=n, **(defaults | params))
        self.switches: dict[str, Switch] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._at = {f"s{i}": f"{net}.{101 + i}" for i in range(switches)}
        for name, address in self._at.items():
            config = {
                "name": name, "engine": f"reference-m{mode}", "control": f"unix:{folder}/{name}",
                "transport": {"kind": "udp", "address": address, "ports": {a: i for i, a in enumerate(self.addresses)}},
            }  # fmt: skip
            switch = self.switches[name] = Switch(SwitchConfig.from_dict(config))
            self._threads[name] = threading.Thread(target=switch.run)
            self._threads[name].start()
        self.epoch = 0
        self.away = False
        self.calls: list[tuple[str, dict[str, Any]]] = []
        # Verdicts to come, the last one again and again; what members are told in answer to signs of life.
        self.verdict = pb.ReportFaultResponse(verdict="wait", text="everything answers")
        self.notices: list[pb.MemberNotice] = []
        self.reports: dict[int, int] = {}
        self.hold_grant = False
        self._lock = threading.RLock()
        self._queues: dict[int, queue.SimpleQueue[pb.WatchEvent | None]] = {}
        self._now: dict[int, pb.WatchEvent] = {}
        self._path = "s0"
        self._plan: GroupPlan | None = None
        self._numbers = itertools.count(1)

    # ------------------------------------------------------------------------------------------- what tests do

    def change(self, path: str) -> None:
        """A new epoch, on a switch or on "host"."""
        with self._lock:
            self.epoch += 1
            self._path, self.reports = path, {}
            event = pb.WatchEvent(prepare=pb.Prepare(epoch=self.epoch, reason="engine_lost", text="a test"))
            self._tell(dict.fromkeys(range(self.params.world_size), event))

    def lose(self, *ranks: int) -> None:
        """Ranks are lost."""
        text = f"rank {', '.join(map(str, ranks))} lost: its lease ended"
        event = pb.WatchEvent(lost=pb.Lost(ranks=ranks, text=text))
        self._tell({r: event for r in range(self.params.world_size) if r not in ranks})

    def kill(self, name: str) -> None:
        """A switch stops and its sockets are closed."""
        switch = self.switches.pop(name)
        switch.stop()
        self._threads[name].join(10)
        switch.close()

    def drop_watches(self) -> None:
        """Every watch is connected anew: what is true now comes again."""
        with self._lock:
            self._tell(dict(self._now))

    def again(self) -> None:
        """A group of the same name whose ranks have not joined yet."""
        self.epoch += 1
        self.reports.clear()
        self._now.clear()

    def close(self) -> None:
        for name in list(self.switches):
            self.kill(name)

    def count(self, call: str) -> int:
        """How often members have made a call."""
        return sum(name == call for name, _ in self.calls)

    # ------------------------------------------------------------------------------------------------- inside

    def grant(self) -> None:
        """Grant the epoch for which all have reported."""
        with self._lock:
            params = replace(self.params, epoch=self.epoch)
            resume, seed = min(self.reports.values(), default=0), 1000 + self.epoch
            ends = [LinkEnd(0, address, mac_of_ip(address)) for address in self.addresses]
            if self._path == "host":
                plan = host_plan(params, ends, "ring", seed)
                grants = Grant("g", self.epoch, resume, "engine_lost", LEASE, host=plan)
            else:
                tree = self._install(params, ends, seed)
                grants = Grant("g", self.epoch, resume, "granted", LEASE, trees=(tree,))
            event = pb.WatchEvent(granted=pb.Granted(grant=json.dumps(grants.to_dict())))
            self._tell(dict.fromkeys(range(self.params.world_size), event))

    def _install(self, params: GroupParams, ends: list[LinkEnd], seed: int) -> GroupPlan:
        name = self._path
        high = self._at[name]
        tree = build_group(
            Tree(name, {name: tuple(range(params.world_size))}),
            replace(params, group=next(self._numbers)),
            {(r, name): (end, LinkEnd(r, high, mac_of_ip(high))) for r, end in enumerate(ends)},
            seed,
        )
        switch = self.switches[name]
        switch.call(lambda: switch.install(tree.engines[name]), 5.0)
        return tree

    def _tell(self, events: dict[int, pb.WatchEvent]) -> None:
        with self._lock:
            for rank, event in events.items():
                self._now[rank] = event
                if rank in self._queues:
                    self._queues[rank].put(event)


class FakeClient:
    """In place of ManagerClient; `manager` is set by the fixture."""

    manager: FakeManager

    def __init__(self, address: str, credentials: Any = None, timeout: float = 5.0, **more: Any) -> None:
        self.timeout = timeout
        self._queue: queue.SimpleQueue[pb.WatchEvent | None] = queue.SimpleQueue()

    def _called(self, name: str, fields: dict[str, Any]) -> FakeManager:
        self.manager.calls.append((name, fields))
        if self.manager.away:
            raise ManagerUnreachableError("manager: unavailable, expected a running manager")
        return self.manager

    def join_group(self, **fields: Any) -> pb.JoinGroupResponse:
        manager = self._called("join_group", fields)
        rank = fields["rank"]
        if fields["join_token"] != "right":
            raise refused("who", "this is not the group's join token")
        address = manager.addresses[rank]
        with manager._lock:
            manager.reports[rank] = 0
            if len(manager.reports) == manager.params.world_size:
                manager.grant()
        return pb.JoinGroupResponse(
            token=f"token {rank}",
            address=address,
            transport=json.dumps({"kind": "udp", "address": address, "ports": {"0.0.0.0/0": 0}}),
            lease=LEASE,
            world_size=manager.params.world_size,
        )

    def watch(self, *, group: str, rank: int, token: str, patience: float) -> Any:
        manager = self.manager
        with manager._lock:
            manager._queues[rank] = self._queue
            if rank in manager._now:
                self._queue.put(manager._now[rank])
        return Stream(self._queue)

    def report_epoch(self, **fields: Any) -> pb.ReportEpochResponse:
        manager = self._called("report_epoch", fields)
        with manager._lock:
            if fields["epoch"] != manager.epoch:
                raise refused("epoch", f"the group is in epoch {manager.epoch}")
            manager.reports[fields["rank"]] = fields["delivered"]
            if len(manager.reports) == manager.params.world_size and not manager.hold_grant:
                manager.grant()
        return pb.ReportEpochResponse()

    def report_fault(self, **fields: Any) -> pb.ReportFaultResponse:
        return self._called("report_fault", fields).verdict

    def heartbeat(self, **fields: Any) -> pb.HeartbeatResponse:
        manager = self._called("heartbeat", fields)
        return pb.HeartbeatResponse(lease=LEASE, notices=manager.notices)

    def explain(self, **fields: Any) -> pb.ExplainResponse:
        self._called("explain", fields)
        members = [pb.MemberState(rank=r, host=f"h{r}") for r in range(self.manager.params.world_size)]
        return pb.ExplainResponse(
            group=pb.GroupState(members=members, text="ranks have not joined"), waits_for=["rank 2 to join"]
        )

    def leave_group(self, **fields: Any) -> pb.LeaveGroupResponse:
        self._called("leave_group", fields)
        return pb.LeaveGroupResponse()

    def close(self) -> None:
        self._queue.put(None)


class Stream:
    """The events of a queue until None."""

    def __init__(self, events: queue.SimpleQueue[pb.WatchEvent | None]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[pb.WatchEvent]:
        return iter(self._events.get, None)

    def close(self) -> None:
        self._events.put(None)
