// A contribution joins a cell: the value of spec section 4.3, from the agg slot as it is to the slot as it will be, what the
// lanes have to do, and the output. Combinational.

`default_nettype none

`include "epic_check.vh"

module epic_m2_cell #(
    parameter CHILDREN = 8  // bits of a bitmap, 1 to 64
) (
    // The slot. `fresh`: it takes the cell anew.
    input  wire                fresh,
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

wire [31:0] old_held = fresh ? agreement : held;
wire [13:0] old_bytes = fresh ? 14'd0 : bytes;
wire        old_err = !fresh && err;
wire        old_record = !fresh && has_record;

wire adds = in_bytes != 14'd0 && !in_err;
wire first = old_bytes == 14'd0;
wire lacks = !broadcast && !(operators[compute] && !datatype[3] && datatypes[datatype[2:0]]);
wire conflict = agreement != old_held || (adds && !first && in_bytes != old_bytes);
wire takes_record = in_err && !conflict && !old_record && keeps_record && in_bytes == RECORD_BYTES;

assign next_bitmap = (fresh ? {CHILDREN{1'b0}} : bitmap) | child_bit;
assign next_held = old_held;
assign next_bytes = first && adds ? in_bytes : old_bytes;
assign next_err = old_err || conflict || in_err || (adds && lacks);
assign make_record = conflict && !old_record && keeps_record;
assign next_has_record = old_record || make_record || takes_record;
assign next_congested = (!fresh && congested) || in_congested;
assign full = next_bitmap == all_children;
assign poisoned = next_err && !old_err;

wire combines = adds && !next_err;
assign record_held = old_held;
assign record_held_bytes = old_bytes;
assign record_other = agreement;
assign record_other_bytes = adds ? in_bytes : 14'd0;

assign kept_bytes = make_record || takes_record ? RECORD_BYTES : combines ? in_bytes : 14'd0;

always @* begin
    if (make_record || takes_record || (combines && first)) operation = LANE_A;
    else if (!combines) operation = LANE_B;
    else if (broadcast) operation = LANE_OR;
    else operation = lane_operation(datatype, compute);

    if (next_err) begin
        out_imm = old_held | ERR_BIT | (next_has_record ? 32'd0 : NULL_BIT);
        out_bytes = next_has_record ? RECORD_BYTES : 14'd0;
    end
    else begin
        out_imm = old_held | (next_bytes == 14'd0 ? NULL_BIT : 32'd0);
        out_bytes = next_bytes;
    end
end

endmodule

`default_nettype wire
