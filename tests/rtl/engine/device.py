"""The simulated engine as the device that the scripts of the P4 programs drive (tests/p4/program): same stories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from epic_models.reference.group import Edge, EngineGroup
from epic_testbed.rtl.device3 import Mode3Device
from p4.program.frames import make_group
from p4.program.scripts import World
from p4.program.twins import Twins

# The scripts put child i on port 1 + i, and the parent on port 61. Here the parent has port 0 and the children
# share the others.
PARENT = 61
PORTS = 8


class TwinDevice:
    """One engine; the ports of the scripts become its own."""

    arch = "v1model"  # what the twins expect of: ICRC, window guard, no frame with bytes behind it

    def __init__(self, device: Mode3Device) -> None:
        self.rtl = device
        self._numbers: list[int] = []
        self._port_of: dict[bytes, int] = {}  # the scripts' port, by the QPN that a frame goes to

    def clear(self) -> None:
        """Remove all groups and forget what was counted: the slots keep what they held (EPIC-E-04)."""
        for number in self._numbers:
            self.rtl.remove(number)
        self._numbers = []

    def install(self, group: EngineGroup) -> None:
        for edge in [*group.children, *([] if group.parent is None else [group.parent])]:
            self._port_of[edge.peer.qpn.to_bytes(3, "big")] = edge.port
        self.rtl.install(
            replace(
                group,
                children=tuple(_moved(edge) for edge in group.children),
                parent=None if group.parent is None else _moved(group.parent),
            )
        )
        self._numbers.append(group.params.group)

    def remove(self, number: int) -> None:
        self.rtl.remove(number)
        self._numbers.remove(number)

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        sent = self.rtl.process(_own(port), frame)
        assert all(to == _own(self._port_of[one[47:50]]) for to, one in sent), (
            "sent by another port than the edge's"
        )
        return [(self._port_of[one[47:50]], one) for _, one in sent]

    def counters(self) -> dict[str, int]:
        return self.rtl.counters()

    def slots(self, number: int) -> set[tuple[int, int, bool]]:
        return {(s.cell, s.bitmap, s.done) for s in self.rtl.status(number).slots}


def _own(port: int) -> int:
    """The engine's port for one of the scripts'."""
    return 0 if port == PARENT else 1 + (port - 1) % (PORTS - 1)


def _moved(edge: Edge) -> Edge:
    return replace(edge, port=_own(edge.port))


@cache
def engine() -> Mode3Device:
    """One simulation for all tests."""
    return Mode3Device()


@dataclass(frozen=True)
class RtlWorld(World):
    """The world of the scripts, with this engine in it."""

    def make(self, children: int = 2, **options: Any) -> EngineGroup:
        return make_group(children, **({"payload_bytes": 4 * self.words} | options))

    def twins(self, *groups: EngineGroup) -> Twins:
        device = engine()
        device.reset()
        return Twins("v1model", *groups, words=self.words, device=TwinDevice(device))  # type: ignore[arg-type]
