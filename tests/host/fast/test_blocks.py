"""Blocks against cells: a fast agent that is given blocks sends and counts what the reference does with their cells.

What is different is where results go. One that is as its block expects is in the block's sink and is no event; any
other is the event that the reference gives.
"""

from __future__ import annotations

import ctypes
import os
import random
from typing import Any

import numpy as np
import pytest

from epic_host.fast import landing
from epic_host.fast.agent import FastAgent
from epic_host.fast.blocks import Block
from epic_host.fast.frames import Arrivals, Departures, departures
from epic_host.fast.mode3_agent import FastMode3Agent
from epic_models.reference.fixedpoint import BLOCK
from epic_models.reference.group import GroupParams, RankGroup
from epic_models.reference.interfaces import Cell, CellDelivered, Event, Output
from epic_models.reference.mode3 import Mode3Agent
from epic_models.reference.tree import Tree, build_group
from epic_spec import codec
from epic_spec.addresses import ip_number
from epic_spec.packets import AGREEMENT_MASK, ERR_BIT, NULL_BIT, Aeth, Packet
from epic_spec.tables import UDP_PORT, Datatype, Opcode
from host.fast.test_fixed import FLOATS, Both, floats
from host.fast.twins import make_fast_agent, make_reference_agent

SCALE = int(os.environ.get("EPIC_EXAMPLES", "1"))
RUNS = 40 * SCALE
P = 64


def rank_group(**changes: Any) -> RankGroup:
    """The only rank of a tree, in a small window."""
    values: dict[str, Any] = {
        "mode": 3, "window": 4, "slots": 8, "payload_bytes": P, "rto_initial_us": 1000, "rto_min_us": 200,
        "rto_max_us": 5000, "deadline_us": 100_000,
    }  # fmt: skip
    params = GroupParams(group=1, world_size=1, **(values | changes))
    return build_group(Tree("s", {"s": (0,)}), params, seed=changes.get("epoch", 3)).ranks[0]


def frames(agent: FastAgent, queue: Departures) -> list[bytes]:
    """What is queued, as datagrams; then nothing is."""
    sent = []
    for i in range(queue.count[0]):
        body = ctypes.string_at(int(queue.body[i]), int(queue.length[i])) if queue.length[i] else b""
        sent.append(queue.head[i].tobytes() + body + queue.tail[i].tobytes())
    queue.clear()
    return sent


def datagrams(output: Output) -> list[bytes]:
    """The packets of the reference as datagrams."""
    return [codec.encode_datagram(p, icrc=p.icrc_ok) for _, p in output.sends]


def decoded(payload: bytes, both: Both, start: int, stop: int) -> bytes:
    """The elements of a result, as the reference has them."""
    fixed = both.shared.fixed
    words = np.frombuffer(payload, ">i4").astype(np.int32).reshape(-1, fixed.words)
    return fixed.dequantize(words, both.shared.exponents[np.arange(start, stop) // BLOCK]).tobytes()


class Couple:
    """The reference with cells and the fast agent with the blocks that they are from."""

    def __init__(self, rng: random.Random, **changes: Any) -> None:
        self.rng = rng
        self.group = rank_group(**changes)
        self.reference, self.fast = make_reference_agent(self.group), make_fast_agent(self.group)
        self.queue = departures(self.fast.burst + rng.choice([0, 3, 100]))
        self.arrivals = Arrivals(64, 1 << 16)
        self.arrivals.address = ip_number(self.group.edge.local.ip)
        self.now = 0.0
        # By cell: what was contributed, and, of a block's, what lands where: address, length, element size.
        self.cells: list[Cell] = []
        self.places: list[tuple[int, int, Any] | None] = []
        self.memory: list[Any] = []
        self.landed: list[tuple[int, bytes]] = []

    # ---------------------------------------------------------------------- out

    def submit(self) -> None:
        """As many cells as there is room for, or fewer: a block, or plain cells."""
        room = self.reference.room()
        if not room:
            return
        count = self.rng.randint(1, room)
        if self.rng.random() < 0.2:
            imm = self.imm()
            cells = [
                self.rng.choice([Cell(imm, self.rng.randbytes(12)), Cell(imm | NULL_BIT, None)])
                for _ in range(count)
            ]
            self.places += [None] * count
            self.fast.submit_cells(cells, self.queue, self.now)
        else:
            cells = self.block(count)
        self.cells += cells
        self.compare(self.reference.submit(cells, self.now), [])

    def imm(self) -> int:
        return self.rng.choice([0xFFFF1000, 0xFFFF1200, 0x00005000, 0x00009400]) | self.rng.randrange(64)

    def array(self, size: int, byte: int | None = None) -> np.ndarray[Any, Any]:
        """Memory that is kept, at any address."""
        data = self.rng.randbytes(size + 8) if byte is None else bytes([byte]) * (size + 8)
        block = np.frombuffer(bytearray(data), np.uint8)
        self.memory.append(block)
        return block[self.rng.randrange(8) :][:size]

    def block(self, count: int) -> list[Cell]:
        """Submit a block to the fast agent; the cells that it is."""
        if self.rng.random() < 0.2:
            return self.coded_block(count)
        rng, imm = self.rng, self.imm()
        swap = rng.choice([1, 2, 4, 8])
        cell_bytes = swap * rng.randint(1, P // swap)
        last_bytes = swap * rng.randint(1, cell_bytes // swap)
        size = (count - 1) * cell_bytes + last_bytes
        sends, expects = rng.random() < 0.8, rng.random() < 0.8
        source = self.array(size)
        sink = self.array(size, 0xEE) if expects and rng.random() < 0.9 else None
        block = Block(
            imm if sends else imm | NULL_BIT, count, cell_bytes, last_bytes,
            source=source.ctypes.data if sends else 0, swap=rng.choice([1, swap]),
            sink=0 if sink is None else sink.ctypes.data, sink_swap=rng.choice([1, swap]), expect=expects,
            streams=rng.random() < 0.5,
        )  # fmt: skip
        cells = []
        for i in range(count):
            length = last_bytes if i == count - 1 else cell_bytes
            at = i * cell_bytes
            payload = source[at : at + length].reshape(-1, block.swap)[:, ::-1].tobytes()
            cells.append(Cell(block.imm, payload if sends else None))
            address = 0 if sink is None else sink.ctypes.data + at
            self.places.append((address, length if expects else 0, block.sink_swap))
        self.submit_block(block)
        # It was copied.
        source[:] = 0
        return cells

    def submit_block(self, block: Block) -> None:
        """At once, or in two parts."""
        parts, count = [block], block.cells
        if self.rng.random() < 0.5 and count > 1:
            cut = self.rng.randint(1, count - 1)
            parts = [block.part(0, cut), block.part(cut, count - cut)]
        for part in parts:
            self.fast.submit_block(part, self.queue, self.now)

    def coded_block(self, count: int) -> list[Cell]:
        """The same of a fixed-point sum, somewhere in its data."""
        rng, numbers = self.rng, np.random.default_rng(self.rng.randrange(1 << 32))
        datatype = rng.choice(FLOATS)
        wire = 8 if datatype is Datatype.FP64 else 4
        each = rng.randint(1, P // wire)
        last, first = rng.randint(1, each), rng.randrange(150)
        size = first + (count - 1) * each + last
        values = floats(datatype, size, numbers, 0.0)
        both = Both.of(datatype, values, rng.randint(1, 3), "big", np.zeros_like(values))
        both.know(numbers)
        self.memory.append(both)
        target = both.shared.buffers.target(first, size)
        assert target is not None
        block = Block(
            self.imm(), count, each * wire, last * wire,
            source=values[first:].ctypes.data, sink=target.ctypes.data, expect=True,
            coding=both.fixed, element=first, streams=rng.random() < 0.5,
        )  # fmt: skip
        cells = []
        for start in range(first, size, each):
            stop = min(start + each, size)
            cells.append(Cell(block.imm, both.quantized.encode(start, stop)))
            address = target[start - first :].ctypes.data
            self.places.append((address, (stop - start) * wire, (both, start, stop)))
        self.submit_block(block)
        values[:] = 0
        return cells

    # ---------------------------------------------------------------------- in

    def result(self, number: int) -> bytes:
        """A result of a cell, mostly as its block expects."""
        rng = self.rng
        cell = self.cells[number] if 0 <= number < len(self.cells) else Cell(0xFFFF1000, None)
        place = self.places[number] if 0 <= number < len(self.cells) else None
        imm = cell.imm & ~NULL_BIT
        length = len(cell.payload or b"") if place is None else place[1]
        if rng.random() < 0.1:
            length = rng.choice([0, length + 4, 1, 16, P, 2 * P])
        if rng.random() < 0.05:
            imm ^= rng.choice([1, 1 << 16])
        payload = rng.randbytes(length)
        if rng.random() < 0.05:
            imm, payload = imm | ERR_BIT, rng.choice([b"", rng.randbytes(16), b"abcde"])
        if not payload:
            imm |= NULL_BIT
        return self.data(Opcode.SEND_ONLY_IMM, number, payload=payload, imm=imm, ecn=rng.choice([2, 2, 2, 3]))

    def data(self, opcode: Opcode, number: int, **more: Any) -> bytes:
        edge = self.group.edge
        packet = Packet(
            opcode, edge.peer.ip, edge.local.ip, edge.local.qpn, edge.psn_rx + number & 0xFFFFFF, **more
        )
        self._ecn = packet.ecn
        return codec.encode_datagram(packet)

    def frame(self) -> bytes:
        """A frame that may come: mostly a result of a cell that is outstanding."""
        first, last = self.reference.delivered, len(self.cells)
        number = (
            self.rng.randint(first - 2, last)
            if self.rng.random() < 0.2
            else self.rng.randrange(first, last + 1)
        )
        if self.rng.random() < 0.03:
            return self.data(Opcode.ACK, number, aeth=Aeth(31))
        return self.result(number)

    def arrive(self, count: int) -> None:
        """So many frames in one batch, some of them broken."""
        expected = Output()
        self.arrivals.clear()
        for _ in range(count):
            data = self.frame()
            if self.rng.random() < 0.03:
                data = data[:-1] + bytes([data[-1] ^ 1])
            source, edge = self.group.edge.peer.ip, self.group.edge
            frame = codec.frame_of_datagram(data, source, edge.local.ip, ecn=self._ecn)
            expected.extend(self.reference.receive_frame(edge.port, frame, self.now))
            self.arrivals.append(data, ip_number(source), edge.port, UDP_PORT, self._ecn)
        sent, done = [], 0
        while done < count:
            before, done = done, self.fast.receive_batch(self.arrivals, done, self.queue, self.now)
            assert done > before or self.queue.count[0], "no progress with empty departures"
            sent += frames(self.fast, self.queue)
        # The memory of a batch is used again for the next.
        self.arrivals.arena[:] = 0xAA
        events = [e for e in expected.events if not (isinstance(e, CellDelivered) and self.lands(e))]
        self.compare(expected, events, sent)

    def lands(self, event: CellDelivered) -> bool:
        """Whether a result is as its block expects; it must be in its place then, whenever it came."""
        place = self.places[event.cell]
        if place is None or len(event.payload or b"") != place[1]:
            return False
        address, length, swap = place
        if address and length:
            assert event.payload is not None
            if isinstance(swap, int):
                there = np.frombuffer(event.payload, np.uint8).reshape(-1, swap)[:, ::-1].tobytes()
            else:
                there = decoded(event.payload, *swap)
            assert ctypes.string_at(address, len(there)) == there
            self.landed.append((address, there))
        return True

    def elapse(self) -> None:
        """To the next timer, which runs, or a little."""
        due = self.reference.next_deadline()
        self.now = due if due is not None and self.rng.random() < 0.7 else self.now + 1e-5
        expected = self.reference.poll(self.now)
        sent: list[bytes] = []
        while (due := self.fast.next_deadline()) is not None and due <= self.now:
            self.fast.poll_batch(self.queue, self.now)
            sent += frames(self.fast, self.queue)
        self.compare(expected, expected.events, sent)

    def compare(self, expected: Output, events: list[Event], sent: list[bytes] | None = None) -> None:
        assert (frames(self.fast, self.queue) if sent is None else sent) == datagrams(expected)
        assert self.fast.take_events() == events
        assert self.fast.counters() == self.reference.counters()
        assert self.fast.next_deadline() == self.reference.next_deadline()
        for name in ("delivered", "outstanding"):
            assert getattr(self.fast, name) == getattr(self.reference, name)
        assert self.fast.room() == self.reference.room()
        first = max(0, self.fast.delivered - self.group.params.window)
        assert self.fast.kept() == self.cells[first:]


def test_blocks_are_as_their_cells() -> None:
    landed = 0
    for seed in range(RUNS):
        rng = random.Random(f"blocks {seed}")
        window = rng.choice([1, 2, 4, 8])
        couple = Couple(
            rng, window=window, slots=2 * window, icrc=rng.choice(["full", "full", "none"]), epoch=seed,
            ecn=rng.random() < 0.7, conflict_record=rng.random() < 0.7,
        )  # fmt: skip
        try:
            for _ in range(60):
                what = rng.random()
                if what < 0.45:
                    couple.submit()
                elif what < 0.85:
                    couple.arrive(rng.choice([1, 1, 2, 5, 20]))
                else:
                    couple.elapse()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
        for address, payload in couple.landed:
            assert ctypes.string_at(address, len(payload)) == payload, (
                "a later result went to the place of this one"
            )
        landed += len(couple.landed)
    assert landed > RUNS


# ---------------------------------------------------------------------- directed


SUM = 0xFFFF1001


def sum_block(values: np.ndarray[Any, Any], sink: np.ndarray[Any, Any], cells: int) -> Block:
    """INT32 in network order, both ways, in cells of equal length."""
    each = values.nbytes // cells
    return Block(SUM, cells, each, each, values.ctypes.data, 4, sink.ctypes.data, 4, expect=True)


def results(agent: FastAgent, *packets: tuple[int, int, bytes]) -> Arrivals:
    """Results (cell, descriptor, payload) that arrive in one batch."""
    edge = agent.group.edge
    arrivals = Arrivals(64, 1 << 14)
    arrivals.address = ip_number(edge.local.ip)
    for cell, imm, payload in packets:
        packet = Packet(
            Opcode.SEND_ONLY_IMM, edge.peer.ip, edge.local.ip, edge.local.qpn, edge.psn_rx + cell & 0xFFFFFF,
            payload, imm=imm, ackreq=True,
        )  # fmt: skip
        arrivals.append(codec.encode_datagram(packet), ip_number(edge.peer.ip), edge.port, UDP_PORT, 2)
    return arrivals


def give(agent: FastAgent, queue: Departures, *packets: tuple[int, int, bytes]) -> list[Event]:
    """Let results arrive in one batch; the events."""
    arrivals = results(agent, *packets)
    assert agent.receive_batch(arrivals, 0, queue, 0.0) == len(packets)
    arrivals.arena[:] = 0
    return agent.take_events()


def test_results_land_when_they_come_and_count_in_order() -> None:
    agent, queue = FastMode3Agent(rank_group()), departures(64)
    values, sink = np.arange(12, dtype=np.int32), np.zeros(12, np.int32)
    agent.submit_block(sum_block(values, sink, 3), queue, 0.0)
    total = (values * 10).astype(">i4").tobytes()
    assert give(agent, queue, (2, SUM, total[32:])) == []
    assert (agent.delivered, sink.tolist()) == (0, [0] * 8 + [80, 90, 100, 110])
    assert give(agent, queue, (0, SUM, total[:16]), (1, SUM, total[16:32])) == []
    assert (agent.delivered, sink.tolist()) == (3, (values * 10).tolist())


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("imm", "payload"), [(SUM | NULL_BIT, b""), (SUM, bytes(4)), (SUM, bytes(20))])
def test_a_result_of_another_length_is_an_event_and_lands_nowhere(
    early: bool, imm: int, payload: bytes
) -> None:
    agent, queue = FastMode3Agent(rank_group()), departures(64)
    values, sink = np.ones(8, np.int32), np.zeros(8, np.int32)
    agent.submit_block(sum_block(values, sink, 2), queue, 0.0)
    first, second = (0, SUM, bytes(range(16))), (1, imm, payload)
    events = give(agent, queue, *((second, first) if early else (first, second)))
    assert events == [CellDelivered(1, imm, payload or None)]
    assert sink[4:].tolist() == [0] * 4


def test_nothing_is_written_after_forget() -> None:
    agent, queue = FastMode3Agent(rank_group()), departures(64)
    values, sink = np.ones(8, np.int32), np.zeros(8, np.int32)
    agent.submit_block(sum_block(values, sink, 2), queue, 0.0)
    agent.forget()
    assert give(agent, queue, (0, SUM, bytes(range(16))), (1, SUM, bytes(range(16)))) == []
    assert (agent.delivered, sink.any()) == (2, False)


def feed(agent: FastAgent, queue: Departures, limit: int) -> int:
    """Contribute from the supply, as a loop does."""
    world = agent._world(queue)
    count = int(landing.feed(world.address, limit))
    if count > 0:
        agent._start(world, count, 0.0)
    return count


def test_a_supply_goes_out_as_window_and_limit_let_it_and_lands_as_a_block_does() -> None:
    agent, queue = FastMode3Agent(rank_group()), departures(64)
    values, sink = np.arange(23, dtype=np.int32), np.zeros(23, np.int32)
    block = Block(SUM, 6, 16, 12, values.ctypes.data, 4, sink.ctypes.data, 4, expect=True)
    assert agent.supply(block, queue)
    assert [feed(agent, queue, limit) for limit in (1, 0, 5)] == [1, 0, 3]
    assert (agent.room(), agent.outstanding) == (0, 4)
    total = (values * 10).astype(">i4").tobytes()
    cells = [total[i : i + 16] for i in range(0, len(total), 16)]
    for number, cell in enumerate(cells[:3]):
        assert give(agent, queue, (number, SUM, cell)) == []
    assert [feed(agent, queue, 9) for _ in range(2)] == [2, -1]
    for number, cell in enumerate(cells[3:], 3):
        assert give(agent, queue, (number, SUM, cell)) == []
    assert (agent.supplied(), agent.delivered, sink.tolist()) == (6, 6, (values * 10).tolist())
    assert [c.payload for c in agent.kept()] == [
        values.astype(">i4").tobytes()[i : i + 16] for i in range(32, 92, 16)
    ]
    # It is over.
    assert feed(agent, queue, 9) == -1
    assert agent.supplied() == 0


def test_a_supply_ends_when_all_is_forgotten_and_is_refused_as_a_block_is() -> None:
    agent, queue = FastMode3Agent(rank_group()), departures(64)
    values, sink = np.ones(16, np.int32), np.zeros(16, np.int32)
    block = sum_block(values, sink, 4)
    assert agent.supply(block, queue)
    assert feed(agent, queue, 1) == 1
    agent.forget()
    assert feed(agent, queue, 1) == -1
    assert agent.supplied() == 1
    assert not agent.supply(block._replace(cell_bytes=68, last_bytes=68), queue)
    with pytest.raises(ValueError, match="NULL exactly without a source"):
        agent.supply(block._replace(source=0), queue)
    assert feed(agent, queue, 1) == -1


def test_more_than_fits_is_refused_and_changes_nothing() -> None:
    agent, queue = FastMode3Agent(rank_group()), departures(6)
    values, sink = np.ones(80, np.int32), np.zeros(80, np.int32)
    with pytest.raises(ValueError, match="submit: 5 cells, expected at most 4"):
        agent.submit_block(sum_block(values, sink, 5), queue, 0.0)
    with pytest.raises(ValueError, match="cells of 160 bytes, expected at most 64"):
        agent.submit_block(sum_block(values, sink, 2), queue, 0.0)
    queue.count[0] = 5
    with pytest.raises(
        ValueError, match="submit: 2 cells, expected at most 1, for departures have no more room"
    ):
        agent.submit_cells([Cell(SUM, bytes(4))] * 2, queue, 0.0)
    queue.clear()
    assert (agent.outstanding, agent.kept(), queue.count[0]) == (0, [], 0)


CODING = Both.of(Datatype.FP64, np.zeros(4), 2, "big").fixed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": 0}, "block of 0 cells"),
        ({"last_bytes": 17}, "the last no longer"),
        ({"source": 0}, "expected NULL exactly without a source"),
        ({"imm": SUM | NULL_BIT}, "expected NULL exactly without a source"),
        ({"swap": 3}, "swap = 3, expected 1, 2, 4 or 8"),
        ({"sink_swap": 8, "last_bytes": 4}, "sink_swap = 8, expected 1, 2, 4 or 8, dividing"),
        ({"expect": False}, "block with a sink, expected `expect` with it"),
        ({"coding": CODING, "swap": 4}, "block with a coding: swap = 4, sink_swap = 1, element = 0"),
        (
            {"coding": CODING, "element": -1},
            "swap = 1, sink_swap = 1, element = -1, expected 1, 1 and 0 or more",
        ),
        ({"coding": CODING, "last_bytes": 12}, "the last of 12, expected whole elements of 8 bytes"),
    ],
)
def test_blocks_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {
        "imm": SUM, "cells": 2, "cell_bytes": 16, "last_bytes": 16, "source": 4096, "sink": 4096, "expect": True,
    }  # fmt: skip
    agent, queue = FastMode3Agent(rank_group()), departures(6)
    Block(**values).check()
    with pytest.raises(ValueError, match=message):
        agent.submit_block(Block(**(values | changes)), queue, 0.0)
    assert (agent.outstanding, queue.count[0]) == (0, 0)


def test_longer_cells_than_a_group_has_are_kept_too() -> None:
    """No plan makes them, but `submit` takes what the reference takes."""
    group = rank_group(window=1, slots=2)
    agent, reference = FastMode3Agent(group), Mode3Agent(group)
    for n, length in enumerate((200, 8, 300, 64)):
        cell = Cell(SUM, bytes([n]) * length)
        assert agent.submit([cell], 0.0).sends == reference.submit([cell], 0.0).sends
        result = Packet(
            Opcode.SEND_ONLY_IMM, group.edge.peer.ip, group.edge.local.ip, group.edge.local.qpn,
            group.edge.psn_rx + n & 0xFFFFFF, cell.payload or b"", imm=SUM & AGREEMENT_MASK,
            src_mac=group.edge.peer.mac, dst_mac=group.edge.local.mac,
        )  # fmt: skip
        assert agent.receive(group.edge.port, result, 0.0) == reference.receive(group.edge.port, result, 0.0)
        assert agent.kept()[-1] == cell
    assert len(agent._long) <= 2
