// Taking the 6 bytes away: any byte of any frame is watched and comes out once, 6 places earlier; one in front comes out
// nowhere; when it is the last one, the frame ends with it. A byte of the tail is watched as well. Outputs are held, all
// beats but the last are full, what goes with a frame stays with it.

`default_nettype none

`include "axis_held.svh"

module epic_unalign_props #(
    parameter DATA_W = 64
) (
    input wire                          clk,
    input wire                          in_valid,
    input wire [DATA_W-1:0]             in_data,
    input wire                          in_last,
    input wire [$clog2(DATA_W/8+7)-1:0] in_bytes,
    input wire [47:0]                   in_tail,
    input wire [1:0]                    in_user,
    input wire                          out_ready,
    input wire                          watch,
    input wire [$clog2(DATA_W/8+7)-1:0] watch_lane   // in the beat, or behind it in the tail
);

localparam BYTES = DATA_W / 8;
localparam LANE_W = $clog2(BYTES);
localparam BYTES_W = $clog2(BYTES + 7);
localparam COUNT_W = 2;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire              in_ready, out_valid, out_last;
wire [DATA_W-1:0] out_data;
wire [BYTES-1:0]  out_keep;
wire [1:0]        out_user;
epic_unalign #(.DATA_W(DATA_W), .USER_W(2)) dut (
    .clk(clk), .rst(rst),
    .in_valid(in_valid), .in_data(in_data), .in_last(in_last), .in_bytes(in_bytes), .in_tail(in_tail),
    .in_user(in_user), .in_ready(in_ready),
    .out_valid(out_valid), .out_data(out_data), .out_keep(out_keep), .out_last(out_last), .out_user(out_user),
    .out_ready(out_ready)
);

axis_held #(.WIDTH(DATA_W + BYTES_W + 51), .ASSUME(1)) in_held (
    .clk(clk), .on(started), .valid(in_valid), .ready(in_ready),
    .data({in_user, in_tail, in_bytes, in_last, in_data})
);
axis_held #(.WIDTH(DATA_W + BYTES + 3)) out_held (
    .clk(clk), .on(started), .valid(out_valid), .ready(out_ready), .data({out_user, out_last, out_keep, out_data})
);

wire take = started && in_valid && in_ready;
wire give = started && out_valid && out_ready;

reg               in_first = 1'b1;
reg [COUNT_W-1:0] in_beat = 0, in_frame = 0, out_beat = 0, out_frame = 0;
always @(posedge clk) begin
    if (take) begin
        in_first <= in_last;
        in_beat <= in_last ? 0 : in_beat + 1'b1;
        if (in_last) in_frame <= in_frame + 1'b1;
    end
    if (give) begin
        out_beat <= out_last ? 0 : out_beat + 1'b1;
        if (out_last) out_frame <= out_frame + 1'b1;
    end
end

// What the module asks of its input.
always @(posedge clk) if (started && in_valid && in_last)
    assume (in_bytes >= (in_first ? 7 : 1) && in_bytes <= BYTES + 6);

wire [DATA_W+47:0] beat_and_tail = {in_tail, in_data};
wire               exists = in_last ? watch_lane < in_bytes : watch_lane < BYTES;
wire               in_front = in_first && watch_lane < 6;

reg               inside = 1'b0;
reg [7:0]         value;
reg [LANE_W-1:0]  lane;
reg [COUNT_W-1:0] beat, frame;
reg               ends;
reg [1:0]         user_of, user;
wire [BYTES_W:0]  moved = {1'b0, watch_lane} + (BYTES - 6);   // counted from the beat before
wire              here = out_beat == beat && out_frame == frame;
always @(posedge clk) begin
    if (take && in_first) user_of <= in_user;
    if (take && watch && !inside && exists && !in_front) begin
        inside <= 1'b1;
        value <= beat_and_tail[8*watch_lane +: 8];
        lane <= moved[LANE_W-1:0];
        beat <= in_beat - 1'b1 + moved[BYTES_W:LANE_W];
        frame <= in_frame;
        ends <= in_last && watch_lane + 1'b1 == in_bytes;
        user <= in_first ? in_user : user_of;
    end else if (inside && give && here) inside <= 1'b0;
end

always @(posedge clk) if (started) begin
    a_byte: assert (!(inside && out_valid && here) || (out_keep[lane] && out_data[8*lane +: 8] == value));
    a_end: assert (!(inside && out_valid && here && ends) || (out_last && (out_keep >> lane) == 1));
    a_not_yet: assert (!(inside && out_valid && !here && out_frame == frame) || !out_last);
    a_user: assert (!(inside && out_valid && out_frame == frame) || out_user == user);
    a_full: assert (!(out_valid && !out_last) || &out_keep);
    a_contiguous: assert (!out_valid || (out_keep[0] && (out_keep & (out_keep + 1'b1)) == 0));
    c_tail: cover (inside && ends && give && here && value == 8'hff && in_frame != frame && beat == 1);
    c_user: cover (give && out_last && out_frame == 1 && out_user == 2);
end

endmodule

`default_nettype wire
