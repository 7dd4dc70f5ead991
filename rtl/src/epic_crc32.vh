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

// A map done twice.
function automatic [1023:0] crc32_square;
    input [1023:0] map;
    integer row;
    integer middle;
    begin
        crc32_square = 1024'd0;
        for (row = 0; row < 32; row = row + 1)
            for (middle = 0; middle < 32; middle = middle + 1)
                if (map[32*row + middle])
                    crc32_square[32*row +: 32] = crc32_square[32*row +: 32] ^ map[32*middle +: 32];
    end
endfunction

// 2^log2_bytes bytes of zeros.
function automatic [1023:0] crc32_forward;
    input integer log2_bytes;
    integer column;
    integer row;
    integer turn;
    reg [31:0] state;
    begin
        for (column = 0; column < 32; column = column + 1) begin
            state = 32'd1 << column;
            for (turn = 0; turn < 8; turn = turn + 1)
                state = (state >> 1) ^ (CRC32_POLYNOMIAL & {32{state[0]}});
            for (row = 0; row < 32; row = row + 1)
                crc32_forward[32*row + column] = state[row];
        end
        for (turn = 0; turn < log2_bytes; turn = turn + 1)
            crc32_forward = crc32_square(crc32_forward);
    end
endfunction

// The inverse. The polynomial's bit 31 is set, so bit 31 of the register tells whether it was added in a step.
function automatic [1023:0] crc32_backward;
    input integer log2_bytes;
    integer column;
    integer row;
    integer turn;
    reg [31:0] state;
    begin
        for (column = 0; column < 32; column = column + 1) begin
            state = 32'd1 << column;
            for (turn = 0; turn < 8; turn = turn + 1)
                state = ((state ^ (CRC32_POLYNOMIAL & {32{state[31]}})) << 1) | {31'd0, state[31]};
            for (row = 0; row < 32; row = row + 1)
                crc32_backward[32*row + column] = state[row];
        end
        for (turn = 0; turn < log2_bytes; turn = turn + 1)
            crc32_backward = crc32_square(crc32_backward);
    end
endfunction
