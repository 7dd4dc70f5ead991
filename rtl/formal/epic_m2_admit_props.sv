// Admission of Mode II: every META record becomes exactly one IN, in order, and an IN is held until it is taken; no
// record is lost in the pipeline and none is made up. One record is watched, any: its port, word and length come out
// unchanged; it goes on as data or an acknowledgement or has a reason, never both; and what is said of its payload's
// beats is so, for beats that nobody takes would be the next frame's. Tables may be written at any time.

`default_nettype none

`include "axis_held.svh"

// An IN record is that of the watched frame.
module in_right (
    input wire         clk,
    input wire         on,
    input wire [94:0]  word,
    input wire [2:0]   port,
    input wire [7:0]   verdict,
    input wire [7:0]   opcode,
    input wire [31:0]  imm,
    input wire [13:0]  bytes,
    input wire         ce
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_m2_types.vh"

wire [1:0] kind = word[IN_KIND_LSB +: 2];
wire [7:0] reason = word[IN_REASON_LSB +: 8];
always @(posedge clk) if (on) begin
    a_port: assert (word[IN_PORT_LSB +: 3] == port);
    a_imm: assert (word[IN_IMM_LSB +: 32] == imm);
    a_bytes: assert (word[IN_BYTES_LSB +: 14] == bytes);
    a_kind: assert (kind == IN_NONE || (verdict == 0 && opcode == (kind == IN_ACK ? OPCODE_ACK : OPCODE_SEND_ONLY_IMM)));
    a_reason: assert (verdict == 0 || reason == (verdict == VERDICT_FORWARDED ? COUNTERS : verdict));
    a_counted: assert (verdict != 0
        || (kind == IN_NONE ? reason >= COUNTER_DROP_ICRC && reason < COUNTERS : reason == COUNTERS));
    a_beats: assert (word[IN_HAS_BEATS_LSB] == (verdict == 0 && opcode == OPCODE_SEND_ONLY_IMM && bytes >= 1 && bytes <= 64));
    a_ce: assert (word[IN_CE_LSB] == (kind == IN_DATA && ce));
end

endmodule

module epic_m2_admit_props #(
    parameter PORTS = 2
) (
    input wire                 clk,
    input wire [PORTS-1:0]     meta_valid,
    input wire [PORTS*289-1:0] meta_data,
    input wire                 in_ready,
    input wire                 watch,
    input wire                 write_edge,
    input wire [7:0]           write_index,
    input wire [319:0]         write_entry
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_m2_types.vh"

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire [PORTS-1:0] meta_ready;
wire             in_valid, idle;
wire [IN_W-1:0]  in_data;
epic_m2_admit #(.PORTS(PORTS), .EDGES(2), .MTU(64)) dut (
    .clk(clk), .rst(rst),
    .meta_valid(meta_valid), .meta_data(meta_data), .meta_ready(meta_ready),
    .in_valid(in_valid), .in_data(in_data), .in_ready(in_ready), .idle(idle),
    .write_edge(write_edge), .write_index(write_index), .write_entry(write_entry)
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
axis_held #(.WIDTH(IN_W)) in_held (
    .clk(clk), .on(started), .valid(in_valid), .ready(in_ready), .data(in_data)
);

wire [PORTS-1:0] taken = meta_valid & meta_ready;
wire             take = started && taken != 0;
wire             give = started && in_valid && in_ready;
reg  [3:0]       inside = 4'd0;
always @(posedge clk) inside <= rst ? 4'd0 : inside + take - give;

wire [META_W-1:0] meta = taken[0] ? meta_data[0 +: META_W] : meta_data[META_W +: META_W];
reg               watched = 1'b0;
reg  [3:0]        ahead;
reg  [2:0]        port;
reg  [7:0]        verdict, opcode;
reg  [31:0]       imm;
reg  [13:0]       bytes;
reg               ce;
always @(posedge clk) begin
    if (take && watch && !watched) begin
        watched <= 1'b1;
        ahead <= inside - give;
        port <= {2'd0, !taken[0]};
        verdict <= meta[META_VERDICT_LSB +: 8];
        opcode <= meta[META_OPCODE_LSB +: 8];
        imm <= meta[META_IMM_LSB +: 32];
        bytes <= meta[META_PAYLOAD_BYTES_LSB +: 14];
        ce <= meta[META_CE_LSB];
    end else if (watched && give) begin
        ahead <= ahead - 1'b1;
        if (ahead == 0) watched <= 1'b0;
    end
    if (rst) watched <= 1'b0;
end

wire here = in_valid && watched && ahead == 0;

// For the induction: where the watched record is, and what goes along with it there. Bits 0 to 7 are the stages a to h, 8
// the word that waits in the slice, 9 the one that leaves it.
(* hierconn *) wire            \dut.step ;
(* hierconn *) wire            \dut.valid_a ;
(* hierconn *) wire            \dut.valid_b ;
(* hierconn *) wire            \dut.valid_c ;
(* hierconn *) wire            \dut.valid_d ;
(* hierconn *) wire            \dut.valid_e ;
(* hierconn *) wire            \dut.valid_f ;
(* hierconn *) wire            \dut.valid_g ;
(* hierconn *) wire            \dut.valid_h ;
(* hierconn *) wire [PORTS*META_W-1:0] \dut.shown_a ;
(* hierconn *) wire [PORTS-1:0] \dut.grant_a ;
(* hierconn *) wire [META_W-1:0] \dut.meta_b ;
(* hierconn *) wire [META_W-1:0] \dut.meta_c ;
(* hierconn *) wire [META_W-1:0] \dut.meta_d ;
(* hierconn *) wire [META_W-1:0] \dut.meta_e ;
(* hierconn *) wire [META_W-1:0] \dut.meta_f ;
(* hierconn *) wire [META_W-1:0] \dut.meta_g ;
(* hierconn *) wire [2:0]      \dut.port_b ;
(* hierconn *) wire [2:0]      \dut.port_c ;
(* hierconn *) wire [2:0]      \dut.port_d ;
(* hierconn *) wire [2:0]      \dut.port_e ;
(* hierconn *) wire [2:0]      \dut.port_f ;
(* hierconn *) wire [2:0]      \dut.port_g ;
(* hierconn *) wire            \dut.ack_g ;
(* hierconn *) wire            \dut.opcode_ok_g ;
(* hierconn *) wire [IN_W-1:0] \dut.in_h ;
(* hierconn *) wire [IN_W-1:0] \dut.last.waits_reg ;
wire       step = \dut.step ;
wire       leaves = !in_valid || in_ready;
wire [9:0] valid = {in_valid, !step, \dut.valid_h , \dut.valid_g , \dut.valid_f , \dut.valid_e , \dut.valid_d , \dut.valid_c ,
    \dut.valid_b , \dut.valid_a };
wire [1:0] grant_a = \dut.grant_a ;
reg  [9:0] at = 10'd0;
always @(posedge clk) begin
    if (step) at[7:0] <= {at[6:0], take && watch && !watched};
    at[8] <= (step ? at[7] : at[8]) && !leaves;
    if (leaves) at[9] <= step ? at[7] : at[8];
    if (rst) at <= 10'd0;
end
reg  [3:0] all_valid, valid_ahead;
integer    k;
always @* begin
    all_valid = 4'd0;
    valid_ahead = 4'd0;
    for (k = 0; k < 10; k = k + 1) begin
        all_valid = all_valid + valid[k];
        valid_ahead = valid_ahead + (valid[k] && (at & ((10'd1 << k) - 1'b1)) != 0);
    end
end

function same(input [META_W-1:0] record, input [2:0] port_of);
    same = record[META_VERDICT_LSB +: 8] == verdict && record[META_OPCODE_LSB +: 8] == opcode
        && record[META_IMM_LSB +: 32] == imm && record[META_PAYLOAD_BYTES_LSB +: 14] == bytes
        && record[META_CE_LSB] == ce && port_of == port;
endfunction
in_right in_h_right (
    .clk(clk), .on(started && at[7]), .word(\dut.in_h ),
    .port(port), .verdict(verdict), .opcode(opcode), .imm(imm), .bytes(bytes), .ce(ce)
);
in_right waiting_right (
    .clk(clk), .on(started && at[8]), .word(\dut.last.waits_reg ),
    .port(port), .verdict(verdict), .opcode(opcode), .imm(imm), .bytes(bytes), .ce(ce)
);
in_right leaving_right (
    .clk(clk), .on(started && (here || at[9])), .word(in_data),
    .port(port), .verdict(verdict), .opcode(opcode), .imm(imm), .bytes(bytes), .ce(ce)
);
always @(posedge clk) if (started) begin
    a_inside: assert (inside == all_valid);
    a_waits: assert (step || in_valid);
    a_granted: assert (!\dut.valid_a || grant_a == 2'b01 || grant_a == 2'b10);
    a_at: assert (watched == (at != 0) && (at & (at - 1'b1)) == 0 && (at & ~valid) == 0);
    a_ahead: assert (!watched || ahead == valid_ahead);
    a_in_a: assert (!at[0] || (grant_a[port[0]] && port <= 1 && same(\dut.shown_a [META_W*port[0] +: META_W], port)));
    a_in_b: assert (!at[1] || same(\dut.meta_b , \dut.port_b ));
    a_in_c: assert (!at[2] || same(\dut.meta_c , \dut.port_c ));
    a_in_d: assert (!at[3] || same(\dut.meta_d , \dut.port_d ));
    a_in_e: assert (!at[4] || same(\dut.meta_e , \dut.port_e ));
    a_in_f: assert (!at[5] || same(\dut.meta_f , \dut.port_f ));
    a_in_g: assert (!at[6] || (same(\dut.meta_g , \dut.port_g ) && \dut.ack_g == (opcode == OPCODE_ACK)
        && \dut.opcode_ok_g == (opcode == OPCODE_ACK || opcode == OPCODE_SEND_ONLY_IMM)));
end

wire [1:0] kind = in_data[IN_KIND_LSB +: 2];
wire [7:0] reason = in_data[IN_REASON_LSB +: 8];
always @(posedge clk) if (started) begin
    a_one_at_a_time: assert ((taken & (taken - 1'b1)) == 0);
    a_no_more: assert (inside <= 10);
    a_none_made: assert (!in_valid || inside != 0);
    a_idle: assert (!idle || inside == 0);
    c_full: cover (inside == 10 && here && !in_ready);
    c_data: cover (here && give && kind == IN_DATA && port == 1 && bytes == 64);
    c_ack: cover (here && give && kind == IN_ACK && !in_data[IN_HAS_BEATS_LSB]);
    c_dropped: cover (here && give && reason == COUNTER_DROP_PKEY && in_data[IN_HAS_BEATS_LSB]);
end

endmodule

`default_nettype wire
