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
    output wire [IN_BITS-1:0]         in_data,
    input  wire                       in_ready,
    output wire                       idle,

    input  wire                       write_edge,
    input  wire [7:0]                 write_index,
    input  wire [EDGE_BITS-1:0]       write_entry
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_m2_types.vh"

`EPIC_CHECK(g_check_ports, PORTS >= 2 && PORTS <= 8, ("epic_m2_admit: PORTS is %0d, expected 2 to 8", PORTS))
`EPIC_CHECK(g_check_mtu, MTU >= 64 && MTU <= 8192 && MTU % 64 == 0,
    ("epic_m2_admit: MTU is %0d, expected a multiple of 64 from 64 to 8192", MTU))
`EPIC_CHECK(g_check_records, META_BITS == META_W && EDGE_BITS == EDGE_W && IN_BITS == IN_W,
    ("epic_m2_admit: META_BITS, EDGE_BITS and IN_BITS are not those of the record headers"))

// All stages go on together, when the slice at the end has room: that is a register, for it goes far.
reg  valid_a, valid_b, valid_c, valid_d, valid_e, valid_f, valid_g, valid_h;
wire step;

// ------------------------------------------------------------------------------------------------- a: the next port
wire [PORTS-1:0]  grant;
wire [$clog2(PORTS)-1:0] granted;  // the bits tell
epic_arbiter #(.PORTS(PORTS)) arbiter (
    .clk(clk), .rst(rst), .request(meta_valid), .take(step), .grant(grant), .index(granted)
);
assign meta_ready = grant & {PORTS{step}};

// What the ports show is kept, and a cycle later the one chosen: words of so many bits are not chosen from in no time.
reg  [PORTS*META_W-1:0] shown_a;
reg  [PORTS-1:0]        grant_a;
reg  [2:0]              port_a;
reg  [META_W-1:0]       chosen;
integer p;
always @* begin
    chosen = {META_W{1'b0}};
    port_a = 3'd0;
    for (p = 0; p < PORTS; p = p + 1) begin
        if (grant_a[p]) port_a = port_a | p[2:0];
        chosen = chosen | (shown_a[META_W*p +: META_W] & {META_W{grant_a[p]}});
    end
end

// ---------------------------------------------------------------------------- b, c, d: the edge is looked for; e: found
reg [META_W-1:0] meta_b, meta_c, meta_d, meta_e, meta_f, meta_g;
reg [2:0]        port_b, port_c, port_d, port_e, port_f, port_g;

wire              hit_e;
wire [7:0]        index_e;
wire [EDGE_W-1:0] edge_e;
epic_edge_table #(.EDGES(EDGES), .ENTRY_W(EDGE_W), .STEPS(3)) edges (
    .clk(clk), .rst(rst),
    .write(write_edge), .write_index(write_index),
    .write_used(write_entry[EDGE_ROLE_LSB +: EDGE_ROLE_WIDTH] != ROLE_NONE),
    .write_qpn(write_entry[EDGE_OWN_QPN_LSB +: EDGE_OWN_QPN_WIDTH]),
    .write_entry(write_entry),
    .step(step), .qpn(meta_b[META_QPN_LSB +: META_QPN_WIDTH]),
    .hit(hit_e), .index(index_e), .entry(edge_e)
);

// f: its entry comes late out of its memory
reg              hit_f;
reg [7:0]        index_f;
reg [EDGE_W-1:0] edge_f;

wire [7:0] opcode_f = meta_f[META_OPCODE_LSB +: META_OPCODE_WIDTH];
wire       ack_f = opcode_f == OPCODE_ACK;

// --------------------------------------------------------------------------------------- g: what the frame is held against
reg        hit_g, icrc_g, port_ok_g, mac_ok_g, ip_ok_g, pkey_ok_g, opcode_ok_g, ack_g;
reg [7:0]  index_g;
reg [23:0] number_g;

always @(posedge clk) begin
    if (step) begin
        valid_a <= grant != {PORTS{1'b0}};
        valid_b <= valid_a;
        valid_c <= valid_b;
        valid_d <= valid_c;
        valid_e <= valid_d;
        valid_f <= valid_e;
        valid_g <= valid_f;
        valid_h <= valid_g;
        shown_a <= meta_data;
        grant_a <= grant;
        meta_b <= chosen;
        port_b <= port_a;
        meta_c <= meta_b;
        port_c <= port_b;
        meta_d <= meta_c;
        port_d <= port_c;
        meta_e <= meta_d;
        port_e <= port_d;
        meta_f <= meta_e;
        port_f <= port_e;
        meta_g <= meta_f;
        port_g <= port_f;
        hit_f <= hit_e;
        index_f <= index_e;
        edge_f <= edge_e;
        hit_g <= hit_f;
        index_g <= index_f;
        icrc_g <= edge_f[EDGE_ICRC_LSB];
        port_ok_g <= edge_f[EDGE_PORT_LSB +: EDGE_PORT_WIDTH] == port_f;
        mac_ok_g <= edge_f[EDGE_PEER_MAC_LSB +: 48] == meta_f[META_SRC_MAC_LSB +: 48]
            && edge_f[EDGE_OWN_MAC_LSB +: 48] == meta_f[META_DST_MAC_LSB +: 48];
        ip_ok_g <= edge_f[EDGE_PEER_IP_LSB +: 32] == meta_f[META_SRC_IP_LSB +: 32]
            && edge_f[EDGE_OWN_IP_LSB +: 32] == meta_f[META_DST_IP_LSB +: 32];
        pkey_ok_g <= edge_f[EDGE_PKEY_LSB +: EDGE_PKEY_WIDTH] == meta_f[META_PKEY_LSB +: META_PKEY_WIDTH];
        opcode_ok_g <= ack_f || opcode_f == OPCODE_SEND_ONLY_IMM;
        ack_g <= ack_f;
        // An acknowledgement counts in what this end sends (EPIC-W-18).
        number_g <= meta_f[META_PSN_LSB +: META_PSN_WIDTH] - (ack_f ? edge_f[EDGE_PSN_TX_LSB +: EDGE_PSN_TX_WIDTH]
            : edge_f[EDGE_PSN_RX_LSB +: EDGE_PSN_RX_WIDTH]);
    end
    if (rst) {valid_a, valid_b, valid_c, valid_d, valid_e, valid_f, valid_g, valid_h} <= 8'd0;
end

wire [7:0]  verdict_g = meta_g[META_VERDICT_LSB +: META_VERDICT_WIDTH];
wire [13:0] bytes_g = meta_g[META_PAYLOAD_BYTES_LSB +: META_PAYLOAD_BYTES_WIDTH];
wire        data_g = verdict_g == 8'd0 && meta_g[META_OPCODE_LSB +: META_OPCODE_WIDTH] == OPCODE_SEND_ONLY_IMM;
wire        has_beats_g = data_g && bytes_g != 14'd0 && {2'd0, bytes_g} <= MTU[15:0];

// The frame's outcome, unless it goes on: the first reason that applies.
reg [1:0] kind_g;
reg [7:0] reason_g;
always @* begin
    kind_g = IN_NONE;
    reason_g = COUNTERS;
    if (verdict_g == VERDICT_FORWARDED) reason_g = COUNTERS;
    else if (verdict_g != 8'd0) reason_g = verdict_g;
    else if (!meta_g[META_ICRC_OK_LSB] && (!hit_g || icrc_g)) reason_g = COUNTER_DROP_ICRC;
    else if (!hit_g) reason_g = COUNTER_DROP_UNKNOWN_QPN;
    else if (!port_ok_g) reason_g = COUNTER_DROP_WRONG_PORT;
    else if (!mac_ok_g || !ip_ok_g) reason_g = COUNTER_DROP_WRONG_ADDRESS;
    else if (!pkey_ok_g) reason_g = COUNTER_DROP_PKEY;
    else if (!opcode_ok_g) reason_g = COUNTER_DROP_ROLE;
    else kind_g = ack_g ? IN_ACK : IN_DATA;
end

// ---------------------------------------------------------------------------------------------------- h: the IN record
reg [IN_W-1:0] in_h;
always @(posedge clk) begin
    if (step) begin
        in_h[IN_KIND_LSB +: IN_KIND_WIDTH] <= kind_g;
        in_h[IN_REASON_LSB +: IN_REASON_WIDTH] <= reason_g;
        in_h[IN_FORWARDED_LSB] <= verdict_g == VERDICT_FORWARDED;
        in_h[IN_CE_LSB] <= kind_g == IN_DATA && meta_g[META_CE_LSB];
        in_h[IN_PORT_LSB +: IN_PORT_WIDTH] <= port_g;
        in_h[IN_HAS_BEATS_LSB] <= has_beats_g;
        in_h[IN_EDGE_LSB +: IN_EDGE_WIDTH] <= index_g;
        in_h[IN_NUMBER_LSB +: IN_NUMBER_WIDTH] <= number_g;
        in_h[IN_IMM_LSB +: IN_IMM_WIDTH] <= meta_g[META_IMM_LSB +: META_IMM_WIDTH];
        in_h[IN_BYTES_LSB +: IN_BYTES_WIDTH] <= bytes_g;
        in_h[IN_ACKREQ_LSB] <= meta_g[META_ACKREQ_LSB];
    end
end

epic_slice #(.WIDTH(IN_W)) last (
    .clk(clk), .rst(rst),
    .in_valid(valid_h), .in_data(in_h), .in_ready(step),
    .out_valid(in_valid), .out_data(in_data), .out_ready(in_ready)
);

assign idle = !(valid_a || valid_b || valid_c || valid_d || valid_e || valid_f || valid_g || valid_h) && !in_valid
    && meta_valid == {PORTS{1'b0}};

wire unused = &{1'b0, edge_f, granted};

endmodule

`default_nettype wire
