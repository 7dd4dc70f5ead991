// Synchronous show-ahead FIFO in RAM. With PACKET the reader sees only what was committed, and the writer can take back
// what it has not: a frame is stored while it arrives and released, or forgotten, at its end.

`default_nettype none

`include "epic_check.vh"

module epic_fifo #(
    parameter WIDTH = 32,
    parameter DEPTH = 16,   // words, a power of two, at least 2
    parameter PACKET = 0,   // 1: words are released by commit; 0: at once
    // 1: a register behind the RAM, for a word more and a cycle more. Block RAM gives its word late in the cycle; with the
    // register all of the next one is left for what is done with it.
    parameter REGISTER = 0,
    parameter ADDR_W = $clog2(DEPTH)
) (
    input  wire             clk,
    input  wire             rst,

    input  wire             in_valid,
    input  wire [WIDTH-1:0] in_data,
    output wire             in_ready,
    input  wire             commit,  // with this cycle's word
    input  wire             rewind,  // with this cycle's word; wins over commit

    output wire             out_valid,
    output wire [WIDTH-1:0] out_data,
    input  wire             out_ready,

    output wire [ADDR_W:0]  room     // words that can be written now
);

`EPIC_CHECK(g_check_depth, DEPTH >= 2 && (DEPTH & (DEPTH - 1)) == 0,
    ("epic_fifo: DEPTH is %0d, expected a power of two from 2", DEPTH))

`EPIC_CHECK(g_check_register, REGISTER == 0 || REGISTER == 1,
    ("epic_fifo: REGISTER is %0d, expected 0 or 1", REGISTER))

// One bit more than an address, so that full and empty differ.
reg [ADDR_W:0] write_reg, commit_reg, read_reg;
reg            valid_reg;  // of the word in the RAM's read register
wire           taken;      // that word leaves it, if it is there

wire            full = write_reg == {~read_reg[ADDR_W], read_reg[ADDR_W-1:0]};
wire            store = in_valid && !full;
wire [ADDR_W:0] write_next = write_reg + {{ADDR_W{1'b0}}, store};
wire [ADDR_W:0] released = PACKET != 0 ? commit_reg : write_reg;
wire            fetch = (!valid_reg || taken) && released != read_reg;

assign in_ready = !full;
assign room = {~read_reg[ADDR_W], read_reg[ADDR_W-1:0]} - write_reg;

wire [WIDTH-1:0] ram_data;

epic_ram #(.WIDTH(WIDTH), .DEPTH(DEPTH)) ram (
    .clk(clk),
    .write(store), .write_addr(write_reg[ADDR_W-1:0]), .write_data(in_data),
    .read(fetch), .read_addr(read_reg[ADDR_W-1:0]), .read_data(ram_data)
);

generate
    if (REGISTER != 0) begin : g_register
        reg             out_valid_reg;
        reg [WIDTH-1:0] out_data_reg;
        assign taken = !out_valid_reg || out_ready;
        assign out_valid = out_valid_reg;
        assign out_data = out_data_reg;
        always @(posedge clk) begin
            if (taken) begin
                out_valid_reg <= valid_reg;
                out_data_reg <= ram_data;
            end
            if (rst) out_valid_reg <= 1'b0;
        end
    end
    else begin : g_ram
        assign taken = out_ready;
        assign out_valid = valid_reg;
        assign out_data = ram_data;
    end
endgenerate

always @(posedge clk) begin
    write_reg <= write_next;
    if (PACKET != 0) begin
        if (rewind) write_reg <= commit_reg;
        else if (commit) commit_reg <= write_next;
    end
    if (fetch) begin
        read_reg <= read_reg + 1'b1;
        valid_reg <= 1'b1;
    end else if (taken) begin
        valid_reg <= 1'b0;
    end
    if (rst) begin
        write_reg <= {ADDR_W + 1{1'b0}};
        commit_reg <= {ADDR_W + 1{1'b0}};
        read_reg <= {ADDR_W + 1{1'b0}};
        valid_reg <= 1'b0;
    end
end

endmodule

`default_nettype wire
