// Alignment: a frame comes out with 6 zero bytes in front and is otherwise the same. Any byte of any frame is watched:
// it comes out once, 6 places further on; when it is the last one, the frame ends with it. Outputs are held, all beats
// but the last are full.

`default_nettype none

`include "axis_held.svh"

module epic_align_props #(
    parameter DATA_W = 64
) (
    input wire                        clk,
    input wire                        in_valid,
    input wire [DATA_W-1:0]           in_data,
    input wire [$clog2(DATA_W/8)-1:0] in_bytes,
    input wire                        in_last,
    input wire                        m_axis_tready,
    input wire                        watch,                           // the watched byte is in this beat
    input wire [$clog2(DATA_W/8)-1:0] watch_lane
);

localparam BYTES = DATA_W / 8;
localparam LANE_W = $clog2(BYTES);
localparam COUNT_W = 2;  // counts modulo 4 tell apart what is inside at the same time

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire              in_ready, out_valid, out_last;
wire [DATA_W-1:0] out_data;
wire [BYTES-1:0]  out_keep;
epic_align #(.DATA_W(DATA_W)) dut (
    .clk(clk), .rst(rst),
    .in_valid(in_valid), .in_data(in_data), .in_bytes(in_bytes), .in_last(in_last), .in_ready(in_ready),
    .m_axis_tvalid(out_valid), .m_axis_tdata(out_data), .m_axis_tkeep(out_keep), .m_axis_tlast(out_last),
    .m_axis_tready(m_axis_tready)
);

axis_held #(.WIDTH(DATA_W + LANE_W + 1), .ASSUME(1)) in_held (
    .clk(clk), .on(started), .valid(in_valid), .ready(in_ready), .data({in_last, in_bytes, in_data})
);
axis_held #(.WIDTH(DATA_W + BYTES + 1)) out_held (
    .clk(clk), .on(started), .valid(out_valid), .ready(m_axis_tready), .data({out_last, out_keep, out_data})
);

wire take = started && in_valid && in_ready;
wire give = started && out_valid && m_axis_tready;

// Beat of the frame, and frame, at either side.
reg [COUNT_W-1:0] in_beat = 0, in_frame = 0, out_beat = 0, out_frame = 0;
reg               out_first = 1'b1;
always @(posedge clk) begin
    if (take) begin
        in_beat <= in_last ? 0 : in_beat + 1'b1;
        if (in_last) in_frame <= in_frame + 1'b1;
    end
    if (give) begin
        out_first <= out_last;
        out_beat <= out_last ? 0 : out_beat + 1'b1;
        if (out_last) out_frame <= out_frame + 1'b1;
    end
end

// The watched byte, where it must come out, and whether it ends its frame.
reg               inside = 1'b0;
reg [7:0]         value;
reg [LANE_W-1:0]  lane;
reg [COUNT_W-1:0] beat, frame;
reg               ends;
wire [LANE_W:0]   moved = {1'b0, watch_lane} + 6;
wire              here = out_beat == beat && out_frame == frame;
always @(posedge clk) begin
    if (take && watch && !inside && (!in_last || watch_lane <= in_bytes)) begin
        inside <= 1'b1;
        value <= in_data[8*watch_lane +: 8];
        lane <= moved[LANE_W-1:0];
        beat <= in_beat + moved[LANE_W];
        frame <= in_frame;
        ends <= in_last && watch_lane == in_bytes;
    end else if (inside && give && here) inside <= 1'b0;
end

always @(posedge clk) if (started) begin
    a_byte: assert (!(inside && out_valid && here) || (out_keep[lane] && out_data[8*lane +: 8] == value));
    a_end: assert (!(inside && out_valid && here && ends) || (out_last && (out_keep >> lane) == 1));
    a_not_yet: assert (!(inside && out_valid && !here && out_frame == frame) || !out_last);
    a_zeros: assert (!(out_valid && out_first) || out_data[47:0] == 0);
    a_full: assert (!(out_valid && !out_last) || &out_keep);
    a_contiguous: assert (!out_valid || (out_keep[0] && (out_keep & (out_keep + 1'b1)) == 0));
    // No bubble: what fits into the beat costs none.
    a_ready: assert (!(m_axis_tready && out_valid && out_last) || in_ready);
    c_spill: cover (inside && ends && give && here && lane < 6 && value == 8'hff);
    c_short: cover (inside && ends && give && here && lane >= 6 && out_frame == 1);
end

endmodule

`default_nettype wire
