"""Watching a host: its clock, its frames as they come, the log. `HostBench` adds the verbs of cases."""

from __future__ import annotations

import time
from collections.abc import Callable

from epic_spec import codec
from epic_spec.errors import WireError
from epic_spec.packets import Packet
from epic_testbed.conformance.deviations import Deviations
from epic_testbed.conformance.record import Failure, Step, describe
from epic_testbed.conformance.switch_end import SwitchEnd, Tamper
from epic_testbed.dut import AgentDut

# Frames that a host may send in one wait; more is a flood.
FLOOD = 20_000


class HostWatch:
    """The host's side of one case. `switch` is the end of its edge that the suite plays."""

    def __init__(self, dut: AgentDut, deviations: Deviations) -> None:
        self.dut = dut
        self.traits = dut.traits()
        self.mode = self.traits.mode
        self.deviations = deviations
        self.log: list[Step] = []
        real = not self.traits.virtual_time
        self.response = self.deviations.timeout("response", 2.0 if real else 1e-3)
        self.quiet = self.deviations.timeout("quiet", self.traits.quiet)
        # How late, in seconds, what a timer does may be seen: by the device's clock, or on a busy machine.
        self.late = self.response / 4 if real else 0.01
        # How finely time is cut while the bench watches: what it says of times is right to this.
        self._slice = 2e-3 if real else 2e-4
        self._started = time.monotonic()
        self._virtual_now = 0.0
        self.switch: SwitchEnd

    @property
    def now(self) -> float:
        """Seconds of the device's clock since the case began."""
        return self._virtual_now if self.traits.virtual_time else time.monotonic() - self._started

    def advance(self, seconds: float) -> None:
        """Let time pass; what the host sends meanwhile is taken when it comes."""
        self.log.append(Step(self.now, "", "wait", f"{seconds:g} s"))
        until = self.now + seconds
        self._wait(lambda: False, until - self.now)

    def note(self, text: str) -> None:
        """A line in the log."""
        self.log.append(Step(self.now, "", "expect", text))

    def send(self, packet: Packet, tamper: Tamper | None = None) -> None:
        """A packet of the engine that is none of its results, its bytes changed by `tamper` on the way."""
        frame = codec.encode(packet, icrc=packet.icrc_ok)
        text = describe(packet, self.switch.edge)
        if tamper is not None:
            frame, text = tamper(frame), f"{text} (tampered)"
        self.log.append(Step(self.now, "engine", "->", text, frame))
        self.dut.send(frame)

    def _wait(self, ready: Callable[[], bool], seconds: float) -> bool:
        until, frames = self.now + seconds, 0
        while not ready():
            left = until - self.now
            if left <= 1e-9:
                return False
            frames += self._take(min(left, self._slice))
            if frames > FLOOD:
                raise Failure("the host does not stop sending", ["silence"], [f"{frames} frames"])
        return True

    def _pump(self, quiet: float) -> None:
        """Take frames until none came for `quiet` seconds. A host that floods is stopped."""
        since, frames = self.now, 0
        while self.now - since < quiet - 1e-9:
            if self._take(min(self._slice, quiet)):
                since, frames = self.now, frames + 1
            if frames > FLOOD:
                raise Failure("the host does not stop sending", ["silence"], [f"{frames} frames"])

    def _take(self, timeout: float) -> bool:
        frame = self.dut.receive(timeout)
        if frame is None:
            self._virtual_now += timeout
            return False
        try:
            packet = codec.decode(frame, icrc="check")
        except WireError as error:
            self.log.append(Step(self.now, "host", "<-", f"malformed: {error}", frame))
            raise Failure("a malformed frame (EPIC-W-01)", ["a RoCEv2 frame"], [str(error)]) from None
        self.log.append(
            Step(self.now, "host", "<-", describe(packet, self.switch.edge, received=True), frame)
        )
        self.switch.take(packet, frame)
        return True
