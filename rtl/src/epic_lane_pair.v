// epic_lane_pair: one 32-bit word of the arithmetic of a beat where 16-bit floats are an option: an element of 32 bits as
// in epic_lane, or two elements of binary16 or bfloat16. LATENCY cycles from operands to result whatever the operation.
//
// 16-bit floats are added and compared as binary32 and stay so (EPIC-N-04): the slot's word has 64 bits, the first
// element's binary32 in the low half, the second's in the high half, in the machine's byte order. Where it is not wide
// yet, for a first contribution is kept as it came, its low half is a word of the wire.
//
//   A, B -> turn halves -> [input] -> widen -> register -> epic_lane for the first element or the whole, one for the second
//
// `input` is a register that is there when LATENCY has room for it: whoever feeds this has something to choose from then.

`default_nettype none
`include "epic_check.vh"

module epic_lane_pair #(
    parameter integer FP32 = 1,    // 1: operations of binary32 too; 0: their codes pass A
    // 8 or more; 9 adds `early` of epic_lane, 10 `input`.
    parameter integer LATENCY = 10
) (
    input  wire        clk,
    input  wire [3:0]  op,      // LANE_*
    input  wire        little,  // elements are little-endian
    input  wire [31:0] a,       // the payload that arrives
    input  wire        b_wide,  // b is two binary32; else a word of the wire, in the low half
    input  wire [63:0] b,       // what the slot holds
    output wire [63:0] result   // what it shall hold: wide after an operation of 16-bit floats, and where b was passed
);

`include "epic_types.vh"

`EPIC_CHECK(g_check_fp32, FP32 == 0 || FP32 == 1, ("epic_lane_pair: FP32 is %0d, expected 0 or 1", FP32))
`EPIC_CHECK(g_check_latency, LATENCY >= 8, ("epic_lane_pair: LATENCY is %0d, expected 8 or more", LATENCY))

localparam integer INPUT = LATENCY > 9 ? 1 : 0;

// What the lanes do: for 16-bit floats what they do for binary32.
reg       halves;
reg       bf16;
reg [3:0] first_op;
reg [3:0] second_op;

always @* begin
    halves = 1'b1;
    bf16 = 1'b0;
    first_op = op;
    case (op)
        LANE_FP16_SUM: first_op = LANE_FP32_SUM;
        LANE_FP16_MAX: first_op = LANE_FP32_MAX;
        LANE_FP16_MIN: first_op = LANE_FP32_MIN;
        LANE_BF16_SUM: {bf16, first_op} = {1'b1, LANE_FP32_SUM};
        LANE_BF16_MAX: {bf16, first_op} = {1'b1, LANE_FP32_MAX};
        LANE_BF16_MIN: {bf16, first_op} = {1'b1, LANE_FP32_MIN};
        // The lanes have them, the build may not.
        LANE_FP32_SUM, LANE_FP32_MAX, LANE_FP32_MIN: {halves, first_op} = {1'b0, FP32 != 0 ? op : LANE_A};
        default: halves = 1'b0;
    endcase
    second_op = halves || op == LANE_B ? first_op : LANE_A;
end

// The first element in the low half, each with its first byte on top unless little-endian; wholes are turned in the lane.
wire        turns = halves && !little;
wire        narrow = halves && !b_wide;
wire [31:0] a_turned = turns ? {a[23:16], a[31:24], a[7:0], a[15:8]} : a;
wire [31:0] b_turned = turns && narrow ? {b[23:16], b[31:24], b[7:0], b[15:8]} : b[31:0];

localparam integer INPUT_W = 4 + 4 + 4 + 32 + 64;
wire [INPUT_W-1:0] given = {first_op, second_op, little || halves, halves, narrow, bf16, a_turned, b[63:32], b_turned};
wire [INPUT_W-1:0] taken;

generate
    if (INPUT != 0) begin : g_input
        reg [INPUT_W-1:0] input_reg;
        always @(posedge clk) begin
            input_reg <= given;
        end
        assign taken = input_reg;
    end else begin : g_no_input
        assign taken = given;
    end
endgenerate

wire [3:0]  first_op_1;
wire [3:0]  second_op_1;
wire        keep_1;
wire        halves_1;
wire        narrow_1;
wire        bf16_1;
wire [31:0] a_1;
wire [63:0] b_1;
assign {first_op_1, second_op_1, keep_1, halves_1, narrow_1, bf16_1, a_1, b_1} = taken;

wire [31:0] a_first, a_second, b_first, b_second;

epic_fp_widen widen_a_first (.narrow(a_1[15:0]), .is_bf16(bf16_1), .wide(a_first));
epic_fp_widen widen_a_second (.narrow(a_1[31:16]), .is_bf16(bf16_1), .wide(a_second));
epic_fp_widen widen_b_first (.narrow(b_1[15:0]), .is_bf16(bf16_1), .wide(b_first));
epic_fp_widen widen_b_second (.narrow(b_1[31:16]), .is_bf16(bf16_1), .wide(b_second));

reg [3:0]  first_op_reg;
reg [3:0]  second_op_reg;
reg        keep_reg;  // the bytes of the first lane's words are in order
reg [31:0] left_reg;
reg [31:0] left_second_reg;
reg [63:0] right_reg;

always @(posedge clk) begin
    first_op_reg <= first_op_1;
    second_op_reg <= second_op_1;
    keep_reg <= keep_1;
    left_reg <= halves_1 ? a_first : a_1;
    left_second_reg <= a_second;
    right_reg <= narrow_1 ? {b_second, b_first} : b_1;
end

epic_lane #(
    .FP32(1),
    .LATENCY(LATENCY - 1 - INPUT)
) first (
    .clk(clk),
    .op(first_op_reg),
    .little(keep_reg),
    .a(left_reg),
    .b(right_reg[31:0]),
    .result(result[31:0])
);

epic_lane #(
    .FP32(1),
    .INT32(0),
    .LATENCY(LATENCY - 1 - INPUT)
) second (
    .clk(clk),
    .op(second_op_reg),
    .little(1'b1),
    .a(left_second_reg),
    .b(right_reg[63:32]),
    .result(result[63:32])
);

endmodule

`default_nettype wire
