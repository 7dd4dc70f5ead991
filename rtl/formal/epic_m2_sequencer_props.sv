// The decisions of Mode II, one group of W = 2 with up to two children, root or not, on two ports that they may
// share. What is proved is proved of one event, a frame, a batch of packets or a timer, that has the pipeline to itself,
// from any state that satisfies the invariant to the end of the event: it holds then again. Since what an installation
// leaves satisfies it too, it holds for ever. Events in the pipeline are as if each had it to itself, one after the other:
// that, and that a move which waits holds up everything, is what epic_m2_pipeline_props proves.
//
//   the invariant   passed <= completed <= passed + W; `completed` is how many cells every child has contributed
//                   a slot has the cell that its turn is on, with a bit for each child that has contributed to it, or
//                   the one before, complete; so a cell is complete exactly when all have contributed
//                   una <= cur <= high <= next in serial arithmetic, within the window that the children's
//                   contributions leave; retries within their limit; a pause only for an edge that waits
//                   `want` has exactly the edges that have something to send and may; a timer runs for exactly those
//                   that wait for something, with the deadline of the edge's record
//   a frame         leaves exactly one outcome: its reason, a duplicate, out of order, a contribution or a result; a
//                   contribution exactly when its child's bit was not there; its beats are moved or thrown away, once
//   packets         one JOB a port, of a packet that is to be sent, where there was room; payload that a JOB
//                   announces is ordered for its port, in its length, and no other
//   tags            of slots go on by W
//
// What epic_m2_requester_props assumes of events is asserted here.

`default_nettype none

`include "axis_held.svh"

module epic_m2_sequencer_props #(
    parameter EVENT = 0  // 0: a frame, 1: a packet, 2: a timer, 3: the installation
) (
    input wire         clk,
    input wire [31:0]  now,
    input wire         in_valid,
    input wire [94:0]  in_data,
    input wire         move_ready,
    input wire [1:0]   job_room,
    input wire [1:0]   send_room,
    input wire         timer_due,
    input wire [1:0]   timer_due_edge,
    input wire         table_valid,
    input wire [3:0]   table_op,
    input wire [15:0]  table_index,
    input wire [319:0] table_data
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_m2_types.vh"

localparam CHILDREN = 2, EDGES = 4, PARENT = 2, MTU = 64;
localparam [23:0] W = 24'd2;
// As in the sequencer.
localparam C_ROLE = 8, C_PORT = 10, C_CHILD = 13, C_W = 67;
localparam A_HELD = 24, A_LIVE = 70, A_ERR = 71, A_RECORD = 72, A_BITMAP = 74, A_W = A_BITMAP + CHILDREN;
localparam [1:0] RUN = 2'd0;
localparam [1:0] SEND = 2'd1;
localparam [31:0] FLAGS = 32'd1 << IMMDT_NULL_LSB | 32'd1 << IMMDT_ERR_LSB;

reg started = 1'b0;
always @(posedge clk) started <= 1'b1;

// The group.
(* anyconst *) wire        two, root;  // children
(* anyconst *) wire [3:0]  port_of;    // bit e: port of edge e
(* anyconst *) wire [7:0]  limit;
(* anyconst *) wire [13:0] largest;
(* anyconst *) wire        keeps;      // conflict records
always @* assume (largest >= 1 && largest <= MTU);
wire [EDGES-1:0]    exists = {1'b0, !root, two, 1'b1};
wire [CHILDREN-1:0] all = {two, 1'b1};

wire                move_valid, timer_write, timer_armed, in_ready, timer_take, table_ready, table_edge, idle;
wire [MOVE_W-1:0]   move_data;
wire [1:0]          job, ordered, job_failed, timer_edge;
wire [JOB_W-1:0]    job_data;
wire [31:0]         timer_deadline;
wire                slot_live, slot_done;
wire [23:0]         slot_cell;
wire [63:0]         slot_bitmap;
wire                count_frame, count_ce, count_completed, count_poisoned, count_outcome, count_send;
wire [7:0]          count_outcome_index, count_send_index;
epic_m2_sequencer #(
    .CYCLES(1), .PORTS(2), .EDGES(EDGES), .GROUPS(1), .CHILDREN(CHILDREN), .SLOTS(2), .WINDOW(2), .RANKS(2)
) dut (
    .clk(clk), .rst(EVENT == 3 && !started), .now(now),
    .in_valid(in_valid), .in_data(in_data), .in_ready(in_ready),
    .move_valid(move_valid), .move_data(move_data), .move_ready(move_ready),
    .job(job), .job_data(job_data), .job_room(job_room), .send_room(send_room), .ordered(ordered),
    .job_failed(job_failed),
    .timer_write(timer_write), .timer_armed(timer_armed), .timer_deadline(timer_deadline), .timer_edge(timer_edge),
    .timer_due(timer_due), .timer_due_edge(timer_due_edge), .timer_take(timer_take),
    .table_valid(table_valid), .table_op(table_op), .table_index(table_index), .table_data(table_data),
    .table_ready(table_ready), .table_edge(table_edge),
    .slot_live(slot_live), .slot_done(slot_done), .slot_cell(slot_cell), .slot_bitmap(slot_bitmap),
    .count_frame(count_frame), .count_ce(count_ce), .count_completed(count_completed),
    .count_poisoned(count_poisoned), .count_outcome(count_outcome), .count_outcome_index(count_outcome_index),
    .count_send(count_send), .count_send_index(count_send_index), .idle(idle)
);

// ----------------------------------------------------------------------------------------------------------- its state
(* hierconn *) wire [RC_W-1:0]     \dut.rc_memory.words[0] ;
(* hierconn *) wire [RC_W-1:0]     \dut.rc_memory.words[1] ;
(* hierconn *) wire [RC_W-1:0]     \dut.rc_memory.words[2] ;
(* hierconn *) wire [C_W-1:0]      \dut.config_memory.words[0] ;
(* hierconn *) wire [C_W-1:0]      \dut.config_memory.words[1] ;
(* hierconn *) wire [C_W-1:0]      \dut.config_memory.words[2] ;
(* hierconn *) wire [C_W-1:0]      \dut.config_memory.words[3] ;
(* hierconn *) wire [GROUP_W-1:0]  \dut.group_memory.words[0] ;
(* hierconn *) wire [TIMERS_W-1:0] \dut.timers_memory.words[0] ;
(* hierconn *) wire [47:0]         \dut.progress_memory.words[0] ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_memory.words[0] ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_memory.words[1] ;
(* hierconn *) wire [1:0]          \dut.state_reg ;
(* hierconn *) wire                \dut.valid_s ;
(* hierconn *) wire                \dut.valid_d ;
(* hierconn *) wire                \dut.valid_a ;
(* hierconn *) wire [1:0]          \dut.what_a ;
(* hierconn *) wire [1:0]          \dut.edge_d ;
(* hierconn *) wire [1:0]          \dut.edge_a ;
(* hierconn *) wire [EDGES-1:0]    \dut.busy_reg ;
(* hierconn *) wire                \dut.in_batch ;
(* hierconn *) wire                \dut.choose ;
(* hierconn *) wire                \dut.opens ;
(* hierconn *) wire [1:0]          \dut.payload_ports_reg ;
(* hierconn *) wire [EDGES-1:0]    \dut.child_reg ;
(* hierconn *) wire [EDGES-1:0]    \dut.want_reg ;
(* hierconn *) wire [EDGES-1:0]    \dut.failed_reg ;
(* hierconn *) wire [EDGES-1:0]    \dut.paused_reg ;
(* hierconn *) wire [7:0]          \dut.group_of_reg[0] ;
(* hierconn *) wire [7:0]          \dut.group_of_reg[1] ;
(* hierconn *) wire [7:0]          \dut.group_of_reg[2] ;
(* hierconn *) wire [7:0]          \dut.group_of_reg[3] ;
(* hierconn *) wire                \dut.port_of_reg[0] ;
(* hierconn *) wire                \dut.port_of_reg[1] ;
(* hierconn *) wire                \dut.port_of_reg[2] ;
(* hierconn *) wire                \dut.port_of_reg[3] ;
wire [3*RC_W-1:0]  rcs = {\dut.rc_memory.words[2] , \dut.rc_memory.words[1] , \dut.rc_memory.words[0] };
wire [4*C_W-1:0]   confs = {\dut.config_memory.words[3] , \dut.config_memory.words[2] , \dut.config_memory.words[1] ,
    \dut.config_memory.words[0] };
wire [GROUP_W-1:0] grp = \dut.group_memory.words[0] ;
wire [23:0]        passed = \dut.progress_memory.words[0] [23:0];
wire [23:0]        completed = \dut.progress_memory.words[0] [47:24];
wire [2*A_W-1:0]   aggs = {\dut.agg_memory.words[1] , \dut.agg_memory.words[0] };
wire               deciding = \dut.valid_d , acting = \dut.valid_a ;
wire [1:0]         what = \dut.what_a , decided = \dut.edge_d , which = \dut.edge_a ;
wire               between = \dut.state_reg == RUN && !\dut.valid_s && !deciding && !acting && !\dut.in_batch ;
wire [EDGES-1:0]   want = \dut.want_reg , failed = \dut.failed_reg , paused = \dut.paused_reg ;
wire [31:0]        groups = {\dut.group_of_reg[3] , \dut.group_of_reg[2] , \dut.group_of_reg[1] ,
    \dut.group_of_reg[0] };
wire [3:0]         ports = {\dut.port_of_reg[3] , \dut.port_of_reg[2] , \dut.port_of_reg[1] , \dut.port_of_reg[0] };

// The timers, as they were written.
reg [EDGES-1:0]    armed;
reg [EDGES*32-1:0] deadlines;
always @(posedge clk) if (timer_write) begin
    armed[timer_edge] <= timer_armed;
    deadlines[32*timer_edge +: 32] <= timer_deadline;
end

// ------------------------------------------------------------------------------------------------------- the invariant
reg                installed, sound_group, sound_slots, sound_edges, sound_want, sound_timers;
reg [23:0]         to_cur, to_high, to_next, ahead, done, least, next, gone;
reg [CHILDREN-1:0] bits;
reg [RC_W-1:0]     rc;
reg [A_W-1:0]      agg;
reg                takes;  // its turn is on the cell that it has
integer e, s;
always @* begin
    installed = grp[GROUP_SLOT_BASE_LSB +: 16] == 0 && grp[GROUP_SLOT_LOG2_LSB +: 4] == 1 && grp[GROUP_ROOT_LSB] == root
        && grp[GROUP_FAN_IN_LSB +: 6] == {5'd0, two} && grp[GROUP_PAYLOAD_BYTES_LSB +: 14] == largest
        && (root || grp[GROUP_PARENT_EDGE_LSB +: 8] == PARENT) && grp[GROUP_RECORD_LSB] == keeps
        && \dut.timers_memory.words[0] [TIMERS_RETRY_LIMIT_LSB +: 8] == limit && \dut.child_reg == (exists & 4'b0011)
        && ports == port_of && groups == 32'd0;
    for (e = 0; e < EDGES; e = e + 1)
        if (confs[C_W*e +: 8] != 0 || confs[C_W*e + C_PORT] != port_of[e] || confs[C_W*e + C_PORT + 1 +: 2] != 0
            || (exists[e] ? (e == PARENT) != (confs[C_W*e + C_ROLE +: 2] == ROLE_PARENT) : 1'b0)
            || exists[e] == (confs[C_W*e + C_ROLE +: 2] == ROLE_NONE)
            || (e < PARENT && confs[C_W*e + C_CHILD +: 6] != e)) installed = 1'b0;

    done = completed - passed;
    sound_group = done <= W && (!root || done == 0);
    sound_edges = 1'b1;
    sound_want = 1'b1;
    sound_timers = 1'b1;
    least = W;
    for (e = 0; e < 3; e = e + 1) begin
        rc = rcs[RC_W*e +: RC_W];
        next = e == PARENT ? completed : passed;
        to_cur = rc[RC_CUR_LSB +: 24] - rc[RC_UNA_LSB +: 24];
        to_high = rc[RC_HIGH_LSB +: 24] - rc[RC_UNA_LSB +: 24];
        to_next = next - rc[RC_UNA_LSB +: 24];
        ahead = rc[RC_EXPECTED_LSB +: 24] - passed;
        if (exists[e]) begin
            if (!(to_cur <= to_high && to_high <= to_next && rc[RC_RETRIES_LSB +: 8] <= limit)
                || (rc[RC_PAUSED_LSB] && to_next == 0)) sound_edges = 1'b0;
            if (e == PARENT ? ahead != 0 || to_next > done : ahead < done || ahead > W || to_next > W - ahead)
                sound_edges = 1'b0;
            if (e < PARENT && ahead < least) least = ahead;
            if (want[e] != (!failed[e] && !rc[RC_PAUSED_LSB] && to_cur != to_next) || paused[e] != rc[RC_PAUSED_LSB])
                sound_want = 1'b0;
            if (armed[e] != (!failed[e] && (rc[RC_PAUSED_LSB] || to_cur != 0))
                || (armed[e] && deadlines[32*e +: 32] != rc[RC_DEADLINE_LSB +: 32])) sound_timers = 1'b0;
        end
        else if (want[e] || failed[e] || paused[e] || armed[e]) sound_want = 1'b0;
    end
    if (want[3] || failed[3] || paused[3] || armed[3]) sound_want = 1'b0;
    if (least != done) sound_group = 1'b0;

    sound_slots = 1'b1;
    for (s = 0; s < 2; s = s + 1) begin
        agg = aggs[A_W*s +: A_W];
        gone = {23'd0, passed[0] != s[0]};  // cells from `passed` to the slot's
        for (e = 0; e < CHILDREN; e = e + 1) bits[e] = exists[e] && rcs[RC_W*e + RC_EXPECTED_LSB +: 24] - passed > gone;
        takes = agg[A_LIVE] && agg[0 +: 24] == passed + gone;
        if (takes != (bits != 0) || (takes && agg[A_BITMAP +: CHILDREN] != bits)) sound_slots = 1'b0;
        if (agg[A_LIVE] && !takes && !(agg[0 +: 24] == passed + gone - W && agg[A_BITMAP +: CHILDREN] == all))
            sound_slots = 1'b0;
        if (agg[A_LIVE] && ((agg[A_RECORD] && !(agg[A_ERR] && keeps)) || (agg[A_HELD +: 32] & FLAGS) != 0))
            sound_slots = 1'b0;
    end
end
wire sound = installed && sound_group && sound_edges && sound_want && sound_timers && sound_slots;

reg  over = 1'b0;
always @(posedge clk) over <= over || (started && between);

// ----------------------------------------------------------------------------------------------------- what may happen
axis_held #(.WIDTH(IN_W), .ASSUME(1)) in_held (
    .clk(clk), .on(1'b1), .valid(in_valid), .ready(in_ready), .data(in_data)
);
axis_held #(.WIDTH(340), .ASSUME(1)) table_held (
    .clk(clk), .on(1'b1), .valid(table_valid), .ready(table_ready), .data({table_data, table_index, table_op})
);
axis_held #(.WIDTH(2), .ASSUME(1)) due_held (
    .clk(clk), .on(1'b1), .valid(timer_due), .ready(timer_take), .data(timer_due_edge)
);
wire [1:0]  in_kind = in_data[IN_KIND_LSB +: 2];
wire [7:0]  in_reason = in_data[IN_REASON_LSB +: 8];
wire [13:0] in_bytes = in_data[IN_BYTES_LSB +: 14];
wire        fits = in_bytes >= 1 && in_bytes <= MTU;
always @* if (in_valid) begin
    // epic_m2_admit_props asserts it.
    assume (in_kind <= IN_DATA && in_data[IN_EDGE_LSB +: 8] < EDGES && in_data[IN_PORT_LSB +: 3] < 2);
    assume (!in_data[IN_HAS_BEATS_LSB] || (fits && in_kind != IN_ACK));
    assume (in_kind != IN_DATA || in_data[IN_HAS_BEATS_LSB] == fits);
    assume (in_kind == IN_NONE ? in_reason <= COUNTERS : in_reason == COUNTERS);
end

reg [3:0] step;  // of the installation
generate
    if (EVENT == 3) begin : g_install
        // Groups, timers, slots, edges: as in README-mode2.md; one that does not exist has role NONE.
        wire [1:0] named = 2'd3 - step[1:0];
        wire       is_child = named < PARENT;
        initial step = 4'd0;
        always @(posedge clk) if (started && table_ready) step <= step + 1'b1;
        always @* begin
            assume (!in_valid && !timer_due);
            assume (table_valid == (started && step < 8));
            case (step)
                0: assume (table_op == TABLE_GROUP && table_index == 0
                    && table_data[GROUP_SLOT_BASE_LSB +: 16] == 0 && table_data[GROUP_SLOT_LOG2_LSB +: 4] == 1
                    && table_data[GROUP_FAN_IN_LSB +: 6] == {5'd0, two} && table_data[GROUP_ROOT_LSB] == root
                    && table_data[GROUP_PAYLOAD_BYTES_LSB +: 14] == largest
                    && table_data[GROUP_PARENT_EDGE_LSB +: 8] == PARENT && table_data[GROUP_RECORD_LSB] == keeps);
                1: assume (table_op == TABLE_TIMERS && table_index == 0
                    && table_data[TIMERS_RETRY_LIMIT_LSB +: 8] == limit);
                2, 3: assume (table_op == TABLE_SLOT_CLEAR && table_index == step - 2);
                default: assume (table_op == TABLE_EDGE && table_index == named
                    && (table_data[EDGE_ROLE_LSB +: 2] == (!exists[named] ? ROLE_NONE : named == PARENT ? ROLE_PARENT
                        : ROLE_HOST) || (exists[named] && is_child && table_data[EDGE_ROLE_LSB +: 2] == ROLE_ENGINE))
                    && table_data[EDGE_GROUP_LSB +: 8] == 0 && table_data[EDGE_PORT_LSB +: 3] == port_of[named]
                    && table_data[EDGE_CHILD_LSB +: 6] == (is_child ? named : 0));
            endcase
        end
        always @(posedge clk) if (started && step == 8) begin
            a_installed: assert (installed);
            a_starts_sound: assert (sound);
            c_installed: cover (two && !root && between);
        end
    end else begin : g_event
        always @* begin
            // In the first cycle the event begins, and no other one does before it is over.
            assume (!table_valid);
            if (!started) assume (between && \dut.busy_reg == 0 && \dut.payload_ports_reg == 0 && sound);
            if (!started) assume (EVENT == 0 ? in_ready : EVENT == 1 ? \dut.opens : timer_take);
            if (started) assume (!\dut.choose || \dut.in_batch );
        end
    end
endgenerate

// -------------------------------------------------------------------------------------------------------- what happens
(* hierconn *) wire            \dut.agg_write ;
(* hierconn *) wire [A_W-1:0]  \dut.agg_a ;
(* hierconn *) wire            \dut.slot_a ;
(* hierconn *) wire            \dut.bcast_write ;
(* hierconn *) wire            \dut.rc_write ;
(* hierconn *) wire            \dut.failed_a ;
(* hierconn *) wire [2:0]      \dut.requester.rc_event ;
(* hierconn *) wire            \dut.requester.happens ;
(* hierconn *) wire [23:0]     \dut.requester.number ;
(* hierconn *) wire [RC_W-1:0] \dut.requester.state ;
(* hierconn *) wire [23:0]     \dut.requester.next ;
wire            counts = \dut.agg_write , publishes = \dut.bcast_write ;
wire [A_W-1:0]  slot = \dut.slot_a ? \dut.agg_memory.words[1] : \dut.agg_memory.words[0] ;
wire [A_W-1:0]  slot_after = \dut.agg_a ;
wire [23:0]     advance = slot_after[0 +: 24] - slot[0 +: 24];
wire [CHILDREN-1:0] had = slot[A_LIVE] && advance == 0 ? slot[A_BITMAP +: CHILDREN] : {CHILDREN{1'b0}};
wire [2:0]      rc_event = \dut.requester.happens ? \dut.requester.rc_event : RC_NOTHING;
wire [RC_W-1:0] rc_state = \dut.requester.state ;
wire [23:0]     rc_una = rc_state[RC_UNA_LSB +: 24], rc_cur = rc_state[RC_CUR_LSB +: 24];
wire [23:0]     rc_next = \dut.requester.next ;
wire [23:0]     named = \dut.requester.number - rc_una;
wire [31:0]     late = now - deadlines[32*decided +: 32];
// The requester's result is used: the edge is not in error, and is looked at for this event.
wire            decides = deciding && exists[decided] && !failed[decided];

// The frame in hand.
reg             open = 1'b0;
reg  [IN_W-1:0] frame;
wire [1:0]      kind = frame[IN_KIND_LSB +: 2];
wire [7:0]      reason = frame[IN_REASON_LSB +: 8];
wire [1:0]      frame_edge = frame[IN_EDGE_LSB +: 2];
wire            moves = move_valid && move_ready;
wire [13:0]     leave = move_data[MOVE_IN_BYTES_LSB +: 14];
wire [13:0]     job_bytes = job_data[JOB_PAYLOAD_BYTES_LSB +: 14];
wire [1:0]      move_ports = move_data[MOVE_PORTS_LSB +: 2];
always @(posedge clk) begin
    if (in_valid && in_ready) frame <= in_data;
    open <= (in_valid && in_ready) || (open && !count_frame);
end

// The packets in hand: which ports had room when they began, have got a JOB, are to get its payload.
reg  [1:0]  roomy, served = 2'd0, promised = 2'd0;
reg  [13:0] length;
wire [1:0]  packet = acting && what == SEND ? job : 2'd0;
wire [1:0]  announced = job_data[JOB_HAS_PAYLOAD_LSB] ? packet : 2'd0;
wire [1:0]  promises = promised | announced;
always @(posedge clk) begin
    if (\dut.opens ) roomy <= send_room;
    served <= served | packet;
    promised <= promises & ~ordered;
    if (announced != 0) length <= job_bytes;
end

generate if (EVENT != 3) begin : g_events
always @(posedge clk) if (started && !over) begin
    a_installed: assert (installed);
    a_group: assert (!between || sound_group);
    a_edges: assert (!between || sound_edges);
    a_want: assert (!between || sound_want);
    a_timers: assert (!between || sound_timers);
    a_slots: assert (!between || sound_slots);
    a_ends: assert (!between || (\dut.busy_reg == 0 && \dut.payload_ports_reg == 0));

    a_counted: assert (count_frame ? open : !(between && open));
    if (count_frame) begin
        a_reason: assert (kind != IN_NONE || (count_outcome == (reason != COUNTERS) && (!count_outcome
            || count_outcome_index == reason)));
        a_outcome: assert (kind != IN_DATA || (count_outcome && (count_outcome_index == COUNTER_RX_DUPLICATE
            || count_outcome_index == COUNTER_RX_OUT_OF_ORDER || count_outcome_index == COUNTER_RX_CONTRIBUTION
            || count_outcome_index == COUNTER_RX_RESULT || count_outcome_index == COUNTER_DROP_OVERSIZE
            || count_outcome_index == COUNTER_DROP_ELEMENT || count_outcome_index == COUNTER_DROP_WINDOW
            || count_outcome_index == COUNTER_DROP_UNEXPECTED || count_outcome_index == COUNTER_DROP_EDGE_ERROR
            || count_outcome_index == COUNTER_DROP_UNKNOWN_QPN)));
        a_of_ack: assert (kind != IN_ACK || (count_outcome && (count_outcome_index == COUNTER_RX_ACK
            || count_outcome_index == COUNTER_RX_NAK || count_outcome_index == COUNTER_RX_RNR_NAK
            || count_outcome_index == COUNTER_DROP_UNEXPECTED || count_outcome_index == COUNTER_DROP_EDGE_ERROR
            || count_outcome_index == COUNTER_DROP_UNKNOWN_QPN)));
        a_is_dead: assert (kind == IN_NONE || (count_outcome_index == COUNTER_DROP_EDGE_ERROR) == (exists[frame_edge]
            && failed[frame_edge]));
        a_beats: assert (frame[IN_HAS_BEATS_LSB] ? moves && leave == frame[IN_BYTES_LSB +: 14]
            && move_data[MOVE_SRC_LSB +: 3] == frame[IN_PORT_LSB +: 3] : !moves || leave == 0);
    end
    a_counts: assert (counts == (count_frame && kind == IN_DATA && count_outcome_index == COUNTER_RX_CONTRIBUTION));
    a_counts_once: assert (!counts || ((had & (2'd1 << frame_edge)) == 0
        && slot_after[A_BITMAP +: CHILDREN] == (had | 2'd1 << frame_edge)));
    a_complete: assert (count_completed == (counts && slot_after[A_BITMAP +: CHILDREN] == all));
    a_tag: assert (!counts || !slot[A_LIVE] || advance == 0 || (advance == W && slot[A_BITMAP +: CHILDREN] == all));
    a_publishes: assert (publishes == ((count_completed && root) || (count_frame && kind == IN_DATA
        && count_outcome_index == COUNTER_RX_RESULT)));
    a_kept: assert (!\dut.rc_write || !failed[which]);

    a_event_sent: assert (!decides || rc_event != RC_SENT || (rc_cur != rc_next && !rc_state[RC_PAUSED_LSB]));
    a_event_implicit: assert (!decides || rc_event != RC_IMPLICIT || named[23] || named <= rc_next - rc_una);
    a_event_timer: assert (!decides || rc_event != RC_TIMER || (armed[decided] && !late[31]));

    a_one_job: assert ((job & (job - 1'b1)) == 0 && (packet & served) == 0);
    a_room: assert ((packet & ~roomy) == 0 && (packet != 0 || (job & ~job_room) == 0));
    a_psn: assert (packet == 0 || job == (2'd1 << port_of[which]));
    a_length: assert (packet == 0 || job_data[JOB_HAS_PAYLOAD_LSB] == (job_bytes != 0));
    a_same_length: assert (announced == 0 || promised == 0 || job_bytes == length);
    a_promised: assert (!between || promised == 0);
    a_ordered: assert (ordered == 0 || (moves && ordered == promises && move_ports == promises
        && move_data[MOVE_OUT_BYTES_LSB +: 14] == (announced != 0 ? job_bytes : length)));
    a_no_push: assert (!moves || ordered != 0 || move_ports == 0
        || move_data[MOVE_OUT_BYTES_LSB +: 14] == 0);

    c_end: cover (between);
end
end endgenerate

generate
    if (EVENT < 2) begin : g_moves
        axis_held #(.WIDTH(MOVE_W)) move_held (
            .clk(clk), .on(started), .valid(move_valid), .ready(move_ready), .data(move_data)
        );
    end
endgenerate

// Cases that each event is to have.
generate
    if (EVENT == 0) begin : g_frame
        always @(posedge clk) if (started && !over) begin
            c_completes: cover (count_completed && !root && two && count_poisoned);
            c_result: cover (publishes && !root);
            c_error: cover (count_frame && kind == IN_ACK && failed == 0 && \dut.failed_a );
        end
    end
    if (EVENT == 1) begin : g_packet
        always @(posedge clk) if (started && !over) begin
            c_gathers: cover (ordered == 2'b11);
            c_alone: cover (packet == 2'b10 && served == 2'b01 && announced == 0);
            c_again: cover (count_outcome && count_outcome_index == COUNTER_TX_RETRANSMISSION && which == PARENT);
        end
    end
    if (EVENT == 2) begin : g_timer
        always @(posedge clk) if (started && !over) begin
            c_expires: cover (decides && rc_event == RC_TIMER);
            a_no_move: assert (!move_valid && job == 0);
            c_not_yet: cover (decides && rc_event == RC_NOTHING);
        end
    end
endgenerate

endmodule

`default_nettype wire
