// What leaves the engine of Mode II: jobs and beats are held until they are taken, whatever the sequencer and the
// mover do (both are cut away here, as are admission, timers and counters); and a beat that was ordered finds room.
// Of them it is assumed that a packet is for a port that had room for a largest payload when its batch began, since when at
// most three other events have made a job, and none has ordered a move (epic_m2_sequencer_props, epic_m2_pipeline_props),
// and that no more beats are pushed than were ordered (epic_m2_mover_props).

`default_nettype none

`include "axis_held.svh"

module epic_m2_core_props #(
    parameter DATA_W = 64
) (
    input wire             clk,
    input wire [1:0]       job_ready,
    input wire [1:0]       send_ready,
    input wire [2*289-1:0] meta_data,
    input wire [1:0]       meta_valid,
    input wire [1:0]       payload_valid,
    input wire [127:0]     payload_data,
    input wire [15:0]      edge_index,
    input wire [1:0]       sent,
    input wire             command,
    input wire [3:0]       command_table,
    input wire [15:0]      command_index,
    input wire [319:0]     command_data,
    input wire [5:0]       counter_index
);

`include "epic_types.vh"
`include "epic_m2_types.vh"

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire [1:0]             meta_ready, payload_ready, job_valid, send_valid;
wire [2*JOB_W-1:0]     job_data;
wire [2*DATA_W-1:0]    send_data;
wire [2*EDGE_TX_W-1:0] edge_entry;
wire                   busy, state_done, state_served, idle;
wire [23:0]            state_tag;
wire [63:0]            state_bitmap;
wire [31:0]            counter_value;
epic_m2_core #(
    .DATA_W(DATA_W), .PORTS(2), .MTU(64), .SLOTS(2), .EDGES(2), .GROUPS(1), .CHILDREN(2), .WINDOW(2), .RANKS(2),
    .JOB_DEPTH(8)
) dut (
    .clk(clk), .rst(rst),
    .meta_valid(meta_valid), .meta_data(meta_data), .meta_ready(meta_ready),
    .payload_valid(payload_valid), .payload_data(payload_data), .payload_ready(payload_ready),
    .job_valid(job_valid), .job_data(job_data), .job_ready(job_ready),
    .send_valid(send_valid), .send_data(send_data), .send_ready(send_ready),
    .edge_index(edge_index), .edge_entry(edge_entry), .sent(sent),
    .command(command), .command_table(command_table), .command_index(command_index), .command_data(command_data),
    .busy(busy), .state_tag(state_tag), .state_bitmap(state_bitmap), .state_done(state_done),
    .state_served(state_served), .counter_index(counter_index), .counter_value(counter_value), .idle(idle)
);

(* hierconn *) wire [1:0]        \dut.job ;
(* hierconn *) wire              \dut.g_port[0].push_reg ;
(* hierconn *) wire              \dut.g_port[1].push_reg ;
(* hierconn *) wire [1:0]        \dut.ordered ;
(* hierconn *) wire [1:0]        \dut.job_room ;
(* hierconn *) wire [1:0]        \dut.send_room ;
(* hierconn *) wire [MOVE_W-1:0] \dut.move_data ;
wire [1:0]  job = \dut.job , push = {\dut.g_port[1].push_reg , \dut.g_port[0].push_reg }, ordered = \dut.ordered ;
wire [1:0]  job_room = \dut.job_room , send_room = \dut.send_room ;
wire [13:0] new_bytes = \dut.move_data [MOVE_OUT_BYTES_LSB +: 14];
wire [3:0]  new_beats = (new_bytes + DATA_W / 8 - 1) / (DATA_W / 8);
always @* assume (new_bytes <= 64);

(* anyseq *) wire [1:0] begins;
genvar p;
generate
    for (p = 0; p < 2; p = p + 1) begin : g_port
        axis_held #(.WIDTH(JOB_W)) job_held (
            .clk(clk), .on(started), .valid(job_valid[p]), .ready(job_ready[p]), .data(job_data[JOB_W*p +: JOB_W])
        );
        axis_held #(.WIDTH(DATA_W)) send_held (
            .clk(clk), .on(started), .valid(send_valid[p]), .ready(send_ready[p]), .data(send_data[DATA_W*p +: DATA_W])
        );
        // A batch for this port: it began in any cycle with room; jobs since, that of its packet included.
        reg       under_way = 1'b0;
        reg [2:0] since;
        always @(posedge clk) begin
            under_way <= !rst && !ordered[p] && ((begins[p] && send_room[p]) || (under_way && !(job[p] && since == 4)));
            since <= (begins[p] && send_room[p] ? 3'd0 : since) + job[p];
        end
        always @* assume (!ordered[p] || (under_way && new_beats != 0));
        always @* assume (!job[p] || job_room[p] || (under_way && since <= 3));
    end
endgenerate

// One port is watched, any: beats that were ordered and not pushed, those that wait, and jobs.
(* anyconst *) wire port;
reg [5:0] owed = 6'd0, beats = 6'd0;
reg [3:0] jobs = 4'd0;
always @* assume (!push[port] || owed != 0);
always @(posedge clk) begin
    owed <= rst ? 6'd0 : owed + (ordered[port] ? new_beats : 4'd0) - push[port];
    beats <= rst ? 6'd0 : beats + push[port] - (send_valid[port] && send_ready[port]);
    jobs <= rst ? 4'd0 : jobs + job[port] - (job_valid[port] && job_ready[port]);
end

// For the induction: what the FIFOs know.
(* hierconn *) wire [5:0] \dut.g_port[0].free_reg ;
(* hierconn *) wire [5:0] \dut.g_port[1].free_reg ;
(* hierconn *) wire       \dut.g_port[0].left_reg ;
(* hierconn *) wire       \dut.g_port[1].left_reg ;
(* hierconn *) wire [5:0] \dut.g_port[0].sends_room ;
(* hierconn *) wire [5:0] \dut.g_port[1].sends_room ;
(* hierconn *) wire [3:0] \dut.g_port[0].jobs_room ;
(* hierconn *) wire [3:0] \dut.g_port[1].jobs_room ;
(* hierconn *) wire       \dut.g_port[0].sends_ready ;
(* hierconn *) wire       \dut.g_port[1].sends_ready ;
(* hierconn *) wire       \dut.g_port[0].jobs_ready ;
(* hierconn *) wire       \dut.g_port[1].jobs_ready ;
(* hierconn *) wire       \dut.g_port[0].sends.valid_reg ;
(* hierconn *) wire       \dut.g_port[1].sends.valid_reg ;
wire       fetched_of = port ? \dut.g_port[1].sends.valid_reg : \dut.g_port[0].sends.valid_reg ;
wire [5:0] free_of = port ? \dut.g_port[1].free_reg : \dut.g_port[0].free_reg ;
wire       left_of = port ? \dut.g_port[1].left_reg : \dut.g_port[0].left_reg ;
wire [5:0] room_of = port ? \dut.g_port[1].sends_room : \dut.g_port[0].sends_room ;
wire [3:0] places_of = port ? \dut.g_port[1].jobs_room : \dut.g_port[0].jobs_room ;
wire       sends_ready = port ? \dut.g_port[1].sends_ready : \dut.g_port[0].sends_ready ;
wire       under_way_of = port ? g_port[1].under_way : g_port[0].under_way;
wire [2:0] since_of = port ? g_port[1].since : g_port[0].since;
wire       jobs_ready = port ? \dut.g_port[1].jobs_ready : \dut.g_port[0].jobs_ready ;
always @(posedge clk) if (started) begin
    a_owed: assert (free_of + left_of + owed + beats == 32);
    // So the sum of what is assumed and what was seen is room.
    a_promise: assert (!under_way_of || (free_of >= 64 / (DATA_W / 8) && places_of + since_of >= 5 && since_of <= 4));
    a_room: assert (owed <= room_of && room_of <= 32 && places_of <= 8);
    a_finds_room: assert (!push[port] || sends_ready);
    a_job_finds_room: assert (!job[port] || jobs_ready);
    a_none_made: assert ((!send_valid[port] || beats != 0) && (!job_valid[port] || jobs != 0));
    a_all_there: assert (beats + room_of == 32 + fetched_of + send_valid[port] && jobs + places_of == 8 + job_valid[port]);
    c_full: cover (beats == 3 && owed == 29 && !send_room[port]);
    c_jobs: cover (!job_room[port] && port);
end

endmodule

`default_nettype wire
