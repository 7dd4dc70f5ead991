// epic_build: a JOB and its payload to an aligned frame, from the Ethernet header to the Pad bytes (EPIC-W-01, -08,
// -10, -13, -14, -17). The ICRC is put behind it by epic_tx.
//
// The 64 bytes in front of the payload are made of the job and the edge's entry: IPv4 with DSCP 0, ECT(0) or CE,
// identification 0, DF, TTL 64 and its checksum; UDP from the edge's port, checksum 0; BTH with SE, MigReq, FECN, BECN
// and the reserved bits 0; then the four bytes of `imm`, descriptor or AETH, which all opcodes of Modes II and III have.
// Payload beats pass as they are: behind the payload they are zero, so the Pad bytes are.
//
// Stages: 1 job and entry meet, 2 lengths and most of the checksum, 3 header, 4 beats. One beat a cycle without bubbles,
// also from frame to frame and with 512 bits, where a frame without payload is one beat. A frame starts when its first
// payload beat is there: payload that comes one beat a cycle leaves no gap in a frame.

`default_nettype none
`include "epic_check.vh"

module epic_build #(
    parameter integer DATA_W = 64,  // bits of a beat: 64, 128, 256 or 512
    parameter integer MTU = 1024,   // largest payload in bytes: 64 to 8192, a multiple of 64
    parameter integer COUNT_W = $clog2(DATA_W / 8) + 1  // derived; do not set
) (
    input  wire               clk,
    input  wire               rst,

    input  wire               job_valid,
    input  wire [88:0]        job_data,  // JOB_W bits
    output wire               job_ready,

    input  wire               payload_valid,
    input  wire [DATA_W-1:0]  payload_data,
    output wire               payload_ready,

    output wire [7:0]         edge_index,  // which entry is wanted
    input  wire [216:0]       edge_entry,  // that entry, in the cycle after: EDGE_TX_W bits

    output wire               out_valid,
    output wire [DATA_W-1:0]  out_data,
    output wire               out_last,
    output wire [COUNT_W-1:0] out_bytes,  // of the beat up to the end of the Pad bytes, BYTES but in the last
    output wire               out_icrc,   // the frame is to have an ICRC; else 0 stands in its place
    input  wire               out_ready
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_checksum.vh"

`EPIC_CHECK(g_check_data_w, DATA_W == 64 || DATA_W == 128 || DATA_W == 256 || DATA_W == 512,
    ("epic_build: DATA_W is %0d, expected 64, 128, 256 or 512", DATA_W))
`EPIC_CHECK(g_check_mtu, MTU >= 64 && MTU <= 8192 && MTU % 64 == 0,
    ("epic_build: MTU is %0d, expected a multiple of 64 from 64 to 8192", MTU))
`EPIC_CHECK(g_check_count_w, COUNT_W == $clog2(DATA_W / 8) + 1,
    ("epic_build: COUNT_W is %0d, expected %0d", COUNT_W, $clog2(DATA_W / 8) + 1))
`EPIC_CHECK(g_check_records, JOB_W == 89 && EDGE_TX_W == 217,
    ("epic_build: JOB_W is %0d and EDGE_TX_W %0d, expected 89 and 217", JOB_W, EDGE_TX_W))

localparam integer BYTES = DATA_W / 8;
localparam integer BYTES_LOG2 = $clog2(BYTES);
localparam integer HEADER_BEATS = 64 / BYTES;
localparam integer MOST_BEATS = HEADER_BEATS + MTU / BYTES;
localparam integer BEAT_W = $clog2(MOST_BEATS + 1);
localparam integer HEADER_W = $clog2(HEADER_BEATS + 1);
localparam integer TWO = 2;
localparam integer SIZE_W = 14;  // of payload_bytes

// What is the same in every frame.
localparam [15:0] ETHER_TYPE_IPV4 = 16'h0800;
localparam [7:0]  VERSION_IHL = 8'h45;
localparam [15:0] DF = 16'h4000;
localparam [7:0]  TTL = 8'd64;
localparam [7:0]  PROTOCOL_UDP = 8'd17;
localparam [1:0]  ECT0 = 2'b10;
localparam [1:0]  CE = 2'b11;
// From the IPv4 and from the UDP header to the end of the ICRC, without payload and Pad.
localparam integer LEAST_TOTAL = IMMDT_BYTE + 4 + 4 - IPV4_BYTE;
localparam integer LEAST_UDP = IMMDT_BYTE + 4 + 4 - UDP_BYTE;

// ---- Stage 1: the job is taken, its entry comes in the next cycle. While the stage waits, it is kept here: to ask for it
// again would make which entry is asked for depend on what is ready behind.

reg             job_1_valid_reg;
reg [JOB_W-1:0] job_1_reg;
wire            ready_1, ready_2;

assign job_ready = ready_1;
assign edge_index = job_data[JOB_EDGE_LSB +: JOB_EDGE_WIDTH];

reg                 fresh_1_reg;
reg [EDGE_TX_W-1:0] kept_1_reg;
wire [EDGE_TX_W-1:0] entry_1 = fresh_1_reg ? edge_entry : kept_1_reg;

always @(posedge clk) begin
    if (ready_1) begin
        job_1_valid_reg <= job_valid;
        job_1_reg <= job_data;
    end
    else if (ready_2) job_1_valid_reg <= 1'b0;
    fresh_1_reg <= ready_1;
    if (fresh_1_reg) kept_1_reg <= edge_entry;
    if (rst) begin
        job_1_valid_reg <= 1'b0;
    end
end

// All lengths are sums of payload_bytes and a constant, rounded up to words or beats.
wire              has_payload_1 = job_1_reg[JOB_HAS_PAYLOAD_LSB];
wire [SIZE_W-1:0] size_1 = has_payload_1 ? job_1_reg[JOB_PAYLOAD_BYTES_LSB +: SIZE_W] : {SIZE_W{1'b0}};
/* verilator lint_off UNUSEDSIGNAL */
wire [15:0]       total_1 = {{(16 - SIZE_W) {1'b0}}, size_1} + (LEAST_TOTAL[15:0] + 16'd3);
wire [15:0]       udp_total_1 = {{(16 - SIZE_W) {1'b0}}, size_1} + (LEAST_UDP[15:0] + 16'd3);
wire [15:0]       stream_1 = {{(16 - SIZE_W) {1'b0}}, size_1} + (16'd64 + BYTES[15:0] - 16'd1);
/* verilator lint_on UNUSEDSIGNAL */
wire [1:0]        ecn_1 = job_1_reg[JOB_CE_LSB] ? CE : ECT0;
wire [31:0]       own_ip_1 = entry_1[EDGE_OWN_IP_LSB +: 32];
wire [31:0]       peer_ip_1 = entry_1[EDGE_PEER_IP_LSB +: 32];

// ---- Stage 2: the header's 16-bit words but the length, added up to two; those that never vary are one number.

localparam [16:0] CONSTANT_SUM = {1'b0, VERSION_IHL, 8'h00} + {1'b0, DF} + {1'b0, TTL, PROTOCOL_UDP};
localparam [15:0] CONSTANT_WORDS = CONSTANT_SUM[15:0];  // below 2^16: checked

`EPIC_CHECK(g_check_constant, CONSTANT_SUM < 17'h0fffd,
    ("epic_build: the constant words add up to %0d, expected less than 65533", CONSTANT_SUM))

reg                 job_2_valid_reg;
reg [7:0]           opcode_2_reg;
reg [23:0]          psn_2_reg;
reg                 ackreq_2_reg;
reg [1:0]           ecn_2_reg;
reg [31:0]          imm_2_reg;
reg [EDGE_TX_W-1:0] entry_2_reg;
reg [15:0]          total_2_reg;
reg [15:0]          udp_total_2_reg;
reg [1:0]           pad_2_reg;
reg [31:0]          sums_2_reg;
reg [BEAT_W-1:0]    beats_2_reg;   // of the frame
reg                 single_2_reg;  // it is one
reg [COUNT_W-1:0]   last_bytes_2_reg;
reg                 payload_2_reg;

wire [47:0] sums_4_1 = {checksum_save({own_ip_1, peer_ip_1[31:16]}), peer_ip_1[15:0]};
wire [31:0] sums_3_1 = checksum_save(sums_4_1);
wire [31:0] sums_1 = checksum_save({sums_3_1, ecn_1 == CE ? CONSTANT_WORDS + 16'd3 : CONSTANT_WORDS + 16'd2});
wire [BYTES_LOG2-1:0] padded_1 = {total_1[BYTES_LOG2-1:2], 2'b00} - LEAST_TOTAL[BYTES_LOG2-1:0];  // modulo BYTES

// With frames of two beats and more a job every other cycle is enough, so whether one is taken is not to wait for what the
// frame at the end does; one beat of 512 bits is a whole frame.
assign ready_1 = !job_1_valid_reg || (HEADER_BEATS == 1 ? ready_2 : !job_2_valid_reg);

always @(posedge clk) begin
    if (ready_2) begin
        job_2_valid_reg <= job_1_valid_reg;
        opcode_2_reg <= job_1_reg[JOB_OPCODE_LSB +: JOB_OPCODE_WIDTH];
        psn_2_reg <= job_1_reg[JOB_PSN_LSB +: JOB_PSN_WIDTH];
        ackreq_2_reg <= job_1_reg[JOB_ACKREQ_LSB];
        ecn_2_reg <= ecn_1;
        imm_2_reg <= job_1_reg[JOB_IMM_LSB +: JOB_IMM_WIDTH];
        entry_2_reg <= entry_1;
        total_2_reg <= {total_1[15:2], 2'b00};
        udp_total_2_reg <= {udp_total_1[15:2], 2'b00};
        pad_2_reg <= -size_1[1:0];
        sums_2_reg <= sums_1;
        beats_2_reg <= stream_1[BYTES_LOG2 +: BEAT_W];
        single_2_reg <= HEADER_BEATS == 1 && !has_payload_1;
        last_bytes_2_reg <= {~|padded_1, padded_1};
        payload_2_reg <= has_payload_1;
    end
    if (rst) begin
        job_2_valid_reg <= 1'b0;
    end
end

// ---- Stage 3: checksum and header.

wire [15:0] checksum_2 = ~checksum_add(checksum_save({sums_2_reg, total_2_reg}));

reg [ETHERNET_BITS-1:0] ethernet;
reg [IPV4_BITS-1:0]     ipv4;
reg [UDP_BITS-1:0]      udp;
reg [BTH_BITS-1:0]      bth;

always @* begin
    ethernet = {ETHERNET_BITS{1'b0}};
    ethernet[ETHERNET_DST_MAC_LSB +: ETHERNET_DST_MAC_WIDTH] = entry_2_reg[EDGE_PEER_MAC_LSB +: EDGE_PEER_MAC_WIDTH];
    ethernet[ETHERNET_SRC_MAC_LSB +: ETHERNET_SRC_MAC_WIDTH] = entry_2_reg[EDGE_OWN_MAC_LSB +: EDGE_OWN_MAC_WIDTH];
    ethernet[ETHERNET_ETHER_TYPE_LSB +: ETHERNET_ETHER_TYPE_WIDTH] = ETHER_TYPE_IPV4;

    ipv4 = {IPV4_BITS{1'b0}};
    ipv4[IPV4_IHL_LSB +: 8] = VERSION_IHL;
    ipv4[IPV4_ECN_LSB +: IPV4_ECN_WIDTH] = ecn_2_reg;
    ipv4[IPV4_TOTAL_LENGTH_LSB +: IPV4_TOTAL_LENGTH_WIDTH] = total_2_reg;
    ipv4[IPV4_FRAGMENT_OFFSET_LSB +: 16] = DF;
    ipv4[IPV4_TTL_LSB +: IPV4_TTL_WIDTH] = TTL;
    ipv4[IPV4_PROTOCOL_LSB +: IPV4_PROTOCOL_WIDTH] = PROTOCOL_UDP;
    ipv4[IPV4_HEADER_CHECKSUM_LSB +: IPV4_HEADER_CHECKSUM_WIDTH] = checksum_2;
    ipv4[IPV4_SRC_IP_LSB +: IPV4_SRC_IP_WIDTH] = entry_2_reg[EDGE_OWN_IP_LSB +: EDGE_OWN_IP_WIDTH];
    ipv4[IPV4_DST_IP_LSB +: IPV4_DST_IP_WIDTH] = entry_2_reg[EDGE_PEER_IP_LSB +: EDGE_PEER_IP_WIDTH];

    udp = {UDP_BITS{1'b0}};
    udp[UDP_SRC_PORT_LSB +: UDP_SRC_PORT_WIDTH] = entry_2_reg[EDGE_SPORT_LSB +: EDGE_SPORT_WIDTH];
    udp[UDP_DST_PORT_LSB +: UDP_DST_PORT_WIDTH] = UDP_PORT[15:0];
    udp[UDP_LENGTH_LSB +: UDP_LENGTH_WIDTH] = udp_total_2_reg;

    bth = {BTH_BITS{1'b0}};
    bth[BTH_OPCODE_LSB +: BTH_OPCODE_WIDTH] = opcode_2_reg;
    bth[BTH_PAD_LSB +: BTH_PAD_WIDTH] = pad_2_reg;
    bth[BTH_PKEY_LSB +: BTH_PKEY_WIDTH] = entry_2_reg[EDGE_PKEY_LSB +: EDGE_PKEY_WIDTH];
    bth[BTH_DEST_QPN_LSB +: BTH_DEST_QPN_WIDTH] = entry_2_reg[EDGE_PEER_QPN_LSB +: EDGE_PEER_QPN_WIDTH];
    bth[BTH_ACKREQ_LSB] = ackreq_2_reg;
    bth[BTH_PSN_LSB +: BTH_PSN_WIDTH] = psn_2_reg;
end

// First byte on the wire first; then as the stream has it, byte 0 in the low bits.
wire [511:0] wire_2 = {48'd0, ethernet, ipv4, udp, bth, imm_2_reg};
reg  [511:0] header_2;
integer      index;

always @* begin
    for (index = 0; index < 64; index = index + 1) begin
        header_2[8*index +: 8] = wire_2[8*(63-index) +: 8];
    end
end

// The header's beats are shifted out, the payload's follow. All that beats are decided by is a register of its own.
reg               busy_reg;
reg               in_header_reg;
reg               is_last_reg;
reg               waits_reg;        // for the first payload beat
reg [511:0]       header_reg;
reg [HEADER_W-1:0] header_left_reg; // beats of the header behind this one
reg [BEAT_W-1:0]  left_reg;         // beats of the frame, this one included
reg [COUNT_W-1:0] last_bytes_reg;
reg               icrc_reg;

wire beat_valid = busy_reg && ((in_header_reg && !waits_reg) || payload_valid);
wire beat_ready;
wire beat_taken = beat_valid && beat_ready;

wire next = !busy_reg || (beat_taken && is_last_reg);

assign ready_2 = !job_2_valid_reg || next;
assign payload_ready = busy_reg && !in_header_reg && beat_ready;

always @(posedge clk) begin
    if (beat_taken) begin
        header_reg <= header_reg >> DATA_W;
        in_header_reg <= in_header_reg && |header_left_reg;
        header_left_reg <= header_left_reg - 1'b1;
        left_reg <= left_reg - 1'b1;
        is_last_reg <= left_reg == TWO[BEAT_W-1:0];
        waits_reg <= 1'b0;
    end
    if (next) begin
        busy_reg <= job_2_valid_reg;
        in_header_reg <= 1'b1;
        is_last_reg <= single_2_reg;
        waits_reg <= payload_2_reg;
        header_reg <= header_2;
        header_left_reg <= HEADER_BEATS[HEADER_W-1:0] - 1'b1;
        left_reg <= beats_2_reg;
        last_bytes_reg <= last_bytes_2_reg;
        icrc_reg <= entry_2_reg[EDGE_ICRC_LSB];
    end
    if (rst) begin
        busy_reg <= 1'b0;
    end
end

// ---- Stage 4: the beat. Here the receiver's ready ends: it would go on to the job's, and to the entry's memory.

epic_slice #(
    .WIDTH(DATA_W + COUNT_W + 2)
) slice (
    .clk(clk),
    .rst(rst),
    .in_valid(beat_valid),
    .in_data({
        icrc_reg,
        is_last_reg ? last_bytes_reg : BYTES[COUNT_W-1:0],
        is_last_reg,
        in_header_reg ? header_reg[DATA_W-1:0] : payload_data
    }),
    .in_ready(beat_ready),
    .out_valid(out_valid),
    .out_data({out_icrc, out_bytes, out_last, out_data}),
    .out_ready(out_ready)
);

endmodule

`default_nettype wire
