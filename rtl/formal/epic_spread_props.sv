// Spreading: a wide word comes out as its narrow ones, in order, as many as its count says, and nothing in between. The
// output is held as long as the input is.

`default_nettype none

`include "axis_held.svh"

module epic_spread_props (
    input wire        clk,
    input wire        in_valid,
    input wire [31:0] in_data,
    input wire [1:0]  in_count,
    input wire        out_ready
);

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire       in_ready, out_valid;
wire [7:0] out_data;
epic_spread #(.IN_WIDTH(32), .OUT_WIDTH(8)) dut (
    .clk(clk), .rst(rst),
    .in_valid(in_valid), .in_data(in_data), .in_count(in_count), .in_ready(in_ready),
    .out_valid(out_valid), .out_data(out_data), .out_ready(out_ready)
);

axis_held #(.WIDTH(34), .ASSUME(1)) in_held (
    .clk(clk), .on(started), .valid(in_valid), .ready(in_ready), .data({in_count, in_data})
);
axis_held #(.WIDTH(8)) out_held (
    .clk(clk), .on(started), .valid(out_valid), .ready(out_ready), .data(out_data)
);

wire      give = started && out_valid && out_ready;
reg [1:0] given = 2'd0;  // words of this one
always @(posedge clk) if (give) given <= in_ready ? 2'd0 : given + 1'b1;
wire [2:0] count = in_count == 0 ? 3'd4 : {1'b0, in_count};

always @(posedge clk) if (started) begin
    a_word: assert (!out_valid || out_data == in_data[8*given +: 8]);
    a_ends: assert (!give || in_ready == (given + 3'd1 == count));
    a_busy: assert (out_valid == in_valid);
    a_not_taken_unseen: assert (!(in_valid && in_ready) || give);
    c_four: cover (give && in_ready && given == 3);
    c_one: cover (give && in_ready && in_count == 1);
end

endmodule

`default_nettype wire
