// Memory with one write port and one read port, read synchronously: block or distributed RAM, as the tools choose, or with
// BLOCK = 1 block RAM, whose address goes to few places, however wide it is. A read
// in the cycle of a write to the same address gives the old word, or with ANY = 1 any word. Where block RAM does not promise
// the old one, that saves what makes it so: a delayed write, and a multiplexer behind the RAM's late output.

`default_nettype none

`include "epic_check.vh"

module epic_ram #(
    parameter WIDTH = 32,
    parameter DEPTH = 16,
    parameter ANY = 0,
    /* verilator lint_off UNUSEDPARAM */
    parameter BLOCK = 0,
    /* verilator lint_on UNUSEDPARAM */
    parameter ADDR_W = $clog2(DEPTH)
) (
    input  wire              clk,
    input  wire              write,
    input  wire [ADDR_W-1:0] write_addr,
    input  wire [WIDTH-1:0]  write_data,
    input  wire              read,
    input  wire [ADDR_W-1:0] read_addr,
    output reg  [WIDTH-1:0]  read_data
);

`EPIC_CHECK(g_check_depth, DEPTH >= 2 && (1 << ADDR_W) >= DEPTH,
    ("epic_ram: DEPTH is %0d, expected 2 or more and ADDR_W to fit", DEPTH))

`ifdef SYNTHESIS
(* ram_style = BLOCK != 0 ? "block" : "auto" *)
`endif
reg [WIDTH-1:0] words [0:DEPTH-1];

`ifndef SYNTHESIS
// Not relied upon by any module: it keeps simulations free of X.
integer i;
initial begin
    for (i = 0; i < DEPTH; i = i + 1) words[i] = {WIDTH{1'b0}};
    read_data = {WIDTH{1'b0}};
end
`endif

wire any = ANY != 0 && write && write_addr == read_addr;

always @(posedge clk) begin
    if (write) words[write_addr] <= write_data;
    if (read) read_data <= any ? {WIDTH{1'bx}} : words[read_addr];
end

endmodule

`default_nettype wire
