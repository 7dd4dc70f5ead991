// The pipeline of Mode II's sequencer: whatever is decided (the requester, the cell and their results are free), every
// event is as if it had the state to itself. What it was decided on in D, the record and configuration of its edge, its
// group and the group's progress, the slot, when the packet that it acknowledges was sent, is what the memories hold when
// it is in A, where all that it does is done in one cycle. So a run of the pipeline is a run of one event after the other,
// in the order in which they are in A.
//
// Of each word one bit is watched, BIT modulo the word's width: on its way from a memory to D none is treated unlike the
// others. (Whole words, each assertion by itself, take minutes.)
//
// The invariants of the stages before are asserted with it, which makes it inductive: what has been read, with what was
// written late in its place, is what the memories hold. Besides:
//
//   an event that waits in A for its move does nothing and stays, and so does everything behind it
//   no two events of one edge are in S and D, or wait in A
//   a command has the pipeline to itself
//   at most three other events happen between the beginning of a batch and its end
//   frames, timers and commands are taken once; those of a batch follow one another, with nothing between them

`default_nettype none

module epic_m2_pipeline_props #(
    parameter BIT = 30
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

localparam CHILDREN = 2, EDGES = 4;
// As in the sequencer.
localparam C_W = 67, A_W = 74 + CHILDREN, B_W = 47;
localparam [1:0] RUN = 2'd0, SEND = 2'd1;

reg started = 1'b0;
always @(posedge clk) started <= 1'b1;

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
    .CYCLES(1), .PORTS(2), .EDGES(EDGES), .GROUPS(2), .CHILDREN(CHILDREN), .SLOTS(4), .WINDOW(2), .RANKS(2)
) dut (
    .clk(clk), .rst(!started), .now(now),
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

// ---------------------------------------------------------------------------------------------------- what is looked at
(* hierconn *) wire [RC_W-1:0]     \dut.rc_memory.words[0] ;
(* hierconn *) wire [RC_W-1:0]     \dut.rc_memory.words[1] ;
(* hierconn *) wire [RC_W-1:0]     \dut.rc_memory.words[2] ;
(* hierconn *) wire [RC_W-1:0]     \dut.rc_memory.words[3] ;
(* hierconn *) wire [C_W-1:0]      \dut.config_memory.words[0] ;
(* hierconn *) wire [C_W-1:0]      \dut.config_memory.words[1] ;
(* hierconn *) wire [C_W-1:0]      \dut.config_memory.words[2] ;
(* hierconn *) wire [C_W-1:0]      \dut.config_memory.words[3] ;
(* hierconn *) wire [GROUP_W-1:0]  \dut.group_memory.words[0] ;
(* hierconn *) wire [GROUP_W-1:0]  \dut.group_memory.words[1] ;
(* hierconn *) wire [TIMERS_W-1:0] \dut.timers_memory.words[0] ;
(* hierconn *) wire [TIMERS_W-1:0] \dut.timers_memory.words[1] ;
(* hierconn *) wire [47:0]         \dut.progress_memory.words[0] ;
(* hierconn *) wire [47:0]         \dut.progress_memory.words[1] ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_memory.words[0] ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_memory.words[1] ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_memory.words[2] ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_memory.words[3] ;
(* hierconn *) wire [B_W-1:0]      \dut.bcast_memory.words[0] ;
(* hierconn *) wire [B_W-1:0]      \dut.bcast_memory.words[1] ;
(* hierconn *) wire [B_W-1:0]      \dut.bcast_memory.words[2] ;
(* hierconn *) wire [B_W-1:0]      \dut.bcast_memory.words[3] ;
(* hierconn *) wire [32:0]         \dut.sent_memory.words[0] ;
(* hierconn *) wire [32:0]         \dut.sent_memory.words[1] ;
(* hierconn *) wire [32:0]         \dut.sent_memory.words[2] ;
(* hierconn *) wire [32:0]         \dut.sent_memory.words[3] ;
(* hierconn *) wire [32:0]         \dut.sent_memory.words[4] ;
(* hierconn *) wire [32:0]         \dut.sent_memory.words[5] ;
(* hierconn *) wire [32:0]         \dut.sent_memory.words[6] ;
(* hierconn *) wire [32:0]         \dut.sent_memory.words[7] ;
// Words of the memories. (A part of one long vector would be a shift by any number of bits.)
function record_of(input [1:0] at);
    case (at)
        0: record_of = \dut.rc_memory.words[0] [BIT % RC_W];
        1: record_of = \dut.rc_memory.words[1] [BIT % RC_W];
        2: record_of = \dut.rc_memory.words[2] [BIT % RC_W];
        default: record_of = \dut.rc_memory.words[3] [BIT % RC_W];
    endcase
endfunction
function config_of(input [1:0] at);
    case (at)
        0: config_of = \dut.config_memory.words[0] [BIT % C_W];
        1: config_of = \dut.config_memory.words[1] [BIT % C_W];
        2: config_of = \dut.config_memory.words[2] [BIT % C_W];
        default: config_of = \dut.config_memory.words[3] [BIT % C_W];
    endcase
endfunction
function group_of(input [0:0] at);
    case (at)
        0: group_of = \dut.group_memory.words[0] [BIT % GROUP_W];
        default: group_of = \dut.group_memory.words[1] [BIT % GROUP_W];
    endcase
endfunction
function times_of(input [0:0] at);
    case (at)
        0: times_of = \dut.timers_memory.words[0] [BIT % TIMERS_W];
        default: times_of = \dut.timers_memory.words[1] [BIT % TIMERS_W];
    endcase
endfunction
function progress_of(input [0:0] at);
    case (at)
        0: progress_of = \dut.progress_memory.words[0] [BIT % 48];
        default: progress_of = \dut.progress_memory.words[1] [BIT % 48];
    endcase
endfunction
function agg_of(input [1:0] at);
    case (at)
        0: agg_of = \dut.agg_memory.words[0] [BIT % A_W];
        1: agg_of = \dut.agg_memory.words[1] [BIT % A_W];
        2: agg_of = \dut.agg_memory.words[2] [BIT % A_W];
        default: agg_of = \dut.agg_memory.words[3] [BIT % A_W];
    endcase
endfunction
function bcast_of(input [1:0] at);
    case (at)
        0: bcast_of = \dut.bcast_memory.words[0] [BIT % B_W];
        1: bcast_of = \dut.bcast_memory.words[1] [BIT % B_W];
        2: bcast_of = \dut.bcast_memory.words[2] [BIT % B_W];
        default: bcast_of = \dut.bcast_memory.words[3] [BIT % B_W];
    endcase
endfunction
function sent_of(input [2:0] at);
    case (at)
        0: sent_of = \dut.sent_memory.words[0] [BIT % 33];
        1: sent_of = \dut.sent_memory.words[1] [BIT % 33];
        2: sent_of = \dut.sent_memory.words[2] [BIT % 33];
        3: sent_of = \dut.sent_memory.words[3] [BIT % 33];
        4: sent_of = \dut.sent_memory.words[4] [BIT % 33];
        5: sent_of = \dut.sent_memory.words[5] [BIT % 33];
        6: sent_of = \dut.sent_memory.words[6] [BIT % 33];
        default: sent_of = \dut.sent_memory.words[7] [BIT % 33];
    endcase
endfunction

(* hierconn *) wire [1:0]          \dut.state_reg ;
(* hierconn *) wire                \dut.step ;
(* hierconn *) wire                \dut.choose ;
(* hierconn *) wire                \dut.opens ;
(* hierconn *) wire                \dut.in_batch ;
(* hierconn *) wire                \dut.valid_s ;
(* hierconn *) wire                \dut.valid_d ;
(* hierconn *) wire                \dut.valid_a ;
(* hierconn *) wire [1:0]          \dut.what_s ;
(* hierconn *) wire [1:0]          \dut.what_d ;
(* hierconn *) wire [1:0]          \dut.what_a ;
(* hierconn *) wire [1:0]          \dut.edge_r ;
(* hierconn *) wire [1:0]          \dut.edge_s ;
(* hierconn *) wire [1:0]          \dut.edge_d ;
(* hierconn *) wire [1:0]          \dut.edge_a ;
(* hierconn *) wire                \dut.group_s ;
(* hierconn *) wire                \dut.group_d ;
(* hierconn *) wire                \dut.group_a ;
(* hierconn *) wire [1:0]          \dut.slot_d ;
(* hierconn *) wire [1:0]          \dut.slot_a ;
(* hierconn *) wire                \dut.first_s ;
(* hierconn *) wire                \dut.first_d ;
(* hierconn *) wire                \dut.last_d ;
(* hierconn *) wire                \dut.last_a ;
(* hierconn *) wire                \dut.act ;
(* hierconn *) wire [3:0]          \dut.busy_reg ;
(* hierconn *) wire [3:0]          \dut.batch_reg ;
(* hierconn *) wire [3:0]          \dut.failed_reg ;
(* hierconn *) wire                \dut.dead ;
(* hierconn *) wire [RC_W-1:0]     \dut.rc_s ;
(* hierconn *) wire [RC_W-1:0]     \dut.rc_d ;
(* hierconn *) wire [C_W-1:0]      \dut.conf_s ;
(* hierconn *) wire [C_W-1:0]      \dut.conf_d ;
(* hierconn *) wire [C_W-1:0]      \dut.conf_a ;
(* hierconn *) wire [GROUP_W-1:0]  \dut.grp_s ;
(* hierconn *) wire [GROUP_W-1:0]  \dut.grp_d ;
(* hierconn *) wire [GROUP_W-1:0]  \dut.grp_a ;
(* hierconn *) wire [TIMERS_W-1:0] \dut.timers_s ;
(* hierconn *) wire [TIMERS_W-1:0] \dut.timers_d ;
(* hierconn *) wire [47:0]         \dut.progress_s ;
(* hierconn *) wire [47:0]         \dut.progress_of_d ;
(* hierconn *) wire [47:0]         \dut.progress_d ;
(* hierconn *) wire [47:0]         \dut.progress_a ;
(* hierconn *) wire                \dut.agg_late_d ;
(* hierconn *) wire                \dut.bcast_late_d ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_reg ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_read ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_d ;
(* hierconn *) wire [B_W-1:0]      \dut.bcast_reg ;
(* hierconn *) wire [B_W-1:0]      \dut.bcast_read ;
(* hierconn *) wire [B_W-1:0]      \dut.bcast_d ;
(* hierconn *) wire                \dut.once ;
(* hierconn *) wire [31:0]         \dut.first_sent ;
(* hierconn *) wire [23:0]         \dut.after_newest_d ;
(* hierconn *) wire [RC_W-1:0]     \dut.rc_a ;
(* hierconn *) wire [A_W-1:0]      \dut.agg_a ;
(* hierconn *) wire [B_W-1:0]      \dut.out_a ;
(* hierconn *) wire [IN_W-1:0]     \dut.in_a ;
(* hierconn *) wire [7:0]          \dut.outcome_a ;
(* hierconn *) wire                \dut.completes_a ;
(* hierconn *) wire                \dut.publishes_a ;
(* hierconn *) wire                \dut.contributes_a ;
(* hierconn *) wire                \dut.wants_a ;
(* hierconn *) wire                \dut.agg_write ;
(* hierconn *) wire                \dut.bcast_write ;
(* hierconn *) wire                \dut.rc_write ;
(* hierconn *) wire                \dut.progress_write ;
(* hierconn *) wire                \dut.sent_write ;
wire       valid_s = \dut.valid_s , valid_d = \dut.valid_d , valid_a = \dut.valid_a ;
wire [1:0] edge_s = \dut.edge_s , edge_d = \dut.edge_d , edge_a = \dut.edge_a ;
wire       step = \dut.step , empty = !valid_s && !valid_d && !valid_a;
wire       send_s = valid_s && \dut.what_s == SEND, send_d = valid_d && \dut.what_d == SEND;
wire       send_a = valid_a && \dut.what_a == SEND;
wire [3:0] edges_under_way = (valid_s ? 4'd1 << edge_s : 4'd0) | (valid_d ? 4'd1 << edge_d : 4'd0)
    | (valid_a ? 4'd1 << edge_a : 4'd0);

wire [23:0] newest_d = \dut.after_newest_d - 1'b1;
wire [32:0] sent_d = {\dut.once , \dut.first_sent };

// What the event in A was decided on.
reg [RC_W-1:0]     used_rc;
reg [TIMERS_W-1:0] used_times;
reg [47:0]         used_progress;
reg [A_W-1:0]      used_agg;
reg [B_W-1:0]      used_bcast;
reg [32:0]         used_sent;
reg [23:0]         used_newest;
reg                used_dead;
always @(posedge clk) if (step) begin
    used_rc <= \dut.rc_d ;
    used_times <= \dut.timers_d ;
    used_progress <= \dut.progress_d ;
    used_agg <= \dut.agg_d ;
    used_bcast <= \dut.bcast_d ;
    used_sent <= sent_d;
    used_newest <= newest_d;
    used_dead <= \dut.failed_reg [edge_d];
end

// (Not sampled at the clock, so that one step of induction is one cycle.)
always @* if (started) begin
    // S
    a_record_s: assert (!valid_s || \dut.rc_s [BIT % RC_W] == record_of(edge_s));
    a_edge_s: assert (!valid_s || \dut.conf_s [BIT % C_W] == config_of(edge_s));
    a_group_s: assert (!valid_s || \dut.grp_s [BIT % GROUP_W] == group_of(\dut.group_s ));
    a_times_s: assert (!valid_s || \dut.timers_s [BIT % TIMERS_W] == times_of(\dut.group_s ));
    a_progress_s: assert (!valid_s || \dut.progress_s [BIT % 48] == progress_of(\dut.group_s ));
    // D
    a_record_d: assert (!valid_d || \dut.rc_d [BIT % RC_W] == record_of(edge_d));
    a_edge_d: assert (!valid_d || \dut.conf_d [BIT % C_W] == config_of(edge_d));
    a_group_d: assert (!valid_d || \dut.grp_d [BIT % GROUP_W] == group_of(\dut.group_d ));
    a_times_d: assert (!valid_d || \dut.timers_d [BIT % TIMERS_W] == times_of(\dut.group_d ));
    a_progress_d: assert (!valid_d || \dut.progress_of_d [BIT % 48] == progress_of(\dut.group_d ));
    a_agg_d: assert (!valid_d || (\dut.agg_late_d ? \dut.agg_reg [BIT % A_W] : \dut.agg_read [BIT % A_W]) == agg_of(\dut.slot_d ));
    a_bcast_d: assert (!valid_d || (\dut.bcast_late_d ? \dut.bcast_reg [BIT % B_W] : \dut.bcast_read [BIT % B_W])
        == bcast_of(\dut.slot_d ));
    a_sent_d: assert (!valid_d || sent_d[BIT % 33] == sent_of({edge_d, newest_d[0]}));
    // A
    a_record: assert (!valid_a || used_rc[BIT % RC_W] == record_of(edge_a));
    a_edge: assert (!valid_a || \dut.conf_a [BIT % C_W] == config_of(edge_a));
    a_group: assert (!valid_a || \dut.grp_a [BIT % GROUP_W] == group_of(\dut.group_a ));
    a_times: assert (!valid_a || used_times[BIT % TIMERS_W] == times_of(\dut.group_a ));
    a_progress: assert (!valid_a || (used_progress[BIT % 48] == progress_of(\dut.group_a ) && \dut.progress_a == used_progress));
    a_agg: assert (!valid_a || used_agg[BIT % A_W] == agg_of(\dut.slot_a ));
    a_bcast: assert (!valid_a || used_bcast[BIT % B_W] == bcast_of(\dut.slot_a ));
    a_sent: assert (!valid_a || used_sent[BIT % 33] == sent_of({edge_a, used_newest[0]}));
    a_in_error: assert (!valid_a || used_dead == \dut.failed_reg [edge_a]);

    a_busy: assert (\dut.busy_reg == edges_under_way);
    a_one_an_edge: assert (!(valid_s && valid_d && edge_s == edge_d)
        && !(valid_a && ((valid_s && edge_s == edge_a) || (valid_d && edge_d == edge_a))));
    a_alone: assert (\dut.state_reg == RUN || (empty && \dut.batch_reg == 0 && !\dut.choose ));
    a_taken: assert ((in_ready + timer_take + table_ready + \dut.opens <= 1) && (!in_ready || in_valid)
        && (!timer_take || timer_due) && (!(in_ready || timer_take) || !\dut.in_batch ));

    // A batch: one first, then others, the last one when no more are to come; in the pipeline there is one at a time.
    a_behind: assert (!send_a || !send_d || \dut.last_a == \dut.first_d );
    a_batch_goes_on: assert (!(send_d && \dut.last_d ) || (!send_s && !\dut.in_batch ));
    a_last_is_over: assert (!(send_a && \dut.last_a ) || (!send_d && !send_s && !\dut.in_batch ));
    a_first_begins: assert (!(send_s && \dut.first_s ) || (!send_d && !send_a));
    a_first_goes_on: assert (!(send_d && \dut.first_d ) || !send_a);
end

// Since a batch began, at most three other events have been in A, so that room that was there then is there still: what
// epic_m2_core_props assumes.
reg  [2:0] others;
wire       other_s = valid_s && !send_s, other_d = valid_d && !send_d, other_a = valid_a && !send_a;
wire       begins_s = send_s && \dut.first_s , begins_d = send_d && \dut.first_d ;
wire [2:0] to_come = begins_s ? valid_d + valid_a : begins_d ? {2'd0, valid_a} : 3'd0;
always @(posedge clk) others <= (\dut.opens ? 3'd0 : others) + (\dut.act && other_a);
always @* if (started) begin
    a_few: assert (!(send_s || send_d || send_a || \dut.in_batch ) || others + to_come <= 3);
    a_closed: assert (!\dut.in_batch || begins_s || (begins_d ? !other_s : !other_s && !other_d && !other_a));
    a_none_between: assert (!(send_s && !\dut.first_s && (other_d || (other_a && !begins_d)))
        && !(send_d && !\dut.first_d && other_a));
    a_more_d: assert (!(send_d && !\dut.last_d ) || send_s || (!valid_s && \dut.in_batch ));
    a_more_a: assert (!(send_a && !\dut.last_a ) || send_d || (!valid_d && (send_s || (!valid_s && \dut.in_batch ))));
end

// A move that waits holds up everything.
reg                held = 1'b0;
reg [MOVE_W-1:0]   was_move;
localparam IS_W = 12 + RC_W + A_W + B_W + IN_W + 8 + 48 + 4;
reg [IS_W-1:0]     was;
wire [IS_W-1:0]    is = {valid_s, valid_d, valid_a, edge_s, edge_d, edge_a, \dut.what_a , \dut.last_a ,
    \dut.rc_a , \dut.agg_a , \dut.out_a , \dut.in_a , \dut.outcome_a , \dut.progress_a , \dut.completes_a ,
    \dut.publishes_a , \dut.contributes_a , \dut.wants_a };
always @(posedge clk) begin
    held <= started && move_valid && !move_ready;
    was_move <= move_data;
    was <= is;
end
always @* begin
    if (started && move_valid && !move_ready) a_waits: assert (!\dut.choose && !step && job == 0 && job_failed == 0
        && ordered == 0 && !\dut.rc_write && !\dut.agg_write && !\dut.bcast_write && !\dut.progress_write
        && !\dut.sent_write && !timer_write && !count_frame && !count_outcome && !count_send && !count_completed);
    if (started && held) begin
        a_stays: assert (move_valid && move_data == was_move && is == was);
    end
    c_full: cover (started && step && valid_s && valid_d && valid_a && \dut.choose );
    c_counts_in_a_row: cover (started && \dut.agg_write && valid_d && \dut.slot_d == \dut.slot_a && !\dut.agg_late_d );
    c_batch: cover (started && send_a && \dut.last_a && move_valid && move_ready && ordered == 2'b11);
    c_command: cover (started && table_edge);
end

endmodule

`default_nettype wire
