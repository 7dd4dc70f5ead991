// Mode III, first half of the pipeline: takes META records from the ports in turn, finds the edge and the group, and holds
// the frame against spec section 4.2 and the checks of 9.2 that need no slot. One frame a cycle; what leaves is a REQ.

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

    output wire                    req_valid,
    output wire [REQ_BITS-1:0]     req_data,
    input  wire                    req_ready,
    output wire                    idle,

    input  wire                    write_edge,
    input  wire                    write_group,
    input  wire [7:0]              write_index,
    input  wire [319:0]            write_data
);

`include "epic_pkg.vh"
`include "epic_types.vh"

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

reg  valid_b, valid_c, valid_d, valid_e, valid_f;
wire step = !valid_f || req_ready;

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
    .write_used(write_data[EDGE_ROLE_LSB +: EDGE_ROLE_WIDTH] != ROLE_NONE),
    .write_qpn(write_data[EDGE_OWN_QPN_LSB +: EDGE_OWN_QPN_WIDTH]),
    .write_entry(write_data),
    .step(step), .qpn(meta_b[META_QPN_LSB +: META_QPN_WIDTH]),
    .hit(hit_d), .index(index_d), .entry(edge_d)
);

wire [GROUP_W-1:0] group_e;
epic_ram #(.WIDTH(GROUP_W), .DEPTH(GROUP_DEPTH)) groups (
    .clk(clk),
    .write(write_group), .write_addr(write_index[GROUP_ADDR_W-1:0]), .write_data(write_data[GROUP_W-1:0]),
    .read(step), .read_addr(edge_d[EDGE_GROUP_LSB +: GROUP_ADDR_W]), .read_data(group_e)
);

wire [7:0]  opcode_d = meta_d[META_OPCODE_LSB +: META_OPCODE_WIDTH];
wire        ack_d = opcode_d == OPCODE_ACK;
wire [23:0] psn_tx_d = edge_d[EDGE_PSN_TX_LSB +: EDGE_PSN_TX_WIDTH];
wire [23:0] psn_rx_d = edge_d[EDGE_PSN_RX_LSB +: EDGE_PSN_RX_WIDTH];

// --------------------------------------------------------------------------------------- e: what the frame is held against
reg        hit_e, icrc_e, port_ok_e, src_mac_ok_e, dst_mac_ok_e, ip_ok_e, pkey_ok_e, opcode_ok_e, ack_e;
reg [7:0]  index_e;
reg [1:0]  role_e;
reg [5:0]  child_e;
reg [23:0] number_e;   // the cell; of an acknowledgement the cell that it names
reg [23:0] psn_rx_e;

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
        role_e <= edge_d[EDGE_ROLE_LSB +: EDGE_ROLE_WIDTH];
        child_e <= edge_d[EDGE_CHILD_LSB +: EDGE_CHILD_WIDTH];
        port_ok_e <= edge_d[EDGE_PORT_LSB +: EDGE_PORT_WIDTH] == port_d;
        src_mac_ok_e <= edge_d[EDGE_PEER_MAC_LSB +: 48] == meta_d[META_SRC_MAC_LSB +: 48];
        dst_mac_ok_e <= edge_d[EDGE_OWN_MAC_LSB +: 48] == meta_d[META_DST_MAC_LSB +: 48];
        ip_ok_e <= edge_d[EDGE_PEER_IP_LSB +: 32] == meta_d[META_SRC_IP_LSB +: 32]
            && edge_d[EDGE_OWN_IP_LSB +: 32] == meta_d[META_DST_IP_LSB +: 32];
        pkey_ok_e <= edge_d[EDGE_PKEY_LSB +: EDGE_PKEY_WIDTH] == meta_d[META_PKEY_LSB +: META_PKEY_WIDTH];
        opcode_ok_e <= ack_d || opcode_d == OPCODE_SEND_ONLY_IMM;
        ack_e <= ack_d;
        number_e <= meta_d[META_PSN_LSB +: META_PSN_WIDTH] - (ack_d ? psn_tx_d : psn_rx_d);
        psn_rx_e <= psn_rx_d;
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
wire [31:0] imm_e = meta_e[META_IMM_LSB +: META_IMM_WIDTH];
wire        err_e = imm_e[IMMDT_ERR_LSB];
wire [1:0]  primitive_e = imm_e[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH];
wire [1:0]  operator_e = imm_e[IMMDT_OPERATOR_LSB +: IMMDT_OPERATOR_WIDTH];
wire [3:0]  datatype_e = imm_e[IMMDT_DATATYPE_LSB +: IMMDT_DATATYPE_WIDTH];
wire        opaque_e = err_e || primitive_e == PRIMITIVE_BROADCAST;
wire [15:0] limit_e = {2'd0, group_e[GROUP_PAYLOAD_BYTES_LSB +: GROUP_PAYLOAD_BYTES_WIDTH]};
wire        data_e = verdict_e == 8'd0 && meta_e[META_OPCODE_LSB +: META_OPCODE_WIDTH] == OPCODE_SEND_ONLY_IMM;
wire        has_beats_e = data_e && bytes_e != 14'd0 && {2'd0, bytes_e} <= MTU[15:0];

// Part of an element behind the last whole one (EPIC-E-11).
reg part_e;
always @* begin
    case (datatype_e)
        DATATYPE_INT8: part_e = 1'b0;
        DATATYPE_FP16, DATATYPE_BF16, DATATYPE_INT16: part_e = bytes_e[0];
        DATATYPE_INT64, DATATYPE_FP64: part_e = bytes_e[2:0] != 3'd0;
        default: part_e = bytes_e[1:0] != 2'd0;
    endcase
    if (opaque_e) part_e = 1'b0;
end

// What the lanes would do with a payload, and whether the group has it (EPIC-E-12).
wire offered_e = group_e[GROUP_OPERATORS_LSB + {30'd0, operator_e}]
    && !datatype_e[3] && group_e[GROUP_DATATYPES_LSB + {28'd0, datatype_e}];
wire lacks_e = !opaque_e && !offered_e;
wire [3:0] operation_e = primitive_e == PRIMITIVE_BROADCAST ? LANE_OR
    : {datatype_e == DATATYPE_FP32, datatype_e != DATATYPE_FP32, operator_e - 2'd1};

// The frame's outcome, unless it goes on to the slots: the first reason that applies.
reg [1:0] kind_e;
reg [7:0] reason_e;
reg       admitted_e;
always @* begin
    kind_e = KIND_NONE;
    reason_e = COUNTERS;
    admitted_e = 1'b0;
    if (verdict_e == VERDICT_FORWARDED) reason_e = COUNTERS;
    else if (verdict_e != 8'd0) reason_e = verdict_e;
    else if (!meta_e[META_ICRC_OK_LSB] && (!hit_e || icrc_e)) reason_e = COUNTER_DROP_ICRC;
    else if (!hit_e) reason_e = COUNTER_DROP_UNKNOWN_QPN;
    else if (!port_ok_e) reason_e = COUNTER_DROP_WRONG_PORT;
    else if (!src_mac_ok_e || !dst_mac_ok_e || !ip_ok_e) reason_e = COUNTER_DROP_WRONG_ADDRESS;
    else if (!pkey_ok_e) reason_e = COUNTER_DROP_PKEY;
    else if (!opcode_ok_e) reason_e = COUNTER_DROP_ROLE;
    else begin
        admitted_e = 1'b1;
        if (ack_e) begin
            if (role_e == ROLE_HOST && group_e[GROUP_REFLECTION_LSB]) kind_e = KIND_REFLECTION;
            else reason_e = COUNTER_DROP_ROLE;
        end
        else if ({2'd0, bytes_e} > limit_e) reason_e = COUNTER_DROP_OVERSIZE;
        else if (role_e == ROLE_PARENT) kind_e = KIND_RESULT;
        else if (part_e) reason_e = COUNTER_DROP_ELEMENT;
        else kind_e = KIND_CONTRIBUTION;
    end
end

wire [3:0]  slot_log2_e = group_e[GROUP_SLOT_LOG2_LSB +: GROUP_SLOT_LOG2_WIDTH];
wire [15:0] slot_mask_e = (16'd1 << slot_log2_e) - 16'd1;
wire [15:0] slot_e = group_e[GROUP_SLOT_BASE_LSB +: GROUP_SLOT_BASE_WIDTH] + (number_e[15:0] & slot_mask_e);

// ---------------------------------------------------------------------------------------------------------- f: the REQ
reg [REQ_W-1:0] req_f;
always @(posedge clk) begin
    if (step) begin
        req_f[REQ_KIND_LSB +: REQ_KIND_WIDTH] <= kind_e;
        req_f[REQ_REASON_LSB +: REQ_REASON_WIDTH] <= reason_e;
        req_f[REQ_CE_LSB] <= admitted_e && !ack_e && meta_e[META_CE_LSB];
        req_f[REQ_PORT_LSB +: REQ_PORT_WIDTH] <= port_e;
        req_f[REQ_HAS_BEATS_LSB] <= has_beats_e;
        req_f[REQ_EDGE_LSB +: REQ_EDGE_WIDTH] <= index_e;
        req_f[REQ_CHILD_LSB +: REQ_CHILD_WIDTH] <= child_e;
        req_f[REQ_CELL_LSB +: REQ_CELL_WIDTH] <= number_e + (ack_e ? psn_rx_e : 24'd0);
        req_f[REQ_SLOT_LSB +: REQ_SLOT_WIDTH] <= slot_e;
        req_f[REQ_IMM_LSB +: REQ_IMM_WIDTH] <= imm_e;
        req_f[REQ_BYTES_LSB +: REQ_BYTES_WIDTH] <= bytes_e;
        req_f[REQ_OP_LSB +: REQ_OP_WIDTH] <= operation_e;
        req_f[REQ_LACKS_LSB] <= lacks_e;
        req_f[REQ_FAN_IN_LSB +: REQ_FAN_IN_WIDTH] <= group_e[GROUP_FAN_IN_LSB +: GROUP_FAN_IN_WIDTH];
        req_f[REQ_SLOT_LOG2_LSB +: REQ_SLOT_LOG2_WIDTH] <= slot_log2_e;
        req_f[REQ_ROOT_LSB] <= group_e[GROUP_ROOT_LSB];
        req_f[REQ_GUARD_LSB] <= group_e[GROUP_GUARD_LSB];
        req_f[REQ_RECORD_LSB] <= group_e[GROUP_RECORD_LSB];
        req_f[REQ_ECN_LSB] <= group_e[GROUP_ECN_LSB];
        req_f[REQ_LITTLE_LSB] <= group_e[GROUP_LITTLE_LSB];
        req_f[REQ_PARENT_EDGE_LSB +: REQ_PARENT_EDGE_WIDTH] <= group_e[GROUP_PARENT_EDGE_LSB +: GROUP_PARENT_EDGE_WIDTH];
        req_f[REQ_PARENT_PORT_LSB +: REQ_PARENT_PORT_WIDTH] <= group_e[GROUP_PARENT_PORT_LSB +: GROUP_PARENT_PORT_WIDTH];
        req_f[REQ_ROW_LSB +: REQ_ROW_WIDTH] <= group_e[GROUP_ROW_LSB +: GROUP_ROW_WIDTH];
        req_f[REQ_ROWS_LSB +: REQ_ROWS_WIDTH] <= group_e[GROUP_ROWS_LSB +: GROUP_ROWS_WIDTH];
    end
end

assign req_valid = valid_f;
assign req_data = req_f;
assign idle = !(valid_b || valid_c || valid_d || valid_e || valid_f) && meta_valid == {PORTS{1'b0}};

endmodule

`default_nettype wire
