// Forwarding between ports: what goes to each port keeps the rule of AXI-Stream with full beats in front of the last,
// and no port of arrival is held up by a port that stands still.

`default_nettype none

`include "axis_held.svh"

module epic_forward_props #(
    parameter DATA_W = 64,
    parameter PORTS = 2  // the induction is written for 2
) (
    input wire                      clk,
    input wire [PORTS*DATA_W-1:0]   s_axis_tdata,
    input wire [PORTS*DATA_W/8-1:0] s_axis_tkeep,
    input wire [PORTS-1:0]          s_axis_tvalid,
    input wire [PORTS-1:0]          s_axis_tlast,
    input wire [PORTS-1:0]          m_axis_tready,
    input wire                      write,
    input wire [7:0]                write_index,
    input wire [47:0]               write_mac,
    input wire [PORTS-1:0]          write_ports,
    input wire [PORTS-1:0]          flood
);

localparam BYTES = DATA_W / 8;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire [PORTS-1:0]        s_ready, m_valid, m_last;
wire [PORTS*DATA_W-1:0] m_data;
wire [PORTS*BYTES-1:0]  m_keep;
wire                    dropped;
epic_forward #(.DATA_W(DATA_W), .PORTS(PORTS), .MACS(1), .DEPTH(4)) dut (
    .clk(clk), .rst(rst),
    .s_axis_tdata(s_axis_tdata), .s_axis_tkeep(s_axis_tkeep), .s_axis_tvalid(s_axis_tvalid),
    .s_axis_tready(s_ready), .s_axis_tlast(s_axis_tlast),
    .m_axis_tdata(m_data), .m_axis_tkeep(m_keep), .m_axis_tvalid(m_valid), .m_axis_tready(m_axis_tready),
    .m_axis_tlast(m_last),
    .write(write), .write_index(write_index), .write_mac(write_mac), .write_ports(write_ports),
    .flood(flood), .dropped(dropped)
);

genvar p;
generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_port
        axis_held #(.WIDTH(DATA_W + BYTES + 1), .ASSUME(1)) in_held (
            .clk(clk), .on(started), .valid(s_axis_tvalid[p]), .ready(s_ready[p]),
            .data({s_axis_tlast[p], s_axis_tkeep[BYTES*p +: BYTES], s_axis_tdata[DATA_W*p +: DATA_W]})
        );
        axis_held #(.WIDTH(DATA_W + BYTES + 1)) out_held (
            .clk(clk), .on(started), .valid(m_valid[p]), .ready(m_axis_tready[p]),
            .data({m_last[p], m_keep[BYTES*p +: BYTES], m_data[DATA_W*p +: DATA_W]})
        );
    end
endgenerate

// The frame that is on the bus.
wire [PORTS-1:0] moves = s_axis_tvalid & s_ready;
reg              inside = 1'b0;
reg  [PORTS-1:0] owner;
always @(posedge clk) if (started && moves != 0) begin
    inside <= (moves & s_axis_tlast) == 0;
    owner <= moves;
end

// For the induction: the multiplexer knows it by these.
(* hierconn *) wire             \dut.mux.locked_reg ;
(* hierconn *) wire [PORTS-1:0] \dut.mux.chosen_reg ;
wire             locked = \dut.mux.locked_reg ;
wire [PORTS-1:0] chosen = \dut.mux.chosen_reg ;

always @(posedge clk) if (started) begin
    a_bus: assert (locked == inside && (!inside || (chosen == owner && ^owner)));
    a_one: assert ((moves & (moves - 1'b1)) == 0);
    a_whole: assert (!inside || (moves & ~owner) == 0);
    // Whatever the ports behind do.
    a_not_held_up: assert ((inside ? s_axis_tvalid & owner : s_axis_tvalid) == 0 || moves != 0);
    c_dropped: cover (dropped);
    c_both: cover (m_valid == 3 && m_last == 3);
end

endmodule

`default_nettype wire
