// Mode II, the decisions: frames (spec section 8.3), packets to send, timers and commands of the control plane take turns.
// All state of edges, groups and slots is here. A pipeline, an event a cycle:
//
//   R  whose turn it is; its edge, group and progress are read
//   S  its slot, and when the packet was sent that it acknowledges
//   D  what comes of it
//   A  state is written, a JOB and a MOVE leave: the whole event happens in this cycle
//
// So that it does, what an event was decided on must be what the memories hold when it is in A:
//
//   an edge's record     no event is taken up (R) while another one of its edge is in S or D; what one in A writes is put in
//                        place of what the one behind it reads meanwhile
//   a group's progress   what an event in A writes is put in place of what all behind it have read
//   a slot               likewise
//
// A step is made by all stages together; only a MOVE for which epic_m2_mover has no room yet holds them up. A command waits
// until the pipeline is empty, and has it to itself.
//
// A requester's packets CUR to `next` - 1 wait to be sent, for the first time or again: `want` has the bits of such edges.
// `next` is `passed` for a child and `completed` for the parent. A packet's payload goes to all children that wait for the
// same packet in one pass of the data, so their events follow each other without a gap, a batch: the first to be served, then
// those of its group that want and had room then, at a port of their own, as soon as nothing else of their edge is under way.
// One that waits for another packet than the first, or for none any more, is left out in D. The last of the batch orders the
// pass.

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

// Of the control plane's command; else events go on.
localparam [1:0] RUN = 2'd0;
localparam [1:0] COMMAND = 2'd1;
localparam [1:0] COMMAND_READ = 2'd2;
localparam [1:0] COMMAND_END = 2'd3;

localparam [1:0] FRAME = 2'd0;
localparam [1:0] SEND = 2'd1;
localparam [1:0] TIMER = 2'd2;
localparam [1:0] TABLE = 2'd3;

reg  [1:0]         state_reg;
wire               step;       // all stages go on
wire               act;        // the event in A happens

// The events in S, D and A.
reg                valid_s, valid_d, valid_a;
reg  [1:0]         what_s, what_d, what_a;
reg  [EDGE_AW-1:0] edge_s, edge_d, edge_a;
reg  [IN_BITS-1:0] in_s, in_d, in_a;
reg                first_s, first_d, first_a;  // of a batch
reg                wanted_s, wanted_d;         // in R the edge had something to send

// ----------------------------------------------------------------------------------------------------- state by edge
// In registers what is looked at for all edges at once.
reg [EDGES-1:0]   child_reg, want_reg, failed_reg, paused_reg;
reg [7:0]         group_of_reg [0:EDGES-1];
reg [PORT_AW-1:0] port_of_reg [0:EDGES-1];

// Events of these edges are under way, in S, D or A.
reg  [EDGES-1:0]  busy_reg;
wire [EDGES-1:0]  busy = act ? busy_reg & ~({{EDGES - 1{1'b0}}, 1'b1} << edge_a) : busy_reg;  // in S or D, or held up in A

wire [EDGE_AW-1:0] in_edge = in_data[IN_EDGE_LSB +: EDGE_AW];
reg  [EDGE_AW-1:0] edge_r;

reg               rc_write;
reg  [RC_W-1:0]   rc_write_data;
wire [RC_W-1:0]   rc_read;
wire [EDGE_AW-1:0] edge_written = table_edge ? table_index[EDGE_AW-1:0] : edge_a;
epic_ram #(.WIDTH(RC_W), .DEPTH(EDGES)) rc_memory (
    .clk(clk),
    .write(rc_write), .write_addr(edge_written), .write_data(rc_write_data),
    .read(step), .read_addr(edge_r), .read_data(rc_read)
);
reg               rc_late_s;  // written while the event was in R
reg  [RC_W-1:0]   rc_reg;     // what was written last
wire [RC_W-1:0]   rc_s = rc_late_s ? rc_reg : rc_read;

wire [C_W-1:0] config_new = {
    table_data[EDGE_PSN_RX_LSB +: EDGE_PSN_RX_WIDTH], table_data[EDGE_PSN_TX_LSB +: EDGE_PSN_TX_WIDTH],
    table_data[EDGE_CHILD_LSB +: EDGE_CHILD_WIDTH], table_data[EDGE_PORT_LSB +: EDGE_PORT_WIDTH],
    table_data[EDGE_ROLE_LSB +: EDGE_ROLE_WIDTH], table_data[EDGE_GROUP_LSB +: EDGE_GROUP_WIDTH]
};
wire [C_W-1:0] conf_s;
epic_ram #(.WIDTH(C_W), .DEPTH(EDGES)) config_memory (
    .clk(clk),
    .write(table_edge), .write_addr(edge_written), .write_data(config_new),
    .read(step), .read_addr(edge_r), .read_data(conf_s)
);

// ----------------------------------------------------------------------------------------------------- state by group
wire                command = state_reg == COMMAND;
wire                command_end = state_reg == COMMAND_END;
wire [7:0]          group_of_edge = group_of_reg[edge_r];
wire [GROUP_AW-1:0] group_r = !command ? group_of_edge[GROUP_AW-1:0]
    : table_op == TABLE_EDGE ? table_data[EDGE_GROUP_LSB +: GROUP_AW] : table_data[GROUP_AW-1:0];
reg  [GROUP_AW-1:0] group_s, group_d, group_a;
wire                read_group = state_reg == RUN ? step : command;
wire                write_group = command_end && table_op == TABLE_GROUP;

wire [GROUP_W-1:0]  grp_s;
epic_ram #(.WIDTH(GROUP_W), .DEPTH(GROUP_DEPTH)) group_memory (
    .clk(clk),
    .write(write_group), .write_addr(table_index[GROUP_AW-1:0]), .write_data(table_data[GROUP_W-1:0]),
    .read(read_group), .read_addr(group_r), .read_data(grp_s)
);
wire [TIMERS_W-1:0] timers_s;
epic_ram #(.WIDTH(TIMERS_W), .DEPTH(GROUP_DEPTH)) timers_memory (
    .clk(clk),
    .write(command_end && table_op == TABLE_TIMERS), .write_addr(table_index[GROUP_AW-1:0]),
    .write_data(table_data[TIMERS_W-1:0]),
    .read(read_group), .read_addr(group_r), .read_data(timers_s)
);
// {completed, passed}
reg          progress_write;
reg  [47:0]  progress_data;
wire [47:0]  progress_read;
epic_ram #(.WIDTH(48), .DEPTH(GROUP_DEPTH)) progress_memory (
    .clk(clk),
    .write(progress_write || write_group),
    .write_addr(write_group ? table_index[GROUP_AW-1:0] : group_a),
    .write_data(write_group ? 48'd0 : progress_data),
    .read(read_group), .read_addr(group_r), .read_data(progress_read)
);
// What is written while an event is in R, S or D is put in place of what it has read.
reg          progress_late_s;  // written while it was in R
reg  [47:0]  progress_reg;     // what was written last
reg  [47:0]  progress_of_d, progress_a;
wire [47:0]  progress_s = progress_late_s ? progress_reg : progress_read;
wire [47:0]  progress_d = progress_write && group_a == group_d ? progress_data : progress_of_d;

// ------------------------------------------------------------------------------------------------------ state by slot
wire [23:0]        number_s = in_s[IN_NUMBER_LSB +: IN_NUMBER_WIDTH];
wire [15:0]        window_s = 16'd1 << grp_s[GROUP_SLOT_LOG2_LSB +: GROUP_SLOT_LOG2_WIDTH];
wire [23:0]        cell_s = what_s == SEND ? rc_s[RC_CUR_LSB +: RC_CUR_WIDTH] : number_s;
wire [15:0]        slot_wide = grp_s[GROUP_SLOT_BASE_LSB +: GROUP_SLOT_BASE_WIDTH] + (cell_s[15:0] & (window_s - 16'd1));
wire [SLOT_AW-1:0] slot_s = slot_wide[SLOT_AW-1:0];
reg  [SLOT_AW-1:0] slot_d, slot_a;
wire               read_slot = state_reg == RUN ? step : command;

reg               agg_write;
reg  [A_W-1:0]    agg_a;     // to be written
wire [A_W-1:0]    agg_read;
wire              clear_slot = command_end && table_op == TABLE_SLOT_CLEAR;
epic_ram #(.WIDTH(A_W), .DEPTH(SLOTS)) agg_memory (
    .clk(clk),
    .write(agg_write || clear_slot), .write_addr(clear_slot ? table_index[SLOT_AW-1:0] : slot_a),
    .write_data(clear_slot ? {A_W{1'b0}} : agg_a),
    .read(read_slot), .read_addr(command ? table_index[SLOT_AW-1:0] : slot_s), .read_data(agg_read)
);
reg               bcast_write;
reg  [B_W-1:0]    out_a;     // a bcast slot, or what the partial is
wire [B_W-1:0]    bcast_read;
epic_ram #(.WIDTH(B_W), .DEPTH(SLOTS)) bcast_memory (
    .clk(clk),
    .write(bcast_write), .write_addr(slot_a), .write_data(out_a),
    .read(read_slot), .read_addr(slot_s), .read_data(bcast_read)
);
// What is written while an event is in S or D is put in place of what it has read.
reg               agg_late_d, bcast_late_d;  // written while it was in S
reg  [A_W-1:0]    agg_reg;                   // what was written last
reg  [B_W-1:0]    bcast_reg;
wire              same_slot = slot_a == slot_d;
wire [A_W-1:0]    agg_d = agg_write && same_slot ? agg_a : agg_late_d ? agg_reg : agg_read;
wire [B_W-1:0]    bcast_d = bcast_write && same_slot ? out_a : bcast_late_d ? bcast_reg : bcast_read;

// Which children have a rank below them.
wire [15:0]         rank = bcast_d[B_IMM + IMMDT_RANK_LSB +: IMMDT_RANK_WIDTH];
wire [CHILDREN-1:0] below;
epic_ram #(.WIDTH(CHILDREN), .DEPTH(GROUP_DEPTH * RANKS)) below_memory (
    .clk(clk),
    .write(command_end && table_op == TABLE_BELOW), .write_addr(table_index[GROUP_AW+RANK_AW-1:0]),
    .write_data(table_data[CHILDREN-1:0]),
    .read(step), .read_addr({group_d, rank[RANK_AW-1:0]}), .read_data(below)
);

// When each packet that is not acknowledged was sent, and whether once: of the newest that an acknowledgement names, and of
// the one that data acknowledges (EPIC-M2-10, EPIC-M2-11).
wire                 parent_s = conf_s[C_ROLE +: 2] == ROLE_PARENT;
wire [7:0]           syndrome_s = in_s[IN_IMM_LSB + 24 +: 8];
wire                 ack_s = in_s[IN_KIND_LSB +: IN_KIND_WIDTH] == IN_ACK;
wire                 positive_s = (syndrome_s & SYNDROME_MASK) == SYNDROME_ACK;
wire [23:0]          newest_s = ack_s ? number_s - {23'd0, !positive_s} : parent_s ? number_s : number_s - {8'd0, window_s};
reg                  sent_write;
wire                 once;
wire [31:0]          first_sent;
reg  [23:0]          sent_number_a;
reg                  sent_first_a;
epic_ram #(.WIDTH(33), .DEPTH(EDGES << WINDOW_AW), .ADDR_W(EDGE_AW + WINDOW_AW)) sent_memory (
    .clk(clk),
    .write(sent_write), .write_addr({edge_a, sent_number_a[WINDOW_AW-1:0]}), .write_data({sent_first_a, now}),
    .read(step), .read_addr({edge_s, newest_s[WINDOW_AW-1:0]}), .read_data({once, first_sent})
);

// ------------------------------------------------------------------------------------------------- whose turn it is
wire [EDGES-1:0]   ready_to_send;
wire [EDGES-1:0]   send_grant;
wire [EDGE_AW-1:0] send_edge;
// The room that an event in A takes is seen when the next batch begins.
wire               sending = (valid_s && what_s == SEND) || (valid_d && what_d == SEND) || (valid_a && what_a == SEND);
wire               can_send = send_grant != {EDGES{1'b0}} && !sending;

// The rest of a batch: those that had room when it began, so they still have, for no frame is taken up until it has ended.
reg  [EDGES-1:0]   batch_reg;
reg  [7:0]         batch_group_reg;
wire [EDGES-1:0]   members;
wire [EDGES-1:0]   free_members = members & ~busy_reg;
wire [EDGES-1:0]   member_grant = free_members & (~free_members + 1'b1);
wire               in_batch = members != {EDGES{1'b0}};
reg  [EDGE_AW-1:0] member;
wire [PORT_AW-1:0] port_r = port_of_reg[edge_r];

genvar e;
generate
    for (e = 0; e < EDGES; e = e + 1) begin : g_ready
        assign ready_to_send[e] = want_reg[e] && send_room[port_of_reg[e]];
        assign members[e] = batch_reg[e] && group_of_reg[e] == batch_group_reg;
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
    asks = {table_valid, timer_due && !busy[timer_due_edge], can_send, in_valid && !busy[in_edge]};
    chosen = FRAME;
    any = asks != 4'd0;
    if (rotated[0]) chosen = turn_reg + 2'd1;
    else if (rotated[1]) chosen = turn_reg + 2'd2;
    else if (rotated[2]) chosen = turn_reg + 2'd3;
    else chosen = turn_reg;
    if (in_batch) chosen = SEND;
end
wire empty = !valid_s && !valid_d && !valid_a;
wire choose = state_reg == RUN && step && (in_batch ? free_members != {EDGES{1'b0}} : any && chosen != TABLE);  // an event is taken up
wire opens = choose && chosen == SEND && !in_batch;
wire obeys = state_reg == RUN && any && chosen == TABLE && empty && !in_batch;
assign in_ready = choose && chosen == FRAME;
assign timer_take = choose && chosen == TIMER;

epic_arbiter #(.PORTS(EDGES)) senders (
    .clk(clk), .rst(rst), .request(ready_to_send & ~busy_reg), .take(opens),
    .grant(send_grant), .index(send_edge)
);

integer m;
always @* begin
    member = {EDGE_AW{1'b0}};
    for (m = 0; m < EDGES; m = m + 1)
        if (member_grant[m]) member = member | m[EDGE_AW-1:0];
    case (chosen)
        FRAME: edge_r = in_edge;
        SEND: edge_r = in_batch ? member : send_edge;
        default: edge_r = timer_due_edge;
    endcase
end

assign idle = state_reg == RUN && empty && !in_batch && !any && want_reg == {EDGES{1'b0}};

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

// ------------------------------------------------------------------------------------ S: responder (spec section 7.3)
wire [31:0] imm_s = in_s[IN_IMM_LSB +: IN_IMM_WIDTH];
wire [23:0] expected_s = rc_s[RC_EXPECTED_LSB +: RC_EXPECTED_WIDTH];
wire [23:0] distance = number_s - expected_s;
wire [13:0] in_bytes_s = in_s[IN_BYTES_LSB +: IN_BYTES_WIDTH];
wire [3:0]  datatype = imm_s[IMMDT_DATATYPE_LSB +: IMMDT_DATATYPE_WIDTH];
wire        opaque = imm_s[IMMDT_ERR_LSB]
    || imm_s[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH] == PRIMITIVE_BROADCAST;

// Part of an element behind the last whole one (EPIC-E-11).
reg part;
always @* begin
    case (datatype)
        DATATYPE_INT8: part = 1'b0;
        DATATYPE_FP16, DATATYPE_BF16, DATATYPE_INT16: part = in_bytes_s[0];
        DATATYPE_INT64, DATATYPE_FP64: part = in_bytes_s[2:0] != 3'd0;
        default: part = in_bytes_s[1:0] != 2'd0;
    endcase
    if (opaque) part = 1'b0;
end

// What can be said of a data packet without the group's progress.
reg       duplicate_d, gap_d, oversize_d, part_d;
reg       duplicate_a, gap_a;

// ---------------------------------------------------------------------------------------------------- D: the decisions
reg  [RC_W-1:0]     rc_d;
reg  [C_W-1:0]      conf_d, conf_a;
reg  [GROUP_W-1:0]  grp_d, grp_a;
reg  [TIMERS_W-1:0] timers_d;
reg  [23:0]         newest_d;
reg                 last_d, last_a;  // of a batch

wire [23:0] passed = progress_d[23:0];
wire [23:0] completed = progress_d[47:24];
wire [15:0] window = 16'd1 << grp_d[GROUP_SLOT_LOG2_LSB +: GROUP_SLOT_LOG2_WIDTH];
wire        root = grp_d[GROUP_ROOT_LSB];
wire [1:0]  role_d = conf_d[C_ROLE +: 2];
wire        from_parent = role_d == ROLE_PARENT;
wire [5:0]  child = conf_d[C_CHILD +: 6];
wire [23:0] next = from_parent ? completed : passed;
wire [23:0] number = in_d[IN_NUMBER_LSB +: IN_NUMBER_WIDTH];
wire [31:0] imm = in_d[IN_IMM_LSB +: IN_IMM_WIDTH];
wire [7:0]  syndrome = imm[31:24];
wire [13:0] in_bytes = in_d[IN_BYTES_LSB +: IN_BYTES_WIDTH];
wire        is_ack = in_d[IN_KIND_LSB +: IN_KIND_WIDTH] == IN_ACK;
wire        is_none = what_d == FRAME && in_d[IN_KIND_LSB +: IN_KIND_WIDTH] == IN_NONE;
wire        is_data = what_d == FRAME && !is_none && !is_ack;
// Only an edge's own event puts it in error, so this is so in A too.
wire        dead = failed_reg[edge_d] || (!is_none && role_d == ROLE_NONE);
wire [23:0] ahead = rc_d[RC_EXPECTED_LSB +: RC_EXPECTED_WIDTH] - passed;

reg       accept;
reg [7:0] outcome;
always @* begin
    accept = 1'b0;
    if (duplicate_d) outcome = COUNTER_RX_DUPLICATE;
    else if (gap_d) outcome = COUNTER_RX_OUT_OF_ORDER;
    else if (oversize_d) outcome = COUNTER_DROP_OVERSIZE;
    else if (from_parent) begin
        accept = passed != completed;
        outcome = accept ? COUNTER_RX_RESULT : COUNTER_DROP_UNEXPECTED;
    end
    else if (part_d) outcome = COUNTER_DROP_ELEMENT;
    else begin
        accept = ahead < {8'd0, window};
        outcome = accept ? COUNTER_RX_CONTRIBUTION : COUNTER_DROP_WINDOW;
    end
end

// A packet for another child than the batch's first one is sent when it is the same packet.
reg  [23:0] batch_cell_reg;
wire [23:0] cur = rc_d[RC_CUR_LSB +: RC_CUR_WIDTH];
wire        left_out = what_d == SEND && !first_d && (!wanted_d || cur != batch_cell_reg);

reg [2:0] rc_event;
always @* begin
    case (what_d)
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
wire [31:0]     deadline = rc_d[RC_DEADLINE_LSB +: RC_DEADLINE_WIDTH];
wire [31:0]     late = now - deadline;
wire            timer_runs = rc_d[RC_PAUSED_LSB] || rc_d[RC_UNA_LSB +: RC_UNA_WIDTH] != cur;
wire            really_due = timer_runs && !late[31];
epic_m2_requester requester (
    .state(rc_d), .next(next), .timers(timers_d), .now(now),
    .rc_event(what_d == FRAME && !is_ack && !accept ? RC_NOTHING
        : what_d == TIMER && !really_due ? RC_NOTHING : rc_event),
    // An implicit acknowledgement is of all before: EPIC-M2-10, EPIC-M2-11.
    .number(is_ack ? number : newest_d + 24'd1),
    .rnr_wait(rnr_wait(syndrome[4:0])),
    .once(once), .first_sent(first_sent),
    .next_state(rc_next), .failed(rc_failed), .unknown(rc_unknown), .running(rc_running)
);

// --------------------------------------------------------------------------------------------------------------- cell
wire [63:0]         child_wide = 64'd1 << child;
wire [CHILDREN-1:0] child_bit = child_wide[CHILDREN-1:0];
wire [CHILDREN-1:0] all_children = {CHILDREN{1'b1}} >> (CHILDREN - 1 - {26'd0, grp_d[GROUP_FAN_IN_LSB +: GROUP_FAN_IN_WIDTH]});
wire [CHILDREN-1:0] cell_bitmap;
wire [31:0]         cell_held, cell_out_imm, record_held, record_other;
wire [13:0]         cell_bytes, cell_out_bytes, cell_kept_bytes, record_held_bytes, record_other_bytes;
wire                cell_err, cell_record, cell_ce, cell_full, cell_poisoned, cell_make;
wire [3:0]          cell_op;
epic_m2_cell #(.CHILDREN(CHILDREN)) cell_value (
    .fresh(!agg_d[A_LIVE] || agg_d[A_CELL +: 24] != number),
    .bitmap(agg_d[A_BITMAP +: CHILDREN]), .held(agg_d[A_HELD +: 32]), .bytes(agg_d[A_BYTES +: 14]), .err(agg_d[A_ERR]),
    .has_record(agg_d[A_RECORD]), .congested(agg_d[A_CE]),
    .child_bit(child_bit), .all_children(all_children), .imm(imm), .in_bytes(in_bytes), .in_congested(in_d[IN_CE_LSB]),
    .keeps_record(grp_d[GROUP_RECORD_LSB]), .operators(grp_d[GROUP_OPERATORS_LSB +: GROUP_OPERATORS_WIDTH]),
    .datatypes(grp_d[GROUP_DATATYPES_LSB +: GROUP_DATATYPES_WIDTH]),
    .next_bitmap(cell_bitmap), .next_held(cell_held), .next_bytes(cell_bytes), .next_err(cell_err),
    .next_has_record(cell_record), .next_congested(cell_ce), .full(cell_full), .poisoned(cell_poisoned),
    .make_record(cell_make), .operation(cell_op),
    .record_held(record_held), .record_held_bytes(record_held_bytes),
    .record_other(record_other), .record_other_bytes(record_other_bytes),
    .out_imm(cell_out_imm), .out_bytes(cell_out_bytes), .kept_bytes(cell_kept_bytes)
);

wire contributes_d = is_data && !dead && accept && !from_parent;
wire takes_result_d = is_data && !dead && accept && from_parent;

// Output of an agg slot as a partial.
wire [13:0] agg_bytes = agg_d[A_ERR] ? (agg_d[A_RECORD] ? CONFLICT_RECORD_BYTES[13:0] : 14'd0) : agg_d[A_BYTES +: 14];
wire [31:0] agg_imm = agg_d[A_HELD +: 32] | (agg_d[A_ERR] ? 32'd1 << IMMDT_ERR_LSB : 32'd0)
    | (agg_bytes == 14'd0 ? NULL_BIT : 32'd0);

// ------------------------------------------------------------------------------------------------ A: what comes of it
reg [RC_W-1:0]   rc_a;
reg              failed_a, unknown_a, running_a;
reg              poisoned_a;
reg [MOVE_W-1:0] move_a;
reg              wants_a;     // after the event the edge has something to send
reg              accept_a, contributes_a, takes_result_a, completes_a, publishes_a, dead_a, left_out_a;
reg [7:0]        outcome_a;
reg [2:0]        rc_event_a;

wire [1:0]         role = conf_a[C_ROLE +: 2];
wire [PORT_AW-1:0] port = conf_a[C_PORT +: PORT_AW];
wire [23:0]        psn_tx = conf_a[C_PSN_TX +: 24];
wire [23:0]        psn_rx = conf_a[C_PSN_RX +: 24];
wire [7:0]         port_wide = 8'd1 << port;
wire [PORTS-1:0]   port_bit = port_wide[PORTS-1:0];
wire               to_parent = role == ROLE_PARENT;
wire               frame_a = what_a == FRAME;
wire               is_none_a = frame_a && in_a[IN_KIND_LSB +: IN_KIND_WIDTH] == IN_NONE;
wire               is_ack_a = in_a[IN_KIND_LSB +: IN_KIND_WIDTH] == IN_ACK;
wire               is_data_a = frame_a && !is_none_a && !is_ack_a;
wire [63:0]        child_wide_a = 64'd1 << conf_a[C_CHILD +: 6];

// The packet as this child may see it (EPIC-E-06).
wire [31:0] out_imm = out_a[B_IMM +: 32];
wire        suppressed = !to_parent
    && out_imm[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH] == PRIMITIVE_REDUCE
    && !out_imm[IMMDT_NULL_LSB] && !out_imm[IMMDT_ERR_LSB]
    && !(({16'd0, out_imm[IMMDT_RANK_LSB +: IMMDT_RANK_WIDTH]} < RANKS)
        && (below & child_wide_a[CHILDREN-1:0]) != {CHILDREN{1'b0}});
wire [13:0] send_bytes = suppressed ? 14'd0 : out_a[B_BYTES +: 14];
wire        has_payload = send_bytes != 14'd0;
wire        sends = what_a == SEND && !left_out_a;
// The pass of the data for a batch: its slot and length are those of the first.
reg  [PORTS-1:0]  payload_ports_reg;
reg  [MOVE_W-1:0] batch_move_reg;
wire [PORTS-1:0]  payload_ports = payload_ports_reg | (sends && has_payload ? port_bit : {PORTS{1'b0}});
wire              orders = what_a == SEND && last_a && payload_ports != {PORTS{1'b0}};

wire       takes = contributes_a || takes_result_a;
wire       answers = is_data_a && !dead_a && (duplicate_a || (gap_a && !rc_a[RC_NAK_SENT_LSB])
    || (accept_a && in_a[IN_ACKREQ_LSB]));
wire       nak = gap_a;
wire [23:0] expected = rc_a[RC_EXPECTED_LSB +: RC_EXPECTED_WIDTH];  // the requester leaves it as it was
wire [23:0] acknowledged = accept_a ? expected + 24'd1 : expected;
wire       drains = in_a[IN_HAS_BEATS_LSB] && !takes;
wire       moves = takes && (move_a[MOVE_IN_BYTES_LSB +: 14] != 14'd0 || move_a[MOVE_OUT_BYTES_LSB +: 14] != 14'd0);
wire       needs_move = frame_a ? drains || moves : orders;
assign     act = valid_a && (!needs_move || move_ready);
wire       act_frame = act && frame_a;
wire       changes_rc = act && !is_none_a && !dead_a && !left_out_a;
assign     step = !valid_a || act;

wire             has_room = (job_room & port_bit) != {PORTS{1'b0}};

// A new edge's timeout.
wire [31:0] t_initial = timers_s[TIMERS_INITIAL_LSB +: TIMERS_INITIAL_WIDTH];
wire [31:0] t_min = timers_s[TIMERS_MIN_LSB +: TIMERS_MIN_WIDTH];
wire [31:0] t_max = timers_s[TIMERS_MAX_LSB +: TIMERS_MAX_WIDTH];
wire [31:0] t_low = t_initial < t_min ? t_min : t_initial;
wire [31:0] initial_timeout = t_low > t_max ? t_max : t_low;

always @* begin
    rc_write = changes_rc;
    rc_write_data = rc_a;
    if (is_data_a) begin
        rc_write_data[RC_EXPECTED_LSB +: RC_EXPECTED_WIDTH] = acknowledged;
        rc_write_data[RC_NAK_SENT_LSB] = gap_a || (rc_a[RC_NAK_SENT_LSB] && !accept_a);
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
    timer_armed = changes_rc && running_a;
    timer_deadline = rc_a[RC_DEADLINE_LSB +: RC_DEADLINE_WIDTH];
    sent_write = act && sends;

    progress_write = act && (completes_a || publishes_a);
    progress_data = {progress_a[47:24] + {23'd0, completes_a}, progress_a[23:0] + {23'd0, publishes_a}};
    agg_write = act && contributes_a;
    bcast_write = act && publishes_a;

    // Moves: a frame's, or the one for all that a packet is sent to.
    move_valid = valid_a && needs_move;
    move_data = move_a;
    ordered = {PORTS{1'b0}};
    if (frame_a) begin
        move_data[MOVE_SRC_LSB +: MOVE_SRC_WIDTH] = in_a[IN_PORT_LSB +: IN_PORT_WIDTH];
        if (!takes) begin
            move_data[MOVE_IN_BYTES_LSB +: 14] = in_a[IN_BYTES_LSB +: IN_BYTES_WIDTH];
            move_data[MOVE_OUT_BYTES_LSB +: 14] = 14'd0;
        end
    end
    else begin
        if (!first_a) move_data = batch_move_reg;
        move_data[MOVE_PORTS_LSB +: PORTS] = payload_ports;
        if (act && orders) ordered = payload_ports;
    end

    // Jobs.
    job = {PORTS{1'b0}};
    job_failed = {PORTS{1'b0}};
    job_data = {JOB_W{1'b0}};
    job_data[JOB_EDGE_LSB +: EDGE_AW] = edge_a;
    if (what_a == SEND) begin
        if (act && sends) job = port_bit;
        job_data[JOB_OPCODE_LSB +: JOB_OPCODE_WIDTH] = OPCODE_SEND_ONLY_IMM;
        job_data[JOB_PSN_LSB +: JOB_PSN_WIDTH] = psn_tx + sent_number_a;
        job_data[JOB_ACKREQ_LSB] = 1'b1;
        job_data[JOB_CE_LSB] = out_a[B_CE] && grp_a[GROUP_ECN_LSB];
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

    // Counters: the outcome of a frame, or that a packet is sent again; and what comes of it.
    count_frame = act_frame;
    count_ce = act_frame && in_a[IN_CE_LSB];
    count_completed = act && completes_a;
    count_poisoned = act && contributes_a && poisoned_a;
    count_outcome = act && sends && !sent_first_a;
    count_outcome_index = COUNTER_TX_RETRANSMISSION;
    if (frame_a) begin
        count_outcome = act;
        if (is_none_a) begin
            count_outcome = act && in_a[IN_REASON_LSB +: IN_REASON_WIDTH] != COUNTERS;
            count_outcome_index = in_a[IN_REASON_LSB +: IN_REASON_WIDTH];
        end
        else if (role == ROLE_NONE) count_outcome_index = COUNTER_DROP_UNKNOWN_QPN;
        else if (dead_a) count_outcome_index = COUNTER_DROP_EDGE_ERROR;
        else if (!is_ack_a) count_outcome_index = outcome_a;
        else if (unknown_a) count_outcome_index = COUNTER_DROP_UNEXPECTED;
        else if (rc_event_a == RC_ACK) count_outcome_index = COUNTER_RX_ACK;
        else if (rc_event_a == RC_RNR) count_outcome_index = COUNTER_RX_RNR_NAK;
        else count_outcome_index = COUNTER_RX_NAK;
    end
    count_send = act && (what_a == SEND ? sends && sent_first_a : (answers && has_room) || (changes_rc && failed_a));
    count_send_index = what_a == SEND ? (to_parent ? COUNTER_TX_PARTIAL : COUNTER_TX_RESULT)
        : answers ? (nak ? COUNTER_TX_NAK : COUNTER_TX_ACK) : COUNTER_EDGE_ERRORS;
end

assign timer_edge = edge_written;
assign table_ready = command_end;
assign table_edge = command_end && table_op == TABLE_EDGE;

// ------------------------------------------------------------------------------------------------------ the sequence
// What concerns all edges at once.
wire [EDGE_AW-1:0] parent_edge = grp_a[GROUP_PARENT_EDGE_LSB +: EDGE_AW];
integer i;
always @(posedge clk) begin
    if (changes_rc) begin
        want_reg[edge_a] <= wants_a;
        paused_reg[edge_a] <= rc_a[RC_PAUSED_LSB];
        if (failed_a) failed_reg[edge_a] <= 1'b1;
    end
    if (act && publishes_a)
        for (i = 0; i < EDGES; i = i + 1)
            if (child_reg[i] && group_of_reg[i] == conf_a[C_GROUP +: 8] && !failed_reg[i]
                && !(edge_a == i[EDGE_AW-1:0] ? rc_a[RC_PAUSED_LSB] : paused_reg[i])) want_reg[i] <= 1'b1;
    if (act && completes_a && !grp_a[GROUP_ROOT_LSB] && !failed_reg[parent_edge] && !paused_reg[parent_edge])
        want_reg[parent_edge] <= 1'b1;
    if (act) busy_reg[edge_a] <= 1'b0;
    if (choose) busy_reg[edge_r] <= 1'b1;
    if (table_edge) begin
        child_reg[edge_written] <= config_new[C_ROLE +: 2] == ROLE_HOST || config_new[C_ROLE +: 2] == ROLE_ENGINE;
        group_of_reg[edge_written] <= config_new[C_GROUP +: 8];
        port_of_reg[edge_written] <= config_new[C_PORT +: PORT_AW];
        want_reg[edge_written] <= 1'b0;
        failed_reg[edge_written] <= 1'b0;
        paused_reg[edge_written] <= 1'b0;
    end
    // Those of other groups are in no batch, and are forgotten with its end.
    if (!in_batch) batch_reg <= {EDGES{1'b0}};
    if (choose && chosen == SEND) begin
        // Of a batch one edge a port.
        if (!in_batch) begin
            batch_reg <= child_reg[send_edge] ? ready_to_send & child_reg & ~send_grant : {EDGES{1'b0}};
            batch_group_reg <= group_of_reg[send_edge];
        end
        else batch_reg <= batch_reg & ~member_grant;
        for (i = 0; i < EDGES; i = i + 1)
            if (port_of_reg[i] == port_r) batch_reg[i] <= 1'b0;
    end
    if (rst) begin
        child_reg <= {EDGES{1'b0}};
        want_reg <= {EDGES{1'b0}};
        failed_reg <= {EDGES{1'b0}};
        paused_reg <= {EDGES{1'b0}};
        busy_reg <= {EDGES{1'b0}};
        batch_reg <= {EDGES{1'b0}};
    end
end

// The stages.
always @(posedge clk) begin
    if (step) begin
        valid_s <= choose;
        what_s <= chosen;
        edge_s <= edge_r;
        group_s <= group_r;
        in_s <= in_data;
        first_s <= !in_batch;
        wanted_s <= want_reg[edge_r];
        rc_late_s <= rc_write && edge_a == edge_r;
        progress_late_s <= progress_write && group_a == group_r;

        valid_d <= valid_s;
        what_d <= what_s;
        edge_d <= edge_s;
        group_d <= group_s;
        in_d <= in_s;
        first_d <= first_s;
        wanted_d <= wanted_s;
        last_d <= !in_batch;
        slot_d <= slot_s;
        rc_d <= rc_s;
        conf_d <= conf_s;
        grp_d <= grp_s;
        timers_d <= timers_s;
        newest_d <= newest_s;
        duplicate_d <= distance[23];
        gap_d <= !distance[23] && distance != 24'd0;
        oversize_d <= in_bytes_s > grp_s[GROUP_PAYLOAD_BYTES_LSB +: GROUP_PAYLOAD_BYTES_WIDTH];
        part_d <= part;
        progress_of_d <= progress_write && group_a == group_s ? progress_data : progress_s;
        agg_late_d <= agg_write && slot_a == slot_s;
        bcast_late_d <= bcast_write && slot_a == slot_s;

        valid_a <= valid_d;
        what_a <= what_d;
        edge_a <= edge_d;
        group_a <= group_d;
        in_a <= in_d;
        first_a <= first_d;
        last_a <= last_d;
        slot_a <= slot_d;
        conf_a <= conf_d;
        grp_a <= grp_d;
        progress_a <= progress_d;
        rc_a <= rc_next;
        failed_a <= rc_failed;
        unknown_a <= rc_unknown;
        running_a <= rc_running;
        wants_a <= !rc_failed && !rc_next[RC_PAUSED_LSB] && rc_next[RC_CUR_LSB +: RC_CUR_WIDTH] != next;
        rc_event_a <= rc_event;
        sent_number_a <= cur;
        sent_first_a <= cur == rc_d[RC_HIGH_LSB +: RC_HIGH_WIDTH];
        if (valid_d && what_d == SEND && first_d) batch_cell_reg <= cur;
        left_out_a <= left_out;
        accept_a <= accept;
        duplicate_a <= duplicate_d;
        gap_a <= gap_d;
        outcome_a <= outcome;
        dead_a <= dead;
        contributes_a <= contributes_d;
        takes_result_a <= takes_result_d;
        completes_a <= contributes_d && cell_full;
        publishes_a <= takes_result_d || (contributes_d && cell_full && root);
        poisoned_a <= cell_poisoned;
        agg_a[A_CELL +: 24] <= number;
        agg_a[A_HELD +: 32] <= cell_held;
        agg_a[A_BYTES +: 14] <= cell_bytes;
        agg_a[A_LIVE] <= 1'b1;
        agg_a[A_ERR] <= cell_err;
        agg_a[A_RECORD] <= cell_record;
        agg_a[A_CE] <= cell_ce;
        agg_a[A_BITMAP +: CHILDREN] <= cell_bitmap;

        move_a <= {MOVE_W{1'b0}};
        move_a[MOVE_LITTLE_LSB] <= grp_d[GROUP_LITTLE_LSB];
        move_a[MOVE_HELD_LSB +: 32] <= record_held;
        move_a[MOVE_HELD_BYTES_LSB +: 14] <= record_held_bytes;
        move_a[MOVE_OTHER_LSB +: 32] <= record_other;
        move_a[MOVE_OTHER_BYTES_LSB +: 14] <= record_other_bytes;
        if (what_d == SEND) begin
            out_a <= from_parent ? {agg_d[A_CE], agg_bytes, agg_imm} : bcast_d;
            move_a[MOVE_OP_LSB +: MOVE_OP_WIDTH] <= LANE_B;
            move_a[MOVE_FROM_LSB +: MOVE_FROM_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_d, !from_parent};
            move_a[MOVE_OUT_BYTES_LSB +: 14] <= from_parent ? agg_bytes : bcast_d[B_BYTES +: 14];
        end
        else if (from_parent) begin
            out_a <= {in_d[IN_CE_LSB] || agg_d[A_CE], in_bytes, imm};
            move_a[MOVE_OP_LSB +: MOVE_OP_WIDTH] <= LANE_A;
            move_a[MOVE_WRITE_LSB] <= 1'b1;
            move_a[MOVE_FROM_LSB +: MOVE_FROM_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_d, 1'b1};
            move_a[MOVE_TO_LSB +: MOVE_TO_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_d, 1'b1};
            move_a[MOVE_IN_BYTES_LSB +: 14] <= in_bytes;
            move_a[MOVE_OUT_BYTES_LSB +: 14] <= in_bytes;
        end
        else begin
            // At the root a complete cell becomes the result: its last pass writes to bcast.
            out_a <= {cell_ce, cell_out_bytes, cell_out_imm};
            move_a[MOVE_OP_LSB +: MOVE_OP_WIDTH] <= cell_op;
            move_a[MOVE_RECORD_LSB] <= cell_make;
            move_a[MOVE_WRITE_LSB] <= 1'b1;
            move_a[MOVE_FROM_LSB +: MOVE_FROM_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_d, 1'b0};
            move_a[MOVE_TO_LSB +: MOVE_TO_WIDTH] <= {{16 - SLOT_AW{1'b0}}, slot_d, cell_full && root};
            move_a[MOVE_IN_BYTES_LSB +: 14] <= in_bytes;
            move_a[MOVE_OUT_BYTES_LSB +: 14] <= cell_full && root ? cell_out_bytes : cell_kept_bytes;
        end
    end
    if (rc_write) rc_reg <= rc_write_data;
    if (progress_write) progress_reg <= progress_data;
    if (agg_write) agg_reg <= agg_a;
    if (bcast_write) bcast_reg <= out_a;
    if (act && what_a == SEND) begin
        payload_ports_reg <= last_a ? {PORTS{1'b0}} : payload_ports;
        if (first_a) batch_move_reg <= move_a;
    end
    if (rst) begin
        valid_s <= 1'b0;
        valid_d <= 1'b0;
        valid_a <= 1'b0;
        payload_ports_reg <= {PORTS{1'b0}};
    end
end

wire [23:0] slot_age = agg_read[A_CELL +: 24] - progress_read[23:0];
always @(posedge clk) begin
    if ((choose && !in_batch) || obeys) turn_reg <= chosen;
    case (state_reg)
        RUN: if (obeys) state_reg <= COMMAND;
        COMMAND: state_reg <= COMMAND_READ;
        COMMAND_READ: begin
            state_reg <= COMMAND_END;
            if (table_op == TABLE_EDGE_READ) slot_done <= failed_reg[table_index[EDGE_AW-1:0]];
            if (table_op == TABLE_SLOT_READ) begin
                slot_live <= agg_read[A_LIVE];
                slot_done <= slot_age[23];
                slot_cell <= agg_read[A_CELL +: 24];
                slot_bitmap <= 64'd0;
                slot_bitmap[CHILDREN-1:0] <= agg_read[A_BITMAP +: CHILDREN];
            end
        end
        default: state_reg <= RUN;
    endcase
    if (rst) begin
        state_reg <= RUN;
        turn_reg <= FRAME;
    end
end
// Parts of records and sums that carry nothing here.
wire unused = &{1'b0, table_index, table_data, conf_s, conf_d, conf_a, grp_d, grp_a, in_s, in_d, in_a, cell_s, slot_wide, rank,
    late, child_wide, child_wide_a, port_wide, slot_age, newest_s, in_data, group_of_edge, sent_number_a};

endmodule

`default_nettype wire
