// Generated from spec/epic.toml by `epic spec gen`. Do not edit.
// Codes and header layout of EPIC. `include this inside a module (Verilog-2005 has no packages).
// A header as a vector of <HEADER>_BITS has its first bit on the wire as its most significant bit:
// a field is header[<HEADER>_<FIELD>_LSB +: <HEADER>_<FIELD>_WIDTH].
// <HEADER>_BYTE is where the header starts in a frame.

/* verilator lint_off UNUSEDPARAM */

localparam [31:0] UDP_PORT = 32'h000012b7;  // UDP destination port of RoCEv2 (IANA)
localparam [31:0] PSN_BITS = 32'h00000018;  // width of a packet sequence number
localparam [31:0] QPN_BITS = 32'h00000018;  // width of a queue pair number
localparam [31:0] DEFAULT_PKEY = 32'h0000ffff;  // default partition key
localparam [31:0] NO_RANK = 32'h0000ffff;  // rank field of a cell that names no rank
localparam [31:0] TAG_MODULUS = 32'h00000040;  // the collective counter in a descriptor is modulo this
localparam [31:0] ICRC_BYTES = 32'h00000004;  // length of the invariant CRC
localparam [31:0] CONFLICT_RECORD_BYTES = 32'h00000010;  // payload of an ERR cell that says who disagreed

localparam [7:0] OPCODE_SEND_FIRST = 8'h00;  // first packet of a message of several
localparam [7:0] OPCODE_SEND_MIDDLE = 8'h01;  // neither first nor last
localparam [7:0] OPCODE_SEND_LAST = 8'h02;  // last packet, no immediate; decoded, not used by any mode
localparam [7:0] OPCODE_SEND_LAST_IMM = 8'h03;  // last packet of a message of several, with the descriptor
localparam [7:0] OPCODE_SEND_ONLY = 8'h04;  // message of one packet, no immediate; decoded, not used by any mode
localparam [7:0] OPCODE_SEND_ONLY_IMM = 8'h05;  // message of one packet, with the descriptor: every cell of Modes II and III
localparam [7:0] OPCODE_ACK = 8'h11;  // acknowledgement, RNR NAK or NAK, as the syndrome says

localparam [7:0] SYNDROME_ACK = 8'h00;  // acknowledges this PSN and all before it; low 5 bits: credits, 0x1F for no limit
localparam [7:0] SYNDROME_RNR_NAK = 8'h20;  // receiver not ready; low 5 bits: RNR timer code
localparam [7:0] SYNDROME_NAK = 8'h60;  // negative acknowledgement; low 5 bits: reason

localparam [7:0] NAK_PSN_SEQUENCE_ERROR = 8'h00;  // a PSN was skipped; the PSN field is the one expected
localparam [7:0] NAK_INVALID_REQUEST = 8'h01;  // opcode sequence, message length or packet length is not allowed
localparam [7:0] NAK_REMOTE_ACCESS = 8'h02;  // not used
localparam [7:0] NAK_REMOTE_OPERATIONAL = 8'h03;  // the engine cannot go on with this edge

localparam [1:0] PRIMITIVE_ALLREDUCE = 2'h0;  // every rank contributes and receives; with operator NONE and NULL it is a Barrier
localparam [1:0] PRIMITIVE_REDUCE = 2'h1;  // every rank contributes, the rank named receives, the others receive NULL
localparam [1:0] PRIMITIVE_BROADCAST = 2'h2;  // the rank named contributes, every rank receives

localparam [1:0] OPERATOR_NONE = 2'h0;  // no arithmetic: only cells without payload (Barrier)
localparam [1:0] OPERATOR_SUM = 2'h1;  // integers wrap around in two's complement; IEEE 754 addition, round to nearest even
localparam [1:0] OPERATOR_MAX = 2'h2;  // signed maximum; IEEE 754-2019 maximum
localparam [1:0] OPERATOR_MIN = 2'h3;  // signed minimum; IEEE 754-2019 minimum

localparam [3:0] DATATYPE_INT32 = 4'h0;
localparam [3:0] DATATYPE_FP32 = 4'h1;
localparam [3:0] DATATYPE_FP16 = 4'h2;
localparam [3:0] DATATYPE_BF16 = 4'h3;
localparam [3:0] DATATYPE_INT8 = 4'h4;
localparam [3:0] DATATYPE_INT16 = 4'h5;
localparam [3:0] DATATYPE_INT64 = 4'h6;
localparam [3:0] DATATYPE_FP64 = 4'h7;
localparam [7:0] SYNDROME_MASK = 8'he0;  // bits that tell the kind

// log2 of the bytes of an element.
localparam [1:0] DATATYPE_INT32_LOG2 = 2'h2;
localparam [1:0] DATATYPE_FP32_LOG2 = 2'h2;
localparam [1:0] DATATYPE_FP16_LOG2 = 2'h1;
localparam [1:0] DATATYPE_BF16_LOG2 = 2'h1;
localparam [1:0] DATATYPE_INT8_LOG2 = 2'h0;
localparam [1:0] DATATYPE_INT16_LOG2 = 2'h1;
localparam [1:0] DATATYPE_INT64_LOG2 = 2'h3;
localparam [1:0] DATATYPE_FP64_LOG2 = 2'h3;

// Indices for counters, in the order of epic.toml.
localparam [7:0] COUNTER_RX_FRAMES = 8'h00;
localparam [7:0] COUNTER_RX_CONTRIBUTION = 8'h01;
localparam [7:0] COUNTER_RX_DUPLICATE = 8'h02;
localparam [7:0] COUNTER_RX_STALE = 8'h03;
localparam [7:0] COUNTER_RX_OUT_OF_ORDER = 8'h04;
localparam [7:0] COUNTER_RX_RESULT = 8'h05;
localparam [7:0] COUNTER_RX_ACK = 8'h06;
localparam [7:0] COUNTER_RX_NAK = 8'h07;
localparam [7:0] COUNTER_RX_RNR_NAK = 8'h08;
localparam [7:0] COUNTER_RX_CE = 8'h09;
localparam [7:0] COUNTER_TX_CONTRIBUTION = 8'h0a;
localparam [7:0] COUNTER_TX_PARTIAL = 8'h0b;
localparam [7:0] COUNTER_TX_RESULT = 8'h0c;
localparam [7:0] COUNTER_TX_REPLAY = 8'h0d;
localparam [7:0] COUNTER_TX_RESEND = 8'h0e;
localparam [7:0] COUNTER_TX_RETRANSMISSION = 8'h0f;
localparam [7:0] COUNTER_TX_ACK = 8'h10;
localparam [7:0] COUNTER_TX_NAK = 8'h11;
localparam [7:0] COUNTER_TX_RNR_NAK = 8'h12;
localparam [7:0] COUNTER_TX_REFLECTED = 8'h13;
localparam [7:0] COUNTER_CELLS_COMPLETED = 8'h14;
localparam [7:0] COUNTER_CELLS_POISONED = 8'h15;
localparam [7:0] COUNTER_EDGE_ERRORS = 8'h16;
localparam [7:0] COUNTER_TX_FRAMES = 8'h17;
localparam [7:0] COUNTER_TX_FAILED = 8'h18;
localparam [7:0] COUNTER_FAULT_LOST = 8'h19;
localparam [7:0] COUNTER_FAULT_DUPLICATED = 8'h1a;
localparam [7:0] COUNTER_FAULT_REORDERED = 8'h1b;
localparam [7:0] COUNTER_FAULT_CORRUPTED = 8'h1c;
localparam [7:0] COUNTER_DROP_TRUNCATED = 8'h1d;
localparam [7:0] COUNTER_DROP_ETHER_TYPE = 8'h1e;
localparam [7:0] COUNTER_DROP_VLAN = 8'h1f;
localparam [7:0] COUNTER_DROP_IP_VERSION = 8'h20;
localparam [7:0] COUNTER_DROP_IP_OPTIONS = 8'h21;
localparam [7:0] COUNTER_DROP_IP_CHECKSUM = 8'h22;
localparam [7:0] COUNTER_DROP_IP_LENGTH = 8'h23;
localparam [7:0] COUNTER_DROP_FRAGMENT = 8'h24;
localparam [7:0] COUNTER_DROP_PROTOCOL = 8'h25;
localparam [7:0] COUNTER_DROP_UDP_PORT = 8'h26;
localparam [7:0] COUNTER_DROP_UDP_LENGTH = 8'h27;
localparam [7:0] COUNTER_DROP_TVER = 8'h28;
localparam [7:0] COUNTER_DROP_OPCODE = 8'h29;
localparam [7:0] COUNTER_DROP_PAD = 8'h2a;
localparam [7:0] COUNTER_DROP_SYNDROME = 8'h2b;
localparam [7:0] COUNTER_DROP_DESCRIPTOR = 8'h2c;
localparam [7:0] COUNTER_DROP_ICRC = 8'h2d;
localparam [7:0] COUNTER_DROP_UNKNOWN_QPN = 8'h2e;
localparam [7:0] COUNTER_DROP_WRONG_PORT = 8'h2f;
localparam [7:0] COUNTER_DROP_WRONG_ADDRESS = 8'h30;
localparam [7:0] COUNTER_DROP_PKEY = 8'h31;
localparam [7:0] COUNTER_DROP_ROLE = 8'h32;
localparam [7:0] COUNTER_DROP_OVERSIZE = 8'h33;
localparam [7:0] COUNTER_DROP_ELEMENT = 8'h34;
localparam [7:0] COUNTER_DROP_WINDOW = 8'h35;
localparam [7:0] COUNTER_DROP_UNEXPECTED = 8'h36;
localparam [7:0] COUNTER_DROP_NO_BUFFER = 8'h37;
localparam [7:0] COUNTER_DROP_INVALID_REQUEST = 8'h38;
localparam [7:0] COUNTER_DROP_EDGE_ERROR = 8'h39;
localparam [7:0] COUNTERS = 8'h3a;  // how many there are

// Ethernet II
localparam integer ETHERNET_BYTE = 0;
localparam integer ETHERNET_BITS = 112;
localparam integer ETHERNET_DST_MAC_LSB = 64;  // destination address
localparam integer ETHERNET_DST_MAC_WIDTH = 48;
localparam integer ETHERNET_SRC_MAC_LSB = 16;  // source address
localparam integer ETHERNET_SRC_MAC_WIDTH = 48;
localparam integer ETHERNET_ETHER_TYPE_LSB = 0;  // 0x0800 (IPv4)
localparam integer ETHERNET_ETHER_TYPE_WIDTH = 16;

// IPv4 without options (RFC 791)
localparam integer IPV4_BYTE = 14;
localparam integer IPV4_BITS = 160;
localparam integer IPV4_VERSION_LSB = 156;  // 4
localparam integer IPV4_VERSION_WIDTH = 4;
localparam integer IPV4_IHL_LSB = 152;  // 5: options are not used
localparam integer IPV4_IHL_WIDTH = 4;
localparam integer IPV4_DSCP_LSB = 146;  // traffic class; variant for the ICRC
localparam integer IPV4_DSCP_WIDTH = 6;
localparam integer IPV4_ECN_LSB = 144;  // RFC 3168 codepoint; variant for the ICRC
localparam integer IPV4_ECN_WIDTH = 2;
localparam integer IPV4_TOTAL_LENGTH_LSB = 128;  // bytes from this header to the end of the ICRC
localparam integer IPV4_TOTAL_LENGTH_WIDTH = 16;
localparam integer IPV4_IDENTIFICATION_LSB = 112;  // any; 0 in the socket binding
localparam integer IPV4_IDENTIFICATION_WIDTH = 16;
localparam integer IPV4_FLAGS_LSB = 109;  // DF set, MF clear
localparam integer IPV4_FLAGS_WIDTH = 3;
localparam integer IPV4_FRAGMENT_OFFSET_LSB = 96;  // 0
localparam integer IPV4_FRAGMENT_OFFSET_WIDTH = 13;
localparam integer IPV4_TTL_LSB = 88;  // variant for the ICRC
localparam integer IPV4_TTL_WIDTH = 8;
localparam integer IPV4_PROTOCOL_LSB = 80;  // 17 (UDP)
localparam integer IPV4_PROTOCOL_WIDTH = 8;
localparam integer IPV4_HEADER_CHECKSUM_LSB = 64;  // variant for the ICRC
localparam integer IPV4_HEADER_CHECKSUM_WIDTH = 16;
localparam integer IPV4_SRC_IP_LSB = 32;  // source address
localparam integer IPV4_SRC_IP_WIDTH = 32;
localparam integer IPV4_DST_IP_LSB = 0;  // destination address
localparam integer IPV4_DST_IP_WIDTH = 32;

// UDP (RFC 768)
localparam integer UDP_BYTE = 34;
localparam integer UDP_BITS = 64;
localparam integer UDP_SRC_PORT_LSB = 48;  // path entropy, 0xC000 to 0xFFFF
localparam integer UDP_SRC_PORT_WIDTH = 16;
localparam integer UDP_DST_PORT_LSB = 32;  // 4791
localparam integer UDP_DST_PORT_WIDTH = 16;
localparam integer UDP_LENGTH_LSB = 16;  // bytes from this header to the end of the ICRC
localparam integer UDP_LENGTH_WIDTH = 16;
localparam integer UDP_CHECKSUM_LSB = 0;  // 0 when sent; ignored when received; variant for the ICRC
localparam integer UDP_CHECKSUM_WIDTH = 16;

// InfiniBand base transport header
localparam integer BTH_BYTE = 42;
localparam integer BTH_BITS = 96;
localparam integer BTH_OPCODE_LSB = 88;  // see the table of opcodes
localparam integer BTH_OPCODE_WIDTH = 8;
localparam integer BTH_SE_LSB = 87;  // solicited event; sent as 0, ignored
localparam integer BTH_SE_WIDTH = 1;
localparam integer BTH_MIGREQ_LSB = 86;  // migration state; sent as 0, ignored
localparam integer BTH_MIGREQ_WIDTH = 1;
localparam integer BTH_PAD_LSB = 84;  // zero bytes added so that the payload is a multiple of 4
localparam integer BTH_PAD_WIDTH = 2;
localparam integer BTH_TVER_LSB = 80;  // 0
localparam integer BTH_TVER_WIDTH = 4;
localparam integer BTH_PKEY_LSB = 64;  // partition key
localparam integer BTH_PKEY_WIDTH = 16;
localparam integer BTH_FECN_LSB = 63;  // part of resv8a, variant for the ICRC; sent as 0
localparam integer BTH_FECN_WIDTH = 1;
localparam integer BTH_BECN_LSB = 62;  // part of resv8a, variant for the ICRC; sent as 0
localparam integer BTH_BECN_WIDTH = 1;
localparam integer BTH_RESV8A_LSB = 56;  // variant for the ICRC; sent as 0, ignored
localparam integer BTH_RESV8A_WIDTH = 6;
localparam integer BTH_DEST_QPN_LSB = 32;  // queue pair of the receiving end of the edge
localparam integer BTH_DEST_QPN_WIDTH = 24;
localparam integer BTH_ACKREQ_LSB = 31;  // the sender asks for an acknowledgement
localparam integer BTH_ACKREQ_WIDTH = 1;
localparam integer BTH_RESV7_LSB = 24;  // sent as 0, ignored
localparam integer BTH_RESV7_WIDTH = 7;
localparam integer BTH_PSN_LSB = 0;  // packet sequence number
localparam integer BTH_PSN_WIDTH = 24;

// ACK extended transport header, in ACKNOWLEDGE only
localparam integer AETH_BYTE = 54;
localparam integer AETH_BITS = 32;
localparam integer AETH_SYNDROME_LSB = 24;  // see the table of syndromes
localparam integer AETH_SYNDROME_WIDTH = 8;
localparam integer AETH_MSN_LSB = 0;  // messages completed by the responder, modulo 2^24
localparam integer AETH_MSN_WIDTH = 24;

// immediate data, in the opcodes WITH IMMEDIATE: the cell descriptor
localparam integer IMMDT_BYTE = 54;
localparam integer IMMDT_BITS = 32;
localparam integer IMMDT_RANK_LSB = 16;  // Reduce: destination; Broadcast: source; otherwise 0xFFFF
localparam integer IMMDT_RANK_WIDTH = 16;
localparam integer IMMDT_PRIMITIVE_LSB = 14;  // see the table of primitives
localparam integer IMMDT_PRIMITIVE_WIDTH = 2;
localparam integer IMMDT_OPERATOR_LSB = 12;  // see the table of operators
localparam integer IMMDT_OPERATOR_WIDTH = 2;
localparam integer IMMDT_DATATYPE_LSB = 8;  // see the table of datatypes
localparam integer IMMDT_DATATYPE_WIDTH = 4;
localparam integer IMMDT_NULL_LSB = 7;  // no payload: the identity, or a suppressed result
localparam integer IMMDT_NULL_WIDTH = 1;
localparam integer IMMDT_ERR_LSB = 6;  // poisoned: ranks disagree about this cell
localparam integer IMMDT_ERR_WIDTH = 1;
localparam integer IMMDT_TAG_LSB = 0;  // collective counter modulo 64
localparam integer IMMDT_TAG_WIDTH = 6;

/* verilator lint_on UNUSEDPARAM */
