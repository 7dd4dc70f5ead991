"""The simulated engine through its C functions: frames, registers, cycles. Knows nothing of groups."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from epic_testbed.dut import DutError

_LONGEST: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Sent:
    """A frame that left, and the cycles of its first and last beat."""

    port: int
    frame: bytes
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Entered:
    """The cycles in which the first and last beat of a frame went in."""

    port: int
    first: int
    last: int


class RtlModel:
    """One instance of a library made by `build.library`.

    `still`: nothing is under way, so what the registers count stays as it is for as long as `moves` does. To read a
    register takes four cycles, and half of what tests simulated was counters, read twice.
    """

    def __init__(self, path: Path, trace: Path | None = None) -> None:
        self._library = _functions(ctypes.CDLL(str(path)))
        handle = self._library.epic_rtl_create(None if trace is None else str(trace).encode())
        if not handle:
            raise DutError(f"{path}: the model could not be made")
        self._handle: int | None = handle
        self._buffer = ctypes.create_string_buffer(_LONGEST)
        self.still = False
        self.moves = 0
        self._held = 0

    def _move(self) -> None:
        self.still = False
        self.moves += 1

    def close(self) -> None:
        """Ends the simulation and closes the trace."""
        if self._handle is not None:
            self._library.epic_rtl_destroy(self._handle)
            self._handle = None

    def reset(self) -> None:
        """Holds the reset input; frames under way are gone."""
        self._move()
        self._library.epic_rtl_reset(self._handle)

    def push(self, port: int, frame: bytes, *, bad: bool = False) -> None:
        """Queues a frame for a port. Raises DutError when there is no such port, or the frame is empty."""
        self._move()
        if not self._library.epic_rtl_push(self._handle, port, frame, len(frame), bad):
            raise DutError(
                f"port {port}, {len(frame)} bytes: not taken, expected a port of the device and a frame"
            )

    def run(self, cycles: int) -> None:
        """Advances the clock."""
        self._move()
        self._library.epic_rtl_run(self._handle, cycles)

    def settle(self, quiet: int, limit: int = 10_000_000) -> None:
        """Advances until the core is idle and nothing has moved at any port for `quiet` cycles.

        Raises DutError when that takes more than `limit` cycles.
        """
        self._move()
        if not self._library.epic_rtl_settle(self._handle, quiet, limit):
            raise DutError(f"the engine is not quiet after {limit} cycles")
        self.still = not self._held  # it is not waited for what is for a port that is held

    def next_timer(self) -> int | None:
        """Microseconds of the engine's clock until its next timer is due; None when it has none that runs."""
        left = ctypes.c_uint32()
        return left.value if self._library.epic_rtl_next_timer(self._handle, ctypes.byref(left)) else None

    def pop(self) -> Sent | None:
        """The next frame that left."""
        port, first, last = ctypes.c_uint(), ctypes.c_uint64(), ctypes.c_uint64()
        length = self._library.epic_rtl_pop(
            self._handle, ctypes.byref(port), self._buffer, _LONGEST, ctypes.byref(first), ctypes.byref(last)
        )
        if length == -1:
            return None
        if length < 0:
            raise DutError(f"the engine sent a frame of more than {_LONGEST} bytes")
        return Sent(port.value, self._buffer.raw[:length], first.value, last.value)

    def entered(self) -> Entered | None:
        """When the next of the frames that have gone in did."""
        port, first, last = ctypes.c_uint(), ctypes.c_uint64(), ctypes.c_uint64()
        if not self._library.epic_rtl_entered(
            self._handle, ctypes.byref(port), ctypes.byref(first), ctypes.byref(last)
        ):
            return None
        return Entered(port.value, first.value, last.value)

    def read(self, address: int) -> int:
        """A register. Raises DutError when the device does not answer."""
        value = ctypes.c_uint32()
        if not self._library.epic_rtl_read(self._handle, address, ctypes.byref(value)):
            raise DutError(f"register {address:#x}: no answer")
        return value.value

    def write(self, address: int, value: int, *, asks: bool = False) -> None:
        """Writes a register. Raises DutError when the device does not answer.

        `asks`: it is part of a command that nothing is counted for.
        """
        if not asks:
            self._move()
        if not self._library.epic_rtl_write(self._handle, address, value):
            raise DutError(f"register {address:#x}: no answer")

    def stalls(self, sender: int, receiver: int, seed: int = 1) -> None:
        """Idle cycles of the senders and busy ones of the receivers, at random: so many in 256."""
        self._library.epic_rtl_stalls(self._handle, sender, receiver, seed)

    def hold(self, port: int, *, held: bool) -> None:
        """Lets the other end of a port take nothing, or frames again."""
        self._move()
        self._held = self._held | 1 << port if held else self._held & ~(1 << port)
        self._library.epic_rtl_hold(self._handle, port, held)

    def cycles(self) -> int:
        """Clock cycles so far."""
        return int(self._library.epic_rtl_cycles(self._handle))


def _functions(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declares the types: ctypes takes handles for ints of 32 bits otherwise."""
    device, number = ctypes.c_void_p, ctypes.c_uint64
    pointer, unsigned = ctypes.c_void_p, ctypes.c_uint
    signatures = {
        "create": (ctypes.c_void_p, [ctypes.c_char_p]),
        "destroy": (None, [device]),
        "reset": (None, [device]),
        "push": (ctypes.c_int, [device, unsigned, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]),
        "run": (None, [device, number]),
        "settle": (ctypes.c_int, [device, number, number]),
        "next_timer": (ctypes.c_int, [device, pointer]),
        "pop": (ctypes.c_long, [device, pointer, ctypes.c_char_p, ctypes.c_size_t, pointer, pointer]),
        "entered": (ctypes.c_int, [device, pointer, pointer, pointer]),
        "read": (ctypes.c_int, [device, ctypes.c_uint32, pointer]),
        "write": (ctypes.c_int, [device, ctypes.c_uint32, ctypes.c_uint32]),
        "stalls": (None, [device, unsigned, unsigned, number]),
        "hold": (None, [device, unsigned, ctypes.c_int]),
        "cycles": (number, [device]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"epic_rtl_{name}")
        function.restype, function.argtypes = result, arguments
    return library
