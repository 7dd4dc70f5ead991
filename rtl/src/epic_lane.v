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
    // Integers: 1 or more; 2 adds `early`, 3 `mid`. With FP32: 7 or more, which has `mid`; 8 adds `early`.
    parameter integer LATENCY = 8
) (
    input  wire        clk,
    input  wire [3:0]  op,      // LANE_*
    input  wire        little,  // the element is little-endian
    input  wire [31:0] a,       // the payload that arrives
    input  wire [31:0] b,       // what the slot holds
    output wire [31:0] result
);

`include "epic_types.vh"

localparam integer ADD_LATENCY = 6;  // of epic_fp32_add
localparam integer LEAST = FP32 != 0 ? ADD_LATENCY + 1 : 1;
localparam integer EARLY = LATENCY > LEAST ? 1 : 0;
localparam integer MID = FP32 != 0 || LATENCY > 2 ? 1 : 0;
localparam integer LATE = LATENCY - EARLY - (FP32 != 0 ? LEAST : 1 + MID);

`EPIC_CHECK(g_check_fp32, FP32 == 0 || FP32 == 1, ("epic_lane: FP32 is %0d, expected 0 or 1", FP32))
`EPIC_CHECK(g_check_latency, LATENCY >= LEAST,
    ("epic_lane: LATENCY is %0d, expected %0d or more with FP32 = %0d", LATENCY, LEAST, FP32))

localparam [31:0] NAN = 32'h7FC0_0000;

function automatic [31:0] turned;
    input [31:0] word;
    input        keep;
    turned = keep ? word : {word[7:0], word[15:8], word[23:16], word[31:24]};
endfunction

// ---- Operands.

wire [3:0]  op_now;
wire        little_now;
wire [31:0] left;
wire [31:0] right;

generate
    if (EARLY != 0) begin : g_early
        reg [68:0] early_reg;
        always @(posedge clk) begin
            early_reg <= {op, little, turned(a, little), turned(b, little)};
        end
        assign {op_now, little_now, left, right} = early_reg;
    end else begin : g_no_early
        assign {op_now, little_now, left, right} = {op, little, turned(a, little), turned(b, little)};
    end
endgenerate

// ---- All but the floating-point sum: `other` or, if so, `right` or NAN.

wire is_min = op_now == LANE_INT32_MIN || op_now == LANE_FP32_MIN;
wire is_float = op_now == LANE_FP32_MAX || op_now == LANE_FP32_MIN;
wire picks = op_now == LANE_INT32_MAX || op_now == LANE_INT32_MIN || (is_float && FP32 != 0);
wire take_b;
wire nan;

epic_lane_maxmin #(
    .FP32(FP32)
) maxmin (
    .a(left),
    .b(right),
    .is_float(is_float),
    .is_min(is_min),
    .take_b(take_b),
    .nan(nan)
);

reg [31:0] other;

always @* begin
    case (op_now)
        LANE_B: other = right;
        LANE_OR: other = left | right;
        LANE_INT32_SUM: other = left + right;
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
            take_right_reg <= picks && take_b;
            nan_reg <= picks && nan;
            little_reg <= little_now;
        end
        assign picked = nan_reg ? NAN : take_right_reg ? right_reg : other_reg;
        assign picked_little = little_reg;
    end else begin : g_no_mid
        assign picked = picks && nan ? NAN : picks && take_b ? right : other;
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
            is_sum_reg <= {is_sum_reg[ADD_LATENCY-2:0], op_now == LANE_FP32_SUM};
        end
        assign chosen = is_sum_reg[ADD_LATENCY-1] ? sum : picked_reg[33*(DELAY-1) +: 32];
        assign chosen_little = picked_reg[33*DELAY-1];
    end else begin : g_integer
        assign chosen = picked;
        assign chosen_little = picked_little;
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
