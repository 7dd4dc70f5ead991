"""Small P4 programs for the tests: the parts that matter are given, the rest is the plainest there is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from epic_p4.ast import Program
from epic_p4.frontend import compile_file
from epic_p4.switch import P4Switch


def compile_text(text: str) -> Program:
    """A checked program from its text."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "test.p4"
        path.write_text(text)
        return compile_file(path)


def switch(text: str, **options: Any) -> P4Switch:
    """A switch that runs the program."""
    return P4Switch(compile_text(text), **options)


def later(text: str) -> Callable[[], P4Switch]:
    """A switch that runs the program, made when it is asked for: most processes that collect tests run others."""
    return cache(lambda: switch(text))


def v1model(
    *,
    top: str = "",
    headers: str = "h_t h;",
    metadata: str = "",
    states: str = "state start { pkt.extract(hdr.h); transition accept; }",
    parser_locals: str = "",
    verify: str = "",
    locals: str = "",  # noqa: A002 - the locals of the ingress control
    ingress: str = "",
    egress_locals: str = "",
    egress: str = "",
    update: str = "",
    deparser: str = "pkt.emit(hdr);",
) -> str:
    """A v1model program. Header `h` is 4 bytes: a (8), b (8), c (16); what ingress does not send goes to port 1."""
    return f"""
#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; bit<16> c; }}
{top}
struct headers_t {{ {headers} }}
struct metadata_t {{ {metadata} }}
parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{
    {parser_locals}
    {states}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{
    {locals}
    apply {{ std.egress_spec = 1; {ingress} }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {{
    {egress_locals}
    apply {{ {egress} }}
}}
control U(inout headers_t hdr, inout metadata_t meta) {{ apply {{ {update} }} }}
control D(packet_out pkt, in headers_t hdr) {{ apply {{ {deparser} }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"""


def tna(
    *,
    top: str = "",
    headers: str = "h_t h;",
    metadata: str = "",
    states: str = "state parse { pkt.extract(hdr.h); transition accept; }",
    parser_locals: str = "",
    locals: str = "",  # noqa: A002 - the locals of the ingress control
    ingress: str = "",
    ingress_deparser_locals: str = "",
    ingress_deparser: str = "",
    egress_states: str = "state parse { pkt.extract(hdr.h); transition accept; }",
    egress_locals: str = "",
    egress: str = "",
    egress_deparser_locals: str = "",
    egress_deparser: str = "",
) -> str:
    """A TNA program with the same header; what ingress does not send goes to port 1."""
    return f"""
#include <core.p4>
#include <tna.p4>
header h_t {{ bit<8> a; bit<8> b; bit<16> c; }}
{top}
struct headers_t {{ {headers} }}
struct metadata_t {{ {metadata} }}
parser IP(packet_in pkt, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t ig_intr_md) {{
    {parser_locals}
    state start {{ pkt.extract(ig_intr_md); pkt.advance(PORT_METADATA_SIZE); transition parse; }}
    {states}
}}
control I(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md,
          in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
          inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
          inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {{
    {locals}
    apply {{ ig_tm_md.ucast_egress_port = 1; {ingress} }}
}}
control ID(packet_out pkt, inout headers_t hdr, in metadata_t meta,
           in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {{
    {ingress_deparser_locals}
    apply {{ {ingress_deparser} pkt.emit(hdr); }}
}}
parser EP(packet_in pkt, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg_intr_md) {{
    state start {{ pkt.extract(eg_intr_md); transition parse; }}
    {egress_states}
}}
control E(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
          in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
          inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
          inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {{
    {egress_locals}
    apply {{ {egress} }}
}}
control ED(packet_out pkt, inout headers_t hdr, in metadata_t meta,
           in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {{
    {egress_deparser_locals}
    apply {{ {egress_deparser} pkt.emit(hdr); }}
}}
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
"""


def only(sent: list[tuple[int, bytes]]) -> bytes:
    """The one frame that left."""
    assert len(sent) == 1, sent
    return sent[0][1]
