"""Small TNA programs for the tests of rules and estimates: a skeleton around what a test gives."""

from __future__ import annotations

from epic_p4.ast import Program
from epic_p4.frontend import compile_text
from epic_p4.rules.checks import RULES
from epic_p4.rules.context import Context
from epic_p4.rules.finding import Finding
from epic_p4.rules.target import TARGETS

MARK = "@@"

_SKELETON = """#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif
header eth_t { bit<48> dst; bit<48> src; bit<16> kind; }
header data_t { bit<32> a; bit<32> b; bit<32> c; bit<32> d; bit<16> h; bit<16> i;
                bit<8> x; bit<8> y; bit<24> t; bit<8> z; }
struct headers_t { eth_t eth; data_t data; }
struct pair_t { bit<32> lo; bit<32> hi; }
struct meta_t { bit<32> m; bit<32> n; bit<16> s; bit<8> f; bit<8> g; bool flag; bit<4> nibble; bit<64> wide; }
%(top)s
parser IP(packet_in pkt, out headers_t hdr, out meta_t meta, out ingress_intrinsic_metadata_t ig_intr_md) {
    state start { %(extract)s pkt.advance(PORT_METADATA_SIZE); pkt.extract(hdr.eth); pkt.extract(hdr.data);
        meta.m = 0; meta.n = 0; meta.s = 0; meta.f = 0; meta.g = 0; meta.flag = false; meta.nibble = 0; meta.wide = 0;
        transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t ig_intr_md,
          in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
          inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
          inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
%(locals)s
    apply {
%(apply)s
    }
}
control ID(packet_out pkt, inout headers_t hdr, in meta_t meta,
           in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
%(deparser_locals)s
    apply {
%(deparser)s
        pkt.emit(hdr);
    }
}
parser EP(packet_in pkt, out headers_t hdr, out meta_t meta, out egress_intrinsic_metadata_t eg_intr_md) {
    state start { pkt.extract(eg_intr_md); pkt.extract(hdr.eth); transition accept; }
}
control E(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t eg_intr_md,
          in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
          inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
          inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
%(egress_locals)s
    apply {
%(egress)s
    }
}
control ED(packet_out pkt, inout headers_t hdr, in meta_t meta,
           in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) { apply { pkt.emit(hdr); } }
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
"""


def source(
    apply: str = "",
    locals_: str = "",
    *,
    top: str = "",
    egress: str = "",
    egress_locals: str = "",
    extract: str = "pkt.extract(ig_intr_md);",
    deparser: str = "",
    deparser_locals: str = "",
) -> str:
    """The text of a program; it may hold the mark once."""
    return _SKELETON % {
        "apply": apply,
        "locals": locals_,
        "top": top,
        "egress": egress,
        "egress_locals": egress_locals,
        "extract": extract,
        "deparser": deparser,
        "deparser_locals": deparser_locals,
    }


def place(text: str) -> tuple[str, tuple[int, int]]:
    """The text without the mark, and (line, column) of where it stood."""
    before, _, after = text.partition(MARK)
    assert MARK not in after
    return before + after, (before.count("\n") + 1, len(before) - before.rfind("\n"))


def program(text: str, chip: int = 1) -> Program:
    """Compile a text for Tofino 1 or 2."""
    return compile_text(text, "t.p4", defines={"__TARGET_TOFINO__": str(chip)}, arch="tna")


def context(text: str, chip: int = 1) -> Context:
    """A program taken apart."""
    return Context.of(program(text, chip), TARGETS[f"tofino{chip}"])


def findings(text: str, chip: int = 1) -> list[Finding]:
    """What all rules find."""
    found = context(text, chip)
    return [one for rule in RULES for one in rule.check(found)]


def register(name: str, cell: str = "bit<32>", size: int = 1024) -> str:
    """A register."""
    return f"    Register<{cell}, bit<16>>({size}) {name};\n"


def register_action(
    name: str, on: str, body: str, cell: str = "bit<32>", result: str = "bit<32>", parameters: str = ""
) -> str:
    """A RegisterAction with one result."""
    return (
        f"    RegisterAction<{cell}, bit<16>, {result}>({on}) {name} = {{\n"
        f"        void apply(inout {cell} value, out {result} rv{parameters}) {{ {body} }}\n    }};\n"
    )
