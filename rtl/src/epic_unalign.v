// epic_unalign: takes the 6 bytes away that stand in front of a frame in an aligned stream.
//
// Beat n of the frame is the end of aligned beat n and the first 6 bytes of the next one. A frame of which 6 bytes or
// less are in its last aligned beat comes out one beat shorter; any other ends with a beat of its own, in a cycle in
// which the next frame's first beat comes in. So frames back to back pass without a bubble.
// The output is a register; `in_ready` follows `out_ready` in the same cycle.

`default_nettype none
`include "epic_check.vh"

module epic_unalign #(
    parameter integer DATA_W = 64,  // bits of a beat: 64, 128, 256 or 512
    parameter integer USER_W = 1,   // bits that are handed on with a frame
    parameter integer COUNT_W = $clog2(DATA_W / 8 + 7)  // derived; do not set
) (
    input  wire                clk,
    input  wire                rst,

    input  wire                in_valid,
    input  wire [DATA_W-1:0]   in_data,
    input  wire                in_last,
    // At the last beat: how many bytes of the frame stand from this beat's first byte on, 1 to BYTES + 6; those that
    // the beat has no place for are in `in_tail`. A first beat has 7 or more.
    input  wire [COUNT_W-1:0]  in_bytes,
    input  wire [47:0]         in_tail,
    input  wire [USER_W-1:0]   in_user,
    output wire                in_ready,

    output wire                out_valid,
    output wire [DATA_W-1:0]   out_data,
    output wire [DATA_W/8-1:0] out_keep,
    output wire                out_last,
    output wire [USER_W-1:0]   out_user,
    input  wire                out_ready
);

`EPIC_CHECK(g_check_data_w, DATA_W == 64 || DATA_W == 128 || DATA_W == 256 || DATA_W == 512,
    ("epic_unalign: DATA_W is %0d, expected 64, 128, 256 or 512", DATA_W))
`EPIC_CHECK(g_check_count_w, COUNT_W == $clog2(DATA_W / 8 + 7),
    ("epic_unalign: COUNT_W is %0d, expected %0d", COUNT_W, $clog2(DATA_W / 8 + 7)))

localparam integer BYTES = DATA_W / 8;
localparam integer CUT = 6;
localparam integer SPILL_W = DATA_W - 8 * CUT;

// What the beat before left: the bytes behind its first 6.
reg                held_reg;  // there is something
reg                ended_reg;  // and its frame has ended: it is the last beat, with the tail
reg [SPILL_W-1:0]  spill_reg;
reg [47:0]         tail_reg;
reg [COUNT_W-1:0]  bytes_reg;  // of the last beat, 1 to BYTES
reg [USER_W-1:0]   user_reg;

reg                valid_reg;
reg [DATA_W-1:0]   data_reg;
reg [BYTES-1:0]    keep_reg;
reg                last_reg;
reg [USER_W-1:0]   out_user_reg;

wire can_put = !valid_reg || out_ready;
wire is_first = !held_reg || ended_reg;  // of the beat at the input
// A first beat needs a place for its bytes only, any other puts a beat out.
assign in_ready = held_reg ? can_put : 1'b1;
wire take = in_valid && in_ready;
wire is_short = in_bytes <= CUT[COUNT_W-1:0];  // of a last beat: ends in the beat that it completes

wire put = can_put && held_reg && (ended_reg || in_valid);

// The bytes of a last beat as tkeep.
function automatic [BYTES-1:0] keep_of;
    input [COUNT_W-1:0] bytes;
    keep_of = ~({BYTES{1'b1}} << bytes);
endfunction

always @(posedge clk) begin
    if (can_put) begin
        valid_reg <= put;
        data_reg <= {ended_reg ? tail_reg : in_data[47:0], spill_reg};
        last_reg <= ended_reg || (in_last && is_short);
        keep_reg <= ended_reg ? keep_of(bytes_reg)
            : in_last && is_short ? keep_of(in_bytes + (BYTES[COUNT_W-1:0] - CUT[COUNT_W-1:0])) : {BYTES{1'b1}};
        out_user_reg <= user_reg;
    end
    if (take) begin
        held_reg <= !in_last || !is_short;
        ended_reg <= in_last && !is_short;
        spill_reg <= in_data[DATA_W-1:8*CUT];
        tail_reg <= in_tail;
        bytes_reg <= in_bytes - CUT[COUNT_W-1:0];
        if (is_first) begin
            user_reg <= in_user;
        end
    end else if (put && ended_reg) begin
        held_reg <= 1'b0;
        ended_reg <= 1'b0;
    end
    if (rst) begin
        held_reg <= 1'b0;
        ended_reg <= 1'b0;
        valid_reg <= 1'b0;
    end
end

assign out_valid = valid_reg;
assign out_data = data_reg;
assign out_keep = keep_reg;
assign out_last = last_reg;
assign out_user = out_user_reg;

endmodule

`default_nettype wire
