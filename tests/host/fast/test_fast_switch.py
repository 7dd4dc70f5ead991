"""A switch with an engine of the fast path: the ranks of the reference path cannot tell it from their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_host import Communicator
from epic_host.cli import register
from epic_host.fast.driver import BatchDriver
from epic_host.fast.udp import FastUdpTransport
from epic_host.switch import Switch, SwitchConfig
from epic_spec.command import build_app, run
from epic_spec.errors import ConfigError
from host.worlds import World, single, two_level

MODES = (2, 3)


def sums(comm: Communicator) -> None:
    """Some collectives, each element known."""
    ranks = comm.world_size
    for count in (1, 100, 5000):
        whole = np.arange(count, dtype=np.int32) * (comm.rank + 1)
        comm.all_reduce(whole)
        assert (whole == np.arange(count) * (ranks * (ranks + 1) // 2)).all()
    comm.barrier()
    told = np.full(700, comm.rank, np.int16)
    comm.broadcast(told, 1)
    assert (told == 1).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tree", [single(3), two_level(4)], ids=["one", "three"])
def test_reference_ranks_get_their_results(world: Callable[..., World], mode: int, tree: Any) -> None:
    w = world(mode=mode, tree=tree, engine=f"fast-m{mode}")
    w.run(sums, datapath="reference")
    for switch in w.switches.values():
        counts = switch.call(switch.counters, 5.0)
        assert counts["cells_completed"] > 80
        assert counts["tx_frames"] >= counts["tx_result"] > 0
        assert not [name for name, count in counts.items() if name.startswith("drop_") and count]
        assert isinstance(switch._driver, BatchDriver)


@pytest.mark.parametrize("mode", MODES)
def test_faults_on_every_link_change_no_result(world: Callable[..., World], mode: int) -> None:
    faults = {"loss": 0.02, "duplicate": 0.02, "reorder": 0.05, "corrupt": 0.01}
    w = world(mode=mode, tree=two_level(4), engine=f"fast-m{mode}", faults=faults)
    w.run(sums, datapath="reference")
    counts = [switch.call(switch.counters, 5.0) for switch in w.switches.values()]
    assert sum(c["fault_lost"] for c in counts) > 0
    assert sum(c["drop_icrc"] for c in counts) > 0


def test_a_mixed_tree_works(world: Callable[..., World], monkeypatch: pytest.MonkeyPatch) -> None:
    config = World.switch_config

    def mixed(self: World, name: str) -> dict[str, Any]:
        return config(self, name) | ({"engine": "fast-m3"} if name == "s1" else {})

    monkeypatch.setattr(World, "switch_config", mixed)
    w = world(tree=two_level(4))
    w.run(sums, datapath="reference")
    assert isinstance(w.switches["s1"]._transport, FastUdpTransport)
    assert not isinstance(w.switches["s2"]._transport, FastUdpTransport)


def config(tmp_path: Path, **more: Any) -> dict[str, Any]:
    transport = {"kind": "udp", "address": "127.0.0.1", "ports": {}}
    return {"name": "s", "engine": "fast-m3", "control": f"unix:{tmp_path}/s", "transport": transport, **more}


def test_a_recording_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="switch s: trace with engine fast-m3, expected none"):
        Switch(SwitchConfig.from_dict(config(tmp_path, trace=str(tmp_path / "t"))))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("engine", "path", "message"),
    [
        ("reference-m1", "fast", "datapath = fast with mode = 1, expected reference"),
        ("rtl-m3", "fast", "datapath = fast with engine rtl-m3, expected an engine reference-mN or fast-mN"),
        ("reference-m3", "x", "datapath = 'x', expected one of reference, fast"),
    ],
)
def test_serve_refuses_a_path_that_the_engine_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str, path: str, message: str
) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps(config(tmp_path, engine=engine)))
    assert (
        run(build_app([register]), ["switch", "serve", "--config", str(file), "--detach", "--datapath", path])
        == 2
    )
    assert message in capsys.readouterr().err
