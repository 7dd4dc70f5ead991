// Transmit: frames to the MAC keep the rule of AXI-Stream, all beats but the last are full, `tkeep` is contiguous, and
// each frame that leaves is counted as one of the two kinds.

`default_nettype none

`include "axis_held.svh"

module epic_tx_props #(
    parameter DATA_W = 64  // the induction is written for 64
) (
    input wire                clk,
    input wire                job_valid,
    input wire [88:0]         job_data,
    input wire                payload_valid,
    input wire [DATA_W-1:0]   payload_data,
    input wire [216:0]        edge_entry,
    input wire [DATA_W-1:0]   fwd_axis_tdata,
    input wire [DATA_W/8-1:0] fwd_axis_tkeep,
    input wire                fwd_axis_tvalid,
    input wire                fwd_axis_tlast,
    input wire                m_axis_tready
);

`include "epic_types.vh"

localparam BYTES = DATA_W / 8;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire              job_ready, payload_ready, fwd_ready, m_valid, m_last, sent, forwarded;
wire [7:0]        edge_index;
wire [DATA_W-1:0] m_data;
wire [BYTES-1:0]  m_keep;
epic_tx #(.DATA_W(DATA_W), .MTU(64)) dut (
    .clk(clk), .rst(rst),
    .job_valid(job_valid), .job_data(job_data), .job_ready(job_ready),
    .payload_valid(payload_valid), .payload_data(payload_data), .payload_ready(payload_ready),
    .edge_index(edge_index), .edge_entry(edge_entry),
    .fwd_axis_tdata(fwd_axis_tdata), .fwd_axis_tkeep(fwd_axis_tkeep), .fwd_axis_tvalid(fwd_axis_tvalid),
    .fwd_axis_tready(fwd_ready), .fwd_axis_tlast(fwd_axis_tlast),
    .m_axis_tdata(m_data), .m_axis_tkeep(m_keep), .m_axis_tvalid(m_valid), .m_axis_tready(m_axis_tready),
    .m_axis_tlast(m_last), .sent(sent), .forwarded(forwarded)
);

axis_held #(.WIDTH(JOB_W), .ASSUME(1)) job_held (
    .clk(clk), .on(started), .valid(job_valid), .ready(job_ready), .data(job_data)
);
axis_held #(.WIDTH(DATA_W), .ASSUME(1)) payload_held (
    .clk(clk), .on(started), .valid(payload_valid), .ready(payload_ready), .data(payload_data)
);
axis_held #(.WIDTH(DATA_W + BYTES + 1), .ASSUME(1)) fwd_held (
    .clk(clk), .on(started), .valid(fwd_axis_tvalid), .ready(fwd_ready),
    .data({fwd_axis_tlast, fwd_axis_tkeep, fwd_axis_tdata})
);
axis_held #(.WIDTH(DATA_W + BYTES + 1)) out_held (
    .clk(clk), .on(started), .valid(m_valid), .ready(m_axis_tready), .data({m_last, m_keep, m_data})
);

// Forwarded frames are Ethernet frames, aligned: full beats, and more than the 6 bytes in front.
reg fwd_first = 1'b1;
always @(posedge clk) if (started && fwd_axis_tvalid && fwd_ready) fwd_first <= fwd_axis_tlast;
wire        has_payload = job_data[JOB_HAS_PAYLOAD_LSB];
wire [13:0] size = job_data[JOB_PAYLOAD_BYTES_LSB +: 14];
always @(posedge clk) begin
    if (job_valid) assume (has_payload ? size >= 1 && size <= 64 : size == 0);
    if (fwd_axis_tvalid) begin
        assume (fwd_axis_tlast || &fwd_axis_tkeep);
        assume (fwd_axis_tkeep[0] && (fwd_axis_tkeep & (fwd_axis_tkeep + 1'b1)) == 0);
        assume (!fwd_first || fwd_axis_tkeep[6]);
    end
end

// For the induction: what is held in epic_slice and epic_unalign came from one source, and has the bytes that it may.
(* hierconn *) wire [1:0] \dut.unalign.out_user_reg ;
(* hierconn *) wire [1:0] \dut.unalign.user_reg ;
(* hierconn *) wire       \dut.unalign.held_reg ;
(* hierconn *) wire [1:0] \dut.mux.chosen_reg ;
(* hierconn *) wire       \dut.mux.locked_reg ;
(* hierconn *) wire       \dut.unalign.ended_reg ;
(* hierconn *) wire [3:0] \dut.unalign.bytes_reg ;
(* hierconn *) wire       \dut.epic_valid_reg ;
(* hierconn *) wire [3:0] \dut.epic_bytes_reg ;
wire       epic_valid = \dut.epic_valid_reg ;
wire [3:0] epic_bytes = \dut.epic_bytes_reg ;
wire       ended = \dut.unalign.ended_reg ;
wire [3:0] ended_bytes = \dut.unalign.bytes_reg ;
wire [1:0] user_0 = \dut.unalign.out_user_reg , user_1 = \dut.unalign.user_reg , user_2 = \dut.mux.chosen_reg ;
// {source, last, tail, bytes, data}
(* hierconn *) wire [DATA_W+38:0] \dut.slice.data_reg ;
(* hierconn *) wire [DATA_W+38:0] \dut.slice.waits_reg ;
(* hierconn *) wire               \dut.slice.valid_reg ;
(* hierconn *) wire               \dut.slice.ready_reg ;
wire [DATA_W+38:0] slice_0 = \dut.slice.data_reg , slice_1 = \dut.slice.waits_reg ;
wire [1:0]         slices = {!\dut.slice.ready_reg , \dut.slice.valid_reg };
wire [3:0]         slice_bytes_0 = slice_0[DATA_W +: 4], slice_bytes_1 = slice_1[DATA_W +: 4];
wire [1:0] used = {\dut.mux.locked_reg , \dut.unalign.held_reg };
always @(posedge clk) if (started) begin
    a_icrc: assert (!epic_valid || epic_bytes == 8 || epic_bytes == 12);
    a_rest: assert (!ended || (used[0] && ended_bytes >= 1 && ended_bytes <= BYTES));
    a_source: assert ((!m_valid || ^user_0) && (!used[0] || ^user_1) && (!used[1] || ^user_2));
    a_slice: assert ((!slices[0] || (^slice_0[DATA_W+37 +: 2] && slice_bytes_0 != 0 && slice_bytes_0 <= BYTES + 6))
        && (!slices[1] || (^slice_1[DATA_W+37 +: 2] && slice_bytes_1 != 0 && slice_bytes_1 <= BYTES + 6)));
end

wire leaves = m_valid && m_axis_tready && m_last;
always @(posedge clk) if (started) begin
    a_kind: assert ((sent ^ forwarded) == leaves && !(sent && forwarded));
    a_full: assert (!(m_valid && !m_last) || &m_keep);
    a_contiguous: assert (!m_valid || (m_keep[0] && (m_keep & (m_keep + 1'b1)) == 0));
    c_sent: cover (sent && fwd_axis_tvalid);
    c_forwarded: cover (forwarded && m_keep == 1);
end

endmodule

`default_nettype wire
