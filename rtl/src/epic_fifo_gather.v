// epic_fifo with PACKET, written in words of IN_WIDTH and read in words of OUT_WIDTH: RATIO of the ones make one of the
// others, the first in the low bits. A packet begins in a word of its own; what its last word lacks is zero.

`default_nettype none

`include "epic_check.vh"

module epic_fifo_gather #(
    parameter IN_WIDTH = 32,
    parameter OUT_WIDTH = 128,      // IN_WIDTH times a power of two
    parameter DEPTH = 16,           // words of OUT_WIDTH, a power of two, at least 2
    parameter REGISTER = 0,         // as in epic_fifo
    parameter ADDR_W = $clog2(DEPTH)
) (
    input  wire                 clk,
    input  wire                 rst,

    input  wire                 in_valid,
    input  wire [IN_WIDTH-1:0]  in_data,
    output wire                 in_ready,
    input  wire                 commit,  // with this cycle's word
    input  wire                 rewind,  // with this cycle's word; wins over commit

    output wire                 out_valid,
    output wire [OUT_WIDTH-1:0] out_data,
    input  wire                 out_ready,

    output wire [ADDR_W:0]      room     // words of OUT_WIDTH that can be written now
);

localparam RATIO = OUT_WIDTH / IN_WIDTH;

`EPIC_CHECK(g_check_ratio, RATIO >= 1 && RATIO * IN_WIDTH == OUT_WIDTH && (RATIO & (RATIO - 1)) == 0,
    ("epic_fifo_gather: OUT_WIDTH is %0d, expected IN_WIDTH (%0d) times a power of two", OUT_WIDTH, IN_WIDTH))

generate
    if (RATIO == 1) begin : g_same
        epic_fifo #(.WIDTH(OUT_WIDTH), .DEPTH(DEPTH), .PACKET(1), .REGISTER(REGISTER)) fifo (
            .clk(clk), .rst(rst),
            .in_valid(in_valid), .in_data(in_data), .in_ready(in_ready), .commit(commit), .rewind(rewind),
            .out_valid(out_valid), .out_data(out_data), .out_ready(out_ready), .room(room)
        );
    end
    else begin : g_gather
        localparam PLACE_W = $clog2(RATIO);

        reg  [OUT_WIDTH-1:0] part_reg;     // words that do not make a wide one yet; the rest is zero
        reg  [PLACE_W-1:0]   place_reg;    // of the next word
        reg  [OUT_WIDTH-1:0] joined;
        wire                 takes = in_valid && in_ready;
        wire                 fills = takes && place_reg == {PLACE_W{1'b1}};
        wire                 begun = takes || place_reg != {PLACE_W{1'b0}};
        wire                 store = fills || (commit && begun);

        integer i;
        always @* begin
            joined = part_reg;
            for (i = 0; i < RATIO; i = i + 1)
                if (takes && place_reg == i[PLACE_W-1:0]) joined[IN_WIDTH*i +: IN_WIDTH] = in_data;
        end

        // When a part has begun there is room for it: nobody else writes.
        epic_fifo #(.WIDTH(OUT_WIDTH), .DEPTH(DEPTH), .PACKET(1), .REGISTER(REGISTER)) fifo (
            .clk(clk), .rst(rst),
            .in_valid(store), .in_data(joined), .in_ready(in_ready), .commit(commit), .rewind(rewind),
            .out_valid(out_valid), .out_data(out_data), .out_ready(out_ready), .room(room)
        );

        always @(posedge clk) begin
            if (store || rewind) begin
                part_reg <= {OUT_WIDTH{1'b0}};
                place_reg <= {PLACE_W{1'b0}};
            end
            else if (takes) begin
                part_reg <= joined;
                place_reg <= place_reg + 1'b1;
            end
            if (rst) begin
                part_reg <= {OUT_WIDTH{1'b0}};
                place_reg <= {PLACE_W{1'b0}};
            end
        end
    end
endgenerate

endmodule

`default_nettype wire
