"""The check list says what is wrong with a switch before the first AllReduce, a row a check."""

from __future__ import annotations

import pytest

from epic_p4.bfrt import names
from epic_p4.bfrt.backend import BfrtBackend
from epic_p4.bfrt.checklist import Check, Clock, checklist, local_clock, render
from epic_p4.bfrt.ports import PortSetting, bring_up
from epic_p4.control import GroupController, ProgramModel
from epic_spec.errors import ConfigError
from p4.bfrt.bfrt_helpers import FakeSwitch
from p4.control.control_helpers import root_group
from p4.control.programs import program_schema

GROUP = root_group(icrc="none", window_guard=False)
PORTS = [edge.port for edge in GROUP.children]


def ready() -> FakeSwitch:
    """A switch with its ports up and the group installed."""
    form = program_schema("tna")
    switch = FakeSwitch(form)
    bring_up(switch, [PortSetting(port) for port in PORTS])
    for entry in switch.tables[names.PORTS].entries.values():
        entry[names.PORT_UP] = True
    GroupController(BfrtBackend(switch), ProgramModel.of(form)).install(GROUP)
    return switch


def check(switch: FakeSwitch, program: str = "epic", clock: Clock = Clock(True, 500)) -> list[Check]:  # noqa: B008
    """The check list of the group."""
    return checklist(switch, program, [GROUP], lambda: clock)


def wrong(checks: list[Check]) -> list[tuple[str, str, str]]:
    """What is not good."""
    return [(c.what, c.found, c.expected) for c in checks if not c.good]


def test_a_switch_that_is_ready_passes_with_a_row_a_check() -> None:
    checks = check(ready())
    assert wrong(checks) == []
    assert [c.what for c in checks] == [
        "program",
        *(f"port {p}{part}" for p in PORTS for part in ("", " receives", " sends")),
        *(f"multicast to port {p}" for p in PORTS),
        "clock",
    ]


def test_another_program_fails() -> None:
    assert wrong(check(ready(), "epic_48")) == [("program", "epic", "epic_48")]


def test_a_port_that_is_down_disabled_or_missing_fails() -> None:
    switch = ready()
    entries = switch.tables[names.PORTS].entries
    entries[(names.PORT_ID, PORTS[0]),][names.PORT_UP] = False
    entries[(names.PORT_ID, PORTS[1]),].update({names.PORT_UP: False, names.PORT_ENABLE: False})
    del entries[(names.PORT_ID, PORTS[2]),]
    assert [row[:2] for row in wrong(check(switch))] == [
        (f"port {PORTS[0]}", "enabled, no link, BF_SPEED_100G"),
        (f"port {PORTS[1]}", "not enabled, BF_SPEED_100G"),
        (f"port {PORTS[2]}", "not there"),
    ]


def test_an_mtu_below_the_largest_frame_fails() -> None:
    switch = ready()
    switch.tables[names.PORTS].entries[(names.PORT_ID, PORTS[1]),][names.PORT_TX_MTU] = 129
    assert wrong(check(switch)) == [(f"port {PORTS[1]} sends", "129 bytes", "130 or more")]
    switch.tables[names.PORTS].entries[(names.PORT_ID, PORTS[1]),][names.PORT_TX_MTU] = 130
    assert wrong(check(switch)) == []


def test_a_port_that_no_multicast_reaches_fails() -> None:
    switch = ready()
    nodes = switch.tables[names.MULTICAST_NODES].entries
    for node in nodes.values():
        if node[names.NODE_PORTS] == [PORTS[2]]:
            node[names.NODE_PORTS] = []
    assert wrong(check(switch)) == [(f"multicast to port {PORTS[2]}", "in no group", "in a group")]


@pytest.mark.parametrize("clock", [Clock(False, 10), Clock(True, 20_000)])
def test_a_clock_that_nobody_keeps_fails(clock: Clock) -> None:
    assert [row[0] for row in wrong(check(ready(), clock=clock))] == ["clock"]


def test_the_clock_of_this_machine_can_be_asked() -> None:
    assert local_clock().error_us >= 0


def test_the_table_has_a_row_a_check_and_says_what_is_wrong() -> None:
    switch = ready()
    switch.tables[names.PORTS].entries[(names.PORT_ID, PORTS[0]),][names.PORT_UP] = False
    lines = render(check(switch)).splitlines()
    assert len(lines) == 1 + 1 + 4 * len(PORTS) + 1
    assert [line for line in lines if line.startswith("NO")] == [
        f"NO  port {PORTS[0]}               enabled, no link, BF_SPEED_100G  up"
    ]


def test_ports_are_brought_up_with_their_settings_and_again_with_others() -> None:
    switch = FakeSwitch(program_schema("tna"))
    bring_up(switch, [PortSetting(4, speed=100, fec="rs", mtu=4096)])
    bring_up(switch, [PortSetting(4, speed=25, auto_negotiation=True)])
    assert switch.tables[names.PORTS].entries[(names.PORT_ID, 4),] == {
        names.PORT_SPEED: "BF_SPEED_25G",
        names.PORT_FEC: "BF_FEC_TYP_NONE",
        names.PORT_AUTO_NEGOTIATION: "PM_AN_DEFAULT",
        names.PORT_ENABLE: True,
        names.PORT_RX_MTU: 9216,
        names.PORT_TX_MTU: 9216,
        "action_name": "",
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"speed": 30}, "port 4: speed = 30, expected one of 10, 25"),
        ({"fec": "x"}, "port 4: fec = 'x', expected one of none, fc, rs"),
        ({"mtu": 20}, "port 4: mtu = 20, expected 64 to 10240"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PortSetting(4, **setting)  # type: ignore[arg-type]
