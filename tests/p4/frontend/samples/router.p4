// An IPv4 router: longest prefix match, TTL, header checksum, a counter for each port.
#include <core.p4>
#include <v1model.p4>

typedef bit<48> mac_t;
typedef bit<32> ipv4_t;
@p4runtime_translation("example.org/port", 32)
type bit<9> port_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
enum bit<8> Protocol { ICMP = 1, TCP = 6, UDP = 17 }

header ethernet_h { mac_t dst; mac_t src; bit<16> ethertype; }
header ipv4_h {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> total_length;
    bit<16> identification; bit<3> flags; bit<13> fragment;
    bit<8> ttl; Protocol protocol; bit<16> checksum;
    ipv4_t src; ipv4_t dst;
}
@controller_header("packet_in")
header packet_in_h { bit<9> ingress_port; bit<7> pad; }

struct headers_t { packet_in_h to_cpu; ethernet_h ethernet; ipv4_h ipv4; }
struct metadata_t { port_t next; bool routed; }

parser RouterParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.ihl >= 5, error.ParserInvalidArgument);
        transition select(hdr.ipv4.version, hdr.ipv4.protocol) {
            (4, Protocol.ICMP): accept;
            (4, 6 .. 17): accept;
            (4, _): accept;
        }
    }
}

control RouterVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            {hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.identification,
             hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst},
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Counting(in bit<9> port)(bit<32> size) {
    @brief("Frames by port")
    counter(size, CounterType.packets_and_bytes) frames;
    apply { frames.count((bit<32>) port); }
}

control RouterIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets) hits;
    Counting(512) counting;

    action drop() { mark_to_drop(standard); }
    action route(mac_t next_hop, @name("port") port_t out_port) {
        meta.next = out_port;
        meta.routed = true;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = next_hop;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hits.count();
    }

    @id(42)
    table routes {
        key = { hdr.ipv4.dst: lpm @name("destination"); }
        actions = { route; drop; @defaultonly NoAction; }
        counters = hits;
        size = 1 << 12;
        default_action = drop();
    }
    table filter {
        key = { hdr.ipv4.src: ternary; hdr.ipv4.protocol: exact; standard.ingress_port: range; hdr.ipv4.isValid(): exact; }
        actions = { NoAction; drop; }
        const default_action = NoAction();
        const entries = {
            (0x0A000000 &&& 0xFF000000, Protocol.UDP, 1 .. 4, true): drop();
            (_, Protocol.ICMP, _, true): NoAction();
        }
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1 && standard.checksum_error == 0) {
            switch (filter.apply().action_run) {
                drop: { return; }
                default: { }
            }
            if (!routes.apply().hit) { exit; }
            standard.egress_spec = (bit<9>) meta.next;
        } else {
            drop();
        }
        counting.apply(standard.ingress_port);
    }
}

control RouterEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control RouterChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            {hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.identification,
             hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst},
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

@pkginfo(name="router", version="1.2")
V1Switch(RouterParser(), RouterVerify(), RouterIngress(), RouterEgress(), RouterChecksum(), RouterDeparser()) main;
