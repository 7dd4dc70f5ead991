"""Metrics for Prometheus: the manager's state and counts, read when they are asked for, on a loopback port."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from epic_host.manager.runner import Runner
from epic_host.manager.service import Service
from epic_spec.errors import ConfigError

# Seconds that a scrape waits for the manager's loop.
_TIMEOUT: Final = 5.0


class Metrics:
    """A collector. `collect` runs in a thread of the HTTP server; the manager's loop takes the snapshot."""

    def __init__(self, service: Service, runner: Runner) -> None:
        self._service = service
        self._runner = runner

    def serve(self, address: str) -> Callable[[], None]:
        """Serve `/metrics` on `127.x.y.z:port`; returns what ends it. Raises ConfigError when it cannot be bound."""
        host, _, port = address.rpartition(":")
        registry = CollectorRegistry()
        registry.register(self)
        try:
            server, thread = start_http_server(int(port), addr=host, registry=registry)
        except OSError as error:
            raise ConfigError(f"metrics: address {address}: {error.strerror}, expected a free one") from None

        def end() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return end

    def describe(self) -> Iterable[Metric]:
        """Nothing: what is there is known when it is collected."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        groups, topology, counts = self._runner.from_thread(self._snapshot, _TIMEOUT)
        yield from _of_groups(groups)
        yield from _of_topology(topology)
        yield from counts

    def _snapshot(self, now: float) -> tuple[Any, Any, list[Metric]]:
        core = self._runner.core
        return core.groups(now), core.topology(now), self._counts()

    def _counts(self) -> list[Metric]:
        seconds = CounterMetricFamily(
            "epic_manager_call_seconds", "Time spent on calls of a method.", labels=["method"]
        )
        for method, spent in self._service.seconds.items():
            seconds.add_metric([method], spent)
        watchers = GaugeMetricFamily(
            "epic_manager_watchers", "Open watch streams.", len(self._runner.watchers)
        )
        cut = CounterMetricFamily(
            "epic_manager_watchers_cut",
            "Watch streams cut off for a slow reader.",
            self._runner.watchers.cut_off,
        )
        waiting = GaugeMetricFamily(
            "epic_manager_engine_calls_waiting", "Engine calls not begun.", self._runner.calls.waiting()
        )
        return [
            _pairs("epic_manager_calls", "Calls that ended.", ("method", "code"), self._service.calls),
            seconds,
            _pairs("epic_manager_refusals", "Calls refused.", ("method", "reason"), self._service.refusals),
            _pairs(
                "epic_manager_engine_calls",
                "Calls of engines.",
                ("kind", "outcome"),
                self._runner.calls.outcomes,
            ),
            watchers,
            cut,
            waiting,
        ]


def _pairs(name: str, text: str, labels: tuple[str, str], counts: Counter[tuple[str, str]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for pair, count in counts.items():
        family.add_metric(pair, count)
    return family


def _of_groups(groups: Iterable[Any]) -> Iterator[Metric]:
    by_state: Counter[tuple[str, str]] = Counter()
    members: Counter[str] = Counter()
    per_group = {
        "delivered_cells": CounterMetricFamily(
            "epic_group_delivered_cells", "Cells that the slowest rank has delivered.", labels=["group"]
        ),
        "payload_bytes": CounterMetricFamily(
            "epic_group_payload_bytes", "Payload that the ranks have contributed.", labels=["group"]
        ),
        "retransmissions": CounterMetricFamily(
            "epic_group_retransmissions", "Packets that the ranks have sent again.", labels=["group"]
        ),
    }
    for state in groups:
        by_state[state.state, state.path] += 1
        for member in state.members:
            members[member.state] += 1
        if state.state == "ended":
            continue
        delivered = min((member.delivered for member in state.members), default=0)
        per_group["delivered_cells"].add_metric([state.group], delivered)
        for name in ("payload_bytes", "retransmissions"):
            per_group[name].add_metric([state.group], sum(getattr(member, name) for member in state.members))
    family = GaugeMetricFamily("epic_groups", "Groups.", labels=["state", "path"])
    for pair, count in by_state.items():
        family.add_metric(pair, count)
    yield family
    family = GaugeMetricFamily("epic_members", "Members of groups.", labels=["state"])
    for name, count in members.items():
        family.add_metric([name], count)
    yield family
    yield from per_group.values()


def _of_topology(topology: Any) -> Iterator[Metric]:
    up = GaugeMetricFamily("epic_engine_up", "1 where the engine answers and is in use.", labels=["engine"])
    given = {
        name: GaugeMetricFamily(f"epic_engine_{name}", text, labels=["engine"])
        for name, text in (
            ("slot_bytes", "Bytes of slots that the engine has."),
            ("slot_bytes_used", "Bytes of slots given away."),
            ("groups", "Group entries that the engine has."),
            ("groups_used", "Group entries given away."),
        )
    }
    for engine in topology.engines:
        up.add_metric([engine.name], engine.state == "up")
        for name, family in given.items():
            family.add_metric([engine.name], getattr(engine, name))
    yield up
    yield from given.values()
    states: Counter[tuple[str, str]] = Counter()
    for kind, items in (("host", topology.hosts), ("link", topology.links)):
        states.update((kind, item.state) for item in items)
    family = GaugeMetricFamily("epic_fabric_parts", "Hosts and links by state.", labels=["kind", "state"])
    for pair, count in states.items():
        family.add_metric(pair, count)
    yield family
