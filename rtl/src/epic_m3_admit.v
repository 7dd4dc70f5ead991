// Mode III, first half of the pipeline: takes META records from the ports in turn, finds the edge and the group, and holds
// the frame against spec section 4.2 and the checks of 9.2 that need no slot. One frame a cycle; what leaves, 8 cycles
// later, is a REQ. Nothing waits on the way: whoever says `go` has room for what follows.

`default_nettype none

`include "epic_check.vh"

module epic_m3_admit #(
    parameter PORTS = 4,
    parameter EDGES = 32,
    parameter GROUPS = 8,    // 1 to 256
    parameter MTU = 1024,
    parameter META_BITS = 289,  // META_W
    parameter REQ_BITS = 160    // REQ_W
) (
    input  wire                    clk,
    input  wire                    rst,

    input  wire [PORTS-1:0]        meta_valid,
    input  wire [PORTS*META_BITS-1:0] meta_data,
    output wire [PORTS-1:0]        meta_ready,

    input  wire                    go,          // a frame may be taken in this cycle
    output reg                     req_valid,
    output reg  [REQ_BITS-1:0]     req_data,
    output wire                    idle,

    input  wire                    write_edge,
    input  wire                    write_group,
    input  wire [7:0]              write_index,
    input  wire [319:0]            write_data
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_lane_op.vh"

localparam PORT_W = $clog2(PORTS);
localparam GROUP_DEPTH = GROUPS < 2 ? 2 : GROUPS;
localparam GROUP_ADDR_W = $clog2(GROUP_DEPTH);

`EPIC_CHECK(g_check_ports, PORTS >= 2 && PORTS <= 8,
    ("epic_m3_admit: PORTS is %0d, expected 2 to 8", PORTS))
`EPIC_CHECK(g_check_groups, GROUPS >= 1 && GROUPS <= 256,
    ("epic_m3_admit: GROUPS is %0d, expected 1 to 256", GROUPS))
`EPIC_CHECK(g_check_mtu, MTU >= 64 && MTU <= 8192 && MTU % 64 == 0,
    ("epic_m3_admit: MTU is %0d, expected a multiple of 64 from 64 to 8192", MTU))
`EPIC_CHECK(g_check_records, META_BITS == META_W && REQ_BITS == REQ_W,
    ("epic_m3_admit: META_BITS and REQ_BITS are not those of epic_types.vh"))

reg valid_a, valid_b, valid_c, valid_d, valid_e, valid_f, valid_g;

// ------------------------------------------------- a: the next port, and what all show, for it comes straight out of memories
wire [PORTS-1:0]  grant;
wire [PORT_W-1:0] granted;
epic_arbiter #(.PORTS(PORTS)) arbiter (
    .clk(clk), .rst(rst), .request(meta_valid), .take(go), .grant(grant), .index(granted)
);
assign meta_ready = grant & {PORTS{go}};

reg [PORTS*META_W-1:0] shown_a;
reg [PORTS-1:0]        grant_a;
reg [META_W-1:0]       chosen;
integer p;
always @* begin
    chosen = {META_W{1'b0}};
    for (p = 0; p < PORTS; p = p + 1)
        chosen = chosen | (shown_a[META_W*p +: META_W] & {META_W{grant_a[p]}});
end

// ---------------------------------------------------- b: the one of the port; c, d: the edge is looked for; e: it is found
reg [META_W-1:0] meta_b, meta_c, meta_d, meta_e, meta_f;
reg [2:0]        port_a, port_b, port_c, port_d, port_e, port_f, port_g;
reg              ack_c, ack_d, ack_e;

wire              hit_e;
wire [7:0]        index_e;
wire [EDGE_W-1:0] edge_e;
epic_edge_table #(.EDGES(EDGES), .ENTRY_W(EDGE_W), .STEPS(3)) edges (
    .clk(clk), .rst(rst),
    .write(write_edge), .write_index(write_index),
    .write_used(write_data[EDGE_ROLE_LSB +: EDGE_ROLE_WIDTH] != ROLE_NONE),
    .write_qpn(write_data[EDGE_OWN_QPN_LSB +: EDGE_OWN_QPN_WIDTH]),
    .write_entry(write_data),
    .step(1'b1), .qpn(meta_b[META_QPN_LSB +: META_QPN_WIDTH]),
    .hit(hit_e), .index(index_e), .entry(edge_e)
);

wire [GROUP_W-1:0] group_f;
epic_ram #(.WIDTH(GROUP_W), .DEPTH(GROUP_DEPTH)) groups (
    .clk(clk),
    .write(write_group), .write_addr(write_index[GROUP_ADDR_W-1:0]), .write_data(write_data[GROUP_W-1:0]),
    .read(1'b1), .read_addr(edge_e[EDGE_GROUP_LSB +: GROUP_ADDR_W]), .read_data(group_f)
);

wire [23:0] psn_tx_e = edge_e[EDGE_PSN_TX_LSB +: EDGE_PSN_TX_WIDTH];
wire [23:0] psn_rx_e = edge_e[EDGE_PSN_RX_LSB +: EDGE_PSN_RX_WIDTH];

// --------------------------------------------------------------------------------------- f: what the frame is held against
reg        hit_f, icrc_f, port_ok_f, src_mac_ok_f, dst_mac_ok_f, ip_ok_f, pkey_ok_f, opcode_ok_f, ack_f;
reg [7:0]  index_f;
reg [1:0]  role_f;
reg [5:0]  child_f;
reg [23:0] number_f;   // the cell; of an acknowledgement the cell that it names
reg [23:0] psn_rx_f;

always @(posedge clk) begin
    valid_a <= go && grant != {PORTS{1'b0}};
    valid_b <= valid_a;
    valid_c <= valid_b;
    valid_d <= valid_c;
    valid_e <= valid_d;
    valid_f <= valid_e;
    valid_g <= valid_f;
    req_valid <= valid_g;
    shown_a <= meta_data;
    grant_a <= grant;
    port_a <= {{3 - PORT_W{1'b0}}, granted};
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
    ack_c <= meta_b[META_OPCODE_LSB +: META_OPCODE_WIDTH] == OPCODE_ACK;
    ack_d <= ack_c;
    ack_e <= ack_d;

    hit_f <= hit_e;
    index_f <= index_e;
    icrc_f <= edge_e[EDGE_ICRC_LSB];
    role_f <= edge_e[EDGE_ROLE_LSB +: EDGE_ROLE_WIDTH];
    child_f <= edge_e[EDGE_CHILD_LSB +: EDGE_CHILD_WIDTH];
    port_ok_f <= edge_e[EDGE_PORT_LSB +: EDGE_PORT_WIDTH] == port_e;
    src_mac_ok_f <= edge_e[EDGE_PEER_MAC_LSB +: 48] == meta_e[META_SRC_MAC_LSB +: 48];
    dst_mac_ok_f <= edge_e[EDGE_OWN_MAC_LSB +: 48] == meta_e[META_DST_MAC_LSB +: 48];
    ip_ok_f <= edge_e[EDGE_PEER_IP_LSB +: 32] == meta_e[META_SRC_IP_LSB +: 32]
        && edge_e[EDGE_OWN_IP_LSB +: 32] == meta_e[META_DST_IP_LSB +: 32];
    pkey_ok_f <= edge_e[EDGE_PKEY_LSB +: EDGE_PKEY_WIDTH] == meta_e[META_PKEY_LSB +: META_PKEY_WIDTH];
    opcode_ok_f <= ack_e || meta_e[META_OPCODE_LSB +: META_OPCODE_WIDTH] == OPCODE_SEND_ONLY_IMM;
    ack_f <= ack_e;
    number_f <= meta_e[META_PSN_LSB +: META_PSN_WIDTH] - (ack_e ? psn_tx_e : psn_rx_e);
    psn_rx_f <= psn_rx_e;
    if (rst) begin
        valid_a <= 1'b0;
        valid_b <= 1'b0;
        valid_c <= 1'b0;
        valid_d <= 1'b0;
        valid_e <= 1'b0;
        valid_f <= 1'b0;
        valid_g <= 1'b0;
        req_valid <= 1'b0;
    end
end

wire [7:0]  verdict_f = meta_f[META_VERDICT_LSB +: META_VERDICT_WIDTH];
wire [13:0] bytes_f = meta_f[META_PAYLOAD_BYTES_LSB +: META_PAYLOAD_BYTES_WIDTH];
wire [31:0] imm_f = meta_f[META_IMM_LSB +: META_IMM_WIDTH];
wire        err_f = imm_f[IMMDT_ERR_LSB];
wire [1:0]  primitive_f = imm_f[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH];
wire [1:0]  operator_f = imm_f[IMMDT_OPERATOR_LSB +: IMMDT_OPERATOR_WIDTH];
wire [3:0]  datatype_f = imm_f[IMMDT_DATATYPE_LSB +: IMMDT_DATATYPE_WIDTH];
wire        opaque_f = err_f || primitive_f == PRIMITIVE_BROADCAST;
wire [15:0] limit_f = {2'd0, group_f[GROUP_PAYLOAD_BYTES_LSB +: GROUP_PAYLOAD_BYTES_WIDTH]};
wire        data_f = verdict_f == 8'd0 && meta_f[META_OPCODE_LSB +: META_OPCODE_WIDTH] == OPCODE_SEND_ONLY_IMM;
wire        has_beats_f = data_f && bytes_f != 14'd0 && {2'd0, bytes_f} <= MTU[15:0];

// Part of an element behind the last whole one (EPIC-E-11).
reg part_f;
always @* begin
    case (datatype_f)
        DATATYPE_INT8: part_f = 1'b0;
        DATATYPE_FP16, DATATYPE_BF16, DATATYPE_INT16: part_f = bytes_f[0];
        DATATYPE_INT64, DATATYPE_FP64: part_f = bytes_f[2:0] != 3'd0;
        default: part_f = bytes_f[1:0] != 2'd0;
    endcase
    if (opaque_f) part_f = 1'b0;
end

// What the lanes would do with a payload, and whether the group has it (EPIC-E-12).
wire offered_f = group_f[GROUP_OPERATORS_LSB + {30'd0, operator_f}]
    && !datatype_f[3] && group_f[GROUP_DATATYPES_LSB + {28'd0, datatype_f}];
wire lacks_f = !opaque_f && !offered_f;
wire [3:0] operation_f = primitive_f == PRIMITIVE_BROADCAST ? LANE_OR : lane_operation(datatype_f, operator_f);

wire [3:0]  slot_log2_f = group_f[GROUP_SLOT_LOG2_LSB +: GROUP_SLOT_LOG2_WIDTH];
wire [15:0] slot_mask_f = (16'd1 << slot_log2_f) - 16'd1;

// ------------------------------------------------------------------------------------- g: what that says, one by one
reg              forwarded_g, malformed_g, bad_icrc_g, hit_g, port_ok_g, address_ok_g, pkey_ok_g, opcode_ok_g, ack_g;
reg              reflects_g, oversize_g, part_g, parent_g, ce_g, has_beats_g, lacks_g;
reg [7:0]        verdict_g, index_g;
reg [5:0]        child_g;
reg [23:0]       number_g, psn_rx_g;
reg [31:0]       imm_g;
reg [13:0]       bytes_g;
reg [3:0]        operation_g;
reg [GROUP_W-1:0] group_g;
reg [15:0]       place_g;   // in the group's slots
always @(posedge clk) begin
    port_g <= port_f;
    forwarded_g <= verdict_f == VERDICT_FORWARDED;
    malformed_g <= verdict_f != 8'd0;
    verdict_g <= verdict_f;
    bad_icrc_g <= !meta_f[META_ICRC_OK_LSB] && (!hit_f || icrc_f);
    hit_g <= hit_f;
    port_ok_g <= port_ok_f;
    address_ok_g <= src_mac_ok_f && dst_mac_ok_f && ip_ok_f;
    pkey_ok_g <= pkey_ok_f;
    opcode_ok_g <= opcode_ok_f;
    ack_g <= ack_f;
    reflects_g <= role_f == ROLE_HOST && group_f[GROUP_REFLECTION_LSB];
    oversize_g <= {2'd0, bytes_f} > limit_f;
    part_g <= part_f;
    parent_g <= role_f == ROLE_PARENT;
    ce_g <= meta_f[META_CE_LSB];
    has_beats_g <= has_beats_f;
    lacks_g <= lacks_f;
    index_g <= index_f;
    child_g <= child_f;
    number_g <= number_f;
    psn_rx_g <= psn_rx_f;
    imm_g <= imm_f;
    bytes_g <= bytes_f;
    operation_g <= operation_f;
    group_g <= group_f;
    place_g <= number_f[15:0] & slot_mask_f;
end

// The frame's outcome, unless it goes on to the slots: the first reason that applies.
reg [1:0] kind_g;
reg [7:0] reason_g;
reg       admitted_g;
always @* begin
    kind_g = KIND_NONE;
    reason_g = COUNTERS;
    admitted_g = 1'b0;
    if (forwarded_g) reason_g = COUNTERS;
    else if (malformed_g) reason_g = verdict_g;
    else if (bad_icrc_g) reason_g = COUNTER_DROP_ICRC;
    else if (!hit_g) reason_g = COUNTER_DROP_UNKNOWN_QPN;
    else if (!port_ok_g) reason_g = COUNTER_DROP_WRONG_PORT;
    else if (!address_ok_g) reason_g = COUNTER_DROP_WRONG_ADDRESS;
    else if (!pkey_ok_g) reason_g = COUNTER_DROP_PKEY;
    else if (!opcode_ok_g) reason_g = COUNTER_DROP_ROLE;
    else begin
        admitted_g = 1'b1;
        if (ack_g) begin
            if (reflects_g) kind_g = KIND_REFLECTION;
            else reason_g = COUNTER_DROP_ROLE;
        end
        else if (oversize_g) reason_g = COUNTER_DROP_OVERSIZE;
        else if (parent_g) kind_g = KIND_RESULT;
        else if (part_g) reason_g = COUNTER_DROP_ELEMENT;
        else kind_g = KIND_CONTRIBUTION;
    end
end

// ---------------------------------------------------------------------------------------------------------- h: the REQ
always @(posedge clk) begin
    req_data[REQ_KIND_LSB +: REQ_KIND_WIDTH] <= kind_g;
    req_data[REQ_REASON_LSB +: REQ_REASON_WIDTH] <= reason_g;
    req_data[REQ_CE_LSB] <= admitted_g && !ack_g && ce_g;
    req_data[REQ_PORT_LSB +: REQ_PORT_WIDTH] <= port_g;
    req_data[REQ_HAS_BEATS_LSB] <= has_beats_g;
    req_data[REQ_EDGE_LSB +: REQ_EDGE_WIDTH] <= index_g;
    req_data[REQ_CHILD_LSB +: REQ_CHILD_WIDTH] <= child_g;
    req_data[REQ_CELL_LSB +: REQ_CELL_WIDTH] <= number_g + (ack_g ? psn_rx_g : 24'd0);
    req_data[REQ_SLOT_LSB +: REQ_SLOT_WIDTH] <= group_g[GROUP_SLOT_BASE_LSB +: GROUP_SLOT_BASE_WIDTH] + place_g;
    req_data[REQ_IMM_LSB +: REQ_IMM_WIDTH] <= imm_g;
    req_data[REQ_BYTES_LSB +: REQ_BYTES_WIDTH] <= bytes_g;
    req_data[REQ_OP_LSB +: REQ_OP_WIDTH] <= operation_g;
    req_data[REQ_LACKS_LSB] <= lacks_g;
    req_data[REQ_FAN_IN_LSB +: REQ_FAN_IN_WIDTH] <= group_g[GROUP_FAN_IN_LSB +: GROUP_FAN_IN_WIDTH];
    req_data[REQ_SLOT_LOG2_LSB +: REQ_SLOT_LOG2_WIDTH] <= group_g[GROUP_SLOT_LOG2_LSB +: GROUP_SLOT_LOG2_WIDTH];
    req_data[REQ_ROOT_LSB] <= group_g[GROUP_ROOT_LSB];
    req_data[REQ_GUARD_LSB] <= group_g[GROUP_GUARD_LSB];
    req_data[REQ_RECORD_LSB] <= group_g[GROUP_RECORD_LSB];
    req_data[REQ_ECN_LSB] <= group_g[GROUP_ECN_LSB];
    req_data[REQ_LITTLE_LSB] <= group_g[GROUP_LITTLE_LSB];
    req_data[REQ_PARENT_EDGE_LSB +: REQ_PARENT_EDGE_WIDTH] <= group_g[GROUP_PARENT_EDGE_LSB +: GROUP_PARENT_EDGE_WIDTH];
    req_data[REQ_PARENT_PORT_LSB +: REQ_PARENT_PORT_WIDTH] <= group_g[GROUP_PARENT_PORT_LSB +: GROUP_PARENT_PORT_WIDTH];
    req_data[REQ_ROW_LSB +: REQ_ROW_WIDTH] <= group_g[GROUP_ROW_LSB +: GROUP_ROW_WIDTH];
    req_data[REQ_ROWS_LSB +: REQ_ROWS_WIDTH] <= group_g[GROUP_ROWS_LSB +: GROUP_ROWS_WIDTH];
end

assign idle = !(valid_a || valid_b || valid_c || valid_d || valid_e || valid_f || valid_g || req_valid) && meta_valid == {PORTS{1'b0}};

endmodule

`default_nettype wire
