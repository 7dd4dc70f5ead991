// A calculator in a header: actions with arguments, a table of operations, a function, direct calls of controls.
#include <v1model.p4>

header ethernet_h { bit<48> dst; bit<48> src; bit<16> ethertype; }
header calculation_h { bit<8> op; bit<32> a; bit<32> b; bit<32> result; }
struct headers_t { ethernet_h ethernet; calculation_h calculation; }
struct metadata_t { }

bit<32> larger(in bit<32> a, in bit<32> b) {
    if (a > b) { return a; }
    return b;
}

parser CalculatorParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) { 0x1234: calculation; default: accept; }
    }
    state calculation { packet.extract(hdr.calculation); transition accept; }
}
control None(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Reflect(inout ethernet_h ethernet, inout standard_metadata_t sm) {
    apply {
        bit<48> dst = ethernet.dst;
        ethernet.dst = ethernet.src;
        ethernet.src = dst;
        sm.egress_spec = sm.ingress_port;
    }
}

control CalculatorIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action answer(in bit<32> value) { hdr.calculation.result = value; }
    action add() { answer(hdr.calculation.a + hdr.calculation.b); }
    action subtract() { answer(hdr.calculation.a |-| hdr.calculation.b); }
    action most() { answer(larger(hdr.calculation.a, hdr.calculation.b)); }
    action drop() { mark_to_drop(sm); }
    table operations {
        key = { hdr.calculation.op: exact @name("op"); }
        actions = { add; subtract; most; drop; }
        const default_action = drop();
        const entries = { 0x2b: add(); 0x2d: subtract(); 0x3e: most(); }
    }
    apply {
        if (hdr.calculation.isValid()) {
            operations.apply();
            Reflect.apply(hdr.ethernet, sm);
        } else { drop(); }
    }
}
control CalculatorEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control CalculatorDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(CalculatorParser(), None(), CalculatorIngress(), CalculatorEgress(), None(), CalculatorDeparser()) main;
