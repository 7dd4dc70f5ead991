// CRC-32 of Ethernet, zlib and the ICRC (EPIC-W-11) as linear maps over GF(2). `include this inside a module.
//
// A map is a 1024-bit vector by rows: bits [32*r +: 32] say which input bits make output bit r. Maps are made at
// elaboration; crc32_apply is the only logic: 32 XOR trees of the about 16 bits that a row has.
//
// In the reflected form the next four bytes of the message, as a little-endian number w, take the register from
// s to F4(s ^ w), where Fn is the map of n bytes of zeros. epic_icrc is built on two consequences:
//   a word counts as F4n of itself when n - 1 words follow it, so the words of a beat can be joined by a tree;
//   Fn has an inverse, so zeros that were taken in behind the message can be taken back.

/* verilator lint_off UNUSEDPARAM */
localparam [31:0] CRC32_POLYNOMIAL = 32'hedb88320;
localparam [31:0] CRC32_ONES = 32'hffffffff;  // initial value, and what the register is XORed with at the end
// CRC-32 of any message that is followed by its own CRC-32, least significant byte first.
localparam [31:0] CRC32_RESIDUE = 32'h2144df1c;
/* verilator lint_on UNUSEDPARAM */

// The image of x under a map.
function automatic [31:0] crc32_apply;
    input [1023:0] map;
    input [31:0] x;
    integer row;
    begin
        for (row = 0; row < 32; row = row + 1)
            crc32_apply[row] = ^(map[32*row +: 32] & x);
    end
endfunction

// The product of two polynomials modulo that of the CRC, in the reflected form: bit 31 is x^0.
function automatic [31:0] crc32_product;
    input [31:0] a;
    input [31:0] b;
    integer turn;
    reg [31:0] times;
    begin
        crc32_product = 32'd0;
        times = a;
        for (turn = 31; turn >= 0; turn = turn - 1) begin
            crc32_product = crc32_product ^ (times & {32{b[turn]}});
            times = (times >> 1) ^ (CRC32_POLYNOMIAL & {32{times[0]}});
        end
    end
endfunction

// Exchanges the bits of `where`, which have the weight `weight` in the row and not in the column, with those of which
// the opposite is true.
function automatic [1023:0] crc32_swap;
    input [1023:0] map;
    input integer weight;
    input [1023:0] where;
    reg [1023:0] differ;
    begin
        differ = ((map >> (31 * weight)) ^ map) & where;
        crc32_swap = map ^ differ ^ (differ << (31 * weight));
    end
endfunction

// The map of multiplying by `factor`: what bit c leads to is factor times x^(31-c), a column. Columns become rows by
// five swaps: an index has five bits of column and five of row, and a swap exchanges one of these with one of those.
// (Tools evaluate this at elaboration, a statement at a time: few of them on wide words are quick.)
function automatic [1023:0] crc32_map;
    input [31:0] factor;
    integer column;
    reg [31:0] image;
    begin
        image = factor;
        for (column = 31; column >= 0; column = column - 1) begin
            crc32_map[32*column +: 32] = image;
            image = (image >> 1) ^ (CRC32_POLYNOMIAL & {32{image[0]}});
        end
        crc32_map = crc32_swap(crc32_map, 16, {{16{32'd0}}, {16{32'hffff0000}}});
        crc32_map = crc32_swap(crc32_map, 8, {2{{8{32'd0}}, {8{32'hff00ff00}}}});
        crc32_map = crc32_swap(crc32_map, 4, {4{{4{32'd0}}, {4{32'hf0f0f0f0}}}});
        crc32_map = crc32_swap(crc32_map, 2, {8{{2{32'd0}}, {2{32'hcccccccc}}}});
        crc32_map = crc32_swap(crc32_map, 1, {16{32'd0, 32'haaaaaaaa}});
    end
endfunction

// 2^log2_bytes bytes of zeros: x^8, squared.
function automatic [1023:0] crc32_forward;
    input integer log2_bytes;
    integer turn;
    reg [31:0] power;
    begin
        power = 32'd1 << 23;
        for (turn = 0; turn < log2_bytes; turn = turn + 1)
            power = crc32_product(power, power);
        crc32_forward = crc32_map(power);
    end
endfunction

// The inverse. The polynomial's bit 31 is set, so bit 31 of the register tells whether it was added in a step.
function automatic [1023:0] crc32_backward;
    input integer log2_bytes;
    integer turn;
    reg [31:0] power;
    begin
        power = 32'd1 << 31;
        for (turn = 0; turn < 8; turn = turn + 1)
            power = ((power ^ (CRC32_POLYNOMIAL & {32{power[31]}})) << 1) | {31'd0, power[31]};
        for (turn = 0; turn < log2_bytes; turn = turn + 1)
            power = crc32_product(power, power);
        crc32_backward = crc32_map(power);
    end
endfunction
