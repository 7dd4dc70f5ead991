// The register slice: words leave in the order in which they came, each once; what is offered is held; a word is at the
// output in the cycle after it came unless another is; and it takes a word whenever it holds less than two.
//
// One word is watched, any: the solver picks when.

`default_nettype none

`include "axis_held.svh"

module epic_slice_props #(
    parameter WIDTH = 2
) (
    input wire             clk,
    input wire             in_valid,
    input wire [WIDTH-1:0] in_data,
    input wire             out_ready,
    input wire             watch  // the word that comes now is the watched one
);

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire             in_ready, out_valid;
wire [WIDTH-1:0] out_data;
epic_slice #(.WIDTH(WIDTH)) dut (
    .clk(clk), .rst(rst),
    .in_valid(in_valid), .in_data(in_data), .in_ready(in_ready),
    .out_valid(out_valid), .out_data(out_data), .out_ready(out_ready)
);

axis_held #(.WIDTH(WIDTH)) out_held (
    .clk(clk), .on(started), .valid(out_valid), .ready(out_ready), .data(out_data)
);

wire take = started && in_valid && in_ready;
wire give = started && out_valid && out_ready;

reg [1:0]       words = 2'd0;
reg             inside = 1'b0;
reg [WIDTH-1:0] word;
reg [1:0]       ahead;
always @(posedge clk) begin
    words <= words + take - give;
    if (!inside) begin
        if (take && watch) begin
            inside <= 1'b1;
            word <= in_data;
            ahead <= words - give;
        end
    end else if (give) begin
        ahead <= ahead - 1'b1;
        if (ahead == 0) inside <= 1'b0;
    end
end

always @(posedge clk) if (started) begin
    a_count: assert (words <= 2);
    a_offered: assert (out_valid == (words != 0));
    a_room: assert (in_ready == (words != 2));
    a_order: assert (!(inside && ahead == 0) || out_data == word);
    c_both: cover (words == 2 && give && inside && ahead == 1 && word == {WIDTH{1'b1}});
    c_stream: cover (take && give && inside && ahead == 0);
end

endmodule

`default_nettype wire
