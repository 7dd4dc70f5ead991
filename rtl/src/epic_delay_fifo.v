// epic_delay_fifo: a shallow FIFO whose words come out no earlier than DELAY cycles after they went in.
//
// It holds data back until something that is computed from them beside it, by a pipeline that cannot stop, is there
// too. The memory is read asynchronously: distributed memory, 16 words deep for the price of a register or two.

`default_nettype none
`include "epic_check.vh"

module epic_delay_fifo #(
    parameter integer WIDTH = 32,
    parameter integer DEPTH = 16,  // words, a power of two from 2; with DEPTH > DELAY a word a cycle goes through
    parameter integer DELAY = 1,   // cycles from a word's transfer in to the first in which it can leave, 1 or more
    // 1: in_ready is a register, for a writer that is far away. It says what was free a cycle ago: with a word in every
    // cycle one place stays empty.
    parameter integer READY_REG = 0
) (
    input  wire             clk,
    input  wire             rst,

    input  wire             in_valid,
    input  wire [WIDTH-1:0] in_data,
    output wire             in_ready,

    output wire             out_valid,
    output wire [WIDTH-1:0] out_data,
    input  wire             out_ready
);

`EPIC_CHECK(g_check_depth, DEPTH >= 2 && (DEPTH & (DEPTH - 1)) == 0,
    ("epic_delay_fifo: DEPTH is %0d, expected a power of two from 2", DEPTH))
`EPIC_CHECK(g_check_ready, READY_REG == 0 || READY_REG == 1,
    ("epic_delay_fifo: READY_REG is %0d, expected 0 or 1", READY_REG))
`EPIC_CHECK(g_check_delay, DELAY >= 1, ("epic_delay_fifo: DELAY is %0d, expected 1 or more", DELAY))

localparam integer INDEX_W = $clog2(DEPTH);

reg [WIDTH-1:0] memory [0:DEPTH-1];

// Pointers have one bit more than an index, so that full and empty differ. From `read` on so many words are old enough
// to leave: counted, so that it can be said a cycle before that there is one.
reg [INDEX_W:0] write_reg;
reg [INDEX_W:0] read_reg;
reg [INDEX_W:0] ripe_reg;
reg             valid_reg;  // that is not 0

wire write = in_valid && in_ready;
wire read = out_valid && out_ready;

assign out_valid = valid_reg;
assign out_data = memory[read_reg[INDEX_W-1:0]];

generate
    if (READY_REG != 0) begin : g_ready
        // One may come in the cycle in which this is looked at.
        reg              ready_reg;
        wire [INDEX_W:0] held = write_reg - read_reg;
        always @(posedge clk) begin
            ready_reg <= !rst && held < DEPTH[INDEX_W:0] - 1'b1;
        end
        assign in_ready = ready_reg;
    end else begin : g_full
        assign in_ready = write_reg != {~read_reg[INDEX_W], read_reg[INDEX_W-1:0]};
    end
endgenerate

// The age of the words: a bit that was set by a transfer arrives DELAY - 1 cycles later.
wire ripens;

generate
    if (DELAY == 1) begin : g_no_age
        assign ripens = write;
    end else begin : g_age
        reg [DELAY-2:0] age_reg;
        always @(posedge clk) begin
            age_reg <= (age_reg << 1) | {{(DELAY - 2) {1'b0}}, write};
            if (rst) begin
                age_reg <= {(DELAY - 1) {1'b0}};
            end
        end
        assign ripens = age_reg[DELAY-2];
    end
endgenerate

always @(posedge clk) begin
    if (write) begin
        memory[write_reg[INDEX_W-1:0]] <= in_data;
        write_reg <= write_reg + 1'b1;
    end
    if (ripens && !read) begin
        ripe_reg <= ripe_reg + 1'b1;
    end
    if (read && !ripens) begin
        ripe_reg <= ripe_reg - 1'b1;
    end
    valid_reg <= ripens || ripe_reg[INDEX_W:1] != {INDEX_W{1'b0}} || (valid_reg && !out_ready);
    if (read) begin
        read_reg <= read_reg + 1'b1;
    end
    if (rst) begin
        write_reg <= {(INDEX_W + 1) {1'b0}};
        ripe_reg <= {(INDEX_W + 1) {1'b0}};
        valid_reg <= 1'b0;
        read_reg <= {(INDEX_W + 1) {1'b0}};
    end
end

endmodule

`default_nettype wire
