"""The vocabulary of engine cases: the suite plays every child and the parent of the engine under test.

A case says what is contributed and what must come back; the bench sends, waits, checks each frame that the device
emits for what holds of every frame (see `receiving`), and keeps a log for the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from epic_models.reference.endpoint import ack_aeth, nak_aeth
from epic_models.reference.group import GroupParams
from epic_spec import codec, psn
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.tables import NakCode, Opcode
from epic_testbed.conformance.case import Unmet
from epic_testbed.conformance.deviations import Deviations
from epic_testbed.conformance.expecting import SUM, Expecting
from epic_testbed.conformance.group import Arrival, Cell, Group, Peer, Values, with_bases
from epic_testbed.conformance.receiving import FLOOD
from epic_testbed.conformance.record import Failure, Step, describe
from epic_testbed.dut import Dut

__all__ = [
    "SUM", "Arrival", "Bench", "Cell", "Failure", "Group", "Peer", "Step", "Values", "describe", "with_bases",
]  # fmt: skip


class Bench(Expecting):
    """One case on one device. `install` first; then the verbs below."""

    def __init__(self, dut: Dut, deviations: Deviations | None = None, seed: int = 0) -> None:
        super().__init__(dut)
        self.deviations = deviations or Deviations()
        self.seed = seed
        self.group: Group
        real = not self.traits.virtual_time
        self.response = self.deviations.timeout("response", 2.0 if real else 1e-3)
        self.quiet = self.deviations.timeout("quiet", self.traits.quiet)
        self.frames_sent = 0

    # ------------------------------------------------------------------------------------------- set-up

    def install(
        self,
        children: int = 2,
        *,
        inner: bool = False,
        number: int = 1,
        base: int | None = None,
        equal_bases: bool = False,
        ranks_below: Sequence[int] | None = None,
        **params: Any,
    ) -> Group:
        """Install a group: the engine under test with `children` ranks, root or below a parent.

        `base` makes the PSN bases of every edge start there, each a little later than the one before (both of an
        edge the same when `equal_bases`); without it they are random. `ranks_below` is, for each child, how many
        ranks it stands for: 1 is a host, more is an engine.
        Raises Unmet when the device has too few ports or children.
        """
        group = self.prepare(
            children, inner=inner, number=number, base=base, equal_bases=equal_bases, ranks_below=ranks_below,
            **params,
        )  # fmt: skip
        role = "inner" if inner else "root"
        self.note(f"install group {number}: fan-in {len(group.children)}, {role}")
        self.dut.configure(group.entry)
        self.groups[number] = group
        self._readdress()
        self.group = group
        return group

    def prepare(
        self,
        children: int = 2,
        *,
        inner: bool = False,
        number: int = 1,
        base: int | None = None,
        equal_bases: bool = False,
        ranks_below: Sequence[int] | None = None,
        **params: Any,
    ) -> Group:
        """A group as `install` would have it, not installed."""
        below = [1] * children if ranks_below is None else ranks_below
        if len(below) > self.traits.capabilities.children:
            raise Unmet("children", self.traits.capabilities.children, len(below))
        values = self.parameters(number, sum(below) + inner, params)
        return Group(self, values, below, inner=inner, base=base, equal_bases=equal_bases)

    def use(self, number: int) -> Group:
        """The verbs work on this installed group from now on."""
        self.group = self.groups[number]
        return self.group

    def largest_fan_in(self, *, inner: bool = False) -> int:
        """How many children a group on this device can have, each on a port of its own."""
        return min(self.traits.capabilities.children, self.traits.ports - inner)

    def largest_window(self) -> int:
        """The largest W for which the device has a slot (Mode III) or message buffer (Mode I) for each cell."""
        offered = self.traits.capabilities
        room = {1: offered.message_buffers, 2: offered.window, 3: offered.slots // 2}[self.mode]
        return min(offered.window, room)

    def parameters(self, number: int, world_size: int, changes: dict[str, Any]) -> GroupParams:
        """Parameters of a small group; real devices get timers that a slow bench does not trip over."""
        virtual = self.traits.virtual_time
        payload = min(64, self.traits.capabilities.payload_bytes)
        values: dict[str, Any] = {
            "window": 2, "slots": 4, "payload_bytes": payload, "message_bytes": 2 * payload,
            "rto_initial_us": 50_000 if virtual else 400_000,
            "rto_min_us": 5_000 if virtual else 200_000,
            "rto_max_us": 1_000_000,
            "conflict_record": self.traits.capabilities.conflict_record,
            "window_guard": self.traits.capabilities.window_guard,
            "ecn": self.traits.capabilities.ecn,
            "icrc": "full" if "full" in self.traits.capabilities.icrc else "none",
            "byte_order": self.traits.capabilities.byte_order[0],
            "datatypes": self.traits.capabilities.datatypes,
            "operators": self.traits.capabilities.operators,
        }  # fmt: skip
        # What a case sets itself is part of what it checks, so a deviation changes only the rest.
        values = self.deviations.parameters(values) | changes
        if (
            self.mode == 3
            and "slots" not in changes
            and ("window" in changes or "slots" not in self.deviations.setup)
        ):
            values["slots"] = max(values["slots"], 2 * values["window"])
        values.setdefault("message_buffers", min(values["window"], self.traits.capabilities.message_buffers))
        return GroupParams(group=number, mode=self.mode, world_size=world_size, **values)

    def remove(self, number: int = 1) -> None:
        """Remove a group."""
        self.sync()
        # What the device has sent by now still belongs to the group, whichever port it comes from last.
        self._pump(0.0)
        self.note(f"remove group {number}")
        self.dut.remove(number)
        self.groups.pop(number, None)
        self._readdress()

    # -------------------------------------------------------------------------------------- what is sent

    def contribute(
        self, child: int, cell: int, values: Values, what: Descriptor = SUM, **changes: Any
    ) -> None:
        """Child number `child` contributes to `cell`, or repeats its contribution when it has before."""
        self.group.contribute(child, cell, values, what, **changes)

    def contribute_all(self, cell: int, values: Sequence[Values], what: Descriptor = SUM) -> None:
        """Every child contributes, in order."""
        for child, value in enumerate(values):
            self.contribute(child, cell, value, what)

    def result_from_parent(self, cell: int, values: Values, what: Descriptor = SUM, **changes: Any) -> None:
        """The parent sends the result of `cell`, or repeats it."""
        self.group.result(cell, values, what, **changes)

    def send(self, peer: Peer, packet: Packet, *, tamper: Callable[[bytes], bytes] | None = None) -> None:
        """A packet of a peer, its bytes changed by `tamper` before they reach the device."""
        frame = codec.encode(packet, icrc=packet.icrc_ok)
        if tamper is not None:
            frame = tamper(frame)
        if packet.opcode is not Opcode.ACK:
            peer.highest_sent = max(peer.highest_sent, psn.diff(packet.psn, peer.edge.psn_tx))
        text = describe(packet, peer.edge) + (" (tampered)" if tamper else "")
        self.send_frame(peer.device_port, frame, who=peer.name, text=text)

    def send_frame(self, port: int, frame: bytes, *, who: str = "", text: str = "") -> None:
        """Bytes as they are, on a port."""
        self.log.append(Step(self.now, who or f"port {port}", "->", text or f"{len(frame)} bytes", frame))
        self.frames_sent += 1
        self.dut.send(port, frame)

    def acknowledge(self, peer: Peer, number: int, aeth: Aeth | None = None) -> None:
        """A peer acknowledges data packet `number` of the device (ACK unless `aeth` says otherwise)."""
        params = peer.group.params
        packet = peer.edge.packet(Opcode.ACK, number, aeth=aeth or ack_aeth(peer.messages), pkey=params.pkey)
        packet.icrc_ok = params.icrc == "full"
        self.send(peer, packet)

    def _answer(self, peer: Peer, number: int) -> None:
        self.acknowledge(peer, number)

    def nak(self, peer: Peer, number: int, code: NakCode = NakCode.PSN_SEQUENCE_ERROR) -> None:
        """A peer sends a NAK that names packet `number`."""
        self.acknowledge(peer, number, nak_aeth(code, peer.messages))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.log.append(Step(self.now, "", "wait", f"{seconds:g} s"))
        self.dut.advance(seconds)
        self._clock(seconds)

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Take frames as they come for that long, or until `until()`, so that arrival times are right.

        Raises Failure when the device floods.
        """
        self.log.append(Step(self.now, "", "wait", f"{seconds:g} s, looking at what comes"))
        start = self.dut.clock()
        for _ in range(FLOOD):
            before = self.dut.clock()
            if until() or before - start >= seconds:
                break
            if not self._take(start + seconds - before) and self.dut.clock() <= before:
                break
        else:
            raise Failure("the device does not stop sending", ["silence"], [f"{FLOOD} frames"])
