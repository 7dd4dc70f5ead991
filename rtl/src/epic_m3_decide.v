// Mode III, the transitions of spec section 9.2 with the value of a cell of 4.3: from a REQ and the slot that it found to
// the slot's next state, what is to be done with data (a PASS), and what is counted. Combinational.

`default_nettype none

`include "epic_check.vh"

module epic_m3_decide #(
    parameter CHILDREN = 8,       // bits of a bitmap
    parameter REQ_BITS = 160,     // REQ_W
    parameter PASS_BITS = 234     // PASS_W
) (
    input  wire [REQ_BITS-1:0]  req,

    // Of the request alone, told beforehand.
    input  wire                 has_bytes,     // it has a payload
    input  wire                 record_sized,  // of the size of a conflict record
    input  wire [CHILDREN-1:0]  child_bit,
    input  wire                 alone,         // its child is all the group has

    // The slot as the request before left it.
    input  wire [CHILDREN-1:0]  bitmap,
    input  wire                 done,
    input  wire                 served,        // a cell, since it was installed
    input  wire                 congested,
    input  wire                 err,
    input  wire                 has_record,    // its data is a conflict record
    input  wire [31:0]          held,          // agreement part; a result from the parent: the whole descriptor
    input  wire [13:0]          bytes,         // of the payload
    input  wire                 empty,         // that is 0: none

    // What follows from slot and request together.
    input  wire                 older,         // the request's cell than the tag
    input  wire                 newer,
    input  wire                 in_turn,       // newer, N after the tag
    input  wire                 seen,          // the child's bit is in the bitmap
    input  wire                 full,          // all children's are
    input  wire                 rest,          // all but this one's
    input  wire                 differs,       // held is not the request's agreement part
    input  wire                 longer,        // bytes is not the request's length; where `empty`, no matter

    output reg                  write,         // the slot; its tag becomes the request's cell
    output reg                  counts,        // a contribution that is not there yet
    output wire                 claims,        // the first of a newer cell
    output wire                 sets_length,   // `bytes` becomes that of the request
    output reg                  next_empty,
    output reg  [CHILDREN-1:0]  next_bitmap,
    output reg                  next_done,
    output reg                  next_congested,
    output reg                  next_err,
    output reg                  next_has_record,
    output reg  [31:0]          next_held,
    output reg  [13:0]          next_bytes,

    output reg                  pass_valid,
    output reg  [PASS_BITS-1:0] pass,

    output reg  [7:0]           outcome,       // COUNTER_*; COUNTERS: none
    output reg                  completed,
    output reg                  poisoned,
    output reg  [7:0]           send,          // COUNTER_TX_*; COUNTERS: nothing is sent
    output reg  [6:0]           send_count
);

`include "epic_pkg.vh"
`include "epic_types.vh"

`EPIC_CHECK(g_check_records, REQ_BITS == REQ_W && PASS_BITS == PASS_W,
    ("epic_m3_decide: REQ_BITS and PASS_BITS are not those of epic_types.vh"))

localparam [31:0] NULL_BIT = 32'd1 << IMMDT_NULL_LSB;
localparam [31:0] ERR_BIT = 32'd1 << IMMDT_ERR_LSB;
localparam [13:0] RECORD_BYTES = CONFLICT_RECORD_BYTES[13:0];

wire [1:0]  kind = req[REQ_KIND_LSB +: REQ_KIND_WIDTH];
wire [31:0] imm = req[REQ_IMM_LSB +: REQ_IMM_WIDTH];
wire [31:0] agreement = imm & ~(NULL_BIT | ERR_BIT);
wire [13:0] in_bytes = req[REQ_BYTES_LSB +: REQ_BYTES_WIDTH];
wire        root = req[REQ_ROOT_LSB];
wire        in_err = imm[IMMDT_ERR_LSB];
wire        has_beats = req[REQ_HAS_BEATS_LSB];
wire        keeps_record = req[REQ_RECORD_LSB];
wire [5:0]  fan_in = req[REQ_FAN_IN_LSB +: REQ_FAN_IN_WIDTH];

wire overrun = newer && req[REQ_GUARD_LSB] && !(in_turn && done);

// The value as the contribution finds it: that of a new cell when it is newer (EPIC-M3-03).
wire                fresh = newer;
wire [CHILDREN-1:0] joined = (fresh ? {CHILDREN{1'b0}} : bitmap) | child_bit;
wire                fills = fresh ? alone : rest;
wire [31:0]         old_held = fresh ? agreement : held;
wire [13:0]         old_bytes = fresh ? 14'd0 : bytes;
wire                first = fresh || empty;   // to have a payload
wire                old_err = !fresh && err;
wire                old_record = !fresh && has_record;

// Adding to it (spec section 4.3).
wire adds = has_bytes && !in_err;
wire conflict = (!fresh && differs) || (adds && !first && longer);
wire makes_record = conflict && !old_record && keeps_record;
wire takes_record = in_err && !conflict && !old_record && keeps_record && record_sized;
wire new_err = old_err || conflict || in_err || (adds && req[REQ_LACKS_LSB]);
wire new_record = old_record || makes_record || takes_record;
wire [13:0] new_bytes = first && adds ? in_bytes : old_bytes;
wire combines = adds && !new_err;

// What of the slot is sent: its value's output, or the result as it came from the parent.
function [45:0] output_of(input whole, input e, input r, input none, input [31:0] h, input [13:0] b);
    if (whole) output_of = {h, b};
    else if (e) output_of = r ? {h | ERR_BIT, RECORD_BYTES} : {h | ERR_BIT | NULL_BIT, 14'd0};
    else output_of = {none ? h | NULL_BIT : h, b};
endfunction

reg        accepts;     // a result
reg        use_a;       // the frame's payload goes through the lanes
reg        make;        // the record does
reg [1:0]  to;
reg        to_parent;
reg [45:0] out;
reg [3:0]  operation;
reg        keep;

always @* begin
    counts = 1'b0;
    accepts = 1'b0;
    to = SEND_NOTHING;
    to_parent = 1'b0;
    outcome = COUNTERS;
    completed = 1'b0;
    send = COUNTERS;
    send_count = 7'd1;
    case (kind)
        KIND_CONTRIBUTION:
            if (older) outcome = COUNTER_RX_STALE;
            else if (overrun) outcome = COUNTER_DROP_WINDOW;
            else if (newer || !seen) begin
                outcome = COUNTER_RX_CONTRIBUTION;
                counts = 1'b1;
                completed = fills;
                if (fills && root) begin
                    to = SEND_ALL;
                    send = COUNTER_TX_RESULT;
                    send_count = {1'b0, fan_in} + 7'd1;
                end
                else if (fills) begin
                    to = SEND_ONE;
                    to_parent = 1'b1;
                    send = COUNTER_TX_PARTIAL;
                end
            end
            else begin
                outcome = COUNTER_RX_DUPLICATE;
                if (done && served) begin
                    to = SEND_ONE;
                    send = COUNTER_TX_REPLAY;
                end
                else if (!done && full && child_bit[0]) begin
                    // One child is enough, for none of them can have the result.
                    to = SEND_ONE;
                    to_parent = 1'b1;
                    send = COUNTER_TX_RESEND;
                end
            end
        KIND_RESULT:
            if (older) outcome = COUNTER_RX_STALE;
            else if (newer || !full) outcome = COUNTER_DROP_UNEXPECTED;
            else if (done) outcome = COUNTER_RX_DUPLICATE;
            else begin
                outcome = COUNTER_RX_RESULT;
                accepts = 1'b1;
                to = SEND_ALL;
                send = COUNTER_TX_RESULT;
                send_count = {1'b0, fan_in} + 7'd1;
            end
        KIND_REFLECTION: begin
            to = SEND_ONE;
            send = COUNTER_TX_REFLECTED;
        end
        default: outcome = req[REQ_REASON_LSB +: REQ_REASON_WIDTH];
    endcase

    write = counts || accepts;
    next_bitmap = counts ? joined : bitmap;
    next_done = accepts || (counts && fills && root);
    next_congested = (congested && !(counts && fresh)) || req[REQ_CE_LSB];
    next_err = counts && new_err;
    next_has_record = counts && new_record;
    next_held = accepts ? imm : old_held;
    next_bytes = accepts ? in_bytes : new_bytes;
    next_empty = accepts ? !has_bytes : first && !adds;
    poisoned = counts && new_err && !old_err;

    make = counts && makes_record;
    use_a = (counts && (combines || takes_record)) || (accepts && has_bytes);
    keep = make || use_a;
    if (counts && combines && !first) operation = req[REQ_OP_LSB +: REQ_OP_WIDTH];
    else if (keep) operation = LANE_A;
    else operation = LANE_B;

    if (accepts) out = {imm, in_bytes};
    else if (counts) out = output_of(1'b0, new_err, new_record && keeps_record, first && !adds, old_held, new_bytes);
    else out = output_of(done && !root, err, has_record && keeps_record, empty, held, bytes);
    if (kind == KIND_REFLECTION) out = {imm, 14'd0};

    pass_valid = to != SEND_NOTHING || keep || has_beats;
    pass = {PASS_W{1'b0}};
    pass[PASS_SRC_LSB +: PASS_SRC_WIDTH] = req[REQ_PORT_LSB +: REQ_PORT_WIDTH];
    pass[PASS_DRAIN_LSB] = has_beats && !use_a;
    pass[PASS_USE_LSB] = use_a;
    pass[PASS_IN_BYTES_LSB +: PASS_IN_BYTES_WIDTH] = in_bytes;
    pass[PASS_SLOT_LSB +: PASS_SLOT_WIDTH] = req[REQ_SLOT_LSB +: REQ_SLOT_WIDTH];
    pass[PASS_OP_LSB +: PASS_OP_WIDTH] = operation;
    pass[PASS_LITTLE_LSB] = req[REQ_LITTLE_LSB];
    pass[PASS_WRITE_LSB] = keep;
    pass[PASS_RECORD_LSB] = make;
    pass[PASS_HELD_LSB +: PASS_HELD_WIDTH] = old_held;
    pass[PASS_HELD_BYTES_LSB +: PASS_HELD_BYTES_WIDTH] = old_bytes;
    pass[PASS_OTHER_LSB +: PASS_OTHER_WIDTH] = agreement;
    pass[PASS_OTHER_BYTES_LSB +: PASS_OTHER_BYTES_WIDTH] = adds ? in_bytes : 14'd0;
    pass[PASS_SEND_LSB +: PASS_SEND_WIDTH] = to;
    pass[PASS_PORT_LSB +: PASS_PORT_WIDTH] = to_parent ? req[REQ_PARENT_PORT_LSB +: REQ_PARENT_PORT_WIDTH]
        : req[REQ_PORT_LSB +: REQ_PORT_WIDTH];
    pass[PASS_EDGE_LSB +: PASS_EDGE_WIDTH] = to_parent ? req[REQ_PARENT_EDGE_LSB +: REQ_PARENT_EDGE_WIDTH]
        : req[REQ_EDGE_LSB +: REQ_EDGE_WIDTH];
    pass[PASS_ROW_LSB +: PASS_ROW_WIDTH] = req[REQ_ROW_LSB +: REQ_ROW_WIDTH];
    pass[PASS_ROWS_LSB +: PASS_ROWS_WIDTH] = req[REQ_ROWS_LSB +: REQ_ROWS_WIDTH];
    pass[PASS_UP_LSB] = to_parent;
    pass[PASS_ACK_LSB] = kind == KIND_REFLECTION;
    pass[PASS_CELL_LSB +: PASS_CELL_WIDTH] = req[REQ_CELL_LSB +: REQ_CELL_WIDTH];
    pass[PASS_IMM_LSB +: PASS_IMM_WIDTH] = out[45:14];
    if (to != SEND_NOTHING) pass[PASS_BYTES_LSB +: PASS_BYTES_WIDTH] = out[13:0];
    else if (make) pass[PASS_BYTES_LSB +: PASS_BYTES_WIDTH] = RECORD_BYTES;
    else if (keep) pass[PASS_BYTES_LSB +: PASS_BYTES_WIDTH] = in_bytes;
    pass[PASS_CE_LSB] = kind != KIND_REFLECTION && req[REQ_ECN_LSB]
        && (write ? next_congested : congested);
end

assign claims = counts && fresh;
assign sets_length = accepts || (counts && adds && first);

endmodule

`default_nettype wire
