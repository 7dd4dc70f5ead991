// Time in microseconds, modulo 2^32: differences up to half an hour can be told. For simulations in virtual time there is
// CLOCK_MHZ = 0: time stands still but for `skip`.

`default_nettype none

`include "epic_check.vh"

module epic_m2_clock #(
    parameter CLOCK_MHZ = 100  // cycles of clk in a microsecond, 1 to 1000; 0: virtual time
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [31:0] skip,  // virtual time: microseconds that pass in this cycle
    output reg  [31:0] now
);

`EPIC_CHECK(g_check_clock, CLOCK_MHZ >= 0 && CLOCK_MHZ <= 1000,
    ("epic_m2_clock: CLOCK_MHZ is %0d, expected 0 to 1000", CLOCK_MHZ))

localparam [9:0] LAST = CLOCK_MHZ[9:0] - 10'd1;

reg [9:0] cycle_reg;

always @(posedge clk) begin
    cycle_reg <= cycle_reg == LAST ? 10'd0 : cycle_reg + 10'd1;
    if (CLOCK_MHZ == 0) now <= now + skip;
    else if (cycle_reg == LAST) now <= now + 32'd1;
    if (rst) begin
        cycle_reg <= 10'd0;
        now <= 32'd0;
    end
end

endmodule

`default_nettype wire
