"""The manager's core in virtual time: forming, leases, failover, upgrade, turns, shrinking, and what it says of it
all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from epic_host.fabric.decision import PREFIX
from epic_host.manager.effects import Lost, Prepare, Verdict
from epic_host.manager.errors import NoResourceError, NotAllowedError, RefusedError
from epic_host.manager.leases import Beat
from epic_host.manager.placing import restricted
from epic_host.manager.settings import Settings
from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.errors import ConfigError, ResourceError
from host.manager.core_world import (
    OFFER,
    Faults,
    SimMember,
    World,
    distinct_qpns,
    make_fabric,
    request,
)


def reasons(world: World, group: str = "g") -> list[str]:
    return [f"{d.path.value}/{d.reason.value}" for d in world.decisions if d.group == group]


def leave_all(world: World, members: list[SimMember]) -> None:
    for member in members:
        if member.running:
            world.leave(member)


def refused(call: Any, reason: str) -> str:
    with pytest.raises(RefusedError) as caught:
        call()
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)
    return str(caught.value)


def lasting(world: World) -> Any:
    """The core; raises what it raises."""
    assert world.core is not None
    return world.core


# ------------------------------------------------------------------------------------------------ forming


def test_a_group_whose_ranks_have_all_joined_is_on_the_network_and_all_have_the_same_grant() -> None:
    world = World(make_fabric("tree"))
    members = world.start_group("h0", "h1", "h2", "h3")
    world.run(1.0)
    assert (world.group("g").state, world.group("g").path) == ("active", "network")
    grants = {member.grant.epoch for member in members if member.grant}
    assert grants == {1}
    assert members[0].grant == members[3].grant
    grant = members[0].grant
    assert grant is not None
    tree = grant.trees[0]
    assert {rank.edge.local.ip for rank in tree.ranks.values()} == {
        m.joined.address for m in members if m.joined
    }
    for name, entry in tree.engines.items():
        assert world.engines[name].entries().keys() == {(entry.params.group, 1)}


def test_ranks_that_do_not_join_in_time_are_named_and_the_others_may_shrink() -> None:
    world = World()
    name, token = world.create(request("h0", "h1", "h2"))  # type: ignore[misc]
    here = [world.spawn(name, rank, token) for rank in (0, 2)]
    world.run(2.5)
    assert [member.ended for member in here] == ["members_missing"] * 2
    assert world.group("g").text == "ranks 1 on h1 have not joined within 2 s"
    shrunk = [
        lasting(world).shrink("g", m.rank, m.joined.token, now=world.now)
        for m in here
        if m.joined is not None
    ]
    assert [(s.group, s.rank, s.survivors) for s in shrunk] == [("g~1", 0, (0, 2)), ("g~1", 1, (0, 2))]


def test_a_process_that_joins_again_gets_the_same_answer_and_another_one_is_refused_while_it_lives() -> None:
    world = World()
    core = lasting(world)
    name, token = core.create_group(request("h0", "h1"), now=0.0)
    first = core.join(name, 0, token, "a", now=0.1)
    assert core.join(name, 0, token, "a", now=0.2) == first
    refused(lambda: core.join(name, 0, token, "b", now=0.3), "exists")
    refused(lambda: core.join(name, 0, "0" * 32, "a", now=0.3), "who")
    refused(lambda: core.join(name, 7, token, "a", now=0.3), "invalid")
    refused(lambda: core.join("other", 0, token, "a", now=0.3), "not_found")


def test_a_process_that_dies_before_its_group_began_may_be_replaced() -> None:
    world = World()
    name, token = world.create(request("h0", "h1", lease=1.0, deadline=6.0))  # type: ignore[misc]
    first = world.spawn(name, 0, token)
    world.run(0.2)
    first.alive = False
    world.run(1.5)
    members = [world.spawn(name, rank, token) for rank in (0, 1)]
    world.run(1.0)
    assert [m.epoch for m in members] == [1, 1]


def test_the_same_request_again_gives_the_same_group_also_after_a_restart() -> None:
    world = World()
    first = world.create(request("h0", "h1", name=""), request_id="r1")
    world.kill_manager()
    world.run(0.5)
    assert world.create(request("h0", "h1", name=""), request_id="r1") == first
    refused(
        lambda: lasting(world).create_group(request("h0", name=""), request_id="r1", now=world.now), "exists"
    )
    refused(lambda: lasting(world).create_group(request("h0", name=first[0]), now=world.now), "exists")  # type: ignore[index]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": ("h9",)}, "host 'h9' is not of the fabric"),
        ({"hosts": ()}, "0 hosts, expected 1 to 65535"),
        ({"name": "a b"}, "name = 'a b', expected letters"),
        ({"path": "fast"}, "path = 'fast', expected one of auto, prefer_network, network, host"),
        ({"policy": "fair"}, "policy = 'fair', expected one of best_effort"),
        ({"lease": 0.0}, "lease = 0.0, expected 0.1 to 3600 seconds"),
        ({"deadline": float("nan")}, "deadline = nan, expected 0.1 to 3600 seconds"),
        ({"modes": (4,)}, "mode 4, expected 1, 2 or 3"),
        ({"datatypes": ("INT3",)}, "datatypes has 'INT3', expected some of"),
        ({"trees": 0}, "trees = 0, expected 1 to 64"),
        ({"byte_order": "middle"}, "byte_order = 'middle', expected big or little"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_and_nothing_is_kept(change: Any, message: str) -> None:
    world = World()
    what = replace(request("h0", "h1"), **change)
    assert message in refused(lambda: lasting(world).create_group(what, now=0.0), "invalid")
    assert not world.book.groups


# -------------------------------------------------------------------------------------------------- leases


def test_a_silent_rank_is_lost_within_its_lease_and_all_it_held_is_free_at_once() -> None:
    world = World()
    members = world.start_group("h0", "h1", "h2")
    world.run(2.0)
    died, members[1].alive = world.now, False
    took = world.until(lambda: members[0].lost == (1,) and members[2].lost == (1,), 4.0, "Lost")
    assert took <= 3.0 + 0.1
    freed = world.until(lambda: not world.engines["s0"].entries() and not world.book.installs, 1.0, "freed")
    assert world.now - died <= 3.0 + 0.2
    assert freed <= 0.1
    assert reasons(world)[-1] == "none/rank_lost"
    assert world.group("g").text == "rank 1 not heard for 3 s"


def test_all_ranks_of_a_dead_host_are_lost_together() -> None:
    world = World()
    members = world.start_group("h0", "h1", "h1", "h2")
    world.run(2.0)
    for rank in (1, 2):
        members[rank].alive = False
    world.run(4.0)
    lost = [event for event in world.events if isinstance(event, Lost)]
    assert sorted({rank for event in lost for rank in event.ranks}) == [1, 2]
    assert members[0].lost == (1, 2)


def test_survivors_become_one_new_group_and_all_get_the_same_answer() -> None:
    world = World()
    members = world.start_group("h0", "h1", "h2")
    world.run(2.0)
    members[1].alive = False
    world.until(lambda: bool(members[0].lost and members[2].lost), 4.0, "Lost")
    core = lasting(world)
    first = core.shrink("g", 0, members[0].joined.token, now=world.now)  # type: ignore[union-attr]
    world.kill_manager(0.0)
    world.run(0.1)
    core = lasting(world)
    again = core.shrink("g", 0, members[0].joined.token, now=world.now)  # type: ignore[union-attr]
    other = core.shrink("g", 2, members[2].joined.token, now=world.now)  # type: ignore[union-attr]
    assert first == again
    assert (other.group, other.join_token, other.survivors) == (first.group, first.join_token, (0, 2))
    assert (first.rank, other.rank, first.world_size) == (0, 1, 2)
    new = [world.spawn(first.group, rank, first.join_token) for rank in (0, 1)]
    world.run(1.0)
    assert world.group(first.group).path == "network"
    assert [m.epoch for m in new] == [1, 1]
    refused(lambda: core.shrink("g", 1, "x" * 32, now=world.now), "who")


def test_a_lost_rank_is_told_so_and_may_not_shrink() -> None:
    world = World()
    members = world.start_group("h0", "h1")
    world.run(2.0)
    members[1].alive = False
    world.run(4.0)
    token = members[1].joined.token  # type: ignore[union-attr]
    assert "rank 1 is lost" in refused(lambda: lasting(world).shrink("g", 1, token, now=world.now), "state")
    answer = lasting(world).heartbeat("", [Beat("g", 1, token)], now=world.now)
    assert [notice.what for notice in answer.notices] == ["gone"]
    refused(lambda: lasting(world).shrink("g", 0, token, now=world.now), "who")


def test_leases_begin_anew_when_the_manager_does_so_running_groups_outlive_it() -> None:
    world = World()
    members = world.start_group("h0", "h1")
    world.run(2.0)
    world.kill_manager(10.0)
    world.run(12.0)
    assert [m.epoch for m in members] == [1, 1]
    assert all(m.running for m in members)
    assert world.engines["s0"].entries()


def test_a_manager_that_did_not_run_for_a_while_does_not_count_that_against_members() -> None:
    world = World()
    members = world.start_group("h0", "h1", lease=1.0)
    core = lasting(world)
    core.register_node("h0", 0, "1", now=world.now)
    world.run(2.0)
    # Nothing is read for long; then, of all things, its own timers come first.
    world.now += 12.0
    core.poll(world.now)
    world._after()
    world.run(1.0)
    assert [(m.epoch, m.running) for m in members] == [(1, True)] * 2
    assert core.topology(world.now).hosts[0].state == "up"
    members[1].alive = False
    assert world.until(lambda: members[0].lost == (1,), 3.0, "Lost") < 1.5


def test_a_group_ends_when_all_have_left_and_a_new_one_has_its_name() -> None:
    world = World()
    members = world.start_group("h0", "h1")
    world.run(1.0)
    leave_all(world, members)
    world.run(0.2)
    assert world.group("g").state == "ended"
    again = world.start_group("h0", "h1")
    world.run(1.0)
    assert [m.epoch for m in again] == [1, 1]
    leave_all(world, again)
    world.run(7.0)
    world.check_nothing_left()


def test_a_group_is_destroyed_by_its_join_token_a_member_or_an_admin_and_by_nobody_else() -> None:
    world = World()
    core = lasting(world)
    for way in ("join", "member", "admin"):
        name, token = core.create_group(request("h0", "h1", name=way), job="mine", now=world.now)
        joined = core.join(name, 0, token, "a", job="mine", now=world.now)
        refused(lambda name=name: core.destroy(name, "x" * 32, job="mine", now=world.now), "who")
        refused(
            lambda name=name, token=token: core.destroy(name, token, job="yours", now=world.now), "not_yours"
        )
        shown = {"join": token, "member": joined.token, "admin": ""}[way]
        core.destroy(name, shown, job="" if way == "admin" else "mine", admin=way == "admin", now=world.now)
        assert world.group(name).state == "ended"


def test_one_job_cannot_touch_anothers_group() -> None:
    world = World()
    core = lasting(world)
    name, token = core.create_group(request("h0", "h1"), job="mine", now=0.0)
    joined = core.join(name, 0, token, "a", job="mine", now=0.1)
    for call in (
        lambda: core.join(name, 1, token, "b", job="yours", now=0.2),
        lambda: core.report_epoch(name, 0, joined.token, 1, 0, job="yours", now=0.2),
        lambda: core.report_fault(name, 0, joined.token, 1, 0, "", "", job="yours", now=0.2),
        lambda: core.leave(name, 0, joined.token, job="yours", now=0.2),
        lambda: core.shrink(name, 0, joined.token, job="yours", now=0.2),
        lambda: core.watch(name, 0, joined.token, job="yours", now=0.2),
        lambda: core.explain(name, 0.2, job="yours"),
    ):
        with pytest.raises(NotAllowedError):
            call()
    beats = core.heartbeat("", [Beat(name, 0, joined.token)], job="yours", now=0.2)
    assert [notice.what for notice in beats.notices] == ["gone"]
    assert core.groups(0.2, job="yours") == []


# ------------------------------------------------------------------------------------------------ failover


def test_a_lost_engine_means_a_new_epoch_on_another_tree_that_goes_on_where_all_are() -> None:
    world = World(make_fabric("spine"))
    members = world.start_group("h0", "h1", "h2", "h3")
    world.run(4.0)
    root = members[0].grant.trees[0].root  # type: ignore[union-attr]
    before = [m.delivered for m in members]
    world.crash_engine(root, down=-1)
    took = world.until(lambda: all(m.epoch == 2 for m in members), 3.0, "epoch 2")
    assert took < 1.0
    grant = members[0].grant
    assert grant is not None
    assert grant.trees[0].root != root
    assert min(before) <= grant.resume <= min(m.delivered for m in members)
    assert all(distinct_qpns(m.history) for m in members)
    assert reasons(world) == ["network/granted", "none/engine_lost", "network/granted"]


def test_the_hosts_take_over_when_no_tree_is_left_and_the_network_when_there_is_one_again() -> None:
    world = World()
    members = world.start_group("h0", "h1", "h2")
    world.run(2.0)
    world.crash_engine("s0", down=5.0)
    world.until(lambda: all(m.epoch == 2 for m in members), 3.0, "epoch 2")
    assert members[0].grant.host is not None  # type: ignore[union-attr]
    world.until(lambda: all(m.epoch == 3 for m in members), 10.0, "epoch 3")
    assert members[0].grant.trees  # type: ignore[union-attr]
    assert reasons(world) == [
        "network/granted",
        "none/engine_lost",
        "host/engine_lost",
        "none/upgraded",
        "network/upgraded",
    ]


def test_an_engine_that_hangs_is_given_up_within_the_stated_time() -> None:
    world = World()
    members = world.start_group("h0", "h1")
    world.run(2.0)
    world.engines["s0"].hung = True
    settings = world.settings
    bound = settings.probe_interval + settings.lost_after * settings.call_timeout + settings.retry_interval
    took = world.until(lambda: all(m.epoch == 2 for m in members), 5.0, "epoch 2")
    assert took <= bound + 0.2


def test_an_engine_that_restarted_between_two_looks_has_lost_its_groups() -> None:
    world = World()
    members = world.start_group("h0", "h1")
    world.run(2.0)
    world.crash_engine("s0", down=0.0)
    world.until(lambda: all(m.epoch >= 2 for m in members), 2.0, "epoch 2")
    assert "was started again" in next(d.text for d in world.decisions if d.reason.value == "engine_lost")


def test_an_engine_that_refuses_is_not_asked_again_at_once() -> None:
    world = World(make_fabric("spine"))
    world.run(0.5)
    world.engines["p0"].refuses = ConfigError
    world.engines["p1"].refuses = ResourceError
    members = world.start_group("h0", "h3")
    world.run(2.0)
    assert [m.epoch for m in members] == [1, 1]
    assert members[0].grant.host is not None  # type: ignore[union-attr]
    assert reasons(world).count("none/install_failed") == 2
    world.engines["p0"].refuses = None
    world.until(lambda: all(m.epoch == 2 for m in members), 15.0, "the network")
    assert members[0].grant.trees[0].root == "p0"  # type: ignore[union-attr]


def test_a_rank_that_beats_but_does_not_report_is_lost_within_the_deadline() -> None:
    world = World()
    members = world.start_group("h0", "h1", "h2")
    world.run(2.0)
    deaf = members[2]
    deaf.hear = lambda event: None  # type: ignore[method-assign]
    world.crash_engine("s0", down=-1)
    world.until(lambda: members[0].lost == (2,), 4.0, "Lost")
    assert "ranks 2 have not reported for epoch 2 within 3 s" in world.group("g").text


def test_a_rank_that_left_cannot_repeat_its_contributions() -> None:
    world = World()
    members = world.start_group("h0", "h1", "h2")
    world.run(2.0)
    world.leave(members[0])
    world.crash_engine("s0", down=-1)
    world.until(lambda: members[1].lost == (0,), 2.0, "Lost")
    assert "rank 0 had left" in world.group("g").text


def test_the_grant_of_a_rank_has_nothing_of_others() -> None:
    world = World(make_fabric("tree"))
    members = world.start_group("h0", "h1", "h2", "h3")
    world.run(1.0)
    mine = restricted(members[2].grant, 2)  # type: ignore[arg-type]
    assert mine.trees[0].ranks.keys() == {2}
    assert (mine.trees[0].engines, mine.trees[0].control) == ({}, {})
    world.engines["s0"].refuses = ConfigError
    world.start_group("h0", "h1", "h2", name="host", path="host")
    world.run(1.0)
    grant = next(m.grant for m in world.members.values() if m.group == "host")
    assert grant is not None
    assert restricted(grant, 1).host.edges.keys() == {1}  # type: ignore[union-attr]


# ---------------------------------------------------------------------------------- sharing, and policies


def test_a_group_that_finds_no_slots_uses_its_hosts_and_moves_onto_the_network_when_some_are_free() -> None:
    world = World(make_fabric(shares=2))
    groups = [world.start_group("h0", "h1", "h2", name=f"g{i}") for i in range(3)]
    world.run(2.0)
    assert [world.group(f"g{i}").path for i in range(3)] == ["network", "network", "host"]
    assert reasons(world, "g2") == ["host/no_slots"]
    leave_all(world, groups[0])
    took = world.until(lambda: all(m.epoch == 2 for m in groups[2]), 3.0, "upgrade")
    assert took < 1.0
    assert world.group("g2").path == "network"
    assert reasons(world, "g2") == ["host/no_slots", "none/upgraded", "network/upgraded"]


def test_groups_take_turns_under_the_temporal_policy() -> None:
    world = World(make_fabric(shares=1), policy="temporal")
    for i in range(3):
        world.start_group("h0", "h1", name=f"g{i}")
    turns: set[str] = set()
    for _ in range(200):
        world.run(0.1)
        active = [g for g in world.book.groups.values() if (g.state, g.path) == ("active", "network")]
        assert len(active) <= 1
        turns |= {g.name for g in active}
    assert turns == {"g0", "g1", "g2"}
    assert all(m.running for m in world.members.values())
    assert "host/turn_over" in reasons(world, "g0")


def test_a_group_that_takes_nothing_but_the_network_is_refused_at_once_where_it_cannot_be_had() -> None:
    world = World(make_fabric(shares=1))
    world.start_group("h0", "h1")
    world.run(1.0)
    with pytest.raises(NoResourceError, match="no_slots"):
        lasting(world).create_group(request("h0", "h1", name="n", path="network"), now=world.now)
    assert world.group("n") is None
    with pytest.raises(NoResourceError, match="no_capability"):
        lasting(world).create_group(request("h0", "h1", name="n", path="network", modes=(2,)), now=world.now)


def test_a_group_that_takes_nothing_but_the_network_ends_when_it_is_lost_for_long() -> None:
    world = World()
    members = world.start_group("h0", "h1", path="network")
    world.run(1.0)
    world.crash_engine("s0", down=-1)
    world.until(lambda: all(m.ended == "engine_lost" for m in members), 4.0, "the end")


def test_a_group_that_takes_nothing_but_the_network_waits_for_an_engine_that_comes_back() -> None:
    world = World()
    members = world.start_group("h0", "h1", path="network")
    world.run(1.0)
    world.crash_engine("s0", down=1.0)
    world.until(lambda: all(m.epoch == 2 for m in members), 4.0, "epoch 2")
    assert world.group("g").path == "network"


def test_small_transfers_between_two_ranks_of_a_deep_tree_use_whatever_the_cost_model_says() -> None:
    world = World(make_fabric("tree", hosts=2))
    members = world.start_group("h0", "h2", typical_bytes=8)
    world.run(1.0)
    decision = world.decisions[-1]
    grant = members[0].grant
    assert grant is not None
    if decision.reason.value == "cost":
        assert grant.host is not None
        assert "us for 8 bytes, the network" in decision.text
    else:
        assert grant.trees


def test_a_job_that_does_not_say_how_large_its_transfers_are_is_not_sent_to_its_hosts_for_their_cost() -> (
    None
):
    world = World(make_fabric("tree", hosts=2))
    for name, values in (("a", {"typical_bytes": 0}), ("b", {"path": "prefer_network", "typical_bytes": 8})):
        members = world.start_group("h0", "h2", name=name, **values)
        world.run(1.0)
        assert members[0].grant.trees  # type: ignore[union-attr]


def test_a_single_rank_uses_the_network_only_if_it_prefers_it() -> None:
    world = World()
    alone = world.start_group("h0", name="a")
    preferring = world.start_group("h0", name="b", path="prefer_network")
    world.run(1.0)
    assert alone[0].grant.host is not None  # type: ignore[union-attr]
    assert reasons(world, "a") == ["host/single_rank"]
    assert preferring[0].grant.trees  # type: ignore[union-attr]


def test_exact_placement_finds_places_too_and_another_word_is_refused() -> None:
    world = World(make_fabric("spine", shares=1), placement="exact")
    members = world.start_group("h0", "h1", "h2", "h3")
    world.run(1.0)
    assert members[0].grant.trees  # type: ignore[union-attr]
    world.start_group("h0", "h3", name="b")
    world.run(1.0)
    assert world.group("b").path in ("network", "host")
    with pytest.raises(ConfigError, match="placement = 'best', expected one of heuristic, exact"):
        World(placement="best")


def test_the_same_cells_on_every_path() -> None:
    world = World(make_fabric(shares=1))
    first = world.start_group("h0", "h1", name="a")
    world.run(1.0)
    second = world.start_group("h0", "h1", name="b")
    world.run(1.0)
    leave_all(world, first)
    world.until(lambda: all(m.epoch == 2 for m in second), 3.0, "upgrade")
    host, network = second[0].history
    assert host.host is not None
    for name in ("payload_bytes", "message_bytes", "byte_order", "datatypes", "operators", "window"):
        assert getattr(host.params, name) == getattr(network.params, name)


def test_an_engine_or_link_that_an_admin_takes_out_is_left_and_used_again_later() -> None:
    world = World(make_fabric("spine"))
    members = world.start_group("h0", "h1", "h2", "h3")
    world.run(2.0)
    root = members[0].grant.trees[0].root  # type: ignore[union-attr]
    world.ask(lambda core: core.set_usable(engine=root, usable=False, now=world.now))
    world.until(lambda: all(m.epoch == 2 for m in members), 2.0, "epoch 2")
    other = members[0].grant.trees[0].root  # type: ignore[union-attr]
    assert other != root
    assert not world.engines[root].entries()
    world.ask(lambda core: core.set_usable(link=f"l0-{other}", usable=False, now=world.now))
    world.until(lambda: all(m.epoch == 3 for m in members), 2.0, "epoch 3")
    assert members[0].grant.host is not None  # type: ignore[union-attr]
    world.ask(lambda core: core.set_usable(engine=root, usable=True, now=world.now))
    world.until(lambda: all(m.epoch == 4 for m in members), 2.0, "epoch 4")
    assert members[0].grant.trees[0].root == root  # type: ignore[union-attr]
    refused(lambda: lasting(world).set_usable(engine="s9", usable=True, now=world.now), "not_found")
    refused(lambda: lasting(world).set_usable(usable=True, now=world.now), "invalid")


# -------------------------------------------------------------------------------------------------- faults


def verdict_of(world: World, member: SimMember, edge: str = "", what: str = "stalled") -> Verdict:
    answer = world.report_fault(member, edge, what)
    if isinstance(answer, Verdict):
        return answer
    world.until(lambda: answer in world.answers, world.settings.inquiry_timeout + 0.1, "the verdict")
    verdict: Verdict = world.answers[answer]
    return verdict


def stalled(shape: str = "spine") -> tuple[World, list[SimMember]]:
    """A group in which nothing moves: members beat, and that is all."""
    world = World(make_fabric(shape))
    world._progress = lambda member: None  # type: ignore[method-assign]
    hosts = ("h0", "h1", "h2", "h3") if shape != "single" else ("h0", "h1", "h2")
    members = world.start_group(*hosts)
    world.run(1.5)
    assert all(m.epoch == 1 for m in members)
    return world, members


def test_an_edge_in_error_at_an_engine_is_a_lost_link_that_all_groups_avoid_for_a_while() -> None:
    world, members = stalled()
    root = members[0].grant.trees[0].root  # type: ignore[union-attr]
    world.engines[root].failed_edges = (f"l0-{root}",)
    verdict = verdict_of(world, members[0])
    assert (verdict.verdict, verdict.edges) == ("epoch", (f"l0-{root}",))
    world.until(lambda: all(m.epoch == 2 for m in members), 2.0, "epoch 2")
    assert members[0].grant.trees[0].root != root  # type: ignore[union-attr]
    links = {link.name: link.state for link in lasting(world).topology(world.now).links}
    assert links[f"l0-{root}"] == "held"
    decision = next(d for d in world.decisions if d.reason.value == "link_lost")
    assert decision.about == {"edge": f"l0-{root}", "link": f"l0-{root}"}
    world.run(world.settings.link_hold + 0.1)
    links = {link.name: link.state for link in lasting(world).topology(world.now).links}
    assert links[f"l0-{root}"] == "up"


def test_a_members_word_takes_a_link_from_its_own_group_only() -> None:
    world, members = stalled()
    grant = members[0].grant
    assert grant is not None
    edge = grant.trees[0].ranks[0].edge.name
    verdict = verdict_of(world, members[0], edge, "retry limit")
    assert (verdict.verdict, verdict.edges) == ("epoch", (edge,))
    world.until(lambda: all(m.epoch == 2 for m in members), 2.0, "epoch 2")
    assert members[0].grant.host is not None  # type: ignore[union-attr]
    others = world.start_group("h0", "h1", "h2", "h3", name="other")
    world.run(1.0)
    assert others[0].grant.trees  # type: ignore[union-attr]


def test_a_rank_that_lives_and_has_not_contributed_is_late() -> None:
    world, members = stalled("single")
    for member in members[:2]:
        member.contributed = 1
    world.engines["s0"].slots = {0: 0b011}
    world.run(1.2)
    verdict = verdict_of(world, members[0])
    assert (verdict.verdict, verdict.ranks) == ("wait", (2,))
    explained = lasting(world).explain("g", world.now)
    assert explained.late == {2: 1}


def test_a_rank_that_says_it_contributed_what_no_engine_has_seen_has_an_edge_that_loses() -> None:
    world, members = stalled("single")
    for member in members:
        member.contributed = 1
    world.engines["s0"].slots = {0: 0b011}
    world.run(1.2)
    verdict = verdict_of(world, members[0])
    assert (verdict.verdict, verdict.edges) == ("epoch", ("r2-s0",))
    world.until(lambda: all(m.epoch == 2 for m in members), 2.0, "epoch 2")
    assert "r2-s0 loses what is sent" in next(
        d.text for d in world.decisions if d.reason.value == "link_lost"
    )


def test_a_contribution_that_was_only_on_its_way_is_there_at_the_second_look() -> None:
    world, members = stalled("single")
    for member in members:
        member.contributed = 1
    world.engines["s0"].slots = {0: 0b011}
    world.run(1.2)
    ticket = world.report_fault(members[0])
    world.run(0.1)
    world.engines["s0"].slots = {0: 0b111}
    members[0].delivered = 1
    world.run(2.0)
    assert world.answers[ticket].verdict in ("wait", "epoch")
    assert "r2-s0" not in str([d.about for d in world.decisions])


def test_an_engine_that_does_not_answer_is_found_by_a_report_sooner_than_by_looking() -> None:
    settings = Settings(probe_interval=5.0, idle_interval=5.0)
    world = World(settings=settings)
    members = world.start_group("h0", "h1")
    world.run(6.0)
    world.crash_engine("s0", down=-1)
    verdict = verdict_of(world, members[0])
    assert verdict.verdict == "epoch"
    assert reasons(world)[1] == "none/engine_lost"


def test_an_edge_between_hosts_gets_new_connections_and_its_rank_is_given_up_at_last() -> None:
    world = World()
    world._progress = lambda member: None  # type: ignore[method-assign]
    members = world.start_group("h0", "h1", "h2", path="host")
    world.run(1.0)
    for epoch in (2, 3, 4):
        assert verdict_of(world, members[0], "r0-r1", "retry limit").verdict == "epoch"
        world.until(lambda: members[0].epoch == members[2].epoch == epoch, 2.0, "a new epoch")  # noqa: B023
    verdict = verdict_of(world, members[0], "r0-r1", "retry limit")
    assert (verdict.verdict, verdict.ranks) == ("lost", (1,))


def test_who_is_late_on_the_hosts_is_known_from_heartbeats() -> None:
    world = World()
    world._progress = lambda member: None  # type: ignore[method-assign]
    members = world.start_group("h0", "h1", "h2", path="host")
    world.run(1.0)
    members[0].contributed = members[1].contributed = 3
    world.run(1.2)
    verdict = verdict_of(world, members[0])
    assert (verdict.verdict, verdict.ranks) == ("wait", (2,))


def test_a_report_of_an_epoch_that_is_over_is_answered_at_once() -> None:
    world = World(make_fabric("spine"))
    members = world.start_group("h0", "h1", "h2", "h3")
    world.run(2.0)
    world.crash_engine(members[0].grant.trees[0].root, down=-1)  # type: ignore[union-attr]
    world.until(lambda: all(m.epoch == 2 for m in members), 3.0, "epoch 2")
    token = members[0].joined.token  # type: ignore[union-attr]
    answer = lasting(world).report_fault("g", 0, token, 1, 0, "", "", now=world.now)
    assert answer.verdict == "epoch"


# ------------------------------------------------------------------------------------------ reconciliation


def test_entries_that_nobody_knows_are_removed_before_an_engine_is_used() -> None:
    world = World()
    members = world.start_group("h0", "h1")
    world.run(1.0)
    assert members[0].epoch == 1
    world.core = None
    for member in members:
        member.alive = False
    other = World(seed=5)
    other.engines = world.engines
    assert world.engines["s0"].entries()
    other.check = lambda: None  # type: ignore[method-assign]
    other.run(1.0)
    assert not world.engines["s0"].entries()
    del other.check
    new = other.start_group("h0", "h1")
    other.run(1.0)
    assert new[0].grant.trees  # type: ignore[union-attr]
    # A number that the engine had from another store is not used again.
    assert new[0].grant.trees[0].params.group > members[0].grant.trees[0].params.group  # type: ignore[union-attr]


def test_a_manager_that_starts_with_a_smaller_fabric_ends_what_it_cannot_reach_and_moves_the_rest() -> None:
    world = World(make_fabric("spine", hosts=2, shares=4))
    gone = world.start_group("h0", "h3", name="gone")
    kept = world.start_group("h0", "h1", name="kept")
    spine = world.start_group("h1", "h2", name="spine")
    world.run(1.5)
    root = spine[0].grant.trees[0].root  # type: ignore[union-attr]
    fabric = world.fabric
    world.fabric = replace(
        fabric,
        hosts={name: host for name, host in fabric.hosts.items() if name != "h3"},
        engines={name: engine for name, engine in fabric.engines.items() if name != root},
        links=tuple(link for link in fabric.links if link.low != "h3" and root not in (link.low, link.high)),
    )
    world.engines = {name: engine for name, engine in world.engines.items() if name != root}
    world.kill_manager()
    world.run(3.0)
    assert {m.ended for m in gone} == {"destroyed"}
    assert world.group("gone").text == "host h3 is not of the fabric any more"
    assert {(m.epoch, m.running) for m in kept} == {(1, True)}
    assert [m.epoch for m in spine] == [2, 2]
    assert all(root not in tree.engines for tree in spine[0].grant.trees)  # type: ignore[union-attr]


def test_an_engine_that_appears_later_is_used_then() -> None:
    world = World()
    world.engines["s0"].up = False
    members = world.start_group("h0", "h1")
    world.run(2.5)
    assert members[0].grant.host is not None  # type: ignore[union-attr]
    world.engines["s0"].start()
    world.until(lambda: all(m.epoch == 2 for m in members), 3.0, "the network")


def test_nobody_is_sent_to_the_hosts_before_the_engines_had_time_to_answer() -> None:
    world = World(faults=Faults(delay=0.3))
    members = world.start_group("h0", "h1")
    world.run(4.0)
    assert members[0].history[0].trees


def test_what_an_engine_offers_is_asked_and_a_smaller_one_gets_a_smaller_window() -> None:
    world = World(offer=EngineCapabilities(mode=3, window=16, slots=32, payload_bytes=512, groups=4))
    members = world.start_group("h0", "h1")
    world.run(1.0)
    params = members[0].grant.params  # type: ignore[union-attr]
    assert (params.window, params.payload_bytes) == (16, 512)
    assert lasting(world).topology(world.now).engines[0].groups == 4
    assert OFFER.groups == 8


# ----------------------------------------------------------------------------------------- nodes, addresses


def test_addresses_come_from_the_pool_and_rest_before_they_are_given_again() -> None:
    world = World(make_fabric(pool=2))
    first = world.start_group("h0", "h1")
    world.run(1.0)
    leave_all(world, first)
    world.run(0.1)
    second = world.start_group("h0", "h1")
    world.run(0.1)
    addresses = [{m.joined.address for m in group if m.joined} for group in (first, second)]
    assert addresses[0].isdisjoint(addresses[1])
    with pytest.raises(NoResourceError, match="host h0: no address of its pool"):
        lasting(world).create_group(request("h0", name="third"), now=world.now)
    world.run(world.settings.quarantine)
    lasting(world).create_group(request("h0", name="third"), now=world.now)


def test_a_members_transport_knows_its_engines_and_everybody_else() -> None:
    world = World()
    members = world.start_group("h0", "h1")
    world.run(1.0)
    joined = members[1].joined
    assert joined is not None
    assert joined.transport == {
        "kind": "udp",
        "address": joined.address,
        "ports": {"0.0.0.0/0": 0, "127.20.0.1": 0},
    }


def test_a_node_is_registered_renewed_and_lost() -> None:
    world = World()
    core = lasting(world)
    assert core.heartbeat("h0", [], now=0.0).node_known is False
    assert core.register_node("h0", 1000, "1.0", now=0.0) == world.settings.node_lease
    world.run(5.0)
    assert core.heartbeat("h0", [], now=5.0).node_known
    states = {host.name: (host.state, host.mtu) for host in core.topology(6.0).hosts}
    assert states == {"h0": ("up", 1000), "h1": ("unknown", 0), "h2": ("unknown", 0)}
    world.run(11.0)
    assert core.topology(16.0).hosts[0].state == "lost"
    with pytest.raises(NoResourceError, match="host h0 has gone silent"):
        core.create_group(request("h0", "h1"), now=16.0)
    refused(lambda: core.register_node("h7", 0, "", now=16.0), "invalid")
    refused(lambda: core.register_node("h0", 20, "", now=16.0), "invalid")


def test_what_a_nodes_links_carry_limits_the_payload() -> None:
    world = World()
    world.ask(lambda core: core.register_node("h1", 700, "1.0", now=world.now))
    members = world.start_group("h0", "h1")
    world.run(1.0)
    assert members[0].grant.params.payload_bytes == 640  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------- explain


def test_explain_says_what_a_group_waits_for_and_what_was_decided() -> None:
    world = World(make_fabric(shares=1))
    name, token = world.create(request("h0", "h1", "h2"))  # type: ignore[misc]
    world.spawn(name, 1, token)
    world.run(0.2)
    explained = lasting(world).explain(name, world.now)
    assert explained.group.state == "forming"
    assert explained.waits_for == ("rank 0 on h0 to join", "rank 2 on h2 to join")
    for rank in (0, 2):
        world.spawn(name, rank, token)
    world.run(1.0)
    explained = lasting(world).explain(name, world.now)
    assert explained.waits_for == ()
    assert [(s.engine, s.fan_in, s.slots) for s in explained.group.shares] == [("s0", 3, 128)]
    world.start_group("h0", "h1", name="b")
    world.run(1.0)
    explained = lasting(world).explain("b", world.now)
    assert len(explained.waits_for) == 1
    assert explained.waits_for[0].startswith("a place in the network (no_slots): engine s0")
    assert explained.decisions[-1].line().startswith(f"{PREFIX} group=b epoch=1 path=host reason=no_slots")
    assert explained.group.algorithm in ("ring", "doubling")


def test_decisions_are_logged_once_each_and_kept_within_bounds(caplog: pytest.LogCaptureFixture) -> None:
    world = World(make_fabric(), settings=Settings(keep_decisions=4))
    with caplog.at_level("INFO", logger="epic_host.manager"):
        members = world.start_group("h0", "h1")
        world.run(1.0)
        for _ in range(3):
            world.crash_engine("s0", down=1.0)
            world.run(4.0)
    assert all(m.running for m in members)
    lines = [record.getMessage() for record in caplog.records if PREFIX in record.getMessage()]
    assert lines == [decision.line() for decision in world.decisions]
    kept = lasting(world).explain("g", world.now).decisions
    assert list(kept) == world.decisions[-4:]


def test_no_token_is_ever_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level("DEBUG"):
        members = world.start_group("h0", "h1")
        world.run(1.0)
        members[0].alive = False
        world.run(5.0)
    secrets = {m.join_token for m in members} | {m.joined.token for m in members if m.joined}
    assert not any(secret in caplog.text for secret in secrets)


def test_a_stream_begins_with_what_is_true_now() -> None:
    world = World()
    members = world.start_group("h0", "h1")
    world.run(1.0)
    core, token = lasting(world), members[0].joined.token  # type: ignore[union-attr]
    assert [type(e).__name__ for e in core.watch("g", 0, token, now=world.now)] == ["Granted"]
    world._report = lambda member: None  # type: ignore[method-assign]
    world.crash_engine("s0", down=-1)
    world.until(lambda: any(isinstance(e, Prepare) for e in world.events), 2.0, "Prepare")
    assert [type(e).__name__ for e in core.watch("g", 0, token, now=world.now)] == ["Prepare"]
    members[1].alive = False
    world.run(4.0)
    assert core.watch("g", 0, token, now=world.now) == [Lost("g", (1,), world.group("g").text)]


# ---------------------------------------------------------------------------------------------------- leaks


def test_a_thousand_groups_leave_nothing() -> None:
    """Straight calls, for speed: 1,000 groups of two ranks made, run and ended, 20 at a time."""
    world = World(make_fabric(shares=4, pool=200), settings=Settings(quarantine=0.1, keep_ended=0.5))
    core, engine = lasting(world), world.engines["s0"]

    def turn() -> None:
        while calls := core.take_calls():
            for call in calls:
                core.engine_done(call, engine.carry(call), world.now)
        core.take_events()

    turn()
    numbers: set[int] = set()
    for batch in range(50):
        world.now += 0.2
        core.poll(world.now)
        turn()
        made = [
            core.create_group(request("h0", "h1", name=f"g{batch}.{i}"), now=world.now) for i in range(20)
        ]
        tokens = []
        for name, token in made:
            for rank in (0, 1):
                joined = core.join(name, rank, token, f"{name}.{rank}", now=world.now)
                tokens.append((name, rank, joined.token))
        turn()
        world.check()
        numbers |= {number for number, _ in engine.entries()}
        for name, rank, token in tokens:
            core.leave(name, rank, token, now=world.now)
            turn()
    for _ in range(12):
        world.now += 0.3
        core.poll(world.now)
        turn()
    assert len(numbers) >= 100
    world.check_nothing_left()
    assert not world.book.groups
    state = core._state
    left = (len(state.timers), len(state.outbox), len(state.leases.members), len(state.avoid))
    assert left <= (4, 4, 0, 0)
