"""The vocabulary of host cases: the suite plays the engine above one rank of a group.

A case says what is called, which contributions must come and what the engine answers; the bench sends, waits, checks
every frame of the host for what holds always (switch_end.py), and keeps a log for the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from epic_models.reference import numerics
from epic_models.reference.endpoint import nak_aeth
from epic_models.reference.group import GroupParams, GroupPlan
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_models.reference.tree import LinkEnd, Node, Tree, build_group
from epic_spec.errors import EpicError
from epic_spec.packets import ERR_BIT, NULL_BIT, Aeth, Descriptor, Packet
from epic_spec.tables import SYNDROME_MASK, UDP_PORT, Datatype, NakCode, Syndrome
from epic_testbed.conformance.deviations import Deviations
from epic_testbed.conformance.host_cells import (
    Array,
    Values,
    all_reduce,
    barrier,
    broadcast,
    end,
    equal,
    in_words,
    reduce,
)
from epic_testbed.conformance.host_watch import HostWatch
from epic_testbed.conformance.record import Failure, describe
from epic_testbed.conformance.switch_end import Contribution, SwitchEnd, Tamper
from epic_testbed.dut import AgentDut

__all__ = ["Array", "HostBench", "Values", "all_reduce", "barrier", "broadcast", "end", "reduce"]


class HostBench(HostWatch):
    """One case on one host. `join` first; then the verbs below."""

    def __init__(self, dut: AgentDut, deviations: Deviations | None = None, seed: int = 0) -> None:
        super().__init__(dut, deviations or Deviations())
        self.seed = seed
        self._counters: dict[str, int] = {}
        self.params: GroupParams
        self.plan: GroupPlan

    # ------------------------------------------------------------------------------------------------- set-up

    def join(
        self,
        world_size: int = 2,
        rank: int = 0,
        *,
        psn_up: int | None = None,
        psn_down: int | None = None,
        **params: Any,
    ) -> None:
        """Make the host rank `rank` of a group of `world_size` below one engine.

        `psn_up`, `psn_down`: the PSN bases of contributions and results, where the case needs certain ones.
        """
        self.params = self._parameters(world_size, params)
        self.plan = self._plan(world_size, rank, psn_up, psn_down)
        edge = self.plan.engines["sw"].children[rank]
        self.switch = SwitchEnd(edge, self.params, self.traits.binding == "ethernet", self.send)
        self.note(f"the host joins as rank {rank} of {world_size}")
        self.dut.answer(lambda _group: None)
        self.dut.join(rank, self.plan)
        self._counters = dict(self.dut.counters()) if self.traits.reads_counters else {}

    def _parameters(self, world_size: int, changes: dict[str, Any]) -> GroupParams:
        """Small cells and a small window; in real time timers that a slow machine does not trip over."""
        virtual, offered = self.traits.virtual_time, self.traits.capabilities
        values: dict[str, Any] = {
            "window": 4, "slots": 8, "payload_bytes": 64, "message_bytes": 128,
            "rto_initial_us": 50_000 if virtual else 400_000,
            "rto_min_us": 20_000 if virtual else 200_000,
            "rto_max_us": 1_000_000 if virtual else 2_000_000,
            "deadline_us": 5_000_000 if virtual else 10_000_000,
            "ecn": offered.ecn,
            "byte_order": offered.byte_order[0],
            "icrc": "full" if "full" in offered.icrc else "none",
            "datatypes": ("INT32",),
        }  # fmt: skip
        # What a case sets itself is part of what it checks, so a deviation changes only the rest.
        values = self.deviations.parameters(values) | changes
        if (
            self.mode == 3
            and "slots" not in changes
            and ("window" in changes or "slots" not in self.deviations.setup)
        ):
            values["slots"] = max(2, 2 * values["window"])
        values.setdefault("message_buffers", values["window"])
        return GroupParams(group=1, mode=self.mode, world_size=world_size, **values)

    def _plan(self, world_size: int, rank: int, psn_up: int | None, psn_down: int | None) -> GroupPlan:
        host, switch = self.dut.addresses(), self.dut.peer_addresses()
        ends: dict[tuple[Node, str], tuple[LinkEnd, LinkEnd]] = {}
        for other in range(world_size):
            # The other ranks exist in the description alone.
            low = host if other == rank else (f"192.0.2.{other % 250 + 1}", "02:00:c0:00:02:00")
            ends[other, "sw"] = (LinkEnd(0, *low), LinkEnd(other, *switch))
        plan = build_group(
            Tree("sw", {"sw": tuple(range(world_size))}), self.params, ends, seed=self.seed * 1009 + 1
        )
        up, down = plan.ranks[rank].edge, plan.engines["sw"].children[rank]
        tx = up.psn_tx if psn_up is None else psn_up
        rx = up.psn_rx if psn_down is None else psn_down
        # The socket binding has one source port, which the ICRC covers.
        sport = UDP_PORT if self.traits.binding == "udp" else up.sport
        entry, children = plan.engines["sw"], list(plan.engines["sw"].children)
        children[rank] = replace(down, psn_tx=rx, psn_rx=tx, sport=sport)
        plan.ranks[rank] = replace(plan.ranks[rank], edge=replace(up, psn_tx=tx, psn_rx=rx, sport=sport))
        plan.engines["sw"] = replace(entry, children=tuple(children))
        return plan

    def full(self, datatype: Datatype = Datatype.INT32) -> int:
        """Elements of a full cell."""
        return self.params.cell_bytes // numerics.element_bytes(datatype)

    def numbers(self, cells: float, start: int = 1, datatype: Datatype = Datatype.INT32) -> Array:
        """Counting numbers that fill so many cells."""
        count = int(cells * self.full(datatype))
        return np.arange(start, start + count).astype(numerics.array_dtype(datatype))

    def cut(self, array: Array, datatype: Datatype = Datatype.INT32) -> list[Array]:
        """An array as its cells (section 3.4 of the specification)."""
        size = self.full(datatype)
        return [array[i : i + size] for i in range(0, array.size, size)]

    # ----------------------------------------------------------------------------------------------- the user

    def call(self, primitive: str, array: Array | None = None, **arguments: Any) -> int:
        """The user of the host calls a collective; returns its handle."""
        words = "" if array is None else f"{array.size} x {array.dtype}"
        more = ", ".join(f"{k}={v}" for k, v in arguments.items() if not isinstance(v, np.ndarray))
        self.note(f"call {primitive}({', '.join(w for w in (words, more) if w)})")
        if array is not None:
            arguments["array" if primitive == "broadcast" else "send"] = array.copy()
        handle = self.dut.call(primitive, **arguments)
        assert isinstance(handle, int)
        return handle

    def abort(self) -> None:
        """The user gives up."""
        self.note("abort")
        self.dut.abort()

    def engine_says(self, *slots: tuple[int, int], failed_edges: tuple[str, ...] = ()) -> None:
        """What the engine answers when the host asks for its slots: (cell, bitmap) of each."""
        status = GroupStatus(1, 0, tuple(SlotStatus(c, b, False) for c, b in slots), failed_edges)
        self.dut.answer(lambda _group: status)

    def expect_outcome(self, handle: int, expected: Array | None = None) -> None:
        """The collective ends with this array (None: without one)."""
        self.note(f"collective {handle} ends with {in_words(expected)}")
        kind, value = self._ended(handle)
        if kind == "error":
            raise Failure(
                f"collective {handle} ended with an error",
                [in_words(expected)],
                [f"{type(value).__name__}: {value}"],
            )
        if expected is None and value is None:
            return
        if expected is None or value is None or not equal(np.asarray(value), expected):
            got = None if value is None else np.asarray(value)
            raise Failure(
                f"collective {handle} ended with a wrong result", [in_words(expected)], [in_words(got)]
            )

    def expect_error(self, handle: int, kind: type[EpicError], *words: str, within: float = 0.0) -> EpicError:
        """The collective ends with an error of this kind whose message has these words (in any case)."""
        self.note(f"collective {handle} ends with {kind.__name__}{f' naming {words}' if words else ''}")
        how, value = self._ended(handle, within)
        text = f"{type(value).__name__}: {value}" if how == "error" else "a result"
        right = how == "error" and isinstance(value, kind)
        if not right or any(word.lower() not in text.lower() for word in words):
            raise Failure(
                f"collective {handle} must end with {kind.__name__}",
                [f"{kind.__name__} with {', '.join(words) or 'any words'}"],
                [text],
            )
        assert isinstance(value, EpicError)
        return value

    def expect_running(self, *handles: int) -> None:
        """The collectives have not ended, and do not for a while."""
        self.note("nothing has ended")
        self._pump(self.quiet)
        for handle in handles:
            outcome = self.dut.outcome(handle)
            if outcome is not None:
                raise Failure(
                    f"collective {handle} has ended", ["it goes on"], [f"{outcome[0]}: {outcome[1]}"]
                )

    def _ended(self, handle: int, within: float = 0.0) -> Any:
        if not self._wait(lambda: self.dut.outcome(handle) is not None, within or self.response):
            raise Failure(f"collective {handle} does not end", ["an end"], ["it goes on"])
        return self.dut.outcome(handle)

    # --------------------------------------------------------------------------------------- what the host sends

    def next_contribution(self, cell: int, text: str = "any") -> Contribution:
        """The contribution to `cell`. Raises Failure when it does not come in time."""
        self.note(f"the engine receives cell {cell}: {text}")
        found: list[Contribution] = []

        def here() -> bool:
            found[:] = [c for c in self.switch.waiting if c.cell == cell]
            return bool(found)

        if not self._wait(here, self.response):
            arrived = [self._cell_text(c) for c in self.switch.waiting] or ["nothing"]
            raise Failure(f"no contribution to cell {cell}", [text], arrived)
        self.switch.waiting.remove(found[0])
        return found[0]

    def expect_contribution(self, cell: int, values: Values, what: Descriptor) -> None:
        """The host contributes exactly this to `cell`."""
        payload = self.encode(values, what)
        imm = what.pack() | (NULL_BIT if payload is None else 0)
        text = f"[{Descriptor.unpack(imm)}]" + (f" {payload[:32].hex(' ', 4)}" if payload else "")
        got = self.next_contribution(cell, text)
        if got.imm != imm or got.payload != payload:
            raise Failure(f"wrong contribution to cell {cell}", [text], [self._cell_text(got)])

    def expect_contributions(self, first: int, values: Sequence[Values], what: Descriptor) -> None:
        """The host contributes these cells, from number `first` on."""
        for i, value in enumerate(values):
            self.expect_contribution(first + i, value, what)

    def expect_repeat(self, cell: int, *, within: float = 0.0) -> float:
        """The host contributes `cell` again, unchanged; returns when."""
        self.note(f"the engine receives cell {cell} again")

        def here() -> bool:
            last = self.switch.cell_numbers[cell][-1]
            return last in self.switch.repeats

        if not self._wait(here, within or self.response):
            raise Failure(
                f"cell {cell} is not repeated", [f"cell {cell} again"], [f"again: {self.switch.repeats}"]
            )
        at = self.now
        self.switch.repeats.clear()
        return at

    def repeated_cells(self) -> list[int]:
        """The cells that were repeated since the bench last looked, in order and each once."""
        numbers = dict.fromkeys(self.switch.repeats)
        self.switch.repeats.clear()
        cells = (c for n in numbers for c, own in enumerate(self.switch.cell_numbers) if n in own)
        return list(dict.fromkeys(cells))

    def expect_repeated_cells(self, what: str, expected: list[int], *before: int) -> None:
        """Exactly these cells were repeated, `before` (which the bench has looked at already) included."""
        got = sorted({*before, *self.repeated_cells()})
        if got != expected:
            raise Failure(what, [f"cells {expected}"], [f"cells {got}"])

    def settle(self) -> int:
        """Wait until the host sends nothing more by itself; how many cells it has contributed by then."""
        self._pump(self.quiet)
        self.switch.waiting.clear()
        return sum(1 for numbers in self.switch.cell_numbers if numbers)

    def expect_no_new(self, seconds: float | None = None) -> None:
        """No cell is contributed that was not before; a poisoned one, which gives up, is allowed."""
        self.note("no new cell is contributed")
        self._pump(self.quiet) if seconds is None else self.advance(seconds)
        extra = [self._cell_text(c) for c in self.switch.waiting if not c.imm & ERR_BIT]
        if extra:
            raise Failure("a contribution that must not be sent", ["nothing new"], extra)
        self.switch.waiting.clear()

    def expect_silence(self) -> None:
        """The host sends nothing at all for a while."""
        self.note("nothing is sent")
        self._pump(self.quiet)
        extra = [self._cell_text(c) for c in self.switch.waiting]
        extra += [f"cell {c} again" for c in self.repeated_cells()]
        extra += [describe(a, self.switch.edge, received=True) for a in self.switch.acks]
        if extra:
            raise Failure("frames that must not be sent", ["nothing"], extra)

    def expect_ack(self, cell: int) -> None:
        """The host acknowledges the result of `cell`, or a later one."""
        number = self.switch.result_numbers(cell)[-1]
        self._expect_aeth(f"ACK of result {cell}", lambda kind, code, n: kind == Syndrome.ACK and n >= number)

    def expect_nak(self, number: int, code: NakCode = NakCode.PSN_SEQUENCE_ERROR) -> None:
        """The host sends a NAK that names result packet `number`."""
        self._expect_aeth(
            f"NAK {code.name} of packet {number}",
            lambda kind, c, n: kind == Syndrome.NAK and c == code and n == number,
        )

    def expect_no_ack(self) -> None:
        """The host acknowledges nothing for a while, in any way."""
        self.note("no acknowledgement")
        self._pump(self.quiet)
        if self.switch.acks:
            lines = [describe(a, self.switch.edge, received=True) for a in self.switch.acks]
            raise Failure("an acknowledgement that must not be sent", ["none"], lines)

    def _expect_aeth(self, text: str, wanted: Callable[[int, int, int], bool]) -> None:
        self.note(f"the engine receives {text}")

        def here() -> bool:
            return any(
                wanted(a.aeth.syndrome & SYNDROME_MASK, a.aeth.syndrome & 0x1F, self.switch.ack_number(a))
                for a in self.switch.acks
                if a.aeth is not None
            )

        if not self._wait(here, self.response):
            lines = [describe(a, self.switch.edge, received=True) for a in self.switch.acks]
            raise Failure(f"no {text}", [text], lines or ["no acknowledgement"])
        self.switch.acks.clear()

    # ------------------------------------------------------------------------------------ what the engine sends

    def prepare(self, cell: int, values: Values, what: Descriptor) -> list[Packet]:
        """The packets of a result, without sending them (it is lost, or late)."""
        payload = self.encode(values, what)
        imm = what.pack() | (NULL_BIT if payload is None else 0)
        return self.switch.prepare(cell, imm, payload)

    def result(
        self,
        cell: int,
        values: Values,
        what: Descriptor,
        *,
        congested: bool = False,
        err: bool = False,
        tamper: Tamper | None = None,
    ) -> None:
        """The engine sends the result of `cell`, or repeats it; its frames are changed by `tamper` on the way."""
        payload = self.encode(values, what)
        imm = replace(what, err=err).pack() | (NULL_BIT if payload is None else 0)
        packets = self.switch.prepare(cell, imm, payload)
        for packet in packets:
            packet.ecn = 3 if congested else packet.ecn
        self.switch.result(cell, tamper)

    def repeat_result(self, cell: int) -> None:
        """The engine sends the result of `cell` again."""
        self.switch.result(cell)

    def exchange(
        self, first: int, steps: Sequence[tuple[Descriptor, Values, Values]], *, check: bool = True
    ) -> None:
        """Cells in turn, each (descriptor, what the host contributes, the result that is sent back)."""
        for i, (what, sends, receives) in enumerate(steps):
            if check:
                self.expect_contribution(first + i, sends, what)
            else:
                self.next_contribution(first + i)
            self.result(first + i, receives, what)

    def lose(self, packets: int = 1) -> None:
        """The next packets of the host do not reach the engine."""
        self.note(f"the next {packets} data packet{'s' * (packets != 1)} of the host will be lost")
        self.switch.to_lose = packets

    def ack(self, cell: int) -> None:
        """The engine acknowledges the host's contribution to `cell` and all before."""
        self.switch.ack(self.switch.cell_numbers[cell][-1])

    def nak(self, cell: int, code: NakCode = NakCode.PSN_SEQUENCE_ERROR) -> None:
        """The engine sends a NAK that names the first packet of contribution `cell`."""
        self.switch.ack(self.switch.cell_numbers[cell][0], nak_aeth(code, 0))

    def rnr(self, cell: int, code: int) -> None:
        """The engine is not ready for the first packet of contribution `cell`, for the time of the code."""
        self.switch.ack(self.switch.cell_numbers[cell][0], Aeth(Syndrome.RNR_NAK | code, 0))

    # ------------------------------------------------------------------------------------------------ counters

    def expect_counter(self, expected: dict[str, int]) -> None:
        """Counters have grown by exactly this much since the host joined."""
        if not self.traits.reads_counters:
            return
        self.note("counters: " + ", ".join(f"{k} +{v}" for k, v in expected.items()))
        grown = self.counters_grown()
        got = {name: grown.get(name, 0) for name in expected}
        if got != expected:
            raise Failure(
                "counters", [f"{k} +{v}" for k, v in expected.items()], [f"{k} +{v}" for k, v in got.items()]
            )

    def counters_grown(self) -> dict[str, int]:
        """By how much each counter has grown since the host joined; only those that have."""
        now = self.dut.counters()
        grown = {name: value - self._counters.get(name, 0) for name, value in now.items()}
        return {name: value for name, value in grown.items() if value}

    def finish(self) -> None:
        """The end of a case: the host must have contributed nothing that the case did not expect."""
        self.expect_no_new()

    # ----------------------------------------------------------------------------------------------- payloads

    def encode(self, values: Values, what: Descriptor) -> bytes | None:
        """Elements as wire bytes."""
        if values is None or isinstance(values, bytes):
            return values
        array = np.asarray(values).astype(numerics.array_dtype(what.datatype))
        return numerics.to_wire(array, what.datatype, self.params.byte_order)

    def decode(self, payload: bytes | None, datatype: Datatype = Datatype.INT32) -> Array:
        """Wire bytes as elements."""
        data = payload or b""
        out = np.empty(len(data) // numerics.element_bytes(datatype), numerics.array_dtype(datatype))
        numerics.from_wire(data, datatype, self.params.byte_order, out)
        return out

    @staticmethod
    def _cell_text(contribution: Contribution) -> str:
        words = f"cell {contribution.cell} [{Descriptor.unpack(contribution.imm)}]"
        return words if contribution.payload is None else f"{words} {contribution.payload[:32].hex(' ', 4)}"
