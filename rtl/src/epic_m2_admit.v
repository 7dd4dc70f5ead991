// Mode II, first half: takes META records from the ports in turn, finds the edge and holds the frame against spec section
// 4.2. One frame a cycle; what leaves is an IN record. What depends on the group or the edge's state is the sequencer's.

`default_nettype none

`include "epic_check.vh"

module epic_m2_admit #(
    parameter PORTS = 4,        // 2 to 8
    parameter EDGES = 32,       // 2 to 256
    parameter MTU = 1024,
    parameter META_BITS = 289,  // META_W
    parameter EDGE_BITS = 320,  // EDGE_W
    parameter IN_BITS = 95      // IN_W
) (
    input  wire                       clk,
    input  wire                       rst,

    input  wire [PORTS-1:0]           meta_valid,
    input  wire [PORTS*META_BITS-1:0] meta_data,
    output wire [PORTS-1:0]           meta_ready,

    output wire                       in_valid,
    output reg  [IN_BITS-1:0]         in_data,
    input  wire                       in_ready,
    output wire                       idle,

    input  wire                       write_edge,
    input  wire [7:0]                 write_index,
    input  wire [EDGE_BITS-1:0]       write_entry
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_m2_types.vh"

localparam PORT_W = $clog2(PORTS);

`EPIC_CHECK(g_check_ports, PORTS >= 2 && PORTS <= 8, ("epic_m2_admit: PORTS is %0d, expected 2 to 8", PORTS))
`EPIC_CHECK(g_check_mtu, MTU >= 64 && MTU <= 8192 && MTU % 64 == 0,
    ("epic_m2_admit: MTU is %0d, expected a multiple of 64 from 64 to 8192", MTU))
`EPIC_CHECK(g_check_records, META_BITS == META_W && EDGE_BITS == EDGE_W && IN_BITS == IN_W,
    ("epic_m2_admit: META_BITS, EDGE_BITS and IN_BITS are not those of the record headers"))

reg  valid_b, valid_c, valid_d, valid_e, valid_f;
wire step = !valid_f || in_ready;

// ------------------------------------------------------------------------------------------------- a: the next port
wire [PORTS-1:0]  grant;
wire [PORT_W-1:0] granted;
epic_arbiter #(.PORTS(PORTS)) arbiter (
    .clk(clk), .rst(rst), .request(meta_valid), .take(step), .grant(grant), .index(granted)
);
assign meta_ready = grant & {PORTS{step}};

reg [META_W-1:0] chosen;
integer p;
always @* begin
    chosen = {META_W{1'b0}};
    for (p = 0; p < PORTS; p = p + 1)
        chosen = chosen | (meta_data[META_W*p +: META_W] & {META_W{grant[p]}});
end

// ------------------------------------------------------------------------------- b, c: the edge is looked for; d: found
reg [META_W-1:0] meta_b, meta_c, meta_d, meta_e;
reg [2:0]        port_b, port_c, port_d, port_e;

wire              hit_d;
wire [7:0]        index_d;
wire [EDGE_W-1:0] edge_d;
epic_edge_table #(.EDGES(EDGES), .ENTRY_W(EDGE_W)) edges (
    .clk(clk), .rst(rst),
    .write(write_edge), .write_index(write_index),
    .write_used(write_entry[EDGE_ROLE_LSB +: EDGE_ROLE_WIDTH] != ROLE_NONE),
    .write_qpn(write_entry[EDGE_OWN_QPN_LSB +: EDGE_OWN_QPN_WIDTH]),
    .write_entry(write_entry),
    .step(step), .qpn(meta_b[META_QPN_LSB +: META_QPN_WIDTH]),
    .hit(hit_d), .index(index_d), .entry(edge_d)
);

wire [7:0] opcode_d = meta_d[META_OPCODE_LSB +: META_OPCODE_WIDTH];
wire       ack_d = opcode_d == OPCODE_ACK;

// --------------------------------------------------------------------------------------- e: what the frame is held against
reg        hit_e, icrc_e, port_ok_e, mac_ok_e, ip_ok_e, pkey_ok_e, opcode_ok_e, ack_e;
reg [7:0]  index_e;
reg [23:0] number_e;

always @(posedge clk) begin
    if (step) begin
        valid_b <= grant != {PORTS{1'b0}};
        valid_c <= valid_b;
        valid_d <= valid_c;
        valid_e <= valid_d;
        valid_f <= valid_e;
        meta_b <= chosen;
        port_b <= {{3 - PORT_W{1'b0}}, granted};
        meta_c <= meta_b;
        port_c <= port_b;
        meta_d <= meta_c;
        port_d <= port_c;
        meta_e <= meta_d;
        port_e <= port_d;
        hit_e <= hit_d;
        index_e <= index_d;
        icrc_e <= edge_d[EDGE_ICRC_LSB];
        port_ok_e <= edge_d[EDGE_PORT_LSB +: EDGE_PORT_WIDTH] == port_d;
        mac_ok_e <= edge_d[EDGE_PEER_MAC_LSB +: 48] == meta_d[META_SRC_MAC_LSB +: 48]
            && edge_d[EDGE_OWN_MAC_LSB +: 48] == meta_d[META_DST_MAC_LSB +: 48];
        ip_ok_e <= edge_d[EDGE_PEER_IP_LSB +: 32] == meta_d[META_SRC_IP_LSB +: 32]
            && edge_d[EDGE_OWN_IP_LSB +: 32] == meta_d[META_DST_IP_LSB +: 32];
        pkey_ok_e <= edge_d[EDGE_PKEY_LSB +: EDGE_PKEY_WIDTH] == meta_d[META_PKEY_LSB +: META_PKEY_WIDTH];
        opcode_ok_e <= ack_d || opcode_d == OPCODE_SEND_ONLY_IMM;
        ack_e <= ack_d;
        // An acknowledgement counts in what this end sends (EPIC-W-18).
        number_e <= meta_d[META_PSN_LSB +: META_PSN_WIDTH] - (ack_d ? edge_d[EDGE_PSN_TX_LSB +: EDGE_PSN_TX_WIDTH]
            : edge_d[EDGE_PSN_RX_LSB +: EDGE_PSN_RX_WIDTH]);
    end
    if (rst) begin
        valid_b <= 1'b0;
        valid_c <= 1'b0;
        valid_d <= 1'b0;
        valid_e <= 1'b0;
        valid_f <= 1'b0;
    end
end

wire [7:0]  verdict_e = meta_e[META_VERDICT_LSB +: META_VERDICT_WIDTH];
wire [13:0] bytes_e = meta_e[META_PAYLOAD_BYTES_LSB +: META_PAYLOAD_BYTES_WIDTH];
wire        data_e = verdict_e == 8'd0 && meta_e[META_OPCODE_LSB +: META_OPCODE_WIDTH] == OPCODE_SEND_ONLY_IMM;
wire        has_beats_e = data_e && bytes_e != 14'd0 && {2'd0, bytes_e} <= MTU[15:0];

// The frame's outcome, unless it goes on: the first reason that applies.
reg [1:0] kind_e;
reg [7:0] reason_e;
always @* begin
    kind_e = IN_NONE;
    reason_e = COUNTERS;
    if (verdict_e == VERDICT_FORWARDED) reason_e = COUNTERS;
    else if (verdict_e != 8'd0) reason_e = verdict_e;
    else if (!meta_e[META_ICRC_OK_LSB] && (!hit_e || icrc_e)) reason_e = COUNTER_DROP_ICRC;
    else if (!hit_e) reason_e = COUNTER_DROP_UNKNOWN_QPN;
    else if (!port_ok_e) reason_e = COUNTER_DROP_WRONG_PORT;
    else if (!mac_ok_e || !ip_ok_e) reason_e = COUNTER_DROP_WRONG_ADDRESS;
    else if (!pkey_ok_e) reason_e = COUNTER_DROP_PKEY;
    else if (!opcode_ok_e) reason_e = COUNTER_DROP_ROLE;
    else kind_e = ack_e ? IN_ACK : IN_DATA;
end

// ---------------------------------------------------------------------------------------------------- f: the IN record
always @(posedge clk) begin
    if (step) begin
        in_data[IN_KIND_LSB +: IN_KIND_WIDTH] <= kind_e;
        in_data[IN_REASON_LSB +: IN_REASON_WIDTH] <= reason_e;
        in_data[IN_FORWARDED_LSB] <= verdict_e == VERDICT_FORWARDED;
        in_data[IN_CE_LSB] <= kind_e == IN_DATA && meta_e[META_CE_LSB];
        in_data[IN_PORT_LSB +: IN_PORT_WIDTH] <= port_e;
        in_data[IN_HAS_BEATS_LSB] <= has_beats_e;
        in_data[IN_EDGE_LSB +: IN_EDGE_WIDTH] <= index_e;
        in_data[IN_NUMBER_LSB +: IN_NUMBER_WIDTH] <= number_e;
        in_data[IN_IMM_LSB +: IN_IMM_WIDTH] <= meta_e[META_IMM_LSB +: META_IMM_WIDTH];
        in_data[IN_BYTES_LSB +: IN_BYTES_WIDTH] <= bytes_e;
        in_data[IN_ACKREQ_LSB] <= meta_e[META_ACKREQ_LSB];
    end
end

assign in_valid = valid_f;
assign idle = !(valid_b || valid_c || valid_d || valid_e || valid_f) && meta_valid == {PORTS{1'b0}};

wire unused = &{1'b0, edge_d};

endmodule

`default_nettype wire
