// epic_lane_maxmin: which of two 32-bit words is the maximum or the minimum: signed integers (EPIC-N-01), or IEEE
// 754-2019 maximum and minimum of binary32 (EPIC-N-03). Combinational.
//
// One comparator serves both: the bits of floats, read as signed integers, are in the order of the numbers, -0 below +0,
// where one is positive, and in reverse where both are negative. Of equal words it does not matter which one is taken.
// Only NaN needs a thought: it wins.

`default_nettype none
`include "epic_check.vh"

module epic_lane_maxmin #(
    parameter integer FP32 = 1  // 1: floats are supported; 0: the words are integers whatever `is_float` says
) (
    input  wire [31:0] a,
    input  wire [31:0] b,
    input  wire        is_float,  // the words are binary32
    input  wire        is_min,    // take the smaller
    output wire        take_b,    // b it is, else a
    output wire        nan        // neither: the result is a NaN
);

`EPIC_CHECK(g_check_fp32, FP32 == 0 || FP32 == 1, ("epic_lane_maxmin: FP32 is %0d, expected 0 or 1", FP32))

wire floating = is_float && FP32 != 0;

wire reverse = floating && a[31] && b[31];

assign take_b = ($signed(b) > $signed(a)) ^ reverse ^ is_min;
assign nan = floating && ((&a[30:23] && |a[22:0]) || (&b[30:23] && |b[22:0]));

endmodule

`default_nettype wire
