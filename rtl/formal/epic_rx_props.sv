// Receive: every frame that ends leaves exactly one of a META record, `overflow` and `bad_frame`, whatever comes and
// however full the FIFOs are; the MAC is never held up; forwarded frames keep the rule of AXI-Stream.
//
// The FIFOs' memories are cut: what a record or a beat holds is the benches' to see.

`default_nettype none

`include "axis_held.svh"

module epic_rx_props #(
    parameter DATA_W = 64
) (
    input wire                clk,
    input wire                forward,
    input wire [DATA_W-1:0]   s_axis_tdata,
    input wire [DATA_W/8-1:0] s_axis_tkeep,
    input wire                s_axis_tvalid,
    input wire                s_axis_tlast,
    input wire                s_axis_tuser,
    input wire                meta_ready,
    input wire                payload_ready,
    input wire                fwd_axis_tready
);

`include "epic_types.vh"

localparam META_DEPTH = 4;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire                s_axis_tready, meta_valid, payload_valid, fwd_valid, fwd_last, overflow, bad_frame;
wire [META_W-1:0]   meta_data;
wire [DATA_W-1:0]   payload_data, fwd_data;
wire [DATA_W/8-1:0] fwd_keep;
epic_rx #(.DATA_W(DATA_W), .MTU(64), .META_DEPTH(META_DEPTH), .PAYLOAD_DEPTH(8), .FORWARD_DEPTH(256)) dut (
    .clk(clk), .rst(rst), .forward(forward),
    .s_axis_tdata(s_axis_tdata), .s_axis_tkeep(s_axis_tkeep), .s_axis_tvalid(s_axis_tvalid),
    .s_axis_tready(s_axis_tready), .s_axis_tlast(s_axis_tlast), .s_axis_tuser(s_axis_tuser),
    .meta_valid(meta_valid), .meta_data(meta_data), .meta_ready(meta_ready),
    .payload_valid(payload_valid), .payload_data(payload_data), .payload_ready(payload_ready),
    .fwd_axis_tdata(fwd_data), .fwd_axis_tkeep(fwd_keep), .fwd_axis_tvalid(fwd_valid),
    .fwd_axis_tready(fwd_axis_tready), .fwd_axis_tlast(fwd_last),
    .overflow(overflow), .bad_frame(bad_frame)
);

axis_held #(.WIDTH(DATA_W + DATA_W / 8 + 1)) fwd_held (
    .clk(clk), .on(started), .valid(fwd_valid), .ready(fwd_axis_tready), .data({fwd_last, fwd_keep, fwd_data})
);
// A record's data are cut, but not that it stays.
axis_held #(.WIDTH(1)) meta_held (
    .clk(clk), .on(started), .valid(meta_valid), .ready(meta_ready), .data(1'b0)
);

// Frames that have ended and left nothing yet.
wire       ended = started && s_axis_tvalid && s_axis_tready && s_axis_tlast;
wire       given = started && meta_valid && meta_ready;
reg  [5:0] inside = 6'd0;
always @(posedge clk) if (started) inside <= inside + ended - given - overflow - bad_frame;

// A verdict takes 6 cycles from the last beat. Then the record is in its FIFO, or the fault is said in the next cycle.
reg [6:1] under_way = 6'd0;
reg       up = 1'b0;
always @(posedge clk) begin
    under_way <= started ? {under_way[5:1], ended} : 6'd0;
    up <= started;
end

(* hierconn *) wire [2:0] \dut.meta_fifo.write_reg ;
(* hierconn *) wire [2:0] \dut.meta_fifo.commit_reg ;
(* hierconn *) wire [2:0] \dut.meta_fifo.read_reg ;
(* hierconn *) wire       \dut.meta_fifo.valid_reg ;
wire [2:0] in_memory = \dut.meta_fifo.write_reg - \dut.meta_fifo.read_reg ;
(* hierconn *) wire       \dut.record_valid ;
wire [5:0] records = in_memory + \dut.meta_fifo.valid_reg + \dut.record_valid ;
(* hierconn *) wire       \dut.meta_fifo.g_packet.full_reg ;
wire       undecided = \dut.meta_fifo.write_reg != \dut.meta_fifo.commit_reg ;

always @(posedge clk) if (started) begin
    a_never_held_up: assert (!up || s_axis_tready);
    a_exactly_one: assert (inside == under_way[1] + under_way[2] + under_way[3] + under_way[4] + under_way[5] + under_way[6]
        + overflow + bad_frame + records);
    a_decided: assert (!undecided);
    a_full: assert (in_memory != META_DEPTH || \dut.meta_fifo.g_packet.full_reg );
    a_no_overflow: assert (in_memory <= META_DEPTH);
    a_not_both: assert (!(overflow && bad_frame));
    a_record: assert (!meta_valid || records != 0);
    c_overflow: cover (overflow && records == META_DEPTH + 2);
    c_bad: cover (bad_frame);
    c_meta: cover (given && records == 2);
end

endmodule

`default_nettype wire
