// Is this frame one of an installed edge, and of which group (spec section 4.2)? The four look-ups need only the frame,
// so a pipeline makes them side by side; `verdict` then names what failed.
#ifndef EPIC_ADMISSION_P4
#define EPIC_ADMISSION_P4

#include "types.p4"

control Admission(inout headers_t hdr, inout meta_t meta, in port_t port) {
    @id(0x01010001)
    action set_edge(edge_t edge_id, bit<16> group, bit<2> role, children_t child_bit, cell_t data_offset,
                    cell_t ack_offset) {
        meta.known = 1;
        meta.edge_id = edge_id;
        meta.group = group;
        meta.role = role;
        meta.child_bit = child_bit;
        meta.data_offset = data_offset;
        meta.ack_offset = ack_offset;
#ifdef EPIC_TNA
        meta.number_offset = (bit<32>)data_offset[31:8];
#endif
    }

    @id(0x02010001)
    table edge {
        key = { hdr.bth.dest_qpn: exact @name("qpn"); }
        actions = { set_edge; @defaultonly NoAction; }
        const default_action = NoAction;
        size = EDGES;
    }

    @id(0x01010002)
    action right_port() {
        meta.right_port = 1;
    }

    @id(0x02010002)
    table edge_port {
        key = {
            hdr.bth.dest_qpn: exact @name("qpn");
            port: exact @name("port");
        }
        actions = { right_port; @defaultonly NoAction; }
        const default_action = NoAction;
        size = EDGES;
    }

    @id(0x01010003)
    action right_address() {
        meta.right_address = 1;
    }

    @id(0x02010003)
    table edge_address {
        key = {
            hdr.bth.dest_qpn: exact @name("qpn");
            hdr.ethernet.src_mac: exact @name("src_mac");
            hdr.ethernet.dst_mac: exact @name("dst_mac");
            hdr.ipv4.src_ip: exact @name("src_ip");
            hdr.ipv4.dst_ip: exact @name("dst_ip");
        }
        actions = { right_address; @defaultonly NoAction; }
        const default_action = NoAction;
        size = EDGES;
    }

    @id(0x01010004)
    action right_pkey() {
        meta.right_pkey = 1;
    }

    @id(0x02010004)
    table edge_pkey {
        key = {
            hdr.bth.dest_qpn: exact @name("qpn");
            hdr.bth.pkey: exact @name("pkey");
        }
        actions = { right_pkey; @defaultonly NoAction; }
        const default_action = NoAction;
        size = EDGES;
    }

    action refuse(bit<8> reason) {
        meta.reason = reason;
    }

    action admit() {
        meta.admitted = 1;
        meta.reason = meta.fault;
    }

    @hidden
    table verdict {
        key = {
            meta.reason: ternary;
            meta.known: ternary;
            meta.right_port: ternary;
            meta.right_address: ternary;
            meta.right_pkey: ternary;
        }
        actions = { refuse; admit; @defaultonly NoAction; }
        const entries = {
            (0, 0, _, _, _): refuse(COUNTER_DROP_UNKNOWN_QPN);
            (0, 1, 0, _, _): refuse(COUNTER_DROP_WRONG_PORT);
            (0, 1, 1, 0, _): refuse(COUNTER_DROP_WRONG_ADDRESS);
            (0, 1, 1, 1, 0): refuse(COUNTER_DROP_PKEY);
            (0, 1, 1, 1, 1): admit();
        }
        const default_action = NoAction;  // malformed
    }

    // What the group is: its installation (spec section 4.1), as far as ingress needs it.
    @id(0x01010007)
    action set_group(
        bit<1> root,
        children_t full,
        bit<32> slot_base,
        bit<32> slot_mask,
        bit<16> payload_bytes,
        bit<4> offered,
        bit<1> reflection,
        bit<1> ecn,
        multicast_t parent,
        multicast_t children
#ifndef EPIC_TNA
        , bit<1> guard
        , bit<1> icrc
        , bit<32> generation
#endif
    ) {
        meta.root = root;
        meta.full_map = full;
        meta.slot_base = slot_base;
        meta.slot_mask = slot_mask;
        meta.payload_bytes = payload_bytes;
        meta.offered = offered;
        meta.reflection = reflection;
        meta.ecn = ecn;
        meta.parent = parent;
        meta.children = children;
#ifndef EPIC_TNA
        meta.guard = guard;
        meta.icrc = icrc;
        meta.generation = generation;
#endif
    }

    @id(0x02010007)
    table group {
        key = { meta.group: exact @name("group"); }
        actions = { set_group; @defaultonly NoAction; }
        const default_action = NoAction;
        size = GROUPS;
    }

    apply {
        edge.apply();
        edge_port.apply();
        edge_address.apply();
        edge_pkey.apply();
        group.apply();
        verdict.apply();
    }
}

#endif
