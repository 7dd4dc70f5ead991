// Source routing over a header stack, and a path record pushed in egress.
#include <v1model.p4>

#define HOPS 9

header ethernet_h { bit<48> dst; bit<48> src; bit<16> ethertype; }
header hop_h { bit<1> last; bit<15> port; }
header trace_h { bit<8> node; bit<8> depth; }
struct headers_t { ethernet_h ethernet; hop_h[HOPS] hops; trace_h[4] trace; }
struct metadata_t { bit<8> left; }
error { TooManyHops }

parser SourceParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) { 0x1234: hop; default: accept; }
    }
    state hop {
        verify(hdr.hops.lastIndex + 1 < HOPS, error.TooManyHops);
        packet.extract(hdr.hops.next);
        transition select(hdr.hops.last.last) { 1: peek; default: hop; }
    }
    state peek {
        meta.left = packet.lookahead<bit<16>>()[15:8];
        packet.advance(16);
        transition select(meta.left) { 0: accept; default: trace; }
    }
    state trace {
        packet.extract(hdr.trace.next);
        meta.left = meta.left - 1;
        transition select(meta.left) { 0 &&& 0xFF: accept; _: trace; }
    }
}

control None(inout headers_t hdr, inout metadata_t meta) { apply { } }

control SourceIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.hops[0].isValid()) {
            sm.egress_spec = (bit<9>) hdr.hops[0].port;
            hdr.hops.pop_front(1);
        } else {
            mark_to_drop(sm);
        }
    }
}

control SourceEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action record(bit<8> node) {
        hdr.trace.push_front(1);
        hdr.trace[0].setValid();
        hdr.trace[0] = {node, (bit<8>) sm.deq_qdepth};
    }
    table nodes { actions = { record; NoAction; } default_action = NoAction(); }
    apply { nodes.apply(); }
}

control SourceDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.hops);
        packet.emit(hdr.trace);
    }
}
V1Switch(SourceParser(), None(), SourceIngress(), SourceEgress(), None(), SourceDeparser()) main;
