// Receive path of one port: frames from the MAC become META records and payload beats; frames that are not EPIC's go
// whole to the forwarding stream.
//
//   s_axis -> stage 0 ---> epic_parse: verdict, fields -----------------------> META FIFO --\
//                 |------> epic_icrc (some cycles later) ---> one bit a frame -> ICRC FIFO --+-> meta
//                 |------> shifted by 6 bytes, Pad cut off ------------------> payload FIFO ----> payload
//                 \-----------------------------------------------------> forward FIFO -> epic_align -> fwd_axis
//
// One beat a cycle, always: s_axis_tready is low only in reset. Frames back to back, one-beat frames too, leave no
// bubble. Payload and forwarded beats are stored while the frame arrives and are committed or taken back at its end, 3
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
    parameter ICRC_LEVELS = 2,   // levels of XOR trees in a cycle, see epic_icrc
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

// ---------------------------------------------------------------------------------------------------- stages 0 to 2
reg              ready_reg;
reg              valid_0_reg, valid_1_reg, valid_2_reg;
reg              last_0_reg, last_1_reg, last_2_reg;
reg              bad_0_reg;
reg [COUNT_W-1:0] bytes_0_reg;
reg [BYTES_W-1:0] tail_1_reg, tail_2_reg, tail_3_reg;  // last byte of the beat
reg [DATA_W-1:0] data_0_reg, data_1_reg, data_2_reg;

assign s_axis_tready = ready_reg;

// tkeep is contiguous from bit 0: its highest bit gives the number of bytes.
function automatic [COUNT_W-1:0] count_of;
    input [BYTES-1:0] keep;
    integer at;
    begin
        count_of = {COUNT_W{1'b0}};
        for (at = 0; at < BYTES; at = at + 1)
            if (keep[at]) count_of = at[COUNT_W-1:0] + 1'b1;
    end
endfunction

always @(posedge clk) begin
    ready_reg <= 1'b1;
    valid_0_reg <= s_axis_tvalid && ready_reg;
    last_0_reg <= s_axis_tlast;
    bad_0_reg <= s_axis_tuser || (s_axis_tlast ? !s_axis_tkeep[0] : !(&s_axis_tkeep));
    bytes_0_reg <= count_of(s_axis_tkeep);
    data_0_reg <= s_axis_tdata;

    valid_1_reg <= valid_0_reg;
    last_1_reg <= last_0_reg;
    tail_1_reg <= bytes_0_reg[BYTES_W-1:0] - 1'b1;
    data_1_reg <= data_0_reg;

    valid_2_reg <= valid_1_reg;
    last_2_reg <= last_1_reg;
    tail_2_reg <= tail_1_reg;
    data_2_reg <= data_1_reg;

    if (rst) begin
        ready_reg <= 1'b0;
        valid_0_reg <= 1'b0;
        valid_1_reg <= 1'b0;
        valid_2_reg <= 1'b0;
    end
end

wire [COUNT_W-1:0]    covered_2;
wire [COUNT_W-1:0]    payload_2;
wire                  end_3;
wire                  end_bad_3;
wire                  end_good_3;
wire                  end_not_epic_3;
wire [7:0]            end_verdict_3;
wire [META_WIDTH-10:0] end_fields_3;

epic_parse #(.DATA_W(DATA_W), .MTU(MTU)) parse (
    .clk(clk), .rst(rst),
    .in_valid(valid_0_reg), .in_data(data_0_reg), .in_bytes(bytes_0_reg), .in_last(last_0_reg), .in_bad(bad_0_reg),
    .covered(covered_2), .payload(payload_2),
    .end_valid(end_3), .end_bad(end_bad_3), .end_good(end_good_3), .end_not_epic(end_not_epic_3),
    .end_verdict(end_verdict_3), .end_fields(end_fields_3)
);

// -------------------------------------------------------------------------------------------------- stage 3: stores
// The shift: the aligned beat that ends with this one. The header is never payload, so nothing is put in front of the
// first beat.
reg [SHIFT_W-1:0] carry_reg;
wire [DATA_W-1:0] aligned_2 = {data_2_reg[DATA_W-SHIFT_W-1:0], carry_reg};

reg               valid_3_reg;
reg               last_3_reg;
reg               first_3_reg;  // the next beat here starts a frame
reg [DATA_W-1:0]  data_3_reg;
reg               store_3_reg;
reg [DATA_W-1:0]  payload_3_reg;

integer at_byte;
always @(posedge clk) begin
    valid_3_reg <= valid_2_reg;
    last_3_reg <= last_2_reg;
    data_3_reg <= data_2_reg;
    tail_3_reg <= tail_2_reg;
    store_3_reg <= valid_2_reg && payload_2 != {COUNT_W{1'b0}};
    for (at_byte = 0; at_byte < BYTES; at_byte = at_byte + 1)
        payload_3_reg[8*at_byte +: 8] <= at_byte[COUNT_W-1:0] < payload_2 ? aligned_2[8*at_byte +: 8] : 8'h00;
    if (valid_2_reg)
        carry_reg <= data_2_reg[DATA_W-1 -: SHIFT_W];
    if (valid_3_reg)
        first_3_reg <= last_3_reg;
    if (rst) begin
        valid_3_reg <= 1'b0;
        store_3_reg <= 1'b0;
        first_3_reg <= 1'b1;
    end
end

// A frame keeps the `forward` of its first beat.
reg  forward_reg;
wire forward_3 = first_3_reg ? forward : forward_reg;

// What did not fit in this frame so far.
reg  payload_lost_reg;
reg  forward_lost_reg;
wire payload_room;
wire forward_room;
wire payload_lost_3 = payload_lost_reg || (store_3_reg && !payload_room);
wire forward_lost_3 = forward_lost_reg || (valid_3_reg && forward_3 && !forward_room);

always @(posedge clk) begin
    if (valid_3_reg) begin
        forward_reg <= forward_3;
        payload_lost_reg <= payload_lost_3 && !last_3_reg;
        forward_lost_reg <= forward_lost_3 && !last_3_reg;
    end
    if (rst) begin
        payload_lost_reg <= 1'b0;
        forward_lost_reg <= 1'b0;
    end
end

wire meta_room;
wire pass_3 = end_not_epic_3 && forward_3;
wire lost_3 = !meta_room || (end_good_3 && payload_lost_3) || (pass_3 && forward_lost_3);
wire kept_3 = end_3 && !end_bad_3 && !lost_3;

wire [META_WIDTH-2:0] record_3 = {end_fields_3, pass_3 ? VERDICT_FORWARDED : end_verdict_3};

reg overflow_reg;
reg bad_frame_reg;
assign overflow = overflow_reg;
assign bad_frame = bad_frame_reg;
always @(posedge clk) begin
    overflow_reg <= end_3 && !end_bad_3 && lost_3 && !rst;
    bad_frame_reg <= end_3 && end_bad_3 && !rst;
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

epic_fifo_gather #(.IN_WIDTH(DATA_W), .OUT_WIDTH(PAYLOAD_W), .DEPTH(PAYLOAD_DEPTH)) payload_fifo (
    .clk(clk), .rst(rst),
    .in_valid(store_3_reg && !payload_lost_reg), .in_data(payload_3_reg), .in_ready(payload_room),
    .commit(kept_3 && end_good_3), .rewind(end_3 && !(kept_3 && end_good_3)),
    .out_valid(payload_valid), .out_data(payload_data), .out_ready(payload_ready),
    .room(payload_words)
);

// ------------------------------------------------------------------------------------------------------ forwarding
wire               pass_valid;
wire               pass_last;
wire [BYTES_W-1:0] pass_bytes;
wire [DATA_W-1:0]  pass_data;
wire               pass_ready;

epic_fifo #(.WIDTH(DATA_W + BYTES_W + 1), .DEPTH(FORWARD_DEPTH), .PACKET(1)) forward_fifo (
    .clk(clk), .rst(rst),
    .in_valid(valid_3_reg && forward_3 && !forward_lost_reg), .in_data({last_3_reg, tail_3_reg, data_3_reg}),
    .in_ready(forward_room),
    .commit(kept_3 && pass_3), .rewind(end_3 && !(kept_3 && pass_3)),
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

epic_fifo #(.WIDTH(META_WIDTH - 1), .DEPTH(META_DEPTH)) meta_fifo (
    .clk(clk), .rst(rst),
    .in_valid(kept_3), .in_data(record_3), .in_ready(meta_room),
    .commit(1'b0), .rewind(1'b0),
    .out_valid(record_valid), .out_data(record), .out_ready(meta_ready && right_valid),
    .room(meta_words)
);

wire crc_valid;
wire crc_ok;
epic_icrc #(.DATA_W(DATA_W), .FIRST(0), .LEVELS(ICRC_LEVELS)) icrc (
    .clk(clk), .rst(rst),
    .in_valid(valid_2_reg), .in_data(data_2_reg), .in_bytes(covered_2), .in_last(last_2_reg),
    .crc_valid(crc_valid), .crc(crc), .crc_ok(crc_ok)
);

// Which of the frames whose ICRC is still to come have a record. At most 11 are under way: that many cycles lie between
// a frame's end and its ICRC with ICRC_LEVELS = 1.
reg [15:0] kept_reg;
reg [3:0]  kept_write_reg;
reg [3:0]  kept_read_reg;
always @(posedge clk) begin
    if (end_3) begin
        kept_reg[kept_write_reg] <= kept_3;
        kept_write_reg <= kept_write_reg + 1'b1;
    end
    if (crc_valid)
        kept_read_reg <= kept_read_reg + 1'b1;
    if (rst) begin
        kept_write_reg <= 4'd0;
        kept_read_reg <= 4'd0;
    end
end

// Never full: it has no more bits than there are records, and they leave together.
epic_fifo #(.WIDTH(1), .DEPTH(META_DEPTH)) right_fifo (
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
