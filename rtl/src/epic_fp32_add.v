// epic_fp32_add: IEEE 754 binary32 addition, round to nearest even (EPIC-N-02).
//
// Subnormals in and out, infinities, NaN and signed zeros are all handled: the result equals that of a CPU bit for
// bit, except for which NaN a NaN is (it is always 0x7FC00000). One pair a cycle, its sum 6 cycles later; the pipeline
// never stops, so it has neither handshake nor reset: whoever feeds it keeps a shift register of valid bits.
//
// Stages: 1 order by magnitude, 2 align, 3 add or subtract, 4 count leading zeros, 5 normalize, 6 round.

`default_nettype none

module epic_fp32_add (
    input  wire        clk,
    input  wire [31:0] a,
    input  wire [31:0] b,
    output wire [31:0] sum  // a + b of 6 cycles ago
);

// Between stages 2 and 6 a significand has 3 bits below its last place: guard, round and sticky.
localparam integer FRACTION = 23;
localparam integer SIG = FRACTION + 1;  // with the hidden bit
localparam integer WIDE = SIG + 4;  // a carry in front, 3 bits behind

// ---- Stage 1: order the operands by magnitude; what will be NaN or infinite is known from here on.

// Both differences of exponents are taken at once, and the comparison picks one: it does not wait for the other.
// The exponent field 0 counts as 1, without hidden bit.
wire [7:0] exponent_a = a[30:23] | {7'd0, ~|a[30:23]};
wire [7:0] exponent_b = b[30:23] | {7'd0, ~|b[30:23]};
wire       swap = b[30:0] > a[30:0];
wire       special_a = &a[30:23];
wire       special_b = &b[30:23];
wire       nan_a = special_a && |a[22:0];
wire       nan_b = special_b && |b[22:0];
wire [7:0] a_less_b = exponent_a - exponent_b;
wire [7:0] b_less_a = exponent_b - exponent_a;

reg           sign_1_reg;
reg           subtract_1_reg;
reg           nan_1_reg;
reg           infinite_1_reg;
reg [7:0]     exponent_1_reg;  // of the greater operand, 1 or more
reg [7:0]     distance_1_reg;  // how far the smaller one lies below
reg [SIG-1:0] great_1_reg;
reg [SIG-1:0] small_1_reg;

always @(posedge clk) begin
    sign_1_reg <= swap ? b[31] : a[31];
    subtract_1_reg <= a[31] ^ b[31];
    nan_1_reg <= nan_a || nan_b || (special_a && special_b && (a[31] ^ b[31]));
    infinite_1_reg <= special_a || special_b;
    exponent_1_reg <= swap ? exponent_b : exponent_a;
    distance_1_reg <= swap ? b_less_a : a_less_b;
    great_1_reg <= swap ? {|b[30:23], b[22:0]} : {|a[30:23], a[22:0]};
    small_1_reg <= swap ? {|a[30:23], a[22:0]} : {|b[30:23], b[22:0]};
end

// ---- Stage 2: align the smaller significand. What falls off at the end is collected in the sticky bit.

// 32 places or more below, it cannot change the sum: it is less than a quarter of the last place, even of the next
// lower power of two, and the sum rounds to the greater operand.
wire           far = |distance_1_reg[7:5];
wire [SIG+2:0] aligned = {small_1_reg, 3'b000} >> distance_1_reg[4:0];
// What the shift drops: the low `distance` bits.
wire [SIG+2:0] lost_mask = ~({(SIG + 3) {1'b1}} << distance_1_reg[4:0]);
wire           lost = |({small_1_reg, 3'b000} & lost_mask);

reg           sign_2_reg;
reg           subtract_2_reg;
reg           nan_2_reg;
reg           infinite_2_reg;
reg [7:0]     exponent_2_reg;
reg [SIG-1:0] great_2_reg;
reg [SIG+2:0] small_2_reg;

always @(posedge clk) begin
    sign_2_reg <= sign_1_reg;
    subtract_2_reg <= subtract_1_reg;
    nan_2_reg <= nan_1_reg;
    infinite_2_reg <= infinite_1_reg;
    exponent_2_reg <= exponent_1_reg;
    great_2_reg <= great_1_reg;
    small_2_reg <= far ? {(SIG + 3) {1'b0}} : aligned | {{(SIG + 2) {1'b0}}, lost};
end

// ---- Stage 3: add or subtract; the result is never negative.

reg            sign_3_reg;
reg            same_sign_3_reg;
reg            nan_3_reg;
reg            infinite_3_reg;
reg [7:0]      exponent_3_reg;
reg [WIDE-1:0] total_3_reg;
reg [WIDE-1:0] floor_3_reg;

always @(posedge clk) begin
    sign_3_reg <= sign_2_reg;
    same_sign_3_reg <= !subtract_2_reg;
    nan_3_reg <= nan_2_reg;
    infinite_3_reg <= infinite_2_reg;
    exponent_3_reg <= exponent_2_reg;
    total_3_reg <= {1'b0, great_2_reg, 3'b000} + ({WIDE{subtract_2_reg}} ^ {1'b0, small_2_reg})
        + {{(WIDE - 1) {1'b0}}, subtract_2_reg};
    // Normalizing must stop after `exponent` places, where the result is subnormal. A one set there before the
    // leading zeros are counted is a minimum that costs no comparison.
    floor_3_reg <= {1'b1, {(WIDE - 1) {1'b0}}} >> exponent_2_reg;
end

// ---- Stage 4: leading zeros: which nibble has the first one, and where in it. All nibbles look at once.

wire [31:0] places = {total_3_reg | floor_3_reg, 4'b1000};  // the last nibble bounds the count
reg  [6:0]  empty;  // nibble 0 is the first; the last one never is
reg  [15:0] zeros;  // 2 bits each
reg  [2:0]  nibble;
integer     n;

always @* begin
    for (n = 0; n < 7; n = n + 1) begin
        empty[n] = ~|places[28-4*n +: 4];
    end
    for (n = 0; n < 8; n = n + 1) begin
        zeros[2*n+1] = ~|places[30-4*n +: 2];
        zeros[2*n] = !places[31-4*n] && (places[30-4*n] || !places[29-4*n]);
    end
    nibble[2] = &empty[3:0];
    nibble[1] = nibble[2] ? &empty[5:4] : &empty[1:0];
    nibble[0] = nibble[2] ? empty[4] && (!empty[5] || empty[6]) : empty[0] && (!empty[1] || empty[2]);
end

reg            sign_4_reg;
reg            nan_4_reg;
reg            infinite_4_reg;
reg [7:0]      exponent_4_reg;
reg [WIDE-1:0] total_4_reg;
reg [4:0]      shift_4_reg;

always @(posedge clk) begin
    // x - x is +0, but -0 + -0 is -0.
    sign_4_reg <= sign_3_reg && (same_sign_3_reg || |total_3_reg);
    nan_4_reg <= nan_3_reg;
    infinite_4_reg <= infinite_3_reg;
    exponent_4_reg <= exponent_3_reg;
    total_4_reg <= total_3_reg;
    shift_4_reg <= {nibble, zeros[2*nibble +: 2]};
end

// ---- Stage 5: normalize. The leading one stands at the carry's place, or the result is subnormal or zero.

wire [WIDE-1:0] normal = total_4_reg << shift_4_reg;

reg            sign_5_reg;
reg            nan_5_reg;
reg            infinite_5_reg;
reg [7:0]      exponent_5_reg;  // as a field
reg [WIDE-2:0] normal_5_reg;

always @(posedge clk) begin
    sign_5_reg <= sign_4_reg;
    nan_5_reg <= nan_4_reg;
    infinite_5_reg <= infinite_4_reg;
    // 254 and a carry give 255 here, an infinity; operands with 255 are taken care of by the flags.
    exponent_5_reg <= normal[WIDE-1] ? exponent_4_reg + 8'd1 - {3'd0, shift_4_reg} : 8'd0;
    normal_5_reg <= normal[WIDE-2:0];
end

// ---- Stage 6: round to nearest even. A carry runs from the fraction into the exponent, also to infinity.

wire        up = normal_5_reg[3] && (normal_5_reg[4] || |normal_5_reg[2:0]);
wire [30:0] rounded = {exponent_5_reg, normal_5_reg[WIDE-2:4]} + {30'd0, up};

reg [31:0] sum_reg;

always @(posedge clk) begin
    if (nan_5_reg) begin
        sum_reg <= 32'h7FC0_0000;
    end else if (infinite_5_reg || &exponent_5_reg) begin
        sum_reg <= {sign_5_reg, 8'hFF, 23'd0};
    end else begin
        sum_reg <= {sign_5_reg, rounded};
    end
end

assign sum = sum_reg;

endmodule

`default_nettype wire
