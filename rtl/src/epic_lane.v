// epic_lane: one 32-bit element of the arithmetic of a beat: pass, OR, SUM, MAX, MIN of signed integers (EPIC-N-01) and
// of binary32 (EPIC-N-02, -03), LATENCY cycles from operands to result whatever the operation.
//
// Elements are big-endian on the wire (EPIC-N-07), first byte in the low bits of the word; they are turned here, on the
// way in and out. Pass and OR are for bytes (Broadcast): turning them twice changes nothing.
//
//   operands -> turn -> [early] -+-> compare, add, or -> [mid] -> pick -> delay -+-> select, turn -> register -> [late]
//                                +-> epic_fp32_add (6) --------------------------+
//
// `early` and `mid` are registers that are there when LATENCY has room for them.

`default_nettype none
`include "epic_check.vh"

module epic_lane #(
    parameter integer FP32 = 1,    // 1: floating-point operations too; 0: their codes pass A
    parameter integer INT32 = 1,   // 1: integer operations and OR too; 0: their codes pass A
    // Integers: 1 or more; 2 adds `mid`, 3 `early`. With FP32: 7 or more, which has `mid`; 8 adds `early`.
    parameter integer LATENCY = 8
) (
    input  wire        clk,
    input  wire [3:0]  op,      // LANE_*; those of 16-bit floats pass A
    input  wire        little,  // the element is little-endian
    input  wire [31:0] a,       // the payload that arrives
    input  wire [31:0] b,       // what the slot holds
    output wire [31:0] result
);

`include "epic_types.vh"

localparam integer ADD_LATENCY = 6;  // of epic_fp32_add
localparam integer LEAST = FP32 != 0 ? ADD_LATENCY + 1 : 1;
localparam integer EARLY = LATENCY > (FP32 != 0 ? LEAST : 2) ? 1 : 0;
localparam integer MID = FP32 != 0 || LATENCY > 1 ? 1 : 0;
localparam integer LATE = LATENCY - EARLY - (FP32 != 0 ? LEAST : 1 + MID);

`EPIC_CHECK(g_check_fp32, FP32 == 0 || FP32 == 1, ("epic_lane: FP32 is %0d, expected 0 or 1", FP32))
`EPIC_CHECK(g_check_int32, INT32 == 0 || INT32 == 1, ("epic_lane: INT32 is %0d, expected 0 or 1", INT32))
`EPIC_CHECK(g_check_latency, LATENCY >= LEAST,
    ("epic_lane: LATENCY is %0d, expected %0d or more with FP32 = %0d", LATENCY, LEAST, FP32))

localparam [31:0] NAN = 32'h7FC0_0000;

function automatic [31:0] turned;
    input [31:0] word;
    input        keep;
    turned = keep ? word : {word[7:0], word[15:8], word[23:16], word[31:24]};
endfunction

// ---- Operands, and what to do with them: decoded here, for all bits of a word wait for it.

localparam [1:0] TAKE_A = 2'd0;
localparam [1:0] TAKE_B = 2'd1;
localparam [1:0] TAKE_OR = 2'd2;
localparam [1:0] TAKE_SUM = 2'd3;

reg [1:0] take;      // what is there when neither of the two below
reg       picks;     // the greater or the smaller
reg       is_min;
reg       is_float;
reg       is_sum;    // of the adder

always @* begin
    take = TAKE_A;
    picks = 1'b0;
    is_float = 1'b0;
    is_min = op == LANE_INT32_MIN || op == LANE_FP32_MIN;
    is_sum = op == LANE_FP32_SUM;
    case (op)
        LANE_B: take = TAKE_B;
        LANE_OR: take = INT32 != 0 ? TAKE_OR : TAKE_A;
        LANE_INT32_SUM: take = INT32 != 0 ? TAKE_SUM : TAKE_A;
        LANE_INT32_MAX, LANE_INT32_MIN: picks = INT32 != 0;
        LANE_FP32_MAX, LANE_FP32_MIN: {picks, is_float} = {FP32 != 0, FP32 != 0};
        default: take = TAKE_A;
    endcase
end

localparam integer GIVEN_W = 7 + 64;
wire [GIVEN_W-1:0] given = {take, picks, is_min, is_float, is_sum, little, turned(a, little), turned(b, little)};
wire [GIVEN_W-1:0] taken;

generate
    if (EARLY != 0) begin : g_early
        reg [GIVEN_W-1:0] early_reg;
        always @(posedge clk) begin
            early_reg <= given;
        end
        assign taken = early_reg;
    end else begin : g_no_early
        assign taken = given;
    end
endgenerate

wire [1:0]  take_now;
wire        picks_now;
wire        is_min_now;
wire        is_float_now;
wire        is_sum_now;
wire        little_now;
wire [31:0] left;
wire [31:0] right;
assign {take_now, picks_now, is_min_now, is_float_now, is_sum_now, little_now, left, right} = taken;

// ---- All but the floating-point sum: `other` or, if so, `right` or NAN.

wire take_b;
wire nan;

epic_lane_maxmin #(
    .FP32(FP32)
) maxmin (
    .a(left),
    .b(right),
    .is_float(is_float_now),
    .is_min(is_min_now),
    .take_b(take_b),
    .nan(nan)
);

reg [31:0] other;

always @* begin
    case (take_now)
        TAKE_B: other = right;
        TAKE_OR: other = INT32 != 0 ? left | right : left;
        TAKE_SUM: other = INT32 != 0 ? left + right : left;
        default: other = left;
    endcase
end

wire [31:0] picked;
wire        picked_little;

generate
    if (MID != 0) begin : g_mid
        reg [31:0] other_reg;
        reg [31:0] right_reg;
        reg        take_right_reg;
        reg        nan_reg;
        reg        little_reg;
        always @(posedge clk) begin
            other_reg <= other;
            right_reg <= right;
            take_right_reg <= picks_now && take_b;
            nan_reg <= picks_now && nan;
            little_reg <= little_now;
        end
        assign picked = nan_reg ? NAN : take_right_reg ? right_reg : other_reg;
        assign picked_little = little_reg;
    end else begin : g_no_mid
        assign picked = picks_now && nan ? NAN : picks_now && take_b ? right : other;
        assign picked_little = little_now;
    end
endgenerate

// ---- The floating-point sum beside it; select, turn back.

wire [31:0] chosen;
wire        chosen_little;

generate
    if (FP32 != 0) begin : g_fp32
        wire [31:0] sum;
        epic_fp32_add add (
            .clk(clk),
            .a(left),
            .b(right),
            .sum(sum)
        );

        // `mid` was the first of the adder's cycles, for the value; `is_sum` takes all of them.
        localparam integer DELAY = ADD_LATENCY - 1;
        reg [33*DELAY-1:0]    picked_reg;
        reg [ADD_LATENCY-1:0] is_sum_reg;
        always @(posedge clk) begin
            picked_reg <= {picked_reg[33*(DELAY-1)-1:0], picked_little, picked};
            is_sum_reg <= {is_sum_reg[ADD_LATENCY-2:0], is_sum_now};
        end
        assign chosen = is_sum_reg[ADD_LATENCY-1] ? sum : picked_reg[33*(DELAY-1) +: 32];
        assign chosen_little = picked_reg[33*DELAY-1];
    end else begin : g_integer
        assign chosen = picked;
        assign chosen_little = picked_little;

        wire unused = &{1'b0, is_sum_now};
    end
endgenerate

reg [31:0] result_reg;

always @(posedge clk) begin
    result_reg <= turned(chosen, chosen_little);
end

generate
    if (LATE > 1) begin : g_late
        reg [32*LATE-1:0] late_reg;
        always @(posedge clk) begin
            late_reg <= {late_reg[32*(LATE-1)-1:0], result_reg};
        end
        assign result = late_reg[32*(LATE-1) +: 32];
    end else if (LATE == 1) begin : g_late_1
        reg [31:0] late_reg;
        always @(posedge clk) begin
            late_reg <= result_reg;
        end
        assign result = late_reg;
    end else begin : g_no_late
        assign result = result_reg;
    end
endgenerate

endmodule

`default_nettype wire
