// The delay FIFO: words leave in order, each once, none before it is DELAY cycles old, and a word that is old enough and
// at the head is offered at once. One word is watched, any.

`default_nettype none

`include "axis_held.svh"

module epic_delay_fifo_props #(
    parameter WIDTH = 2,
    parameter DEPTH = 4,
    parameter DELAY = 3,
    parameter READY_REG = 0
) (
    input wire             clk,
    input wire             in_valid,
    input wire [WIDTH-1:0] in_data,
    input wire             out_ready,
    input wire             watch
);

localparam COUNT_W = $clog2(DEPTH) + 2;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire             in_ready, out_valid;
wire [WIDTH-1:0] out_data;
epic_delay_fifo #(.WIDTH(WIDTH), .DEPTH(DEPTH), .DELAY(DELAY), .READY_REG(READY_REG)) dut (
    .clk(clk), .rst(rst), .in_valid(in_valid), .in_data(in_data), .in_ready(in_ready),
    .out_valid(out_valid), .out_data(out_data), .out_ready(out_ready)
);

axis_held #(.WIDTH(WIDTH)) out_held (
    .clk(clk), .on(started), .valid(out_valid), .ready(out_ready), .data(out_data)
);

wire store = started && in_valid && in_ready;
wire take = started && out_valid && out_ready;

reg [COUNT_W-1:0] words = 0, words_before = DEPTH;
always @(posedge clk) begin
    words <= words + store - take;
    words_before <= rst ? DEPTH : words;
end

reg                     inside = 1'b0;
reg [WIDTH-1:0]         word;
reg [COUNT_W-1:0]       ahead;
reg [$clog2(DELAY+1):0] age;
always @(posedge clk) begin
    if (!inside) begin
        if (store && watch) begin
            inside <= 1'b1;
            word <= in_data;
            ahead <= words - take;
            age <= 1;
        end
    end else begin
        if (age < DELAY) age <= age + 1'b1;
        if (take) ahead <= ahead - 1'b1;
        if (take && ahead == 0) inside <= 1'b0;
    end
end

always @(posedge clk) if (started) begin
    a_count: assert (words <= DEPTH);
    a_room: assert (in_ready == (READY_REG ? words_before < DEPTH - 1 : words != DEPTH));
    a_empty: assert (!out_valid || words != 0);
    a_order: assert (!(inside && ahead == 0 && out_valid) || out_data == word);
    a_age: assert (!(inside && ahead == 0) || out_valid == (age >= DELAY));
    c_full: cover (words == DEPTH && out_valid);
    c_watched: cover (inside && ahead == 0 && take && words == DEPTH);
end

endmodule

`default_nettype wire
