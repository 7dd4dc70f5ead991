// Header fields, lengths and wire checks of the frames of a port (spec sections 2.1 to 2.5), one beat a cycle without
// pauses, frames back to back.
//
// The checks are made in the order of the spec's table of drops, as epic_spec.codec does, so each frame has the reason
// that the codec gives. The ICRC is not looked at here.
//
//   stage 0  `in_*`: a beat
//   stage 1  its bytes are in the header register
//   stage 2  fields are compared with constants; lengths counted from each layer's start; the bytes to be covered
//   stage 3  `covered`: which of the beat's bytes the ICRC covers; lengths are compared with each other
//   stage 4  `payload`: how many payload bytes end with the beat; every check is one bit, or a reason made of several
//   stage 5  `end_*`: the frame's verdict and META, if it was the last beat of a frame
//
// No stage has more than one carry chain. All registers move on in every cycle; what is known of a frame goes with the
// beat, so it does not matter how soon the next frame's header overwrites this one's.
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

    output wire [COUNT_W-1:0]    covered,  // stage 3: bytes of the beat up to the end of the ICRC
    output wire [COUNT_W-1:0]    payload,  // stage 4: payload bytes of the aligned beat, of a payload that is stored

    output wire                  end_valid,     // stage 5: a frame has ended
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

wire [17:0] covered_end = {2'd0, total} + 18'd14;

// ---------------------------------------------------------------------------------------------------- stage 1 to 2
// Bytes that the ICRC covers, from the beat's first on. Up to the beat with which the total length is known it covers
// all; then they fall by a beat in each. Of a total length that is too short nothing is right, and nothing asked for.
localparam integer COVERED_BYTES = TOTAL_BEAT * BYTES;
localparam [17:0]  COVERED_BEFORE = COVERED_BYTES[17:0];
// The beats before, as bits by index.
localparam [(1 << INDEX_W)-1:0] BEFORE_TOTAL = (1 << TOTAL_BEAT) - 1;
localparam [(1 << INDEX_W)-1:0] BEFORE_PAYLOAD = (1 << PAYLOAD_BEAT) - 1;
// The longest total length of a payload that is stored, and the shortest of a frame with `extended`.
localparam integer EXTENDED_TOTAL = LEAST_TOTAL + 4;
localparam integer STORED_TOTAL = EXTENDED_TOTAL + MTU;

reg        valid_2_reg;
reg        end_2_reg;
reg        bad_2_reg;
reg        no_payload_2_reg;      // the beat comes before the payload
reg        payload_begins_2_reg;  // the payload begins in it
reg [17:0] covered_left_2_reg;
wire       covered_more_2 = covered_left_2_reg >= BYTES[17:0];

// Single conditions; what must be compared with something else than a constant waits for the next stage.
reg        ethernet_short_2_reg, ether_type_2_reg, vlan_2_reg, ip_short_2_reg, version_2_reg, options_2_reg;
reg        ip_least_2_reg, fragment_2_reg, protocol_2_reg, udp_short_2_reg, udp_port_2_reg, tver_2_reg, opcode_2_reg;
reg        syndrome_2_reg, kind_2_reg, null_2_reg, operation_2_reg, err_2_reg;
reg        is_ack_2_reg, is_only_imm_2_reg, is_last_imm_2_reg, extended_2_reg, fits_2_reg;
reg [1:0]  pad_2_reg;
reg [17:0] size_2_reg;
reg [17:0] ip_end_2_reg;   // bytes of a frame that holds the packet
reg [15:0] udp_size_2_reg;
reg [15:0] udp_length_2_reg;
reg [16:0] least_2_reg;    // total length less that of the shortest frame; negative: above 2^16

wire [2:0] syndrome = header[AETH_SYNDROME_LSB + 5 +: 3];
wire [1:0] kind = imm[IMMDT_PRIMITIVE_LSB +: 2];

always @(posedge clk) begin
    valid_2_reg <= valid_1_reg && !rst;
    end_2_reg <= valid_1_reg && last_1_reg && !rst;
    bad_2_reg <= bad_1_reg;
    no_payload_2_reg <= BEFORE_PAYLOAD[index_1_reg];
    payload_begins_2_reg <= index_1_reg == PAYLOAD_BEAT[INDEX_W-1:0];
    if (valid_1_reg) begin
        if (BEFORE_TOTAL[index_1_reg])
            covered_left_2_reg <= BYTES[17:0];
        else if (index_1_reg == TOTAL_BEAT[INDEX_W-1:0])
            covered_left_2_reg <= {2'd0, total} + (18'd14 - COVERED_BEFORE);
        else
            covered_left_2_reg <= covered_more_2 ? covered_left_2_reg - BYTES[17:0] : 18'd0;
    end

    ethernet_short_2_reg <= size_1_reg < 18'd14;
    ether_type_2_reg <= ether_type != 16'h0800;
    vlan_2_reg <= ether_type == 16'h8100 || ether_type == 16'h88a8 || ether_type == 16'h9100;
    ip_short_2_reg <= size_1_reg < 18'd34;
    version_2_reg <= version != 4'd4 || ihl != 4'd5;
    options_2_reg <= version == 4'd4 && ihl > 4'd5;
    ip_least_2_reg <= total < 16'd20;
    fragment_2_reg <= reserved_flag || more_fragments || fragment_offset != 13'd0;
    protocol_2_reg <= protocol != 8'd17;
    udp_short_2_reg <= total < 16'd28;
    udp_port_2_reg <= dst_port != UDP_PORT[15:0];
    tver_2_reg <= tver != 4'd0;
    opcode_2_reg <= !known;
    syndrome_2_reg <= is_ack && syndrome != SYNDROME_ACK[7:5] && syndrome != SYNDROME_RNR_NAK[7:5]
        && syndrome != SYNDROME_NAK[7:5];
    kind_2_reg <= kind > PRIMITIVE_BROADCAST || imm[IMMDT_DATATYPE_LSB + 3];
    null_2_reg <= imm[IMMDT_NULL_LSB];
    operation_2_reg <= imm[IMMDT_OPERATOR_LSB +: 2] == OPERATOR_NONE;
    err_2_reg <= imm[IMMDT_ERR_LSB];
    is_ack_2_reg <= is_ack;
    is_only_imm_2_reg <= is_only_imm;
    is_last_imm_2_reg <= is_last_imm;
    extended_2_reg <= extended;
    // With a body in whole words, as it is in a good frame, Pad does not matter for this.
    fits_2_reg <= total >= EXTENDED_TOTAL[15:0] && total <= STORED_TOTAL[15:0];
    pad_2_reg <= pad;
    size_2_reg <= size_1_reg;
    ip_end_2_reg <= covered_end;
    udp_size_2_reg <= total - 16'd20;
    udp_length_2_reg <= udp_length;
    least_2_reg <= {1'b0, total} - LEAST_TOTAL[16:0];
end

// ---------------------------------------------------------------------------------------------------- stage 2 to 3
reg               valid_3_reg;
reg               end_3_reg;
reg               bad_3_reg;
reg               no_payload_3_reg;
reg               payload_begins_3_reg;
reg [COUNT_W-1:0] covered_3_reg;

reg [7:0]  early_3_reg;  // reason found before the IP checksum counts, or 0
reg        early_found_3_reg;
reg        early_not_epic_3_reg;
reg        ip_length_3_reg, fragment_3_reg, protocol_3_reg, udp_short_3_reg, udp_port_3_reg, udp_length_3_reg;
reg        bth_short_3_reg, tver_3_reg, opcode_3_reg, syndrome_3_reg;
reg        described_3_reg, kind_3_reg, null_3_reg, operation_3_reg, err_3_reg, is_ack_3_reg, is_last_imm_3_reg;
reg        padded_3_reg;
reg        stored_3_reg;
reg [16:0] body_3_reg;    // bytes between the headers and the ICRC, Pad included; negative: above 2^16
reg [16:0] length_3_reg;  // without Pad

assign covered = covered_3_reg;

always @(posedge clk) begin
    valid_3_reg <= valid_2_reg && !rst;
    end_3_reg <= end_2_reg && !rst;
    bad_3_reg <= bad_2_reg;
    no_payload_3_reg <= no_payload_2_reg;
    payload_begins_3_reg <= payload_begins_2_reg;
    covered_3_reg <= covered_more_2 ? BYTES[COUNT_W-1:0] : covered_left_2_reg[COUNT_W-1:0];

    early_3_reg <=
        ethernet_short_2_reg ? COUNTER_DROP_TRUNCATED :
        vlan_2_reg ? COUNTER_DROP_VLAN :
        ether_type_2_reg ? COUNTER_DROP_ETHER_TYPE :
        ip_short_2_reg ? COUNTER_DROP_TRUNCATED :
        options_2_reg ? COUNTER_DROP_IP_OPTIONS : COUNTER_DROP_IP_VERSION;
    early_found_3_reg <= ethernet_short_2_reg || ether_type_2_reg || ip_short_2_reg || version_2_reg;
    early_not_epic_3_reg <= !ethernet_short_2_reg && ether_type_2_reg;

    ip_length_3_reg <= ip_least_2_reg || ip_end_2_reg > size_2_reg;
    fragment_3_reg <= fragment_2_reg;
    protocol_3_reg <= protocol_2_reg;
    udp_short_3_reg <= udp_short_2_reg;
    udp_port_3_reg <= udp_port_2_reg;
    udp_length_3_reg <= udp_length_2_reg != udp_size_2_reg;
    bth_short_3_reg <= least_2_reg[16];
    tver_3_reg <= tver_2_reg;
    opcode_3_reg <= opcode_2_reg;
    syndrome_3_reg <= syndrome_2_reg;
    described_3_reg <= is_only_imm_2_reg || is_last_imm_2_reg;
    kind_3_reg <= kind_2_reg;
    null_3_reg <= null_2_reg;
    operation_3_reg <= operation_2_reg;
    err_3_reg <= err_2_reg;
    is_ack_3_reg <= is_ack_2_reg;
    is_last_imm_3_reg <= is_last_imm_2_reg;
    padded_3_reg <= pad_2_reg != 2'd0;
    stored_3_reg <= is_only_imm_2_reg && fits_2_reg;
    body_3_reg <= least_2_reg - {14'd0, extended_2_reg, 2'b00};
    length_3_reg <= least_2_reg - {14'd0, extended_2_reg, pad_2_reg};
end

// ---------------------------------------------------------------------------------------------------- stage 3 to 4
// Payload from the beat's first byte on: so many whole beats, and so many bytes behind them.
localparam integer BYTES_LOG2 = $clog2(BYTES);
localparam integer WHOLE_W = 14 - BYTES_LOG2;
reg [WHOLE_W-1:0]    payload_whole_4_reg;
reg                  payload_more_4_reg;  // there is a whole beat
reg [BYTES_LOG2-1:0] payload_rest_4_reg;

assign payload = {payload_more_4_reg, payload_more_4_reg ? {BYTES_LOG2{1'b0}} : payload_rest_4_reg};

always @(posedge clk) begin
    if (valid_3_reg) begin
        if (no_payload_3_reg || payload_begins_3_reg) begin
            payload_whole_4_reg <= length_3_reg[13:BYTES_LOG2];
            payload_more_4_reg <= !no_payload_3_reg && stored_3_reg && length_3_reg[13:BYTES_LOG2] != {WHOLE_W{1'b0}};
            payload_rest_4_reg <= !no_payload_3_reg && stored_3_reg ? length_3_reg[BYTES_LOG2-1:0] : {BYTES_LOG2{1'b0}};
        end else begin
            payload_whole_4_reg <= payload_whole_4_reg - 1'b1;
            payload_more_4_reg <= payload_more_4_reg && payload_whole_4_reg != {{(WHOLE_W-1){1'b0}}, 1'b1};
            if (!payload_more_4_reg) payload_rest_4_reg <= {BYTES_LOG2{1'b0}};
        end
    end
end

reg        end_4_reg;
reg        bad_4_reg;
reg [7:0]  early_4_reg;
reg        early_found_4_reg;
reg        early_not_epic_4_reg;
reg [7:0]  late_4_reg;  // reason found behind the IP checksum, before the packet's own length counts
reg        late_found_4_reg;
reg        late_not_epic_4_reg;
reg        extension_short_4_reg, pad_4_reg, syndrome_4_reg, descriptor_4_reg;
reg [META_PAYLOAD_BYTES_WIDTH-1:0] length_4_reg;

wire body_found_3 = body_3_reg != 17'd0;
// The cell of a SEND LAST has a payload, whatever its last packet holds. With a body there is a payload byte: Pad is 3
// at most, and another body is a fault of Pad, which comes first.
wire has_payload_3 = is_last_imm_3_reg || body_found_3;
wire agreement_fault_3 = has_payload_3 ? null_3_reg || operation_3_reg : !null_3_reg;

always @(posedge clk) begin
    end_4_reg <= end_3_reg && !rst;
    bad_4_reg <= bad_3_reg;
    early_4_reg <= early_3_reg;
    early_found_4_reg <= early_found_3_reg;
    early_not_epic_4_reg <= early_not_epic_3_reg;

    late_4_reg <=
        ip_length_3_reg ? COUNTER_DROP_IP_LENGTH :
        fragment_3_reg ? COUNTER_DROP_FRAGMENT :
        protocol_3_reg ? COUNTER_DROP_PROTOCOL :
        udp_short_3_reg ? COUNTER_DROP_TRUNCATED :
        udp_port_3_reg ? COUNTER_DROP_UDP_PORT :
        udp_length_3_reg ? COUNTER_DROP_UDP_LENGTH :
        bth_short_3_reg ? COUNTER_DROP_TRUNCATED :
        tver_3_reg ? COUNTER_DROP_TVER : COUNTER_DROP_OPCODE;
    late_found_4_reg <= ip_length_3_reg || fragment_3_reg || protocol_3_reg || udp_short_3_reg || udp_port_3_reg
        || udp_length_3_reg || bth_short_3_reg || tver_3_reg || opcode_3_reg;
    late_not_epic_4_reg <=
        !ip_length_3_reg && !fragment_3_reg && (protocol_3_reg || (!udp_short_3_reg && udp_port_3_reg));

    extension_short_4_reg <= body_3_reg[16];
    pad_4_reg <= body_3_reg[1:0] != 2'd0 || (!body_found_3 && padded_3_reg);
    syndrome_4_reg <= syndrome_3_reg;
    descriptor_4_reg <= described_3_reg && (kind_3_reg || (agreement_fault_3 && !err_3_reg));

    length_4_reg <=
        is_ack_3_reg || length_3_reg[16] ? {META_PAYLOAD_BYTES_WIDTH{1'b0}} :
        length_3_reg[15:14] != 2'd0 ? {META_PAYLOAD_BYTES_WIDTH{1'b1}} : length_3_reg[13:0];
end

// ---------------------------------------------------------------------------------------------------- stage 4 to 5
wire [15:0] ip_sum_4;
epic_ip_checksum ip_checksum (
    .clk(clk),
    .header(ipv4),
    .sum(ip_sum_4)
);

wire ip_right_4 = ip_sum_4 == 16'hffff || ip_sum_4 == 16'h0000;
wire packet_fault_4 = extension_short_4_reg || pad_4_reg || syndrome_4_reg || descriptor_4_reg;

reg       end_5_reg;
reg       bad_5_reg;
reg       good_5_reg;
reg       not_epic_5_reg;
reg [7:0] verdict_5_reg;

always @(posedge clk) begin
    end_5_reg <= end_4_reg && !rst;
    bad_5_reg <= bad_4_reg;
    good_5_reg <= !early_found_4_reg && ip_right_4 && !late_found_4_reg && !packet_fault_4;
    not_epic_5_reg <= early_found_4_reg ? early_not_epic_4_reg : ip_right_4 && late_not_epic_4_reg;
    verdict_5_reg <=
        early_found_4_reg ? early_4_reg :
        !ip_right_4 ? COUNTER_DROP_IP_CHECKSUM :
        late_found_4_reg ? late_4_reg :
        extension_short_4_reg ? COUNTER_DROP_TRUNCATED :
        pad_4_reg ? COUNTER_DROP_PAD :
        syndrome_4_reg ? COUNTER_DROP_SYNDROME :
        descriptor_4_reg ? COUNTER_DROP_DESCRIPTOR : 8'd0;
end

// META behind verdict and icrc_ok, from stage 1 to stage 5; the length comes in from stage 4.
localparam integer FIELDS_W = META_W - META_CE_LSB;
localparam integer FIELD_STAGES = 4;
reg [FIELDS_W-1:0]              fields;
reg [FIELDS_W*FIELD_STAGES-1:0] fields_reg;
integer stage;

always @* begin
    fields = {FIELDS_W{1'b0}};
    fields[META_CE_LSB - META_CE_LSB] = ecn == 2'b11;
    fields[META_ACKREQ_LSB - META_CE_LSB] = ackreq;
    fields[META_OPCODE_LSB - META_CE_LSB +: META_OPCODE_WIDTH] = opcode;
    fields[META_QPN_LSB - META_CE_LSB +: META_QPN_WIDTH] = qpn;
    fields[META_PSN_LSB - META_CE_LSB +: META_PSN_WIDTH] = psn;
    fields[META_PKEY_LSB - META_CE_LSB +: META_PKEY_WIDTH] = pkey;
    fields[META_IMM_LSB - META_CE_LSB +: META_IMM_WIDTH] = imm;
    fields[META_SRC_IP_LSB - META_CE_LSB +: META_SRC_IP_WIDTH] = src_ip;
    fields[META_DST_IP_LSB - META_CE_LSB +: META_DST_IP_WIDTH] = dst_ip;
    fields[META_SRC_MAC_LSB - META_CE_LSB +: META_SRC_MAC_WIDTH] = src_mac;
    fields[META_DST_MAC_LSB - META_CE_LSB +: META_DST_MAC_WIDTH] = dst_mac;
end

always @(posedge clk) begin
    fields_reg[0 +: FIELDS_W] <= fields;
    for (stage = 1; stage < FIELD_STAGES; stage = stage + 1)
        fields_reg[FIELDS_W*stage +: FIELDS_W] <= fields_reg[FIELDS_W*(stage-1) +: FIELDS_W];
    fields_reg[FIELDS_W*(FIELD_STAGES-1) + META_PAYLOAD_BYTES_LSB - META_CE_LSB +: META_PAYLOAD_BYTES_WIDTH] <=
        length_4_reg;
end

assign end_valid = end_5_reg;
assign end_bad = bad_5_reg;
assign end_good = good_5_reg;
assign end_not_epic = not_epic_5_reg;
assign end_verdict = verdict_5_reg;
assign end_fields = fields_reg[FIELDS_W*(FIELD_STAGES-1) +: FIELDS_W];

endmodule

`default_nettype wire
