// A contribution joins a cell: the value of spec section 4.3, from the agg slot as it is to the slot as it will be, what the
// lanes have to do, and the output. CUT = 0: combinational; CUT = 1: in three cycles (epic_m2_sequencer).

`default_nettype none

`include "epic_check.vh"
`include "epic_cut.vh"

module epic_m2_cell #(
    parameter CHILDREN = 8, // bits of a bitmap, 1 to 64
    parameter CUT = 0
) (
    input  wire                clk,
    input  wire                step,

    // The slot. `fresh`: it takes the cell anew.
    input  wire                fresh,       // CUT = 1: a cycle later than what is compared
    input  wire [CHILDREN-1:0] bitmap,
    input  wire [31:0]         held,        // agreement part
    input  wire [13:0]         bytes,       // of the payload, 0: none yet
    input  wire                err,
    input  wire                has_record,  // its data is a conflict record
    input  wire                congested,

    // The contribution, and what its group says.
    input  wire [CHILDREN-1:0] child_bit,
    input  wire [CHILDREN-1:0] all_children,
    input  wire [31:0]         imm,
    input  wire [13:0]         in_bytes,
    input  wire                in_congested,
    input  wire                keeps_record,   // conflict_record
    input  wire [3:0]          operators,
    input  wire [7:0]          datatypes,

    output wire [CHILDREN-1:0] next_bitmap,
    output wire [31:0]         next_held,
    output wire [13:0]         next_bytes,
    output wire                next_err,
    output wire                next_has_record,
    output wire                next_congested,
    output wire                full,           // every child has contributed
    output wire                poisoned,       // by this contribution

    output wire                make_record,    // the conflict record takes the payload's place
    output reg  [3:0]          operation,      // LANE_*
    output wire [31:0]         record_held,
    output wire [13:0]         record_held_bytes,
    output wire [31:0]         record_other,
    output wire [13:0]         record_other_bytes,

    output reg  [31:0]         out_imm,        // when full
    output reg  [13:0]         out_bytes,
    output wire [13:0]         kept_bytes      // that the slot's data has now
);

`include "epic_pkg.vh"
`include "epic_types.vh"
`include "epic_lane_op.vh"

`EPIC_CHECK(g_check_children, CHILDREN >= 1 && CHILDREN <= 64,
    ("epic_m2_cell: CHILDREN is %0d, expected 1 to 64", CHILDREN))

localparam [31:0] NULL_BIT = 32'd1 << IMMDT_NULL_LSB;
localparam [31:0] ERR_BIT = 32'd1 << IMMDT_ERR_LSB;
localparam [13:0] RECORD_BYTES = CONFLICT_RECORD_BYTES[13:0];

wire        in_err = imm[IMMDT_ERR_LSB];
wire [1:0]  kind = imm[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH];
wire [1:0]  compute = imm[IMMDT_OPERATOR_LSB +: IMMDT_OPERATOR_WIDTH];
wire [3:0]  datatype = imm[IMMDT_DATATYPE_LSB +: IMMDT_DATATYPE_WIDTH];
wire        broadcast = kind == PRIMITIVE_BROADCAST;
wire [31:0] agreement = imm & ~(NULL_BIT | ERR_BIT);

// What is compared.
`EPIC_CUT(cut_adds, adds, 1, in_bytes != 14'd0 && !in_err)
`EPIC_CUT(cut_lane, lane, 4, broadcast ? LANE_OR : lane_operation(datatype, compute))
`EPIC_CUT(cut_empty, empty, 1, bytes == 14'd0)
`EPIC_CUT(cut_differs, differs, 1, agreement != held)
`EPIC_CUT(cut_other_length, other_length, 1, bytes != 14'd0 && in_bytes != bytes)
`EPIC_CUT(cut_lacks, lacks, 1, !broadcast && !(operators[compute] && !datatype[3] && datatypes[datatype[2:0]]))

wire [31:0] old_held = fresh ? agreement : held;
wire [13:0] old_bytes = fresh ? 14'd0 : bytes;
wire        old_err = !fresh && err;
wire        old_record = !fresh && has_record;

// What follows.
wire conflict = !fresh && (differs || (adds && other_length));
wire takes_record_now = in_err && !conflict && !old_record && keeps_record && in_bytes == RECORD_BYTES;
wire make_record_now = conflict && !old_record && keeps_record;
wire err_now = old_err || conflict || in_err || (adds && lacks);
wire [CHILDREN-1:0] bitmap_now = (fresh ? {CHILDREN{1'b0}} : bitmap) | child_bit;

`EPIC_CUT(cut_bitmap, bitmap_after, CHILDREN, bitmap_now)
`EPIC_CUT(cut_full, is_full, 1, bitmap_now == all_children)
`EPIC_CUT(cut_record, takes_record, 1, takes_record_now)
`EPIC_CUT(cut_make, makes_record, 1, make_record_now)
`EPIC_CUT(cut_err, has_err, 1, err_now)
`EPIC_CUT(cut_poisoned, is_poisoned, 1, err_now && !old_err)
`EPIC_CUT(cut_has_record, record_after, 1, old_record || make_record_now || takes_record_now)
`EPIC_CUT(cut_combines, combines, 1, adds && !err_now)
`EPIC_CUT(cut_first, first, 1, fresh || empty)
`EPIC_CUT(cut_next_bytes, bytes_after, 14, (fresh || empty) && adds ? in_bytes : old_bytes)
`EPIC_CUT(cut_null, null_after, 1, (fresh || empty) && !adds)
`EPIC_CUT(cut_held, held_after, 32, old_held)
`EPIC_CUT(cut_bytes, bytes_before, 14, old_bytes)

assign next_bitmap = bitmap_after;
assign next_held = held_after;
assign next_bytes = bytes_after;
assign next_err = has_err;
assign make_record = makes_record;
assign next_has_record = record_after;
assign next_congested = (!fresh && congested) || in_congested;
assign full = is_full;
assign poisoned = is_poisoned;

assign record_held = held_after;
assign record_held_bytes = bytes_before;
assign record_other = agreement;
assign record_other_bytes = adds ? in_bytes : 14'd0;

assign kept_bytes = makes_record || takes_record ? RECORD_BYTES : combines ? in_bytes : 14'd0;

always @* begin
    if (makes_record || takes_record || (combines && first)) operation = LANE_A;
    else operation = combines ? lane : LANE_B;

    if (has_err) begin
        out_imm = held_after | ERR_BIT | (record_after ? 32'd0 : NULL_BIT);
        out_bytes = record_after ? RECORD_BYTES : 14'd0;
    end
    else begin
        out_imm = held_after | (null_after ? NULL_BIT : 32'd0);
        out_bytes = next_bytes;
    end
end

wire unused = &{1'b0, clk, step};

endmodule

`default_nettype wire
