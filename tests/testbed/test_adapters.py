"""Adapters of devices in real time: the software switch over both bindings, and devices on Ethernet ports."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_models.reference.endpoint import EngineCapabilities
from epic_models.reference.group import EngineGroup, GroupParams
from epic_models.reference.interfaces import GroupStatus, SlotStatus
from epic_models.reference.tree import Tree, build_group
from epic_spec import codec
from epic_spec.errors import ConfigError, EpicError, ResourceError
from epic_spec.packets import Descriptor, Packet
from epic_spec.tables import Opcode, Operator, Primitive
from epic_testbed import netns, registry
from epic_testbed.adapters import soft
from epic_testbed.adapters.ethernet import EthernetDut, load_addresses
from epic_testbed.adapters.hook import HookControl
from epic_testbed.adapters.ports import datagram_of_frame
from epic_testbed.adapters.soft import SoftDut
from epic_testbed.addressing import Interface, Veth
from epic_testbed.conformance.bench import Bench, Failure
from epic_testbed.conformance.deviations import load_deviations
from epic_testbed.dut import DutError
from epic_testbed.processes import Children
from testbed.suite import failures

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
ROOT = [pytest.mark.netns, needs_root]
BINDINGS = ["udp", pytest.param("ethernet", marks=ROOT)]
MODES = [1, 2, 3]
WHOLE = int(os.environ.get("EPIC_EXAMPLES", "1")) > 1
GUIDE = Path(__file__).parents[2] / "testbed" / "CONFORMANCE.md"
DESCRIPTOR = Descriptor(Primitive.ALLREDUCE, Operator.SUM)
SUM = DESCRIPTOR.pack()

MakeSoft = Callable[..., SoftDut]


@pytest.fixture
def make() -> Iterator[MakeSoft]:
    """Makes software switches with a few ports, and closes them."""
    made: list[SoftDut] = []

    def one(mode: int = 3, **options: Any) -> SoftDut:
        path = {} if {"engine", "datapath"} & set(options) else {"datapath": "reference"}
        made.append(SoftDut(mode, **{"ports": "3"} | path | options))
        return made[-1]

    yield one
    for dut in made:
        dut.close()


# --------------------------------------------------------------------------------------------- soft, in use


# Modes I and II wait for real timers, a minute a run: a mode by one binding, with EPIC_EXAMPLES above 1 by both.
SUITES = [(1, "ethernet"), (2, "udp"), (3, "ethernet")]
if int(os.environ.get("EPIC_EXAMPLES", "1")) > 1:
    SUITES += [(1, "udp"), (2, "ethernet"), (3, "udp")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "binding"),
    [pytest.param(*suite, marks=ROOT if suite[1] == "ethernet" else ()) for suite in SUITES],
)
def test_the_software_switch_passes_the_suite(make: MakeSoft, mode: int, binding: str) -> None:
    assert failures(make(mode, binding=binding, ports="65")) == []


# The fast path by parts that are done in seconds, with EPIC_EXAMPLES above 1 whole and by both bindings.
PARTS = [
    (2, "udp", "random_scripts/*-mode-2"),
    (2, "udp", "isolation/*"),
    (3, "udp", "m3_slots/*"),
    (3, "udp", "wire/*"),
]
if int(os.environ.get("EPIC_EXAMPLES", "1")) > 1:
    PARTS = [(mode, binding, "*") for mode in (2, 3) for binding in ("udp", "ethernet")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "binding", "cases"),
    [pytest.param(*part, marks=ROOT if part[1] == "ethernet" else ()) for part in PARTS],
)
def test_the_fast_path_passes_the_suite(make: MakeSoft, mode: int, binding: str, cases: str) -> None:
    dut = make(mode, binding=binding, ports="65", datapath="fast")
    assert dut.traits().details["engine"] == f"fast-m{mode}"
    assert failures(dut, cases) == []


@pytest.mark.parametrize("binding", BINDINGS)
def test_an_engine_with_a_fault_behind_real_sockets_fails_a_case(make: MakeSoft, binding: str) -> None:
    dut = make(binding=binding, engine="testbed.mutant_engine:OneBitOff")
    assert any("wrong cell" in line for line in failures(dut, "m3_slots/replay-to-the-child-that-repeats"))


def test_two_devices_at_once_have_addresses_of_their_own(make: MakeSoft) -> None:
    first, second = make(), make(2)
    assert first.addresses(0) != second.addresses(0)
    assert failures(first, "m3_slots/replay-*") == []
    assert failures(second, "random_scripts/root-mode-2") == []


@pytest.mark.parametrize("binding", BINDINGS)
def test_what_is_sent_has_had_its_effect_before_the_control_plane_is_asked(
    make: MakeSoft, binding: str
) -> None:
    dut = make(binding=binding)
    bench = Bench(dut)
    group = bench.install(2)
    for _ in range(200):
        before = dut.counters()["rx_contribution"]
        bench.contribute(0, 0, (1,))
        assert dut.counters()["rx_contribution"] + dut.counters()["rx_duplicate"] > before
    assert dut.status(1).slots == (SlotStatus(0, 0b01, False),)
    bench.contribute(1, 0, (1,))
    dut.remove(1)
    # Both results were sent before the group went.
    assert [dut.receive(0.0) is not None for _ in range(3)] == [True, True, False]
    assert group.params.mode == 3


def test_silence_is_not_reported_of_a_switch_that_has_not_come_to_it(make: MakeSoft) -> None:
    dut = make()
    bench = Bench(dut)
    bench.install(2)
    os.kill(dut.pid, signal.SIGSTOP)
    wake = threading.Timer(0.5, os.kill, (dut.pid, signal.SIGCONT))
    wake.start()
    bench.contribute_all(0, [(1,), (2,)])
    assert dut.receive(0.01) is not None
    wake.join()


def test_a_switch_whose_counters_do_not_add_up_is_given_time_instead(make: MakeSoft) -> None:
    dut = make(engine="testbed.odd_engines:CountsNothing")
    bench = Bench(dut)
    bench.install(2)
    bench.contribute(0, 0, (1,))
    begin = time.monotonic()
    bench.expect_silence()
    assert soft.SETTLE_SECONDS <= time.monotonic() - begin < 2
    bench.contribute(1, 0, (1,))
    bench.expect_result(0, (2,))


def test_capabilities_of_other_modes_are_not_offered(make: MakeSoft) -> None:
    assert make(3).traits().capabilities.ordered is False
    offered = make(1).traits().capabilities
    assert (offered.ordered, offered.ack_reflection, offered.window_guard) == (True, False, False)


def test_a_group_that_is_refused_says_so_with_the_switchs_own_words(make: MakeSoft) -> None:
    dut = make()
    bench = Bench(dut)
    group = bench.install(2)
    with pytest.raises(ConfigError, match="already installed"):
        dut.configure(group.entry)
    with pytest.raises(ResourceError, match="offers mode 3"):
        dut.configure(replace(group.entry, params=replace(group.params, group=2, mode=2)))
    with pytest.raises(ConfigError, match="not installed"):
        dut.remove(5)


# ------------------------------------------------------------------------------------- soft, when it breaks


def test_a_killed_switch_is_named_at_once_and_reset_starts_another(make: MakeSoft) -> None:
    dut = make()
    Bench(dut).install(2)
    threading.Timer(0.3, os.kill, (dut.pid, signal.SIGKILL)).start()
    begin = time.monotonic()
    with pytest.raises(DutError, match="killed by SIGKILL"):
        dut.receive(30)
    assert time.monotonic() - begin < 5
    for call in (lambda: dut.send(0, bytes(80)), dut.counters, lambda: dut.status(1)):
        with pytest.raises(DutError, match="killed by SIGKILL"):
            call()
    dut.reset()
    assert failures(dut, "m3_slots/replay-*") == []


def test_a_switch_started_in_a_thread_that_ends_lives_on(make: MakeSoft) -> None:
    dut = make()
    os.kill(dut.pid, signal.SIGKILL)
    thread = threading.Thread(target=dut.reset)
    thread.start()
    thread.join(30)
    time.sleep(0.3)
    assert failures(dut, "m3_slots/replay-*") == []


@pytest.mark.parametrize("how", ["stopped", "stuck"])
def test_a_switch_that_hangs_is_an_error_after_the_deadline_and_is_replaced(
    make: MakeSoft, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(soft.SoftDut, "CALL_SECONDS", 0.5)
    dut = make(engine="testbed.odd_engines:HangsAtInstall")
    bench = Bench(dut)
    group = bench.install(2)
    hung = dut.pid
    if how == "stopped":
        os.kill(dut.pid, signal.SIGSTOP)
    begin = time.monotonic()
    with pytest.raises(DutError, match=r"no answer within 0.5 s"):
        dut.configure(replace(group.entry, params=replace(group.params, group=7)))
    with pytest.raises(DutError, match=r"no answer within 0.5 s"):
        dut.counters()
    dut.reset()
    assert time.monotonic() - begin < 20
    assert dut.pid != hung
    assert registry.start_time(hung) is None
    assert failures(dut, "m3_slots/replay-*") == []


def test_a_switch_that_floods_fails_the_case_and_the_next_one_passes(make: MakeSoft) -> None:
    dut = make(engine="testbed.odd_engines:Floods")
    bench = Bench(dut)
    bench.install(2)
    bench.contribute_all(0, [(1,), (2,)])
    begin = time.monotonic()
    with pytest.raises(Failure):
        bench.expect_result(0, (3,))
        bench.expect_silence()
    assert time.monotonic() - begin < 30
    dut.reset()
    bench = Bench(dut)
    bench.install(2)
    bench.expect_silence()


# --------------------------------------------------------------------------------------- soft, what it leaves


def processes_and_namespaces(dut: SoftDut) -> tuple[bool, bool, bool]:
    run_id = dut._run.id
    return (
        registry.start_time(dut.pid) is not None,
        any(run_id in name for name in netns.existing()),
        (registry.base() / run_id).exists(),
    )


@pytest.mark.parametrize("binding", BINDINGS)
def test_closing_leaves_nothing_and_may_be_done_twice(make: MakeSoft, binding: str) -> None:
    dut = make(binding=binding)
    assert processes_and_namespaces(dut) == (True, binding == "ethernet", True)
    dut.close()
    assert processes_and_namespaces(dut) == (False, False, False)
    dut.close()


@pytest.mark.parametrize("binding", BINDINGS)
def test_after_kill_9_of_the_suite_the_switch_ends_and_the_next_run_removes_the_rest(binding: str) -> None:
    code = (
        "import sys, time\n"
        "from epic_testbed.adapters.soft import SoftDut\n"
        f"dut = SoftDut(3, binding={binding!r}, ports=2, datapath='reference')\n"
        "print(dut.pid, dut._run.id, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as suite:
        assert suite.stdout is not None
        pid, run_id = suite.stdout.readline().split()
        suite.kill()
        suite.wait(10)
    end = time.monotonic() + 10
    while registry.start_time(int(pid)) is not None and time.monotonic() < end:
        time.sleep(0.02)
    assert registry.start_time(int(pid)) is None
    registry.clean()
    assert not [name for name in netns.existing() if run_id in name]
    assert not (registry.base() / run_id).exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": 4}, "mode = 4, expected 1, 2 or 3"),
        ({"binding": "tcp"}, "option binding = 'tcp', expected udp or ethernet"),
        ({"ports": "66"}, "option ports = '66', expected a number from 2 to 65"),
        ({"ports": "many"}, "option ports = 'many', expected a number"),
        ({"subnet": "10.0.0.0/24"}, "option subnet = '10.0.0.0/24', expected one inside 127.0.0.0/8"),
        ({"subnet": "127.0.0.0/30"}, "expected room for 4 addresses"),
        ({"subnet": "x"}, "option subnet = 'x', expected one such as"),
        ({"engine": "reference-m2"}, "mode = 3, but the device realizes mode 2"),
        ({"subnet": "127.1.0.0/24", "binding": "ethernet"}, "expected none with binding ethernet"),
        ({"datapath": "slow"}, "datapath = 'slow', expected one of reference, fast"),
        ({"mode": 1, "datapath": "fast"}, "datapath = fast with mode = 1, expected reference"),
        (
            {"engine": "rtl-m3", "datapath": "fast"},
            "option datapath = 'fast', expected none with engine rtl-m3",
        ),
    ],
)
def test_a_bad_option_is_one_line_and_leaves_nothing(
    make: MakeSoft, options: dict[str, Any], message: str
) -> None:
    before = {run.id for run in registry.runs()}
    with pytest.raises(ConfigError) as caught:
        make(**options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    mine = {run.id for run in registry.runs() if run.owner and run.owner.pid == os.getpid()}
    assert mine <= before


def test_an_engine_that_is_not_known_is_named_with_what_the_switch_said(make: MakeSoft) -> None:
    with pytest.raises(DutError, match=r"did not start: engine 'nosuch' is not known"):
        make(engine="nosuch")


def test_an_address_in_use_is_named(make: MakeSoft) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.232.0.2", 4791))
        with pytest.raises(ConfigError, match=r"127.232.0.2:4791 is in use"):
            make(subnet="127.232.0.0/24")


# --------------------------------------------------------------------------------------------- the udp binding

PEER, DEVICE = "127.232.1.2", "127.232.1.1"


def frame(**changes: Any) -> bytes:
    """What the suite would send: a frame from the peer to the device."""
    packet = Packet(
        Opcode.SEND_ONLY_IMM, PEER, DEVICE, 0x1234, 77, b"payload!", SUM, sport=0xC123, ident=9,
        src_mac=codec.mac_of_ip(PEER), dst_mac=codec.mac_of_ip(DEVICE),
    )  # fmt: skip
    return codec.encode(packet.but(**changes))


def arrived(sent: bytes) -> bytes:
    """The frame that the device's socket binding takes the datagram for."""
    data, tos = datagram_of_frame(sent, PEER, DEVICE)
    return codec.frame_of_datagram(data, PEER, DEVICE, ecn=tos & 3)


@given(st.binary(max_size=64), st.integers(0, 3), st.integers(0, 63), st.booleans())
def test_a_right_icrc_stays_right_whatever_headers_the_kernel_writes(
    payload: bytes, ecn: int, dscp: int, dont_fragment: bool
) -> None:
    sent = frame(payload=payload + b"x", ecn=ecn, dscp=dscp, dont_fragment=dont_fragment)
    got = codec.decode(arrived(sent))
    assert (got.payload, got.ecn, got.qpn, got.psn) == (payload + b"x", ecn, 0x1234, 77)


@given(st.integers(0, 31), st.integers(42, 65))
def test_a_wrong_icrc_stays_wrong_by_the_same_bits_and_bytes_from_the_bth_on_stay(bit: int, at: int) -> None:
    sent = bytearray(frame())
    sent[-1 - bit // 8] ^= 1 << bit % 8
    with pytest.raises(EpicError, match="icrc"):
        codec.decode(arrived(bytes(sent)))
    changed = bytearray(frame())
    changed[at] ^= 0xFF
    assert arrived(bytes(changed))[42:-4] == bytes(changed)[42:-4]


def test_an_icrc_of_zeros_stays_zeros_and_padding_is_cut_off() -> None:
    assert arrived(frame()[:-4] + bytes(4) + b"padding")[-4:] == bytes(4)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (lambda f: f[:12] + b"\x86\xdd" + f[14:], "EtherType"),
        (lambda f: f[:14] + b"\x46" + f[15:], "version or header length"),
        (lambda f: f[:24] + b"\0\0" + f[26:], "IP checksum"),
        (lambda f: f[:-1], "IP total length"),
        (lambda f: f[:38] + b"\0\x08" + f[40:], "UDP length"),
        (lambda f: f[:36] + b"\0\x01" + f[38:], "UDP destination port"),
        (lambda f: b"\x04" + f[1:], "MAC address"),
        (lambda f: f[:30], "shorter than"),
        (lambda _: frame(src_ip="127.9.9.9"), "IP address"),
    ],
)
def test_a_frame_with_other_lower_headers_is_refused_by_name(
    changed: Callable[[bytes], bytes], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        datagram_of_frame(changed(frame()), PEER, DEVICE)


def test_a_case_that_sends_what_udp_cannot_carry_gets_an_error_and_nothing_is_sent(make: MakeSoft) -> None:
    dut = make()
    bench = Bench(dut)
    group = bench.install(2)
    packet = group.packets(group.children[0], 0, (1,), DESCRIPTOR)[0]
    with pytest.raises(DutError, match="port 0: frame with another IP address, which the udp binding cannot"):
        dut.send(0, codec.encode(packet.but(src_ip="127.9.9.9")))
    with pytest.raises(DutError, match="port 9: no such port of the device, expected one of 0, 1, 2"):
        dut.send(9, codec.encode(packet))
    bench.expect_counter({"rx_frames": 0})


# ------------------------------------------------------------------------------------------------ Ethernet


class Rack:
    """A namespace with veth pairs, and a software switch on the raw ports at their far ends: the device."""

    def __init__(self, mode: int, ports: int) -> None:
        self.run = registry.create("conformance")
        self.namespace = self.run.namespace("rack")
        self.run.namespaces = [self.namespace]
        self.run.save()
        self.children = Children(self.run.path, modules=("epic_host.serving",))
        mac = "02:00:4d:00:{:02x}:0{}"
        veths = [
            Veth(
                Interface("rack", f"suite{p}", mac.format(p, 2)),
                Interface("rack", f"dev{p}", mac.format(p, 1)),
                1500,
            )
            for p in range(ports)
        ]
        netns.create(["rack"], veths, lambda _: self.namespace)
        self.control = f"unix:{self.run.path}/device.sock"
        config = {
            "name": "device",
            "engine": f"reference-m{mode}",
            "control": self.control,
            "transport": {"kind": "packet", "ports": {str(p): f"dev{p}" for p in range(ports)}},
        }
        path = self.run.path / "device.json"
        path.write_text(json.dumps(config))
        self.device = self.children.spawn("device", "switch", path, self.namespace)
        end = time.monotonic() + 30
        while not any(line == "ready" for _, line in self.children.wait(1.0)):
            assert time.monotonic() < end, self.device.complaint()
        self.ports = {p: f"suite{p}" for p in range(ports)}
        self.options: dict[str, Any] = {
            "port": self.ports,
            "netns": self.namespace,
            "quiet": "0.05",
            "timeout": "10",
        }

    @property
    def hook(self) -> str:
        """The example hook, for this device."""
        return f"{sys.executable} -m epic_testbed.adapters.switch_hook {self.control}"

    def close(self) -> None:
        """Take it down."""
        self.children.close()
        self.run.destroy()


@pytest.fixture
def rack() -> Iterator[Callable[..., Rack]]:
    """Makes racks and takes them down."""
    made: list[Rack] = []

    def one(mode: int = 3, ports: int = 3) -> Rack:
        made.append(Rack(mode, ports))
        return made[-1]

    yield one
    for r in made:
        r.close()


@pytest.mark.slow
@pytest.mark.netns
@needs_root
@pytest.mark.parametrize("mode", MODES if WHOLE else [3])
def test_a_switch_on_raw_ports_passes_the_suite_as_an_ethernet_device(
    rack: Callable[..., Rack], mode: int
) -> None:
    """What makes ports of ports; all of the suite, in every mode, with EPIC_EXAMPLES above 1."""
    here = rack(mode, 9)
    patterns = ("*",) if WHOLE else ("wire/*", "isolation/*", "groups/*", "m?_[bems]*")
    with EthernetDut(mode, grpc=here.control, **here.options) as dut:
        assert [line for pattern in patterns for line in failures(dut, pattern)] == []


@pytest.mark.netns
@needs_root
def test_a_device_is_installed_by_the_vendors_hook(rack: Callable[..., Rack]) -> None:
    here = rack()
    with EthernetDut(3, hook=here.hook, **here.options) as dut:
        assert dut.traits().name == "software switch"
        assert dut.traits().capabilities.payload_bytes == 1408
        assert failures(dut, "m3_slots/*-duplicate-*") == []
        dut.reset()
        bench = Bench(dut)
        group = bench.install(2)
        bench.contribute(1, 0, (1,))
        assert dut.status(1) == GroupStatus(1, 0, (SlotStatus(0, 0b10, False),), ())
        with pytest.raises(ConfigError, match="already installed"):
            dut.configure(group.entry)
        with pytest.raises(ResourceError, match="offers mode 3"):
            dut.configure(replace(group.entry, params=replace(group.params, group=2, mode=2)))


@pytest.mark.netns
@needs_root
def test_what_a_port_says_for_itself_is_not_taken_for_the_device(rack: Callable[..., Rack]) -> None:
    here = rack()
    with EthernetDut(3, grpc=here.control, **here.options) as dut:
        lldp, ip, tagged = bytes(12) + b"\x88\xcc" + bytes(50), frame(), bytearray(frame())
        tagged[12:12] = b"\x81\x00\x00\x05"
        for sent in (lldp, ip[:23] + b"\x01" + ip[24:], ip, bytes(tagged)):
            code = (
                "import socket, sys\n"
                "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
                "s.bind(('dev1', 0))\n"
                "s.send(bytes.fromhex(sys.argv[1]))\n"
            )
            command = ["ip", "netns", "exec", here.namespace, sys.executable, "-c", code, sent.hex()]
            subprocess.run(command, check=True, timeout=30)
        got = [dut.receive(0.5), dut.receive(0.5), dut.receive(0.1)]
        assert [(g.port, g.frame) for g in got if g is not None] == [(1, ip), (1, bytes(tagged))]


@pytest.mark.netns
@needs_root
def test_a_device_that_dies_is_an_error_within_the_deadline(rack: Callable[..., Rack]) -> None:
    here = rack()
    with EthernetDut(3, grpc=here.control, **here.options) as dut:
        Bench(dut).install(2)
        os.kill(here.device.pid, signal.SIGKILL)
        for call in (dut.counters, dut.reset, lambda: dut.status(1)):
            with pytest.raises(DutError, match="engine at unix:"):
                call()


@pytest.mark.netns
@needs_root
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"port": {0: "suite0", 1: "nosuch"}}, "port 1: interface nosuch does not exist"),
        ({"port": {0: "suite0"}}, "expected an interface for two ports or more"),
        ({"port": {0: "suite0", 2: "suite1"}}, r"numbers \[0, 2\], expected 0 to 1 without a gap"),
        ({"port": {0: "suite0", 1: "suite0"}}, "expected each interface once"),
        ({"netns": "epic-nosuch"}, "network namespace 'epic-nosuch'"),
        ({"grpc": None}, "option hook or grpc: exactly one"),
        ({"hook": "true"}, "option hook or grpc: exactly one"),
        ({"quiet": "0"}, "option quiet = '0', expected a number from 0.001 to 60"),
        ({"timeout": "soon"}, "option timeout = 'soon', expected a number"),
        ({"addresses": "/nosuch.toml"}, "/nosuch.toml: No such file"),
    ],
)
def test_a_bad_option_of_an_ethernet_device_is_one_line(
    rack: Callable[..., Rack], changes: dict[str, Any], message: str
) -> None:
    here = rack()
    with pytest.raises(ConfigError, match=message):
        EthernetDut(3, **{**here.options, "grpc": here.control, **changes})


# ------------------------------------------------------------------------------------------- address files


def test_addresses_come_from_the_file_and_otherwise_from_the_convention(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('[port.1]\nip = "10.1.0.1"\npeer_mac = "02:AA:00:00:00:01"\n')
    found = load_addresses(path, {0: "a", 1: "b"})
    assert (found[0].ip, found[0].peer_mac) == ("10.77.0.1", "02:00:4d:00:00:02")
    assert (found[1].ip, found[1].mac) == ("10.1.0.1", "02:00:4d:00:01:01")
    assert (found[1].peer_ip, found[1].peer_mac) == ("10.77.1.2", "02:aa:00:00:00:01")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[port.0]\nip = 7\n", "port.0.ip = 7, expected an IPv4 address"),
        ('[port.0]\nmac = "x"\n', "port.0.mac = 'x', expected a MAC address"),
        ('[port.0]\nname = "x"\n', "port.0.name, expected one of ip, mac, peer_ip, peer_mac"),
        ("[port.5]\n", "port.5, expected ports 0 to 1"),
        ("port = 1\n", "port = 1, expected tables"),
        ("[port]\n0 = 1\n", "port.0 = 1, expected a table"),
        ("[x]\n", "'x', expected tables"),
        ("[", "not TOML"),
    ],
)
def test_a_bad_address_file_is_one_line_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_addresses(path, {0: "a", 1: "b"})
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------------------------------------- hooks

GROUP: EngineGroup = build_group(Tree("x", {"x": (0, 1)}), GroupParams(1, 3, 2)).engines["x"]

MakeHook = Callable[..., HookControl]


@pytest.fixture
def hook(tmp_path: Path) -> MakeHook:
    """Makes a hook of shell lines; `capabilities` answers {} unless the lines see to it."""

    def make(lines: str, timeout: float = 5.0, about: str = "{}") -> HookControl:
        path = tmp_path / "hook"
        path.write_text(f"#!/bin/sh\n[ $1 = capabilities ] && {{ echo '{about}'; exit; }}\n{lines}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return HookControl(str(path), 3, timeout)

    return make


def test_a_hook_gets_verb_and_question_and_its_answer_is_read(hook: MakeHook, tmp_path: Path) -> None:
    lines = (
        f"cat > {tmp_path}/$1.json\n"
        "case $1 in\n"
        "counters) echo '{\"rx_frames\": 7}' ;;\n"
        'status) echo \'{"slots": [{"cell": 3, "bitmap": 5, "done": true}], "failed_edges": ["r0-x"]}\' ;;\n'
        "esac"
    )
    control = hook(
        lines,
        about='{"name": "acme", "reads_counters": false, "capabilities": {"window": 8, "icrc": ["none"]}}',
    )
    control.install(GROUP)
    control.remove(1)
    control.reset()
    assert control.counters() == {"rx_frames": 7}
    assert control.status(1) == GroupStatus(1, 0, (SlotStatus(3, 5, True),), ("r0-x",))
    assert EngineGroup.from_dict(json.loads((tmp_path / "install.json").read_text())) == GROUP
    assert json.loads((tmp_path / "remove.json").read_text()) == {"group": 1}
    assert (control.name, control.reads("counters"), control.reads("status")) == ("acme", False, True)
    offered = control.capabilities()
    assert (offered.mode, offered.window, offered.icrc) == (3, 8, ("none",))
    # What the hook does not say has the default of the specification.
    assert (offered.slots, offered.datatypes, offered.byte_order) == (128, ("INT32",), ("big",))
    assert isinstance(offered, EngineCapabilities)


@pytest.mark.parametrize(
    ("lines", "kind", "message"),
    [
        ("echo no such group >&2; echo more >&2; exit 2", ConfigError, "install: no such group"),
        ("echo table full >&2; exit 3", ResourceError, "install: table full"),
        ("echo it burns >&2; exit 1", DutError, "install: it burns"),
        ("exit 9", DutError, "install: exit code 9"),
        ("kill -9 $$", DutError, "install: exit code -9"),
        ("echo '['", DutError, "install: its output is not JSON"),
        ("echo 7", DutError, "install: its output is not a JSON object"),
        ("cat /dev/zero", DutError, "install: its output is longer than"),
    ],
)
def test_a_hook_that_fails_is_one_line_with_the_first_it_said(
    hook: MakeHook, lines: str, kind: type[EpicError], message: str
) -> None:
    control = hook(lines)
    with pytest.raises(kind) as caught:
        control.install(GROUP)
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("lines", ["sleep 60", "exec >&-; sleep 60", "sleep 60 & exit 0"])
def test_a_hook_that_does_not_end_is_killed_at_the_deadline_with_all_it_started(
    hook: MakeHook, lines: str, tmp_path: Path
) -> None:
    control = hook(f"echo $$ > {tmp_path}/pid\n{lines}", timeout=0.5)
    begin = time.monotonic()
    with pytest.raises(DutError, match=r"remove: no answer within 0.5 s"):
        control.remove(1)
    assert time.monotonic() - begin < 5
    group = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 5
    while time.monotonic() < end and _members(group):
        time.sleep(0.02)
    assert _members(group) == []


def _members(group: int) -> list[int]:
    """Living processes of a process group."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal() and registry.start_time(int(path.name)) is not None:
            try:
                if os.getpgid(int(path.name)) == group:
                    found.append(int(path.name))
            except ProcessLookupError:
                pass
    return found


@pytest.mark.parametrize(
    ("verb", "answer", "message"),
    [
        ("counters", '{"rx_frames": "7"}', "rx_frames = '7', expected a whole number"),
        ("counters", '{"rx_frames": -1}', "rx_frames = -1, expected a whole number"),
        ("status", "{}", "expected slots (cell, bitmap, done)"),
        ("status", '{"slots": [7]}', "expected slots (cell, bitmap, done)"),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_of_the_device(
    hook: MakeHook, verb: str, answer: str, message: str
) -> None:
    control = hook(f"echo '{answer}'")
    with pytest.raises(DutError) as caught:
        _ = control.counters() if verb == "counters" else control.status(1)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ('{"capabilities": {"windows": 1}}', "unknown capability 'windows'"),
        ('{"capabilities": {"window": 3}}', "window = 3, expected a power of two"),
        ('{"capabilities": {"icrc": "full"}}', "icrc = 'full', expected a list"),
        ('{"capabilities": {"datatypes": 7}}', "capabilities: "),
        ('{"capabilities": 7}', "capabilities = 7, expected an object"),
        ('{"vendor": "acme"}', "unknown key 'vendor'"),
    ],
)
def test_capabilities_that_cannot_be_read_are_named(hook: MakeHook, about: str, message: str) -> None:
    with pytest.raises(DutError) as caught:
        hook("", about=about).capabilities()
    assert message in str(caught.value)


@pytest.mark.parametrize("command", ["", "/nosuch/hook", "'open"])
def test_a_command_that_cannot_be_run_is_a_bad_option(command: str) -> None:
    with pytest.raises(ConfigError, match="option hook"):
        HookControl(command, 3, 1.0)


# --------------------------------------------------------------------------------------------- the vendors' guide


def fenced(language: str) -> list[str]:
    """The examples of the guide in a language."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def test_the_guides_examples_are_what_the_adapter_takes(hook: MakeHook, tmp_path: Path) -> None:
    addresses, deviations = (tmp_path / f"{i}.toml" for i in range(2))
    for path, text in zip((addresses, deviations), fenced("toml"), strict=True):
        path.write_text(text)
    assert load_addresses(addresses, {0: "a", 1: "b"})[1].ip == "10.77.1.1"
    assert load_deviations(deviations).setup["payload_bytes"] == 256
    about, group, status = fenced("json")
    control = hook(f"cat > {tmp_path}/question; echo '{status}'", about=" ".join(about.split()))
    assert (control.name, control.reads("status"), control.capabilities().children) == ("acme 9000", False, 8)
    assert control.status(1).slots == (SlotStatus(5, 0b10, False),)
    control.install(EngineGroup.from_dict(json.loads(group)))
    assert json.loads((tmp_path / "question").read_text()) == json.loads(group)


def test_the_guide_names_every_option_of_the_adapter() -> None:
    parameters = set(inspect.signature(EthernetDut).parameters) - {"mode", "port"}
    assert parameters == set(re.findall(r"^\| `--option (\w+)=", GUIDE.read_text(), re.MULTILINE))
