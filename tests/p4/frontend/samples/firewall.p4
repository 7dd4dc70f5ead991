// A stateful firewall: two Bloom filters in registers, indexed by hashes of the flow.
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

#define FILTER_BITS 4096
#define FILTER(n) register<bit<1>, bit<32>>(FILTER_BITS) filter_##n

header ethernet_h { bit<48> dst; bit<48> src; bit<16> ethertype; }
header ipv4_h { bit<72> begin; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst; }
header tcp_h { bit<16> src_port; bit<16> dst_port; bit<64> numbers; bit<4> offset; bit<4> reserved; bit<8> flags; bit<48> rest; }
struct headers_t { ethernet_h ethernet; ipv4_h ipv4; tcp_h tcp; }
struct flow_t { bit<32> src; bit<32> dst; bit<16> src_port; bit<16> dst_port; }
struct metadata_t { flow_t flow; bit<1> direction; }

parser FirewallParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) { 0x800: ipv4; _: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) { 6: tcp; default: accept; }
    }
    state tcp { packet.extract(hdr.tcp); transition accept; }
}

control None(inout headers_t hdr, inout metadata_t meta) { apply { } }

control FirewallIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    FILTER(one);
    FILTER(two);
    bit<32> first = 0;
    bit<32> second = 0;

    action drop() { mark_to_drop(sm); }
    action places(in flow_t flow) {
        hash(first, HashAlgorithm.crc16, 32w0, {flow.src, flow.dst, flow.src_port, flow.dst_port}, 32w4096);
        hash(second, HashAlgorithm.crc32, 32w0, flow, 32w4096);
    }
    action set_direction(bit<1> direction) { meta.direction = direction; }
    action forward(bit<9> port) { sm.egress_spec = port; }

    table ports {
        key = { sm.ingress_port: exact; sm.egress_spec: exact; }
        actions = { set_direction; NoAction; }
    }
    table forwarding {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop;
    }

    apply {
        forwarding.apply();
        if (hdr.tcp.isValid()) {
            if (ports.apply().hit) {
                if (meta.direction == 0) {
                    meta.flow = {hdr.ipv4.src, hdr.ipv4.dst, hdr.tcp.src_port, hdr.tcp.dst_port};
                } else {
                    meta.flow = {src = hdr.ipv4.dst, dst = hdr.ipv4.src, dst_port = hdr.tcp.src_port, src_port = hdr.tcp.dst_port};
                }
                places(meta.flow);
                if (meta.direction == 0 && hdr.tcp.flags[1:1] == 1) {
                    filter_one.write(first, 1);
                    filter_two.write(second, 1);
                } else if (meta.direction == 1) {
                    bit<1> seen_one;
                    bit<1> seen_two;
                    filter_one.read(seen_one, first);
                    filter_two.read(seen_two, second);
                    if ((seen_one & seen_two) != 1) { drop(); }
                }
            }
        }
    }
}

control FirewallEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control FirewallDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.tcp);
    }
}
V1Switch(FirewallParser(), None(), FirewallIngress(), FirewallEgress(), None(), FirewallDeparser()) main;
