// epic_fp_widen: binary16 or bfloat16 to binary32, exact (EPIC-N-04). Combinational.
//
// A bfloat16 is the upper half of its binary32. A binary16 has another exponent range: its subnormals are normal
// numbers in binary32 and are normalized here. A NaN stays a NaN with its fraction.

`default_nettype none

module epic_fp_widen (
    input  wire [15:0] narrow,
    input  wire        is_bf16,  // 1: bfloat16, 0: binary16
    output wire [31:0] wide
);

wire       sign = narrow[15];
wire [4:0] exponent = narrow[14:10];
wire [9:0] fraction = narrow[9:0];

// Leading zeros of a subnormal's fraction, by halving; the places behind the fraction bound the count.
wire [15:1] places = {fraction, 5'b10000};
wire        none_of_8 = ~|places[15:8];
wire [7:1]  half_8 = none_of_8 ? places[7:1] : places[15:9];
wire        none_of_4 = ~|half_8[7:4];
wire [3:1]  half_4 = none_of_4 ? half_8[3:1] : half_8[7:5];
wire        none_of_2 = ~|half_4[3:2];
wire        none_of_1 = none_of_2 ? ~half_4[1] : ~half_4[3];
wire [3:0]  zeros = {none_of_8, none_of_4, none_of_2, none_of_1};
wire [8:0]  normal = fraction[8:0] << zeros;  // the leading one moves out at the top: it becomes the hidden bit

// 2^-14 is exponent field 1 of binary16 and 113 of binary32. The top bit of a subnormal's fraction weighs 2^-15.
reg [30:0] half_next;

always @* begin
    if (&exponent) begin
        half_next = {8'hFF, fraction, 13'd0};
    end else if (|exponent) begin
        half_next = {8'd112 + {3'd0, exponent}, fraction, 13'd0};
    end else if (|fraction) begin
        half_next = {8'd112 - {4'd0, zeros}, normal[8:0], 14'd0};
    end else begin
        half_next = 31'd0;
    end
end

assign wide = is_bf16 ? {narrow, 16'd0} : {sign, half_next};

endmodule

`default_nettype wire
