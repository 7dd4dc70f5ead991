// The retransmission timeout of RFC 6298 after a sample (spec section 10.1). Times in microseconds; SRTT and RTTVAR have
// eight fraction bits, so that what they drop is less than half a microsecond; the timeout is rounded up. Combinational.

`default_nettype none

module epic_m2_rto (
    input  wire        sampled,    // there was a sample before
    input  wire [39:0] srtt,
    input  wire [39:0] rttvar,
    input  wire [31:0] sample,
    input  wire [31:0] minimum,
    input  wire [31:0] maximum,
    output wire [39:0] next_srtt,
    output wire [39:0] next_rttvar,
    output wire [31:0] base
);

wire [39:0] fine = {sample, 8'd0};
wire [39:0] error = fine > srtt ? fine - srtt : srtt - fine;

assign next_srtt = sampled ? srtt - (srtt >> 3) + (fine >> 3) : fine;
assign next_rttvar = sampled ? rttvar - (rttvar >> 2) + (error >> 2) : fine >> 1;

wire [42:0] sum = {3'd0, next_srtt} + {1'b0, next_rttvar, 2'd0} + 43'd255;
wire [34:0] whole = sum[42:8];

assign base = whole < {3'd0, minimum} ? minimum : whole > {3'd0, maximum} ? maximum : whole[31:0];

wire unused = &{1'b0, sum[7:0]};

endmodule

`default_nettype wire
