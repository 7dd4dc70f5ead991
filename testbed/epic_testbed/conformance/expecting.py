"""The expecting half of the bench: what must come back, what must not, and what the control plane must show."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from epic_spec import psn
from epic_spec.packets import ERR_BIT, NULL_BIT, Descriptor, Packet
from epic_spec.tables import SYNDROME_MASK, Datatype, NakCode, Operator, Primitive, Syndrome
from epic_testbed.conformance.group import Cell, Group, Peer, Values
from epic_testbed.conformance.receiving import Receiving, cell_text
from epic_testbed.conformance.record import Failure, Step, describe

SUM = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=1)

# Where a well-formed packet that came again, late or early is counted instead of a drop (EPIC-W-21).
NOT_USED = ("rx_duplicate", "rx_stale", "rx_out_of_order")
# Frames that are given to a device in real time before it is waited for: more could overrun its socket.
BURST = 32


class Expecting(Receiving):
    """What a bench waits for. `send_frame` is the bench's."""

    group: Group
    frames_sent = 0
    quiet = 1e-3

    def send_frame(self, port: int, frame: bytes, *, who: str = "", text: str = "") -> None:
        """Bytes as they are, on a port."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------- waiting

    def settle(self) -> None:
        """Take frames until none came for a while."""
        self._pump(self.quiet)

    def sync(self) -> None:
        """Wait until the device has handled what it was sent, so that what is sent next comes later on every port.

        Nothing to wait for in virtual time; by the count of received frames where it can be read.
        """
        if self.traits.virtual_time:
            return
        if self.traits.reads_counters and self.groups:
            first = next(iter(self.groups.values()))
            end = time.monotonic() + self.quiet
            while time.monotonic() < end:
                here = self.dut.counters().get("rx_frames", 0) - first.counters.get("rx_frames", 0)
                if here >= self.frames_sent - first.frames_before:
                    return
                self._take(0.002)
        self._pump(self.quiet)

    def collect(self) -> None:
        """Take what the device sends in answer to what it was sent; nothing is expected or refused."""
        self.sync()
        self._pump(0.0 if self.traits.virtual_time else min(self.quiet, 0.02))

    def note(self, text: str) -> None:
        """A line in the log."""
        self.log.append(Step(self.now, "", "expect", text))

    @contextmanager
    def trying(self, text: str) -> Iterator[None]:
        """One of several combinations that a case tries: a failure inside says which."""
        self.note(f"try {text}")
        try:
            yield
        except Failure as error:
            raise Failure(f"{text}: {error.what}", error.expected, error.arrived) from None

    # ---------------------------------------------------------------------------------- what must come back

    def expect_result(
        self,
        cell: int,
        values: Values,
        what: Descriptor = SUM,
        *,
        children: Iterable[int] | None = None,
        **more: Any,
    ) -> None:
        """Each of `children` (default: all) receives the result of `cell`: exactly this value and descriptor."""
        chosen = range(len(self.group.children)) if children is None else children
        for child in chosen:
            self._expect_cell(self.group.children[child], cell, values, what, **more)

    def expect_partial(self, cell: int, values: Values, what: Descriptor = SUM, **more: Any) -> None:
        """The parent receives the partial of `cell`."""
        assert self.group.parent is not None
        self._expect_cell(self.group.parent, cell, values, what, **more)

    def next_cell(self, peer: Peer, cell: int, text: str) -> Cell:
        """The next data for `cell` that a peer receives. Raises Failure when none comes in time."""
        self.note(f"{peer.name} receives {text}")
        found: list[Cell] = []

        def here() -> bool:
            found[:] = [c for c in peer.data if c.cell == cell & psn.MASK]
            return bool(found)

        if not self._wait(here):
            raise Failure(f"{peer.name}: nothing for cell {cell}", [text], self._arrived(peer))
        peer.data.remove(found[0])
        return found[0]

    def _expect_cell(
        self,
        peer: Peer,
        cell: int,
        values: Values,
        what: Descriptor,
        *,
        err: bool = False,
        congested: bool | None = None,
    ) -> Cell:
        """With `err` the payload is looked at only when `values` are bytes; b"" is no payload."""
        group = peer.group
        wide = group.wide(peer, what, upwards=peer.is_parent) and not err
        payload = group.encode(values, what, wide=wide)
        imm = what.pack() | (NULL_BIT if payload is None and not err else 0) | (ERR_BIT if err else 0)
        text = f"cell {cell} [{Descriptor.unpack(imm)}]" + (
            "" if values is None else f" {self._words(values)}"
        )
        got = self.next_cell(peer, cell, text)
        mask = 0xFFFFFFFF & ~(NULL_BIT if err else 0)
        wrong = got.imm & mask != imm & mask
        if not err:
            wrong = wrong or not group.same(got.payload, payload, what, wide=wide)
        elif values is not None:
            wrong = wrong or got.payload != (values or None)
        if wrong:
            opaque = err or isinstance(values, bytes)
            arrived = self._cell_text(group, got, None if opaque else what, wide=wide)
            where = _first_difference(payload, got.payload)
            raise Failure(
                f"{peer.name}: wrong {text.split()[0]} {cell}", [text, *where[:1]], [arrived, *where[1:]]
            )
        if congested is not None and got.congested != congested:
            raise Failure(
                f"{peer.name}: cell {cell} {'without' if congested else 'with'} congestion experienced",
                [f"ECN {'CE' if congested else 'not CE'}"],
                [f"ECN {'CE' if got.congested else 'not CE'}"],
            )
        return got

    def expect_silence(self, *, acknowledgements: bool = False) -> None:
        """The device sends no data (with `acknowledgements`, nothing at all) for a while."""
        self.note("nothing is sent" if acknowledgements else "no data is sent")
        self._pump(self.quiet)
        peers = self._peers()
        extra = [f"{p.name}: {cell_text(p.group, c)}" for p in peers for c in p.data]
        if acknowledgements:
            extra += [f"{p.name}: {describe(a, p.edge, received=True)}" for p in peers for a in p.acks]
        if extra:
            raise Failure("frames that must not be sent", ["nothing"], extra)

    def expect_ack(self, peer: Peer, number: int) -> None:
        """A positive acknowledgement that covers the peer's data packet `number`."""
        self._expect_aeth(
            peer,
            f"ACK of packet {number} or a later one",
            lambda p, n: self._is(p, Syndrome.ACK) and n >= number,
        )

    def expect_nak(self, peer: Peer, number: int, code: NakCode = NakCode.PSN_SEQUENCE_ERROR) -> None:
        """A NAK that names packet `number`."""
        self._expect_aeth(
            peer,
            f"NAK {code.name} of packet {number}",
            lambda p, n: self._is(p, Syndrome.NAK) and n == number and p.aeth.syndrome & 0x1F == code,
        )

    def expect_rnr_nak(self, peer: Peer, number: int) -> None:
        """An RNR NAK that names packet `number`."""
        self._expect_aeth(
            peer, f"RNR NAK of packet {number}", lambda p, n: self._is(p, Syndrome.RNR_NAK) and n == number
        )

    def expect_no_ack(self, peer: Peer) -> None:
        """No acknowledgement of any kind goes to a peer for a while."""
        self.note(f"{peer.name} receives no acknowledgement")
        self._pump(self.quiet)
        if peer.acks:
            raise Failure(
                f"{peer.name}: an acknowledgement that must not be sent",
                ["no acknowledgement"],
                [describe(a, peer.edge, received=True) for a in peer.acks],
            )

    def expect_counter(self, expected: dict[str, int]) -> None:
        """Counters have grown by exactly this much since the group was installed."""
        if not self.traits.reads_counters:
            return
        self.note("counters: " + ", ".join(f"{k} +{v}" for k, v in expected.items()))
        got: dict[str, int] = {}

        def right() -> bool:
            now = self.dut.counters()
            got.update({name: now.get(name, 0) - self.group.counters.get(name, 0) for name in expected})
            return got == expected

        if not self._eventually(right):
            raise Failure(
                "counters", [f"{k} +{v}" for k, v in expected.items()], [f"{k} +{v}" for k, v in got.items()]
            )

    def expect_slots(self, expected: dict[int, tuple[int, bool]], *, number: int | None = None) -> None:
        """The control plane shows these cells: bitmap and whether done (EPIC-F-04). Other slots are free to show."""
        if not self.traits.reads_status:
            return
        words = [f"cell {c}: bitmap {b:#b}, {'done' if d else 'not done'}" for c, (b, d) in expected.items()]
        self.note("status shows " + "; ".join(words))
        got: dict[int, tuple[int, bool]] = {}

        def right() -> bool:
            status = self.dut.status(self.group.params.group if number is None else number)
            got.clear()
            got.update({s.cell: (s.bitmap, s.done) for s in status.slots})
            return all(got.get(c) == e for c, e in expected.items())

        if not self._eventually(right):
            lines = [f"cell {c}: bitmap {b:#b}, {'done' if d else 'not done'}" for c, (b, d) in got.items()]
            raise Failure("status", words, lines or ["no live slot"])

    def reject(self, frames: Sequence[tuple[str, int, bytes]], *reasons: str, answered: bool = False) -> None:
        """The device drops each of these frames (name, port, bytes): no data is sent, no cell grows, and each is
        counted exactly once, by one of `reasons` (drop reasons, or rx_duplicate, rx_stale, rx_out_of_order).
        Unless `answered`, it sends no acknowledgement either.
        """
        size = 1 if self.traits.virtual_time else BURST
        for start in range(0, len(frames), size):
            part = frames[start : start + size]
            self.sync()
            self._pump(0.0 if self.traits.virtual_time else 0.02)
            for peer in self._peers():
                peer.acks.clear()
            before = self._accounts()
            for name, port, frame in part:
                self.send_frame(port, frame, text=f"{name}: to be dropped")
            self.sync()
            names = part[0][0] if len(part) == 1 else f"{part[0][0]} … {part[-1][0]}"
            with self.trying(names):
                self.expect_silence(acknowledgements=not answered)
                self._check_accounts(before, len(part), reasons)
        for peer in self._peers():
            peer.acks.clear()

    def _accounts(self) -> dict[str, int]:
        if not self.traits.reads_counters:
            return {}
        taken = ("rx_contribution", "rx_result", "cells_completed", *NOT_USED)
        return {k: v for k, v in self.dut.counters().items() if k in taken or k.startswith("drop_")}

    def _check_accounts(self, before: dict[str, int], count: int, reasons: Sequence[str]) -> None:
        if not self.traits.reads_counters:
            return
        allowed = {r if r in NOT_USED else f"drop_{r}" for r in reasons}
        grown: dict[str, int] = {}

        def right() -> bool:
            now = self._accounts()
            grown.clear()
            grown.update({k: v - before.get(k, 0) for k, v in now.items() if v != before.get(k, 0)})
            return set(grown) <= allowed and sum(grown.values()) == count

        if not self._eventually(right):
            raise Failure(
                "counted otherwise than the frame is (EPIC-W-21)",
                [f"+{count} among {', '.join(sorted(allowed))}"],
                [f"{k} +{v}" for k, v in grown.items()] or ["no counter of drops has grown"],
            )

    def finish(self) -> None:
        """The end of a case: the device must have sent nothing that the case did not expect."""
        self.expect_silence()

    # ------------------------------------------------------------------------------------------------ inside

    def _eventually(self, right: Callable[[], bool]) -> bool:
        """Whether `right` holds once the device has handled everything, or becomes so within `response`."""
        if self.traits.virtual_time:
            self._pump(0.0)
            return right()
        self.sync()
        end = time.monotonic() + self.response
        while not right():
            if time.monotonic() > end:
                return False
            self._take(0.01)
        return True

    @staticmethod
    def _is(packet: Packet, kind: Syndrome) -> bool:
        assert packet.aeth is not None
        return packet.aeth.syndrome & SYNDROME_MASK == kind

    def _expect_aeth(self, peer: Peer, text: str, wanted: Callable[[Any, int], bool]) -> None:
        self.note(f"{peer.name} receives {text}")

        def here() -> bool:
            return any(wanted(a, psn.diff(a.psn, peer.edge.psn_tx)) for a in peer.acks)

        if not self._wait(here):
            raise Failure(
                f"{peer.name}: no {text}", [text], [describe(a, peer.edge, received=True) for a in peer.acks]
            )
        peer.acks.clear()

    def _arrived(self, peer: Peer) -> list[str]:
        return [cell_text(peer.group, c) for c in peer.data] or ["nothing"]

    def _cell_text(self, group: Group, cell: Cell, what: Descriptor | None, *, wide: bool) -> str:
        if cell.payload is None or what is None or cell.imm & ERR_BIT:
            return cell_text(group, cell)
        elements = group.decode(cell.payload, what, wide=wide)
        return f"{cell_text(group, Cell(cell.cell, cell.imm, None, cell.congested))} {self._words(elements)}"

    @staticmethod
    def _words(values: Values) -> str:
        if values is None:
            return "NULL"
        if isinstance(values, bytes):
            return values[:32].hex(" ", -4) or "no payload"
        head = ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in list(values)[:8])
        return f"({head}{', …' if len(values) > 8 else ''})"


def _first_difference(expected: bytes | None, arrived: bytes | None) -> list[str]:
    """Where two payloads begin to differ, a line for each side: the lines above show only their beginnings."""
    if expected is None or arrived is None or expected == arrived:
        return []
    ends = zip(expected, arrived, strict=False)
    at = next((i for i, (a, b) in enumerate(ends) if a != b), min(len(expected), len(arrived)))
    start = at & ~3
    return [
        f"{len(p)} bytes, from byte {start}: {p[start : start + 16].hex(' ', -4) or 'nothing'}"
        for p in (expected, arrived)
    ]
