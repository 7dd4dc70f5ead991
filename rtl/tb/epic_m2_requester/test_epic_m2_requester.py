"""epic_m2_requester beside the golden one: the same acknowledgements at the same times, the same packets in the same
order, the same end; timers as late as their granularity says. What the sequencer keeps beside the record (what there is
to send, when each packet was sent) is kept here."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import Timer
from common.runner import ICARUS, VERILATOR, Bench

from epic_models.reference.endpoint import Counters, EdgeEnd
from epic_models.reference.group import GroupParams
from epic_models.reference.rc import RNR_TIMERS_MS, Message, Requester
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_spec import psn
from epic_spec.packets import NULL_BIT, Aeth, Descriptor, Packet
from epic_spec.tables import Datatype, NakCode, Opcode, Operator, Primitive, Syndrome
from epic_testbed.rtl.records import Record, constants
from epic_testbed.rtl.tables import TYPES_2

BENCH = Bench(
    top="epic_m2_requester",
    sources=("epic_m2_requester.v", "epic_m2_rto.v", "epic_cut.v"),
    small=((ICARUS, {}), (VERILATOR, {})),
    configurations=((ICARUS, {}), (VERILATOR, {})),
)

MASK = (1 << 24) - 1
EVENTS = {"nothing": 0, "ack": 1, "nak": 2, "refused": 3, "rnr": 4, "implicit": 5, "timer": 6, "sent": 7}
IMM = Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32).pack() | NULL_BIT
WINDOW = 8
GRANULARITY = 2  # microseconds that a deadline is late by


def unpack(word: int) -> dict[str, int]:
    """The fields of an RC record."""
    known = constants(TYPES_2)
    names = [
        n.removeprefix("RC_").removesuffix("_LSB")
        for n in known
        if n.startswith("RC_") and n.endswith("_LSB")
    ]
    return {n.lower(): word >> known[f"RC_{n}_LSB"] & (1 << known[f"RC_{n}_WIDTH"]) - 1 for n in names}


class TB:
    """Both requesters, numbered from `start`."""

    def __init__(self, dut, params: GroupParams, start: int) -> None:
        self.dut = dut
        engine = LinkEnd(0, "10.0.0.9", "02:00:00:00:00:09")
        ends = {(r, "x"): (LinkEnd(0, f"10.0.0.{r + 1}", "02:00:00:00:00:01"), engine) for r in range(2)}
        self.edge = build_group(Tree("x", {"x": (0, 1)}), params, ends, seed=1).engines["x"].children[0]
        self.counters = Counters()
        self.golden = Requester(EdgeEnd(self.edge, params), self.counters, first_time="tx_result")
        self.golden._next = self.golden._messages = self.next = start
        self.record = Record("RC", TYPES_2)
        self.rc = {
            "una": start & MASK, "cur": start & MASK, "high": start & MASK, "served": MASK,
            "served_valid": int(start < 1 << 22), "base": params.rto_initial_us, "timeout": params.rto_initial_us,
        }  # fmt: skip
        dut.timers.value = Record("TIMERS", TYPES_2).pack(
            initial=params.rto_initial_us,
            min=params.rto_min_us,
            max=params.rto_max_us,
            retry_limit=params.retry_limit,
        )
        self.times: dict[int, tuple[int, bool]] = {}  # packet to when it was sent, and whether once
        self.now = 1000
        self.failed = False
        self.unknown = 0
        self.running = False

    async def event(self, name: str, number: int = 0, wait: int = 0) -> None:
        """One event of the design, then whatever there is to send. A packet that is named newest tells its time."""
        dut = self.dut
        newest = number if name == "ack" else number - 1
        sent, once = self.times.get(newest & MASK, (0, False))
        dut.state.value = self.record.pack(**self.rc)
        dut.next.value = self.next & MASK
        dut.now.value, dut.number.value, dut.rnr_wait.value = self.now, number & MASK, wait
        dut.rc_event.value, dut.happens.value = EVENTS[name], 1
        dut.once.value, dut.first_sent.value = once, sent
        await Timer(1, "ns")
        self.rc = unpack(int(dut.next_state.value))
        self.unknown += int(dut.unknown.value)
        self.failed = self.failed or dut.failed.value == 1
        self.running = dut.running.value == 1

    async def send(self) -> list[int]:
        """All packets that wait, as a port with room takes them."""
        sent = []
        while not self.failed and not self.rc["paused"] and self.rc["cur"] != self.next & MASK:
            number = self.rc["cur"]
            sent.append(number)
            self.times[number] = (self.now, number == self.rc["high"])
            await self.event("sent")
        return sent

    def packet(self, number: int, aeth: Aeth) -> Packet:
        """An acknowledgement as the golden requester takes it."""
        e = self.edge
        return Packet(Opcode.ACK, e.peer.ip, e.local.ip, e.local.qpn, psn.add(e.psn_tx, number), aeth=aeth)

    async def compare(self, golden: list[int]) -> None:
        sent = await self.send()
        assert sent == golden, f"sent {sent}, expected {golden}"
        assert self.failed == self.golden.failed
        assert self.unknown == self.counters["drop_unexpected"]
        if self.failed:
            return
        assert (self.next - self.rc["una"]) & MASK == self.golden.outstanding
        deadline = self.golden.next_deadline()
        assert self.running == (deadline is not None)
        if deadline is not None:
            exact = deadline * 1e6 + GRANULARITY
            # A sample counts one microsecond more, the first one thrice, and what comes of it is rounded up.
            late = (1 << self.rc["retries"]) * 5
            assert exact - 0.6 <= self.rc["deadline"] <= exact + late, (self.rc["deadline"], exact)

    def numbers(self, sends: list[tuple[int, Packet]]) -> list[int]:
        return [psn.add(p.psn, -self.edge.psn_tx) for _, p in sends]


async def script(dut, choice: random.Random, params: GroupParams, start: int, pauses: bool) -> TB:
    """Random events, until the edge fails or the two may differ."""
    tb = TB(dut, params, start)
    golden = tb.golden
    for _ in range(120):
        tb.now += choice.choice((0, 1, 5, 60, 400))
        seconds = tb.now * 1e-6
        oldest = tb.next - golden.outstanding
        kinds = {
            "send": 40,
            "ack": 25,
            "nak": 8,
            "rnr": 5 * pauses,
            "implicit": 10,
            "timer": 12,
            "refused": 0.4,
        }
        kind = choice.choices(list(kinds), list(kinds.values()))[0]
        # Mostly of what is under way; sometimes of what is long acknowledged or was never sent.
        number = choice.choice(
            (oldest, oldest, oldest + 1, oldest + 2, tb.next - 1, oldest - 1, oldest - 3, tb.next + 1)
        )
        if number < 0 or (kind == "nak" and number <= MASK < oldest):
            continue  # README-mode2.md: after the wrap an old NAK from before it is one that was answered
        if kind == "send":
            if golden.outstanding >= WINDOW:
                continue
            tb.next += 1
            output = golden.send(Message(IMM, None), seconds)
            await tb.event("nothing")
        elif kind == "implicit":
            number = min(number, tb.next)
            golden.acknowledge_messages(number, seconds)
            paused = tb.rc.get("paused", 0)
            await tb.event("implicit", number)
            if paused and not tb.rc["paused"]:
                # The one difference (README-mode2.md): what waited behind the pause goes now, not with the timer.
                return tb
            await tb.compare([])
            continue
        elif kind == "timer":
            deadline = golden.next_deadline()
            if deadline is None:
                continue
            tb.now = max(tb.now, tb.rc["deadline"])
            output = golden.poll(tb.now * 1e-6)
            await tb.event("timer")
        else:
            code = choice.randrange(1, 12)
            aeth = {
                "ack": Aeth(Syndrome.ACK, 0), "rnr": Aeth(Syndrome.RNR_NAK | code, 0),
                "nak": Aeth(Syndrome.NAK | NakCode.PSN_SEQUENCE_ERROR, 0),
                "refused": Aeth(Syndrome.NAK | NakCode.INVALID_REQUEST, 0),
            }[kind]  # fmt: skip
            paused = bool(tb.rc.get("paused", 0))
            output = golden.on_ack(tb.packet(number, aeth), seconds)
            await tb.event(kind, number, round(RNR_TIMERS_MS[code] * 1000))
            if paused and kind == "nak" and not golden.failed and not tb.rc["paused"]:
                return tb  # the other difference: a NAK in a pause ends it
        await tb.compare(tb.numbers(output.sends))
        if tb.failed:
            break
    return tb


@cocotb.test
async def scripts(dut) -> None:
    """From the first packet on, and across the wrap of the numbers; with a timeout that stays and one that adapts."""
    choice = random.Random(cocotb.RANDOM_SEED)
    ends = {"failed": 0, "sampled": 0}
    for _ in range(150):
        fixed = choice.random() < 0.5
        initial = 60_000 if fixed else 2000
        params = GroupParams(
            1, 2, 2, window=WINDOW, retry_limit=choice.choice((1, 3, 7)), rto_initial_us=initial,
            rto_min_us=initial if fixed else 20, rto_max_us=initial * choice.choice((1, 5)),
        )  # fmt: skip
        # The golden requester counts the time that a packet waits behind a pause as round trip, the design not.
        tb = await script(dut, choice, params, choice.choice((0, MASK - 12, 5_000_000)), pauses=fixed)
        ends["failed"] += tb.failed
        ends["sampled"] += tb.rc.get("sampled", 0)
    assert min(ends.values()) > 10, ends


@cocotb.test
async def an_old_nak_of_long_ago_hides_none(dut) -> None:
    """A NAK of half of all numbers ago is answered; the next one, of the oldest packet, is answered too."""
    start = 5_000_000
    tb = TB(dut, GroupParams(1, 2, 2, window=WINDOW), start)
    tb.next += 2
    await tb.event("nothing")
    assert await tb.send() == [start, start + 1]
    for number in (start - (1 << 23), start):
        await tb.event("nak", number)
        assert await tb.send() == [start, start + 1], number
    await tb.event("nak", start)
    assert await tb.send() == []
