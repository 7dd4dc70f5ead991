"""A program and the golden engine side by side: every frame goes to both, and both must answer alike.

What may differ (spec sections 2.8 and 13): the order of the frames that one frame causes, and which of several reasons
is counted for a dropped frame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup
from epic_models.reference.mode3 import Mode3Engine
from epic_spec.codec import encode
from p4.program.device import Device
from p4.program.mutants import Mutant
from p4.program.reasons import reasons


class Difference(AssertionError):
    """The program did something else than the golden engine."""


class Twins:
    """One engine, twice."""

    def __init__(
        self,
        arch: str,
        *groups: EngineGroup,
        words: int = 64,
        mutant: Mutant | None = None,
        device: Device | None = None,
    ) -> None:
        self.groups = groups
        self.device = device or Device(arch, words, mutant)
        self.model = Mode3Engine(EngineCapabilities(mode=3))
        for group in groups:
            self.device.install(group)
            self.model.install(group, 0.0)

    def frame(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Give a frame to both. Raises Difference; returns what was sent."""
        before, was = self.model.counters(), self.device.counters()
        output = self.model.receive_frame(port, frame, 0.0)
        expected = [(to, encode(packet, icrc=packet.icrc_ok)) for to, packet in output.sends]
        sent = self.device.send(port, frame)
        if self.device.arch != "v1model":
            sent = [(to, cut(one)) for to, one in sent]
        if Counter(sent) != Counter(expected):
            raise Difference(f"sent {_show(sent)}, expected {_show(expected)} for {port} {frame.hex()}")
        model, device = _grown(before, self.model.counters()), _grown(was, self.device.counters())
        if sent:
            model["tx_frames"] = len(sent)
        self._compare(model, device, port, frame)
        for group in self.groups:
            number = group.params.group
            slots = {(s.cell, s.bitmap, s.done) for s in self.model.status(number).slots}
            if slots != self.device.slots(number):
                raise Difference(f"slots {self.device.slots(number)}, expected {slots}")
        return sent

    def _compare(self, model: Counter[str], device: Counter[str], port: int, frame: bytes) -> None:
        if model == device:
            return
        dropped = [name for name in model if name.startswith("drop_")]
        counted = [name for name in device if name.startswith("drop_")]
        if len(dropped) == len(counted) == 1:
            allowed = reasons(frame, port, self.groups)
            del model[dropped[0]], device[counted[0]]
            # A frame that the model drops before it is admitted may be one that the program admits, and the reverse.
            for counts in (model, device):
                counts.pop("rx_ce", None)
            if counted[0].removeprefix("drop_") in allowed and model == device:
                return
            raise Difference(
                f"counted {counted}, expected {dropped} or one of {sorted(allowed)}: {frame.hex()}"
            )
        raise Difference(f"counted {dict(device)}, expected {dict(model)}: {port} {frame.hex()}")


def cut(frame: bytes) -> bytes:
    """A frame without what is behind its IP packet: TNA can not cut that off (p4/README.md)."""
    return frame[: 14 + int.from_bytes(frame[16:18], "big")]


def _grown(before: Mapping[str, int], after: Mapping[str, int]) -> Counter[str]:
    return Counter({k: v - before[k] for k, v in after.items() if v != before[k]})


def _show(frames: list[tuple[int, bytes]]) -> str:
    return ", ".join(f"{port}:{frame.hex()}" for port, frame in sorted(frames)) or "nothing"
