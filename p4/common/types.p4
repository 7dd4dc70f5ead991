// Headers of a frame, and what is known of a packet between the controls.
#ifndef EPIC_TYPES_P4
#define EPIC_TYPES_P4

#include "payload.p4"

#define CHUNK_MEMBER(c) words_##c##_h words_##c;

#ifdef EPIC_TNA
// What egress must know of what ingress did, for TNA hands on nothing but the packet. It never leaves the switch.
header bridge_h {
    bit<8> sent;
    bit<6> _pad0;
    bit<1> flooded;
    bit<1> congested;
    bit<7> _pad1;
    bit<9> ingress_port;
    bit<16> bytes;
    cell_t cell;
}
#endif

struct headers_t {
#ifdef EPIC_TNA
    bridge_h bridge;
#endif
    ethernet_h ethernet;
    ipv4_h ipv4;
    udp_h udp;
    bth_word_h bth;
    aeth_h aeth;
    immdt_h immdt;
    EACH_CHUNK(CHUNK_MEMBER)
    icrc_h icrc;
}

struct meta_t {
    // Why the frame is not used: the index of its counter; 0: it is used.
    bit<8> reason;
    // A reason that counts only for a frame of an edge: found by the parser, held against the frame once admitted.
    bit<8> fault;
    // The frame is one of an edge: from its port, addresses and P_Key.
    bit<1> admitted;
    // The index of the counter of what became of the packet: `reason`, or a reception.
    bit<8> outcome;

    // The edge that the packet came over.
    bit<1> known;
    bit<1> right_port;
    bit<1> right_address;
    bit<1> right_pkey;
    edge_t edge_id;
    bit<16> group;
    bit<2> role;
    children_t child_bit;
    cell_t data_offset;
    cell_t ack_offset;

    // Its group.
    bit<1> root;
    children_t full_map;
    bit<32> slot_base;
    bit<32> slot_mask;
    bit<16> payload_bytes;
    bit<4> offered;
    bit<1> reflection;
    bit<1> ecn;
    multicast_t parent;
    multicast_t children;
    bit<1> guard;
    bit<1> icrc;
    bit<32> generation;

    // The packet: its cell and slot, payload in bytes and words, what it would do to the words.
    bit<2> kind;
    cell_t cell;
    bit<32> slot;
    bit<16> bytes;
    bit<16> room;
    bit<32> mask;
    bit<16> rounded;  // payload bytes + 3: from bit 2 up the number of words
    bit<1> fragmentary;
    bit<1> ce;
    bit<3> operation;
    bit<1> unsupported;

    // The slot as the packet finds it.
    bit<2> age;
    bit<1> seen;
    bit<1> full;
    bit<8> flags;
    bit<1> overrun;

    // What is decided: see decide.p4.
    bit<1> counted;
    bit<1> completed;
    bit<1> accepted;
    bit<1> finished;
    bit<1> whole;
    bit<1> poisoned;
    bit<8> sent;
    multicast_t send_to;
    bit<1> congested;
    // The edge that it leaves over.
    cell_t data_base;
    cell_t ack_base;
    bit<1> suppressed;

    // A plain frame addressed to this switch's MAC.
    bit<1> routed;
    // The IPv4 header is new.
    bit<1> rewritten;

#ifdef EPIC_TNA
    // A stateful ALU gives back what it held; what follows from that is worked out in the stages between.
    bit<1> ipv4_wrong;
    bit<16> udp_excess;
    bit<32> number_offset;   // data_offset as a number of cells
    cell_t ahead;            // cell less tag
    children_t before;       // bitmap before this packet
    children_t others;       // the bits of the other children
    children_t seen_bit;     // before & child_bit
    children_t lacks_others; // before ^ others: 0 when this packet completes the cell
    children_t lacks;        // before ^ full: 0 when the cell was complete
    bit<8> begin_flags;      // flags of a slot that this contribution takes
    bit<8> join_flags;       // what it adds to those of a slot in use
    bit<8> finish_flags;     // the same with done
    bit<32> word;            // the immediate
    bit<32> agreement;       // without NULL and ERR
    bit<32> held;
    bit<32> differs;
    bit<16> counted_bytes;   // payload that counts for the length of the cell
    bit<16> length_before;
    bit<16> length_differs;
    bit<16> length_after;
    bit<1> wrong;            // the contribution poisons the cell
    bit<8> err_before;
    bit<1> err;
#endif
}

#endif
