// ICRC of a frame (EPIC-W-11, spec section 2.7), one beat a cycle, for the sender and the receiver alike.
//
// The frame comes in as beats with its Ethernet header at byte FIRST of the first beat. What stands in front of
// the IPv4 header is replaced by 8 bytes of ones and the variant fields are masked here, so the stream is taken
// as it is on the wire. `in_bytes` says how many bytes of a beat the CRC covers, from its first byte on: all of
// them, except that the beat in which the covered bytes end may have fewer, and any number of beats with 0 may
// follow (Ethernet padding). The frame ends with `in_last`; the next may start in the next cycle.
//
//   sender:    cover up to the end of the Pad bytes; send `crc` least significant byte first
//   receiver:  cover the ICRC too; the frame is right when `crc_ok`
//
// There is no back-pressure: `crc_valid` is up for one cycle, LATENCY cycles after each `in_last`, in order.
//
//   beat -> mask -> words joined two by two (log2(words) levels) -> state = F(state) ^ beat -> at the end
//     CHECK = 0:  zeros behind the message taken back, one level for each bit of their number, from GRAIN on
//     CHECK = 1:  compared with what a right message and that number of zeros lead to: a constant for each number
//
// LEVELS levels of the trees stand between two registers, each a 17-input XOR: LATENCY = 2
// + ceil(log2(DATA_W / 32) / LEVELS) + (CHECK ? 1 : ceil(log2(DATA_W / 8 / GRAIN) / LEVELS)).
`include "epic_check.vh"

`default_nettype none

module epic_icrc #(
    parameter integer DATA_W = 64,  // bits of a beat: 64, 128, 256 or 512
    parameter integer FIRST = 6,  // where Ethernet starts in the first beat: 6 in an aligned stream, 0 as received
    parameter integer LEVELS = 1,  // levels of the trees in a clock cycle, 1 to 8
    parameter integer CHECK = 0,  // 1: `crc_ok` only, `crc` is 0: smaller, and for a receiver enough
    parameter integer GRAIN = 1,  // `in_bytes` is a multiple of: 1 or, where the covered bytes are whole words, 4
    parameter integer COUNT_W = $clog2(DATA_W / 8) + 1  // derived; do not set
) (
    input wire clk,
    input wire rst,

    input wire in_valid,
    input wire [DATA_W-1:0] in_data,
    input wire [COUNT_W-1:0] in_bytes,
    input wire in_last,

    output wire crc_valid,
    output wire [31:0] crc,
    output wire crc_ok  // crc is that of a message with its own CRC behind it
);

`include "epic_pkg.vh"
`include "epic_crc32.vh"

localparam integer BYTES = DATA_W / 8;
localparam integer WORDS = DATA_W / 32;
localparam integer JOIN_LEVELS = $clog2(WORDS);
localparam integer GRAIN_LOG2 = $clog2(GRAIN);
localparam integer BACK_LEVELS = $clog2(BYTES) - GRAIN_LOG2;
localparam integer JOIN_STAGES = (JOIN_LEVELS + LEVELS - 1) / LEVELS;

// The bytes of the stream that the ICRC does not see as they are: [0, SKIPPED) are left out, the 8 bytes of
// ones follow, and MASKED_END is behind the last variant field.
localparam integer SKIPPED = FIRST + IPV4_BYTE - 8;
localparam integer MASKED_END = FIRST + BTH_BYTE + 5;
localparam integer MASKED_BEATS = (MASKED_END + BYTES - 1) / BYTES;
localparam integer BEAT_W = $clog2(MASKED_BEATS + 1);

`EPIC_CHECK(g_check_data_w, DATA_W == 64 || DATA_W == 128 || DATA_W == 256 || DATA_W == 512,
    ("epic_icrc: DATA_W is %0d, expected 64, 128, 256 or 512", DATA_W))
`EPIC_CHECK(g_check_first, FIRST >= 0 && FIRST <= 8, ("epic_icrc: FIRST is %0d, expected 0 to 8", FIRST))
`EPIC_CHECK(g_check_levels, LEVELS >= 1 && LEVELS <= 8, ("epic_icrc: LEVELS is %0d, expected 1 to 8", LEVELS))
`EPIC_CHECK(g_check_check, CHECK == 0 || CHECK == 1, ("epic_icrc: CHECK is %0d, expected 0 or 1", CHECK))
`EPIC_CHECK(g_check_grain, GRAIN == 1 || GRAIN == 4, ("epic_icrc: GRAIN is %0d, expected 1 or 4", GRAIN))
`EPIC_CHECK(g_check_count_w, COUNT_W == $clog2(DATA_W / 8) + 1,
    ("epic_icrc: COUNT_W is %0d, expected %0d", COUNT_W, $clog2(DATA_W / 8) + 1))

// 0xFF where byte `at` of the stream counts as ones.
function automatic [7:0] ones_at;
    input integer at;
    integer byte_at;
    begin
        byte_at = at - FIRST;
        ones_at = 8'h00;
        if (at >= SKIPPED && at < FIRST + IPV4_BYTE) ones_at = 8'hff;
        if (byte_at == IPV4_BYTE + 1) ones_at = 8'hff;  // TOS: DSCP and ECN
        if (byte_at == IPV4_BYTE + 8) ones_at = 8'hff;  // TTL
        if (byte_at == IPV4_BYTE + 10 || byte_at == IPV4_BYTE + 11) ones_at = 8'hff;  // header checksum
        if (byte_at == UDP_BYTE + 6 || byte_at == UDP_BYTE + 7) ones_at = 8'hff;  // checksum
        if (byte_at == BTH_BYTE + 4) ones_at = 8'hff;  // FECN, BECN, resv8a
    end
endfunction

localparam [1023:0] FORWARD_BYTE = crc32_forward(0);
localparam [1023:0] BACKWARD_BYTE = crc32_backward(0);

// The register from which SKIPPED bytes of zeros lead to all ones.
function automatic [31:0] start_state;
    input integer bytes;
    integer turn;
    begin
        start_state = CRC32_ONES;
        for (turn = 0; turn < bytes; turn = turn + 1)
            start_state = crc32_apply(BACKWARD_BYTE, start_state);
    end
endfunction

// The registers after a message that leads to `message`, and 0 to BYTES - 1 zeros.
function automatic [32*BYTES-1:0] right_states;
    input [31:0] message;
    integer zeros;
    reg [31:0] state;
    begin
        state = message;
        for (zeros = 0; zeros < BYTES; zeros = zeros + 1) begin
            right_states[32*zeros +: 32] = state;
            state = crc32_apply(FORWARD_BYTE, state);
        end
    end
endfunction

localparam [31:0] START = start_state(SKIPPED);
localparam [32*BYTES-1:0] RIGHT = right_states(CRC32_RESIDUE ^ CRC32_ONES);
localparam [1023:0] FORWARD_WORD = crc32_forward(2);
localparam [1023:0] FORWARD_BEAT = crc32_forward($clog2(BYTES));

// ------------------------------------------------------------------------------------------------------- mask
// Beats of the frame so far, up to MASKED_BEATS.
reg [BEAT_W-1:0] beat_reg;

// Ones and zeros to put into this beat, by its number.
reg [DATA_W-1:0] ones;
reg [DATA_W-1:0] keep;
wire [BYTES-1:0] behind = {BYTES{1'b1}} << in_bytes;  // bytes that are not covered
integer index;
integer beat;
always @* begin
    ones = {DATA_W{1'b0}};
    keep = {DATA_W{1'b1}};
    for (beat = 0; beat < MASKED_BEATS; beat = beat + 1)
        if (beat_reg == beat[BEAT_W-1:0])
            for (index = 0; index < BYTES; index = index + 1) begin
                ones[8*index +: 8] = ones_at(beat*BYTES + index);
                if (beat*BYTES + index < SKIPPED) keep[8*index +: 8] = 8'h00;
            end
    for (index = 0; index < BYTES; index = index + 1)
        if (behind[index]) begin
            ones[8*index +: 8] = 8'h00;
            keep[8*index +: 8] = 8'h00;
        end
end

// The controls of a beat travel with it through the stages.
localparam integer CONTROL_W = COUNT_W + 2;
reg [DATA_W-1:0] masked_reg;
reg [CONTROL_W-1:0] masked_control_reg;  // {last, bytes, valid}

always @(posedge clk) begin
    masked_reg <= (in_data & keep) | ones;
    masked_control_reg <= {in_last, in_bytes, in_valid};
    if (in_valid) begin
        if (in_last)
            beat_reg <= {BEAT_W{1'b0}};
        else if (beat_reg != MASKED_BEATS[BEAT_W-1:0])
            beat_reg <= beat_reg + 1'b1;
    end
    if (rst) begin
        beat_reg <= {BEAT_W{1'b0}};
        masked_control_reg[0] <= 1'b0;
    end
end

// ------------------------------------------------------------------------------------------------------- merge
// Level n has WORDS >> n words; each stands for the 2^n words of the beat that it was made of.
genvar level;
genvar pair;
generate
    for (level = 0; level < JOIN_LEVELS; level = level + 1) begin : g_join
        localparam integer OUT_W = DATA_W >> (level + 1);
        localparam [1023:0] FORWARD = crc32_forward(level + 2);
        wire [2*OUT_W-1:0] words;
        wire [OUT_W-1:0] joined;
        wire [OUT_W-1:0] out;
        if (level == 0) begin : g_first
            assign words = masked_reg;
        end else begin : g_next
            assign words = g_join[level - 1].out;
        end
        for (pair = 0; pair < (WORDS >> (level + 1)); pair = pair + 1) begin : g_pair
            assign joined[32*pair +: 32] =
                crc32_apply(FORWARD, words[64*pair +: 32]) ^ words[64*pair + 32 +: 32];
        end
        if ((level + 1) % LEVELS == 0 || level + 1 == JOIN_LEVELS) begin : g_register
            reg [OUT_W-1:0] joined_reg;
            always @(posedge clk) joined_reg <= joined;
            assign out = joined_reg;
        end else begin : g_wire
            assign out = joined;
        end
    end
endgenerate

// The controls of stage s of the tree are [CONTROL_W*s +: CONTROL_W]; stage 0 is the masked beat.
reg [CONTROL_W*JOIN_STAGES-1:0] control_reg;
wire [CONTROL_W*(JOIN_STAGES+1)-1:0] control = {control_reg, masked_control_reg};
integer stage;
always @(posedge clk) begin
    control_reg <= control[0 +: CONTROL_W*JOIN_STAGES];
    if (rst)
        for (stage = 0; stage < JOIN_STAGES; stage = stage + 1)
            control_reg[CONTROL_W*stage] <= 1'b0;
end

wire [31:0] joined_word = g_join[JOIN_LEVELS-1].out;
wire joined_last;
wire [COUNT_W-1:0] joined_bytes;
wire joined_valid;
assign {joined_last, joined_bytes, joined_valid} = control[CONTROL_W*JOIN_STAGES +: CONTROL_W];

// ------------------------------------------------------------------------------------------------------ state
reg [31:0] state_reg;
reg [COUNT_W-2:0] behind_reg;  // bytes of zeros taken in behind the message
reg first_reg;                 // the next beat is the first of a frame
reg ended_reg;                 // state_reg and behind_reg are those of a whole frame

wire [31:0] prior = first_reg ? START : state_reg;

always @(posedge clk) begin
    ended_reg <= joined_valid && joined_last;
    if (joined_valid) begin
        first_reg <= joined_last;
        if (joined_bytes != 0) begin
            state_reg <= crc32_apply(FORWARD_BEAT, prior) ^ crc32_apply(FORWARD_WORD, joined_word);
            behind_reg <= -joined_bytes[COUNT_W-2:0];
        end else if (first_reg) begin
            state_reg <= START;
            behind_reg <= {(COUNT_W-1){1'b0}};
        end
    end
    if (rst) begin
        first_reg <= 1'b1;
        ended_reg <= 1'b0;
    end
end

// -------------------------------------------------------------------------------------------------------- end
generate
    if (CHECK == 0) begin : g_back
        // Level n takes 2^n times GRAIN zeros back, or none.
        for (level = 0; level < BACK_LEVELS; level = level + 1) begin : g_level
            localparam [1023:0] BACKWARD = crc32_backward(level + GRAIN_LOG2);
            wire [31:0] from;
            wire [BACK_LEVELS-1:0] from_zeros;
            wire from_valid;
            wire [31:0] out;
            wire [BACK_LEVELS-1:0] out_zeros;
            wire out_valid;
            if (level == 0) begin : g_first
                assign {from, from_zeros, from_valid} =
                    {state_reg, behind_reg[COUNT_W-2:GRAIN_LOG2], ended_reg};
            end else begin : g_next
                assign {from, from_zeros, from_valid} =
                    {g_level[level - 1].out, g_level[level - 1].out_zeros, g_level[level - 1].out_valid};
            end
            wire [31:0] word = from_zeros[level] ? crc32_apply(BACKWARD, from) : from;
            if ((level + 1) % LEVELS == 0 || level + 1 == BACK_LEVELS) begin : g_register
                reg [31:0] word_reg;
                reg [BACK_LEVELS-1:0] zeros_reg;
                reg valid_reg;
                always @(posedge clk) begin
                    word_reg <= word;
                    zeros_reg <= from_zeros;
                    valid_reg <= from_valid && !rst;
                end
                assign {out, out_zeros, out_valid} = {word_reg, zeros_reg, valid_reg};
            end else begin : g_wire
                assign {out, out_zeros, out_valid} = {word, from_zeros, from_valid};
            end
        end

        /* verilator lint_off UNUSEDSIGNAL */
        wire [BACK_LEVELS-1:0] done_zeros = g_level[BACK_LEVELS-1].out_zeros;
        if (GRAIN != 1) begin : g_grain
            wire [GRAIN_LOG2-1:0] none = behind_reg[GRAIN_LOG2-1:0];
        end
        /* verilator lint_on UNUSEDSIGNAL */
        assign crc_valid = g_level[BACK_LEVELS-1].out_valid;
        assign crc = g_level[BACK_LEVELS-1].out ^ CRC32_ONES;
        assign crc_ok = crc == CRC32_RESIDUE;
    end else begin : g_check
        reg [31:0] right;
        reg valid_reg;
        reg ok_reg;
        integer zeros;
        always @* begin
            right = 32'd0;
            for (zeros = 0; zeros < BYTES; zeros = zeros + GRAIN)
                if (behind_reg == zeros[COUNT_W-2:0]) right = RIGHT[32*zeros +: 32];
        end
        always @(posedge clk) begin
            valid_reg <= ended_reg && !rst;
            ok_reg <= state_reg == right;
        end
        assign crc_valid = valid_reg;
        assign crc = 32'd0;
        assign crc_ok = ok_reg;
    end
endgenerate

endmodule

`default_nettype wire
