// Generated from spec/epic.toml by `epic spec gen`. Do not edit.
// Headers and codes of EPIC for P4-16.
#ifndef EPIC_HEADERS_P4
#define EPIC_HEADERS_P4

typedef bit<48> mac_addr_t;
typedef bit<32> ipv4_addr_t;
typedef bit<24> qpn_t;
typedef bit<24> psn_t;

@noWarn("unused") const bit<16> UDP_PORT = 4791;  // UDP destination port of RoCEv2 (IANA)
@noWarn("unused") const bit<32> PSN_BITS = 24;  // width of a packet sequence number
@noWarn("unused") const bit<32> QPN_BITS = 24;  // width of a queue pair number
@noWarn("unused") const bit<16> DEFAULT_PKEY = 65535;  // default partition key
@noWarn("unused") const bit<16> NO_RANK = 65535;  // rank field of a cell that names no rank
@noWarn("unused") const bit<32> TAG_MODULUS = 64;  // the collective counter in a descriptor is modulo this
@noWarn("unused") const bit<32> ICRC_BYTES = 4;  // length of the invariant CRC
@noWarn("unused") const bit<32> CONFLICT_RECORD_BYTES = 16;  // payload of an ERR cell that says who disagreed

@noWarn("unused") const bit<8> OPCODE_SEND_FIRST = 0x00;  // first packet of a message of several
@noWarn("unused") const bit<8> OPCODE_SEND_MIDDLE = 0x01;  // neither first nor last
@noWarn("unused") const bit<8> OPCODE_SEND_LAST = 0x02;  // last packet, no immediate; decoded, not used by any mode
@noWarn("unused") const bit<8> OPCODE_SEND_LAST_IMM = 0x03;  // last packet of a message of several, with the descriptor
@noWarn("unused") const bit<8> OPCODE_SEND_ONLY = 0x04;  // message of one packet, no immediate; decoded, not used by any mode
@noWarn("unused") const bit<8> OPCODE_SEND_ONLY_IMM = 0x05;  // message of one packet, with the descriptor: every cell of Modes II and III
@noWarn("unused") const bit<8> OPCODE_ACK = 0x11;  // acknowledgement, RNR NAK or NAK, as the syndrome says

@noWarn("unused") const bit<8> SYNDROME_ACK = 0x00;  // acknowledges this PSN and all before it; low 5 bits: credits, 0x1F for no limit
@noWarn("unused") const bit<8> SYNDROME_RNR_NAK = 0x20;  // receiver not ready; low 5 bits: RNR timer code
@noWarn("unused") const bit<8> SYNDROME_NAK = 0x60;  // negative acknowledgement; low 5 bits: reason

@noWarn("unused") const bit<8> NAK_PSN_SEQUENCE_ERROR = 0x00;  // a PSN was skipped; the PSN field is the one expected
@noWarn("unused") const bit<8> NAK_INVALID_REQUEST = 0x01;  // opcode sequence, message length or packet length is not allowed
@noWarn("unused") const bit<8> NAK_REMOTE_ACCESS = 0x02;  // not used
@noWarn("unused") const bit<8> NAK_REMOTE_OPERATIONAL = 0x03;  // the engine cannot go on with this edge

@noWarn("unused") const bit<2> PRIMITIVE_ALLREDUCE = 0x00;  // every rank contributes and receives; with operator NONE and NULL it is a Barrier
@noWarn("unused") const bit<2> PRIMITIVE_REDUCE = 0x01;  // every rank contributes, the rank named receives, the others receive NULL
@noWarn("unused") const bit<2> PRIMITIVE_BROADCAST = 0x02;  // the rank named contributes, every rank receives

@noWarn("unused") const bit<2> OPERATOR_NONE = 0x00;  // no arithmetic: only cells without payload (Barrier)
@noWarn("unused") const bit<2> OPERATOR_SUM = 0x01;  // integers wrap around in two's complement; IEEE 754 addition, round to nearest even
@noWarn("unused") const bit<2> OPERATOR_MAX = 0x02;  // signed maximum; IEEE 754-2019 maximum
@noWarn("unused") const bit<2> OPERATOR_MIN = 0x03;  // signed minimum; IEEE 754-2019 minimum

@noWarn("unused") const bit<4> DATATYPE_INT32 = 0x00;
@noWarn("unused") const bit<4> DATATYPE_FP32 = 0x01;
@noWarn("unused") const bit<4> DATATYPE_FP16 = 0x02;
@noWarn("unused") const bit<4> DATATYPE_BF16 = 0x03;
@noWarn("unused") const bit<4> DATATYPE_INT8 = 0x04;
@noWarn("unused") const bit<4> DATATYPE_INT16 = 0x05;
@noWarn("unused") const bit<4> DATATYPE_INT64 = 0x06;
@noWarn("unused") const bit<4> DATATYPE_FP64 = 0x07;
@noWarn("unused") const bit<8> SYNDROME_MASK = 0xe0;

// Indices for counters, in the order of epic.toml.
@noWarn("unused") const bit<8> COUNTER_RX_FRAMES = 0;
@noWarn("unused") const bit<8> COUNTER_RX_CONTRIBUTION = 1;
@noWarn("unused") const bit<8> COUNTER_RX_DUPLICATE = 2;
@noWarn("unused") const bit<8> COUNTER_RX_STALE = 3;
@noWarn("unused") const bit<8> COUNTER_RX_OUT_OF_ORDER = 4;
@noWarn("unused") const bit<8> COUNTER_RX_RESULT = 5;
@noWarn("unused") const bit<8> COUNTER_RX_ACK = 6;
@noWarn("unused") const bit<8> COUNTER_RX_NAK = 7;
@noWarn("unused") const bit<8> COUNTER_RX_RNR_NAK = 8;
@noWarn("unused") const bit<8> COUNTER_RX_CE = 9;
@noWarn("unused") const bit<8> COUNTER_TX_CONTRIBUTION = 10;
@noWarn("unused") const bit<8> COUNTER_TX_PARTIAL = 11;
@noWarn("unused") const bit<8> COUNTER_TX_RESULT = 12;
@noWarn("unused") const bit<8> COUNTER_TX_REPLAY = 13;
@noWarn("unused") const bit<8> COUNTER_TX_RESEND = 14;
@noWarn("unused") const bit<8> COUNTER_TX_RETRANSMISSION = 15;
@noWarn("unused") const bit<8> COUNTER_TX_ACK = 16;
@noWarn("unused") const bit<8> COUNTER_TX_NAK = 17;
@noWarn("unused") const bit<8> COUNTER_TX_RNR_NAK = 18;
@noWarn("unused") const bit<8> COUNTER_TX_REFLECTED = 19;
@noWarn("unused") const bit<8> COUNTER_CELLS_COMPLETED = 20;
@noWarn("unused") const bit<8> COUNTER_CELLS_POISONED = 21;
@noWarn("unused") const bit<8> COUNTER_EDGE_ERRORS = 22;
@noWarn("unused") const bit<8> COUNTER_TX_FRAMES = 23;
@noWarn("unused") const bit<8> COUNTER_TX_FAILED = 24;
@noWarn("unused") const bit<8> COUNTER_FAULT_LOST = 25;
@noWarn("unused") const bit<8> COUNTER_FAULT_DUPLICATED = 26;
@noWarn("unused") const bit<8> COUNTER_FAULT_REORDERED = 27;
@noWarn("unused") const bit<8> COUNTER_FAULT_CORRUPTED = 28;
@noWarn("unused") const bit<8> COUNTER_DROP_TRUNCATED = 29;
@noWarn("unused") const bit<8> COUNTER_DROP_ETHER_TYPE = 30;
@noWarn("unused") const bit<8> COUNTER_DROP_VLAN = 31;
@noWarn("unused") const bit<8> COUNTER_DROP_IP_VERSION = 32;
@noWarn("unused") const bit<8> COUNTER_DROP_IP_OPTIONS = 33;
@noWarn("unused") const bit<8> COUNTER_DROP_IP_CHECKSUM = 34;
@noWarn("unused") const bit<8> COUNTER_DROP_IP_LENGTH = 35;
@noWarn("unused") const bit<8> COUNTER_DROP_FRAGMENT = 36;
@noWarn("unused") const bit<8> COUNTER_DROP_PROTOCOL = 37;
@noWarn("unused") const bit<8> COUNTER_DROP_UDP_PORT = 38;
@noWarn("unused") const bit<8> COUNTER_DROP_UDP_LENGTH = 39;
@noWarn("unused") const bit<8> COUNTER_DROP_TVER = 40;
@noWarn("unused") const bit<8> COUNTER_DROP_OPCODE = 41;
@noWarn("unused") const bit<8> COUNTER_DROP_PAD = 42;
@noWarn("unused") const bit<8> COUNTER_DROP_SYNDROME = 43;
@noWarn("unused") const bit<8> COUNTER_DROP_DESCRIPTOR = 44;
@noWarn("unused") const bit<8> COUNTER_DROP_ICRC = 45;
@noWarn("unused") const bit<8> COUNTER_DROP_UNKNOWN_QPN = 46;
@noWarn("unused") const bit<8> COUNTER_DROP_WRONG_PORT = 47;
@noWarn("unused") const bit<8> COUNTER_DROP_WRONG_ADDRESS = 48;
@noWarn("unused") const bit<8> COUNTER_DROP_PKEY = 49;
@noWarn("unused") const bit<8> COUNTER_DROP_ROLE = 50;
@noWarn("unused") const bit<8> COUNTER_DROP_OVERSIZE = 51;
@noWarn("unused") const bit<8> COUNTER_DROP_ELEMENT = 52;
@noWarn("unused") const bit<8> COUNTER_DROP_WINDOW = 53;
@noWarn("unused") const bit<8> COUNTER_DROP_UNEXPECTED = 54;
@noWarn("unused") const bit<8> COUNTER_DROP_NO_BUFFER = 55;
@noWarn("unused") const bit<8> COUNTER_DROP_INVALID_REQUEST = 56;
@noWarn("unused") const bit<8> COUNTER_DROP_EDGE_ERROR = 57;
@noWarn("unused") const bit<8> COUNTERS = 58;

// Ethernet II
header ethernet_h {
    mac_addr_t dst_mac;  // destination address
    mac_addr_t src_mac;  // source address
    bit<16> ether_type;  // 0x0800 (IPv4)
}

// IPv4 without options (RFC 791)
header ipv4_h {
    bit<4> version;  // 4
    bit<4> ihl;  // 5: options are not used
    bit<6> dscp;  // traffic class; variant for the ICRC
    bit<2> ecn;  // RFC 3168 codepoint; variant for the ICRC
    bit<16> total_length;  // bytes from this header to the end of the ICRC
    bit<16> identification;  // any; 0 in the socket binding
    bit<3> flags;  // DF set, MF clear
    bit<13> fragment_offset;  // 0
    bit<8> ttl;  // variant for the ICRC
    bit<8> protocol;  // 17 (UDP)
    bit<16> header_checksum;  // variant for the ICRC
    ipv4_addr_t src_ip;  // source address
    ipv4_addr_t dst_ip;  // destination address
}

// UDP (RFC 768)
header udp_h {
    bit<16> src_port;  // path entropy, 0xC000 to 0xFFFF
    bit<16> dst_port;  // 4791
    bit<16> length;  // bytes from this header to the end of the ICRC
    bit<16> checksum;  // 0 when sent; ignored when received; variant for the ICRC
}

// InfiniBand base transport header
header bth_h {
    bit<8> opcode;  // see the table of opcodes
    bit<1> se;  // solicited event; sent as 0, ignored
    bit<1> migreq;  // migration state; sent as 0, ignored
    bit<2> pad;  // zero bytes added so that the payload is a multiple of 4
    bit<4> tver;  // 0
    bit<16> pkey;  // partition key
    bit<1> fecn;  // part of resv8a, variant for the ICRC; sent as 0
    bit<1> becn;  // part of resv8a, variant for the ICRC; sent as 0
    bit<6> resv8a;  // variant for the ICRC; sent as 0, ignored
    qpn_t dest_qpn;  // queue pair of the receiving end of the edge
    bit<1> ackreq;  // the sender asks for an acknowledgement
    bit<7> resv7;  // sent as 0, ignored
    psn_t psn;  // packet sequence number
}

// ACK extended transport header, in ACKNOWLEDGE only
header aeth_h {
    bit<8> syndrome;  // see the table of syndromes
    bit<24> msn;  // messages completed by the responder, modulo 2^24
}

// immediate data, in the opcodes WITH IMMEDIATE: the cell descriptor
header immdt_h {
    bit<16> rank;  // Reduce: destination; Broadcast: source; otherwise 0xFFFF
    bit<2> primitive;  // see the table of primitives
    bit<2> operator;  // see the table of operators
    bit<4> datatype;  // see the table of datatypes
    bit<1> null;  // no payload: the identity, or a suppressed result
    bit<1> err;  // poisoned: ranks disagree about this cell
    bit<6> tag;  // collective counter modulo 64
}

// InfiniBand base transport header, its last word in one piece
header bth_word_h {
    bit<8> opcode;  // see the table of opcodes
    bit<1> se;  // solicited event; sent as 0, ignored
    bit<1> migreq;  // migration state; sent as 0, ignored
    bit<2> pad;  // zero bytes added so that the payload is a multiple of 4
    bit<4> tver;  // 0
    bit<16> pkey;  // partition key
    bit<1> fecn;  // part of resv8a, variant for the ICRC; sent as 0
    bit<1> becn;  // part of resv8a, variant for the ICRC; sent as 0
    bit<6> resv8a;  // variant for the ICRC; sent as 0, ignored
    qpn_t dest_qpn;  // queue pair of the receiving end of the edge
    bit<32> ackreq_psn;  // ackreq, resv7 and psn, for arithmetic on 32 bits
}

// the invariant CRC that ends a frame
header icrc_h {
    bit<32> value;  // sent least significant byte first
}

#endif
