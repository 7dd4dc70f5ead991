"""How many packets a second the executor does, on this machine, now.

The yardstick is a program as an aggregating switch has it: Ethernet, IPv4 and UDP, one table by port and address, then
a number of 32-bit words, each added to a register of its own, and the sums sent back. For v1model a word is a register
read and written, for TNA a RegisterAction.
"""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from epic_p4.frontend import compile_file
from epic_p4.runtime.match import Exact
from epic_p4.switch import P4Switch

SLOTS = 1024

_HEADERS = """
#include <core.p4>
#include <{include}>
header eth_t {{ bit<48> dst; bit<48> src; bit<16> kind; }}
header ip_t {{
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len; bit<16> id; bit<3> flags; bit<13> frag;
    bit<8> ttl; bit<8> proto; bit<16> csum; bit<32> src; bit<32> dst;
}}
header udp_t {{ bit<16> src; bit<16> dst; bit<16> len; bit<16> csum; }}
header work_t {{ bit<32> slot; }}
header words_t {{ {fields} }}
struct headers_t {{ eth_t eth; ip_t ip; udp_t udp; work_t work; words_t words; }}
struct metadata_t {{ bit<16> slot; }}
"""

_STATES = """
    state parse {
        pkt.extract(hdr.eth);
        transition select(hdr.eth.kind) { 0x0800: ip; default: accept; }
    }
    state ip {
        pkt.extract(hdr.ip);
        transition select(hdr.ip.proto) { 17: udp; default: accept; }
    }
    state udp {
        pkt.extract(hdr.udp);
        transition select(hdr.udp.dst) { 4791: work; default: accept; }
    }
    state work { pkt.extract(hdr.work); pkt.extract(hdr.words); transition accept; }
"""

_TABLE = """
    action answer(bit<48> mac) { hdr.eth.dst = mac; send(); }
    table edge {
        key = { port() : exact @name("port"); hdr.ip.src : exact @name("source"); }
        actions = { answer; drop; }
        default_action = drop();
    }
"""


@dataclass(frozen=True, slots=True)
class Rate:
    """Packets done, and the seconds that they took."""

    name: str
    packets: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Packets a second."""
        return self.packets / self.seconds


def measure(
    name: str,
    switch: P4Switch,
    arrivals: Sequence[tuple[int, bytes]],
    seconds: float = 1.0,
    before: Callable[[], object] | None = None,
) -> Rate:
    """Let `arrivals` (port, frame) come in, round after round, until the rounds have taken `seconds`.

    `before` runs before each round and is not counted: it brings the switch to where the frames do their work again.
    The first round, in which tables learn keys and the interpreter specializes, is not counted either.
    """
    process, clock = switch.process, time.perf_counter
    packets, took = -len(arrivals), 0.0
    while packets <= 0 or took < seconds:
        if before is not None:
            before()
        start = clock()
        for port, frame in arrivals:
            process(port, frame)
        packets += len(arrivals)
        took = took + clock() - start if packets else 0.0
    return Rate(name, packets, took)


def yardstick(arch: str, words: int = 64) -> P4Switch:
    """The switch of the yardstick program for "v1model" or "tna", with its entry installed."""
    text = _PROGRAMS[arch](words)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"yardstick_{arch}.p4"
        path.write_text(text)
        switch = P4Switch(compile_file(path))
    match = {"port": Exact(1), "source": Exact(0x0A000001)}
    switch.insert("edge", match, "answer", {"mac": 0x0200_0000_0001})
    return switch


def arrivals(words: int = 64, count: int = 64) -> list[tuple[int, bytes]]:
    """Frames for the yardstick program, each to another slot."""
    size = 4 + 4 * words
    ethernet = bytes.fromhex("0200000000020200000000010800")
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + size, 0, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    head = ethernet + ip + struct.pack(">HHHH", 0xC000, 4791, 8 + size, 0)
    made = []
    for slot in range(count):
        values = b"".join((slot * words + word).to_bytes(4, "big") for word in range(words))
        made.append((1, head + slot.to_bytes(4, "big") + values))
    return made


def yardsticks(words: int = 64, seconds: float = 1.0) -> list[Rate]:
    """The rates of both architectures."""
    frames = arrivals(words)
    return [measure(f"{arch}, {words} words", yardstick(arch, words), frames, seconds) for arch in _PROGRAMS]


def _v1model(words: int) -> str:
    registers = "".join(f"    register<bit<32>>({SLOTS}) r{word};\n" for word in range(words))
    updates = "".join(
        f"            r{word}.read(old, index); hdr.words.w{word} = hdr.words.w{word} + old;"
        f" r{word}.write(index, hdr.words.w{word});\n"
        for word in range(words)
    )
    return (
        _header_text("v1model.p4", words)
        + f"""
parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{
    state start {{ transition parse; }}
{_STATES}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{
{registers}
    action send() {{ std.egress_spec = std.ingress_port; }}
    action drop() {{ mark_to_drop(std); }}
{_TABLE.replace("port()", "std.ingress_port")}
    apply {{
        if (hdr.words.isValid() && edge.apply().hit) {{
            bit<32> old;
            bit<32> index = hdr.work.slot & {SLOTS - 1};
{updates}
        }}
    }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{ apply {{ }} }}
control U(inout headers_t hdr, inout metadata_t meta) {{ apply {{ }} }}
control D(packet_out pkt, in headers_t hdr) {{ apply {{ pkt.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"""
    )


def _tna(words: int) -> str:
    registers = "".join(
        f"""    Register<bit<32>, bit<32>>({SLOTS}) r{word};
    RegisterAction<bit<32>, bit<32>, bit<32>>(r{word}) add{word} = {{
        void apply(inout bit<32> value, out bit<32> rv) {{ value = value + hdr.words.w{word}; rv = value; }}
    }};
"""
        for word in range(words)
    )
    updates = "".join(f"            hdr.words.w{word} = add{word}.execute(index);\n" for word in range(words))
    return (
        _header_text("tna.p4", words)
        + f"""
parser IP(packet_in pkt, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t ig_intr_md) {{
    state start {{ pkt.extract(ig_intr_md); pkt.advance(PORT_METADATA_SIZE); transition parse; }}
{_STATES}
}}
control I(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md,
          in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
          inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
          inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {{
{registers}
    action send() {{ ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port; }}
    action drop() {{ ig_dprsr_md.drop_ctl = 1; }}
{_TABLE.replace("port()", "ig_intr_md.ingress_port")}
    apply {{
        if (hdr.words.isValid() && edge.apply().hit) {{
            bit<32> index = hdr.work.slot & {SLOTS - 1};
{updates}
        }}
    }}
}}
control ID(packet_out pkt, inout headers_t hdr, in metadata_t meta,
           in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {{ apply {{ pkt.emit(hdr); }} }}
parser EP(packet_in pkt, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg_intr_md) {{
    state start {{ pkt.extract(eg_intr_md); transition parse; }}
{_STATES}
}}
control E(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
          in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
          inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
          inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {{ apply {{ }} }}
control ED(packet_out pkt, inout headers_t hdr, in metadata_t meta,
           in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {{ apply {{ pkt.emit(hdr); }} }}
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
"""
    )


def _header_text(include: str, words: int) -> str:
    fields = " ".join(f"bit<32> w{word};" for word in range(words))
    return _HEADERS.format(include=include, fields=fields)


_PROGRAMS: dict[str, Callable[[int], str]] = {"v1model": _v1model, "tna": _tna}
