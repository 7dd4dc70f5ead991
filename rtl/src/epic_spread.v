// A word of IN_WIDTH becomes words of OUT_WIDTH, the low bits first: as many as go with it, 1 to RATIO (0 stands for RATIO).
// No latency, one word of OUT_WIDTH a cycle.

`default_nettype none

`include "epic_check.vh"

module epic_spread #(
    parameter IN_WIDTH = 128,                   // OUT_WIDTH times a power of two
    parameter OUT_WIDTH = 32,
    parameter COUNT_W = IN_WIDTH == OUT_WIDTH ? 1 : $clog2(IN_WIDTH / OUT_WIDTH)
) (
    input  wire                 clk,
    input  wire                 rst,

    input  wire                 in_valid,
    input  wire [IN_WIDTH-1:0]  in_data,
    /* verilator lint_off UNUSEDSIGNAL */  // with equal widths
    input  wire [COUNT_W-1:0]   in_count,
    /* verilator lint_on UNUSEDSIGNAL */
    output wire                 in_ready,

    output wire                 out_valid,
    output wire [OUT_WIDTH-1:0] out_data,
    input  wire                 out_ready
);

localparam RATIO = IN_WIDTH / OUT_WIDTH;

`EPIC_CHECK(g_check_ratio, RATIO >= 1 && RATIO * OUT_WIDTH == IN_WIDTH && (RATIO & (RATIO - 1)) == 0,
    ("epic_spread: IN_WIDTH is %0d, expected OUT_WIDTH (%0d) times a power of two", IN_WIDTH, OUT_WIDTH))

assign out_valid = in_valid;

generate
    if (RATIO == 1) begin : g_same
        wire unused = &{1'b0, clk, rst};
        assign out_data = in_data;
        assign in_ready = out_ready;
    end
    else begin : g_spread
        reg  [COUNT_W-1:0] place_reg;
        wire               last = place_reg + 1'b1 == in_count;  // modulo RATIO

        assign out_data = in_data[OUT_WIDTH*place_reg +: OUT_WIDTH];
        assign in_ready = out_ready && last;

        always @(posedge clk) begin
            if (in_valid && out_ready) place_reg <= last ? {COUNT_W{1'b0}} : place_reg + 1'b1;
            if (rst) place_reg <= {COUNT_W{1'b0}};
        end
    end
endgenerate

endmodule

`default_nettype wire
