// The Mode III engine: ports, forwarding of other frames, registers. One clock, synchronous reset. Port p is the p-th slice
// of each vector, from the low end.

`default_nettype none

`include "epic_check.vh"

module epic_mode3 #(
    parameter DATA_W = 128,        // 64, 128, 256 or 512
    parameter PORTS = 4,           // 2 to 8
    // Of the core: DATA_W times a power of two. PORTS times DATA_W, rounded up, takes line rate from all ports at once.
    parameter CORE_W = DATA_W,
    parameter MTU = 1024,          // largest payload, a multiple of 64 from 64 to 8192
    parameter SLOTS = 128,         // of all groups together, a power of two
    parameter EDGES = 32,          // of all groups together, 2 to 256
    parameter GROUPS = 8,          // 1 to 256
    parameter CHILDREN = 8,        // largest fan-in, 1 to 64
    parameter ROWS = 16,           // multicast rows of all groups, 2 to 256
    parameter RANKS = 256,         // ranks that a Reduce can name, a power of two
    parameter FP32 = 0,            // 1: floating-point lanes
    parameter FP16 = 0,            // 1: lanes for FP16 and BF16, and a payload store of twice the width
    parameter LANE_LATENCY = FP16 != 0 ? 10 : FP32 != 0 ? 8 : 2,  // of epic_lanes
    parameter PATIENCE = 4096,     // cycles before a port without room is given up
    parameter MACS = 16            // entries of the forwarding table
) (
    input  wire                      clk,
    input  wire                      rst,

    input  wire [PORTS*DATA_W-1:0]   s_axis_tdata,
    input  wire [PORTS*DATA_W/8-1:0] s_axis_tkeep,
    input  wire [PORTS-1:0]          s_axis_tvalid,
    output wire [PORTS-1:0]          s_axis_tready,
    input  wire [PORTS-1:0]          s_axis_tlast,
    input  wire [PORTS-1:0]          s_axis_tuser,

    output wire [PORTS*DATA_W-1:0]   m_axis_tdata,
    output wire [PORTS*DATA_W/8-1:0] m_axis_tkeep,
    output wire [PORTS-1:0]          m_axis_tvalid,
    input  wire [PORTS-1:0]          m_axis_tready,
    output wire [PORTS-1:0]          m_axis_tlast,

    input  wire [11:0]               s_axil_awaddr,
    input  wire                      s_axil_awvalid,
    output wire                      s_axil_awready,
    input  wire [31:0]               s_axil_wdata,
    input  wire [3:0]                s_axil_wstrb,
    input  wire                      s_axil_wvalid,
    output wire                      s_axil_wready,
    output wire [1:0]                s_axil_bresp,
    output wire                      s_axil_bvalid,
    input  wire                      s_axil_bready,
    input  wire [11:0]               s_axil_araddr,
    input  wire                      s_axil_arvalid,
    output wire                      s_axil_arready,
    output wire [31:0]               s_axil_rdata,
    output wire [1:0]                s_axil_rresp,
    output wire                      s_axil_rvalid,
    input  wire                      s_axil_rready
);

`include "epic_types.vh"

localparam KEEP_W = DATA_W / 8;
localparam BEATS = (MTU * 8 + CORE_W - 1) / CORE_W;
// Four largest payloads wait on the way in.
localparam TAKE_DEPTH = (1 << $clog2(4 * BEATS)) < 4 ? 4 : 1 << $clog2(4 * BEATS);
// Four largest payloads wait on the way out.
localparam SEND_DEPTH = (1 << $clog2(4 * BEATS)) < 16 ? 16 : 1 << $clog2(4 * BEATS);

wire [PORTS-1:0]           meta_valid, meta_ready, payload_valid, payload_ready;
wire [PORTS*META_W-1:0]    meta_data;
wire [PORTS*CORE_W-1:0]    payload_data;
wire [PORTS-1:0]           job_valid, job_ready, send_valid, send_ready, sent;
wire [PORTS*JOB_W-1:0]     job_data;
wire [PORTS*DATA_W-1:0]    send_data;
wire [PORTS*8-1:0]         edge_index;
wire [PORTS*EDGE_TX_W-1:0] edge_entry;
wire [PORTS-1:0]           forward, flood, overflow, bad_frame, forwarded;
wire                       unforwarded;

wire [PORTS*DATA_W-1:0] in_tdata, out_tdata;
wire [PORTS*KEEP_W-1:0] in_tkeep, out_tkeep;
wire [PORTS-1:0]        in_tvalid, in_tready, in_tlast, out_tvalid, out_tready, out_tlast;

wire         command, busy, idle, state_done, state_served;
wire [3:0]   command_table;
wire [15:0]  command_index;
wire [319:0] command_data;
wire [23:0]  state_tag;
wire [63:0]  state_bitmap;
wire [5:0]   counter_index;
wire [31:0]  counter_value;

genvar p;
generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_port
        epic_port #(.DATA_W(DATA_W), .PAYLOAD_W(CORE_W), .MTU(MTU), .PAYLOAD_DEPTH(TAKE_DEPTH)) port (
            .clk(clk), .rst(rst), .forward(forward[p]),
            .s_axis_tdata(s_axis_tdata[DATA_W*p +: DATA_W]), .s_axis_tkeep(s_axis_tkeep[KEEP_W*p +: KEEP_W]),
            .s_axis_tvalid(s_axis_tvalid[p]), .s_axis_tready(s_axis_tready[p]), .s_axis_tlast(s_axis_tlast[p]),
            .s_axis_tuser(s_axis_tuser[p]),
            .m_axis_tdata(m_axis_tdata[DATA_W*p +: DATA_W]), .m_axis_tkeep(m_axis_tkeep[KEEP_W*p +: KEEP_W]),
            .m_axis_tvalid(m_axis_tvalid[p]), .m_axis_tready(m_axis_tready[p]), .m_axis_tlast(m_axis_tlast[p]),
            .meta_valid(meta_valid[p]), .meta_data(meta_data[META_W*p +: META_W]), .meta_ready(meta_ready[p]),
            .payload_valid(payload_valid[p]), .payload_data(payload_data[CORE_W*p +: CORE_W]),
            .payload_ready(payload_ready[p]),
            .job_valid(job_valid[p]), .job_data(job_data[JOB_W*p +: JOB_W]), .job_ready(job_ready[p]),
            .send_valid(send_valid[p]), .send_data(send_data[DATA_W*p +: DATA_W]), .send_ready(send_ready[p]),
            .edge_index(edge_index[8*p +: 8]), .edge_entry(edge_entry[EDGE_TX_W*p +: EDGE_TX_W]),
            .in_axis_tdata(in_tdata[DATA_W*p +: DATA_W]), .in_axis_tkeep(in_tkeep[KEEP_W*p +: KEEP_W]),
            .in_axis_tvalid(in_tvalid[p]), .in_axis_tready(in_tready[p]), .in_axis_tlast(in_tlast[p]),
            .out_axis_tdata(out_tdata[DATA_W*p +: DATA_W]), .out_axis_tkeep(out_tkeep[KEEP_W*p +: KEEP_W]),
            .out_axis_tvalid(out_tvalid[p]), .out_axis_tready(out_tready[p]), .out_axis_tlast(out_tlast[p]),
            .overflow(overflow[p]), .bad_frame(bad_frame[p]), .sent(sent[p]), .forwarded(forwarded[p])
        );
    end
endgenerate

epic_forward #(.DATA_W(DATA_W), .PORTS(PORTS), .MACS(MACS)) forwarding (
    .clk(clk), .rst(rst),
    .s_axis_tdata(in_tdata), .s_axis_tkeep(in_tkeep), .s_axis_tvalid(in_tvalid), .s_axis_tready(in_tready),
    .s_axis_tlast(in_tlast),
    .m_axis_tdata(out_tdata), .m_axis_tkeep(out_tkeep), .m_axis_tvalid(out_tvalid), .m_axis_tready(out_tready),
    .m_axis_tlast(out_tlast),
    .write(command && command_table == TABLE_FORWARD), .write_index(command_index[7:0]),
    .write_mac(command_data[47:0]), .write_ports(command_data[48 +: PORTS]),
    .flood(flood), .dropped(unforwarded)
);

epic_m3_core #(
    .DATA_W(CORE_W), .PORT_W(DATA_W), .PORTS(PORTS), .EDGES(EDGES), .GROUPS(GROUPS), .SLOTS(SLOTS), .CHILDREN(CHILDREN),
    .MTU(MTU), .ROWS(ROWS), .RANKS(RANKS), .FP32(FP32), .FP16(FP16), .LANE_LATENCY(LANE_LATENCY), .PATIENCE(PATIENCE),
    .PAYLOAD_DEPTH(SEND_DEPTH)
) core (
    .clk(clk), .rst(rst),
    .meta_valid(meta_valid), .meta_data(meta_data), .meta_ready(meta_ready),
    .payload_valid(payload_valid), .payload_data(payload_data), .payload_ready(payload_ready),
    .job_valid(job_valid), .job_data(job_data), .job_ready(job_ready),
    .send_valid(send_valid), .send_data(send_data), .send_ready(send_ready),
    .edge_index(edge_index), .edge_entry(edge_entry), .sent(sent),
    .command(command), .command_table(command_table), .command_index(command_index), .command_data(command_data),
    .busy(busy), .state_tag(state_tag), .state_bitmap(state_bitmap), .state_done(state_done),
    .state_served(state_served), .counter_index(counter_index), .counter_value(counter_value), .idle(idle)
);

epic_regs #(
    .PORTS(PORTS), .MODE(3), .DATA_W(DATA_W), .FP32(FP32), .FP16(FP16), .MTU(MTU), .SLOTS(SLOTS), .EDGES(EDGES), .GROUPS(GROUPS),
    .CHILDREN(CHILDREN), .ROWS(ROWS), .RANKS(RANKS)
) regs (
    .clk(clk), .rst(rst),
    .s_axil_awaddr(s_axil_awaddr), .s_axil_awvalid(s_axil_awvalid), .s_axil_awready(s_axil_awready),
    .s_axil_wdata(s_axil_wdata), .s_axil_wstrb(s_axil_wstrb), .s_axil_wvalid(s_axil_wvalid),
    .s_axil_wready(s_axil_wready), .s_axil_bresp(s_axil_bresp), .s_axil_bvalid(s_axil_bvalid),
    .s_axil_bready(s_axil_bready), .s_axil_araddr(s_axil_araddr), .s_axil_arvalid(s_axil_arvalid),
    .s_axil_arready(s_axil_arready), .s_axil_rdata(s_axil_rdata), .s_axil_rresp(s_axil_rresp),
    .s_axil_rvalid(s_axil_rvalid), .s_axil_rready(s_axil_rready),
    .command(command), .command_table(command_table), .command_index(command_index), .command_data(command_data),
    .busy(busy), .idle(idle), .state_tag(state_tag), .state_bitmap(state_bitmap), .state_done(state_done),
    .state_served(state_served), .counter_index(counter_index), .counter_value(counter_value),
    .forward(forward), .flood(flood), .overflow(overflow), .bad_frame(bad_frame), .forwarded(forwarded),
    .unforwarded(unforwarded)
);

endmodule

`default_nettype wire
