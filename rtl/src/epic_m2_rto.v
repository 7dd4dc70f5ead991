// The retransmission timeout of RFC 6298 after a sample (spec section 10.1). Times in microseconds; SRTT and RTTVAR have
// eight fraction bits, so that what they drop is less than half a microsecond; the timeout is rounded up.
//
// CUT = 0: combinational. CUT = 1: in steps (epic_m2_sequencer): SRTT and RTTVAR of what stands at the inputs come out after
// the next `step`, and the timeout of them, within the bounds that stand there then, three cycles later.

`default_nettype none

`include "epic_cut.vh"

module epic_m2_rto #(
    parameter CUT = 0
) (
    input  wire        clk,
    input  wire        step,
    input  wire        sampled,    // there was a sample before
    input  wire [39:0] srtt,
    input  wire [39:0] rttvar,
    input  wire [31:0] sample,
    input  wire [31:0] minimum,
    input  wire [31:0] maximum,
    output wire [39:0] next_srtt,
    output wire [39:0] next_rttvar,
    output wire [31:0] base,
    // What it is made of, a cycle before with CUT = 1: for what is added to it.
    output wire [31:0] unbounded,
    output wire        too_short,  // below the minimum
    output wire        too_long    // above the maximum, and not below the minimum
);

`EPIC_CUT(cut_fine, fine, 40, {sample, 8'd0})
`EPIC_CUT(cut_error, error, 40, fine > srtt ? fine - srtt : srtt - fine)

wire [39:0] new_srtt = sampled ? srtt - (srtt >> 3) + (fine >> 3) : fine;
wire [39:0] new_rttvar = sampled ? rttvar - (rttvar >> 2) + (error >> 2) : fine >> 1;
generate
    if (CUT != 0) begin : g_stage
        reg [39:0] srtt_reg, rttvar_reg;
        always @(posedge clk)
            if (step) begin
                srtt_reg <= new_srtt;
                rttvar_reg <= new_rttvar;
            end
        assign next_srtt = srtt_reg;
        assign next_rttvar = rttvar_reg;
    end
    else begin : g_no_stage
        assign next_srtt = new_srtt;
        assign next_rttvar = new_rttvar;
    end
endgenerate

wire [42:0] sum = {3'd0, next_srtt} + {1'b0, next_rttvar, 2'd0} + 43'd255;
`EPIC_CUT(cut_whole, whole, 35, sum[42:8])
`EPIC_CUT(cut_short, is_short, 1, whole < {3'd0, minimum})
`EPIC_CUT(cut_long, is_long, 1, whole > {3'd0, maximum})
assign unbounded = whole[31:0];
assign too_short = is_short;
assign too_long = is_long && !is_short;
`EPIC_CUT(cut_base, bounded, 32, too_short ? minimum : too_long ? maximum : whole[31:0])
assign base = bounded;

wire unused = &{1'b0, clk, step, sum[7:0]};

endmodule

`default_nettype wire
