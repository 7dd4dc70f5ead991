// The arbiter: a grant is one of those that request, there is one whenever somebody does, `index` is its number, and
// whoever waits sees at most PORTS - 1 grants used by others (any one is watched).

`default_nettype none

module epic_arbiter_props #(
    parameter PORTS = 4
) (
    input wire             clk,
    input wire [PORTS-1:0] request,
    input wire             take
);

localparam INDEX_W = $clog2(PORTS);

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire [PORTS-1:0]   grant;
wire [INDEX_W-1:0] index;
epic_arbiter #(.PORTS(PORTS)) dut (
    .clk(clk), .rst(rst), .request(request), .take(take), .grant(grant), .index(index)
);

(* anyconst *) wire [INDEX_W-1:0] who;
always @* assume (who < PORTS);

// Grants that others used since `who` has been waiting.
reg [INDEX_W:0] others = 0;
always @(posedge clk) begin
    if (!started || !request[who] || (take && grant[who])) others <= 0;
    else if (take && grant != 0 && others <= PORTS) others <= others + 1'b1;
end

always @(posedge clk) if (started) begin
    a_requested: assert ((grant & ~request) == 0);
    a_one: assert ((grant & (grant - 1'b1)) == 0);
    a_busy: assert ((grant != 0) == (request != 0));
    a_index: assert (grant == 0 || grant == ({{(PORTS - 1){1'b0}}, 1'b1} << index));
    a_fair: assert (others <= PORTS - 1);
    c_last: cover (others == PORTS - 1 && take && grant[who]);
end

endmodule

`default_nettype wire
