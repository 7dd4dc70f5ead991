"""The real p4runtime-shell, from its own virtual environment, drives the server as it drives BMv2."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from epic_models.reference.group import EngineGroup
from epic_p4.control import GroupController, MulticastGroup, ProgramModel, RegisterFill
from epic_p4.control.entries import Installation, Stage
from epic_p4.p4runtime.bundle import load, pack
from epic_p4.p4runtime.server import P4RuntimeServer
from epic_p4.runtime.match import Exact
from epic_spec.tables import COUNTERS
from p4.control.control_helpers import root_group
from p4.control.programs import FILES, golden, program_schema, script
from p4.p4runtime import shell_env
from p4.p4runtime.p4rt_helpers import HERE, SMALL, device, frame, serve

SECONDS = 60


@pytest.fixture(scope="session")
def shell() -> Path:
    """The Python of the client's environment."""
    return shell_env.ensure()


def session(shell: Path, name: str, server: P4RuntimeServer, *arguments: object) -> Any:
    """Run a session of shell_session.py; what it returned."""
    command = [str(shell), str(HERE / "shell_session.py"), name, server.address, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def files(source: Path, folder: Path) -> tuple[Path, Path]:
    """The P4Info and the device config of a program, as files."""
    document = pack(source)
    info, binary = folder / "p4info.txt", folder / "program.json"
    info.write_text(text_format.MessageToString(load(document).info))
    binary.write_bytes(document)
    return info, binary


def test_the_shell_loads_writes_and_reads_everything(shell: Path, tmp_path: Path) -> None:
    with serve(device(started=False)) as server:
        found = session(shell, "small", server, *files(SMALL, tmp_path))
        assert found == {
            "version": "1.4.1",
            "twice": [6],
            "absent": [5],
            "group": [[1, 10], [2, 20]],
            "hosts": ["020000000002"],
            "routes": [16],
            "classes": [10],
            "constant": 2,
        }
        packet = frame(0x020000000002, src=1)
        for _ in range(3):
            assert server.process(4, packet) == [(5, packet)]
        flood = frame(5, 0x88B5)
        assert server.process(3, flood) == [(1, flood), (2, flood)]
        counts = session(shell, "counts", server)
    assert counts == {
        "arrivals": {"4": [3, 3 * len(packet)], "3": [1, len(flood)]},
        "direct": [3],
        "cleared": [0],
    }


def plan(group: EngineGroup) -> Installation:
    """What is to be written for a group, as another controller would be told."""

    class Nobody:
        def write(self, stage: Stage) -> None:
            """Only planned here."""

    model = ProgramModel.of(program_schema("v1model"))
    return GroupController(Nobody(), model).install(group)  # type: ignore[arg-type]


def plain(installation: Installation) -> list[list[dict[str, Any]]]:
    """The stages as JSON."""
    return [
        [_plain(item) for item in stage if not isinstance(item, RegisterFill)]
        for stage in installation.stages
    ]


def _plain(item: Any) -> dict[str, Any]:
    if isinstance(item, MulticastGroup):
        return {"number": item.number, "replicas": item.replicas}
    match = {key: value.value for key, value in item.match.items() if isinstance(value, Exact)}
    return {"table": item.table, "match": match, "action": item.action, "params": dict(item.params)}


@pytest.mark.slow
def test_the_shell_installs_a_group_on_the_epic_program_and_reads_its_counters(
    shell: Path, tmp_path: Path
) -> None:
    group = root_group(ack_reflection=True)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plain(plan(group))))
    engine = golden(group)
    with serve(device(started=False)) as server:
        found = session(shell, "install", server, *files(FILES["v1model"], tmp_path), path)
        entries = {name.rpartition(".")[2]: count for name, count in found["entries"].items()}
        expected = {"edge": 3, "edge_port": 3, "edge_address": 3, "edge_pkey": 3, "group": 1}
        assert {n: c for n, c in entries.items() if c} == {**expected, "edge_out": 3, "below": 3}
        assert sorted(found["groups"]) == sorted([[e.port, n] for n, e in enumerate(group.children, 1)] * 2)
        for port, packet in script(group):
            sent = server.process(port, packet)
            assert len(sent) == len(engine.receive_frame(port, packet, 0.0).sends)
        totals = dict.fromkeys(COUNTERS, 0)
        for _, index, packets in session(shell, "banks", server):
            totals[list(COUNTERS)[index]] += packets
    sends = sum(count for name, count in engine.counters().items() if name.startswith("tx_"))
    assert totals == {**engine.counters(), "tx_frames": sends}
    assert totals["tx_result"] == 9
