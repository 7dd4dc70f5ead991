// Mode II, the decisions: frames (spec section 8.3), packets to send, timers and commands of the control plane take turns.
// All state of edges, groups and slots is here. A pipeline, an event a step:
//
//   R  whose turn it is; its edge, group and progress are read
//   S  its slot, and when the packet was sent that it acknowledges
//   D  what comes of it
//   A  state is written, a JOB and a MOVE leave: the whole event happens in the last cycle of this step
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
// A step takes CYCLES clock cycles, for what is decided in a stage is more than one cycle's worth of logic. Nothing that a
// stage looks at changes between two steps: its own registers and memories are written in the last cycle of a step, and what
// comes from outside is sampled in the first one. So registers that divide the logic (epic_cut) only make it late, by at most
// CYCLES - 1 cycles, and the pipeline is the same whatever CYCLES is. With CYCLES = 1 they are wires; that is what most
// proofs are about. A step that has to wait for a MOVE is begun anew, so that `now` is never old when something is sent.
//
// A requester's packets CUR to `next` - 1 wait to be sent, for the first time or again: `want` has the bits of such edges.
// `next` is `passed` for a child and `completed` for the parent. A packet's payload goes to all children that wait for the
// same packet in one pass of the data, so their events follow each other without a gap, a batch: the first to be served, then
// those of its group that want and had room then, at a port of their own, as soon as nothing else of their edge is under way.
// One that waits for another packet than the first, or for none any more, is left out in D. The last of the batch orders the
// pass.

`default_nettype none

`include "epic_check.vh"
`include "epic_cut.vh"

module epic_m2_sequencer #(
    parameter CYCLES = 4,        // of a step: 1, or 4 and more
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

    output wire                 move_valid,     // CYCLES > 1: not before there is room
    output wire [MOVE_BITS-1:0] move_data,
    input  wire                 move_ready,

    output reg  [PORTS-1:0]     job,            // for this port
    output wire [JOB_BITS-1:0]  job_data,
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
    output wire [7:0]           count_outcome_index,
    output reg                  count_send,
    output wire [7:0]           count_send_index,

    output wire                 idle
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_m2_types.vh"

`EPIC_CHECK(g_check_cycles, CYCLES == 1 || (CYCLES >= 4 && CYCLES <= 16),
    ("epic_m2_sequencer: CYCLES is %0d, expected 1 or 4 to 16", CYCLES))
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

localparam integer CUT = CYCLES > 1 ? 1 : 0;
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
wire               step;       // all stages go on: the last cycle of a step
wire               act;        // the event in A happens
wire               needs_move; // it orders a move
wire               moves_data; // the same, when it has settled

// The events in S, D and A.
reg                valid_s, valid_d, valid_a;
reg  [1:0]         what_s, what_d, what_a;
reg  [EDGE_AW-1:0] edge_s, edge_d, edge_a;
reg  [IN_BITS-1:0] in_s, in_d, in_a;
reg                first_s, first_d, first_a;  // of a batch
reg                wanted_s, wanted_d;         // in R the edge had something to send

// What a memory reads in the cycle of a write to the same word is used nowhere (ANY of epic_ram): it is replaced by what was
// written, or there is no event to use it. Block RAM is late and may be far away: a cut stands right behind it (`stored`), and
// the choice between that and what was written meanwhile comes after the cut.

// ----------------------------------------------------------------------------------------------------- state by edge
// In registers what is looked at for all edges at once.
reg [EDGES-1:0]   child_reg, want_reg, failed_reg, paused_reg;
reg [7:0]         group_of_reg [0:EDGES-1];
reg [PORT_AW-1:0] port_of_reg [0:EDGES-1];

// Events of these edges are under way, in S, D or A.
reg  [EDGES-1:0]  busy_reg;

// An edge by its bit.
function [EDGES-1:0] bit_of(input [EDGE_AW-1:0] index);
    bit_of = {{EDGES - 1{1'b0}}, 1'b1} << index;
endfunction
// The lowest bit that is set, and all above it. (No subtraction: carries of so many bits take longer.)
function [EDGES-1:0] above(input [EDGES-1:0] set);
    integer distance;
    begin
        above = set;
        for (distance = 1; distance < EDGES; distance = 2 * distance) above = above | (above << distance);
        above = above << 1;
    end
endfunction
function [EDGES-1:0] lowest(input [EDGES-1:0] set);
    lowest = set & ~above(set);
endfunction

reg  [EDGE_AW-1:0] edge_r;

// ------------------------------------------------------------------------------------------------- what comes from outside
// Sampled in the first cycle of a step: the time, who asks for a turn, and for which edges. Nothing is asked for an edge of
// which an event is under way. (One in A is no more, for it leaves with this step; that is of use to frames and timers.)
wire [EDGE_AW-1:0]  in_edge_now = in_data[IN_EDGE_LSB +: EDGE_AW];
wire [PORTS-1:0]    port_has [0:EDGES-1];  // bit p: the edge is at port p
wire [EDGES-1:0]    ready_now;             // it has something to send, and its port has room
genvar e;
generate
    for (e = 0; e < EDGES; e = e + 1) begin : g_ready
        assign port_has[e] = {{PORTS - 1{1'b0}}, 1'b1} << port_of_reg[e];
        assign ready_now[e] = want_reg[e] && send_room[port_of_reg[e]];
    end
endgenerate
localparam SAMPLE_W = 32 + 3 + 2 * EDGE_AW + 2 * EDGES;
wire [SAMPLE_W-1:0] outside = {
    now, in_valid && !(busy_reg[in_edge_now] && !(valid_a && edge_a == in_edge_now)),
    timer_due && !(busy_reg[timer_due_edge] && !(valid_a && edge_a == timer_due_edge)), table_valid,
    in_edge_now, timer_due_edge, ready_now, ready_now & ~busy_reg
};
wire [SAMPLE_W-1:0] sampled;
wire [31:0]         time_now;
wire                frame_asks, timer_asks, command_asks;
wire [EDGE_AW-1:0]  in_edge, due_edge;
wire [EDGES-1:0]    ready, asking;         // asking: free as well
assign {time_now, frame_asks, timer_asks, command_asks, in_edge, due_edge, ready, asking} = sampled;
wire                frame_next;            // the next event is a frame
generate
    if (CUT != 0) begin : g_cycles
        localparam [3:0] LAST = CYCLES[3:0] - 4'd1;
        reg  [3:0]          cycle_reg;
        reg                 step_reg, act_reg, take_reg;
        wire                goes_on_now = cycle_reg == LAST - 4'd1 && !(valid_a && needs_move && !move_ready);
        reg  [SAMPLE_W-1:0] sampled_reg;
`ifdef FORMAL
        initial {cycle_reg, step_reg, act_reg, take_reg} = 7'd0;  // a proof may begin with any state, but with the beginning of a step
`endif
        always @(posedge clk) begin
            cycle_reg <= cycle_reg == LAST ? 4'd0 : cycle_reg + 4'd1;
            if (cycle_reg == 4'd0) sampled_reg <= outside;
            // Room for a move that is there now will still be there.
            step_reg <= goes_on_now;
            act_reg <= goes_on_now && valid_a;
            take_reg <= goes_on_now && frame_next;
            if (rst) begin
                cycle_reg <= 4'd0;
                step_reg <= 1'b0;
                act_reg <= 1'b0;
                take_reg <= 1'b0;
            end
        end
        assign sampled = sampled_reg;
        assign step = step_reg;
        assign act = act_reg;
        assign in_ready = take_reg;
        assign move_valid = act && moves_data;
    end
    else begin : g_cycle
        assign sampled = outside;
        assign step = !(valid_a && needs_move && !move_ready);
        assign act = step && valid_a;
        assign in_ready = step && frame_next;
        assign move_valid = valid_a && moves_data;
    end
endgenerate

reg               rc_write;
reg  [RC_W-1:0]   rc_write_data;
wire [RC_W-1:0]   rc_read;
wire              writes_edge = state_reg == COMMAND_END && table_op == TABLE_EDGE;
`EPIC_CUT(cut_is_edge, is_edge, 1, writes_edge)
wire [EDGE_AW-1:0] edge_written = is_edge ? table_index[EDGE_AW-1:0] : edge_a;
epic_ram #(.WIDTH(RC_W), .DEPTH(EDGES), .ANY(1), .BLOCK(1)) rc_memory (
    .clk(clk),
    .write(rc_write), .write_addr(edge_written), .write_data(rc_write_data),
    .read(step), .read_addr(edge_r), .read_data(rc_read)
);
reg               rc_wrote_reg;       // in the last step a record was written, of this edge
reg  [EDGE_AW-1:0] rc_edge_reg;
reg  [RC_W-1:0]   rc_reg;     // what was written last
`EPIC_CUT(cut_rc_late, rc_late_s, 1, rc_wrote_reg && rc_edge_reg == edge_s)  // written while the event was in R
`EPIC_CUT(cut_rc, rc_stored, RC_W, rc_read)
wire [RC_W-1:0]   rc_s = rc_late_s ? rc_reg : rc_stored;

wire [C_W-1:0] config_new = {
    table_data[EDGE_PSN_RX_LSB +: EDGE_PSN_RX_WIDTH], table_data[EDGE_PSN_TX_LSB +: EDGE_PSN_TX_WIDTH],
    table_data[EDGE_CHILD_LSB +: EDGE_CHILD_WIDTH], table_data[EDGE_PORT_LSB +: EDGE_PORT_WIDTH],
    table_data[EDGE_ROLE_LSB +: EDGE_ROLE_WIDTH], table_data[EDGE_GROUP_LSB +: EDGE_GROUP_WIDTH]
};
wire [C_W-1:0] conf_read;
epic_ram #(.WIDTH(C_W), .DEPTH(EDGES), .ANY(1), .BLOCK(1)) config_memory (
    .clk(clk),
    .write(table_edge), .write_addr(edge_written), .write_data(config_new),
    .read(step), .read_addr(edge_r), .read_data(conf_read)
);
`EPIC_CUT(cut_conf, conf_s, C_W, conf_read)

// ----------------------------------------------------------------------------------------------------- state by group
wire                command = state_reg == COMMAND;
wire                command_end = state_reg == COMMAND_END && step;
reg  [7:0]          group_of_edge;
wire [GROUP_AW-1:0] group_r = !command ? group_of_edge[GROUP_AW-1:0]
    : table_op == TABLE_EDGE ? table_data[EDGE_GROUP_LSB +: GROUP_AW] : table_data[GROUP_AW-1:0];
reg  [GROUP_AW-1:0] group_s, group_d, group_a;
wire                read_group = (state_reg == RUN || command) && step;
wire                write_group = command_end && table_op == TABLE_GROUP;

wire [GROUP_W-1:0]  grp_read;
epic_ram #(.WIDTH(GROUP_W), .DEPTH(GROUP_DEPTH), .ANY(1), .BLOCK(1)) group_memory (
    .clk(clk),
    .write(write_group), .write_addr(table_index[GROUP_AW-1:0]), .write_data(table_data[GROUP_W-1:0]),
    .read(read_group), .read_addr(group_r), .read_data(grp_read)
);
`EPIC_CUT(cut_grp, grp_s, GROUP_W, grp_read)
wire [TIMERS_W-1:0] timers_read;
epic_ram #(.WIDTH(TIMERS_W), .DEPTH(GROUP_DEPTH), .ANY(1), .BLOCK(1)) timers_memory (
    .clk(clk),
    .write(command_end && table_op == TABLE_TIMERS), .write_addr(table_index[GROUP_AW-1:0]),
    .write_data(table_data[TIMERS_W-1:0]),
    .read(read_group), .read_addr(group_r), .read_data(timers_read)
);
`EPIC_CUT(cut_timers, timers_s, TIMERS_W, timers_read)
// {completed, passed}
reg          progress_write;
reg  [47:0]  progress_data;
wire [47:0]  progress_read;
epic_ram #(.WIDTH(48), .DEPTH(GROUP_DEPTH), .ANY(1), .BLOCK(1)) progress_memory (
    .clk(clk),
    .write(progress_write || write_group),
    .write_addr(write_group ? table_index[GROUP_AW-1:0] : group_a),
    .write_data(write_group ? 48'd0 : progress_data),
    .read(read_group), .read_addr(group_r), .read_data(progress_read)
);
// What is written while an event is in R, S or D is put in place of what it has read.
reg          progress_wrote_reg;  // in the last step progress was written, of this group
reg  [GROUP_AW-1:0] progress_group_reg;
reg  [47:0]  progress_reg;     // what was written last
reg  [47:0]  progress_of_d, progress_a;
wire         progress_late_s = progress_wrote_reg && progress_group_reg == group_s;  // while the event was in R
`EPIC_CUT(cut_progress_read, progress_stored, 48, progress_read)
wire [47:0]  progress_s = progress_late_s ? progress_reg : progress_stored;
wire         progresses = completes_a || publishes_a;
wire         makes_progress = valid_a && progresses;
`EPIC_CUT(cut_progress, progress_d, 48, makes_progress && group_a == group_d ? progress_data : progress_of_d)

// ------------------------------------------------------------------------------------------------------ state by slot
wire [23:0]        number_s = in_s[IN_NUMBER_LSB +: IN_NUMBER_WIDTH];
wire [15:0]        cell_s = what_s == SEND ? rc_s[RC_CUR_LSB +: 16] : number_s[15:0];
wire [23:0]        expected_s = rc_s[RC_EXPECTED_LSB +: RC_EXPECTED_WIDTH];
wire [13:0]        largest_s = grp_s[GROUP_PAYLOAD_BYTES_LSB +: GROUP_PAYLOAD_BYTES_WIDTH];
wire [15:0]        window_s = 16'd1 << grp_s[GROUP_SLOT_LOG2_LSB +: GROUP_SLOT_LOG2_WIDTH];
`EPIC_CUT(cut_place, place_s, 16, cell_s & (window_s - 16'd1))
`EPIC_CUT(cut_slot, slot_wide, 16, grp_s[GROUP_SLOT_BASE_LSB +: GROUP_SLOT_BASE_WIDTH] + place_s)
wire [SLOT_AW-1:0] slot_s = slot_wide[SLOT_AW-1:0];
reg  [SLOT_AW-1:0] slot_d, slot_a;
wire               read_slot = (state_reg == RUN || command) && step;

reg               agg_write;
reg  [A_W-1:0]    agg_a;     // to be written
wire [A_W-1:0]    agg_read;
wire              clear_slot = command_end && table_op == TABLE_SLOT_CLEAR;
epic_ram #(.WIDTH(A_W), .DEPTH(SLOTS), .ANY(1), .BLOCK(1)) agg_memory (
    .clk(clk),
    .write(agg_write || clear_slot), .write_addr(clear_slot ? table_index[SLOT_AW-1:0] : slot_a),
    .write_data(clear_slot ? {A_W{1'b0}} : agg_a),
    .read(read_slot), .read_addr(command ? table_index[SLOT_AW-1:0] : slot_s), .read_data(agg_read)
);
reg               bcast_write;
reg  [B_W-1:0]    out_a;     // a bcast slot, or what the partial is
wire [B_W-1:0]    bcast_read;
epic_ram #(.WIDTH(B_W), .DEPTH(SLOTS), .ANY(1), .BLOCK(1)) bcast_memory (
    .clk(clk),
    .write(bcast_write), .write_addr(slot_a), .write_data(out_a),
    .read(read_slot), .read_addr(slot_s), .read_data(bcast_read)
);
// What is written while an event is in S or D is put in place of what it has read.
reg               agg_late_d, bcast_late_d;  // written while it was in S
reg  [A_W-1:0]    agg_reg;                   // what was written last
reg  [B_W-1:0]    bcast_reg;
wire              agg_now = valid_a && contributes_a && slot_a == slot_d;    // while it is in D
wire              bcast_now = valid_a && publishes_a && slot_a == slot_d;
`EPIC_CUT(cut_agg_written, agg_written, 1, agg_now || agg_late_d)
`EPIC_CUT(cut_agg_new, agg_new, A_W, agg_now ? agg_a : agg_reg)
`EPIC_CUT(cut_agg, agg_stored, A_W, agg_read)
wire [A_W-1:0]    agg_d = agg_written ? agg_new : agg_stored;
`EPIC_CUT(cut_bcast_written, bcast_written, 1, bcast_now || bcast_late_d)
`EPIC_CUT(cut_bcast_new, bcast_new, B_W, bcast_now ? out_a : bcast_reg)
`EPIC_CUT(cut_bcast, bcast_stored, B_W, bcast_read)
wire [B_W-1:0]    bcast_d = bcast_written ? bcast_new : bcast_stored;

// Which children have a rank below them.
wire [15:0]         rank = bcast_d[B_IMM + IMMDT_RANK_LSB +: IMMDT_RANK_WIDTH];
wire [CHILDREN-1:0] below_read;
epic_ram #(.WIDTH(CHILDREN), .DEPTH(GROUP_DEPTH * RANKS), .ANY(1)) below_memory (
    .clk(clk),
    .write(command_end && table_op == TABLE_BELOW), .write_addr(table_index[GROUP_AW+RANK_AW-1:0]),
    .write_data(table_data[CHILDREN-1:0]),
    .read(step), .read_addr({group_d, rank[RANK_AW-1:0]}), .read_data(below_read)
);
`EPIC_CUT(cut_below, below, CHILDREN, below_read)

// When each packet that is not acknowledged was sent, and whether once: of the newest that an acknowledgement names, and of
// the one that data acknowledges (EPIC-M2-10, EPIC-M2-11).
`EPIC_CUT(cut_parent, parent_s, 1, conf_s[C_ROLE +: 2] == ROLE_PARENT)
wire [7:0]           syndrome_s = in_s[IN_IMM_LSB + 24 +: 8];
wire                 ack_s = in_s[IN_KIND_LSB +: IN_KIND_WIDTH] == IN_ACK;
wire                 positive_s = (syndrome_s & SYNDROME_MASK) == SYNDROME_ACK;
wire [15:0]          newest_ago = ack_s ? {15'd0, !positive_s} : parent_s ? 16'd0 : window_s;
`EPIC_CUT(cut_newest, newest_s, 24, number_s - {8'd0, newest_ago})
reg                  sent_write;
wire                 once_read;
wire [31:0]          first_sent_read;
reg  [23:0]          sent_number_a;
reg                  sent_first_a;
epic_ram #(.WIDTH(33), .DEPTH(EDGES << WINDOW_AW), .ANY(1), .ADDR_W(EDGE_AW + WINDOW_AW)) sent_memory (
    .clk(clk),
    .write(sent_write), .write_addr({edge_a, sent_number_a[WINDOW_AW-1:0]}), .write_data({sent_first_a, time_now}),
    .read(step), .read_addr({edge_s, newest_s[WINDOW_AW-1:0]}), .read_data({once_read, first_sent_read})
);
`EPIC_CUT(cut_once, once, 1, once_read)
`EPIC_CUT(cut_first_sent, first_sent, 32, first_sent_read)

// ------------------------------------------------------------------------------------------------- whose turn it is
// The room that an event in A takes is seen when the next batch begins.
wire               sending = (valid_s && what_s == SEND) || (valid_d && what_d == SEND) || (valid_a && what_a == SEND);
wire [EDGES-1:0]   members_now;

// The rest of a batch: those that had room when it began, so they still have, for no frame is taken up until it has ended.
// One edge a port: `served` are ports that have one.
reg  [EDGES-1:0]   batch_reg;
reg  [7:0]         batch_group_reg;
reg  [PORTS-1:0]   served_reg;

generate
    for (e = 0; e < EDGES; e = e + 1) begin : g_member
        assign members_now[e] = batch_reg[e] && group_of_reg[e] == batch_group_reg && !served_reg[port_of_reg[e]];
    end
endgenerate
`EPIC_CUT(cut_members, members, EDGES, members_now)
wire [EDGES-1:0]   free_members = members & ~busy_reg;
`EPIC_CUT(cut_in_batch, in_batch, 1, members != {EDGES{1'b0}})
`EPIC_CUT(cut_goes_on, goes_on, 1, free_members != {EDGES{1'b0}})

// The order of sources turns: who was served last comes last.
reg  [1:0] turn_reg;
wire [3:0] asks = {command_asks, timer_asks, asking != {EDGES{1'b0}} && !sending, frame_asks};
wire [7:0] twice = {asks, asks};
wire [2:0] rotated = {twice[turn_reg + 3'd3], twice[turn_reg + 3'd2], twice[turn_reg + 3'd1]};
reg  [1:0] choice;
always @* begin
    if (rotated[0]) choice = turn_reg + 2'd1;
    else if (rotated[1]) choice = turn_reg + 2'd2;
    else if (rotated[2]) choice = turn_reg + 2'd3;
    else choice = turn_reg;
    if (in_batch) choice = SEND;
end
wire empty = !valid_s && !valid_d && !valid_a;
wire any = asks != 4'd0;
wire runs = state_reg == RUN;
`EPIC_CUT(cut_chosen, chosen, 2, choice)
`EPIC_CUT(cut_takes_up, takes_up, 1, runs && (in_batch ? goes_on : any && choice != TABLE))
`EPIC_CUT(cut_command, begins_command, 1, runs && any && choice == TABLE && empty && !in_batch)
wire choose = step && takes_up;  // an event is taken up
wire opens = choose && chosen == SEND && !in_batch;
wire obeys = step && begins_command;
assign frame_next = runs && !in_batch && any && choice == FRAME;
assign timer_take = choose && chosen == TIMER;

// Of those that ask to send, the first after the one that began the last batch (as epic_arbiter has it).
reg  [EDGES-1:0]   after_reg;
wire [EDGES-1:0]   asking_first = asking & after_reg;
wire [EDGES-1:0]   grant = asking_first != {EDGES{1'b0}} ? lowest(asking_first) : lowest(asking);
always @(posedge clk) begin
    if (opens) after_reg <= above(sender);
    if (rst) after_reg <= {EDGES{1'b1}};
end

// The edge that sends, by its bit.
`EPIC_CUT(cut_sender, sender, EDGES, members != {EDGES{1'b0}} ? lowest(free_members) : grant)
`EPIC_CUT(cut_in_bit, in_bit, EDGES, bit_of(in_edge))
`EPIC_CUT(cut_due_bit, due_bit, EDGES, bit_of(due_edge))
wire [EDGES-1:0]   bit_r = chosen == FRAME ? in_bit : chosen == SEND ? sender : due_bit;
reg  [EDGE_AW-1:0] sender_edge_now;
reg  [7:0]         sender_group_now;
reg  [PORTS-1:0]   sender_port_now;
`EPIC_CUT(cut_in_group, in_group, 8, group_of_reg[in_edge])
`EPIC_CUT(cut_due_group, due_group, 8, group_of_reg[due_edge])
integer m;
always @* begin
    sender_edge_now = {EDGE_AW{1'b0}};
    sender_group_now = 8'd0;
    sender_port_now = {PORTS{1'b0}};
    for (m = 0; m < EDGES; m = m + 1)
        if (sender[m]) begin
            sender_edge_now = sender_edge_now | m[EDGE_AW-1:0];
            sender_group_now = sender_group_now | group_of_reg[m];
            sender_port_now = sender_port_now | port_has[m];
        end
end
`EPIC_CUT(cut_sender_edge, sender_edge, EDGE_AW, sender_edge_now)
`EPIC_CUT(cut_sender_group, sender_group, 8, sender_group_now)
`EPIC_CUT(cut_sender_port, sender_port, PORTS, sender_port_now)
`EPIC_CUT(cut_sender_is_child, sender_is_child, 1, (sender & child_reg) != {EDGES{1'b0}})
`EPIC_CUT(cut_sender_wants, sender_wants, 1, (sender & want_reg) != {EDGES{1'b0}})
always @* begin
    case (chosen)
        FRAME: begin
            edge_r = in_edge;
            group_of_edge = in_group;
        end
        SEND: begin
            edge_r = sender_edge;
            group_of_edge = sender_group;
        end
        default: begin
            edge_r = due_edge;
            group_of_edge = due_group;
        end
    endcase
end

assign idle = runs && empty && !in_batch && !in_valid && !timer_due && !table_valid && want_reg == {EDGES{1'b0}};

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
`EPIC_CUT(cut_distance, distance, 24, number_s - expected_s)
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
reg  [23:0]         after_newest_d;
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
`EPIC_CUT(cut_dead, dead, 1, failed_reg[edge_d] || (!is_none && role_d == ROLE_NONE))
`EPIC_CUT(cut_ahead, ahead, 24, rc_d[RC_EXPECTED_LSB +: RC_EXPECTED_WIDTH] - passed)
`EPIC_CUT(cut_open, open, 1, passed != completed)

reg       accepts;
reg [7:0] outcome;
always @* begin
    accepts = 1'b0;
    if (duplicate_d) outcome = COUNTER_RX_DUPLICATE;
    else if (gap_d) outcome = COUNTER_RX_OUT_OF_ORDER;
    else if (oversize_d) outcome = COUNTER_DROP_OVERSIZE;
    else if (from_parent) begin
        accepts = open;
        outcome = accepts ? COUNTER_RX_RESULT : COUNTER_DROP_UNEXPECTED;
    end
    else if (part_d) outcome = COUNTER_DROP_ELEMENT;
    else begin
        accepts = ahead < {8'd0, window};
        outcome = accepts ? COUNTER_RX_CONTRIBUTION : COUNTER_DROP_WINDOW;
    end
end
`EPIC_CUT(cut_accept, accept, 1, accepts)
`EPIC_CUT(cut_outcome, outcome_d, 8, outcome)

// A packet for another child than the batch's first one is sent when it is the same packet.
reg  [23:0] batch_cell_reg;
wire [23:0] cur = rc_d[RC_CUR_LSB +: RC_CUR_WIDTH];
`EPIC_CUT(cut_left_out, left_out, 1, what_d == SEND && !first_d && (!wanted_d || cur != batch_cell_reg))

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
wire            rc_failed, rc_unknown, rc_running, rc_wants;
wire [31:0]     deadline = rc_d[RC_DEADLINE_LSB +: RC_DEADLINE_WIDTH];
wire [31:0]     late = time_now - deadline;
wire            timer_runs = rc_d[RC_PAUSED_LSB] || rc_d[RC_UNA_LSB +: RC_UNA_WIDTH] != cur;
`EPIC_CUT(cut_due, really_due, 1, timer_runs && !late[31])
epic_m2_requester #(.CUT(CUT)) requester (
    .clk(clk), .step(step),
    .state(rc_d), .next(next), .timers(timers_d), .now(time_now),
    .rc_event(rc_event), .happens(what_d == FRAME ? is_ack || accept : what_d != TIMER || really_due),
    // An implicit acknowledgement is of all before: EPIC-M2-10, EPIC-M2-11.
    .number(is_ack ? number : after_newest_d),
    .rnr_wait(rnr_wait(syndrome[4:0])),
    .once(once), .first_sent(first_sent),
    .next_state(rc_next), .failed(rc_failed), .unknown(rc_unknown), .running(rc_running), .wants(rc_wants)
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
`EPIC_CUT(cut_fresh, fresh, 1, !agg_d[A_LIVE] || agg_d[A_CELL +: 24] != number)
epic_m2_cell #(.CHILDREN(CHILDREN), .CUT(CUT)) cell_value (
    .clk(clk), .step(step),
    .fresh(fresh),
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
// The requester has a stage of its own, if it is cut.
localparam REQUESTER_W = RC_W + 4;
wire [REQUESTER_W-1:0] requested = {rc_next, rc_failed, rc_unknown, rc_running, rc_wants};
wire [REQUESTER_W-1:0] requested_a;
generate
    if (CUT != 0) begin : g_requester
        assign requested_a = requested;
    end
    else begin : g_requester_stage
        reg [REQUESTER_W-1:0] requested_reg;
        always @(posedge clk) if (step) requested_reg <= requested;
        assign requested_a = requested_reg;
    end
endgenerate
wire [RC_W-1:0]  rc_a;
wire             failed_a, unknown_a, running_a;
wire             wants_a;     // after the event the edge has something to send
assign {rc_a, failed_a, unknown_a, running_a, wants_a} = requested_a;
reg              poisoned_a;
reg [MOVE_W-1:0] move_a;
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
wire        suppresses = !to_parent
    && out_imm[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH] == PRIMITIVE_REDUCE
    && !out_imm[IMMDT_NULL_LSB] && !out_imm[IMMDT_ERR_LSB]
    && !(({16'd0, out_imm[IMMDT_RANK_LSB +: IMMDT_RANK_WIDTH]} < RANKS)
        && (below & child_wide_a[CHILDREN-1:0]) != {CHILDREN{1'b0}});
`EPIC_CUT(cut_suppressed, suppressed, 1, suppresses)
`EPIC_CUT(cut_has_bytes, has_bytes, 1, out_a[B_BYTES +: 14] != 14'd0)
wire [13:0] send_bytes = suppressed ? 14'd0 : out_a[B_BYTES +: 14];
wire        has_payload = has_bytes && !suppressed;
wire        sends = what_a == SEND && !left_out_a;
// The pass of the data for a batch: its slot and length are those of the first.
reg  [PORTS-1:0]  payload_ports_reg;
reg  [MOVE_W-1:0] batch_move_reg;
wire [PORTS-1:0]  payload_ports = payload_ports_reg | (sends && has_payload ? port_bit : {PORTS{1'b0}});
`EPIC_CUT(cut_ordered_before, ordered_before, 1, payload_ports_reg != {PORTS{1'b0}})
`EPIC_CUT(cut_has_port, has_port, 1, port_bit != {PORTS{1'b0}})
wire              orders = what_a == SEND && last_a && (ordered_before || (sends && has_payload && has_port));

wire       takes = contributes_a || takes_result_a;
wire       answers = is_data_a && !dead_a && (duplicate_a || (gap_a && !rc_a[RC_NAK_SENT_LSB])
    || (accept_a && in_a[IN_ACKREQ_LSB]));
wire       nak = gap_a;
wire [23:0] expected = rc_a[RC_EXPECTED_LSB +: RC_EXPECTED_WIDTH];  // the requester leaves it as it was
`EPIC_CUT(cut_acknowledged, acknowledged, 24, expected + {23'd0, accept_a})
`EPIC_CUT(cut_psn_sent, psn_sent, 24, psn_tx + sent_number_a)
`EPIC_CUT(cut_psn_acknowledged, psn_acknowledged, 24, psn_rx + acknowledged - {23'd0, !nak})
wire       drains = in_a[IN_HAS_BEATS_LSB] && !takes;
`EPIC_CUT(cut_moves, moves, 1,
    takes && (move_a[MOVE_IN_BYTES_LSB +: 14] != 14'd0 || move_a[MOVE_OUT_BYTES_LSB +: 14] != 14'd0))
assign     needs_move = frame_a ? drains || moves : orders;
`EPIC_CUT(cut_needs_move, needed_move, 1, needs_move)
assign moves_data = needed_move;
`EPIC_CUT(cut_changes, changes, 1, !is_none_a && !dead_a && !left_out_a)
wire       changes_rc = act && changes;

// Whom a packet or an acknowledgement is for.
`EPIC_CUT(cut_packet_for, packet_for, PORTS, sends ? port_bit : {PORTS{1'b0}})
`EPIC_CUT(cut_ordered_for, ordered_for, PORTS, orders ? payload_ports : {PORTS{1'b0}})
`EPIC_CUT(cut_answer_for, answer_for, PORTS, answers ? port_bit : {PORTS{1'b0}})
wire             has_room = (job_room & answer_for) != {PORTS{1'b0}};

// A new edge's timeout.
wire [31:0] t_initial = timers_s[TIMERS_INITIAL_LSB +: TIMERS_INITIAL_WIDTH];
wire [31:0] t_min = timers_s[TIMERS_MIN_LSB +: TIMERS_MIN_WIDTH];
wire [31:0] t_max = timers_s[TIMERS_MAX_LSB +: TIMERS_MAX_WIDTH];
`EPIC_CUT(cut_low, t_low, 32, t_initial < t_min ? t_min : t_initial)
`EPIC_CUT(cut_initial, initial_timeout, 32, t_low > t_max ? t_max : t_low)

reg [MOVE_W-1:0] move_now;
reg [JOB_W-1:0]  job_now;
reg [7:0]        outcome_now, send_now;
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
    sent_write = act && packet_for != {PORTS{1'b0}};

    progress_write = act && progresses;
    progress_data = {progress_a[47:24] + {23'd0, completes_a}, progress_a[23:0] + {23'd0, publishes_a}};
    agg_write = act && contributes_a;
    bcast_write = act && publishes_a;

    // Moves: a frame's, or the one for all that a packet is sent to.
    move_now = move_a;
    ordered = act ? ordered_for : {PORTS{1'b0}};
    if (frame_a) begin
        move_now[MOVE_SRC_LSB +: MOVE_SRC_WIDTH] = in_a[IN_PORT_LSB +: IN_PORT_WIDTH];
        if (!takes) begin
            move_now[MOVE_IN_BYTES_LSB +: 14] = in_a[IN_BYTES_LSB +: IN_BYTES_WIDTH];
            move_now[MOVE_OUT_BYTES_LSB +: 14] = 14'd0;
        end
    end
    else begin
        if (!first_a) move_now = batch_move_reg;
        move_now[MOVE_PORTS_LSB +: PORTS] = payload_ports;
    end

    // Jobs.
    job = act ? packet_for | (answer_for & job_room) : {PORTS{1'b0}};
    job_failed = act ? answer_for & ~job_room : {PORTS{1'b0}};
    job_now = {JOB_W{1'b0}};
    job_now[JOB_EDGE_LSB +: EDGE_AW] = edge_a;
    if (what_a == SEND) begin
        job_now[JOB_OPCODE_LSB +: JOB_OPCODE_WIDTH] = OPCODE_SEND_ONLY_IMM;
        job_now[JOB_PSN_LSB +: JOB_PSN_WIDTH] = psn_sent;
        job_now[JOB_ACKREQ_LSB] = 1'b1;
        job_now[JOB_CE_LSB] = out_a[B_CE] && grp_a[GROUP_ECN_LSB];
        job_now[JOB_HAS_PAYLOAD_LSB] = has_payload;
        job_now[JOB_PAYLOAD_BYTES_LSB +: JOB_PAYLOAD_BYTES_WIDTH] = send_bytes;
        job_now[JOB_IMM_LSB +: JOB_IMM_WIDTH] = out_imm | (suppressed ? NULL_BIT : 32'd0);
    end
    else begin
        job_now[JOB_OPCODE_LSB +: JOB_OPCODE_WIDTH] = OPCODE_ACK;
        job_now[JOB_PSN_LSB +: JOB_PSN_WIDTH] = psn_acknowledged;
        job_now[JOB_IMM_LSB +: JOB_IMM_WIDTH] = {nak ? SYNDROME_NAK | NAK_PSN_SEQUENCE_ERROR : SYNDROME_ACK | CREDITS,
            acknowledged};
    end

    // Counters: the outcome of a frame, or that a packet is sent again; and what comes of it.
    outcome_now = COUNTER_TX_RETRANSMISSION;
    if (frame_a) begin
        if (is_none_a) outcome_now = in_a[IN_REASON_LSB +: IN_REASON_WIDTH];
        else if (role == ROLE_NONE) outcome_now = COUNTER_DROP_UNKNOWN_QPN;
        else if (dead_a) outcome_now = COUNTER_DROP_EDGE_ERROR;
        else if (!is_ack_a) outcome_now = outcome_a;
        else if (unknown_a) outcome_now = COUNTER_DROP_UNEXPECTED;
        else if (rc_event_a == RC_ACK) outcome_now = COUNTER_RX_ACK;
        else if (rc_event_a == RC_RNR) outcome_now = COUNTER_RX_RNR_NAK;
        else outcome_now = COUNTER_RX_NAK;
    end
    send_now = what_a == SEND ? (to_parent ? COUNTER_TX_PARTIAL : COUNTER_TX_RESULT)
        : answers ? (nak ? COUNTER_TX_NAK : COUNTER_TX_ACK) : COUNTER_EDGE_ERRORS;
    count_frame = act && counts_frame;
    count_ce = act && counts_ce;
    count_completed = act && completes_a;
    count_poisoned = act && counts_poisoned;
    count_outcome = act && counts_outcome;
    count_send = act && (counts_send || has_room);
end
`EPIC_CUT(cut_counts_frame, counts_frame, 1, frame_a)
`EPIC_CUT(cut_counts_ce, counts_ce, 1, frame_a && in_a[IN_CE_LSB])
`EPIC_CUT(cut_counts_poisoned, counts_poisoned, 1, contributes_a && poisoned_a)
`EPIC_CUT(cut_counts_outcome, counts_outcome, 1, frame_a ? !is_none_a || in_a[IN_REASON_LSB +: IN_REASON_WIDTH] != COUNTERS
    : sends && !sent_first_a)
`EPIC_CUT(cut_counts_send, counts_send, 1, what_a == SEND ? sends && sent_first_a : !answers && changes && failed_a)
`EPIC_CUT(cut_move, move_cut, MOVE_W, move_now)
`EPIC_CUT(cut_job, job_cut, JOB_W, job_now)
`EPIC_CUT(cut_outcome_index, outcome_cut, 8, outcome_now)
`EPIC_CUT(cut_send_index, send_cut, 8, send_now)
assign move_data = move_cut;
assign job_data = job_cut;
assign count_outcome_index = outcome_cut;
assign count_send_index = send_cut;

assign timer_edge = edge_written;
assign table_ready = command_end;
assign table_edge = step && is_edge;

// ------------------------------------------------------------------------------------------------------ the sequence
// What concerns all edges at once.
wire [EDGE_AW-1:0] parent_edge = grp_a[GROUP_PARENT_EDGE_LSB +: EDGE_AW];
`EPIC_CUT(cut_bit_a, bit_a, EDGES, bit_of(edge_a))
`EPIC_CUT(cut_bit_new, bit_new, EDGES, writes_edge ? bit_of(table_index[EDGE_AW-1:0]) : {EDGES{1'b0}})
`EPIC_CUT(cut_parent_bit, parent_bit, EDGES, bit_of(parent_edge))
reg  [EDGES-1:0]   children_now;  // that a result is for
integer i;
always @* begin
    for (i = 0; i < EDGES; i = i + 1)
        children_now[i] = child_reg[i] && group_of_reg[i] == conf_a[C_GROUP +: 8];
end
`EPIC_CUT(cut_children, children, EDGES, children_now)
wire [EDGES-1:0]   may_want = ~failed_reg & ~(rc_a[RC_PAUSED_LSB] ? paused_reg | bit_a : paused_reg & ~bit_a);
`EPIC_CUT(cut_woken, woken, EDGES, (publishes_a ? children & may_want : {EDGES{1'b0}})
    | (completes_a && !grp_a[GROUP_ROOT_LSB] ? parent_bit & ~failed_reg & ~paused_reg : {EDGES{1'b0}}))
always @(posedge clk) begin
    for (i = 0; i < EDGES; i = i + 1) begin
        if (changes_rc && bit_a[i]) begin
            want_reg[i] <= wants_a;
            paused_reg[i] <= rc_a[RC_PAUSED_LSB];
            if (failed_a) failed_reg[i] <= 1'b1;
        end
        if (act && woken[i]) want_reg[i] <= 1'b1;
        if (act && bit_a[i]) busy_reg[i] <= 1'b0;
        if (choose && bit_r[i]) busy_reg[i] <= 1'b1;
        if (step && bit_new[i]) begin
            child_reg[i] <= config_new[C_ROLE +: 2] == ROLE_HOST || config_new[C_ROLE +: 2] == ROLE_ENGINE;
            group_of_reg[i] <= config_new[C_GROUP +: 8];
            port_of_reg[i] <= config_new[C_PORT +: PORT_AW];
            want_reg[i] <= 1'b0;
            failed_reg[i] <= 1'b0;
            paused_reg[i] <= 1'b0;
        end
    end
    // Those of other groups are in no batch, and are forgotten with its end.
    if (step && !in_batch) batch_reg <= {EDGES{1'b0}};
    if (choose && chosen == SEND) begin
        if (!in_batch) begin
            batch_reg <= sender_is_child ? ready & child_reg & ~sender : {EDGES{1'b0}};
            batch_group_reg <= sender_group;
            served_reg <= sender_port;
        end
        else begin
            batch_reg <= batch_reg & ~sender;
            served_reg <= served_reg | sender_port;
        end
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
        wanted_s <= sender_wants;
        rc_wrote_reg <= rc_write;
        rc_edge_reg <= edge_a;
        progress_wrote_reg <= progress_write;
        progress_group_reg <= group_a;

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
        after_newest_d <= newest_s + 24'd1;
        duplicate_d <= distance[23];
        gap_d <= !distance[23] && distance != 24'd0;
        oversize_d <= in_bytes_s > largest_s;
        part_d <= part;
        progress_of_d <= makes_progress && group_a == group_s ? progress_data : progress_s;
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
        rc_event_a <= rc_event;
        sent_number_a <= cur;
        sent_first_a <= cur == rc_d[RC_HIGH_LSB +: RC_HIGH_WIDTH];
        if (valid_d && what_d == SEND && first_d) batch_cell_reg <= cur;
        left_out_a <= left_out;
        accept_a <= accept;
        duplicate_a <= duplicate_d;
        gap_a <= gap_d;
        outcome_a <= outcome_d;
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

wire [23:0] slot_distance = agg_stored[A_CELL +: 24] - progress_stored[23:0];
`EPIC_CUT(cut_slot_age, slot_age, 1, slot_distance[23])
always @(posedge clk) begin
    if ((choose && !in_batch) || obeys) turn_reg <= chosen;
    if (step) case (state_reg)
        RUN: if (obeys) state_reg <= COMMAND;
        COMMAND: state_reg <= COMMAND_READ;
        COMMAND_READ: begin
            state_reg <= COMMAND_END;
            if (table_op == TABLE_EDGE_READ) slot_done <= failed_reg[table_index[EDGE_AW-1:0]];
            if (table_op == TABLE_SLOT_READ) begin
                slot_live <= agg_stored[A_LIVE];
                slot_done <= slot_age;
                slot_cell <= agg_stored[A_CELL +: 24];
                slot_bitmap <= 64'd0;
                slot_bitmap[CHILDREN-1:0] <= agg_stored[A_BITMAP +: CHILDREN];
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
    late, child_wide, child_wide_a, port_wide, slot_distance, newest_s, in_data, group_of_edge, sent_number_a};

endmodule

`default_nettype wire
