"""`epic top`: rates between two looks, and what of them a person and a program are shown."""

from __future__ import annotations

import io

from rich.console import Console

from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.top import Look, Rates, as_json_value, rows, screen


def look(
    at: float,
    payload: int = 0,
    delivered: int = 0,
    again: int = 0,
    state: str = "active",
    silent: float = 0.5,
) -> Look:
    members = [
        pb.MemberState(
            rank=rank,
            state="joined",
            delivered=delivered,
            payload_bytes=payload,
            retransmissions=again,
            silent=silent,
        )
        for rank in (0, 1)
    ]
    shares = [pb.EngineShare(engine="s0", slots=64, slot_bytes=1 << 16)]
    group = pb.GroupState(
        group="g",
        state=state,
        path="network",
        reason="granted",
        mode=3,
        window=64,
        members=members,
        shares=shares,
    )
    engines = [
        pb.EngineState(
            name="s0", state="up", slot_bytes=1 << 20, slot_bytes_used=1 << 18, groups=64, groups_used=1
        )
    ]
    links = [pb.LinkState(name="h0-s0", state="held"), pb.LinkState(name="h1-s0", state="up")]
    return Look(at, (group,), pb.Topology(engines=engines, links=links))


def seen(*looks: Look) -> Rates:
    rates = Rates()
    for one in looks:
        rates.see(one)
    return rates


FIRST = look(10.0, delivered=100, again=5)
# 250 MB of each rank in 2 s.
SECOND = look(12.0, payload=250_000_000, delivered=300, again=9)


def test_rates_are_those_between_two_signs_of_life() -> None:
    (row,) = rows(SECOND, seen(FIRST, SECOND))
    assert row.gbps == 1.0
    assert row.cells_per_second == 100.0
    assert (row.retransmissions, row.retransmissions_per_second) == (18, 4.0)
    assert (row.slots, row.slot_bytes, row.joined, row.ranks) == (64, 1 << 16, 2, 2)


def test_a_look_without_a_new_sign_of_life_changes_no_rate() -> None:
    """Ranks are heard every few seconds; that they have said nothing since is no rate of 0."""
    again = look(13.0, payload=250_000_000, delivered=300, again=9, silent=1.5)
    (row,) = rows(again, seen(FIRST, SECOND, again))
    assert (row.gbps, row.cells_per_second) == (1.0, 100.0)
    quiet = look(11.0, delivered=100, again=5, silent=1.5)
    assert rows(quiet, seen(FIRST, quiet))[0].gbps is None


def test_ranks_that_do_nothing_have_a_rate_of_nothing() -> None:
    idle = look(12.0, delivered=100, again=5)
    (row,) = rows(idle, seen(FIRST, idle))
    assert (row.gbps, row.cells_per_second) == (0.0, 0.0)


def test_the_first_look_has_no_rates() -> None:
    (row,) = rows(FIRST, seen(FIRST))
    assert (row.gbps, row.cells_per_second, row.retransmissions_per_second) == (None, None, None)


def test_a_member_that_counts_anew_gives_no_rate() -> None:
    anew = look(14.0, payload=1, delivered=5)
    assert rows(anew, seen(FIRST, SECOND, anew))[0].gbps is None


def test_a_group_that_is_gone_is_forgotten() -> None:
    rates = seen(FIRST, SECOND, Look(13.0, (), pb.Topology()))
    assert (rates._beats, rates._rates) == ({}, {})


def test_ranks_more_than_a_window_behind_are_late() -> None:
    there = look(1.0, delivered=10)
    there.groups[0].members[0].delivered = 75
    assert rows(there, seen(there))[0].late == 1
    there.groups[0].members[0].delivered = 74
    assert rows(there, seen(there))[0].late == 0


def test_groups_that_ended_are_not_shown() -> None:
    there = look(1.0, state="ended")
    assert rows(there, seen(there)) == []


def test_the_screen_has_groups_engines_and_links_that_are_not_well() -> None:
    out = io.StringIO()
    Console(width=160, file=out).print(screen(SECOND, seen(FIRST, SECOND)))
    text = out.getvalue()
    for part in ("g ", "network", "granted", "1.000", "262144/1048576", "links 1/2 (not: h0-s0)"):
        assert part in text


def test_programs_get_the_same() -> None:
    value = as_json_value(SECOND, seen(FIRST, SECOND))
    assert value["groups"][0]["gbps"] == 1.0
    assert value["engines"][0]["slot_bytes_used"] == 1 << 18
    assert value["links"][0] == {"link": "h0-s0", "state": "held"}
