"""The fence of the control service: calls that come late or twice change nothing, whatever engine is behind it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_host.control import EngineClient
from epic_host.control.fence import (
    AlreadyInstalledError,
    Fence,
    FencedError,
    NotInstalledError,
    OtherInstanceError,
)
from epic_models.reference.group import EngineGroup, GroupParams
from epic_models.reference.interfaces import GroupStatus
from epic_models.reference.tree import build_group
from epic_spec.errors import ConfigError, EpicError, ResourceError
from host.worlds import World, single


def entry(group: int, epoch: int) -> EngineGroup:
    params = GroupParams(group, 3, 2, epoch=epoch)
    return build_group(single(2), params, seed=group * 1000 + epoch).engines["s0"]


class Device:
    """An engine that may fail to remove."""

    def __init__(self) -> None:
        self.has: dict[int, int] = {}
        self.fails = False

    def groups(self) -> tuple[int, ...]:
        return tuple(self.has)

    def install(self, entry: EngineGroup) -> None:
        self.has[entry.params.group] = entry.params.epoch

    def remove(self, group: int) -> None:
        if self.fails:
            raise ResourceError("the device does not answer")
        del self.has[group]

    def status(self, group: int) -> GroupStatus:
        return GroupStatus(group, self.has[group], (), ())


def test_an_epoch_that_was_removed_is_refused_for_ever_and_a_later_one_is_not() -> None:
    device = Device()
    fence = Fence(device)
    fence.remove(1, 3)
    for epoch in (1, 2, 3):
        with pytest.raises(FencedError, match="expected one after 3"):
            fence.install(entry(1, epoch), fence.instance)
    fence.install(entry(1, 4), fence.instance)
    fence.remove(1, 3)
    assert fence.installed() == [(1, 4)]
    with pytest.raises(AlreadyInstalledError):
        fence.install(entry(1, 5), fence.instance)
    fence.remove(1, 4)
    assert fence.installed() == []


def test_a_call_for_a_process_that_has_ended_is_refused() -> None:
    device = Device()
    before = Fence(device).instance
    fence = Fence(device)
    with pytest.raises(OtherInstanceError, match=before):
        fence.install(entry(1, 1), before)
    fence.install(entry(1, 1))
    assert device.has == {1: 1}


def test_a_removal_without_an_epoch_is_as_before_and_fences_nothing() -> None:
    fence = Fence(Device())
    with pytest.raises(NotInstalledError, match="group 1: not installed"):
        fence.remove(1)
    fence.install(entry(1, 0))
    fence.remove(1)
    fence.install(entry(1, 0))
    assert fence.installed() == [(1, 0)]


def test_a_removal_that_the_device_refuses_fences_and_may_be_repeated() -> None:
    device = Device()
    fence = Fence(device)
    fence.install(entry(1, 1))
    device.fails = True
    with pytest.raises(ResourceError):
        fence.remove(1, 1)
    assert fence.installed() == [(1, 1)]
    device.fails = False
    fence.remove(1, 1)
    assert device.has == {}
    with pytest.raises(FencedError):
        fence.install(entry(1, 1), fence.instance)


def test_an_entry_that_did_not_come_by_this_fence_has_its_own_epoch() -> None:
    device = Device()
    device.has[7] = 5
    fence = Fence(device)
    assert fence.installed() == [(7, 5)]
    fence.remove(7, 4)
    assert device.has == {7: 5}
    fence.remove(7, 5)
    assert device.has == {}


def test_a_late_removal_of_a_forgotten_number_does_not_forget_the_newer_one() -> None:
    fence = Fence(Device(), limit=1)
    fence.remove(2, 2)
    fence.remove(1, 1)  # 2 is forgotten
    fence.remove(2, 1)  # a call that comes late
    with pytest.raises(FencedError):
        fence.install(entry(2, 2), fence.instance)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 12), st.integers(1, 4)), max_size=60), st.integers(1, 5)
)
def test_what_was_removed_never_comes_back_however_little_is_remembered(
    calls: list[tuple[bool, int, int]], limit: int
) -> None:
    """The bound costs nothing but refusals: some installs that were never removed are refused, no removed one is
    not.
    """
    device = Device()
    fence = Fence(device, limit)
    removed: dict[int, int] = {}
    for install, group, epoch in calls:
        if not install:
            fence.remove(group, epoch)
            removed[group] = max(epoch, removed.get(group, 0))
            assert device.has.get(group, epoch + 1) > epoch
            continue
        try:
            fence.install(entry(group, epoch), fence.instance)
        except EpicError:
            continue
        assert epoch > removed.get(group, 0)
        assert fence.highest >= group
    assert len(fence._removed) <= limit


def test_a_number_above_all_that_the_engine_knows_is_never_refused() -> None:
    fence = Fence(Device(), limit=2)
    for group in range(1, 20):
        fence.install(entry(group, 1), fence.instance)
        fence.remove(group, 1)
    fence.install(entry(fence.highest + 1, 1), fence.instance)


def reason_of(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    return str(getattr(caught.value, "reason", ""))


def test_the_control_service_fences_and_says_what_is_installed(world: Callable[..., World]) -> None:
    here: World = world(tree=single(2))
    plan = here.plan.engines["s0"]
    switch = here.switches["s0"]
    switch.call(lambda: switch.remove(1), 5.0)
    with EngineClient(here.plan.control["s0"]) as client:
        before = client.installed()
        assert (before.name, before.entries, before.highest) == ("s0", (), -1)
        assert reason_of(lambda: client.install(plan, "another")) == "other_instance"
        assert client.install(plan, before.instance) == before.instance
        assert client.installed().entries == ((1, 0),)
        assert client.installed().highest == 1
        assert client.remove(1, 0) == before.instance
        assert client.remove(1, 0) == before.instance
        assert client.installed().entries == ()
        assert reason_of(lambda: client.install(plan, before.instance)) == "fenced"
