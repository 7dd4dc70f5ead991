// Header fields, lengths and wire checks of the frames of a port (spec sections 2.1 to 2.5), one beat a cycle without
// pauses, frames back to back.
//
// The checks are made in the order of the spec's table of drops, as epic_spec.codec does, so each frame has the reason
// that the codec gives. The ICRC is not looked at here.
//
//   stage 0  `in_*`: a beat
//   stage 1  its bytes are in the header register; lengths are taken
//   stage 2  `covered` and `payload`: which of its bytes the ICRC covers and how many payload bytes end with it;
//            every check is one bit
//   stage 3  `end_*`: the frame's verdict and META, if it was the last beat of a frame
//
// An aligned beat (6 bytes in front of the frame) ends with each beat of the frame itself. That which may be left over
// is never payload: 4 bytes of ICRC follow it. So the payload takes no cycle more than the frame.

`default_nettype none

`include "epic_check.vh"

module epic_parse #(
    parameter DATA_W = 64,                       // 64, 128, 256 or 512
    parameter MTU = 1024,                        // largest payload that is stored
    parameter COUNT_W = $clog2(DATA_W / 8) + 1,  // derived; do not set
    parameter META_WIDTH = 289                   // META_W of epic_types.vh
) (
    input  wire                  clk,
    input  wire                  rst,

    input  wire                  in_valid,
    input  wire [DATA_W-1:0]     in_data,
    input  wire [COUNT_W-1:0]    in_bytes,  // BYTES, or less in the last beat
    input  wire                  in_last,
    input  wire                  in_bad,    // anywhere in a frame: the frame is bad

    output wire [COUNT_W-1:0]    covered,  // stage 2: bytes of the beat up to the end of the ICRC
    output wire [COUNT_W-1:0]    payload,  // stage 2: payload bytes of the aligned beat, of a payload that is stored

    output wire                  end_valid,     // stage 3: a frame has ended
    output wire                  end_bad,       // with in_bad
    output wire                  end_good,      // its verdict is 0
    output wire                  end_not_epic,  // it is none of EPIC's: ether type, VLAN, protocol or UDP port
    output wire [7:0]            end_verdict,
    output wire [META_WIDTH-10:0] end_fields    // META behind icrc_ok
);

`include "epic_pkg.vh"
`include "epic_types.vh"

localparam integer BYTES = DATA_W / 8;
localparam integer ICRC_LENGTH = 4;
localparam integer HEADER_BYTES = IMMDT_BYTE + 4;
localparam integer HEADER_BEATS = (HEADER_BYTES + BYTES - 1) / BYTES;
localparam integer PAYLOAD_BEAT = 64 / BYTES;  // aligned beat in which the payload starts
localparam integer TOTAL_BEAT = (IPV4_BYTE + 3) / BYTES;  // beat with which the IP total length is known
localparam integer INDEX_W = $clog2(PAYLOAD_BEAT + 2);
localparam integer LEAST_TOTAL = 20 + 8 + 12 + ICRC_LENGTH;

`EPIC_CHECK(g_check_data_w, DATA_W == 64 || DATA_W == 128 || DATA_W == 256 || DATA_W == 512,
    ("epic_parse: DATA_W is %0d, expected 64, 128, 256 or 512", DATA_W))
`EPIC_CHECK(g_check_mtu, MTU >= 64 && MTU <= 8192 && MTU % 64 == 0,
    ("epic_parse: MTU is %0d, expected a multiple of 64 from 64 to 8192", MTU))
`EPIC_CHECK(g_check_count_w, COUNT_W == $clog2(DATA_W / 8) + 1,
    ("epic_parse: COUNT_W is %0d, expected %0d", COUNT_W, $clog2(DATA_W / 8) + 1))
`EPIC_CHECK(g_check_meta, META_WIDTH == META_W, ("epic_parse: META_WIDTH is %0d, expected %0d", META_WIDTH, META_W))

// ---------------------------------------------------------------------------------------------------- stage 0 to 1
// Beat of its frame that is at the input; stays at PAYLOAD_BEAT + 1.
reg [INDEX_W-1:0] index_reg;
wire              first = index_reg == {INDEX_W{1'b0}};

// The first bytes of the frame in wire order, in whole beats. What a short frame does not hold is left over from others
// and never looked at: `truncated` comes first.
/* verilator lint_off UNUSEDSIGNAL */  // the bytes behind the header, in whole beats
reg [DATA_W*HEADER_BEATS-1:0]  header_1_reg;
/* verilator lint_on UNUSEDSIGNAL */
reg [INDEX_W-1:0]              index_1_reg;
reg                            valid_1_reg;
reg                            last_1_reg;
reg                            bad_1_reg;
reg [17:0]                     size_1_reg;  // bytes so far; with bit 17 set, more than any total length

wire [17:0] size_before = first ? 18'd0 : size_1_reg;

integer beat;
always @(posedge clk) begin
    valid_1_reg <= in_valid;
    if (in_valid) begin
        for (beat = 0; beat < HEADER_BEATS; beat = beat + 1)
            if (index_reg == beat[INDEX_W-1:0])
                header_1_reg[DATA_W*beat +: DATA_W] <= in_data;
        index_1_reg <= index_reg;
        last_1_reg <= in_last;
        bad_1_reg <= in_bad || (bad_1_reg && !first);
        if (first || !size_1_reg[17])
            size_1_reg <= size_before + {{(18 - COUNT_W){1'b0}}, in_bytes};
        if (in_last)
            index_reg <= {INDEX_W{1'b0}};
        else if (index_reg != PAYLOAD_BEAT[INDEX_W-1:0] + 1'b1)
            index_reg <= index_reg + 1'b1;
    end
    if (rst) begin
        index_reg <= {INDEX_W{1'b0}};
        valid_1_reg <= 1'b0;
    end
end

// The header with its first bit on the wire as its most significant one.
wire [8*HEADER_BYTES-1:0] header;
genvar at;
generate
    for (at = 0; at < HEADER_BYTES; at = at + 1) begin : g_order
        assign header[8*(HEADER_BYTES-1-at) +: 8] = header_1_reg[8*at +: 8];
    end
endgenerate

localparam integer ETHERNET_AT = 8 * (HEADER_BYTES - ETHERNET_BYTE) - ETHERNET_BITS;
localparam integer IPV4_AT = 8 * (HEADER_BYTES - IPV4_BYTE) - IPV4_BITS;
localparam integer UDP_AT = 8 * (HEADER_BYTES - UDP_BYTE) - UDP_BITS;
localparam integer BTH_AT = 8 * (HEADER_BYTES - BTH_BYTE) - BTH_BITS;
wire [IPV4_BITS-1:0] ipv4 = header[IPV4_AT +: IPV4_BITS];

wire [47:0] dst_mac = header[ETHERNET_AT + ETHERNET_DST_MAC_LSB +: 48];
wire [47:0] src_mac = header[ETHERNET_AT + ETHERNET_SRC_MAC_LSB +: 48];
wire [15:0] ether_type = header[ETHERNET_AT + ETHERNET_ETHER_TYPE_LSB +: 16];
wire [3:0]  version = ipv4[IPV4_VERSION_LSB +: 4];
wire [3:0]  ihl = ipv4[IPV4_IHL_LSB +: 4];
wire [1:0]  ecn = ipv4[IPV4_ECN_LSB +: 2];
wire [15:0] total = ipv4[IPV4_TOTAL_LENGTH_LSB +: 16];
wire [12:0] fragment_offset = ipv4[IPV4_FRAGMENT_OFFSET_LSB +: 13];
wire        reserved_flag = ipv4[IPV4_FLAGS_LSB + 2];
wire        more_fragments = ipv4[IPV4_FLAGS_LSB];
wire [7:0]  protocol = ipv4[IPV4_PROTOCOL_LSB +: 8];
wire [31:0] src_ip = ipv4[IPV4_SRC_IP_LSB +: 32];
wire [31:0] dst_ip = ipv4[IPV4_DST_IP_LSB +: 32];
wire [15:0] dst_port = header[UDP_AT + UDP_DST_PORT_LSB +: 16];
wire [15:0] udp_length = header[UDP_AT + UDP_LENGTH_LSB +: 16];
wire [7:0]  opcode = header[BTH_AT + BTH_OPCODE_LSB +: 8];
wire [1:0]  pad = header[BTH_AT + BTH_PAD_LSB +: 2];
wire [3:0]  tver = header[BTH_AT + BTH_TVER_LSB +: 4];
wire [15:0] pkey = header[BTH_AT + BTH_PKEY_LSB +: 16];
wire [23:0] qpn = header[BTH_AT + BTH_DEST_QPN_LSB +: 24];
wire        ackreq = header[BTH_AT + BTH_ACKREQ_LSB];
wire [23:0] psn = header[BTH_AT + BTH_PSN_LSB +: 24];
wire [31:0] imm = header[31:0];

wire is_ack = opcode == OPCODE_ACK;
wire is_only_imm = opcode == OPCODE_SEND_ONLY_IMM;
wire is_last_imm = opcode == OPCODE_SEND_LAST_IMM;
wire extended = is_ack || is_only_imm || is_last_imm;
wire known = extended || opcode == OPCODE_SEND_FIRST || opcode == OPCODE_SEND_MIDDLE
    || opcode == OPCODE_SEND_LAST || opcode == OPCODE_SEND_ONLY;

// Bytes between the headers and the ICRC, Pad included; what is negative is above 2^16.
wire [16:0] body = {1'b0, total} - (extended ? LEAST_TOTAL[16:0] + 17'd4 : LEAST_TOTAL[16:0]);
wire [16:0] length = body - {15'd0, pad};

// ---------------------------------------------------------------------------------------------------- stage 1 to 2
// Bytes to go. Both start with the beat with which they are known and fall by a beat in each; up to there the ICRC
// covers all, and nothing is payload. A length that is too short for its headers counts as 0: the frame is dropped.
reg [17:0]  covered_left_reg;
reg [13:0]  payload_left_reg;
reg [COUNT_W-1:0] covered_2_reg;
reg [COUNT_W-1:0] payload_2_reg;

localparam integer COVERED_BYTES = TOTAL_BEAT * BYTES;
localparam [17:0] COVERED_BEFORE = COVERED_BYTES[17:0];
// The beats before those two, as bits by index.
localparam [(1 << INDEX_W)-1:0] BEFORE_TOTAL = (1 << TOTAL_BEAT) - 1;
localparam [(1 << INDEX_W)-1:0] BEFORE_PAYLOAD = (1 << PAYLOAD_BEAT) - 1;
wire [17:0] covered_end = {2'd0, total} + 18'd14;
wire [17:0] covered_left =
    index_1_reg == TOTAL_BEAT[INDEX_W-1:0]
        ? (covered_end > COVERED_BEFORE ? covered_end - COVERED_BEFORE : 18'd0)
        : covered_left_reg;
wire        stored = is_only_imm && length <= MTU[16:0];
wire [13:0] payload_left =
    index_1_reg == PAYLOAD_BEAT[INDEX_W-1:0] ? (stored ? length[13:0] : 14'd0) : payload_left_reg;

wire covered_full = covered_left >= BYTES[17:0];
wire payload_full = payload_left >= BYTES[13:0];

assign covered = covered_2_reg;
assign payload = payload_2_reg;

always @(posedge clk) begin
    if (valid_1_reg) begin
        if (BEFORE_TOTAL[index_1_reg]) begin
            covered_2_reg <= BYTES[COUNT_W-1:0];
        end else begin
            covered_2_reg <= covered_full ? BYTES[COUNT_W-1:0] : covered_left[COUNT_W-1:0];
            covered_left_reg <= covered_full ? covered_left - BYTES[17:0] : 18'd0;
        end
        if (BEFORE_PAYLOAD[index_1_reg]) begin
            payload_2_reg <= {COUNT_W{1'b0}};
        end else begin
            payload_2_reg <= payload_full ? BYTES[COUNT_W-1:0] : payload_left[COUNT_W-1:0];
            payload_left_reg <= payload_full ? payload_left - BYTES[13:0] : 14'd0;
        end
    end
end

// The checks, in the order in which they count.
reg end_2_reg;
reg bad_2_reg;
reg ethernet_short_2_reg, ether_type_2_reg, vlan_2_reg, ip_short_2_reg, version_2_reg, options_2_reg;
reg ip_length_2_reg, fragment_2_reg, protocol_2_reg, udp_short_2_reg, udp_port_2_reg, udp_length_2_reg;
reg bth_short_2_reg, tver_2_reg, opcode_2_reg, extension_short_2_reg, pad_2_reg, syndrome_2_reg, descriptor_2_reg;

wire [1:0] kind = imm[IMMDT_PRIMITIVE_LSB +: 2];
wire [1:0] operation = imm[IMMDT_OPERATOR_LSB +: 2];
wire       is_null = imm[IMMDT_NULL_LSB];
wire       is_err = imm[IMMDT_ERR_LSB];
// The cell of a SEND LAST has a payload, whatever its last packet holds. With a body there is a payload byte: Pad is 3
// at most, and another body is a fault of Pad, which comes first.
wire       has_payload = is_last_imm || body != 17'd0;
wire       agreement_fault = has_payload ? is_null || operation == OPERATOR_NONE : !is_null;
wire [2:0] syndrome = header[AETH_SYNDROME_LSB + 5 +: 3];

always @(posedge clk) begin
    end_2_reg <= valid_1_reg && last_1_reg && !rst;
    bad_2_reg <= bad_1_reg;
    ethernet_short_2_reg <= size_1_reg < 18'd14;
    ether_type_2_reg <= ether_type != 16'h0800;
    vlan_2_reg <= ether_type == 16'h8100 || ether_type == 16'h88a8 || ether_type == 16'h9100;
    ip_short_2_reg <= size_1_reg < 18'd34;
    version_2_reg <= version != 4'd4 || ihl != 4'd5;
    options_2_reg <= version == 4'd4 && ihl > 4'd5;
    ip_length_2_reg <= total < 16'd20 || covered_end > size_1_reg;
    fragment_2_reg <= reserved_flag || more_fragments || fragment_offset != 13'd0;
    protocol_2_reg <= protocol != 8'd17;
    udp_short_2_reg <= total < 16'd28;
    udp_port_2_reg <= dst_port != UDP_PORT[15:0];
    udp_length_2_reg <= udp_length != total - 16'd20;
    bth_short_2_reg <= total < LEAST_TOTAL[15:0];
    tver_2_reg <= tver != 4'd0;
    opcode_2_reg <= !known;
    extension_short_2_reg <= body[16];
    pad_2_reg <= body[1:0] != 2'd0 || (body == 17'd0 && pad != 2'd0);
    syndrome_2_reg <= is_ack && syndrome != SYNDROME_ACK[7:5] && syndrome != SYNDROME_RNR_NAK[7:5]
        && syndrome != SYNDROME_NAK[7:5];
    descriptor_2_reg <= (is_only_imm || is_last_imm)
        && (kind > PRIMITIVE_BROADCAST || imm[IMMDT_DATATYPE_LSB + 3] || (agreement_fault && !is_err));
end

// META behind verdict and icrc_ok; the length is cut to its width in the next stage.
localparam integer FIELDS_W = META_W - META_CE_LSB;
reg [FIELDS_W-1:0] fields_2_reg;
reg [15:0]         length_2_reg;

always @(posedge clk) begin
    fields_2_reg <= {FIELDS_W{1'b0}};
    fields_2_reg[META_CE_LSB - META_CE_LSB] <= ecn == 2'b11;
    fields_2_reg[META_ACKREQ_LSB - META_CE_LSB] <= ackreq;
    fields_2_reg[META_OPCODE_LSB - META_CE_LSB +: META_OPCODE_WIDTH] <= opcode;
    fields_2_reg[META_QPN_LSB - META_CE_LSB +: META_QPN_WIDTH] <= qpn;
    fields_2_reg[META_PSN_LSB - META_CE_LSB +: META_PSN_WIDTH] <= psn;
    fields_2_reg[META_PKEY_LSB - META_CE_LSB +: META_PKEY_WIDTH] <= pkey;
    fields_2_reg[META_IMM_LSB - META_CE_LSB +: META_IMM_WIDTH] <= imm;
    fields_2_reg[META_SRC_IP_LSB - META_CE_LSB +: META_SRC_IP_WIDTH] <= src_ip;
    fields_2_reg[META_DST_IP_LSB - META_CE_LSB +: META_DST_IP_WIDTH] <= dst_ip;
    fields_2_reg[META_SRC_MAC_LSB - META_CE_LSB +: META_SRC_MAC_WIDTH] <= src_mac;
    fields_2_reg[META_DST_MAC_LSB - META_CE_LSB +: META_DST_MAC_WIDTH] <= dst_mac;
    length_2_reg <= is_ack || length[16] ? 16'd0 : length[15:0];
end

// ---------------------------------------------------------------------------------------------------- stage 2 to 3
reg                end_3_reg;
reg                bad_3_reg;
reg [7:0]          early_3_reg;  // reason found before the IP checksum counts, or 0
reg                early_not_epic_3_reg;
reg [7:0]          late_3_reg;   // reason found behind it, or 0
reg                late_not_epic_3_reg;
reg [FIELDS_W-1:0] fields_3_reg;

wire late_passes = !ip_length_2_reg && !fragment_2_reg;

always @(posedge clk) begin
    end_3_reg <= end_2_reg && !rst;
    bad_3_reg <= bad_2_reg;

    early_3_reg <=
        ethernet_short_2_reg ? COUNTER_DROP_TRUNCATED :
        vlan_2_reg ? COUNTER_DROP_VLAN :
        ether_type_2_reg ? COUNTER_DROP_ETHER_TYPE :
        ip_short_2_reg ? COUNTER_DROP_TRUNCATED :
        options_2_reg ? COUNTER_DROP_IP_OPTIONS :
        version_2_reg ? COUNTER_DROP_IP_VERSION : 8'd0;
    early_not_epic_3_reg <= !ethernet_short_2_reg && ether_type_2_reg;

    late_3_reg <=
        ip_length_2_reg ? COUNTER_DROP_IP_LENGTH :
        fragment_2_reg ? COUNTER_DROP_FRAGMENT :
        protocol_2_reg ? COUNTER_DROP_PROTOCOL :
        udp_short_2_reg ? COUNTER_DROP_TRUNCATED :
        udp_port_2_reg ? COUNTER_DROP_UDP_PORT :
        udp_length_2_reg ? COUNTER_DROP_UDP_LENGTH :
        bth_short_2_reg ? COUNTER_DROP_TRUNCATED :
        tver_2_reg ? COUNTER_DROP_TVER :
        opcode_2_reg ? COUNTER_DROP_OPCODE :
        extension_short_2_reg ? COUNTER_DROP_TRUNCATED :
        pad_2_reg ? COUNTER_DROP_PAD :
        syndrome_2_reg ? COUNTER_DROP_SYNDROME :
        descriptor_2_reg ? COUNTER_DROP_DESCRIPTOR : 8'd0;
    late_not_epic_3_reg <= late_passes && (protocol_2_reg || (!udp_short_2_reg && udp_port_2_reg));

    fields_3_reg <= fields_2_reg;
    fields_3_reg[META_PAYLOAD_BYTES_LSB - META_CE_LSB +: META_PAYLOAD_BYTES_WIDTH] <=
        length_2_reg[15:14] != 2'd0 ? {META_PAYLOAD_BYTES_WIDTH{1'b1}} : length_2_reg[13:0];
end

wire [15:0] ip_sum;  // stage 3
epic_ip_checksum ip_checksum (
    .clk(clk),
    .header(ipv4),
    .sum(ip_sum)
);

wire       ip_right = ip_sum == 16'hffff || ip_sum == 16'h0000;
wire       early = early_3_reg != 8'd0;
wire [7:0] verdict = early ? early_3_reg : ip_right ? late_3_reg : COUNTER_DROP_IP_CHECKSUM;

assign end_valid = end_3_reg;
assign end_bad = bad_3_reg;
assign end_good = verdict == 8'd0;
assign end_not_epic = early ? early_not_epic_3_reg : ip_right && late_not_epic_3_reg;
assign end_verdict = verdict;
assign end_fields = fields_3_reg;

endmodule

`default_nettype wire
