// epic_lanes: arithmetic on a beat, DATA_W / 32 lanes side by side: a beat of a payload and a word of the slot give the
// slot's next word. One a cycle, LATENCY cycles from input to output whatever the operation; there are no stalls, so
// whoever feeds it has room for what is under way.
//
// A slot's word is a beat as it came in or goes out. With FP16 it is more: 16-bit floats are accumulated in binary32
// (EPIC-N-04), which takes twice the bits, and the word says itself how it is to be read. epic_lanes_narrow makes the
// beat of it that leaves.
//
//   word[DATA_W-1:0]       the beat; where it is wide, the binary32 of the first element of each 32-bit word
//   word[2*DATA_W-1:DATA_W]  where it is wide, the binary32 of the second elements; else it means nothing
//   word[WORD_W-1:2*DATA_W]  FORM_WIDE, FORM_BF16, FORM_LITTLE; all 0 where it is not wide

`default_nettype none
`include "epic_check.vh"

module epic_lanes #(
    parameter integer DATA_W = 128,  // a multiple of 32
    parameter integer FP32 = 0,      // 1: operations of FP32 too; 0: their codes pass A
    parameter integer FP16 = 0,      // 1: operations of FP16 and BF16 too; 0: their codes pass A
    // 1 or more, with FP32 7 or more, with FP16 8 or more. One or two more help the clock: see epic_lane, epic_lane_pair.
    parameter integer LATENCY = FP16 != 0 ? 10 : FP32 != 0 ? 8 : 2,
    parameter integer WORD_W = FP16 != 0 ? 2 * DATA_W + 3 : DATA_W  // with the FORM_W bits of its form
) (
    input  wire              clk,
    input  wire              rst,        // clears the valid bits only

    input  wire              in_valid,
    input  wire [3:0]        in_op,      // LANE_*
    input  wire              in_little,  // elements are little-endian
    input  wire [DATA_W-1:0] in_a,       // the payload that arrives
    input  wire [WORD_W-1:0] in_b,       // what the slot holds

    output wire              out_valid,
    output wire [WORD_W-1:0] out_data    // what the slot shall hold
);

`include "epic_types.vh"

`EPIC_CHECK(g_check_width, DATA_W >= 32 && DATA_W % 32 == 0,
    ("epic_lanes: DATA_W is %0d, expected a multiple of 32", DATA_W))
`EPIC_CHECK(g_check_fp16, FP16 == 0 || FP16 == 1, ("epic_lanes: FP16 is %0d, expected 0 or 1", FP16))
`EPIC_CHECK(g_check_latency, LATENCY >= 1, ("epic_lanes: LATENCY is %0d, expected 1 or more", LATENCY))
`EPIC_CHECK(g_check_word, WORD_W == (FP16 != 0 ? 2 * DATA_W + FORM_W : DATA_W),
    ("epic_lanes: WORD_W is %0d, expected %0d", WORD_W, FP16 != 0 ? 2 * DATA_W + FORM_W : DATA_W))

genvar lane;
generate
    if (FP16 != 0) begin : g_fp16
        for (lane = 0; lane < DATA_W / 32; lane = lane + 1) begin : g_lane
            epic_lane_pair #(
                .FP32(FP32),
                .LATENCY(LATENCY)
            ) pair (
                .clk(clk),
                .op(in_op),
                .little(in_little),
                .a(in_a[32*lane +: 32]),
                .b_wide(in_b[2*DATA_W + FORM_WIDE]),
                .b({in_b[DATA_W + 32*lane +: 32], in_b[32*lane +: 32]}),
                .result({out_data[DATA_W + 32*lane +: 32], out_data[32*lane +: 32]})
            );
        end

        // The form goes beside the lanes.
        reg [FORM_W-1:0]         form;
        reg [FORM_W*LATENCY-1:0] form_reg;

        always @* begin
            case (in_op)
                LANE_FP16_SUM, LANE_FP16_MAX, LANE_FP16_MIN: form = {in_little, 1'b0, 1'b1};
                LANE_BF16_SUM, LANE_BF16_MAX, LANE_BF16_MIN: form = {in_little, 1'b1, 1'b1};
                LANE_B: form = in_b[2*DATA_W +: FORM_W];
                default: form = {FORM_W{1'b0}};
            endcase
        end

        wire [FORM_W*(LATENCY+1)-1:0] forms = {form_reg, form};
        always @(posedge clk) begin
            form_reg <= forms[FORM_W*LATENCY-1:0];
        end
        assign out_data[2*DATA_W +: FORM_W] = forms[FORM_W*LATENCY +: FORM_W];
    end else begin : g_no_fp16
        for (lane = 0; lane < DATA_W / 32; lane = lane + 1) begin : g_lane
            epic_lane #(
                .FP32(FP32),
                .LATENCY(LATENCY)
            ) element (
                .clk(clk),
                .op(in_op),
                .little(in_little),
                .a(in_a[32*lane +: 32]),
                .b(in_b[32*lane +: 32]),
                .result(out_data[32*lane +: 32])
            );
        end
    end
endgenerate

// {the bits under way, in_valid}: the last one is what comes out.
reg  [LATENCY-1:0] valid_reg;
wire [LATENCY:0]   valid_next = {valid_reg, in_valid};

always @(posedge clk) begin
    valid_reg <= valid_next[LATENCY-1:0];
    if (rst) begin
        valid_reg <= {LATENCY{1'b0}};
    end
end

assign out_valid = valid_next[LATENCY];

endmodule

`default_nettype wire
