// epic_fp_round: binary32 to binary16 or bfloat16, round to nearest even (EPIC-N-04).
//
// What is too great becomes an infinity, what is too small a subnormal or a zero of its sign, a NaN the NaN 0x7E00 or
// 0x7FC0. One number a cycle, its rounding 2 cycles later; the pipeline never stops.
//
// Stages: 1 cut the significand to its last place, 2 round.

`default_nettype none

module epic_fp_round (
    input  wire        clk,
    input  wire [31:0] wide,
    input  wire        is_bf16,  // 1: to bfloat16, 0: to binary16
    output wire [15:0] narrow    // of 2 cycles ago
);

wire       sign = wide[31];
wire [7:0] exponent = wide[30:23];
wire       special = &exponent;

// ---- Stage 1. The kept bits hold exponent field and fraction side by side, so that a carry of the rounding runs on
// into the exponent.

// binary16: fields 113 to 142 of binary32 are normal. Below, the significand moves right by 113 - field; from 101 down
// it is less than half of the smallest subnormal and only sticky. A binary32 subnormal is so too.
wire        half_is_normal = exponent >= 8'd113;
wire        half_is_tiny = exponent < 8'd102;
wire [3:0]  distance = 4'd1 - exponent[3:0];  // 113 - exponent, 1 to 11 where it is used
wire [35:0] moved = {1'b1, wide[22:0], 12'd0} >> distance;
wire [4:0]  half_exponent = exponent[4:0] - 5'd16;  // exponent - 112, 1 to 30 where it is used

reg        sign_1_reg;
reg        bf16_1_reg;
reg        nan_1_reg;
reg        overflow_1_reg;
reg [14:0] kept_1_reg;
reg        guard_1_reg;
reg        sticky_1_reg;

always @(posedge clk) begin
    sign_1_reg <= sign;
    bf16_1_reg <= is_bf16;
    nan_1_reg <= special && |wide[22:0];
    overflow_1_reg <= is_bf16 ? special : exponent > 8'd142;
    if (is_bf16) begin
        kept_1_reg <= wide[30:16];
        guard_1_reg <= wide[15];
        sticky_1_reg <= |wide[14:0];
    end else if (half_is_normal) begin
        kept_1_reg <= {half_exponent, wide[22:13]};
        guard_1_reg <= wide[12];
        sticky_1_reg <= |wide[11:0];
    end else if (half_is_tiny) begin
        kept_1_reg <= 15'd0;
        guard_1_reg <= 1'b0;
        sticky_1_reg <= |wide[30:0];
    end else begin
        // The hidden bit would be at place 35 of 36; the fraction's last place of binary16 is 25.
        kept_1_reg <= {4'd0, moved[35:25]};
        guard_1_reg <= moved[24];
        sticky_1_reg <= |moved[23:0];
    end
end

// ---- Stage 2.

wire        up = guard_1_reg && (sticky_1_reg || kept_1_reg[0]);
wire [14:0] rounded = kept_1_reg + {14'd0, up};

reg [15:0] narrow_reg;

always @(posedge clk) begin
    if (nan_1_reg) begin
        narrow_reg <= bf16_1_reg ? 16'h7FC0 : 16'h7E00;
    end else if (overflow_1_reg) begin
        narrow_reg <= {sign_1_reg, bf16_1_reg ? 15'h7F80 : 15'h7C00};
    end else begin
        narrow_reg <= {sign_1_reg, rounded};
    end
end

assign narrow = narrow_reg;

endmodule

`default_nettype wire
