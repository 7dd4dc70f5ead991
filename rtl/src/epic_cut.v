// A register that divides logic whose inputs stand still for some cycles (CYCLES of epic_m2_sequencer), so that no path is
// longer than a cycle. With CUT = 0 it is a wire: what it divides is then the same function in one cycle.
//
// What it holds is used in cycles with `used` alone. That it has settled by then, so that the function is the same, is proved
// (epic_m2_settled_props), and looked at in every simulation.

`default_nettype none

module epic_cut #(
    parameter integer WIDTH = 1,
    parameter integer CUT = 1    // 0: a wire
) (
    input  wire             clk,
    input  wire             used,
    input  wire [WIDTH-1:0] d,
    output wire [WIDTH-1:0] q
);

generate
    if (CUT != 0) begin : g_register
        reg [WIDTH-1:0] held_reg;
        always @(posedge clk) held_reg <= d;
        assign q = held_reg;
`ifdef FORMAL
        always @(posedge clk) if (used) a_settled: assert (q == d);
`endif
`ifndef SYNTHESIS
        always @(posedge clk)
            if (used && q !== d) begin
                $display("%m: has %h, expected %h", q, d);
                $fatal(1, "epic_cut: used before it has settled");
            end
`endif
    end
    else begin : g_wire
        assign q = d;
        wire unused = &{1'b0, clk, used};
    end
endgenerate

`ifdef SYNTHESIS
wire unused_in_synthesis = &{1'b0, used};
`endif

endmodule

`default_nettype wire
