"""The limits of Tofino 1 and 2, each with where it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Resources of one stage that are plain sums. The order is that of reports.
SRAM = "sram"
MAP_RAM = "map_ram"
TCAM = "tcam"
GATEWAYS = "gateways"
HASH_BITS = "hash_bits"
HASH_DISTRIBUTION = "hash_distribution"

# Resources that several users in a stage share: the use is the number of distinct things.
LOGICAL_TABLES = "logical_tables"
TERNARY_TABLES = "ternary_tables"
STATEFUL_ALUS = "stateful_alus"
STATISTICS_ALUS = "statistics_alus"
EXACT_BYTES = "exact_bytes"
TERNARY_BYTES = "ternary_bytes"

NAMES: Mapping[str, str] = {
    LOGICAL_TABLES: "logical tables",
    SRAM: "SRAM blocks",
    MAP_RAM: "map RAMs",
    TCAM: "TCAM blocks",
    TERNARY_TABLES: "ternary tables",
    STATEFUL_ALUS: "stateful ALUs",
    STATISTICS_ALUS: "statistics ALUs",
    GATEWAYS: "gateways",
    EXACT_BYTES: "exact crossbar bytes",
    TERNARY_BYTES: "ternary crossbar bytes",
    HASH_BITS: "hash bits",
    HASH_DISTRIBUTION: "hash distribution slices",
}

LEGEND = (
    "[TNA] P4-16 Intel Tofino Native Architecture, public version, document 631348-0001, March 2021.",
    "[p4c] The open Tofino back end of github.com/p4lang/p4c, by file below backends/tofino/bf-p4c.",
    "[forum] forum.p4.org, by thread.",
    "[tried] What that compiler said of a trial program; its words are not kept.",
)
"""What the short names in SOURCES and in the rules stand for."""

SOURCES: Mapping[str, str] = {
    "stages": "[p4c] specs/device.h; 12 in [TNA] too",
    LOGICAL_TABLES: "[p4c] mau/tofino/memories.h, LOGICAL_TABLES",
    SRAM: "[p4c] mau/tofino/memories.h: 8 rows of 10 blocks of 1024 words of 128 bits",
    MAP_RAM: "[p4c] mau/tofino/memories.h: 8 rows of 6; one for each block of a register or counter",
    TCAM: "[p4c] mau/tofino/memories.h: 12 rows of 2 blocks of 512 words of 44 bits",
    TERNARY_TABLES: "[p4c] mau/tofino/memories.h, TERNARY_TABLES_MAX",
    STATEFUL_ALUS: "[p4c] mau/tofino/memories.h, METER_ALUS",
    STATISTICS_ALUS: "[p4c] mau/tofino/memories.h, STATS_ALUS",
    GATEWAYS: "[p4c] mau/tofino/memories.h: 8 rows of 2",
    EXACT_BYTES: "[p4c] specs/mau_spec.cpp: 8 groups of 16 bytes",
    TERNARY_BYTES: "[p4c] specs/mau_spec.cpp: 6 groups of 11 bytes",
    HASH_BITS: "[p4c] specs/mau_spec.cpp: 8 groups of 52 bits",
    HASH_DISTRIBUTION: "[p4c] specs/mau_spec.cpp: 2 units of 3 slices of 16 bits",
    "register": "[p4c] specs/device.cpp, StatefulAluSpec; mau/stateful_alu.cpp",
    "gateway": "[p4c] specs/device.cpp, GatewaySpec: 4 bytes and 12 hash bits, 4 rows",
    "phv": "[p4c] specs/phv_spec.cpp, container groups and tagalong collections; specs/parde_spec.h, CLOTs",
}

_STAGE: Mapping[str, int] = {
    LOGICAL_TABLES: 16,
    SRAM: 80,
    MAP_RAM: 48,
    TCAM: 24,
    TERNARY_TABLES: 8,
    STATEFUL_ALUS: 4,
    STATISTICS_ALUS: 4,
    GATEWAYS: 16,
    EXACT_BYTES: 128,
    TERNARY_BYTES: 66,
    HASH_BITS: 416,
    HASH_DISTRIBUTION: 6,
}


@dataclass(frozen=True, slots=True)
class RegisterLimits:
    """What a stateful ALU can do; see SOURCES["register"]."""

    actions: int = 4
    comparisons: int = 2
    mask_in_comparison: bool = False
    division: bool = False
    operands: int = 2
    operand_bits: int = 32
    half_bits: int = 32  # the widest half of a pair
    results: int = 2
    outputs: int = 1
    constant: tuple[int, int] = (-8, 7)
    large_constants: int = 4


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """What one `if` can match; see SOURCES["gateway"]."""

    bytes: int = 4
    hash_bits: int = 12
    rows: int = 4


@dataclass(frozen=True, slots=True)
class Target:
    """A chip. `containers` counts PHV containers by size, `adding` those that have a whole ALU; both gresses share
    them. Header bytes that no stage touches may travel `beside` them: in Tofino 1's tagalong containers, which the
    gresses share, or in Tofino 2's CLOTs (16 of 64 bytes in each gress); in bits for both gresses together."""

    name: str
    title: str
    stages: int
    stage: Mapping[str, int] = field(default_factory=lambda: dict(_STAGE))
    register: RegisterLimits = RegisterLimits()
    gateway: GatewayLimits = GatewayLimits()
    containers: Mapping[int, int] = field(default_factory=lambda: {8: 64, 16: 96, 32: 64})
    adding: Mapping[int, int] = field(default_factory=lambda: {8: 64, 16: 96, 32: 64})
    beside: str = "tagalong"
    beside_bits: int = 8 * (4 * 8 + 6 * 16 + 4 * 32)


TARGETS: Mapping[str, Target] = {
    "tofino1": Target("tofino1", "Tofino 1", 12),
    "tofino2": Target(
        "tofino2",
        "Tofino 2",
        20,
        register=RegisterLimits(
            comparisons=4,
            mask_in_comparison=True,
            division=True,
            operand_bits=64,
            half_bits=64,
            outputs=4,
        ),
        # Mocha and dark containers, 4 and 4 of the 20 of a group, can only be set.
        containers={8: 80, 16: 120, 32: 80},
        adding={8: 48, 16: 72, 32: 48},
        beside="CLOTs",
        beside_bits=2 * 16 * 64 * 8,
    ),
}
