// Synchronous show-ahead FIFO in RAM. With PACKET the reader sees only what was committed, and the writer can take back
// what it has not: a frame is stored while it arrives and released, or forgotten, at its end.

`default_nettype none

`include "epic_check.vh"

module epic_fifo #(
    parameter WIDTH = 32,
    parameter DEPTH = 16,   // words, a power of two, at least 2
    parameter PACKET = 0,   // 1: words are released by commit; 0: at once
    // Registers behind the RAM, 0 to 2: each for a word more and a cycle more. Block RAM gives its word late in the cycle:
    // with one, all of the next cycle is left for what is done with it. With two the first can stand beside the RAM, and
    // the way from there to where the word is wanted has a cycle of its own.
    parameter REGISTER = 0,
    parameter BLOCK = 0,    // of epic_ram
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

`EPIC_CHECK(g_check_register, REGISTER >= 0 && REGISTER <= 2,
    ("epic_fifo: REGISTER is %0d, expected 0 to 2", REGISTER))

// One bit more than an address, so that full and empty differ.
reg [ADDR_W:0] write_reg, commit_reg, read_reg;
reg            valid_reg;  // of the word in the RAM's read register
wire           taken;      // that word leaves it, if it is there

wire            full;
wire            some;      // words in memory that may be read
wire            store = in_valid && !full;
wire [ADDR_W:0] write_next = write_reg + {{ADDR_W{1'b0}}, store};
wire            fetch = (!valid_reg || taken) && some;

assign in_ready = !full;

// Whether there is room, or a word, is not to wait for comparing the pointers: without packets `room` is a register; with
// packets `full` is one, that does not see the word which is read in this cycle.
generate
    if (PACKET != 0) begin : g_packet
        wire [ADDR_W:0] end_of_room = {~read_reg[ADDR_W], read_reg[ADDR_W-1:0]};
        reg             full_reg;
        always @(posedge clk) full_reg <= (rewind ? commit_reg == end_of_room : write_next == end_of_room) && !rst;
        assign full = full_reg;
        assign some = commit_reg != read_reg;
        assign room = end_of_room - write_reg;
    end
    else begin : g_words
        reg [ADDR_W:0] room_reg;
        assign full = room_reg == {ADDR_W + 1{1'b0}};
        assign some = !room_reg[ADDR_W];
        assign room = room_reg;
        always @(posedge clk) begin
            if (store && !fetch) room_reg <= room_reg - 1'b1;
            if (fetch && !store) room_reg <= room_reg + 1'b1;
            if (rst) room_reg <= DEPTH[ADDR_W:0];
        end
    end
endgenerate

// The words behind the memory, from its own register (0) to the output: each moves on as soon as there is a place
// somewhere in front of it.
wire [REGISTER:0]             stage_valid;
wire [(REGISTER+1)*WIDTH-1:0] stage_data;

assign stage_valid[0] = valid_reg;
assign out_valid = stage_valid[REGISTER];
assign out_data = stage_data[WIDTH*REGISTER +: WIDTH];

// The word that is read is never the one that is written: there is none to be read, or no room to write.
epic_ram #(.WIDTH(WIDTH), .DEPTH(DEPTH), .ANY(1), .BLOCK(BLOCK)) ram (
    .clk(clk),
    .write(store), .write_addr(write_reg[ADDR_W-1:0]), .write_data(in_data),
    .read(fetch), .read_addr(read_reg[ADDR_W-1:0]), .read_data(stage_data[0 +: WIDTH])
);

genvar r;
generate
    if (REGISTER == 0) begin : g_taken
        assign taken = out_ready;
    end
    else begin : g_taken
        assign taken = out_ready || stage_valid[REGISTER:1] != {REGISTER{1'b1}};
    end
    for (r = 1; r <= REGISTER; r = r + 1) begin : g_register
        reg             out_valid_reg;
        reg [WIDTH-1:0] out_data_reg;
        wire            free = out_ready || stage_valid[REGISTER:r] != {REGISTER - r + 1{1'b1}};
        assign stage_valid[r] = out_valid_reg;
        assign stage_data[WIDTH*r +: WIDTH] = out_data_reg;
        always @(posedge clk) begin
            if (free) begin
                out_valid_reg <= stage_valid[r-1];
                out_data_reg <= stage_data[WIDTH*(r-1) +: WIDTH];
            end
            if (rst) out_valid_reg <= 1'b0;
        end
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
