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

// For the induction: where the jobs and their beats are.
(* hierconn *) wire             \dut.job_1_valid_reg ;
(* hierconn *) wire             \dut.job_2_valid_reg ;
(* hierconn *) wire             \dut.busy_reg ;
(* hierconn *) wire [JOB_W-1:0] \dut.job_1_reg ;
(* hierconn *) wire [11:0]      \dut.words_2_reg ;
(* hierconn *) wire [4:0]       \dut.left_reg ;
(* hierconn *) wire [4:0]       \dut.header_left_reg ;
(* hierconn *) wire [COUNT_W-1:0] \dut.last_bytes_reg ;
wire [COUNT_W-1:0] last_bytes = \dut.last_bytes_reg ;
wire        busy_1 = \dut.job_1_valid_reg , busy_2 = \dut.job_2_valid_reg , busy_3 = \dut.busy_reg ;
wire [JOB_W-1:0] job_1 = \dut.job_1_reg ;
wire [13:0] size_1 = job_1[JOB_PAYLOAD_BYTES_LSB +: 14];
wire [11:0] words_2 = \dut.words_2_reg ;
wire [4:0]  left = \dut.left_reg , header_left = \dut.header_left_reg ;
wire [5:0]  beats_1 = busy_1 ? (size_1 + BYTES - 1) >> $clog2(BYTES) : 0;
wire [5:0]  beats_2 = busy_2 ? (4 * words_2 + BYTES - 1) >> $clog2(BYTES) : 0;
wire [5:0]  beats_3 = busy_3 ? left - header_left : 0;

always @(posedge clk) if (started) begin
    a_jobs: assert (jobs == busy_1 + busy_2 + busy_3);
    a_owed_to: assert (owed == beats_1 + beats_2 + beats_3);
    a_sizes: assert ((!busy_1 || (job_1[JOB_HAS_PAYLOAD_LSB] ? size_1 >= 1 && size_1 <= 64 : size_1 == 0))
        && (!busy_2 || words_2 <= 16));
    a_left: assert (!busy_3 || (left != 0 && left >= header_left && left <= 16 && header_left <= 8));
    a_last: assert (!busy_3 || (last_bytes != 0 && last_bytes <= BYTES && last_bytes[1:0] == 0));
    a_made_of_a_job: assert (!out_valid || jobs != 0);
    a_three: assert (jobs <= 3);
    a_owed: assert (!(payload_valid && payload_ready) || owed != 0);
    a_all_taken: assert (jobs != 0 || owed == 0);
    a_whole_beats: assert (!out_valid || out_last || out_bytes == BYTES);
    a_some_bytes: assert (!out_valid || (out_bytes != 0 && out_bytes <= BYTES && out_bytes[1:0] == 0));
    c_back_to_back: cover (give && out_last && jobs == 3);
    c_payload: cover (give && out_last && payload_ready && out_bytes == 4 && jobs == 1);
end

endmodule

`default_nettype wire
