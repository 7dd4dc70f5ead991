"""tshark as an independent oracle, and the generated dissector in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from epic_spec.codec import encode
from epic_spec.packets import Packet
from epic_spec.pcap import PcapWriter
from epic_spec.tables import OPCODE_MODES
from spec.wire import REPO, cell, needs_tshark, packets

pytestmark = needs_tshark

WIRE = ["ip.src", "ip.dst", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn"]
WIRE += ["infiniband.immdt", "infiniband.invariant.crc", "infiniband.aeth.msn"]
# Opcodes that carry a payload in some mode.
CELLS = [name for name, modes in OPCODE_MODES.items() if modes and name != "ACK"]
CELL = [
    "epic.imm",
    "epic.rank",
    "epic.primitive",
    "epic.operator",
    "epic.datatype",
    "epic.null",
    "epic.err",
    "epic.tag",
]


def tshark(path: Path, fields: list[str]) -> list[dict[str, str]]:
    """What tshark shows of a capture with the dissector loaded: a row a frame, a field's first value."""
    wanted = [word for field in fields for word in ("-e", field)]
    lua = REPO / "spec" / "epic.lua"
    command = [
        "tshark",
        "-X",
        f"lua_script:{lua}",
        "-r",
        str(path),
        "-T",
        "fields",
        "-E",
        "occurrence=f",
        *wanted,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Lua" not in done.stderr
    return [dict(zip(fields, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]


# No shrinking: each example is a run of tshark.
@settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(packets(), min_size=20, max_size=40))
def test_tshark_shows_what_was_encoded(tmp_path: Path, some: list[Packet]) -> None:
    # QPNs 0 and 1 are InfiniBand's management, whose datagrams tshark looks for in the payload; a well-known
    # source port makes the packet one of another protocol.
    some = [packet.but(qpn=max(packet.qpn, 2), sport=packet.sport | 0xC000) for packet in some]
    path = tmp_path / "a.pcap"
    with PcapWriter(path) as writer:
        for i, packet in enumerate(some):
            writer.write(encode(packet), i)
    rows = tshark(path, WIRE + CELL)
    assert len(rows) == len(some)
    for packet, row in zip(some, rows, strict=True):
        assert (row["ip.src"], row["ip.dst"]) == (packet.src_ip, packet.dst_ip)
        assert int(row["infiniband.bth.opcode"]) == packet.opcode
        assert int(row["infiniband.bth.destqp"], 16) == packet.qpn
        assert int(row["infiniband.bth.psn"]) == packet.psn
        shown = row["infiniband.invariant.crc"].removeprefix("0x")
        # It shows no ICRC behind some packets that EPIC does not send: unused opcodes, for one.
        if packet.opcode.name in CELLS and packet.payload and packet.qpn < 0xFFFFFF:
            assert shown
        assert bytes.fromhex(shown) in (encode(packet)[-4:], b"")
        if packet.aeth is not None:
            assert int(row["infiniband.aeth.msn"]) == packet.aeth.msn
        descriptor = packet.descriptor
        if descriptor is None:
            assert not any(row[name] for name in CELL)
            continue
        assert int(row["infiniband.immdt"], 16) == int(row["epic.imm"], 16) == packet.imm
        assert int(row["epic.rank"]) == descriptor.rank
        assert int(row["epic.primitive"]) == descriptor.primitive
        assert int(row["epic.operator"]) == descriptor.operator
        assert int(row["epic.datatype"]) == descriptor.datatype
        assert (row["epic.null"] in ("1", "True")) == descriptor.null
        assert (row["epic.err"] in ("1", "True")) == descriptor.err
        assert int(row["epic.tag"]) == descriptor.tag


def test_the_dissector_says_a_cell_in_the_words_of_epic_pcap(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    with PcapWriter(path) as writer:
        writer.write(encode(cell()), 0)
    lua = REPO / "spec" / "epic.lua"
    command = ["tshark", "-X", f"lua_script:{lua}", "-r", str(path), "-V"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert f"EPIC cell descriptor: {cell().descriptor}" in done.stdout
    assert "= Primitive: ALLREDUCE (0)" in done.stdout
