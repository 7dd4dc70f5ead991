// Mode II, the decisions: one event at a time, in turn a frame (spec section 8.3), a packet to send, a timer, a command of the
// control plane. All state of edges, groups and slots is here; an event reads what it needs, is decided, and writes it back
// before the next one starts, so there are no hazards. Data is moved meanwhile by epic_m2_mover, in the order of the events.
//
//   data frame:    IDLE  READ_SLOT  DECIDE  ACT
//   ACK, NAK:      IDLE  DECIDE  ACT
//   timer:         IDLE  READ_EDGE  READ_SLOT  DECIDE  ACT
//   packet:        as a timer, then for each further child that waits for it  NEXT_EDGE  NEXT_DECIDE  ACT, then ORDER: one
//                  pass of the data for all of them. A child that waits for another one costs NEXT_EDGE  NEXT_DECIDE  GATHER.
//
// The ACT of a frame is the IDLE of the next frame (`follows`) when nothing else waits, the next one is of another edge, and
// the group's progress is not written: all that it reads in that cycle is then as the first one leaves it.
//
// A requester's packets CUR to `next` - 1 wait to be sent, for the first time or again: `want` has the bits of such edges.
// `next` is `passed` for a child and `completed` for the parent.

`default_nettype none

`include "epic_check.vh"

module epic_m2_sequencer #(
    parameter PORTS = 4,         // 2 to 8
    parameter EDGES = 32,        // 2 to 256
    parameter GROUPS = 8,        // 1 to 256
    parameter CHILDREN = 8,      // largest fan-in, 1 to 64
    parameter SLOTS = 128,       // W of all groups together, a power of two
    parameter WINDOW = 64,       // largest W, a power of two
    parameter RANKS = 64,        // ranks that a Reduce can name, a power of two
    parameter IN_BITS = 95,      // IN_W
    parameter MOVE_BITS = 172,   // MOVE_W
    parameter JOB_BITS = 89,     // JOB_W
    parameter EDGE_BITS = 320,   // EDGE_W
    parameter EDGE_AW = $clog2(EDGES)
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire [31:0]          now,

    input  wire                 in_valid,
    input  wire [IN_BITS-1:0]   in_data,
    output wire                 in_ready,

    output reg                  move_valid,
    output reg  [MOVE_BITS-1:0] move_data,
    input  wire                 move_ready,

    output reg  [PORTS-1:0]     job,            // for this port
    output reg  [JOB_BITS-1:0]  job_data,
    input  wire [PORTS-1:0]     job_room,       // for an acknowledgement
    input  wire [PORTS-1:0]     send_room,      // for a packet with the largest payload
    output reg  [PORTS-1:0]     ordered,        // this move will push its beats to these ports
    output reg  [PORTS-1:0]     job_failed,     // no room for an acknowledgement: it is not sent

    output reg                  timer_write,
    output reg                  timer_armed,
    output reg  [31:0]          timer_deadline,
    output wire [EDGE_AW-1:0]   timer_edge,
    input  wire                 timer_due,
    input  wire [EDGE_AW-1:0]   timer_due_edge,
    output wire                 timer_take,

    // A command is taken in the cycle of table_ready.
    input  wire                 table_valid,
    input  wire [3:0]           table_op,       // TABLE_*
    input  wire [15:0]          table_index,
    input  wire [EDGE_BITS-1:0] table_data,
    output wire                 table_ready,
    output wire                 table_edge,     // an edge's entry is written: epic_m2_admit and epic_tx take it too
    output reg                  slot_live,      // after TABLE_SLOT_READ (data: the group)
    output reg                  slot_done,      // after TABLE_EDGE_READ: the edge is in error
    output reg  [23:0]          slot_cell,
    output reg  [63:0]          slot_bitmap,

    output reg                  count_frame,    // of one frame, in one cycle
    output reg                  count_ce,
    output reg                  count_completed,
    output reg                  count_poisoned,
    output reg                  count_outcome,
    output reg  [7:0]           count_outcome_index,
    output reg                  count_send,
    output reg  [7:0]           count_send_index,

    output wire                 idle
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_m2_types.vh"

`EPIC_CHECK(g_check_groups, GROUPS >= 1 && GROUPS <= 256,
    ("epic_m2_sequencer: GROUPS is %0d, expected 1 to 256", GROUPS))
`EPIC_CHECK(g_check_children, CHILDREN >= 1 && CHILDREN <= 64,
    ("epic_m2_sequencer: CHILDREN is %0d, expected 1 to 64", CHILDREN))
`EPIC_CHECK(g_check_window, WINDOW >= 2 && WINDOW <= SLOTS && (WINDOW & (WINDOW - 1)) == 0,
    ("epic_m2_sequencer: WINDOW is %0d, expected a power of two from 2 to SLOTS", WINDOW))
`EPIC_CHECK(g_check_ranks, RANKS >= 2 && RANKS <= 65536 && (RANKS & (RANKS - 1)) == 0,
    ("epic_m2_sequencer: RANKS is %0d, expected a power of two from 2 to 65536", RANKS))
`EPIC_CHECK(g_check_records, IN_BITS == IN_W && MOVE_BITS == MOVE_W && JOB_BITS == JOB_W && EDGE_BITS == EDGE_W,
    ("epic_m2_sequencer: the widths of records are not those of the record headers"))

localparam GROUP_DEPTH = GROUPS < 2 ? 2 : GROUPS;
localparam GROUP_AW = $clog2(GROUP_DEPTH);
localparam SLOT_AW = $clog2(SLOTS);
localparam WINDOW_AW = $clog2(WINDOW);
localparam RANK_AW = $clog2(RANKS);
localparam PORT_AW = $clog2(PORTS);

localparam [31:0] NULL_BIT = 32'd1 << IMMDT_NULL_LSB;
localparam [7:0]  CREDITS = 8'h1f;  // no limit

// What the sequencer keeps of an edge's entry.
localparam C_GROUP = 0;
localparam C_ROLE = 8;
localparam C_PORT = 10;
localparam C_CHILD = 13;
localparam C_PSN_TX = 19;
localparam C_PSN_RX = 43;
localparam C_W = 67;

// An agg slot.
localparam A_CELL = 0;
localparam A_HELD = 24;
localparam A_BYTES = 56;
localparam A_LIVE = 70;
localparam A_ERR = 71;
localparam A_RECORD = 72;
localparam A_CE = 73;
localparam A_BITMAP = 74;
localparam A_W = A_BITMAP + CHILDREN;

// A bcast slot.
localparam B_IMM = 0;
localparam B_BYTES = 32;
localparam B_CE = 46;
localparam B_W = 47;

localparam [3:0] IDLE = 4'd0;
localparam [3:0] READ_EDGE = 4'd1;
localparam [3:0] READ_SLOT = 4'd3;
localparam [3:0] DECIDE = 4'd4;
localparam [3:0] ACT = 4'd5;
localparam [3:0] NEXT_EDGE = 4'd6;
localparam [3:0] NEXT_DECIDE = 4'd7;
localparam [3:0] ORDER = 4'd8;
localparam [3:0] COMMAND = 4'd9;
localparam [3:0] COMMAND_READ = 4'd10;
localparam [3:0] COMMAND_END = 4'd11;
localparam [3:0] GATHER = 4'd12;  // is there another child that waits for the packet?

localparam [1:0] FRAME = 2'd0;
localparam [1:0] SEND = 2'd1;
localparam [1:0] TIMER = 2'd2;

reg [3:0]         state_reg;
reg [1:0]         what_reg;
reg [IN_BITS-1:0] in_reg;
reg [EDGE_AW-1:0] edge_reg;

// ----------------------------------------------------------------------------------------------------- state by edge
// In registers what is looked at for all edges at once.
reg [EDGES-1:0]   child_reg, want_reg, failed_reg, paused_reg;
reg [7:0]         group_of_reg [0:EDGES-1];
reg [PORT_AW-1:0] port_of_reg [0:EDGES-1];

// A frame's edge is known when it is chosen; whose packet or timer it is takes a cycle longer.
wire               read_edge = in_ready || state_reg == READ_EDGE || state_reg == NEXT_EDGE;
wire [EDGE_AW-1:0] in_edge = in_data[IN_EDGE_LSB +: EDGE_AW];
wire [EDGE_AW-1:0] edge_read = state_reg == IDLE || state_reg == ACT ? in_edge : edge_reg;

reg               rc_write;
reg  [RC_W-1:0]   rc_write_data;
wire [RC_W-1:0]   rc;
epic_ram #(.WIDTH(RC_W), .DEPTH(EDGES)) rc_memory (
    .clk(clk),
    .write(rc_write), .write_addr(edge_reg), .write_data(rc_write_data),
    .read(read_edge), .read_addr(edge_read), .read_data(rc)
);

wire [C_W-1:0] config_new = {
    table_data[EDGE_PSN_RX_LSB +: EDGE_PSN_RX_WIDTH], table_data[EDGE_PSN_TX_LSB +: EDGE_PSN_TX_WIDTH],
    table_data[EDGE_CHILD_LSB +: EDGE_CHILD_WIDTH], table_data[EDGE_PORT_LSB +: EDGE_PORT_WIDTH],
    table_data[EDGE_ROLE_LSB +: EDGE_ROLE_WIDTH], table_data[EDGE_GROUP_LSB +: EDGE_GROUP_WIDTH]
};
wire [C_W-1:0] conf;
epic_ram #(.WIDTH(C_W), .DEPTH(EDGES)) config_memory (
    .clk(clk),
    .write(table_edge), .write_addr(edge_reg), .write_data(config_new),
    .read(read_edge), .read_addr(edge_read), .read_data(conf)
);
wire [7:0]         group_index = conf[C_GROUP +: 8];
wire [1:0]         role = conf[C_ROLE +: 2];
wire [PORT_AW-1:0] port = conf[C_PORT +: PORT_AW];
wire [5:0]         child = conf[C_CHILD +: 6];
wire [23:0]        psn_tx = conf[C_PSN_TX +: 24];
wire [23:0]        psn_rx = conf[C_PSN_RX +: 24];
wire               from_parent = role == ROLE_PARENT;
wire [7:0]         port_wide = 8'd1 << port;
wire [PORTS-1:0]   port_bit = port_wide[PORTS-1:0];

// ----------------------------------------------------------------------------------------------------- state by group
wire                command_end = state_reg == COMMAND_END;
wire [7:0]          group_of_read = group_of_reg[edge_read];
wire [GROUP_AW-1:0] group_read = state_reg != COMMAND ? group_of_read[GROUP_AW-1:0]
    : table_op == TABLE_EDGE ? table_data[EDGE_GROUP_LSB +: GROUP_AW] : table_data[GROUP_AW-1:0];
wire                read_group = in_ready || state_reg == READ_EDGE || state_reg == COMMAND;
wire                write_group = command_end && table_op == TABLE_GROUP;

wire [GROUP_W-1:0]  grp;
epic_ram #(.WIDTH(GROUP_W), .DEPTH(GROUP_DEPTH)) group_memory (
    .clk(clk),
    .write(write_group), .write_addr(table_index[GROUP_AW-1:0]), .write_data(table_data[GROUP_W-1:0]),
    .read(read_group), .read_addr(group_read), .read_data(grp)
);
wire [TIMERS_W-1:0] timers;
epic_ram #(.WIDTH(TIMERS_W), .DEPTH(GROUP_DEPTH)) timers_memory (
    .clk(clk),
    .write(command_end && table_op == TABLE_TIMERS), .write_addr(table_index[GROUP_AW-1:0]),
    .write_data(table_data[TIMERS_W-1:0]),
    .read(read_group), .read_addr(group_read), .read_data(timers)
);
// {completed, passed}
reg          progress_write;
reg  [47:0]  progress_data;
wire [47:0]  progress;
epic_ram #(.WIDTH(48), .DEPTH(GROUP_DEPTH)) progress_memory (
    .clk(clk),
    .write(progress_write || write_group),
    .write_addr(write_group ? table_index[GROUP_AW-1:0] : group_index[GROUP_AW-1:0]),
    .write_data(write_group ? 48'd0 : progress_data),
    .read(read_group), .read_addr(group_read), .read_data(progress)
);
wire [23:0] passed = progress[23:0];
wire [23:0] completed = progress[47:24];
wire [15:0] window = 16'd1 << grp[GROUP_SLOT_LOG2_LSB +: GROUP_SLOT_LOG2_WIDTH];
wire        root = grp[GROUP_ROOT_LSB];
wire [23:0] next = from_parent ? completed : passed;

// ------------------------------------------------------------------------------------------------------ state by slot
wire [23:0]        number = in_reg[IN_NUMBER_LSB +: IN_NUMBER_WIDTH];
wire [23:0]        cell_read = what_reg == SEND ? rc[RC_CUR_LSB +: RC_CUR_WIDTH] : number;
wire [15:0]        slot_wide = grp[GROUP_SLOT_BASE_LSB +: GROUP_SLOT_BASE_WIDTH] + (cell_read[15:0] & (window - 16'd1));
wire [SLOT_AW-1:0] slot = slot_wide[SLOT_AW-1:0];
reg  [SLOT_AW-1:0] slot_reg;   // of the event, from DECIDE on
wire               slot_command = state_reg == COMMAND;

reg               agg_write;
reg  [A_W-1:0]    agg_data;
wire [A_W-1:0]    agg;
wire              clear_slot = command_end && table_op == TABLE_SLOT_CLEAR;
epic_ram #(.WIDTH(A_W), .DEPTH(SLOTS)) agg_memory (
    .clk(clk),
    .write(agg_write || clear_slot), .write_addr(clear_slot ? table_index[SLOT_AW-1:0] : slot_reg),
    .write_data(clear_slot ? {A_W{1'b0}} : agg_data),
    .read(state_reg == READ_SLOT || slot_command), .read_addr(slot_command ? table_index[SLOT_AW-1:0] : slot),
    .read_data(agg)
);
reg               bcast_write;
reg  [B_W-1:0]    bcast_data;
wire [B_W-1:0]    bcast;
epic_ram #(.WIDTH(B_W), .DEPTH(SLOTS)) bcast_memory (
    .clk(clk),
    .write(bcast_write), .write_addr(slot_reg), .write_data(bcast_data),
    .read(state_reg == READ_SLOT), .read_addr(slot), .read_data(bcast)
);

// Which children have a rank below them.
wire [15:0]         rank = bcast[B_IMM + IMMDT_RANK_LSB +: IMMDT_RANK_WIDTH];
wire [CHILDREN-1:0] below;
epic_ram #(.WIDTH(CHILDREN), .DEPTH(GROUP_DEPTH * RANKS)) below_memory (
    .clk(clk),
    .write(command_end && table_op == TABLE_BELOW), .write_addr(table_index[GROUP_AW+RANK_AW-1:0]),
    .write_data(table_data[CHILDREN-1:0]),
    .read(state_reg == DECIDE), .read_addr({group_index[GROUP_AW-1:0], rank[RANK_AW-1:0]}), .read_data(below)
);

// When each packet that is not acknowledged was sent, and whether once. The newest that an acknowledgement names is known when
// it is chosen, the one that data acknowledges when the group is.
wire [23:0]          in_number = in_data[IN_NUMBER_LSB +: IN_NUMBER_WIDTH];
wire [7:0]           in_syndrome = in_data[IN_IMM_LSB + 24 +: 8];
wire                 in_positive = (in_syndrome & SYNDROME_MASK) == SYNDROME_ACK;
wire [WINDOW_AW-1:0] newest_named = in_number[WINDOW_AW-1:0] - {{WINDOW_AW - 1{1'b0}}, !in_positive};
wire [23:0]          newest = from_parent ? number : number - {8'd0, window};
wire                 read_slot = state_reg == READ_SLOT;
wire [WINDOW_AW-1:0] sent_read = read_slot ? newest[WINDOW_AW-1:0] : newest_named;
wire                 sent_write = state_reg == ACT && what_reg == SEND;
wire                 once;
wire [31:0]          first_sent;
reg  [23:0]          sent_number_reg;
reg                  sent_first_reg;
epic_ram #(.WIDTH(33), .DEPTH(EDGES << WINDOW_AW), .ADDR_W(EDGE_AW + WINDOW_AW)) sent_memory (
    .clk(clk),
    .write(sent_write), .write_addr({edge_reg, sent_number_reg[WINDOW_AW-1:0]}), .write_data({sent_first_reg, now}),
    .read(read_slot || in_ready), .read_addr({read_slot ? edge_reg : in_edge, sent_read}), .read_data({once, first_sent})
);

// ------------------------------------------------------------------------------------------------- whose turn it is
wire [EDGES-1:0]   ready_to_send;
wire [EDGES-1:0]   send_grant;
wire [EDGE_AW-1:0] send_edge;
wire               can_send = send_grant != {EDGES{1'b0}};
reg  [EDGES-1:0]   visited_reg;   // by this pass of the data
reg  [PORTS-1:0]   used_reg;      // ports that get the packet already
wire               gathering = what_reg == SEND && state_reg != IDLE;
wire [PORTS-1:0]   used = used_reg | (state_reg == ACT ? port_bit : {PORTS{1'b0}});

genvar e;
generate
    for (e = 0; e < EDGES; e = e + 1) begin : g_ready
        assign ready_to_send[e] = want_reg[e] && send_room[port_of_reg[e]] && (!gathering
            || (!visited_reg[e] && child_reg[e] && group_of_reg[e] == group_index && !used[port_of_reg[e]]));
    end
endgenerate

// The order of sources turns: who was served last comes last.
reg  [1:0] turn_reg;
reg  [3:0] asks;
wire [7:0] twice = {asks, asks};
wire [2:0] rotated = {twice[turn_reg + 3'd3], twice[turn_reg + 3'd2], twice[turn_reg + 3'd1]};
reg  [1:0] chosen;
reg        any;
always @* begin
    asks = {table_valid, timer_due, can_send, in_valid};
    chosen = 2'd0;
    any = asks != 4'd0;
    if (rotated[0]) chosen = turn_reg + 2'd1;
    else if (rotated[1]) chosen = turn_reg + 2'd2;
    else if (rotated[2]) chosen = turn_reg + 2'd3;
    else chosen = turn_reg;
end
wire choose = state_reg == IDLE && any;
assign timer_take = choose && chosen == 2'd2;

epic_arbiter #(.PORTS(EDGES)) senders (
    .clk(clk), .rst(rst), .request(ready_to_send), .take(choose && chosen == 2'd1),
    .grant(send_grant), .index(send_edge)
);

assign idle = state_reg == IDLE && !any && want_reg == {EDGES{1'b0}};

// ---------------------------------------------------------------------------------------------------------- requester
function [31:0] rnr_wait(input [4:0] code);
    case (code)
        5'd0: rnr_wait = 32'd655360;
        5'd1: rnr_wait = 32'd10;
        5'd2: rnr_wait = 32'd20;
        5'd3: rnr_wait = 32'd30;
        5'd4: rnr_wait = 32'd40;
        5'd5: rnr_wait = 32'd60;
        5'd6: rnr_wait = 32'd80;
        5'd7: rnr_wait = 32'd120;
        5'd8: rnr_wait = 32'd160;
        5'd9: rnr_wait = 32'd240;
        5'd10: rnr_wait = 32'd320;
        5'd11: rnr_wait = 32'd480;
        5'd12: rnr_wait = 32'd640;
        5'd13: rnr_wait = 32'd960;
        5'd14: rnr_wait = 32'd1280;
        5'd15: rnr_wait = 32'd1920;
        5'd16: rnr_wait = 32'd2560;
        5'd17: rnr_wait = 32'd3840;
        5'd18: rnr_wait = 32'd5120;
        5'd19: rnr_wait = 32'd7680;
        5'd20: rnr_wait = 32'd10240;
        5'd21: rnr_wait = 32'd15360;
        5'd22: rnr_wait = 32'd20480;
        5'd23: rnr_wait = 32'd30720;
        5'd24: rnr_wait = 32'd40960;
        5'd25: rnr_wait = 32'd61440;
        5'd26: rnr_wait = 32'd81920;
        5'd27: rnr_wait = 32'd122880;
        5'd28: rnr_wait = 32'd163840;
        5'd29: rnr_wait = 32'd245760;
        5'd30: rnr_wait = 32'd327680;
        default: rnr_wait = 32'd491520;
    endcase
endfunction

wire [31:0] imm = in_reg[IN_IMM_LSB +: IN_IMM_WIDTH];
wire [7:0]  syndrome = imm[31:24];
wire        is_ack = in_reg[IN_KIND_LSB +: IN_KIND_WIDTH] == IN_ACK;

// ----------------------------------------------------------------------------------------- responder (spec section 7.3)
wire [23:0] expected = rc[RC_EXPECTED_LSB +: RC_EXPECTED_WIDTH];
wire [23:0] distance = number - expected;
wire        duplicate = distance[23];
wire        gap = !distance[23] && distance != 24'd0;
wire [13:0] in_bytes = in_reg[IN_BYTES_LSB +: IN_BYTES_WIDTH];
wire [23:0] ahead = expected - passed;
wire [3:0]  datatype = imm[IMMDT_DATATYPE_LSB +: IMMDT_DATATYPE_WIDTH];
wire        opaque = imm[IMMDT_ERR_LSB]
    || imm[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH] == PRIMITIVE_BROADCAST;

// Part of an element behind the last whole one (EPIC-E-11).
reg part;
always @* begin
    case (datatype)
        DATATYPE_INT8: part = 1'b0;
        DATATYPE_FP16, DATATYPE_BF16, DATATYPE_INT16: part = in_bytes[0];
        DATATYPE_INT64, DATATYPE_FP64: part = in_bytes[2:0] != 3'd0;
        default: part = in_bytes[1:0] != 2'd0;
    endcase
    if (opaque) part = 1'b0;
end

// What becomes of a data packet, known when the group is.
reg       accept;
reg [7:0] outcome;
always @* begin
    accept = 1'b0;
    if (duplicate) outcome = COUNTER_RX_DUPLICATE;
    else if (gap) outcome = COUNTER_RX_OUT_OF_ORDER;
    else if (in_bytes > grp[GROUP_PAYLOAD_BYTES_LSB +: GROUP_PAYLOAD_BYTES_WIDTH]) outcome = COUNTER_DROP_OVERSIZE;
    else if (from_parent) begin
        accept = passed != completed;
        outcome = accept ? COUNTER_RX_RESULT : COUNTER_DROP_UNEXPECTED;
    end
    else if (part) outcome = COUNTER_DROP_ELEMENT;
    else begin
        accept = ahead < {8'd0, window};
        outcome = accept ? COUNTER_RX_CONTRIBUTION : COUNTER_DROP_WINDOW;
    end
end
reg       accept_reg, duplicate_reg, gap_reg;
reg [7:0] outcome_reg;

reg [2:0] rc_event;
always @* begin
    case (what_reg)
        SEND: rc_event = RC_SENT;
        TIMER: rc_event = RC_TIMER;
        default:
            if (!is_ack) rc_event = RC_IMPLICIT;
            else case (syndrome & SYNDROME_MASK)
                SYNDROME_ACK: rc_event = RC_ACK;
                SYNDROME_RNR_NAK: rc_event = RC_RNR;
                default: rc_event = syndrome[4:0] == NAK_PSN_SEQUENCE_ERROR[4:0] ? RC_NAK : RC_REFUSED;
            endcase
    endcase
end

wire [RC_W-1:0] rc_next;
wire            rc_failed, rc_unknown, rc_running;
wire [31:0]     deadline = rc[RC_DEADLINE_LSB +: RC_DEADLINE_WIDTH];
wire [31:0]     late = now - deadline;
wire            timer_runs = rc[RC_PAUSED_LSB] || rc[RC_UNA_LSB +: RC_UNA_WIDTH] != rc[RC_CUR_LSB +: RC_CUR_WIDTH];
wire            really_due = timer_runs && !late[31];
epic_m2_requester requester (
    .state(rc), .next(next), .timers(timers), .now(now),
    .rc_event(what_reg == FRAME && !is_ack && !accept_reg ? RC_NOTHING
        : what_reg == TIMER && !really_due ? RC_NOTHING : rc_event),
    // An implicit acknowledgement is of all before: EPIC-M2-10, EPIC-M2-11.
    .number(is_ack ? number : newest + 24'd1),
    .rnr_wait(rnr_wait(syndrome[4:0])),
    .once(once), .first_sent(first_sent),
    .next_state(rc_next), .failed(rc_failed), .unknown(rc_unknown), .running(rc_running)
);

// --------------------------------------------------------------------------------------------------------------- cell
wire [63:0]         child_wide = 64'd1 << child;
wire [CHILDREN-1:0] child_bit = child_wide[CHILDREN-1:0];
wire [CHILDREN-1:0] all_children = {CHILDREN{1'b1}} >> (CHILDREN - 1 - {26'd0, grp[GROUP_FAN_IN_LSB +: GROUP_FAN_IN_WIDTH]});
wire [CHILDREN-1:0] cell_bitmap;
wire [31:0]         cell_held, cell_out_imm, record_held, record_other;
wire [13:0]         cell_bytes, cell_out_bytes, cell_kept_bytes, record_held_bytes, record_other_bytes;
wire                cell_err, cell_record, cell_ce, cell_full, cell_poisoned, cell_make;
wire [3:0]          cell_op;
epic_m2_cell #(.CHILDREN(CHILDREN)) cell_value (
    .fresh(!agg[A_LIVE] || agg[A_CELL +: 24] != number),
    .bitmap(agg[A_BITMAP +: CHILDREN]), .held(agg[A_HELD +: 32]), .bytes(agg[A_BYTES +: 14]), .err(agg[A_ERR]),
    .has_record(agg[A_RECORD]), .congested(agg[A_CE]),
    .child_bit(child_bit), .all_children(all_children), .imm(imm), .in_bytes(in_bytes), .in_congested(in_reg[IN_CE_LSB]),
    .keeps_record(grp[GROUP_RECORD_LSB]), .operators(grp[GROUP_OPERATORS_LSB +: GROUP_OPERATORS_WIDTH]),
    .datatypes(grp[GROUP_DATATYPES_LSB +: GROUP_DATATYPES_WIDTH]),
    .next_bitmap(cell_bitmap), .next_held(cell_held), .next_bytes(cell_bytes), .next_err(cell_err),
    .next_has_record(cell_record), .next_congested(cell_ce), .full(cell_full), .poisoned(cell_poisoned),
    .make_record(cell_make), .operation(cell_op),
    .record_held(record_held), .record_held_bytes(record_held_bytes),
    .record_other(record_other), .record_other_bytes(record_other_bytes),
    .out_imm(cell_out_imm), .out_bytes(cell_out_bytes), .kept_bytes(cell_kept_bytes)
);

// ------------------------------------------------------------------------------- what DECIDE leaves for ACT, and more
reg [RC_W-1:0]      rc_reg;
reg                 rc_failed_reg, rc_unknown_reg, rc_running_reg;
reg                 full_reg, poisoned_reg;
reg [A_W-1:0]       agg_reg;
reg [B_W-1:0]       out_reg;       // a bcast slot, or what the partial is
reg [MOVE_W-1:0]    move_reg;
reg                 wants_reg;     // after the event the edge has something to send
reg [23:0]          send_cell_reg;      // of the packet that is sent to one child or several,
reg [PORTS-1:0]     payload_ports_reg;  // with payload to these ports

wire [23:0] slot_age = agg[A_CELL +: 24] - passed;

// Output of an agg slot as a partial.
wire [13:0] agg_bytes = agg[A_ERR] ? (agg[A_RECORD] ? CONFLICT_RECORD_BYTES[13:0] : 14'd0) : agg[A_BYTES +: 14];
wire [31:0] agg_imm = agg[A_HELD +: 32] | (agg[A_ERR] ? 32'd1 << IMMDT_ERR_LSB : 32'd0)
    | (agg_bytes == 14'd0 ? NULL_BIT : 32'd0);

// The packet as this child may see it (EPIC-E-06).
wire [31:0] out_imm = out_reg[B_IMM +: 32];
wire        suppressed = !from_parent
    && out_imm[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH] == PRIMITIVE_REDUCE
    && !out_imm[IMMDT_NULL_LSB] && !out_imm[IMMDT_ERR_LSB]
    && !(({16'd0, out_imm[IMMDT_RANK_LSB +: IMMDT_RANK_WIDTH]} < RANKS)
        && (below & child_bit) != {CHILDREN{1'b0}});
wire [13:0] send_bytes = suppressed ? 14'd0 : out_reg[B_BYTES +: 14];
wire        has_payload = send_bytes != 14'd0;
wire        first_time = sent_first_reg;
// What comes behind a packet: another child that waits, or the data. (In GATHER there was no packet.)
wire [PORTS-1:0] payload_ports = payload_ports_reg | (state_reg == ACT && has_payload ? port_bit : {PORTS{1'b0}});
wire [3:0]       after_packet = !from_parent && can_send ? NEXT_EDGE : payload_ports != {PORTS{1'b0}} ? ORDER : IDLE;

// ---------------------------------------------------------------------------------------------------------------- ACT
wire       is_none = what_reg == FRAME && in_reg[IN_KIND_LSB +: IN_KIND_WIDTH] == IN_NONE;
wire       dead = failed_reg[edge_reg] || (!is_none && role == ROLE_NONE);
wire       is_data = what_reg == FRAME && !is_none && !is_ack;
wire       contributes = is_data && !dead && accept_reg && !from_parent;
wire       takes_result = is_data && !dead && accept_reg && from_parent;
wire       completes = contributes && full_reg;
wire       publishes = takes_result || (completes && root);
wire       answers = is_data && !dead && (duplicate_reg || (gap_reg && !rc[RC_NAK_SENT_LSB])
    || (accept_reg && in_reg[IN_ACKREQ_LSB]));
wire       nak = gap_reg;
wire [23:0] acknowledged = accept_reg ? expected + 24'd1 : expected;
wire       drains = in_reg[IN_HAS_BEATS_LSB] && !(contributes || takes_result);
wire       needs_move = what_reg == FRAME && (is_none || dead || is_ack ? in_reg[IN_HAS_BEATS_LSB]
    : drains || ((contributes || takes_result) && (move_reg[MOVE_IN_BYTES_LSB +: 14] != 14'd0
        || move_reg[MOVE_OUT_BYTES_LSB +: 14] != 14'd0)));
wire       act = state_reg == ACT && (!needs_move || move_ready);
wire       act_frame = act && what_reg == FRAME;
wire       changes_rc = act && !is_none && !dead;

// The next frame starts meanwhile. (One that was dropped in admission would count in the next cycle, in which this one may.)
wire       follows = act_frame && !progress_write && chosen == FRAME && in_valid && in_edge != edge_reg
    && in_data[IN_KIND_LSB +: IN_KIND_WIDTH] != IN_NONE;
assign in_ready = (choose && chosen == FRAME) || follows;

wire             has_room = (job_room & port_bit) != {PORTS{1'b0}};

// A new edge's timeout.
wire [31:0] t_initial = timers[TIMERS_INITIAL_LSB +: TIMERS_INITIAL_WIDTH];
wire [31:0] t_min = timers[TIMERS_MIN_LSB +: TIMERS_MIN_WIDTH];
wire [31:0] t_max = timers[TIMERS_MAX_LSB +: TIMERS_MAX_WIDTH];
wire [31:0] t_low = t_initial < t_min ? t_min : t_initial;
wire [31:0] initial_timeout = t_low > t_max ? t_max : t_low;

// What an event counts besides its outcome comes a cycle later.
reg        more_reg;
reg [7:0]  more_index_reg;

always @* begin
    rc_write = changes_rc;
    rc_write_data = rc_reg;
    if (is_data) begin
        rc_write_data[RC_EXPECTED_LSB +: RC_EXPECTED_WIDTH] = acknowledged;
        rc_write_data[RC_NAK_SENT_LSB] = gap_reg || (rc[RC_NAK_SENT_LSB] && !accept_reg);
    end
    if (table_edge) begin
        rc_write = 1'b1;
        rc_write_data = {RC_W{1'b0}};
        rc_write_data[RC_SERVED_LSB +: RC_SERVED_WIDTH] = 24'hffffff;
        rc_write_data[RC_SERVED_VALID_LSB] = 1'b1;
        rc_write_data[RC_BASE_LSB +: RC_BASE_WIDTH] = initial_timeout;
        rc_write_data[RC_TIMEOUT_LSB +: RC_TIMEOUT_WIDTH] = initial_timeout;
    end
    timer_write = changes_rc || table_edge;
    timer_armed = changes_rc && rc_running_reg;
    timer_deadline = rc_reg[RC_DEADLINE_LSB +: RC_DEADLINE_WIDTH];

    progress_write = act && (completes || publishes);
    progress_data = {completed + {23'd0, completes}, passed + {23'd0, publishes}};
    agg_write = act && contributes;
    agg_data = agg_reg;
    bcast_write = act && publishes;
    bcast_data = out_reg;

    // Moves: a frame's, or the one for all that a packet is sent to.
    move_valid = (state_reg == ACT && needs_move) || state_reg == ORDER;
    move_data = move_reg;
    ordered = {PORTS{1'b0}};
    if (what_reg == FRAME) begin
        move_data[MOVE_SRC_LSB +: MOVE_SRC_WIDTH] = in_reg[IN_PORT_LSB +: IN_PORT_WIDTH];
        if (is_none || dead || !(contributes || takes_result)) begin
            move_data[MOVE_IN_BYTES_LSB +: 14] = in_bytes;
            move_data[MOVE_OUT_BYTES_LSB +: 14] = 14'd0;
        end
    end
    else if (state_reg == ORDER) begin
        move_data[MOVE_PORTS_LSB +: PORTS] = payload_ports_reg;
        if (move_ready) ordered = payload_ports_reg;
    end

    // Jobs.
    job = {PORTS{1'b0}};
    job_failed = {PORTS{1'b0}};
    job_data = {JOB_W{1'b0}};
    job_data[JOB_EDGE_LSB +: EDGE_AW] = edge_reg;
    if (what_reg == SEND) begin
        if (act) job = port_bit;
        job_data[JOB_OPCODE_LSB +: JOB_OPCODE_WIDTH] = OPCODE_SEND_ONLY_IMM;
        job_data[JOB_PSN_LSB +: JOB_PSN_WIDTH] = psn_tx + sent_number_reg;
        job_data[JOB_ACKREQ_LSB] = 1'b1;
        job_data[JOB_CE_LSB] = out_reg[B_CE] && grp[GROUP_ECN_LSB];
        job_data[JOB_HAS_PAYLOAD_LSB] = has_payload;
        job_data[JOB_PAYLOAD_BYTES_LSB +: JOB_PAYLOAD_BYTES_WIDTH] = send_bytes;
        job_data[JOB_IMM_LSB +: JOB_IMM_WIDTH] = out_imm | (suppressed ? NULL_BIT : 32'd0);
    end
    else begin
        if (act && answers) begin
            job = has_room ? port_bit : {PORTS{1'b0}};
            job_failed = has_room ? {PORTS{1'b0}} : port_bit;
        end
        job_data[JOB_OPCODE_LSB +: JOB_OPCODE_WIDTH] = OPCODE_ACK;
        job_data[JOB_PSN_LSB +: JOB_PSN_WIDTH] = psn_rx + acknowledged - {23'd0, !nak};
        job_data[JOB_IMM_LSB +: JOB_IMM_WIDTH] = {nak ? SYNDROME_NAK | NAK_PSN_SEQUENCE_ERROR : SYNDROME_ACK | CREDITS,
            acknowledged};
    end

    // Counters.
    count_frame = act_frame;
    count_ce = act_frame && in_reg[IN_CE_LSB];
    count_completed = act && completes;
    count_poisoned = act && contributes && poisoned_reg;
    count_outcome = more_reg;
    count_outcome_index = more_index_reg;
    if (act_frame) begin
        count_outcome = 1'b1;
        if (is_none) begin
            count_outcome = in_reg[IN_REASON_LSB +: IN_REASON_WIDTH] != COUNTERS;
            count_outcome_index = in_reg[IN_REASON_LSB +: IN_REASON_WIDTH];
        end
        else if (role == ROLE_NONE) count_outcome_index = COUNTER_DROP_UNKNOWN_QPN;
        else if (dead) count_outcome_index = COUNTER_DROP_EDGE_ERROR;
        else if (!is_ack) count_outcome_index = outcome_reg;
        else if (rc_unknown_reg) count_outcome_index = COUNTER_DROP_UNEXPECTED;
        else if (rc_event == RC_ACK) count_outcome_index = COUNTER_RX_ACK;
        else if (rc_event == RC_RNR) count_outcome_index = COUNTER_RX_RNR_NAK;
        else count_outcome_index = COUNTER_RX_NAK;
    end
    else if (act && what_reg == SEND && !first_time) begin
        count_outcome = 1'b1;
        count_outcome_index = COUNTER_TX_RETRANSMISSION;
    end
    count_send = act && what_reg == SEND && first_time;
    count_send_index = from_parent ? COUNTER_TX_PARTIAL : COUNTER_TX_RESULT;
end

assign timer_edge = edge_reg;
assign table_ready = command_end;
assign table_edge = command_end && table_op == TABLE_EDGE;

// Parts of records and sums that carry nothing here.
wire unused = &{1'b0, table_index, table_data, conf, cell_read, slot_wide, rank, late, child_wide, port_wide, slot_age, newest, in_number,
    in_syndrome, group_of_read};

// ------------------------------------------------------------------------------------------------------ the sequence

// What concerns all edges at once.
wire [EDGE_AW-1:0] parent_edge = grp[GROUP_PARENT_EDGE_LSB +: EDGE_AW];
integer i;
always @(posedge clk) begin
    if (changes_rc) begin
        want_reg[edge_reg] <= wants_reg;
        paused_reg[edge_reg] <= rc_reg[RC_PAUSED_LSB];
        if (rc_failed_reg) failed_reg[edge_reg] <= 1'b1;
    end
    if (act && publishes)
        for (i = 0; i < EDGES; i = i + 1)
            if (child_reg[i] && group_of_reg[i] == group_index && !failed_reg[i]
                && !(edge_reg == i[EDGE_AW-1:0] ? rc_reg[RC_PAUSED_LSB] : paused_reg[i])) want_reg[i] <= 1'b1;
    if (act && completes && !root && !failed_reg[parent_edge] && !paused_reg[parent_edge])
        want_reg[parent_edge] <= 1'b1;
    if (table_edge) begin
        child_reg[edge_reg] <= config_new[C_ROLE +: 2] == ROLE_HOST || config_new[C_ROLE +: 2] == ROLE_ENGINE;
        group_of_reg[edge_reg] <= config_new[C_GROUP +: 8];
        port_of_reg[edge_reg] <= config_new[C_PORT +: PORT_AW];
        want_reg[edge_reg] <= 1'b0;
        failed_reg[edge_reg] <= 1'b0;
        paused_reg[edge_reg] <= 1'b0;
    end
    if (rst) begin
        child_reg <= {EDGES{1'b0}};
        want_reg <= {EDGES{1'b0}};
        failed_reg <= {EDGES{1'b0}};
        paused_reg <= {EDGES{1'b0}};
    end
end

always @(posedge clk) begin
    more_reg <= 1'b0;
    case (state_reg)
        IDLE: begin
            visited_reg <= {EDGES{1'b0}};
            used_reg <= {PORTS{1'b0}};
            payload_ports_reg <= {PORTS{1'b0}};
            if (any) begin
                turn_reg <= chosen;
                what_reg <= chosen;
                state_reg <= READ_EDGE;
                case (chosen)
                    FRAME: edge_reg <= in_edge;
                    SEND: edge_reg <= send_edge;
                    TIMER: edge_reg <= timer_due_edge;
                    default: begin
                        edge_reg <= table_index[EDGE_AW-1:0];
                        state_reg <= COMMAND;
                    end
                endcase
            end
        end
        READ_EDGE: state_reg <= READ_SLOT;
        READ_SLOT: begin
            state_reg <= DECIDE;
            slot_reg <= slot;
            accept_reg <= accept;
            duplicate_reg <= duplicate;
            gap_reg <= gap;
            outcome_reg <= outcome;
        end
        DECIDE, NEXT_DECIDE: begin
            state_reg <= ACT;
            rc_reg <= rc_next;
            rc_failed_reg <= rc_failed;
            rc_unknown_reg <= rc_unknown;
            rc_running_reg <= rc_running;
            wants_reg <= !rc_failed && !rc_next[RC_PAUSED_LSB] && rc_next[RC_CUR_LSB +: RC_CUR_WIDTH] != next;
            sent_number_reg <= rc[RC_CUR_LSB +: RC_CUR_WIDTH];
            sent_first_reg <= rc[RC_CUR_LSB +: RC_CUR_WIDTH] == rc[RC_HIGH_LSB +: RC_HIGH_WIDTH];
            visited_reg[edge_reg] <= 1'b1;
            if (state_reg == DECIDE) begin
                full_reg <= cell_full;
                poisoned_reg <= cell_poisoned;
                agg_reg[A_CELL +: 24] <= number;
                agg_reg[A_HELD +: 32] <= cell_held;
                agg_reg[A_BYTES +: 14] <= cell_bytes;
                agg_reg[A_LIVE] <= 1'b1;
                agg_reg[A_ERR] <= cell_err;
                agg_reg[A_RECORD] <= cell_record;
                agg_reg[A_CE] <= cell_ce;
                agg_reg[A_BITMAP +: CHILDREN] <= cell_bitmap;
                send_cell_reg <= rc[RC_CUR_LSB +: RC_CUR_WIDTH];

                move_reg <= {MOVE_W{1'b0}};
                move_reg[MOVE_LITTLE_LSB] <= grp[GROUP_LITTLE_LSB];
                move_reg[MOVE_HELD_LSB +: 32] <= record_held;
                move_reg[MOVE_HELD_BYTES_LSB +: 14] <= record_held_bytes;
                move_reg[MOVE_OTHER_LSB +: 32] <= record_other;
                move_reg[MOVE_OTHER_BYTES_LSB +: 14] <= record_other_bytes;
                if (what_reg == SEND) begin
                    out_reg <= from_parent ? {agg[A_CE], agg_bytes, agg_imm} : bcast;
                    move_reg[MOVE_OP_LSB +: MOVE_OP_WIDTH] <= LANE_B;
                    move_reg[MOVE_FROM_LSB +: MOVE_FROM_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_reg, !from_parent};
                    move_reg[MOVE_OUT_BYTES_LSB +: 14] <= from_parent ? agg_bytes : bcast[B_BYTES +: 14];
                end
                else if (from_parent) begin
                    out_reg <= {in_reg[IN_CE_LSB] || agg[A_CE], in_bytes, imm};
                    move_reg[MOVE_OP_LSB +: MOVE_OP_WIDTH] <= LANE_A;
                    move_reg[MOVE_WRITE_LSB] <= 1'b1;
                    move_reg[MOVE_FROM_LSB +: MOVE_FROM_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_reg, 1'b1};
                    move_reg[MOVE_TO_LSB +: MOVE_TO_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_reg, 1'b1};
                    move_reg[MOVE_IN_BYTES_LSB +: 14] <= in_bytes;
                    move_reg[MOVE_OUT_BYTES_LSB +: 14] <= in_bytes;
                end
                else begin
                    // At the root a complete cell becomes the result: its last pass writes to bcast.
                    out_reg <= {cell_ce, cell_out_bytes, cell_out_imm};
                    move_reg[MOVE_OP_LSB +: MOVE_OP_WIDTH] <= cell_op;
                    move_reg[MOVE_RECORD_LSB] <= cell_make;
                    move_reg[MOVE_WRITE_LSB] <= 1'b1;
                    move_reg[MOVE_FROM_LSB +: MOVE_FROM_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_reg, 1'b0};
                    move_reg[MOVE_TO_LSB +: MOVE_TO_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_reg, cell_full && root};
                    move_reg[MOVE_IN_BYTES_LSB +: 14] <= in_bytes;
                    move_reg[MOVE_OUT_BYTES_LSB +: 14] <= cell_full && root ? cell_out_bytes : cell_kept_bytes;
                end
            end
            // Another child is in the gathering only when it waits for the same packet.
            else if (rc[RC_CUR_LSB +: RC_CUR_WIDTH] != send_cell_reg) state_reg <= GATHER;
        end
        ACT:
            if (act) begin
                state_reg <= IDLE;
                if (what_reg == SEND) begin
                    used_reg <= used;
                    payload_ports_reg <= payload_ports;
                    state_reg <= after_packet;
                    edge_reg <= send_edge;
                end
                if (act_frame && answers && has_room) begin
                    more_reg <= 1'b1;
                    more_index_reg <= nak ? COUNTER_TX_NAK : COUNTER_TX_ACK;
                end
                if (changes_rc && rc_failed_reg) begin
                    more_reg <= 1'b1;
                    more_index_reg <= COUNTER_EDGE_ERRORS;
                end
            end
        GATHER: begin
            state_reg <= after_packet;
            edge_reg <= send_edge;
        end
        NEXT_EDGE: state_reg <= NEXT_DECIDE;
        ORDER: if (move_ready) state_reg <= IDLE;
        COMMAND: state_reg <= COMMAND_READ;
        COMMAND_READ: begin
            state_reg <= COMMAND_END;
            if (table_op == TABLE_EDGE_READ) slot_done <= failed_reg[edge_reg];
            if (table_op == TABLE_SLOT_READ) begin
                slot_live <= agg[A_LIVE];
                slot_done <= slot_age[23];
                slot_cell <= agg[A_CELL +: 24];
                slot_bitmap <= 64'd0;
                slot_bitmap[CHILDREN-1:0] <= agg[A_BITMAP +: CHILDREN];
            end
        end
        default: state_reg <= IDLE;
    endcase
    if (in_ready) begin
        turn_reg <= FRAME;
        edge_reg <= in_edge;
        in_reg <= in_data;
        case (in_data[IN_KIND_LSB +: IN_KIND_WIDTH])
            IN_NONE: state_reg <= ACT;
            IN_ACK: state_reg <= DECIDE;
            default: state_reg <= READ_SLOT;
        endcase
    end
    if (rst) begin
        state_reg <= IDLE;
        turn_reg <= 2'd0;
        more_reg <= 1'b0;
    end
end

endmodule

`default_nettype wire
