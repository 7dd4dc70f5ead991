// One's-complement sum of an IPv4 header without options (RFC 791), a header a cycle, its sum three cycles later.
//
//   receiver:  the header is right when `sum` is 0xFFFF or 0 (EPIC-W-06)
//   sender:    give 0 in place of the checksum; the checksum is ~sum
//
// Carry-save adders take ten words to two; a carry out of bit 15 comes in again at bit 0 at once, so nothing grows
// beyond sixteen bits. Only the last two words are added with a carry chain. What is not zero stays so: the sum is that
// of adding word by word. The pipeline never stops and needs no reset.

`default_nettype none

module epic_ip_checksum (
    input  wire         clk,
    input  wire [159:0] header,  // first bit on the wire is header[159]
    output wire [15:0]  sum
);

`include "epic_checksum.vh"

wire [47:0] nine_high = {checksum_save(header[159:112]), header[111:96]};  // 4 words to 3
wire [31:0] nine_low = checksum_save(header[95:48]);                       // 3 words to 2
wire [31:0] rest = checksum_save(header[47:0]);                            // 3 words to 2

// 7 words to 5.
reg [79:0] five_reg;
// 5 words to 2.
wire [63:0] four = {checksum_save(five_reg[79:32]), five_reg[31:0]};
wire [47:0] three = {checksum_save(four[63:16]), four[15:0]};
reg [31:0] two_reg;
reg [15:0] sum_reg;

assign sum = sum_reg;

always @(posedge clk) begin
    five_reg <= {checksum_save(nine_high), checksum_save({nine_low, rest[31:16]}), rest[15:0]};
    two_reg <= checksum_save(three);
    sum_reg <= checksum_add(two_reg);
end

endmodule

`default_nettype wire
