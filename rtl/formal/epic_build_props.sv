// The builder: outputs are held, whatever the receiver does; payload is taken only as part of a frame; every job gives
// exactly one frame, in which `out_last` comes once.

`default_nettype none

`include "axis_held.svh"

module epic_build_props #(
    parameter DATA_W = 64
) (
    input wire              clk,
    input wire              job_valid,
    input wire [88:0]       job_data,
    input wire              payload_valid,
    input wire [DATA_W-1:0] payload_data,
    input wire [216:0]      edge_entry,
    input wire              out_ready
);

`include "epic_types.vh"

localparam BYTES = DATA_W / 8;
localparam COUNT_W = $clog2(BYTES) + 1;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire               job_ready, payload_ready, out_valid, out_last, out_icrc;
wire [7:0]         edge_index;
wire [DATA_W-1:0]  out_data;
wire [COUNT_W-1:0] out_bytes;
epic_build #(.DATA_W(DATA_W), .MTU(64)) dut (
    .clk(clk), .rst(rst),
    .job_valid(job_valid), .job_data(job_data), .job_ready(job_ready),
    .payload_valid(payload_valid), .payload_data(payload_data), .payload_ready(payload_ready),
    .edge_index(edge_index), .edge_entry(edge_entry),
    .out_valid(out_valid), .out_data(out_data), .out_last(out_last), .out_bytes(out_bytes), .out_icrc(out_icrc),
    .out_ready(out_ready)
);

axis_held #(.WIDTH(JOB_W), .ASSUME(1)) job_held (
    .clk(clk), .on(started), .valid(job_valid), .ready(job_ready), .data(job_data)
);
axis_held #(.WIDTH(DATA_W), .ASSUME(1)) payload_held (
    .clk(clk), .on(started), .valid(payload_valid), .ready(payload_ready), .data(payload_data)
);
axis_held #(.WIDTH(DATA_W + COUNT_W + 2)) out_held (
    .clk(clk), .on(started), .valid(out_valid), .ready(out_ready), .data({out_icrc, out_bytes, out_last, out_data})
);

// What the engine promises of a job.
wire        has_payload = job_data[JOB_HAS_PAYLOAD_LSB];
wire [13:0] size = job_data[JOB_PAYLOAD_BYTES_LSB +: 14];
always @(posedge clk) if (job_valid) assume (has_payload ? size >= 1 && size <= 64 : size == 0);

wire       take = started && job_valid && job_ready;
wire       give = started && out_valid && out_ready;
reg  [2:0] jobs = 3'd0;
// Payload beats that the jobs inside are to have.
reg  [5:0] owed = 6'd0;
wire [5:0] beats = (size + BYTES - 1) >> $clog2(BYTES);
reg        inside = 1'b0;
always @(posedge clk) begin
    jobs <= jobs + take - (give && out_last);
    owed <= owed + (take ? beats : 6'd0) - (started && payload_valid && payload_ready);
    if (give) inside <= !out_last;
end

// For the induction: where the jobs and their beats are. Behind the header and the payload are two beats of the slice.
(* hierconn *) wire             \dut.job_1_valid_reg ;
(* hierconn *) wire             \dut.job_2_valid_reg ;
(* hierconn *) wire             \dut.busy_reg ;
(* hierconn *) wire [JOB_W-1:0] \dut.job_1_reg ;
(* hierconn *) wire [4:0]       \dut.beats_2_reg ;
(* hierconn *) wire             \dut.single_2_reg ;
(* hierconn *) wire             \dut.payload_2_reg ;
(* hierconn *) wire [COUNT_W-1:0] \dut.last_bytes_2_reg ;
(* hierconn *) wire             \dut.in_header_reg ;
(* hierconn *) wire             \dut.waits_reg ;
(* hierconn *) wire             \dut.is_last_reg ;
(* hierconn *) wire [4:0]       \dut.left_reg ;
(* hierconn *) wire [3:0]       \dut.header_left_reg ;
(* hierconn *) wire [COUNT_W-1:0] \dut.last_bytes_reg ;
(* hierconn *) wire             \dut.slice.ready_reg ;
(* hierconn *) wire [DATA_W+COUNT_W+1:0] \dut.slice.waits_reg ;
wire [COUNT_W-1:0] last_bytes = \dut.last_bytes_reg , last_bytes_2 = \dut.last_bytes_2_reg ;
wire        busy_1 = \dut.job_1_valid_reg , busy_2 = \dut.job_2_valid_reg , busy_3 = \dut.busy_reg ;
wire [JOB_W-1:0] job_1 = \dut.job_1_reg ;
wire [13:0] size_1 = job_1[JOB_PAYLOAD_BYTES_LSB +: 14];
wire [4:0]  left_2 = \dut.beats_2_reg , left = \dut.left_reg ;
wire        single_2 = \dut.single_2_reg , payload_2 = \dut.payload_2_reg ;
wire        in_header = \dut.in_header_reg , is_last = \dut.is_last_reg , first_waits = \dut.waits_reg ;
wire [4:0]  header_left = in_header ? \dut.header_left_reg + 1'b1 : 0;  // this one included
wire [5:0]  beats_1 = busy_1 ? (size_1 + BYTES - 1) >> $clog2(BYTES) : 0;
wire [5:0]  beats_2 = busy_2 ? left_2 - 8 : 0;
wire [5:0]  beats_3 = busy_3 ? left - header_left : 0;
wire        two = !\dut.slice.ready_reg ;
wire [DATA_W+COUNT_W+1:0] second = \dut.slice.waits_reg ;
wire        second_last = second[DATA_W];
wire [COUNT_W-1:0] second_bytes = second[DATA_W+1 +: COUNT_W];
wire        last_4 = out_valid && out_last, last_5 = two && second_last;

always @(posedge clk) if (started) begin
    a_jobs: assert (jobs == busy_1 + busy_2 + busy_3 + last_4 + last_5);
    a_owed_to: assert (owed == beats_1 + beats_2 + beats_3);
    a_sizes: assert (!busy_1 || (job_1[JOB_HAS_PAYLOAD_LSB] ? size_1 >= 1 && size_1 <= 64 : size_1 == 0));
    a_beats: assert (!busy_2 || (left_2 >= 8 && left_2 <= 16 && payload_2 == (left_2 != 8) && !single_2));
    a_left: assert (!busy_3 || (left != 0 && left >= header_left && left <= 16 && header_left <= 8));
    a_ends: assert (!busy_3 || is_last == (left == 1));
    a_waits: assert (!busy_3 || !first_waits || (header_left == 8 && left > header_left));
    a_last: assert (!busy_3 || (last_bytes != 0 && last_bytes <= BYTES && last_bytes[1:0] == 0));
    a_last_2: assert (!busy_2 || (last_bytes_2 != 0 && last_bytes_2 <= BYTES && last_bytes_2[1:0] == 0));
    a_slice: assert (!two || out_valid);
    a_second: assert (!two || (second_bytes != 0 && second_bytes <= BYTES && second_bytes[1:0] == 0
        && (second_last || second_bytes == BYTES)));
    // A frame whose last beat has not been made is in stage 3: what is begun goes on there.
    a_begun: assert ((two ? second_last : !out_valid || out_last) || busy_3);
    a_made_of_a_job: assert (!out_valid || jobs != 0);
    a_five: assert (jobs <= 5);
    a_owed: assert (!(payload_valid && payload_ready) || owed != 0);
    a_all_taken: assert (jobs != 0 || owed == 0);
    a_whole_beats: assert (!out_valid || out_last || out_bytes == BYTES);
    a_some_bytes: assert (!out_valid || (out_bytes != 0 && out_bytes <= BYTES && out_bytes[1:0] == 0));
    c_back_to_back: cover (give && out_last && jobs == 4);
    c_payload: cover (give && out_last && out_bytes == 4 && jobs == 2 && owed == 2);
end

endmodule

`default_nettype wire
