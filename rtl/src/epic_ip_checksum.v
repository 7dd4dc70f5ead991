// One's-complement sum of an IPv4 header without options (RFC 791), a header a cycle, its sum two cycles later.
//
//   receiver:  the header is right when `sum` is 0xFFFF or 0 (EPIC-W-06)
//   sender:    give 0 in place of the checksum; the checksum is ~sum
//
// The pipeline never stops and needs no reset.

`default_nettype none

module epic_ip_checksum (
    input  wire         clk,
    input  wire [159:0] header,  // first bit on the wire is header[159]
    output wire [15:0]  sum
);

// 5 words below 2^16 are below 2^19, 10 below 2^20.
reg [18:0] high_reg;
reg [18:0] low_reg;
reg [15:0] sum_reg;

assign sum = sum_reg;

function automatic [18:0] add_words;
    input [79:0] words;
    integer at;
    begin
        add_words = 19'd0;
        for (at = 0; at < 5; at = at + 1)
            add_words = add_words + {3'd0, words[16*at +: 16]};
    end
endfunction

wire [19:0] all = {1'b0, high_reg} + {1'b0, low_reg};
// What left the sixteen bits comes in again at the low end; the second time it is one bit at most.
wire [16:0] folded = {1'b0, all[15:0]} + {13'd0, all[19:16]};

always @(posedge clk) begin
    high_reg <= add_words(header[159:80]);
    low_reg <= add_words(header[79:0]);
    sum_reg <= folded[15:0] + {15'd0, folded[16]};
end

endmodule

`default_nettype wire
