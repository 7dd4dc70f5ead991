// A small v1model program with one of everything that P4Runtime can reach: the tests of the server load it.
#include <core.p4>
#include <v1model.p4>
#include "small_headers.p4"

#ifndef HOSTS
#define HOSTS 4
#endif

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct meta_t {
    bit<16> class_of;
}

parser SmallParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control SmallVerify(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control SmallIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    @id(0x12010001)
    counter(16, CounterType.packets_and_bytes) arrivals;
    @id(0x16010001)
    register<bit<32>>(8) last_class;
    @id(0x13010001)
    direct_counter(CounterType.packets_and_bytes) host_hits;

    @id(0x01010001)
    action drop() {
        mark_to_drop(standard);
    }

    @id(0x01010002)
    action forward(@id(1) bit<9> port) {
        standard.egress_spec = port;
        host_hits.count();
    }

    @id(0x01010003)
    action unknown() {
        mark_to_drop(standard);
        host_hits.count();
    }

    @id(0x02010001)
    table hosts {
        key = { hdr.ethernet.dst: exact @name("dst"); }
        actions = { forward; @defaultonly unknown; }
        default_action = unknown();
        size = HOSTS;
        counters = host_hits;
    }

    @id(0x01010004)
    action route(@id(1) bit<48> next, @id(2) bit<9> port) {
        hdr.ethernet.dst = next;
        standard.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    @id(0x02010002)
    table routes {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { route; drop; }
        default_action = drop();
        size = 16;
    }

    @id(0x01010005)
    action classify(@id(1) bit<16> value) {
        meta.class_of = value;
    }

    @id(0x02010003)
    table classes {
        key = {
            hdr.ethernet.src: ternary @name("src");
            hdr.ethernet.ether_type: exact @name("type");
            standard.ingress_port: range @name("port");
        }
        actions = { classify; }
        const default_action = classify(0);
        size = 8;
    }

    @id(0x01010006)
    action spread(@id(1) bit<16> group) {
        standard.mcast_grp = group;
    }

    @id(0x02010004)
    table fixed_types {
        key = { hdr.ethernet.ether_type: exact @name("type"); }
        actions = { spread; @tableonly drop; NoAction; }
        default_action = NoAction();
        const entries = {
            0x88b5: spread(7);
            0x88b6: drop();
        }
        size = 2;
    }

    apply {
        arrivals.count((bit<32>)standard.ingress_port);
        classes.apply();
        last_class.write((bit<32>)standard.ingress_port, (bit<32>)meta.class_of);
        if (!fixed_types.apply().hit) {
            if (hdr.ipv4.isValid() && hdr.ethernet.dst == 0x020000000001) {
                routes.apply();
            } else {
                hosts.apply();
            }
        }
    }
}

control SmallEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    apply { }
}

control SmallCompute(inout headers_t hdr, inout meta_t meta) {
    apply { }
}

control SmallDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(SmallParser(), SmallVerify(), SmallIngress(), SmallEgress(), SmallCompute(), SmallDeparser()) main;
