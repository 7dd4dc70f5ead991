"""From end to end with certificates: manager, switch and ranks; and a hostile host on a port of the switch (P6)."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_host import Communicator
from epic_host.control import EngineClient
from epic_host.manager.calls import grpc_driver
from epic_host.manager.client import ManagerClient
from epic_host.manager.config import ManagerConfig
from epic_host.manager.errors import NotAllowedError
from epic_host.proto.epic.v1 import manager_pb2 as pb
from epic_host.security import pki
from epic_host.security.roles import Role
from epic_host.security.tls import Tls
from epic_host.switch import Switch, SwitchConfig
from epic_models.reference import endpoint
from epic_spec import codec
from epic_spec.errors import ConfigError
from epic_spec.packets import Descriptor
from epic_spec.tables import UDP_PORT, Datatype, Opcode, Operator, Primitive
from host.manager.served import managed
from host.worlds import subnet

ROUNDS = 30


class Site:
    """A switch with ports for h0, h1 and h2, a manager that installs on it, all with certificates."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.net = folder, subnet()
        self.pki = folder / "pki"
        pki.init(self.pki)
        for role, name in (
            (Role.MANAGER, "m0"),
            (Role.ENGINE, "s0"),
            (Role.JOB, "train"),
            (Role.JOB, "spy"),
            (Role.NODE, "h2"),
        ):
            pki.issue(self.pki, role, name)
        self.running: Switch
        self.control = f"unix:{folder}/s0"
        self.address = f"unix:{folder}/m"
        self.hosts = {f"h{i}": f"{self.net}.{10 + i}" for i in range(3)}

    def tls(self, role: Role, name: str) -> Tls:
        return Tls.of_folder(self.pki, role, name)

    def tls_dict(self, role: Role, name: str) -> dict[str, str]:
        files = self.tls(role, name)
        return {"ca": str(files.ca), "certificate": str(files.certificate), "key": str(files.key)}

    @contextlib.contextmanager
    def switch(self) -> Iterator[Switch]:
        config = {
            "name": "s0",
            "engine": "reference-m3",
            "control": self.control,
            "transport": {
                "kind": "udp",
                "address": f"{self.net}.1",
                "ports": {address: port for port, address in enumerate(self.hosts.values())},
            },
            "tls": self.tls_dict(Role.ENGINE, "s0"),
        }
        switch = Switch(SwitchConfig.from_dict(config))
        thread = threading.Thread(target=switch.run)
        thread.start()
        try:
            yield switch
        finally:
            switch.stop()
            thread.join(5)
            switch.close()

    def manager(self) -> Any:
        hosts = "".join(f'[hosts.{name}]\npool = "{address}"\n' for name, address in self.hosts.items())
        links = "".join(
            f'[[links]]\nlow = "{name}"\nhigh = "s0"\nhigh_port = {port}\nmtu = 65535\n'
            for port, name in enumerate(self.hosts)
        )
        engine = f'[engines.s0]\ncontrol = "{self.control}"\naddress = "{self.net}.1"\n'
        (self.folder / "fabric.toml").write_text(hosts + engine + links)
        values: dict[str, Any] = {"fabric": "fabric.toml", "listen": [self.address], "database": "m.db"}
        # Everything is in this process, which may be busy.
        values["times"] = {"call_timeout": 10.0, "install_timeout": 10.0}
        values["tls"] = self.tls_dict(Role.MANAGER, "m0")
        return managed(
            ManagerConfig.from_dict(values, self.folder), opened=grpc_driver(self.tls(Role.MANAGER, "m0"))
        )


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    with made.switch() as switch, made.manager():
        made.running = switch
        yield made


def joined(site: Site) -> tuple[list[Communicator], pb.CreateGroupResponse]:
    """Both ranks of a group of job train, on the network."""
    credentials = site.tls(Role.JOB, "train")
    with ManagerClient(site.address, credentials) as client:
        made = client.create_group(spec=pb.GroupSpec(hosts=["h0", "h1"], path="network", lease=30.0))
    comms: list[Communicator | None] = [None, None]

    def join(rank: int) -> None:
        comms[rank] = Communicator.join(
            site.address, made.group, rank, join_token=made.join_token, credentials=credentials
        )

    threads = [threading.Thread(target=join, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [comm for comm in comms if comm is not None], made


def reduced(comms: list[Communicator], rounds: int) -> None:
    """AllReduce on every rank at once, each result checked."""
    errors: list[BaseException] = []

    def work(rank: int) -> None:
        try:
            for number in range(rounds):
                mine = np.arange(5000, dtype=np.int32) + rank + number
                got = comms[rank].all_reduce(mine)
                expected = 2 * np.arange(5000, dtype=np.int32) + 1 + 2 * number
                assert np.array_equal(got, expected), f"round {number}"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []


def ended(comms: list[Communicator]) -> None:
    threads = [threading.Thread(target=comm.close) for comm in comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


class Hostile:
    """Host h2 knows all that rank 0 was given, and sends what it likes over its own port of the switch."""

    def __init__(self, site: Site) -> None:
        self.own = site.hosts["h2"]
        switch = site.running
        engine: Any = switch._engine
        (machine,) = switch.call(lambda: tuple(engine._groups.values()), 5.0)
        self.params = machine.entry.params
        engines_end = next(edge for edge in machine.entry.children if edge.ranks == (0,))
        self.edge = replace(
            engines_end,
            local=engines_end.peer,
            peer=engines_end.local,
            psn_tx=engines_end.psn_rx,
            psn_rx=engines_end.psn_tx,
        )
        self.sent = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.own, UDP_PORT))

    def attack(self, stop: threading.Event) -> None:
        """Contributions in the name of rank 0, for every cell and tag in turn, until `stop`."""
        cell = 0
        while not stop.is_set():
            self._send(cell, Descriptor(Primitive.ALLREDUCE, Operator.SUM, Datatype.INT32, tag=cell % 64))
            cell += 1
            if cell % 64 == 0:
                # Leaves the others some of this machine.
                stop.wait(0.002)

    def _send(self, cell: int, descriptor: Descriptor) -> None:
        payload = bytes([0x5A]) * min(self.params.payload_bytes, 1024)
        packet = self.edge.packet(
            Opcode.SEND_ONLY_IMM, cell % 512, imm=descriptor.pack(), payload=payload, pkey=self.params.pkey
        )
        # As rank 0 would send it; as its own, with a right ICRC; and to rank 1 as if it were a result.
        forged = [packet, replace(packet, src_ip=self.own)]
        for made in forged:
            self._socket.sendto(codec.encode_datagram(made), (packet.dst_ip, UDP_PORT))
        result = replace(forged[1], dst_ip=self.own.rsplit(".", 1)[0] + ".11")
        self._socket.sendto(codec.encode_datagram(result), (result.dst_ip, UDP_PORT))
        self.sent += 3

    def close(self) -> None:
        self._socket.close()


def test_ranks_manager_and_switch_work_together_with_certificates(site: Site) -> None:
    comms, _ = joined(site)
    assert len(comms) == 2
    reduced(comms, 3)
    ended(comms)


def attacked(site: Site, rounds: int) -> Hostile:
    """Reduce while a hostile host does what it can."""
    comms, _ = joined(site)
    hostile, stop = Hostile(site), threading.Event()
    thread = threading.Thread(target=hostile.attack, args=(stop,))
    thread.start()
    try:
        reduced(comms, rounds)
    finally:
        stop.set()
        thread.join(10)
        hostile.close()
        ended(comms)
    return hostile


def test_a_hostile_host_changes_no_result(site: Site) -> None:
    hostile = attacked(site, ROUNDS)
    counters = site.running.call(site.running.counters, 5.0)
    refused = {
        reason: counters.get(f"drop_{reason}", 0) for reason in ("icrc", "wrong_port", "wrong_address")
    }
    assert refused["icrc"] > 50
    assert refused["wrong_port"] > 50
    assert hostile.sent > 100


def test_an_engine_that_does_not_look_where_packets_come_from_gives_wrong_results(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: the attack is one that isolation stops, and nothing else."""
    monkeypatch.setattr(endpoint, "misfit", lambda edge, params, port, packet: None)
    with pytest.raises(AssertionError):
        attacked(site, ROUNDS)


def test_another_job_ends_neither_the_group_nor_its_entries(site: Site) -> None:
    comms, made = joined(site)
    spy = site.tls(Role.JOB, "spy")
    with ManagerClient(site.address, spy) as client, pytest.raises(NotAllowedError):
        client.destroy_group(group=made.group, token=made.join_token)
    with EngineClient(site.control, 5.0, spy, "s0") as engine:
        (number,) = site.running.call(site.running.groups, 5.0)
        with pytest.raises(ConfigError, match="job 'spy' may not call it"):
            engine.remove(number)
    reduced(comms, 2)
    ended(comms)
