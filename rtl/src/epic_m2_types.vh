// Records of Mode II, and what its table commands are. `include this inside a module, after epic_types.vh.

/* verilator lint_off UNUSEDPARAM */

// --------------------------------------------------------------------------------------------------------------- TIMERS
// What a group's installation says of retransmission, in microseconds.
localparam integer TIMERS_INITIAL_LSB = 0;
localparam integer TIMERS_INITIAL_WIDTH = 32;
localparam integer TIMERS_MIN_LSB = 32;
localparam integer TIMERS_MIN_WIDTH = 32;
localparam integer TIMERS_MAX_LSB = 64;
localparam integer TIMERS_MAX_WIDTH = 32;
localparam integer TIMERS_RETRY_LIMIT_LSB = 96;
localparam integer TIMERS_RETRY_LIMIT_WIDTH = 8;
localparam integer TIMERS_W = 104;

// ------------------------------------------------------------------------------------------------------------------ RC
// Both directions of an edge (spec sections 7.2 and 7.3). Cell numbers are modulo 2^24, counted from the edge's bases.
// Sent and not acknowledged: UNA to CUR - 1. CUR is what is sent next; going back N is CUR := UNA.
localparam integer RC_UNA_LSB = 0;
localparam integer RC_UNA_WIDTH = 24;
localparam integer RC_CUR_LSB = 24;
localparam integer RC_CUR_WIDTH = 24;
localparam integer RC_HIGH_LSB = 48;  // sent at least once: all before it
localparam integer RC_HIGH_WIDTH = 24;
localparam integer RC_SERVED_LSB = 72;  // nak_served
localparam integer RC_SERVED_WIDTH = 24;
localparam integer RC_SERVED_VALID_LSB = 96;  // 0: long ago
localparam integer RC_SERVED_VALID_WIDTH = 1;
localparam integer RC_PAUSED_LSB = 97;  // by an RNR NAK, until DEADLINE
localparam integer RC_PAUSED_WIDTH = 1;
localparam integer RC_SAMPLED_LSB = 98;  // SRTT and RTTVAR are valid
localparam integer RC_SAMPLED_WIDTH = 1;
localparam integer RC_NAK_SENT_LSB = 99;  // responder: the gap has had its NAK
localparam integer RC_NAK_SENT_WIDTH = 1;
localparam integer RC_RETRIES_LSB = 100;
localparam integer RC_RETRIES_WIDTH = 8;
localparam integer RC_EXPECTED_LSB = 108;  // responder
localparam integer RC_EXPECTED_WIDTH = 24;
localparam integer RC_TIMEOUT_LSB = 132;  // with backoff
localparam integer RC_TIMEOUT_WIDTH = 32;
localparam integer RC_BASE_LSB = 164;  // without
localparam integer RC_BASE_WIDTH = 32;
localparam integer RC_SRTT_LSB = 196;  // eight fraction bits
localparam integer RC_SRTT_WIDTH = 40;
localparam integer RC_VAR_LSB = 236;  // eight fraction bits
localparam integer RC_VAR_WIDTH = 40;
localparam integer RC_DEADLINE_LSB = 276;
localparam integer RC_DEADLINE_WIDTH = 32;
localparam integer RC_W = 308;

// Events of a requester.
localparam [2:0] RC_NOTHING = 3'd0;
localparam [2:0] RC_ACK = 3'd1;
localparam [2:0] RC_NAK = 3'd2;
localparam [2:0] RC_REFUSED = 3'd3;  // a NAK for good
localparam [2:0] RC_RNR = 3'd4;
localparam [2:0] RC_IMPLICIT = 3'd5;  // all before `number` have arrived
localparam [2:0] RC_TIMER = 3'd6;
localparam [2:0] RC_SENT = 3'd7;  // packet CUR was given to the port

// ------------------------------------------------------------------------------------------------------------------ IN
// A frame after admission, on its way to the sequencer.
localparam [1:0] IN_NONE = 2'd0;  // dropped: counted
localparam [1:0] IN_ACK = 2'd1;
localparam [1:0] IN_DATA = 2'd2;

localparam integer IN_KIND_LSB = 0;
localparam integer IN_KIND_WIDTH = 2;
localparam integer IN_REASON_LSB = 2;  // IN_NONE: its counter; COUNTERS for none
localparam integer IN_REASON_WIDTH = 8;
localparam integer IN_FORWARDED_LSB = 10;
localparam integer IN_FORWARDED_WIDTH = 1;
localparam integer IN_CE_LSB = 11;
localparam integer IN_CE_WIDTH = 1;
localparam integer IN_PORT_LSB = 12;
localparam integer IN_PORT_WIDTH = 3;
localparam integer IN_HAS_BEATS_LSB = 15;  // payload beats wait in the port's FIFO
localparam integer IN_HAS_BEATS_WIDTH = 1;
localparam integer IN_EDGE_LSB = 16;
localparam integer IN_EDGE_WIDTH = 8;
localparam integer IN_NUMBER_LSB = 24;  // of the packet, or of the one that is acknowledged
localparam integer IN_NUMBER_WIDTH = 24;
localparam integer IN_IMM_LSB = 48;  // descriptor or AETH
localparam integer IN_IMM_WIDTH = 32;
localparam integer IN_BYTES_LSB = 80;
localparam integer IN_BYTES_WIDTH = 14;
localparam integer IN_ACKREQ_LSB = 94;
localparam integer IN_ACKREQ_WIDTH = 1;
localparam integer IN_W = 95;

// ---------------------------------------------------------------------------------------------------------------- MOVE
// What is to be done with data: IN_BEATS beats leave the port's FIFO; OUT_BEATS beats, A and B through the lanes, are
// stored and pushed to ports.
localparam integer MOVE_SRC_LSB = 0;
localparam integer MOVE_SRC_WIDTH = 3;
localparam integer MOVE_RECORD_LSB = 3;  // A is the conflict record
localparam integer MOVE_RECORD_WIDTH = 1;
localparam integer MOVE_WRITE_LSB = 4;
localparam integer MOVE_WRITE_WIDTH = 1;
localparam integer MOVE_LITTLE_LSB = 5;
localparam integer MOVE_LITTLE_WIDTH = 1;
localparam integer MOVE_OP_LSB = 6;
localparam integer MOVE_OP_WIDTH = 4;
localparam integer MOVE_PORTS_LSB = 10;  // bit p: push to port p
localparam integer MOVE_PORTS_WIDTH = 8;
localparam integer MOVE_IN_BYTES_LSB = 18;
localparam integer MOVE_IN_BYTES_WIDTH = 14;
localparam integer MOVE_OUT_BYTES_LSB = 32;
localparam integer MOVE_OUT_BYTES_WIDTH = 14;
localparam integer MOVE_FROM_LSB = 46;  // B: {slot, 1 for bcast}
localparam integer MOVE_FROM_WIDTH = 17;
localparam integer MOVE_TO_LSB = 63;
localparam integer MOVE_TO_WIDTH = 17;
localparam integer MOVE_HELD_LSB = 80;
localparam integer MOVE_HELD_WIDTH = 32;
localparam integer MOVE_HELD_BYTES_LSB = 112;
localparam integer MOVE_HELD_BYTES_WIDTH = 14;
localparam integer MOVE_OTHER_LSB = 126;
localparam integer MOVE_OTHER_WIDTH = 32;
localparam integer MOVE_OTHER_BYTES_LSB = 158;
localparam integer MOVE_OTHER_BYTES_WIDTH = 14;
localparam integer MOVE_W = 172;

// ------------------------------------------------------------------------------------------------------------ commands
// TABLE_EDGE, TABLE_GROUP, TABLE_SLOT_CLEAR and TABLE_SLOT_READ of epic_types.vh, and TABLE_BELOW: index = group x RANKS +
// rank, data = the children with that rank below them. A slot is cleared or read by itself; for reading data = the group.
localparam [3:0] TABLE_TIMERS = 4'd8;  // index = group; before the group's edges
localparam [3:0] TABLE_TIME = 4'd9;  // virtual time (CLOCK_MHZ = 0): data = microseconds that pass
localparam [3:0] TABLE_EDGE_READ = 4'd10;  // state_done: the edge is in error

/* verilator lint_on UNUSEDPARAM */
