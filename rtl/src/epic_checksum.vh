// One's-complement addition of 16-bit words, as the IPv4 checksum has it. `include this inside a module.
//
// 2^16 counts as 1: a carry out of bit 15 comes in again at bit 0. Both functions give 0 only when all words are 0.

// Carry-save: two words with the sum of three, without a carry chain.
function automatic [31:0] checksum_save;
    input [47:0] words;
    reg [15:0] carry;
    begin
        carry = (words[47:32] & words[31:16]) | (words[47:32] & words[15:0]) | (words[31:16] & words[15:0]);
        checksum_save = {carry[14:0], carry[15], words[47:32] ^ words[31:16] ^ words[15:0]};
    end
endfunction

// The sum of two. The second time the carry that comes in can't make another.
function automatic [15:0] checksum_add;
    input [31:0] words;
    reg [16:0] total;
    begin
        total = {1'b0, words[31:16]} + {1'b0, words[15:0]};
        checksum_add = total[15:0] + {15'd0, total[16]};
    end
endfunction
