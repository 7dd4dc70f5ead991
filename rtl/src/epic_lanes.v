// epic_lanes: arithmetic on a beat, DATA_W / 32 lanes side by side. One beat a cycle, LATENCY cycles from input to
// output whatever the operation; there are no stalls, so whoever feeds it has room for what is under way.

`default_nettype none
`include "epic_check.vh"

module epic_lanes #(
    parameter integer DATA_W = 128,  // a multiple of 32
    parameter integer FP32 = 0,      // 1: floating-point operations too; 0: their codes pass A
    // 1 or more, with FP32 7 or more. More than the least helps the clock: see epic_lane.
    parameter integer LATENCY = FP32 != 0 ? 8 : 2
) (
    input  wire              clk,
    input  wire              rst,        // clears the valid bits only

    input  wire              in_valid,
    input  wire [3:0]        in_op,      // LANE_*
    input  wire              in_little,  // elements are little-endian
    input  wire [DATA_W-1:0] in_a,       // the payload that arrives
    input  wire [DATA_W-1:0] in_b,       // what the slot holds

    output wire              out_valid,
    output wire [DATA_W-1:0] out_data
);

`EPIC_CHECK(g_check_width, DATA_W >= 32 && DATA_W % 32 == 0,
    ("epic_lanes: DATA_W is %0d, expected a multiple of 32", DATA_W))
`EPIC_CHECK(g_check_latency, LATENCY >= 1, ("epic_lanes: LATENCY is %0d, expected 1 or more", LATENCY))

genvar lane;
generate
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
