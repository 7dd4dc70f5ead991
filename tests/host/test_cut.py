"""Links that are cut by a file: what is dropped, when that is noticed, and what a wrong file does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epic_host.transport import open_transport
from epic_host.transport.cut import INTERVAL, Cut, write_cuts
from epic_models.reference.group import Edge, Endpoint
from epic_spec.errors import ConfigError
from epic_spec.tables import Opcode
from host.worlds import subnet


def test_nothing_is_cut_while_there_is_no_file(tmp_path: Path) -> None:
    cut = Cut(tmp_path / "cuts")
    assert not cut.blocks("127.1.2.3", 0.0)
    assert cut.dropped == 0


def test_a_cut_is_seen_within_an_interval_and_so_is_its_end(tmp_path: Path) -> None:
    path = tmp_path / "cuts"
    cut = Cut(path)
    assert not cut.blocks("127.1.2.3", 10.0)
    write_cuts(path, ["127.1.2.0/28"])
    assert cut.blocks("127.1.2.3", 10.0 + INTERVAL)
    assert not cut.blocks("127.1.2.16", 10.0 + INTERVAL)
    assert cut.dropped == 1
    write_cuts(path, [])
    assert not cut.blocks("127.1.2.3", 10.0 + 3 * INTERVAL)


def test_a_cut_outlives_the_node(tmp_path: Path) -> None:
    write_cuts(tmp_path / "cuts", ["127.1.2.3/32"])
    assert Cut(tmp_path / "cuts").blocks("127.1.2.3", 0.0)


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '["127.1.2.300/32"]'])
def test_a_wrong_file_is_refused_at_the_start_and_kept_out_later(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cuts"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"cuts .*expected a JSON list of IPv4 networks"):
        Cut(path)
    write_cuts(path, ["127.1.2.3/32"])
    cut = Cut(path)
    path.write_text(text)
    assert cut.blocks("127.1.2.3", 100.0), "what was cut stays cut"


def test_a_udp_transport_drops_what_it_sends_and_what_comes_over_a_cut_link(tmp_path: Path) -> None:
    net = subnet()
    here, there = f"{net}.1", f"{net}.2"
    path = tmp_path / "cuts"

    def opened(address: str, peer: str, **more: Any) -> Any:
        return open_transport({"kind": "udp", "address": address, "ports": {peer: 0}, **more})

    cut_one, other = opened(here, there, cuts=str(path)), opened(there, here)
    try:
        edges = {
            cut_one: Edge("a-b", 0, Endpoint(here, 17), Endpoint(there, 18), 0, 0),
            other: Edge("a-b", 0, Endpoint(there, 18), Endpoint(here, 17), 0, 0),
        }

        def arrives(sender: Any, receiver: Any, now: float) -> bool:
            sender.send(0, edges[sender].packet(Opcode.SEND_ONLY, 0, payload=b"abcd"), now)
            return bool(receiver.receive(now))

        assert arrives(cut_one, other, 0.0)
        assert arrives(other, cut_one, 0.0)
        write_cuts(path, [f"{there}/32"])
        assert not arrives(cut_one, other, 1.0)
        assert not arrives(other, cut_one, 1.0)
        assert cut_one.faults()["cut"] == 2
        write_cuts(path, [])
        assert arrives(cut_one, other, 2.0)
        assert arrives(other, cut_one, 2.0)
    finally:
        cut_one.close()
        other.close()
