"""A Mode III engine with a planted fault: the checks of `epic run` have to find it."""

from __future__ import annotations

from epic_models.reference.interfaces import Output
from epic_models.reference.mode3 import Mode3Engine
from epic_spec.packets import Packet


class OneBitOff(Mode3Engine):
    """Flips the lowest bit of the last element of every result that it sends."""

    def receive(self, port: int, packet: Packet, now: float) -> Output:
        """As the parent does, then the fault; the ICRC is computed later, so it does not show."""
        output = super().receive(port, packet, now)
        for _, sent in output.sends:
            if sent.payload:
                sent.payload = sent.payload[:-1] + bytes([sent.payload[-1] ^ 1])
        return output
