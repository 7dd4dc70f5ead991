// epic_tx: what one port sends. JOBs with their payload become frames (epic_build), get their ICRC, take turns with
// forwarded frames and leave without the 6 bytes in front of the aligned stream.
//
//   JOB, payload -> epic_build --+--> epic_icrc -> CRC ----+
//                                +--> epic_delay_fifo -> ICRC behind the last byte -> epic_axis_mux -> epic_slice
//                                                          forwarded frames --------------^        -> epic_unalign ->
//
// epic_icrc can't stop and has its CRC some cycles after a frame's last beat. The beats wait that long in a FIFO, so
// that a frame that has started never waits for its CRC; the ICRC (EPIC-W-11; 0 by EPIC-W-12 where the edge says so)
// costs no cycle: a frame has as many beats on the wire as it has in the aligned stream without ICRC.

`default_nettype none
`include "epic_check.vh"

module epic_tx #(
    parameter integer DATA_W = 64,  // bits of a beat: 64, 128, 256 or 512
    parameter integer MTU = 1024    // largest payload in bytes: 64 to 8192, a multiple of 64
) (
    input  wire                clk,
    input  wire                rst,

    input  wire                job_valid,
    input  wire [88:0]         job_data,  // JOB_W bits
    output wire                job_ready,

    // The beats of the jobs, in their order; zero behind the payload.
    input  wire                payload_valid,
    input  wire [DATA_W-1:0]   payload_data,
    output wire                payload_ready,

    output wire [7:0]          edge_index,  // which edge's entry is wanted
    input  wire [216:0]        edge_entry,  // that entry, in the cycle after: EDGE_TX_W bits

    // Forwarded frames, aligned.
    input  wire [DATA_W-1:0]   fwd_axis_tdata,
    input  wire [DATA_W/8-1:0] fwd_axis_tkeep,
    input  wire                fwd_axis_tvalid,
    output wire                fwd_axis_tready,
    input  wire                fwd_axis_tlast,

    output wire [DATA_W-1:0]   m_axis_tdata,
    output wire [DATA_W/8-1:0] m_axis_tkeep,
    output wire                m_axis_tvalid,
    input  wire                m_axis_tready,
    output wire                m_axis_tlast,

    output wire                sent,      // pulse: an EPIC frame's last beat has been taken
    output wire                forwarded  // pulse: a forwarded frame's last beat has been taken
);

`include "epic_pkg.vh"

`EPIC_CHECK(g_check_data_w, DATA_W == 64 || DATA_W == 128 || DATA_W == 256 || DATA_W == 512,
    ("epic_tx: DATA_W is %0d, expected 64, 128, 256 or 512", DATA_W))

localparam integer BYTES = DATA_W / 8;
localparam integer WORDS = DATA_W / 32;
localparam integer WORD_W = $clog2(WORDS);
localparam integer BYTES_W = $clog2(BYTES) + 1;  // counts to BYTES
localparam integer COUNT_W = $clog2(BYTES + 7);  // counts to BYTES and what is cut off in front

// The latency of epic_icrc, as its file gives it. With another one frames would still be right, for the last beat waits
// for its CRC; they would only have a gap in front of it.
localparam integer ICRC_LEVELS = 1;
localparam integer ICRC_GRAIN = 4;  // with Pad a frame is whole words
localparam integer ICRC_LATENCY =
    2 + ($clog2(WORDS) + ICRC_LEVELS - 1) / ICRC_LEVELS + ($clog2(BYTES / ICRC_GRAIN) + ICRC_LEVELS - 1) / ICRC_LEVELS;
localparam integer DEPTH = 16;  // beats that can be under way beside epic_icrc

`EPIC_CHECK(g_check_depth, DEPTH > ICRC_LATENCY + 1,
    ("epic_tx: DEPTH is %0d, expected more than %0d", DEPTH, ICRC_LATENCY + 1))

// ---- The frame up to its Pad bytes.

wire               build_valid;
wire [DATA_W-1:0]  build_data;
wire               build_last;
wire [BYTES_W-1:0] build_bytes;
wire               build_icrc;
wire               build_ready;

epic_build #(
    .DATA_W(DATA_W),
    .MTU(MTU)
) build (
    .clk(clk),
    .rst(rst),
    .job_valid(job_valid),
    .job_data(job_data),
    .job_ready(job_ready),
    .payload_valid(payload_valid),
    .payload_data(payload_data),
    .payload_ready(payload_ready),
    .edge_index(edge_index),
    .edge_entry(edge_entry),
    .out_valid(build_valid),
    .out_data(build_data),
    .out_last(build_last),
    .out_bytes(build_bytes),
    .out_icrc(build_icrc),
    .out_ready(build_ready)
);

// ---- Its CRC, and its beats beside that.

wire        crc_in_valid;
wire [31:0] crc_in;
wire        crc_valid;
wire [31:0] crc;

wire              beat_valid;
wire [DATA_W-1:0] beat_data;
wire              beat_last;
wire              beat_icrc;
wire [WORD_W-1:0] beat_words;  // in the last beat, 0 for all
wire              beat_ready;

epic_icrc #(
    .DATA_W(DATA_W),
    .FIRST(6),
    .LEVELS(ICRC_LEVELS),
    .GRAIN(ICRC_GRAIN)
) icrc (
    .clk(clk),
    .rst(rst),
    .in_valid(build_valid && build_ready),
    .in_data(build_data),
    .in_bytes(build_bytes),
    .in_last(build_last),
    .crc_valid(crc_in_valid),
    .crc(crc_in),
    /* verilator lint_off PINCONNECTEMPTY */
    .crc_ok()
    /* verilator lint_on PINCONNECTEMPTY */
);

epic_delay_fifo #(
    .WIDTH(DATA_W + 2 + WORD_W),
    .DEPTH(DEPTH),
    .DELAY(ICRC_LATENCY + 1)
) beats (
    .clk(clk),
    .rst(rst),
    .in_valid(build_valid),
    .in_data({build_bytes[2 +: WORD_W], build_icrc, build_last, build_data}),
    .in_ready(build_ready),
    .out_valid(beat_valid),
    .out_data({beat_words, beat_icrc, beat_last, beat_data}),
    .out_ready(beat_ready)
);

// As deep as the beats: a frame has one or more of those, so this one is never full.
/* verilator lint_off UNUSEDSIGNAL */
wire crc_room;
/* verilator lint_on UNUSEDSIGNAL */

epic_delay_fifo #(
    .WIDTH(32),
    .DEPTH(DEPTH),
    .DELAY(1)
) crcs (
    .clk(clk),
    .rst(rst),
    .in_valid(crc_in_valid),
    .in_data(crc_in),
    .in_ready(crc_room),
    .out_valid(crc_valid),
    .out_data(crc),
    .out_ready(beat_valid && beat_last && beat_ready)
);

// ---- The ICRC behind the last word: in the beat, or as a tail when the beat is full.

wire [31:0]        icrc_word = beat_icrc ? crc : 32'd0;
reg  [DATA_W-1:0]  with_icrc;
integer            word;

always @* begin
    with_icrc = beat_data;
    for (word = 1; word < WORDS; word = word + 1) begin
        if (beat_last && beat_words == word[WORD_W-1:0]) begin
            with_icrc[32*word +: 32] = icrc_word;
        end
    end
end

// A register, for the memories before it are read asynchronously.
reg               epic_valid_reg;
reg               epic_last_reg;
reg [DATA_W-1:0]  epic_data_reg;
reg [COUNT_W-1:0] epic_bytes_reg;
reg [31:0]        epic_tail_reg;
wire              epic_taken;
wire              epic_free = !epic_valid_reg || epic_taken;
wire              complete = !beat_last || crc_valid;

assign beat_ready = epic_free && complete;

always @(posedge clk) begin
    if (epic_free) begin
        epic_valid_reg <= beat_valid && complete;
        epic_last_reg <= beat_last;
        epic_data_reg <= with_icrc;
        epic_bytes_reg <= ICRC_BYTES[COUNT_W-1:0]
            + (beat_words == 0 ? BYTES[COUNT_W-1:0] : {{(COUNT_W - WORD_W - 2) {1'b0}}, beat_words, 2'b00});
        epic_tail_reg <= icrc_word;
    end
    if (rst) begin
        epic_valid_reg <= 1'b0;
    end
end

// ---- Forwarded frames: tkeep to a number of bytes, all or the place of the first 0. By bisection: bit n says whether
// the 2^n bytes behind those of the bits above it are there.

reg  [BYTES_W-2:0] fwd_place;
wire               fwd_full = fwd_axis_tkeep[BYTES-1];
wire [COUNT_W-1:0] fwd_bytes = {{(COUNT_W - BYTES_W) {1'b0}}, fwd_full, fwd_full ? {(BYTES_W - 1) {1'b0}} : fwd_place};
integer            place_bit;

always @* begin
    fwd_place = {(BYTES_W - 1) {1'b0}};
    for (place_bit = BYTES_W - 2; place_bit >= 0; place_bit = place_bit - 1) begin
        fwd_place[place_bit] = fwd_axis_tkeep[fwd_place | ~({(BYTES_W - 1) {1'b1}} << place_bit)];
    end
end

// ---- Whole frames in turn, then off with the 6 bytes.

localparam integer BEAT_W = DATA_W + COUNT_W + 32;

wire               mux_valid;
wire               mux_last;
wire               mux_ready;
wire [DATA_W-1:0]  mux_data;
wire [COUNT_W-1:0] mux_bytes;
wire [31:0]        mux_tail;
wire [1:0]         mux_source;
wire               cut_valid;
wire               cut_last;
wire               cut_ready;
wire [DATA_W-1:0]  cut_data;
wire [COUNT_W-1:0] cut_bytes;
wire [31:0]        cut_tail;
wire [1:0]         cut_source;
wire [1:0]         leaving;  // the source of the frame at the output

epic_axis_mux #(
    .SOURCES(2),
    .WIDTH(BEAT_W)
) mux (
    .clk(clk),
    .rst(rst),
    .in_valid({fwd_axis_tvalid, epic_valid_reg}),
    .in_data({32'd0, fwd_bytes, fwd_axis_tdata, epic_tail_reg, epic_bytes_reg, epic_data_reg}),
    .in_last({fwd_axis_tlast, epic_last_reg}),
    .in_ready({fwd_axis_tready, epic_taken}),
    .out_valid(mux_valid),
    .out_data({mux_tail, mux_bytes, mux_data}),
    .out_last(mux_last),
    .out_source(mux_source),
    .out_ready(mux_ready)
);

// So that the choice of a source and the shift are not in one cycle, nor the MAC's tready and what is behind it.
epic_slice #(
    .WIDTH(BEAT_W + 3)
) slice (
    .clk(clk),
    .rst(rst),
    .in_valid(mux_valid),
    .in_data({mux_source, mux_last, mux_tail, mux_bytes, mux_data}),
    .in_ready(mux_ready),
    .out_valid(cut_valid),
    .out_data({cut_source, cut_last, cut_tail, cut_bytes, cut_data}),
    .out_ready(cut_ready)
);

epic_unalign #(
    .DATA_W(DATA_W),
    .USER_W(2)
) unalign (
    .clk(clk),
    .rst(rst),
    .in_valid(cut_valid),
    .in_data(cut_data),
    .in_last(cut_last),
    .in_bytes(cut_bytes),
    .in_tail({16'd0, cut_tail}),
    .in_user(cut_source),
    .in_ready(cut_ready),
    .out_valid(m_axis_tvalid),
    .out_data(m_axis_tdata),
    .out_keep(m_axis_tkeep),
    .out_last(m_axis_tlast),
    .out_user(leaving),
    .out_ready(m_axis_tready)
);

wire leaves = m_axis_tvalid && m_axis_tready && m_axis_tlast;

assign sent = leaves && leaving[0];
assign forwarded = leaves && leaving[1];

endmodule

`default_nettype wire
