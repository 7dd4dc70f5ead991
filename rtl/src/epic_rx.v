// Receive path of one port: frames from the MAC become META records and payload beats; frames that are not EPIC's go
// whole to the forwarding stream.
//
//   s_axis -> stage 0 ---> epic_parse: verdict, fields -----------------------> META FIFO --\
//                 |------> epic_icrc (some cycles later) ---> one bit a frame -> ICRC FIFO --+-> meta
//                 |------> shifted by 6 bytes, Pad cut off ------------------> payload FIFO ----> payload
//                 \-----------------------------------------------------> forward FIFO -> epic_align -> fwd_axis
//
// One beat a cycle, always: s_axis_tready is low only in reset. Frames back to back, one-beat frames too, leave no
// bubble. Payload and forwarded beats are stored while the frame arrives and are committed or taken back at its end, 5
// cycles after its last beat. A frame that finds no room is lost whole (`overflow`); so is one that the MAC calls bad,
// in any of its beats (`bad_frame`). Neither has a META record. Every other frame has one, whatever it is:
//
//   verdict 0                  good; with SEND_ONLY_IMM and 1 <= payload_bytes <= MTU its beats can be read without
//                              a gap from now on. icrc_ok says how the ICRC is: whether it counts, the edge knows
//   verdict VERDICT_FORWARDED  not EPIC's and committed to the forwarding stream
//   any other                  the reason of the drop; no beats
//
// A beat before the last that is not full, and a last beat without a byte, make a bad frame.

`default_nettype none

`include "epic_check.vh"

module epic_rx #(
    parameter DATA_W = 64,       // 64, 128, 256 or 512
    parameter MTU = 1024,        // largest payload that is stored: a multiple of 64, 64 to 8192
    parameter META_DEPTH = 32,   // frames that can wait, a power of two
    parameter PAYLOAD_W = DATA_W,  // of a beat of the payload that leaves: DATA_W times a power of two
    // Beats, powers of two: 4 largest payloads; 2 of the longest frames, 1536 bytes or an MTU and its headers.
    parameter PAYLOAD_DEPTH = 1 << $clog2(4 * MTU / (PAYLOAD_W / 8)),
    parameter FORWARD_DEPTH = 1 << $clog2(2 * (MTU > 1408 ? MTU + 128 : 1536) / (DATA_W / 8)),
    parameter ICRC_LEVELS = 1,   // levels of XOR trees in a cycle, see epic_icrc
    parameter META_WIDTH = 289   // META_W of epic_types.vh
) (
    input  wire                  clk,
    input  wire                  rst,

    input  wire                  forward,  // 0: what is not EPIC's is dropped by its reason; counts from a frame's start

    input  wire [DATA_W-1:0]     s_axis_tdata,
    input  wire [DATA_W/8-1:0]   s_axis_tkeep,
    input  wire                  s_axis_tvalid,
    output wire                  s_axis_tready,
    input  wire                  s_axis_tlast,
    input  wire                  s_axis_tuser,

    output wire                  meta_valid,
    output wire [META_WIDTH-1:0] meta_data,
    input  wire                  meta_ready,

    output wire                  payload_valid,
    output wire [PAYLOAD_W-1:0]  payload_data,
    input  wire                  payload_ready,

    output wire [DATA_W-1:0]     fwd_axis_tdata,
    output wire [DATA_W/8-1:0]   fwd_axis_tkeep,
    output wire                  fwd_axis_tvalid,
    input  wire                  fwd_axis_tready,
    output wire                  fwd_axis_tlast,

    output wire                  overflow,  // pulse: a frame was lost for want of room
    output wire                  bad_frame  // pulse: a frame was lost because the MAC found it bad
);

`include "epic_types.vh"

localparam integer BYTES = DATA_W / 8;
localparam integer BYTES_W = $clog2(BYTES);
localparam integer COUNT_W = BYTES_W + 1;
localparam integer SHIFT_W = 8 * 6;  // an aligned stream has 6 bytes in front

`EPIC_CHECK(g_check_data_w, DATA_W == 64 || DATA_W == 128 || DATA_W == 256 || DATA_W == 512,
    ("epic_rx: DATA_W is %0d, expected 64, 128, 256 or 512", DATA_W))
`EPIC_CHECK(g_check_payload, PAYLOAD_DEPTH * (PAYLOAD_W / 8) >= MTU,
    ("epic_rx: PAYLOAD_DEPTH is %0d, expected %0d or more", PAYLOAD_DEPTH, (MTU + PAYLOAD_W / 8 - 1) / (PAYLOAD_W / 8)))
`EPIC_CHECK(g_check_forward, FORWARD_DEPTH * (DATA_W / 8) >= 1536,
    ("epic_rx: FORWARD_DEPTH is %0d, expected %0d or more", FORWARD_DEPTH, 1536 / (DATA_W / 8)))
`EPIC_CHECK(g_check_meta, META_WIDTH == META_W, ("epic_rx: META_WIDTH is %0d, expected %0d", META_WIDTH, META_W))

// ---------------------------------------------------------------------------------------------------- stages 0 to 4
localparam integer STAGES = 4;  // of the beats, behind stage 0: then epic_parse knows what to do with them

reg               ready_reg;
reg               valid_0_reg;
reg               last_0_reg;
reg               bad_0_reg;
reg [COUNT_W-1:0] bytes_0_reg;
reg [DATA_W-1:0]  data_0_reg;

assign s_axis_tready = ready_reg;

// The bytes of a beat, whose tkeep is contiguous from bit 0: all, or the place of the first 0. By bisection: bit n says
// whether the 2^n bytes behind those of the bits above it are there.
function automatic [BYTES_W-1:0] place_of_zero;
    input [BYTES-1:0] keep;
    integer bit_at;
    begin
        place_of_zero = {BYTES_W{1'b0}};
        for (bit_at = BYTES_W - 1; bit_at >= 0; bit_at = bit_at - 1)
            place_of_zero[bit_at] = keep[place_of_zero | ~({BYTES_W{1'b1}} << bit_at)];
    end
endfunction

wire full = s_axis_tkeep[BYTES-1];

always @(posedge clk) begin
    ready_reg <= 1'b1;
    valid_0_reg <= s_axis_tvalid && ready_reg;
    last_0_reg <= s_axis_tlast;
    bad_0_reg <= s_axis_tuser || (s_axis_tlast ? !s_axis_tkeep[0] : !(&s_axis_tkeep));
    bytes_0_reg <= {full, full ? {BYTES_W{1'b0}} : place_of_zero(s_axis_tkeep)};
    data_0_reg <= s_axis_tdata;
    if (rst) begin
        ready_reg <= 1'b0;
        valid_0_reg <= 1'b0;
    end
end

// Stage s, from 1 on, is the s-th slice from the low end.
reg [STAGES-1:0]         valid_reg;
reg [STAGES-1:0]         last_reg;
reg [BYTES_W*STAGES-1:0] tail_reg;  // last byte of the beat
reg [DATA_W*STAGES-1:0]  data_reg;

wire [BYTES_W-1:0] tail_0 = bytes_0_reg[BYTES_W-1:0] - 1'b1;

always @(posedge clk) begin
    valid_reg <= {valid_reg[STAGES-2:0], valid_0_reg};
    last_reg <= {last_reg[STAGES-2:0], last_0_reg};
    tail_reg <= {tail_reg[BYTES_W*(STAGES-1)-1:0], tail_0};
    data_reg <= {data_reg[DATA_W*(STAGES-1)-1:0], data_0_reg};
    if (rst)
        valid_reg <= {STAGES{1'b0}};
end

wire               valid_3 = valid_reg[2];
wire               last_3 = last_reg[2];
wire [DATA_W-1:0]  data_3 = data_reg[2*DATA_W +: DATA_W];
wire               valid_4 = valid_reg[3];
wire               last_4 = last_reg[3];
wire [BYTES_W-1:0] tail_4 = tail_reg[3*BYTES_W +: BYTES_W];
wire [DATA_W-1:0]  data_4 = data_reg[3*DATA_W +: DATA_W];

wire [COUNT_W-1:0]    covered_3;
wire [COUNT_W-1:0]    payload_4;
wire                  end_5;
wire                  end_bad_5;
wire                  end_good_5;
wire                  end_not_epic_5;
wire [7:0]            end_verdict_5;
wire [META_WIDTH-10:0] end_fields_5;

epic_parse #(.DATA_W(DATA_W), .MTU(MTU)) parse (
    .clk(clk), .rst(rst),
    .in_valid(valid_0_reg), .in_data(data_0_reg), .in_bytes(bytes_0_reg), .in_last(last_0_reg), .in_bad(bad_0_reg),
    .covered(covered_3), .payload(payload_4),
    .end_valid(end_5), .end_bad(end_bad_5), .end_good(end_good_5), .end_not_epic(end_not_epic_5),
    .end_verdict(end_verdict_5), .end_fields(end_fields_5)
);

// -------------------------------------------------------------------------------------------------- stage 5: stores
// The shift: the aligned beat that ends with this one. The header is never payload, so nothing is put in front of the
// first beat.
reg [SHIFT_W-1:0] carry_reg;
wire [DATA_W-1:0] aligned_4 = {data_4[DATA_W-SHIFT_W-1:0], carry_reg};
wire [BYTES-1:0]  behind_4 = {BYTES{1'b1}} << payload_4;  // bytes behind the payload

reg               valid_5_reg;
reg               last_5_reg;
reg               first_5_reg;  // the next beat here starts a frame
reg [BYTES_W-1:0] tail_5_reg;
reg [DATA_W-1:0]  data_5_reg;
reg               store_5_reg;
reg [DATA_W-1:0]  payload_5_reg;

integer at_byte;
always @(posedge clk) begin
    valid_5_reg <= valid_4;
    last_5_reg <= last_4;
    data_5_reg <= data_4;
    tail_5_reg <= tail_4;
    store_5_reg <= valid_4 && payload_4 != {COUNT_W{1'b0}};
    for (at_byte = 0; at_byte < BYTES; at_byte = at_byte + 1)
        payload_5_reg[8*at_byte +: 8] <= behind_4[at_byte] ? 8'h00 : aligned_4[8*at_byte +: 8];
    if (valid_4)
        carry_reg <= data_4[DATA_W-1 -: SHIFT_W];
    if (valid_5_reg)
        first_5_reg <= last_5_reg;
    if (rst) begin
        valid_5_reg <= 1'b0;
        store_5_reg <= 1'b0;
        first_5_reg <= 1'b1;
    end
end

// A frame keeps the `forward` of its first beat.
reg  forward_reg;
wire forward_5 = first_5_reg ? forward : forward_reg;

// What did not fit in this frame so far.
reg  payload_lost_reg;
reg  forward_lost_reg;
wire payload_room;
wire forward_room;
wire payload_lost_5 = payload_lost_reg || (store_5_reg && !payload_room);
wire forward_lost_5 = forward_lost_reg || (valid_5_reg && forward_5 && !forward_room);

always @(posedge clk) begin
    if (valid_5_reg) begin
        forward_reg <= forward_5;
        payload_lost_reg <= payload_lost_5 && !last_5_reg;
        forward_lost_reg <= forward_lost_5 && !last_5_reg;
    end
    if (rst) begin
        payload_lost_reg <= 1'b0;
        forward_lost_reg <= 1'b0;
    end
end

wire meta_room;
wire pass_5 = end_not_epic_5 && forward_5;
wire lost_5 = !meta_room || (end_good_5 && payload_lost_5) || (pass_5 && forward_lost_5);
wire kept_5 = end_5 && !end_bad_5 && !lost_5;
// Kept, and with what it has; said anew, for this moves the pointers of memories.
wire payload_kept_5 = end_5 && !end_bad_5 && meta_room && end_good_5 && !payload_lost_5;
wire forward_kept_5 = end_5 && !end_bad_5 && meta_room && pass_5 && !forward_lost_5;

wire [META_WIDTH-2:0] record_5 = {end_fields_5, pass_5 ? VERDICT_FORWARDED : end_verdict_5};

reg overflow_reg;
reg bad_frame_reg;
assign overflow = overflow_reg;
assign bad_frame = bad_frame_reg;
always @(posedge clk) begin
    overflow_reg <= end_5 && !end_bad_5 && lost_5 && !rst;
    bad_frame_reg <= end_5 && end_bad_5 && !rst;
end

// Room of the FIFOs and the CRC itself: nobody asks for them.
/* verilator lint_off UNUSEDSIGNAL */
wire [$clog2(PAYLOAD_DEPTH):0] payload_words;
wire [$clog2(FORWARD_DEPTH):0] forward_words;
wire [$clog2(META_DEPTH):0]    meta_words;
wire [$clog2(META_DEPTH):0]    right_words;
wire                           right_room;
wire [31:0]                    crc;
/* verilator lint_on UNUSEDSIGNAL */

epic_fifo_gather #(.IN_WIDTH(DATA_W), .OUT_WIDTH(PAYLOAD_W), .DEPTH(PAYLOAD_DEPTH), .REGISTER(1)) payload_fifo (
    .clk(clk), .rst(rst),
    .in_valid(store_5_reg && !payload_lost_reg), .in_data(payload_5_reg), .in_ready(payload_room),
    .commit(payload_kept_5), .rewind(end_5 && !payload_kept_5),
    .out_valid(payload_valid), .out_data(payload_data), .out_ready(payload_ready),
    .room(payload_words)
);

// ------------------------------------------------------------------------------------------------------ forwarding
wire               pass_valid;
wire               pass_last;
wire [BYTES_W-1:0] pass_bytes;
wire [DATA_W-1:0]  pass_data;
wire               pass_ready;

epic_fifo #(.WIDTH(DATA_W + BYTES_W + 1), .DEPTH(FORWARD_DEPTH), .PACKET(1), .REGISTER(1)) forward_fifo (
    .clk(clk), .rst(rst),
    .in_valid(valid_5_reg && forward_5 && !forward_lost_reg), .in_data({last_5_reg, tail_5_reg, data_5_reg}),
    .in_ready(forward_room),
    .commit(forward_kept_5), .rewind(end_5 && !forward_kept_5),
    .out_valid(pass_valid), .out_data({pass_last, pass_bytes, pass_data}), .out_ready(pass_ready),
    .room(forward_words)
);

epic_align #(.DATA_W(DATA_W)) align (
    .clk(clk), .rst(rst),
    .in_valid(pass_valid), .in_data(pass_data), .in_bytes(pass_bytes), .in_last(pass_last), .in_ready(pass_ready),
    .m_axis_tvalid(fwd_axis_tvalid), .m_axis_tdata(fwd_axis_tdata), .m_axis_tkeep(fwd_axis_tkeep),
    .m_axis_tlast(fwd_axis_tlast), .m_axis_tready(fwd_axis_tready)
);

// ------------------------------------------------------------------------------------------------------------ META
// The record waits in its FIFO for the ICRC, whose result comes some cycles behind it, in the order of the frames.
wire                  record_valid;
wire [META_WIDTH-2:0] record;
wire                  right_valid;
wire                  right;

// Each record is written, and kept or taken back in the same cycle: so what is decided last only moves pointers.
// Block RAM: the write enable of so many bits of distributed memory is a far-flung net.
epic_fifo #(.WIDTH(META_WIDTH - 1), .DEPTH(META_DEPTH), .PACKET(1), .REGISTER(1), .BLOCK(1)) meta_fifo (
    .clk(clk), .rst(rst),
    .in_valid(end_5), .in_data(record_5), .in_ready(meta_room),
    .commit(kept_5), .rewind(end_5 && !kept_5),
    .out_valid(record_valid), .out_data(record), .out_ready(meta_ready && right_valid),
    .room(meta_words)
);

wire crc_valid;
wire crc_ok;
epic_icrc #(.DATA_W(DATA_W), .FIRST(0), .LEVELS(ICRC_LEVELS), .CHECK(1)) icrc (
    .clk(clk), .rst(rst),
    .in_valid(valid_3), .in_data(data_3), .in_bytes(covered_3), .in_last(last_3),
    .crc_valid(crc_valid), .crc(crc), .crc_ok(crc_ok)
);

// Which of the frames whose ICRC is still to come have a record. It comes 2 to 5 cycles behind a frame's verdict, by
// DATA_W and ICRC_LEVELS: at most 5 are under way.
reg       end_6_reg;
reg       kept_6_reg;
reg [7:0] kept_reg;
reg [2:0] kept_write_reg;
reg [2:0] kept_read_reg;
always @(posedge clk) begin
    end_6_reg <= end_5 && !rst;
    kept_6_reg <= kept_5;
    if (end_6_reg) begin
        kept_reg[kept_write_reg] <= kept_6_reg;
        kept_write_reg <= kept_write_reg + 1'b1;
    end
    if (crc_valid)
        kept_read_reg <= kept_read_reg + 1'b1;
    if (rst) begin
        kept_write_reg <= 3'd0;
        kept_read_reg <= 3'd0;
    end
end

// Never full: it has no more bits than there are records, as many places, and they leave together.
epic_fifo #(.WIDTH(1), .DEPTH(META_DEPTH), .REGISTER(1)) right_fifo (
    .clk(clk), .rst(rst),
    .in_valid(crc_valid && kept_reg[kept_read_reg]), .in_data(crc_ok), .in_ready(right_room),
    .commit(1'b0), .rewind(1'b0),
    .out_valid(right_valid), .out_data(right), .out_ready(meta_ready && record_valid),
    .room(right_words)
);

assign meta_valid = record_valid && right_valid;
assign meta_data = {record[META_WIDTH-2:META_ICRC_OK_LSB], right, record[META_ICRC_OK_LSB-1:0]};

endmodule

`default_nettype wire
