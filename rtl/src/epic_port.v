// One port: epic_rx and epic_tx, and what stands between them and the rest of the engine, which is far away on the chip: a
// register in each stream in which both directions of the handshake would go there in one cycle, and for the control bit.

`default_nettype none

module epic_port #(
    parameter DATA_W = 128,         // 64, 128, 256 or 512
    parameter PAYLOAD_W = DATA_W,   // of the payload to the core
    parameter MTU = 1024,           // largest payload
    // Beats of payload that wait for the core, a power of two.
    parameter PAYLOAD_DEPTH = 1 << $clog2(4 * MTU / (PAYLOAD_W / 8)),
    parameter META_BITS = 289,      // META_W
    parameter JOB_BITS = 89,        // JOB_W
    parameter EDGE_TX_BITS = 217    // EDGE_TX_W
) (
    input  wire                    clk,
    input  wire                    rst,
    input  wire                    forward,   // frames that are not EPIC are forwarded

    // The MAC.
    input  wire [DATA_W-1:0]       s_axis_tdata,
    input  wire [DATA_W/8-1:0]     s_axis_tkeep,
    input  wire                    s_axis_tvalid,
    output wire                    s_axis_tready,
    input  wire                    s_axis_tlast,
    input  wire                    s_axis_tuser,
    output wire [DATA_W-1:0]       m_axis_tdata,
    output wire [DATA_W/8-1:0]     m_axis_tkeep,
    output wire                    m_axis_tvalid,
    input  wire                    m_axis_tready,
    output wire                    m_axis_tlast,

    // The core.
    output wire                    meta_valid,
    output wire [META_BITS-1:0]    meta_data,
    input  wire                    meta_ready,
    output wire                    payload_valid,
    output wire [PAYLOAD_W-1:0]    payload_data,
    input  wire                    payload_ready,
    input  wire                    job_valid,
    input  wire [JOB_BITS-1:0]     job_data,
    output wire                    job_ready,
    input  wire                    send_valid,
    input  wire [DATA_W-1:0]       send_data,
    output wire                    send_ready,
    output wire [7:0]              edge_index,
    input  wire [EDGE_TX_BITS-1:0] edge_entry,

    // Forwarding, aligned streams: from the MAC, and to it.
    output wire [DATA_W-1:0]       in_axis_tdata,
    output wire [DATA_W/8-1:0]     in_axis_tkeep,
    output wire                    in_axis_tvalid,
    input  wire                    in_axis_tready,
    output wire                    in_axis_tlast,
    input  wire [DATA_W-1:0]       out_axis_tdata,
    input  wire [DATA_W/8-1:0]     out_axis_tkeep,
    input  wire                    out_axis_tvalid,
    output wire                    out_axis_tready,
    input  wire                    out_axis_tlast,

    output wire                    overflow,  // pulses
    output wire                    bad_frame,
    output wire                    sent,
    output wire                    forwarded
);

localparam KEEP_W = DATA_W / 8;
localparam BEAT_W = DATA_W + KEEP_W + 1;

reg forward_reg;
always @(posedge clk) forward_reg <= forward;

wire [DATA_W-1:0] rx_tdata, tx_tdata;
wire [KEEP_W-1:0] rx_tkeep, tx_tkeep;
wire              rx_tvalid, rx_tready, rx_tlast, tx_tvalid, tx_tready, tx_tlast;

epic_rx #(.DATA_W(DATA_W), .PAYLOAD_W(PAYLOAD_W), .MTU(MTU), .PAYLOAD_DEPTH(PAYLOAD_DEPTH)) rx (
    .clk(clk), .rst(rst), .forward(forward_reg),
    .s_axis_tdata(s_axis_tdata), .s_axis_tkeep(s_axis_tkeep), .s_axis_tvalid(s_axis_tvalid),
    .s_axis_tready(s_axis_tready), .s_axis_tlast(s_axis_tlast), .s_axis_tuser(s_axis_tuser),
    .meta_valid(meta_valid), .meta_data(meta_data), .meta_ready(meta_ready),
    .payload_valid(payload_valid), .payload_data(payload_data), .payload_ready(payload_ready),
    .fwd_axis_tdata(rx_tdata), .fwd_axis_tkeep(rx_tkeep), .fwd_axis_tvalid(rx_tvalid), .fwd_axis_tready(rx_tready),
    .fwd_axis_tlast(rx_tlast),
    .overflow(overflow), .bad_frame(bad_frame)
);
epic_slice #(.WIDTH(BEAT_W)) to_forwarding (
    .clk(clk), .rst(rst),
    .in_valid(rx_tvalid), .in_data({rx_tlast, rx_tkeep, rx_tdata}), .in_ready(rx_tready),
    .out_valid(in_axis_tvalid), .out_data({in_axis_tlast, in_axis_tkeep, in_axis_tdata}), .out_ready(in_axis_tready)
);

wire                tx_job_valid, tx_job_ready;
wire [JOB_BITS-1:0] tx_job_data;
epic_slice #(.WIDTH(JOB_BITS)) jobs (
    .clk(clk), .rst(rst),
    .in_valid(job_valid), .in_data(job_data), .in_ready(job_ready),
    .out_valid(tx_job_valid), .out_data(tx_job_data), .out_ready(tx_job_ready)
);
wire              tx_send_valid, tx_send_ready;
wire [DATA_W-1:0] tx_send_data;
epic_slice #(.WIDTH(DATA_W)) sends (
    .clk(clk), .rst(rst),
    .in_valid(send_valid), .in_data(send_data), .in_ready(send_ready),
    .out_valid(tx_send_valid), .out_data(tx_send_data), .out_ready(tx_send_ready)
);
epic_slice #(.WIDTH(BEAT_W)) from_forwarding (
    .clk(clk), .rst(rst),
    .in_valid(out_axis_tvalid), .in_data({out_axis_tlast, out_axis_tkeep, out_axis_tdata}), .in_ready(out_axis_tready),
    .out_valid(tx_tvalid), .out_data({tx_tlast, tx_tkeep, tx_tdata}), .out_ready(tx_tready)
);
epic_tx #(.DATA_W(DATA_W), .MTU(MTU)) tx (
    .clk(clk), .rst(rst),
    .job_valid(tx_job_valid), .job_data(tx_job_data), .job_ready(tx_job_ready),
    .payload_valid(tx_send_valid), .payload_data(tx_send_data), .payload_ready(tx_send_ready),
    .edge_index(edge_index), .edge_entry(edge_entry),
    .fwd_axis_tdata(tx_tdata), .fwd_axis_tkeep(tx_tkeep), .fwd_axis_tvalid(tx_tvalid), .fwd_axis_tready(tx_tready),
    .fwd_axis_tlast(tx_tlast),
    .m_axis_tdata(m_axis_tdata), .m_axis_tkeep(m_axis_tkeep), .m_axis_tvalid(m_axis_tvalid),
    .m_axis_tready(m_axis_tready), .m_axis_tlast(m_axis_tlast),
    .sent(sent), .forwarded(forwarded)
);

endmodule

`default_nettype wire
