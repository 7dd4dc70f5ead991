// Round-robin arbiter: of those that request, the first after the one that was served last. A requester that waits is
// served after at most PORTS - 1 others.

`default_nettype none

`include "epic_check.vh"

module epic_arbiter #(
    parameter PORTS = 4,
    parameter INDEX_W = $clog2(PORTS)
) (
    input  wire               clk,
    input  wire               rst,
    input  wire [PORTS-1:0]   request,
    input  wire               take,     // the grant is used in this cycle
    output wire [PORTS-1:0]   grant,    // at most one bit; 0 when nobody requests
    output reg  [INDEX_W-1:0] index     // of the grant
);

`EPIC_CHECK(g_check_ports, PORTS >= 2,
    ("epic_arbiter: PORTS is %0d, expected 2 or more", PORTS))

// Ports after the one that was served last go before the others.
reg  [PORTS-1:0] after_reg;
wire [PORTS-1:0] first = request & after_reg;
wire [PORTS-1:0] chosen = first != {PORTS{1'b0}} ? first : request;

// The lowest bit that is set.
assign grant = chosen & (~chosen + 1'b1);

integer i;
always @* begin
    index = {INDEX_W{1'b0}};
    for (i = 0; i < PORTS; i = i + 1)
        if (grant[i]) index = index | i[INDEX_W-1:0];
end

always @(posedge clk) begin
    if (take && grant != {PORTS{1'b0}}) after_reg <= ~(grant | (grant - 1'b1));
    if (rst) after_reg <= {PORTS{1'b1}};
end

endmodule

`default_nettype wire
