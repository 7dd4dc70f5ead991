// epic_lanes_narrow: a slot's word (see epic_lanes) as the beat of a payload that leaves. What is wide is rounded to 16 bits
// here, once, on its way out (EPIC-N-04): the slot keeps what was not rounded, so a cell is rounded once by an engine
// however many children it has, and a replay is rounded as its result was. One word a cycle.
//
// FP16 = 1: 3 cycles from the word to the beat; 0: a word is the beat, and nothing is here.

`default_nettype none
`include "epic_check.vh"

module epic_lanes_narrow #(
    parameter integer DATA_W = 128,  // a multiple of 32
    parameter integer FP16 = 0,      // as of epic_lanes
    parameter integer SIDE_W = 1,    // of what goes along with a word
    parameter integer WORD_W = FP16 != 0 ? 2 * DATA_W + 3 : DATA_W
) (
    input  wire              clk,
    input  wire              rst,       // clears `out_side` and what goes there

    input  wire [WORD_W-1:0] in_word,
    input  wire [SIDE_W-1:0] in_side,

    output wire [DATA_W-1:0] out_beat,
    output wire [SIDE_W-1:0] out_side   // of the same word
);

`include "epic_types.vh"

`EPIC_CHECK(g_check_width, DATA_W >= 32 && DATA_W % 32 == 0,
    ("epic_lanes_narrow: DATA_W is %0d, expected a multiple of 32", DATA_W))
`EPIC_CHECK(g_check_fp16, FP16 == 0 || FP16 == 1, ("epic_lanes_narrow: FP16 is %0d, expected 0 or 1", FP16))
`EPIC_CHECK(g_check_word, WORD_W == (FP16 != 0 ? 2 * DATA_W + FORM_W : DATA_W),
    ("epic_lanes_narrow: WORD_W is %0d, expected %0d", WORD_W, FP16 != 0 ? 2 * DATA_W + FORM_W : DATA_W))

genvar lane;
generate
    if (FP16 != 0) begin : g_fp16
        // Beside the rounding, which takes two cycles: the beat where it is one, the form, the side.
        localparam integer BESIDE_W = DATA_W + 2;
        reg [2*BESIDE_W-1:0] beside_reg;
        reg [3*SIDE_W-1:0]   side_reg;
        reg [DATA_W-1:0]     beat_reg;

        wire [DATA_W-1:0] rounded;  // two elements in each 32 bits, first byte in the low bits if little-endian
        wire [DATA_W-1:0] bytes_3 = beside_reg[BESIDE_W +: DATA_W];
        wire              wide_3 = beside_reg[BESIDE_W + DATA_W];
        wire              little_3 = beside_reg[BESIDE_W + DATA_W + 1];

        for (lane = 0; lane < DATA_W / 32; lane = lane + 1) begin : g_lane
            epic_fp_round first (
                .clk(clk),
                .wide(in_word[32*lane +: 32]),
                .is_bf16(in_word[2*DATA_W + FORM_BF16]),
                .narrow(rounded[32*lane +: 16])
            );
            epic_fp_round second (
                .clk(clk),
                .wide(in_word[DATA_W + 32*lane +: 32]),
                .is_bf16(in_word[2*DATA_W + FORM_BF16]),
                .narrow(rounded[32*lane + 16 +: 16])
            );
        end

        integer half;
        always @(posedge clk) begin
            beside_reg <= {beside_reg[BESIDE_W-1:0],
                in_word[2*DATA_W + FORM_LITTLE], in_word[2*DATA_W + FORM_WIDE], in_word[DATA_W-1:0]};
            side_reg <= {side_reg[2*SIDE_W-1:0], in_side};
            for (half = 0; half < DATA_W / 16; half = half + 1) begin
                beat_reg[16*half +: 16] <= !wide_3 ? bytes_3[16*half +: 16] : little_3 ? rounded[16*half +: 16]
                    : {rounded[16*half +: 8], rounded[16*half + 8 +: 8]};
            end
            if (rst) begin
                side_reg <= {3 * SIDE_W{1'b0}};
            end
        end

        assign out_beat = beat_reg;
        assign out_side = side_reg[2*SIDE_W +: SIDE_W];
    end else begin : g_no_fp16
        assign out_beat = in_word;
        assign out_side = in_side;

        wire unused = &{1'b0, clk, rst};
    end
endgenerate

endmodule

`default_nettype wire
