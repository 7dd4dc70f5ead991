// Records that pass between the modules of the RTL realization, and codes that are its own. `include this inside a
// module, after epic_pkg.vh. A field is record[<RECORD>_<FIELD>_LSB +: <RECORD>_<FIELD>_WIDTH].

/* verilator lint_off UNUSEDPARAM */

// ---------------------------------------------------------------------------------------------------------------- META
// One record for each frame that epic_rx has received. `verdict` is 0 for a good frame, the index of a COUNTER_DROP_*,
// or VERDICT_FORWARDED (given to the forwarding stream: counted in rx_frames, nothing else).
// Beats are in the payload FIFO exactly when verdict = 0, opcode = SEND_ONLY_IMM and 1 <= payload_bytes <= MTU:
// ceil(payload_bytes / BYTES) of them, zero behind the payload. payload_bytes is without Pad, 0 for an ACK, saturated.
localparam integer META_VERDICT_LSB = 0;
localparam integer META_VERDICT_WIDTH = 8;
localparam integer META_ICRC_OK_LSB = 8;
localparam integer META_ICRC_OK_WIDTH = 1;
localparam integer META_CE_LSB = 9;  // ECN field is CE
localparam integer META_CE_WIDTH = 1;
localparam integer META_ACKREQ_LSB = 10;
localparam integer META_ACKREQ_WIDTH = 1;
localparam integer META_OPCODE_LSB = 11;
localparam integer META_OPCODE_WIDTH = 8;
localparam integer META_PAYLOAD_BYTES_LSB = 19;
localparam integer META_PAYLOAD_BYTES_WIDTH = 14;
localparam integer META_QPN_LSB = 33;
localparam integer META_QPN_WIDTH = 24;
localparam integer META_PSN_LSB = 57;
localparam integer META_PSN_WIDTH = 24;
localparam integer META_PKEY_LSB = 81;
localparam integer META_PKEY_WIDTH = 16;
localparam integer META_IMM_LSB = 97;  // the descriptor, or the AETH of an ACK
localparam integer META_IMM_WIDTH = 32;
localparam integer META_SRC_IP_LSB = 129;
localparam integer META_SRC_IP_WIDTH = 32;
localparam integer META_DST_IP_LSB = 161;
localparam integer META_DST_IP_WIDTH = 32;
localparam integer META_SRC_MAC_LSB = 193;
localparam integer META_SRC_MAC_WIDTH = 48;
localparam integer META_DST_MAC_LSB = 241;
localparam integer META_DST_MAC_WIDTH = 48;
localparam integer META_W = 289;

localparam [7:0] VERDICT_FORWARDED = 8'hff;

// ----------------------------------------------------------------------------------------------------------------- JOB
// One frame that epic_tx shall send. `psn` is the one on the wire. With has_payload the next ceil(payload_bytes / BYTES)
// beats of the port's payload stream belong to it; without, payload_bytes is 0. `imm` is the descriptor or the AETH.
localparam integer JOB_EDGE_LSB = 0;
localparam integer JOB_EDGE_WIDTH = 8;
localparam integer JOB_OPCODE_LSB = 8;
localparam integer JOB_OPCODE_WIDTH = 8;
localparam integer JOB_PSN_LSB = 16;
localparam integer JOB_PSN_WIDTH = 24;
localparam integer JOB_ACKREQ_LSB = 40;
localparam integer JOB_ACKREQ_WIDTH = 1;
localparam integer JOB_CE_LSB = 41;
localparam integer JOB_CE_WIDTH = 1;
localparam integer JOB_HAS_PAYLOAD_LSB = 42;
localparam integer JOB_HAS_PAYLOAD_WIDTH = 1;
localparam integer JOB_PAYLOAD_BYTES_LSB = 43;
localparam integer JOB_PAYLOAD_BYTES_WIDTH = 14;
localparam integer JOB_IMM_LSB = 57;
localparam integer JOB_IMM_WIDTH = 32;
localparam integer JOB_W = 89;

// ---------------------------------------------------------------------------------------------------------------- EDGE
// An edge as it is installed. The part up to EDGE_TX_W is what epic_tx needs; it has a copy of its own for each port.
localparam integer EDGE_PEER_MAC_LSB = 0;  // destination of what is sent, source of what is received
localparam integer EDGE_PEER_MAC_WIDTH = 48;
localparam integer EDGE_OWN_MAC_LSB = 48;
localparam integer EDGE_OWN_MAC_WIDTH = 48;
localparam integer EDGE_PEER_IP_LSB = 96;
localparam integer EDGE_PEER_IP_WIDTH = 32;
localparam integer EDGE_OWN_IP_LSB = 128;
localparam integer EDGE_OWN_IP_WIDTH = 32;
localparam integer EDGE_PKEY_LSB = 160;
localparam integer EDGE_PKEY_WIDTH = 16;
localparam integer EDGE_SPORT_LSB = 176;  // UDP source port of what is sent
localparam integer EDGE_SPORT_WIDTH = 16;
localparam integer EDGE_PEER_QPN_LSB = 192;
localparam integer EDGE_PEER_QPN_WIDTH = 24;
localparam integer EDGE_ICRC_LSB = 216;  // 1: full, 0: none (sent as 0, not looked at)
localparam integer EDGE_ICRC_WIDTH = 1;
localparam integer EDGE_TX_W = 217;
localparam integer EDGE_ROLE_LSB = 217;
localparam integer EDGE_ROLE_WIDTH = 2;
localparam integer EDGE_PORT_LSB = 219;
localparam integer EDGE_PORT_WIDTH = 3;
localparam integer EDGE_OWN_QPN_LSB = 224;  // the key
localparam integer EDGE_OWN_QPN_WIDTH = 24;
localparam integer EDGE_GROUP_LSB = 248;
localparam integer EDGE_GROUP_WIDTH = 8;
localparam integer EDGE_PSN_RX_LSB = 256;  // PSN of cell 0 of what arrives
localparam integer EDGE_PSN_RX_WIDTH = 24;
localparam integer EDGE_CHILD_LSB = 280;  // bit of the bitmap
localparam integer EDGE_CHILD_WIDTH = 6;
localparam integer EDGE_PSN_TX_LSB = 288;  // PSN of cell 0 of what is sent
localparam integer EDGE_PSN_TX_WIDTH = 24;
localparam integer EDGE_W = 320;

localparam [1:0] ROLE_NONE = 2'd0;  // entry not in use
localparam [1:0] ROLE_HOST = 2'd1;  // a child that is a host
localparam [1:0] ROLE_ENGINE = 2'd2;  // a child that is an engine
localparam [1:0] ROLE_PARENT = 2'd3;

// --------------------------------------------------------------------------------------------------------------- GROUP
localparam integer GROUP_SLOT_BASE_LSB = 0;  // first slot of the group's range
localparam integer GROUP_SLOT_BASE_WIDTH = 16;
localparam integer GROUP_SLOT_LOG2_LSB = 16;  // log2 of N
localparam integer GROUP_SLOT_LOG2_WIDTH = 4;
localparam integer GROUP_FAN_IN_LSB = 24;  // children less one
localparam integer GROUP_FAN_IN_WIDTH = 6;
localparam integer GROUP_PAYLOAD_BYTES_LSB = 32;  // P
localparam integer GROUP_PAYLOAD_BYTES_WIDTH = 14;
localparam integer GROUP_PARENT_EDGE_LSB = 48;
localparam integer GROUP_PARENT_EDGE_WIDTH = 8;
localparam integer GROUP_PARENT_PORT_LSB = 56;
localparam integer GROUP_PARENT_PORT_WIDTH = 3;
localparam integer GROUP_ROOT_LSB = 59;
localparam integer GROUP_ROOT_WIDTH = 1;
localparam integer GROUP_GUARD_LSB = 60;  // window_guard
localparam integer GROUP_GUARD_WIDTH = 1;
localparam integer GROUP_REFLECTION_LSB = 61;  // ack_reflection
localparam integer GROUP_REFLECTION_WIDTH = 1;
localparam integer GROUP_ECN_LSB = 62;
localparam integer GROUP_ECN_WIDTH = 1;
localparam integer GROUP_RECORD_LSB = 63;  // conflict_record
localparam integer GROUP_RECORD_WIDTH = 1;
localparam integer GROUP_ROW_LSB = 64;  // first row of its multicast
localparam integer GROUP_ROW_WIDTH = 8;
localparam integer GROUP_ROWS_LSB = 72;  // rows less one: the most children that share a port, less one
localparam integer GROUP_ROWS_WIDTH = 6;
localparam integer GROUP_OPERATORS_LSB = 80;  // bit OPERATOR_*; bit 0 (NONE) is 0
localparam integer GROUP_OPERATORS_WIDTH = 4;
localparam integer GROUP_DATATYPES_LSB = 84;  // bit DATATYPE_*
localparam integer GROUP_DATATYPES_WIDTH = 8;
localparam integer GROUP_LITTLE_LSB = 92;  // byte_order of elements
localparam integer GROUP_LITTLE_WIDTH = 1;
localparam integer GROUP_W = 93;

// ----------------------------------------------------------------------------------------------------------------- REQ
// Mode III: a frame after admission, on its way to the slots.
localparam [1:0] KIND_NONE = 2'd0;  // dropped, or nothing to do: counted
localparam [1:0] KIND_CONTRIBUTION = 2'd1;
localparam [1:0] KIND_RESULT = 2'd2;
localparam [1:0] KIND_REFLECTION = 2'd3;

localparam integer REQ_KIND_LSB = 0;
localparam integer REQ_KIND_WIDTH = 2;
localparam integer REQ_REASON_LSB = 2;  // KIND_NONE: counter of the outcome; COUNTERS for none
localparam integer REQ_REASON_WIDTH = 8;
localparam integer REQ_CE_LSB = 10;
localparam integer REQ_CE_WIDTH = 1;
localparam integer REQ_PORT_LSB = 11;
localparam integer REQ_PORT_WIDTH = 3;
localparam integer REQ_HAS_BEATS_LSB = 14;  // payload beats wait in the port's FIFO
localparam integer REQ_HAS_BEATS_WIDTH = 1;
localparam integer REQ_EDGE_LSB = 15;
localparam integer REQ_EDGE_WIDTH = 8;
localparam integer REQ_CHILD_LSB = 23;
localparam integer REQ_CHILD_WIDTH = 6;
localparam integer REQ_CELL_LSB = 29;  // reflection: the PSN of the acknowledgement that is sent
localparam integer REQ_CELL_WIDTH = 24;
localparam integer REQ_SLOT_LSB = 53;
localparam integer REQ_SLOT_WIDTH = 16;
localparam integer REQ_IMM_LSB = 69;
localparam integer REQ_IMM_WIDTH = 32;
localparam integer REQ_BYTES_LSB = 101;
localparam integer REQ_BYTES_WIDTH = 14;
localparam integer REQ_OP_LSB = 115;  // LANE_* of a payload
localparam integer REQ_OP_WIDTH = 4;
localparam integer REQ_LACKS_LSB = 119;  // the group lacks the operator or datatype
localparam integer REQ_LACKS_WIDTH = 1;
localparam integer REQ_FAN_IN_LSB = 120;
localparam integer REQ_FAN_IN_WIDTH = 6;
localparam integer REQ_SLOT_LOG2_LSB = 126;
localparam integer REQ_SLOT_LOG2_WIDTH = 4;
localparam integer REQ_ROOT_LSB = 130;
localparam integer REQ_ROOT_WIDTH = 1;
localparam integer REQ_GUARD_LSB = 131;
localparam integer REQ_GUARD_WIDTH = 1;
localparam integer REQ_RECORD_LSB = 132;
localparam integer REQ_RECORD_WIDTH = 1;
localparam integer REQ_ECN_LSB = 133;
localparam integer REQ_ECN_WIDTH = 1;
localparam integer REQ_LITTLE_LSB = 134;
localparam integer REQ_LITTLE_WIDTH = 1;
localparam integer REQ_PARENT_EDGE_LSB = 135;
localparam integer REQ_PARENT_EDGE_WIDTH = 8;
localparam integer REQ_PARENT_PORT_LSB = 143;
localparam integer REQ_PARENT_PORT_WIDTH = 3;
localparam integer REQ_ROW_LSB = 146;
localparam integer REQ_ROW_WIDTH = 8;
localparam integer REQ_ROWS_LSB = 154;
localparam integer REQ_ROWS_WIDTH = 6;
localparam integer REQ_W = 160;

// ---------------------------------------------------------------------------------------------------------------- PASS
// Mode III: what is to be done with the data of a frame and of its slot.
localparam [1:0] SEND_NOTHING = 2'd0;
localparam [1:0] SEND_ONE = 2'd1;  // over one edge
localparam [1:0] SEND_ALL = 2'd2;  // to every child

localparam integer PASS_SRC_LSB = 0;  // port whose payload is meant by DRAIN and USE
localparam integer PASS_SRC_WIDTH = 3;
localparam integer PASS_DRAIN_LSB = 3;  // the payload is thrown away
localparam integer PASS_DRAIN_WIDTH = 1;
localparam integer PASS_USE_LSB = 4;  // the payload is operand A
localparam integer PASS_USE_WIDTH = 1;
localparam integer PASS_IN_BYTES_LSB = 5;  // its length
localparam integer PASS_IN_BYTES_WIDTH = 14;
localparam integer PASS_SLOT_LSB = 19;
localparam integer PASS_SLOT_WIDTH = 16;
localparam integer PASS_OP_LSB = 35;
localparam integer PASS_OP_WIDTH = 4;
localparam integer PASS_LITTLE_LSB = 39;
localparam integer PASS_LITTLE_WIDTH = 1;
localparam integer PASS_WRITE_LSB = 40;  // what leaves the lanes is kept in the slot
localparam integer PASS_WRITE_WIDTH = 1;
localparam integer PASS_RECORD_LSB = 41;  // operand A is the conflict record
localparam integer PASS_RECORD_WIDTH = 1;
localparam integer PASS_HELD_LSB = 42;
localparam integer PASS_HELD_WIDTH = 32;
localparam integer PASS_HELD_BYTES_LSB = 74;
localparam integer PASS_HELD_BYTES_WIDTH = 14;
localparam integer PASS_OTHER_LSB = 88;
localparam integer PASS_OTHER_WIDTH = 32;
localparam integer PASS_OTHER_BYTES_LSB = 120;
localparam integer PASS_OTHER_BYTES_WIDTH = 14;
localparam integer PASS_SEND_LSB = 134;
localparam integer PASS_SEND_WIDTH = 2;
localparam integer PASS_PORT_LSB = 136;  // SEND_ONE: where to
localparam integer PASS_PORT_WIDTH = 3;
localparam integer PASS_EDGE_LSB = 139;
localparam integer PASS_EDGE_WIDTH = 8;
localparam integer PASS_ROW_LSB = 147;  // SEND_ALL: the group's rows
localparam integer PASS_ROW_WIDTH = 8;
localparam integer PASS_ROWS_LSB = 155;
localparam integer PASS_ROWS_WIDTH = 6;
localparam integer PASS_ACK_LSB = 161;
localparam integer PASS_ACK_WIDTH = 1;
localparam integer PASS_CELL_LSB = 162;  // ACK: the PSN
localparam integer PASS_CELL_WIDTH = 24;
localparam integer PASS_IMM_LSB = 186;
localparam integer PASS_IMM_WIDTH = 32;
localparam integer PASS_BYTES_LSB = 218;  // length of what is written or sent; 0: no beats
localparam integer PASS_BYTES_WIDTH = 14;
localparam integer PASS_CE_LSB = 232;
localparam integer PASS_CE_WIDTH = 1;
localparam integer PASS_UP_LSB = 233;  // to the parent
localparam integer PASS_UP_WIDTH = 1;
localparam integer PASS_W = 234;

// ----------------------------------------------------------------------------------------------------- lane operations
// A is the payload that arrives, B what the slot holds.
localparam [3:0] LANE_A = 4'd0;
localparam [3:0] LANE_B = 4'd1;
localparam [3:0] LANE_OR = 4'd2;  // bytewise, for Broadcast
localparam [3:0] LANE_INT32_SUM = 4'd4;
localparam [3:0] LANE_INT32_MAX = 4'd5;
localparam [3:0] LANE_INT32_MIN = 4'd6;
localparam [3:0] LANE_FP32_SUM = 4'd8;
localparam [3:0] LANE_FP32_MAX = 4'd9;
localparam [3:0] LANE_FP32_MIN = 4'd10;
localparam [3:0] LANE_FP16_SUM = 4'd12;
localparam [3:0] LANE_FP16_MAX = 4'd13;
localparam [3:0] LANE_FP16_MIN = 4'd14;
localparam [3:0] LANE_BF16_SUM = 4'd7;
localparam [3:0] LANE_BF16_MAX = 4'd11;
localparam [3:0] LANE_BF16_MIN = 4'd15;

// Form of a slot's word where 16-bit floats are an option (epic_lanes): bits above the word's two halves.
localparam integer FORM_WIDE = 0;    // binary32 in both halves, of 16-bit elements; else a beat in the low half
localparam integer FORM_BF16 = 1;    // they are rounded to bfloat16, else to binary16
localparam integer FORM_LITTLE = 2;  // and leave least significant byte first
localparam integer FORM_W = 3;

// ------------------------------------------------------------------------------------------------------ table commands
localparam [3:0] TABLE_EDGE = 4'd1;
localparam [3:0] TABLE_GROUP = 4'd2;
localparam [3:0] TABLE_ROW = 4'd3;
localparam [3:0] TABLE_BELOW = 4'd4;
localparam [3:0] TABLE_SLOT_CLEAR = 4'd5;
localparam [3:0] TABLE_SLOT_READ = 4'd6;
localparam [3:0] TABLE_FORWARD = 4'd7;

/* verilator lint_on UNUSEDPARAM */
