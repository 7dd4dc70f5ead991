// AXI-Lite of the registers: each accepted write gets one response and each accepted read one answer, in turn; responses
// are held; nothing waits without end unless the engine is busy; a command is given once for each write of the command
// register, with what was written.

`default_nettype none

`include "axis_held.svh"

module epic_regs_props (
    input wire        clk,
    input wire [11:0] awaddr,
    input wire        awvalid,
    input wire [31:0] wdata,
    input wire [3:0]  wstrb,
    input wire        wvalid,
    input wire        bready,
    input wire [11:0] araddr,
    input wire        arvalid,
    input wire        rready,
    input wire        busy,
    input wire        idle
);

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire         awready, wready, bvalid, arready, rvalid, command;
wire [1:0]   bresp, rresp;
wire [31:0]  rdata;
wire [3:0]   command_table;
wire [15:0]  command_index;
wire [319:0] command_data;
wire [5:0]   counter_index;
wire [1:0]   forward, flood;
epic_regs #(.PORTS(2)) dut (
    .clk(clk), .rst(rst),
    .s_axil_awaddr(awaddr), .s_axil_awvalid(awvalid), .s_axil_awready(awready),
    .s_axil_wdata(wdata), .s_axil_wstrb(wstrb), .s_axil_wvalid(wvalid), .s_axil_wready(wready),
    .s_axil_bresp(bresp), .s_axil_bvalid(bvalid), .s_axil_bready(bready),
    .s_axil_araddr(araddr), .s_axil_arvalid(arvalid), .s_axil_arready(arready),
    .s_axil_rdata(rdata), .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(rready),
    .command(command), .command_table(command_table), .command_index(command_index), .command_data(command_data),
    .busy(busy), .idle(idle), .state_tag(24'd0), .state_bitmap(64'd0), .state_done(1'b0), .state_served(1'b0),
    .counter_index(counter_index), .counter_value(32'd0),
    .forward(forward), .flood(flood), .overflow(2'd0), .bad_frame(2'd0), .forwarded(2'd0), .unforwarded(1'b0)
);

axis_held #(.WIDTH(12), .ASSUME(1)) aw_held (.clk(clk), .on(started), .valid(awvalid), .ready(awready), .data(awaddr));
axis_held #(.WIDTH(32), .ASSUME(1)) w_held (.clk(clk), .on(started), .valid(wvalid), .ready(wready), .data(wdata));
axis_held #(.WIDTH(12), .ASSUME(1)) ar_held (.clk(clk), .on(started), .valid(arvalid), .ready(arready), .data(araddr));
axis_held #(.WIDTH(2)) b_held (.clk(clk), .on(started), .valid(bvalid), .ready(bready), .data(bresp));
axis_held #(.WIDTH(34)) r_held (.clk(clk), .on(started), .valid(rvalid), .ready(rready), .data({rresp, rdata}));

wire wrote = started && wvalid && wready;
reg  writing = 1'b0, asked = 1'b0;
always @(posedge clk) begin
    if (started && awvalid && awready) writing <= 1'b1;
    else if (bvalid && bready) writing <= 1'b0;
    if (started && arvalid && arready) asked <= 1'b1;
    else if (rvalid && rready) asked <= 1'b0;
end

reg        commanded = 1'b0;
reg [31:0] word;
always @(posedge clk) begin
    commanded <= wrote && awaddr[11:2] == 10'h00c;
    word <= wdata;
end

// Cycles for which an access stood while nothing outside kept it.
reg [3:0] waited = 0, read_waited = 0;
always @(posedge clk) begin
    waited <= started && awvalid && wvalid && !awready && !busy && !(bvalid && !bready) ? waited + (waited != 15) : 0;
    read_waited <= asked && !rvalid && !busy ? read_waited + (read_waited != 15) : 0;
end

always @(posedge clk) if (started) begin
    a_together: assert ((awvalid && awready) == (wvalid && wready));
    a_one_write: assert (!(awvalid && awready) || !writing || bvalid);
    a_answer: assert (bvalid == writing);
    a_one_read: assert (!(arvalid && arready) || !asked);
    a_asked: assert (!rvalid || asked);
    a_command: assert (command == commanded);
    a_word: assert (!command || (command_table == word[31:28] && command_index == word[15:0]));
    a_not_while_busy: assert (!(wrote && awaddr[11:2] == 10'h00c) || !busy);
    a_prompt: assert (waited < 2 && read_waited < 4);
    c_command: cover (command && command_index == 16'h1234);
    c_both: cover (bvalid && rvalid && !bready && !rready);
end

endmodule

`default_nettype wire
