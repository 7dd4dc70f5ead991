// The frame as it leaves over an edge (spec sections 4.4 and 4.5). What ingress made is the same for all edges; here it
// gets the edge's addresses and PSN, and at an edge below which nobody receives a Reduce's result it loses the payload.
#ifndef EPIC_EDGE_OUT_P4
#define EPIC_EDGE_OUT_P4

#include "types.p4"

#define STRIP_CHUNK(c) hdr.words_##c.setInvalid();

// `found`: the edge is installed. The IPv4 checksum and the ICRC are the caller's.
control EdgeOut(inout headers_t hdr, inout meta_t meta, in edge_t edge_id, out bit<1> found) {
    @id(0x01030001)
    @name(".EpicEgress.rewrite")
    action rewrite(mac_addr_t src_mac, mac_addr_t dst_mac, ipv4_addr_t src_ip, ipv4_addr_t dst_ip, bit<16> src_port,
                   qpn_t qpn, cell_t data_base, cell_t ack_base, bit<16> pkey
#ifndef EPIC_TNA
                   , bit<1> icrc
#endif
    ) {
        found = 1;
        hdr.ethernet.src_mac = src_mac;
        hdr.ethernet.dst_mac = dst_mac;
        hdr.ipv4.src_ip = src_ip;
        hdr.ipv4.dst_ip = dst_ip;
        hdr.udp.src_port = src_port;
        hdr.bth.dest_qpn = qpn;
        hdr.bth.pkey = pkey;
        meta.data_base = data_base;
        meta.ack_base = ack_base;
#ifndef EPIC_TNA
        meta.icrc = icrc;
#endif
    }

    @id(0x02030001)
    @name(".EpicEgress.edge_out")
    table edge_out {
        key = { edge_id: exact @name("edge_id"); }
        actions = { rewrite; @defaultonly NoAction; }
        const default_action = NoAction;
        size = EDGES;
    }

    @id(0x01030002)
    @name(".EpicEgress.is_below")
    action is_below() {
    }

    // Nobody below this edge is the rank that the Reduce is for.
    action suppress() {
        meta.suppressed = 1;
    }

    @id(0x02030002)
    @name(".EpicEgress.below")
    table below {
        key = {
            edge_id: exact @name("edge_id");
            hdr.immdt.rank: exact @name("rank");
        }
        actions = { is_below; @defaultonly suppress; }
        const default_action = suppress;
        size = RANKS;
    }

    apply {
        found = 0;
        edge_out.apply();
        if (hdr.immdt.primitive == PRIMITIVE_REDUCE && hdr.immdt.null == 0 && hdr.immdt.err == 0
            && (meta.sent == COUNTER_TX_RESULT || meta.sent == COUNTER_TX_REPLAY)) {
            below.apply();
        }
        if (meta.suppressed == 1) {
            hdr.immdt.null = 1;
            meta.bytes = 0;
            EACH_CHUNK(STRIP_CHUNK)
        }
    }
}

#endif
