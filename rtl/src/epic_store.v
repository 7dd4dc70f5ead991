// A deep memory, as epic_ram, of memories side by side that are each as narrow as one block RAM is at this depth. A tool that is
// given the whole may take wider and shallower blocks instead and choose between their words behind them, where a block's
// word comes late in the cycle anyway. A read in the cycle of a write to the same address gives any word.

`default_nettype none

`include "epic_check.vh"

module epic_store #(
    parameter WIDTH = 128,
    parameter DEPTH = 8192,        // a power of two
    parameter BLOCK_BITS = 16384,  // of a block RAM, without parity
    parameter ADDR_W = $clog2(DEPTH)
) (
    input  wire              clk,
    input  wire              write,
    input  wire [ADDR_W-1:0] write_addr,
    input  wire [WIDTH-1:0]  write_data,
    input  wire              read,
    input  wire [ADDR_W-1:0] read_addr,
    output wire [WIDTH-1:0]  read_data
);

// No block is wider than 32 bits; deeper than it has bits there is no way around a choice.
localparam SLICE = BLOCK_BITS / DEPTH > 32 ? 32 : BLOCK_BITS / DEPTH < 1 ? 1 : BLOCK_BITS / DEPTH;

`EPIC_CHECK(g_check_depth, DEPTH >= 2 && (DEPTH & (DEPTH - 1)) == 0,
    ("epic_store: DEPTH is %0d, expected a power of two from 2", DEPTH))

genvar s;
generate
    for (s = 0; s < WIDTH; s = s + SLICE) begin : g_slice
        localparam BITS = WIDTH - s < SLICE ? WIDTH - s : SLICE;
        epic_ram #(.WIDTH(BITS), .DEPTH(DEPTH), .ANY(1)) ram (
            .clk(clk),
            .write(write), .write_addr(write_addr), .write_data(write_data[s +: BITS]),
            .read(read), .read_addr(read_addr), .read_data(read_data[s +: BITS])
        );
    end
endgenerate

endmodule

`default_nettype wire
