// The value of a cell (spec section 4.3), for any slot and any contribution: combinational, so every step is one.
//
//   a slot     its bitmap names children only and is complete when all have contributed; an error and a conflict record
//              stay; the first payload takes the place of what the store held, whatever that was
//   a result   NULL says that there is no payload, ERR that the cell is poisoned; the descriptor is what was agreed on
//   order      two contributions to a fresh slot give the same, whoever comes first: the same error, or the same result

`default_nettype none

module epic_m2_cell_props #(
    parameter CHILDREN = 3
) (
    input wire                clk,
    input wire                fresh,
    input wire [CHILDREN-1:0] bitmap,
    input wire [31:0]         held,
    input wire [13:0]         bytes,
    input wire                err,
    input wire                has_record,
    input wire                congested,
    input wire                keeps_record,
    input wire [3:0]          operators,
    input wire [7:0]          datatypes,
    input wire [CHILDREN-1:0] all_children,
    input wire [CHILDREN-1:0] bit_a,
    input wire [CHILDREN-1:0] bit_b,
    input wire [31:0]         imm_a,
    input wire [31:0]         imm_b,
    input wire [13:0]         bytes_a,
    input wire [13:0]         bytes_b,
    input wire                congested_a,
    input wire                congested_b
);

`include "epic_pkg.vh"
`include "epic_types.vh"

localparam [31:0] FLAGS = 32'd1 << IMMDT_NULL_LSB | 32'd1 << IMMDT_ERR_LSB;
localparam [13:0] RECORD = CONFLICT_RECORD_BYTES[13:0];

// a joins any slot, b the fresh one; then each joins what the other has left.
wire [CHILDREN-1:0] bitmaps [0:3];
wire [31:0]         helds [0:3], imms [0:3];
wire [13:0]         sizes [0:3], outs [0:3], kepts [0:3];
wire [3:0]          errs, records, ces, fulls, poisons, makes;
wire [3:0]          operations [0:3];
genvar i;
generate
    for (i = 0; i < 4; i = i + 1) begin : g_join
        // 0: a, 1: b after a, 2: b, 3: a after b
        localparam IS_A = i == 0 || i == 3;
        localparam SECOND = i == 1 || i == 3;
        localparam BEFORE = i == 3 ? 2 : 0;
        wire [31:0] record_held, record_other;
        wire [13:0] record_held_bytes, record_other_bytes;
        epic_m2_cell #(.CHILDREN(CHILDREN)) dut (
            .clk(clk), .step(1'b1),
            .fresh(SECOND ? 1'b0 : i == 2 ? 1'b1 : fresh),
            .bitmap(SECOND ? bitmaps[BEFORE] : bitmap), .held(SECOND ? helds[BEFORE] : held),
            .bytes(SECOND ? sizes[BEFORE] : bytes), .err(SECOND ? errs[BEFORE] : err),
            .has_record(SECOND ? records[BEFORE] : has_record), .congested(SECOND ? ces[BEFORE] : congested),
            .child_bit(IS_A ? bit_a : bit_b), .all_children(all_children), .imm(IS_A ? imm_a : imm_b),
            .in_bytes(IS_A ? bytes_a : bytes_b), .in_congested(IS_A ? congested_a : congested_b),
            .keeps_record(keeps_record), .operators(operators), .datatypes(datatypes),
            .next_bitmap(bitmaps[i]), .next_held(helds[i]), .next_bytes(sizes[i]), .next_err(errs[i]),
            .next_has_record(records[i]), .next_congested(ces[i]), .full(fulls[i]), .poisoned(poisons[i]),
            .make_record(makes[i]), .operation(operations[i]),
            .record_held(record_held), .record_held_bytes(record_held_bytes),
            .record_other(record_other), .record_other_bytes(record_other_bytes),
            .out_imm(imms[i]), .out_bytes(outs[i]), .kept_bytes(kepts[i])
        );
    end
endgenerate

wire [CHILDREN-1:0] before = fresh ? {CHILDREN{1'b0}} : bitmap;
wire [13:0]         before_bytes = fresh ? 14'd0 : bytes;
wire                before_err = !fresh && err;
wire                before_record = !fresh && has_record;
wire                adds = bytes_a != 14'd0 && !imm_a[IMMDT_ERR_LSB];

always @* begin
    assume (all_children != 0 && (all_children & (all_children + 1'b1)) == 0);
    assume (bit_a != 0 && (bit_a & (bit_a - 1'b1)) == 0 && (bit_a & ~all_children) == 0);
    assume (bit_b != 0 && (bit_b & (bit_b - 1'b1)) == 0 && (bit_b & ~all_children) == 0 && bit_a != bit_b);
    // A slot as contributions leave it: asserted below of what they leave.
    assume ((before & (~all_children | bit_a)) == 0);
    assume (!has_record || (err && keeps_record));
    assume ((held & FLAGS) == 0);
end

wire poisoned_pair = errs[1];
always @(posedge clk) begin
    a_joins: assert (bitmaps[0] == (before | bit_a) && (bitmaps[0] & ~all_children) == 0);
    a_full: assert (fulls[0] == ((~bitmaps[0] & all_children) == 0));
    a_err_stays: assert (errs[0] || !before_err);
    a_poisoned: assert (poisons[0] == (errs[0] && !before_err));
    a_record_stays: assert ((records[0] || !before_record) && (!records[0] || (errs[0] && keeps_record)));
    a_held: assert ((helds[0] & FLAGS) == 0 && (fresh || helds[0] == held));
    a_agreement: assert (fresh ? helds[0] == (imm_a & ~FLAGS) : errs[0] || (imm_a & ~FLAGS) == held);
    a_lengths: assert (errs[0] || !adds || before_bytes == 0 || bytes_a == before_bytes);
    a_bytes: assert (errs[0] || sizes[0] == (before_bytes != 0 ? before_bytes : bytes_a));
    // Of the data: what the slot has is what the output says that it has.
    a_first: assert (!(adds && !errs[0] && before_bytes == 0) || (operations[0] == LANE_A && kepts[0] == bytes_a));
    a_combined: assert (!(adds && !errs[0] && before_bytes != 0) || (operations[0] != LANE_A && operations[0] != LANE_B
        && kepts[0] == before_bytes));
    a_record: assert (!records[0] || before_record || (operations[0] == LANE_A && kepts[0] == RECORD));
    a_spared: assert (!(before_record || (!adds && !errs[0])) || kepts[0] == 0);
    a_made: assert (!makes[0] || (records[0] && !before_record));

    a_null: assert (imms[0][IMMDT_NULL_LSB] == (outs[0] == 0));
    a_err: assert (imms[0][IMMDT_ERR_LSB] == errs[0]);
    a_descriptor: assert ((imms[0] & ~FLAGS) == helds[0]);
    a_out: assert (outs[0] == (!errs[0] ? sizes[0] : records[0] ? RECORD : 14'd0));

    a_order_err: assert (!fresh || errs[1] == errs[3]);
    a_order_slot: assert (!fresh || (bitmaps[1] == bitmaps[3] && ces[1] == ces[3] && fulls[1] == fulls[3]));
    a_order_out: assert (!fresh || errs[1] || (imms[1] == imms[3] && outs[1] == outs[3]));
    a_order_data: assert (!fresh || errs[1] || bytes_a == 0 || bytes_b == 0
        || (operations[1] == operations[3] && kepts[1] == kepts[3]));
    a_counted_once: assert (!fresh || poisons[0] + poisons[1] == errs[1]);

    c_sum: cover (fresh && fulls[1] && !errs[1] && outs[1] == 64 && operations[1] == LANE_INT32_SUM);
    c_record: cover (fresh && makes[1] && errs[3]);
    c_taken: cover (fresh && records[0] && !makes[0]);
end

endmodule

`default_nettype wire
