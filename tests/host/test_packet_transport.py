"""The raw Ethernet transport over a veth pair in a network namespace of the test's own."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_host import Communicator
from epic_host.switch import Switch, SwitchConfig
from epic_host.transport import Transport, open_transport
from epic_models.reference.group import GroupParams
from epic_models.reference.tree import LinkEnd, Tree, build_group
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_spec.packets import Descriptor, Packet
from epic_spec.tables import Opcode, Operator, Primitive

pytestmark = pytest.mark.netns

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a network namespace")

CLONE_NEWNET = 0x40000000
IMM = Descriptor(Primitive.ALLREDUCE, Operator.SUM).pack()

Opener = Callable[..., Transport]


def await_carrier() -> None:
    """The kernel brings a link up a moment after it was told to, and loses what is sent before."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        links = subprocess.run(["ip", "-br", "link"], check=True, capture_output=True, text=True).stdout
        if all(line.split()[1] == "UP" for line in links.splitlines() if line.startswith("v")):
            return
        time.sleep(0.02)


@pytest.fixture
def veth() -> Iterator[tuple[str, str]]:
    """The names of a veth pair in a new namespace, which this thread is in until the test ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/self/ns/net").open() as home:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            # Without IPv6 the kernel has nothing of its own to say on the link.
            Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
            ip = "link add va type veth peer name vb", "link set va up mtu 2000", "link set vb up mtu 2000"
            for command in ip:
                subprocess.run(["ip", *command.split()], check=True)
            await_carrier()
            yield "va", "vb"
        finally:
            libc.setns(home.fileno(), CLONE_NEWNET)


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens packet transports and closes them after the test."""
    transports: list[Transport] = []

    def open_one(ports: dict[str, str], address: str | None = None, **more: Any) -> Transport:
        transports.append(open_transport({"kind": "packet", "ports": ports, "address": address, **more}))
        return transports[-1]

    yield open_one
    for transport in transports:
        transport.close()


def receive(transport: Transport, count: int, timeout: float = 2.0) -> list[tuple[int, Packet]]:
    got: list[tuple[int, Packet]] = []
    end = time.monotonic() + timeout
    while len(got) < count and (left := end - time.monotonic()) > 0:
        if select.select(transport.filenos(), [], [], left)[0]:
            got += transport.receive(time.monotonic())
    return got


def packet(dst_ip: str, psn: int, payload: bytes = b"payload!") -> Packet:
    return Packet(
        Opcode.SEND_ONLY_IMM,
        "10.0.0.1",
        dst_ip,
        0x1234,
        psn,
        payload,
        IMM,
        sport=0xC123,
        ident=77,
        ttl=9,
        ecn=3,
    )


@needs_root
def test_frames_cross_with_every_header_field_as_sent(veth: tuple[str, str], opened: Opener) -> None:
    a, b = opened({"0": veth[0]}), opened({"5": veth[1]})
    sent = [packet("10.0.0.2", psn, bytes(psn)) for psn in (1, 2, 64, 1500)]
    for p in sent:
        a.send(0, p, 0.0)
    assert receive(b, 4) == [(5, p) for p in sent]
    # What a socket sent itself is not received.
    assert a.receive(0.0) == []


@needs_root
@pytest.mark.parametrize(
    ("ether_type", "reason"),
    [
        ("81000005 0800", "vlan"),
        ("81000000 0800", "vlan"),
        ("88a80005 0800", "vlan"),
        ("91000005 0800", "vlan"),
        ("88b5", "ether_type"),
    ],
)
def test_frames_of_another_ether_type_are_counted_and_none_loses_its_vlan_tag(
    veth: tuple[str, str], opened: Opener, ether_type: str, reason: str
) -> None:
    """The kernel hands a tagged IPv4 frame to a packet socket without its tag: it must not pass for one without."""
    b = opened({"0": veth[1]})
    frame = codec.encode(packet("10.0.0.2", 1))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as a:
        a.bind((veth[0], 0))
        a.send(frame[:12] + bytes.fromhex(ether_type) + frame[14:])
    assert receive(b, 1, 0.2) == []
    assert (b.counters()["rx_frames"], b.counters()[f"drop_{reason}"]) == (1, 1)


@needs_root
def test_transports_that_share_an_interface_each_get_what_is_addressed_to_them(
    veth: tuple[str, str], opened: Opener
) -> None:
    a, b2, b3 = opened({"0": veth[0]}), opened({"0": veth[1]}, "10.0.0.2"), opened({"0": veth[1]}, "10.0.0.3")
    for psn, ip in enumerate(["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.3"]):
        a.send(0, packet(ip, psn), 0.0)
    assert [p.psn for _, p in receive(b3, 2)] == [1, 3]
    assert [p.psn for _, p in receive(b2, 1)] == [0]
    assert b2.receive(0.0) == b3.receive(0.0) == []
    assert b2.counters()["rx_frames"] == 1


@needs_root
def test_corruption_spares_the_ethernet_header(veth: tuple[str, str], opened: Opener) -> None:
    a, b = opened({"0": veth[0]}, faults={"corrupt": 1.0, "seed": 1}), opened({"0": veth[1]})
    for psn in range(100):
        a.send(0, packet("10.0.0.2", psn), 0.0)
    got = receive(b, 100, 0.3)
    counters = b.counters()
    assert counters["rx_frames"] == 100
    assert "drop_ether_type" not in counters
    assert {p.dst_mac for _, p in got} <= {"02:00:00:00:00:00"}


@needs_root
def test_a_packet_beyond_the_mtu_is_counted_as_failed(veth: tuple[str, str], opened: Opener) -> None:
    a = opened({"0": veth[0]})
    assert a.mtu == 2000
    a.send(0, packet("10.0.0.2", 1, bytes(2000 - 48 + 4)), 0.0)
    a.send(0, packet("10.0.0.2", 1, bytes(2000 - 48)), 0.0)
    assert (a.counters()["tx_failed"], a.counters()["tx_frames"]) == (1, 1)


@needs_root
def test_a_link_that_goes_down_is_silence_and_not_an_error(veth: tuple[str, str], opened: Opener) -> None:
    a, b = opened({"0": veth[0]}), opened({"0": veth[1]})
    subprocess.run(["ip", "link", "set", veth[0], "down"], check=True)
    a.send(0, packet("10.0.0.2", 1), 0.0)
    assert a.receive(0.0) == b.receive(0.0) == []
    assert a.counters()["tx_failed"] == 1


@needs_root
@pytest.mark.parametrize("mode", [1, 2, 3])
def test_ranks_that_share_a_hosts_interface_run_collectives_through_a_switch(
    veth: tuple[str, str], tmp_path: Path, mode: int
) -> None:
    host, switch_ip = "02:00:00:00:00:aa", ("10.0.0.101", "02:00:00:00:00:bb")
    ends = {(r, "s0"): (LinkEnd(0, f"10.0.0.{10 + r}", host), LinkEnd(4, *switch_ip)) for r in range(3)}
    params = GroupParams(1, mode, 3, payload_bytes=1920)
    plan = build_group(Tree("s0", {"s0": (0, 1, 2)}), params, ends)
    config = {
        "name": "s0",
        "engine": f"epic_models.reference.mode{mode}:Mode{mode}Engine",
        "control": f"unix:{tmp_path}/s0",
        "transport": {"kind": "packet", "ports": {"4": veth[1]}},
    }
    switch = Switch(SwitchConfig.from_dict(config))
    loop = threading.Thread(target=switch.run)
    loop.start()
    comms: list[Communicator] = []
    try:
        switch.call(lambda: switch.install(plan.engines["s0"]), 5.0)
        for rank in range(3):
            transport = {"kind": "packet", "ports": {"0": veth[0]}, "address": f"10.0.0.{10 + rank}"}
            comms.append(Communicator(rank, plan, transport))
        arrays = [np.full(5000, rank + 1, np.int32) for rank in range(3)]
        handles = [comm.all_reduce(a, async_op=True) for comm, a in zip(comms, arrays, strict=True)]
        for handle in handles:
            result = handle.result(10)
            assert result is not None
            assert (result == 6).all()
    finally:
        for comm in comms:
            comm.close()
        switch.stop()
        loop.join(5)
        switch.close()


@needs_root
def test_a_group_whose_packets_exceed_the_mtu_is_refused(veth: tuple[str, str], opened: Opener) -> None:
    plan = build_group(Tree("s0", {"s0": (0,)}), GroupParams(1, 3, 1, payload_bytes=1984))
    with pytest.raises(ConfigError, match="payload_bytes = 1984, expected at most 1952 with an MTU of 2000"):
        Communicator(0, plan, opened({"0": veth[0]}))


@needs_root
def test_an_interface_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="interface nosuch0 does not exist"):
        open_transport({"kind": "packet", "ports": {"0": "nosuch0"}})


def test_without_privilege_the_error_says_what_is_needed() -> None:
    code = (
        "import os\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "from epic_spec.errors import ConfigError\n"
        "from epic_host.transport import open_transport\n"
        "try: open_transport({'kind': 'packet', 'ports': {'0': 'lo'}})\n"
        "except ConfigError as e: print(e)\n"
    )
    # Imports come first where the files may be readable to root only.
    code = "import epic_host.transport\n" + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "packet transport: interface lo: raw sockets need root (CAP_NET_RAW)\n", done.stderr
