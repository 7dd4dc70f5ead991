"""An EPIC program in the executor. It installs groups by itself, from p4/README.md, without `epic_p4.control`."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from epic_models.reference.group import Edge, EngineGroup
from epic_p4.frontend import compile_file
from epic_p4.switch import Exact, P4Switch
from epic_spec.addresses import ip_number, mac_bytes
from epic_spec.psn import MODULUS
from epic_spec.tables import COUNTERS
from p4.program.mutants import Mutant

P4 = Path(__file__).parents[3] / "p4"
SOURCES = {"v1model": "bmv2/epic.p4", "tna": "tofino/epic.p4", "tna1": "tofino/epic.p4"}
TARGETS = {"tna1": {"__TARGET_TOFINO__": "1"}}
BANKS = {
    "EpicIngress": (
        "counters_frames",
        "counters_outcome",
        "counters_ce",
        "counters_completed",
        "counters_poisoned",
    ),
    "EpicEgress": ("counters_sent", "counters_frames"),
}
TABLES = (
    "EpicIngress.admission.edge",
    "EpicIngress.admission.group",
    "EpicEgress.edge_out",
    "EpicEgress.below",
    "EpicIngress.forward.",
)
FLAG_DONE, FLAG_SERVED = 1, 2
NAMES = tuple(COUNTERS)


@cache
def program(arch: str, words: int = 64, mutant: Mutant | None = None) -> object:
    """The compiled program; a mutant is compiled from a changed copy of the sources."""
    defines = {"WORDS": str(words), "CELLS": "512"} | TARGETS.get(arch, {})
    if mutant is None:
        return compile_file(P4 / SOURCES[arch], defines=defines)
    with tempfile.TemporaryDirectory() as folder:
        for source in P4.glob("*/*.p4"):
            copy = Path(folder) / source.relative_to(P4)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(mutant.apply(str(source.relative_to(P4)), source.read_text()))
        return compile_file(Path(folder) / SOURCES[arch], defines=defines)


@cache
def _idle(arch: str, words: int, mutant: Mutant | None) -> list[P4Switch]:
    """Switches of a program whose devices are no more: turning a program into Python takes longer than most tests."""
    return []


class Device:
    """A switch of either architecture."""

    def __init__(self, arch: str, words: int = 64, mutant: Mutant | None = None) -> None:
        self.arch = arch
        idle = _idle(arch, words, mutant)
        self.switch = idle.pop() if idle else P4Switch(program(arch, words, mutant))  # type: ignore[arg-type]
        self.switch.reset()
        weakref.finalize(self, idle.append, self.switch)
        self._edges = 0
        self._groups = 0
        self._slots = 0
        self._installed: dict[int, tuple[EngineGroup, int, int]] = {}

    def install(self, group: EngineGroup) -> None:
        """Write the entries of p4/README.md."""
        insert, params = self.switch.insert, group.params
        tna = self.arch != "v1model"
        self._groups += 1
        number, base = self._groups, self._slots
        self._slots += params.slots
        children = 0x4000 + number
        copies = []
        parent = 0
        sides: list[tuple[int, int, Edge]] = [
            (2 if edge.peer_is_engine else 1, 1 << i, edge) for i, edge in enumerate(group.children)
        ]
        if group.parent is not None:
            sides.append((3, 0, group.parent))
        for role, bit, edge in sides:
            self._edges += 1
            edge_id = self._edges
            qpn = {"qpn": Exact(edge.local.qpn)}
            admission = "EpicIngress.admission"
            insert(
                f"{admission}.edge",
                qpn,
                f"{admission}.set_edge",
                {
                    "edge_id": edge_id,
                    "group": number,
                    "role": role,
                    "child_bit": bit,
                    "data_offset": -edge.psn_rx % MODULUS << 8,
                    "ack_offset": -edge.psn_tx % MODULUS << 8,
                },
            )
            insert(f"{admission}.edge_port", {**qpn, "port": Exact(edge.port)}, f"{admission}.right_port", {})
            addresses = {
                "src_mac": Exact(_mac(edge.peer.mac)),
                "dst_mac": Exact(_mac(edge.local.mac)),
                "src_ip": Exact(ip_number(edge.peer.ip)),
                "dst_ip": Exact(ip_number(edge.local.ip)),
            }
            insert(f"{admission}.edge_address", {**qpn, **addresses}, f"{admission}.right_address", {})
            insert(
                f"{admission}.edge_pkey", {**qpn, "pkey": Exact(params.pkey)}, f"{admission}.right_pkey", {}
            )
            insert(
                "EpicEgress.edge_out",
                {"edge_id": Exact(edge_id)},
                "EpicEgress.rewrite",
                self._rewrite(edge, group),
            )
            self.switch.multicast_set(edge_id, [(edge.port, edge_id)])
            if role == 3:
                parent = edge_id
                continue
            copies.append((edge.port, edge_id))
            for rank in edge.ranks:
                insert(
                    "EpicEgress.below",
                    {"edge_id": Exact(edge_id), "rank": Exact(rank)},
                    "EpicEgress.is_below",
                    {},
                )
        self.switch.multicast_set(children, copies)
        offered = sum(
            bit for name, bit in (("INT32", 1), ("SUM", 2), ("MAX", 4), ("MIN", 8))
            if name in params.datatypes + params.operators
        )  # fmt: skip
        values = {
            "root": group.is_root,
            "full": (1 << len(group.children)) - 1,
            "slot_base": base,
            "slot_mask": params.slots - 1,
            "payload_bytes": params.payload_bytes,
            "offered": offered,
            "reflection": params.ack_reflection,
            "ecn": params.ecn,
            "parent": parent,
            "children": children,
        }
        if not tna:
            values |= {"guard": params.window_guard, "icrc": params.icrc == "full", "generation": number}
        insert(
            "EpicIngress.admission.group",
            {"group": Exact(number)},
            "EpicIngress.admission.set_group",
            {name: int(value) for name, value in values.items()},
        )
        if tna:
            for i in range(params.slots):
                self.switch.register_write(
                    "EpicIngress.slot.tag", base + i, (i - params.slots) % MODULUS << 8
                )
                self.switch.register_write("EpicIngress.slot.bitmap", base + i, values["full"])
                self.switch.register_write("EpicIngress.slot.flags", base + i, FLAG_DONE)
        self._installed[params.group] = (group, base, number)

    def clear(self) -> None:
        """Remove all groups; the registers keep what they hold."""
        for table in self.switch.tables():
            if table.startswith(TABLES):
                for entry in self.switch.entries(table):
                    self.switch.delete(table, entry.match)
        for group in self.switch.multicast_groups():
            self.switch.multicast_delete(group)
        self._edges = self._slots = 0
        self._installed.clear()

    def _rewrite(self, edge: Edge, group: EngineGroup) -> dict[str, int]:
        values = {
            "src_mac": _mac(edge.local.mac),
            "dst_mac": _mac(edge.peer.mac),
            "src_ip": ip_number(edge.local.ip),
            "dst_ip": ip_number(edge.peer.ip),
            "src_port": edge.sport,
            "qpn": edge.peer.qpn,
            "data_base": edge.psn_tx << 8,
            "ack_base": edge.psn_rx << 8,
            "pkey": group.params.pkey,
        }
        return values if self.arch != "v1model" else values | {"icrc": int(group.params.icrc == "full")}

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """What leaves because of a frame."""
        return self.switch.process(port, frame)

    def counters(self) -> Mapping[str, int]:
        """Every counter: the sum over the banks."""
        read = self.switch.counter_packets
        banks = [read(f"{control}.{bank}") for control, names in BANKS.items() for bank in names]
        return {name: sum(bank[index] for bank in banks) for index, name in enumerate(NAMES)}

    def slots(self, group: int) -> set[tuple[int, int, bool]]:
        """Cell, bitmap and done of the live slots of a group."""
        entry, base, number = self._installed[group]
        read, live = self.switch.register_read, set()
        for i in range(base, base + entry.params.slots):
            flags = read("EpicIngress.slot.flags", i)
            if self.arch == "v1model" and read("EpicIngress.slot.owner", i) != number:
                continue
            if flags & FLAG_SERVED:
                tag, bitmap = read("EpicIngress.slot.tag", i), read("EpicIngress.slot.bitmap", i)
                live.add((tag >> 8, bitmap, bool(flags & FLAG_DONE)))
        return live


def _mac(text: str) -> int:
    return int.from_bytes(mac_bytes(text), "big")
