"""Modes I and II: a responder takes packets in order only, and says what it has. Cells are single packets here."""

from __future__ import annotations

import random
from collections.abc import Sequence

from epic_spec.packets import Packet
from epic_spec.tables import Opcode
from epic_testbed.conformance.bench import Bench, Peer
from epic_testbed.conformance.case import case
from epic_testbed.conformance.rc import (
    SEQUENCE,
    expect_acknowledged,
    expect_answers,
    expect_received,
    expect_repeated,
    no_timers,
    prepare,
    send_packet,
)

RC = (1, 2)


def prepared(bench: Bench, peer: Peer, values: Sequence[int]) -> list[Packet]:
    """One packet a cell, from cell 0 on; not sent yet."""
    return [prepare(bench, peer, cell, (value,))[0] for cell, value in enumerate(values)]


@case("EPIC-M1-01", "EPIC-M2-01", modes=RC)
def an_early_contribution_is_not_taken(bench: Bench) -> None:
    """W = 4. Child 1 contributes cells 0 to 2. Of child 0's contributions 1 and 2 arrive before 0: after 0 only
    cell 0 has a result. When 1 and 2 are sent again, each has its own.
    """
    group = bench.install(window=4, **no_timers())
    early = prepared(bench, group.children[0], (100, 1, 2))
    for cell in range(3):
        bench.contribute(1, cell, (10 * cell,))
    for cell in (1, 2):
        bench.send(group.children[0], early[cell])
    bench.expect_silence()
    bench.send(group.children[0], early[0])
    bench.expect_result(0, (100,))
    bench.expect_silence()
    for cell in (1, 2):
        bench.send(group.children[0], early[cell])
        bench.expect_result(cell, (11 * cell,))
    bench.expect_counter({"rx_contribution": 6, "cells_completed": 3})


@case("EPIC-M1-03", "EPIC-M2-02", "EPIC-E-14", modes=RC)
def an_older_contribution_is_acknowledged_again(bench: Bench) -> None:
    """W = 4. Child 0 has contributed cells 0 to 2 and lost the ACKs: it sends 0 again, then 1, then 2. Each is
    answered with an ACK of 2 and not counted again. After the cells completed it is the same.
    """
    child = bench.install(window=4, **no_timers()).children[0]
    for cell in range(3):
        bench.contribute(0, cell, (cell + 1,))
    expect_acknowledged(bench, child, 2)
    for cell in range(3):
        bench.contribute(0, cell, (cell + 1,))
        expect_acknowledged(bench, child, 2)
    bench.expect_counter({"rx_contribution": 3, "rx_duplicate": 3})
    for cell in range(3):
        bench.contribute(1, cell, (5,))
        bench.expect_result(cell, (cell + 6,))
    bench.contribute(0, 1, (2,))
    expect_acknowledged(bench, child, 2)
    bench.expect_silence()
    bench.expect_counter({"rx_contribution": 6})


@case("EPIC-M1-03", "EPIC-M2-02", "EPIC-W-15", modes=RC)
def a_packet_from_before_the_base(bench: Bench) -> None:
    """Nothing was accepted yet. A packet whose PSN is one before the base is an older one: it is answered with an
    ACK of base - 1 and not counted; the first contribution is then taken.
    """
    child = bench.install(**no_timers()).children[0]
    send_packet(bench, child, Opcode.SEND_ONLY_IMM, -1, bytes(4))
    expect_acknowledged(bench, child, -1)
    bench.contribute_all(0, [(1,), (2,)])
    bench.expect_result(0, (3,))
    bench.expect_counter({"rx_contribution": 2})


@case("EPIC-M1-04", "EPIC-M2-03", modes=RC)
def one_nak_a_gap(bench: Bench) -> None:
    """W = 8. Contributions 1, 2, 3 of child 0 arrive without 0, and 1 once more: one NAK names 0, and no more is
    said. 0 arrives; then 2 and 3 without 1: one NAK names 1. Then 1, 2 and 3 are sent and are all acknowledged.
    """
    group = bench.install(window=8, **no_timers())
    child = group.children[0]
    packets = prepared(bench, child, (1, 2, 3, 4))
    for number in (1, 2, 3, 1):
        bench.send(child, packets[number])
    expect_answers(bench, child, [(SEQUENCE, 0)], newest=-1)
    bench.send(child, packets[0])
    expect_acknowledged(bench, child, 0)
    for number in (2, 3):
        bench.send(child, packets[number])
    expect_answers(bench, child, [(SEQUENCE, 1)], newest=0)
    for number in (1, 2, 3):
        bench.send(child, packets[number])
    expect_acknowledged(bench, child, 3)
    for cell in range(4):
        bench.contribute(1, cell, (10,))
        bench.expect_result(cell, (cell + 11,))


@case("EPIC-M1-04", "EPIC-M2-03", "EPIC-M1-03", "EPIC-M2-02", modes=RC)
def an_older_packet_within_a_gap(bench: Bench) -> None:
    """W = 4. 0 was accepted, 2 was answered with a NAK that names 1. 0 comes again: it is acknowledged as an older
    packet and does not end the gap, so 2 and 3 are not answered with another NAK.
    """
    group = bench.install(window=4, **no_timers())
    child = group.children[0]
    packets = prepared(bench, child, (1, 2, 3, 4))
    bench.send(child, packets[0])
    bench.send(child, packets[2])
    expect_answers(bench, child, [(SEQUENCE, 1)], newest=0)
    bench.send(child, packets[0])
    expect_acknowledged(bench, child, 0)
    for number in (2, 3):
        bench.send(child, packets[number])
    expect_answers(bench, child, [], newest=0)


@case("EPIC-M1-08", "EPIC-M2-04", modes=RC)
def every_accepted_contribution_is_acknowledged(bench: Bench) -> None:
    """W = 4. Child 0 contributes a window of cells one by one and child 1 none: each contribution is acknowledged,
    though no cell is complete, and none before it was sent. So is each of child 1's, which completes a cell.
    """
    group = bench.install(window=4, **no_timers())
    for child in group.children:
        for cell in range(group.params.window):
            bench.contribute(group.children.index(child), cell, (cell,))
            expect_acknowledged(bench, child, cell)
    for cell in range(group.params.window):
        bench.expect_result(cell, (2 * cell,))


@case("EPIC-M1-01", "EPIC-M1-04", "EPIC-M1-03", "EPIC-M2-01", "EPIC-M2-03", "EPIC-M2-02", modes=RC)
def results_from_the_parent_keep_the_same_order(bench: Bench) -> None:
    """Below a parent, W = 4; cells 0 to 2 are complete. The parent's results 1 and 2 arrive without 0: one NAK
    names 0, no child gets anything. 0, 1 and 2 arrive: all are passed on and acknowledged. 0 comes again: ACK of 2,
    and nothing goes to the children.
    """
    group = bench.install(inner=True, window=4, **no_timers())
    parent = group.parent
    assert parent is not None
    for cell in range(3):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_partial(cell, (cell + 1,))
    bench.settle()
    results = prepared(bench, parent, (50, 60, 70))
    for number in (1, 2):
        bench.send(parent, results[number])
    expect_answers(bench, parent, [(SEQUENCE, 0)], newest=-1)
    bench.expect_silence()
    for cell, value in enumerate((50, 60, 70)):
        bench.send(parent, results[cell])
        bench.expect_result(cell, (value,))
        expect_acknowledged(bench, parent, cell)
    bench.send(parent, results[0])
    expect_acknowledged(bench, parent, 2)
    bench.expect_silence()
    bench.expect_counter({"rx_result": 3, "tx_result": 6})


@case("EPIC-E-14", "EPIC-M1-01", "EPIC-M2-01", modes=RC)
def shuffled_and_duplicated_windows(bench: Bench) -> None:
    """W = 4, three windows. The packets of a window reach the engine in random order and some of them twice, again
    and again until all were taken. Every sum is exact and every contribution counted once.
    """
    group = bench.install(window=4, **no_timers())
    rng, window = random.Random(bench.seed), group.params.window
    values = [[rng.randrange(-(1 << 29), 1 << 29) for _ in range(3 * window)] for _ in group.children]
    packets = [prepared(bench, peer, own) for peer, own in zip(group.children, values, strict=True)]
    for first in range(0, 3 * window, window):
        # In the worst order each pass takes one packet more of each child.
        for _ in range(window):
            burst = [(child, first + i) for child in (0, 1) for i in range(window)]
            burst += rng.choices(burst, k=3)
            rng.shuffle(burst)
            for child, number in burst:
                bench.send(group.children[child], packets[child][number])
        for cell in range(first, first + window):
            bench.expect_result(cell, (values[0][cell] + values[1][cell],))
        bench.settle()
    bench.expect_counter(
        {"rx_contribution": 6 * window, "cells_completed": 3 * window, "tx_result": 6 * window}
    )


@case("EPIC-W-15", "EPIC-W-16", modes=RC)
def packet_numbers_wrap(bench: Bench) -> None:
    """Below a parent, W = 4, all PSN bases a few before 2^24. Over four windows each packet of child 0 is sent
    again after the next one, and comes with a gap before it: older ones are acknowledged, gaps answered with a NAK
    of the right PSN, partials and results numbered on through 0, and what is acknowledged is not sent twice.
    """
    group = bench.install(inner=True, window=4, base=(1 << 24) - 6, **no_timers())
    parent, child = group.parent, group.children[0]
    assert parent is not None
    last = 4 * group.params.window
    packets = prepared(bench, child, range(last + 1))
    for cell in range(last):
        bench.contribute(1, cell, (1000,))
        bench.send(child, packets[cell + 1])
        expect_answers(bench, child, [(SEQUENCE, cell)], newest=cell - 1)
        bench.send(child, packets[cell])
        expect_acknowledged(bench, child, cell)
        bench.expect_partial(cell, (cell + 1000,))
        bench.send(child, packets[max(cell - 1, 0)])
        expect_acknowledged(bench, child, cell)
        bench.result_from_parent(cell, (-cell,))
        bench.expect_result(cell, (-cell,))
        expect_acknowledged(bench, parent, cell)
    for peer in group.peers():
        expect_received(bench, peer, range(last))


@case("EPIC-W-15", "EPIC-M1-09", "EPIC-M2-05", modes=RC)
def acknowledgements_wrap(bench: Bench) -> None:
    """W = 8, PSN bases a few before 2^24. Results 0 to 5 are sent; child 1 acknowledges none. Its NAK of packet 3,
    whose PSN is behind the wrap, has 3 to 5 repeated and takes the others, before the wrap, as acknowledged.
    """
    group = bench.install(window=8, base=(1 << 24) - 6, **no_timers())
    slow = group.children[1]
    slow.acknowledge = False
    for cell in range(6):
        bench.contribute_all(cell, [(cell,), (1,)])
        bench.expect_result(cell, (cell + 1,))
    for number in (3, 4, 5):
        bench.nak(slow, number)
        expect_repeated(bench, slow, range(number, 6))
    bench.acknowledge(slow, 5)
