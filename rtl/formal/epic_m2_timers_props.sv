// Deadlines of edges: what is due was armed and its deadline is reached, when it is found; it stays until it is
// taken; and a deadline that is reached is found within a scan, unless another waits to be taken.

`default_nettype none

`include "axis_held.svh"

module epic_m2_timers_props #(
    parameter EDGES = 4
) (
    input wire        clk,
    input wire [31:0] now,
    input wire        write,
    input wire [1:0]  write_edge,
    input wire        write_armed,
    input wire [31:0] write_deadline,
    input wire        take
);

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire       due;
wire [1:0] due_edge;
epic_m2_timers #(.EDGES(EDGES)) dut (
    .clk(clk), .rst(rst), .now(now),
    .write(write), .write_edge(write_edge), .write_armed(write_armed), .write_deadline(write_deadline),
    .due(due), .due_edge(due_edge), .take(take)
);

// One edge is watched, any.
(* anyconst *) wire [1:0] watched;
reg [31:0] was;
always @* begin
    assume (watched < EDGES && write_edge < EDGES);
    assume (!take || due);
end
wire [31:0] passes = now - was;
always @(posedge clk) begin
    was <= now;
    // Time does not stand still for ever, but it never goes back.
    if (started) assume (passes <= 32'd1000);
end

wire       here = write && write_edge == watched;
reg        armed = 1'b0;
reg [31:0] deadline;
always @(posedge clk) begin
    if (here) begin
        armed <= write_armed;
        deadline <= write_deadline;
    end
    if (rst) armed <= 1'b0;
end
wire [31:0] late = now - deadline;
wire        reached = armed && !late[31];

// What was so in the cycle in which it was found.
reg       was_reached = 1'b0, was_due = 1'b0, was_here = 1'b0;
reg [2:0] waited = 3'd0;
always @(posedge clk) begin
    was_reached <= reached && !rst;
    was_due <= due && !rst;
    was_here <= here;
    waited <= reached && !due && !here && !rst ? (waited == 3'd7 ? waited : waited + 3'd1) : 3'd0;
end

// For the induction: the memory is what was written, and the scan is in step.
(* hierconn *) wire [31:0] \dut.deadlines.words[0] ;
(* hierconn *) wire [31:0] \dut.deadlines.words[1] ;
(* hierconn *) wire [31:0] \dut.deadlines.words[2] ;
(* hierconn *) wire [31:0] \dut.deadlines.words[3] ;
(* hierconn *) wire [3:0]  \dut.armed_reg ;
(* hierconn *) wire [1:0]  \dut.scan_reg ;
wire [31:0] held = watched == 0 ? \dut.deadlines.words[0] : watched == 1 ? \dut.deadlines.words[1]
    : watched == 2 ? \dut.deadlines.words[2] : \dut.deadlines.words[3] ;
wire [3:0]  all_armed = \dut.armed_reg ;
wire [1:0]  scan = \dut.scan_reg ;

axis_held #(.WIDTH(2)) due_held (.clk(clk), .on(started), .valid(due), .ready(take), .data(due_edge));

always @(posedge clk) if (started) begin
    a_edge: assert (!due || due_edge < EDGES);
    a_armed: assert (armed == all_armed[watched]);
    a_memory: assert (!armed || held == deadline);
    a_scan: assert (scan < EDGES);
    a_never_early: assert (!(due && !was_due && due_edge == watched) || was_reached);
    a_found: assert (waited <= EDGES + 2);
    c_due: cover (due && !was_due && due_edge == watched && deadline > 3);
    c_again: cover (here && due && due_edge == watched);
end

endmodule

`default_nettype wire
