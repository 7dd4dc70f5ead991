// Admission of Mode III: every META record becomes exactly one REQ, 8 cycles later, and is taken only in a cycle with
// `go`; no record is lost in the pipeline and none is made up. One record is watched, any: its port, descriptor and length come
// out unchanged, and it is either on its way to the slots, with beats if it has a payload (epic_m3_decide relies on that), or has a
// reason. Tables may be written at any time.
//
// No group is assumed to be installed whose payloads are larger than MTU.

`default_nettype none

`include "axis_held.svh"

module epic_m3_admit_props #(
    parameter PORTS = 2
) (
    input wire                 clk,
    input wire [PORTS-1:0]     meta_valid,
    input wire [PORTS*289-1:0] meta_data,
    input wire                 go,
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
    .go(go), .req_valid(req_valid), .req_data(req_data), .idle(idle),
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

wire [PORTS-1:0] taken = meta_valid & meta_ready;
wire             take = started && taken != 0;
reg  [7:0]       inside = 8'd0;
always @(posedge clk) inside <= rst ? 8'd0 : {inside[6:0], take};

wire [META_W-1:0] meta = taken[0] ? meta_data[0 +: META_W] : meta_data[META_W +: META_W];
reg [7:0]         watched = 8'd0;   // the record that is watched is so far
reg [2:0]         port;
reg [7:0]         verdict;
reg [31:0]        imm;
reg [13:0]        bytes;
wire              begin_watch = take && watch && watched[6:0] == 0;
always @(posedge clk) begin
    watched <= rst ? 8'd0 : {watched[6:0], begin_watch};
    if (begin_watch) begin
        port <= {2'd0, !taken[0]};
        verdict <= meta[META_VERDICT_LSB +: 8];
        imm <= meta[META_IMM_LSB +: 32];
        bytes <= meta[META_PAYLOAD_BYTES_LSB +: 14];
    end
end

(* hierconn *) wire [15:0] \dut.limit_f ;
always @* assume (\dut.limit_f <= 64);

wire       here = watched[7];
wire [1:0] kind = req_data[REQ_KIND_LSB +: 2];
wire [7:0] reason = req_data[REQ_REASON_LSB +: 8];
always @(posedge clk) if (started) begin
    a_one_at_a_time: assert ((taken & (taken - 1'b1)) == 0);
    a_when_told: assert (go || taken == 0);
    a_at_once: assert (!go || meta_valid == 0 || taken != 0);
    a_none_lost_none_made: assert (req_valid == inside[7]);
    a_idle: assert (!idle || (inside == 0 && meta_valid == 0));
    a_port: assert (!here || req_data[REQ_PORT_LSB +: 3] == port);
    a_imm: assert (!here || req_data[REQ_IMM_LSB +: 32] == imm);
    a_bytes: assert (!here || req_data[REQ_BYTES_LSB +: 14] == bytes);
    a_dropped: assert (!here || verdict == 0 || kind == KIND_NONE);
    a_reason: assert (!here || verdict == 0 || reason == (verdict == VERDICT_FORWARDED ? COUNTERS : verdict));
    a_counted: assert (!here || verdict != 0 || kind != KIND_NONE || (reason >= COUNTER_DROP_ICRC && reason < COUNTERS));
    a_beats: assert (!here || (kind != KIND_CONTRIBUTION && kind != KIND_RESULT)
        || req_data[REQ_HAS_BEATS_LSB] == (bytes != 0));
    c_full: cover (inside == 8'b11111111 && here);
    c_contribution: cover (here && kind == KIND_CONTRIBUTION && port == 1 && bytes == 64);
    c_dropped: cover (here && reason == COUNTER_DROP_PKEY);
end

endmodule

`default_nettype wire
