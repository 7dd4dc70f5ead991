"""An engine in Verilog with the groups that are installed on it: frames in, frames out, in virtual time.

`RtlDevice` is what both modes share: the simulated model, where groups are placed, counters and slots. What a group is
in the tables of a mode is said by its subclass in device2 and device3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Self

from epic_models.reference.group import EngineGroup
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_spec.errors import ConfigError
from epic_spec.tables import COUNTERS
from epic_testbed.rtl import build, parameters, placement, registers
from epic_testbed.rtl.model import RtlModel
from epic_testbed.rtl.tables import Command, Placed, command, free_edges, mac

# Cycles without a beat at any port after which an idle core means that nothing is on its way to a port either: more
# than from a frame's last beat in to the first beat out of what it causes, 59 with 128 bits and FP32 in Mode III, 92 in
# Mode II (test_device). Wider ports take up to 6 more, 16-bit floats 5.
_QUIET = {2: 112, 3: 64}  # cycles, by mode
_QUIET_WIDE, _QUIET_FP16 = 8, 8
# Largest payloads, and frames, that wait at a port without one being lost (PAYLOAD_DEPTH and META_DEPTH of epic_rx).
_WAITING_PAYLOADS, _WAITING_FRAMES = 4, 16


class RtlDevice(ABC):
    """An engine and its control plane. `chosen` are parameters of its top module in place of the defaults."""

    MODE: ClassVar[int]

    def __init__(self, chosen: Mapping[str, int | str] | None = None, *, trace: Path | None = None) -> None:
        """`trace`: a file for waveforms (FST). Raises ConfigError and DutError when the model can't be built."""
        values = parameters.complete(self.MODE, chosen or {})
        self.top = parameters.top_of(self.MODE)
        self.model = RtlModel(build.library(self.top, values, trace=trace is not None), trace)
        self.shape = registers.shape(self.model)
        self.offers = self.shape.offers()
        self.quiet = _QUIET[self.MODE] + _QUIET_WIDE * (self.shape.bytes > 16) + _QUIET_FP16 * self.shape.fp16
        self._placed: dict[int, Placed] = {}
        self._counted: dict[str, int] = {}
        self._counted_at = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the simulation."""
        self.model.close()

    def reset(self) -> None:
        """As after power on: no groups, counters at 0."""
        self.model.reset()
        self._placed.clear()

    # ------------------------------------------------------------------------------------------------------- frames

    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave because `frame` came in on `port`."""
        self.model.push(port, frame)
        return self.settle()

    def process_all(self, frames: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """The frames that leave because these came in, on all their ports side by side.

        No more go in at once than wait at a port without loss, whatever the core has to do.
        """
        sent: list[tuple[int, bytes]] = []
        room: dict[int, tuple[int, int]] = {}  # by port: bytes, frames
        whole = (_WAITING_PAYLOADS * self.shape.mtu, _WAITING_FRAMES)
        for port, frame in frames:
            octets, number = room.get(port, whole)
            if not number or (octets < len(frame) and number < whole[1]):
                sent += self.settle()
                room.clear()
                octets, number = whole
            self.model.push(port, frame)
            room[port] = octets - len(frame), number - 1
        return sent + self.settle()

    def settle(self) -> list[tuple[int, bytes]]:
        """Lets everything under way happen; the frames that left, in order."""
        self.model.settle(self.quiet)
        return self.sent()

    def sent(self) -> list[tuple[int, bytes]]:
        """The frames that have left and were not asked for yet."""
        frames = []
        while (sent := self.model.pop()) is not None:
            frames.append((sent.port, sent.frame))
        return frames

    def forward(self, *, ports: int, flood: int) -> None:
        """Which ports' frames that are not EPIC's are forwarded, and where to when the table does not say (bits)."""
        self.model.write(registers.CONTROL, ports | flood << 8)

    def route(self, entry: int, address: str, port: int | None) -> None:
        """Sets an entry of the forwarding table; without a port it is free."""
        ports = 0 if port is None else 1 << port
        self._run([command("TABLE_FORWARD", entry, mac(address) | ports << 48, 2)])

    # --------------------------------------------------------------------------------------------------------- time

    def next_timer(self) -> int | None:
        """Microseconds until the next timer is due; None when there is none, as ever in Mode III."""
        return self.model.next_timer()

    def pass_time(self, microseconds: int) -> list[tuple[int, bytes]]:
        """Lets time pass; the frames that timers send then. Nothing, where there are no timers."""
        return []

    # ------------------------------------------------------------------------------------------------------- groups

    def install(self, entry: EngineGroup) -> None:
        """Install a group. Raises ConfigError or ResourceError; nothing has changed then."""
        others = list(self._placed.values())
        placement.check(entry, self.shape, others)
        self.offers.check(entry)
        placed = placement.place(entry, self.shape, others, slots=self._slots(entry), rows=self._rows(entry))
        self._run(self._installing(placed, others))
        self._placed[entry.params.group] = placed

    def remove(self, number: int) -> None:
        """Remove a group. Raises ConfigError when it is not installed."""
        placed = self._installed(number)
        self._run(free_edges(placed))
        self._drain()
        del self._placed[number]
        self._run(self._forgetting(placed, list(self._placed.values())))

    def groups(self) -> tuple[int, ...]:
        """Numbers of the installed groups."""
        return tuple(self._placed)

    def status(self, number: int) -> GroupStatus:
        """The live slots of a group and its edges in error."""
        placed = self._installed(number)
        slots = range(placed.slot_base, placed.slot_base + placed.slots)
        live = tuple(state for slot in slots if (state := self._slot(placed, slot)) is not None)
        return GroupStatus(number, placed.entry.params.epoch, live, self.failed_edges(number))

    def failed_edges(self, number: int) -> tuple[str, ...]:
        """The edges in error of a group; a Mode III engine knows none."""
        return ()

    def counters(self) -> dict[str, int]:
        """Counters by the names of epic.toml."""
        if not (self.model.still and self._counted_at == self.model.moves):
            self._counted = {name: self.counter(name) for name in COUNTERS}
            self._counted_at = self.model.moves if self.model.still else -1
        return dict(self._counted)

    def counter(self, name: str) -> int:
        """One of them."""
        return self.model.read(registers.COUNTER + 4 * list(COUNTERS).index(name))

    def port_counters(self, port: int) -> dict[str, int]:
        """What the spec has no counter for: frames lost for want of room, called bad by the MAC, forwarded."""
        names = ("overflow", "bad_frame", "forwarded")
        return {name: self.model.read(registers.PORT + 16 * port + 4 * i) for i, name in enumerate(names)}

    # -------------------------------------------------------------------------------------------------------- tables

    @abstractmethod
    def _slots(self, entry: EngineGroup) -> int:
        """Slots that a group takes."""

    def _rows(self, entry: EngineGroup) -> int:
        """Multicast rows that it takes."""
        return 0

    @abstractmethod
    def _installing(self, placed: Placed, others: list[Placed]) -> Iterator[Command]:
        """The commands that install a group beside others."""

    @abstractmethod
    def _forgetting(self, placed: Placed, others: list[Placed]) -> Iterator[Command]:
        """The commands for what is left to do when nothing of a removed group is under way."""

    @abstractmethod
    def _slot_read(self, placed: Placed, slot: int) -> Command:
        """The command that reads a slot."""

    def _slot(self, placed: Placed, slot: int) -> SlotStatus | None:
        registers.execute(self.model, self._slot_read(placed, slot), asks=True)
        return registers.slot(self.model, len(placed.entry.children))

    def _installed(self, number: int) -> Placed:
        if number not in self._placed:
            raise ConfigError(f"group {number}: not installed, expected one of {sorted(self._placed)}")
        return self._placed[number]

    def _drain(self) -> None:
        """Until nothing of a removed group is in the core, or, while others keep it busy, as long as that may take."""
        for _ in range(1000):
            if registers.idle(self.model):
                return

    def _run(self, commands: Iterable[Command]) -> None:
        for one in commands:
            registers.execute(self.model, one)
        registers.finish(self.model)


def open_device(
    mode: int, chosen: Mapping[str, int | str] | None = None, *, trace: Path | None = None
) -> RtlDevice:
    """The engine of a mode. Raises ConfigError for Mode I and whatever the device raises."""
    from epic_testbed.rtl.device2 import Mode2Device
    from epic_testbed.rtl.device3 import Mode3Device

    parameters.top_of(mode)
    return (Mode2Device if mode == 2 else Mode3Device)(chosen, trace=trace)
