// Admission of Mode III: every META record becomes exactly one REQ, in order, and a REQ is held until it is taken; no
// record is lost in the pipeline and none is made up. One record is watched, any: its port, descriptor and length come
// out unchanged, and it is either on its way to the slots or has a reason. Tables may be written at any time.

`default_nettype none

`include "axis_held.svh"

module epic_m3_admit_props #(
    parameter PORTS = 2
) (
    input wire                 clk,
    input wire [PORTS-1:0]     meta_valid,
    input wire [PORTS*289-1:0] meta_data,
    input wire                 req_ready,
    input wire                 watch,
    input wire                 write_edge,
    input wire                 write_group,
    input wire [7:0]           write_index,
    input wire [319:0]         write_data
);

`include "epic_pkg.vh"
`include "epic_types.vh"

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire [PORTS-1:0] meta_ready;
wire             req_valid, idle;
wire [REQ_W-1:0] req_data;
epic_m3_admit #(.PORTS(PORTS), .EDGES(2), .GROUPS(1), .MTU(64)) dut (
    .clk(clk), .rst(rst),
    .meta_valid(meta_valid), .meta_data(meta_data), .meta_ready(meta_ready),
    .req_valid(req_valid), .req_data(req_data), .req_ready(req_ready), .idle(idle),
    .write_edge(write_edge), .write_group(write_group), .write_index(write_index), .write_data(write_data)
);

genvar p;
generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_in
        axis_held #(.WIDTH(META_W), .ASSUME(1)) held (
            .clk(clk), .on(started), .valid(meta_valid[p]), .ready(meta_ready[p]),
            .data(meta_data[META_W*p +: META_W])
        );
    end
endgenerate
axis_held #(.WIDTH(REQ_W)) req_held (
    .clk(clk), .on(started), .valid(req_valid), .ready(req_ready), .data(req_data)
);

wire [PORTS-1:0] taken = meta_valid & meta_ready;
wire             take = started && taken != 0;
wire             give = started && req_valid && req_ready;
reg  [3:0]       inside = 4'd0;
always @(posedge clk) inside <= inside + take - give;

wire [META_W-1:0] meta = taken[0] ? meta_data[0 +: META_W] : meta_data[META_W +: META_W];
reg               watched = 1'b0;
reg  [3:0]        ahead;
reg  [2:0]        port;
reg  [7:0]        verdict;
reg  [31:0]       imm;
reg  [13:0]       bytes;
always @(posedge clk) begin
    if (take && watch && !watched) begin
        watched <= 1'b1;
        ahead <= inside - give;
        port <= {2'd0, !taken[0]};
        verdict <= meta[META_VERDICT_LSB +: 8];
        imm <= meta[META_IMM_LSB +: 32];
        bytes <= meta[META_PAYLOAD_BYTES_LSB +: 14];
    end else if (watched && give) begin
        ahead <= ahead - 1'b1;
        if (ahead == 0) watched <= 1'b0;
    end
end

wire       here = req_valid && watched && ahead == 0;
wire [1:0] kind = req_data[REQ_KIND_LSB +: 2];
wire [7:0] reason = req_data[REQ_REASON_LSB +: 8];
always @(posedge clk) if (started) begin
    a_one_at_a_time: assert ((taken & (taken - 1'b1)) == 0);
    a_no_more: assert (inside <= 5);
    a_none_made: assert (!req_valid || inside != 0);
    a_port: assert (!here || req_data[REQ_PORT_LSB +: 3] == port);
    a_imm: assert (!here || req_data[REQ_IMM_LSB +: 32] == imm);
    a_bytes: assert (!here || req_data[REQ_BYTES_LSB +: 14] == bytes);
    a_dropped: assert (!here || verdict == 0 || kind == KIND_NONE);
    a_reason: assert (!here || verdict == 0 || reason == (verdict == VERDICT_FORWARDED ? COUNTERS : verdict));
    a_counted: assert (!here || verdict != 0 || kind != KIND_NONE || (reason >= COUNTER_DROP_ICRC && reason < COUNTERS));
    c_full: cover (inside == 5 && here && !req_ready);
    c_contribution: cover (here && give && kind == KIND_CONTRIBUTION && port == 1 && bytes == 64);
    c_dropped: cover (here && give && reason == COUNTER_DROP_PKEY);
end

endmodule

`default_nettype wire
