"""Installations that must be refused whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from epic_models.reference.group import EngineGroup, GroupParams
from epic_spec.errors import ConfigError, ResourceError
from epic_spec.tables import CAPABILITIES
from epic_testbed.conformance.bench import Bench, Failure
from epic_testbed.conformance.case import case


def _params(params: GroupParams, **changes: Any) -> GroupParams:
    """Parameters with values that `GroupParams` itself would not take."""
    other = object.__new__(GroupParams)
    for f in fields(GroupParams):
        object.__setattr__(other, f.name, changes.get(f.name, getattr(params, f.name)))
    return other


def _refused(bench: Bench, name: str, entry: EngineGroup) -> None:
    """The device refuses the installation."""
    bench.note(f"install {name}: to be refused")
    try:
        bench.dut.configure(entry)
    except (ConfigError, ResourceError):
        return
    raise Failure(f"{name}: installed", ["a refusal"], ["no error"])


def _try_all(bench: Bench, entries: dict[str, Callable[[], EngineGroup]]) -> None:
    """Refuse each of these groups 2 beside a group 1 in the middle of a cell; then group 2 as it should be
    works.
    """
    bench.install(2, number=1)
    bench.contribute(0, 0, (1,))
    for name, entry in entries.items():
        _refused(bench, name, entry())
    bench.use(1)
    bench.contribute(1, 0, (2,))
    bench.expect_result(0, (3,))
    if bench.traits.capabilities.groups >= 2:
        bench.install(2, number=2)
        for cell in range(2):
            for number in (1, 2):
                bench.use(number)
                bench.contribute_all(cell + (number == 1), [(cell,), (number,)])
                bench.expect_result(cell + (number == 1), (cell + number,))


@case("EPIC-E-18")
def more_than_the_device_offers(bench: Bench) -> None:
    """Group 2 asks for more than each limit of the device (window, slots, payload_bytes, message_bytes,
    buffers), for operators, datatypes and options that it does not offer, and for another mode. Each is
    refused, and nothing has changed: group 1 completes its cell, and group 2 can be installed as it should
    be.
    """
    entry = bench.prepare(2, number=2).entry
    offered, params = bench.traits.capabilities, entry.params
    changes: dict[str, dict[str, Any]] = {}
    for name in ("window", "slots", "payload_bytes", "message_bytes", "message_buffers"):
        if bench.mode in CAPABILITIES[name]["modes"]:
            changes[f"{name} above the device's"] = {name: 2 * getattr(offered, name)}
    for name in ("operators", "datatypes"):
        for value in set(CAPABILITIES[name]["values"]) - set(getattr(offered, name)):
            changes[f"{name} with {value}"] = {name: (*getattr(params, name), value)}
    for name in ("byte_order", "icrc", "partial_format"):
        for value in set(CAPABILITIES[name]["values"]) - set(getattr(offered, name)):
            changes[f"{name} = {value}"] = {name: value}
    for name in ("ack_reflection", "window_guard", "conflict_record", "ordered", "ecn"):
        if bench.mode in CAPABILITIES[name]["modes"] and not getattr(offered, name):
            changes[name] = {name: True}
    for mode in {1, 2, 3} - {bench.mode}:
        changes[f"mode {mode}"] = {"mode": mode}
    _try_all(bench, {name: _with(entry, change) for name, change in changes.items()})


def _with(entry: EngineGroup, change: dict[str, Any]) -> Callable[[], EngineGroup]:
    return lambda: replace(entry, params=_params(entry.params, **change))


@case("EPIC-E-18")
def values_that_do_not_fit(bench: Bench) -> None:
    """Group 2 has N below 2W (Mode III), B above W or 2^23 packets in a window (Mode I), a window that is no
    power of two, no children, or more children than the device offers. Each is refused.
    """
    entry = bench.prepare(2, number=2).entry
    offered, params = bench.traits.capabilities, entry.params
    changes: dict[str, dict[str, Any]] = {"a window of 3": {"window": 3}, "a window of 0": {"window": 0}}
    if bench.mode == 3:
        changes["N = W"] = {"slots": params.window}
        changes["N = 2W with W doubled"] = {"window": params.slots}
    if bench.mode == 1:
        changes["B = 2W"] = {"message_buffers": 2 * params.window}
        changes["2^23 packets in a window"] = {
            "payload_bytes": 64, "message_bytes": 1 << 20, "window": 512, "message_buffers": 1,
        }  # fmt: skip
    entries = {name: _with(entry, change) for name, change in changes.items()}
    entries["no children"] = lambda: replace(entry, children=())
    many = tuple(
        replace(entry.children[0], name=f"r{i}-x", local=replace(entry.children[0].local, qpn=0xA00000 + i))
        for i in range(offered.children + 1)
    )
    entries["more children than offered"] = lambda: replace(entry, children=many)
    _try_all(bench, entries)


@case("EPIC-E-18")
def numbers_in_use(bench: Bench) -> None:
    """A group with the number of an installed one, a group with a QPN of an installed one (on a child's and
    on the parent's edge), a group with the same QPN twice: each is refused.
    """
    entry = bench.prepare(2, number=2).entry
    first = bench.prepare(2, number=1).entry  # as it will be installed
    taken = first.children[0].local.qpn

    def with_qpn(qpn: int) -> EngineGroup:
        other = entry.children[1]
        return replace(
            entry, children=(entry.children[0], replace(other, local=replace(other.local, qpn=qpn)))
        )

    def parent_with_qpn() -> EngineGroup:
        edge = entry.children[1]
        parent = replace(edge, name="x-top", local=replace(edge.local, qpn=taken), peer_is_engine=True)
        return replace(entry, children=entry.children[:1], parent=parent)

    entries: dict[str, Callable[[], EngineGroup]] = {
        "the number of group 1": lambda: replace(entry, params=replace(entry.params, group=1)),
        "a QPN of group 1": lambda: with_qpn(taken),
        "a QPN of group 1 towards the parent": parent_with_qpn,
        "the same QPN twice": lambda: with_qpn(entry.children[0].local.qpn),
    }
    _try_all(bench, entries)


@case("EPIC-E-18", "EPIC-E-02", "EPIC-E-04")
def as_many_groups_as_offered(bench: Bench) -> None:
    """As many groups as the device offers (at most 64 of them are tried) are installed; one more is refused
    where the limit was reached. Each of a few works. With one removed there is room for another.
    """
    limit = bench.traits.capabilities.groups
    count = min(limit, 64)
    for number in range(1, count + 1):
        bench.install(2, number=number)
    if count == limit:
        _refused(bench, "one group more than offered", bench.prepare(2, number=count + 1).entry)
    for number in sorted({1, count // 2 or 1, count}):
        bench.use(number)
        bench.contribute_all(0, [(number,), (1,)])
        bench.expect_result(0, (number + 1,))
    bench.remove(count)
    bench.install(2, number=count + 1)
    bench.contribute_all(0, [(7,), (1,)])
    bench.expect_result(0, (8,))
