// What every switch does, for the frames that are not of an installed edge: bridging, and routing of what is addressed
// to the switch's own MAC. A frame that no entry takes is dropped for the reason that made it none of ours.
#ifndef EPIC_FORWARD_P4
#define EPIC_FORWARD_P4

#include "types.p4"

// With `found`, `out_group` (or, when that is 0, `out_port`) says where to. `ipv4_right`: the header's checksum was right.
control Forward(inout headers_t hdr, inout meta_t meta, in bool ipv4_right, out bit<1> found, out port_t out_port,
                out multicast_t out_group) {
    @id(0x01020001)
    action to_port(port_t port) {
        found = 1;
        out_port = port;
    }

    // To every port of the group but the one that the frame came by (egress leaves that out).
    @id(0x01020002)
    action flood(multicast_t group) {
        found = 1;
        out_group = group;
    }

    @id(0x01020003)
    action route() {
        meta.routed = 1;
    }

    @id(0x01020004)
    action miss() {
    }

    @id(0x02020001)
    table l2 {
        key = { hdr.ethernet.dst_mac: exact @name("dst_mac"); }
        actions = { to_port; flood; route; miss; }
        default_action = miss;
        size = ROUTES;
    }

    @id(0x01020005)
    action next_hop(mac_addr_t src_mac, mac_addr_t dst_mac, port_t port) {
        hdr.ethernet.src_mac = src_mac;
        hdr.ethernet.dst_mac = dst_mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        meta.rewritten = 1;
        found = 1;
        out_port = port;
    }

    // An address of the switch itself: nothing here answers to it.
    @id(0x01020006)
    action local() {
    }

    @id(0x02020002)
    table ipv4 {
        key = { hdr.ipv4.dst_ip: lpm @name("dst_ip"); }
        actions = { next_hop; local; }
        const default_action = local;
        size = ROUTES;
    }

    apply {
        found = 0;
        out_port = 0;
        out_group = 0;
        l2.apply();
        // Routers drop what has a wrong checksum, options (left to a control plane elsewhere) or no hops left.
        if (meta.routed == 1 && hdr.ipv4.isValid() && ipv4_right && hdr.ipv4.version == 4 && hdr.ipv4.ihl == 5
            && hdr.ipv4.ttl > 1) {
            ipv4.apply();
        }
    }
}

#endif
