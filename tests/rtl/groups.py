"""Small groups on one simulated engine: golden agents as its children, a packet at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_testbed.rtl.device import RtlDevice, open_device


@cache
def device(mode: int) -> RtlDevice:
    """One simulation a mode and process, with the default parameters; whoever takes it resets it."""
    return open_device(mode)


def plan(number: int, mode: int, ports: list[int], **params: Any) -> GroupPlan:
    """A group of one engine, "x", whose rank r is behind port ports[r]."""
    values = {
        "window": 8,
        "slots": 16,
        "payload_bytes": 256,
        "rto_initial_us": 20000,
        "rto_min_us": 20000,
    } | params
    group = GroupParams(group=number, mode=mode, world_size=len(ports), **values)
    ends = {
        (rank, "x"): (
            LinkEnd(0, f"10.{number}.{rank}.2", f"02:00:00:{number:02x}:{rank:02x}:02"),
            LinkEnd(port, f"10.{number}.{rank}.1", f"02:00:00:{number:02x}:{rank:02x}:01"),
        )
        for rank, port in enumerate(ports)
    }
    return build_group(Tree("x", {"x": tuple(range(len(ports)))}), group, ends, seed=number)
