"""Steps that the cases of Modes I and II share: raw packets, a responder's answers, a requester's repeats, timers.

Times are bounds, not points: a timer may expire late by a device's granularity (EPIC-F-01), and over sockets the
suite sees frames later than they were sent. `earliest` and `latest` say how much is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from epic_models.reference.endpoint import nak_aeth
from epic_models.reference.rc import RNR_TIMERS_MS
from epic_spec import psn
from epic_spec.packets import Aeth, Descriptor, Packet
from epic_spec.tables import SYNDROME_MASK, NakCode, Opcode, Syndrome
from epic_testbed.conformance.bench import SUM, Arrival, Bench, Failure, Peer, Values, describe

# (what kind of refusal, the number of the packet that it names).
Refusal = tuple[str, int]
WITH_IMMEDIATE = (Opcode.SEND_LAST_IMM, Opcode.SEND_ONLY_IMM)
INVALID, SEQUENCE, RNR = "NAK INVALID_REQUEST", "NAK PSN_SEQUENCE_ERROR", "RNR NAK"


# ------------------------------------------------------------------------------------------------------ set-up


def timers(seconds: float, *, longest: float | None = None) -> dict[str, Any]:
    """Parameters of a group whose timeout starts as `seconds` and is never less, at most `longest`."""
    value = round(seconds * 1e6)
    return {
        "rto_initial_us": value,
        "rto_min_us": value,
        "rto_max_us": value if longest is None else round(longest * 1e6),
    }


def no_timers() -> dict[str, Any]:
    """Timers long enough that a case which does not wait for one meets none."""
    return timers(2.0)


def short_timers(bench: Bench) -> dict[str, Any]:
    """Timers to wait for: as short as the bench's own delay lets them be told apart."""
    return timers(0.05 if bench.traits.virtual_time else 0.3)


def timeout(bench: Bench) -> float:
    """The first retransmission timeout of the group in use, in seconds."""
    p = bench.group.params
    return min(max(p.rto_initial_us, p.rto_min_us), p.rto_max_us) * 1e-6


def earliest(bench: Bench, seconds: float) -> float:
    """The least time that may be measured for a timer of `seconds`."""
    return seconds * (1 - 1e-6) if bench.traits.virtual_time else seconds * 0.7 - 0.01


def latest(bench: Bench, seconds: float) -> float:
    """The most time that is waited for a timer of `seconds`."""
    return seconds * 1.75 + (1e-3 if bench.traits.virtual_time else 0.3)


# ----------------------------------------------------------------------------------------------- what is sent


def send_packet(
    bench: Bench,
    peer: Peer,
    opcode: Opcode,
    number: int,
    payload: bytes = b"",
    what: Descriptor = SUM,
    *,
    ackreq: bool = True,
) -> None:
    """One packet of a peer, whatever the rules say of it. `number` counts from the base of what the peer sends."""
    packet = peer.edge.packet(
        opcode,
        number,
        imm=what.pack() if opcode in WITH_IMMEDIATE else None,
        payload=payload,
        ackreq=ackreq,
        pkey=bench.group.params.pkey,
    )
    packet.icrc_ok = bench.group.params.icrc == "full"
    bench.send(peer, packet)


def prepare(bench: Bench, peer: Peer, cell: int, values: Values, what: Descriptor = SUM) -> list[Packet]:
    """The packets of a peer's next message, numbered but not sent yet; `contribute` of the cell sends them again."""
    packets = bench.group.packets(peer, cell, values, what)
    peer.sent[cell] = packets
    peer.next_number = psn.diff(packets[-1].psn, peer.edge.psn_tx) + 1
    return packets


def send_all(bench: Bench, peer: Peer, packets: Iterable[Packet]) -> None:
    """Packets of a peer, in this order."""
    for packet in packets:
        bench.send(peer, packet)


def rnr_nak(bench: Bench, peer: Peer, number: int, code: int) -> None:
    """A peer answers packet `number` with an RNR NAK of this timer code."""
    bench.acknowledge(peer, number, Aeth(Syndrome.RNR_NAK | code, peer.messages & psn.MASK))


def refuse(bench: Bench, peer: Peer, number: int, code: NakCode) -> None:
    """A peer refuses packet `number` for good."""
    bench.acknowledge(peer, number, nak_aeth(code, peer.messages))


# -------------------------------------------------------------------------------------- a responder's answers


def _number(peer: Peer, packet: Packet) -> int:
    return psn.diff(packet.psn, peer.edge.psn_tx)


def _kind(packet: Packet) -> str:
    assert packet.aeth is not None
    kind, code = packet.aeth.syndrome & SYNDROME_MASK, packet.aeth.syndrome & 0x1F
    if kind == Syndrome.NAK:
        return f"NAK {NakCode(code).name if code < 4 else code}"
    return {Syndrome.ACK: "ACK", Syndrome.RNR_NAK: RNR}.get(Syndrome(kind), "?")


def answers(bench: Bench, peer: Peer) -> list[Packet]:
    """What the device has answered a peer by the time that it is quiet; taken out of the peer's record."""
    bench.settle()
    got = list(peer.acks)
    peer.acks.clear()
    return got


def expect_answers(bench: Bench, peer: Peer, refusals: Sequence[Refusal], newest: int) -> list[Packet]:
    """Exactly these NAKs and RNR NAKs, in this order, and no ACK of a packet after `newest`; ACKs of older ones are
    free to come. Returns the refusals.
    """
    wanted = [f"{kind} #{number}" for kind, number in refusals] or ["no NAK or RNR NAK"]
    bench.note(f"{peer.name} receives {', '.join(wanted)} and no ACK beyond #{newest}")
    got = answers(bench, peer)
    lines = [describe(a, peer.edge, received=True) for a in got] or ["nothing"]
    negative = [a for a in got if _kind(a) != "ACK"]
    if [(_kind(a), _number(peer, a)) for a in negative] != list(refusals):
        raise Failure(f"{peer.name}: other answers than the rules give", wanted, lines)
    if any(_kind(a) == "ACK" and _number(peer, a) > newest for a in got):
        raise Failure(f"{peer.name}: ACK of what was not accepted", [f"at most ACK #{newest}"], lines)
    return negative


def expect_acknowledged(bench: Bench, peer: Peer, newest: int) -> None:
    """At least one ACK, the last of them of exactly packet `newest`, and no NAK."""
    bench.note(f"{peer.name} receives ACK #{newest}")
    got = answers(bench, peer)
    kinds = [(_kind(a), _number(peer, a)) for a in got]
    if not kinds or kinds[-1] != ("ACK", newest) or any(k != "ACK" or n > newest for k, n in kinds):
        raise Failure(
            f"{peer.name}: no ACK of the newest accepted packet",
            [f"ACK #{newest}"],
            [describe(a, peer.edge, received=True) for a in got] or ["nothing"],
        )


def check_rnr_time(bench: Bench, answer: Packet) -> None:
    """The time of an RNR NAK is not below `rnr_timer_us` and not above twice the next longer time."""
    assert answer.aeth is not None
    asked = bench.group.params.rnr_timer_us / 1000
    times = sorted(RNR_TIMERS_MS)
    enough = [t for t in times if t >= asked]
    longest = 2 * (enough[1] if len(enough) > 1 else times[-1])
    got = RNR_TIMERS_MS[answer.aeth.syndrome & 0x1F]
    if not asked <= got <= longest:
        raise Failure("time of an RNR NAK", [f"{asked:g} to {longest:g} ms"], [f"{got:g} ms"])


# --------------------------------------------------------------------------------------- a requester's repeats


def next_batch(bench: Bench, peer: Peer, wait: float | None = None) -> list[Arrival]:
    """The data that a peer receives from now on: the first within `wait` seconds, and what follows it at once."""
    mark = len(peer.arrivals)
    bench.watch(bench.response if wait is None else wait, lambda: len(peer.arrivals) > mark)
    if len(peer.arrivals) > mark:
        bench.watch(min(bench.quiet, timeout(bench) / 3))
    return peer.arrivals[mark:]


def expect_repeated(
    bench: Bench, peer: Peer, numbers: Sequence[int], wait: float | None = None
) -> list[Arrival]:
    """A peer receives exactly these packets again, in this order. (The bench compares each with the first.)"""
    bench.note(f"{peer.name} receives again {', '.join(f'#{n}' for n in numbers)}")
    got = next_batch(bench, peer, wait)
    if [a.number for a in got] != list(numbers):
        raise Failure(f"{peer.name}: other packets repeated", _numbers(numbers), _lines(peer, got))
    return got


def expect_not_repeated(bench: Bench, peer: Peer, seconds: float | None = None) -> None:
    """A peer receives no data at all for that long (default: while the bench looks for silence)."""
    bench.note(f"{peer.name} receives no data again")
    mark = len(peer.arrivals)
    bench.watch(bench.quiet if seconds is None else seconds)
    if len(peer.arrivals) > mark:
        raise Failure(
            f"{peer.name}: data that must not be repeated", ["nothing"], _lines(peer, peer.arrivals[mark:])
        )


def expect_received(bench: Bench, peer: Peer, numbers: Sequence[int]) -> None:
    """A peer has received exactly these packets, in this order, since the group was installed."""
    bench.note(f"{peer.name} has received {', '.join(_numbers(numbers))} and nothing else")
    bench.settle()
    if [a.number for a in peer.arrivals] != list(numbers):
        raise Failure(f"{peer.name}: other packets received", _numbers(numbers), _lines(peer, peer.arrivals))


def arrival_times(bench: Bench, peer: Peer, number: int, count: int, wait: float) -> list[float]:
    """When packet `number` came, the first time included, until it came `count` times. Raises Failure after `wait`."""

    def times() -> list[float]:
        return [a.time for a in peer.arrivals if a.number == number]

    bench.note(f"{peer.name} receives packet #{number} {count} times")
    bench.watch(wait, lambda: len(times()) >= count)
    if len(times()) < count:
        raise Failure(
            f"{peer.name}: packet #{number} came {len(times())} times in {wait:g} s",
            [f"{count} times"],
            _lines(peer, peer.arrivals),
        )
    return times()[:count]


def _numbers(numbers: Sequence[int]) -> list[str]:
    return [f"#{n}" for n in numbers] or ["nothing"]


def _lines(peer: Peer, got: Sequence[Arrival]) -> list[str]:
    return [describe(a.packet, peer.edge, received=True) for a in got] or ["nothing"]


# ---------------------------------------------------------------------------------------------- edges in error


def expect_failed_edges(bench: Bench, *peers: Peer) -> None:
    """The control plane names exactly these edges as in error, and as many were counted."""
    bench.note("edges in error: " + (", ".join(p.edge.name for p in peers) or "none"))
    wanted = sorted(p.edge.name for p in peers)
    bench.expect_counter({"edge_errors": len(peers)})
    if not bench.traits.reads_status:
        return
    start, got = bench.dut.clock(), [""]
    while got != wanted and bench.dut.clock() - start <= bench.response:
        bench.watch(min(bench.quiet, 0.02))
        got = sorted(bench.dut.status(bench.group.params.group).failed_edges)
    if got != wanted:
        raise Failure("edges in error", wanted or ["none"], got or ["none"])


def expect_dead(bench: Bench, peer: Peer, seconds: float | None = None) -> None:
    """Nothing at all is sent to a peer for that long."""
    bench.note(f"nothing is sent to {peer.name}")
    peer.acks.clear()
    mark = len(peer.arrivals)
    bench.watch(bench.quiet if seconds is None else seconds)
    lines = _lines(peer, peer.arrivals[mark:]) if len(peer.arrivals) > mark else []
    lines += [describe(a, peer.edge, received=True) for a in peer.acks]
    if lines:
        raise Failure(f"{peer.name}: frames over an edge in error", ["nothing"], lines)
