// A step of Mode II's sequencer that takes several cycles is what it would be in one: in its last cycle every register that
// divides the logic (epic_cut, which asserts it) holds what it would hold if it were a wire, from any state at the beginning
// of a step on. What comes from outside may change in each cycle; of frames, timers and commands only what waits to be taken
// stays. So what is proved with CYCLES = 1 (epic_m2_pipeline_props, epic_m2_sequencer_props) is so with this number of them.
//
// Besides, what is taken in the last cycle is what was there in the first; a move finds room; and nothing happens before.

`default_nettype none

`include "axis_held.svh"

module epic_m2_settled_props #(
    parameter CYCLES = 4
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

`include "epic_types.vh"
`include "epic_m2_types.vh"

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
    .CYCLES(CYCLES), .PORTS(2), .EDGES(4), .GROUPS(2), .CHILDREN(2), .SLOTS(4), .WINDOW(2), .RANKS(2)
) dut (
    .clk(clk), .rst(1'b0), .now(now),
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

axis_held #(.WIDTH(IN_W), .ASSUME(1)) in_held (
    .clk(clk), .on(1'b1), .valid(in_valid), .ready(in_ready), .data(in_data)
);
axis_held #(.WIDTH(340), .ASSUME(1)) table_held (
    .clk(clk), .on(1'b1), .valid(table_valid), .ready(table_ready), .data({table_data, table_index, table_op})
);
axis_held #(.WIDTH(2), .ASSUME(1)) due_held (
    .clk(clk), .on(1'b1), .valid(timer_due), .ready(timer_take), .data(timer_due_edge)
);
// Only the sequencer fills the queue of moves.
reg had_room = 1'b0;
always @(posedge clk) had_room <= move_ready && !move_valid;
always @* assume (move_ready || !had_room);

(* hierconn *) wire       \dut.step ;
(* hierconn *) wire       \dut.rc_write ;
(* hierconn *) wire       \dut.valid_a ;
(* hierconn *) wire       \dut.valid_d ;
(* hierconn *) wire [1:0] \dut.edge_r ;
(* hierconn *) wire [1:0] \dut.state_reg ;
(* hierconn *) wire [3:0] \dut.want_reg ;
(* hierconn *) wire [3:0] \dut.busy_reg ;
(* hierconn *) wire [3:0] \dut.ready ;
(* hierconn *) wire [3:0] \dut.asking ;
// A command that is obeyed waits until it is done.
always @* if (cycle == 0) assume (\dut.state_reg == 0 || table_valid);
reg [7:0] cycle = 8'd0;
always @(posedge clk) cycle <= cycle + 1'b1;

wire happens = in_ready || timer_take || table_ready || move_valid || job != 0 || job_failed != 0 || ordered != 0
    || timer_write || \dut.rc_write || count_frame || count_completed || count_outcome || count_send;
always @(posedge clk) begin
    a_last: assert (!\dut.step || cycle == CYCLES - 1);
    a_nothing_before: assert (!happens || \dut.step );
    a_frame: assert (!in_ready || (in_valid && \dut.edge_r == in_data[IN_EDGE_LSB +: 2]));
    a_timer: assert (!timer_take || (timer_due && \dut.edge_r == timer_due_edge));
    // What was said of edges in the first cycle is so in the last.
    a_asking: assert (!\dut.step || ((\dut.ready & ~\dut.want_reg ) == 0 && \dut.asking == (\dut.ready & ~\dut.busy_reg )));
    a_move: assert (!move_valid || move_ready);
    a_command: assert (\dut.state_reg == 0 || table_valid);
    c_frame: cover (in_ready && count_frame && move_valid);
    c_timer: cover (timer_take && \dut.valid_d && job != 0);
    c_waits: cover (cycle == CYCLES - 1 && !\dut.step && \dut.state_reg == 0);
end

endmodule

`default_nettype wire
