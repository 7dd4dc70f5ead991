// Mode III, the transitions of spec section 9.2 with the value of a cell of 4.3: from a REQ and the slot that it found to
// the slot's next state, what is to be done with data (a PASS), and what is counted. Combinational.
//
// Of the next state what `write` does not write, of a PASS what it says of data or frames that there are none of, and the
// number of frames where none is sent, are left open: so they need not wait for the decision.

`default_nettype none

`include "epic_check.vh"

module epic_m3_decide #(
    parameter CHILDREN = 8,       // bits of a bitmap
    parameter REQ_BITS = 160,     // REQ_W
    parameter PASS_BITS = 234     // PASS_W
) (
    input  wire [REQ_BITS-1:0]  req,

    // Of the request alone, told beforehand.
    input  wire                 contribution,  // its kind
    input  wire                 result,
    input  wire                 has_bytes,     // it has a payload; then it has_beats
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
    input  wire                 newer,         // not with older
    input  wire                 in_turn,       // N after the tag
    input  wire                 seen,          // the child's bit is in the bitmap
    input  wire                 full,          // all children's are
    input  wire                 rest,          // all but this one's
    input  wire                 differs,       // held is not the request's agreement part
    input  wire                 longer,        // bytes is not the request's length; where `empty`, no matter

    output wire                 write,         // the slot; its tag becomes the request's cell
    output wire                 counts,        // a contribution that is not there yet
    output wire                 claims,        // the first of a newer cell
    output wire                 sets_length,   // `bytes` becomes that of the request
    output wire                 next_empty,
    output wire [CHILDREN-1:0]  next_bitmap,
    output wire                 next_done,
    output wire                 next_congested,
    output wire                 next_err,
    output wire                 next_has_record,
    output wire [31:0]          next_held,
    output wire [13:0]          next_bytes,

    output reg                  pass_valid,
    output reg  [PASS_BITS-1:0] pass,

    output reg  [7:0]           outcome,       // COUNTER_*; COUNTERS: none
    output wire                 completed,
    output wire                 poisoned,
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

// What becomes of the slot is one of three, or nothing. The next request waits for it, so each is said by itself, in few
// signals, and what the slot becomes is said without them: it is written only when it is one of them.
wire equal = !older && !newer;
wire overrun = newer && req[REQ_GUARD_LSB] && !(in_turn && done);
wire joins = contribution && equal && !seen;              // one more of the slot's cell
wire accepts = result && equal && full && !done;
assign claims = contribution && newer && !overrun;
assign counts = claims || joins;
assign write = claims || joins || accepts;

// Adding the contribution (spec section 4.3): `own` is what it brings along, which is all in a cell that is new
// (EPIC-M3-03); the rest is between it and the value that is there.
wire adds = has_bytes && !in_err;
wire own_err = in_err || (has_bytes && req[REQ_LACKS_LSB]);
wire own_record = in_err && record_sized && keeps_record;
wire conflict = differs || (adds && !empty && longer);
wire broken = err || conflict;
wire made = conflict && !has_record && keeps_record;
wire fills = newer ? alone : rest;

assign next_err = contribution && (own_err || (!newer && broken));
assign next_has_record = contribution && (own_record || (!newer && (has_record || made)));
assign next_empty = contribution ? !adds && (newer || empty) : !has_bytes;
assign next_bitmap = !contribution ? bitmap : newer ? child_bit : bitmap | child_bit;
assign next_done = !contribution || (fills && root);
assign next_congested = (congested && !(contribution && newer)) || req[REQ_CE_LSB];
assign next_held = !contribution ? imm : newer ? agreement : held;
wire   brings = !contribution || (adds && (newer || (empty && !seen)));  // the length
assign next_bytes = brings ? in_bytes : newer ? 14'd0 : bytes;
assign sets_length = accepts || (adds && (claims || (joins && empty)));
assign completed = counts && fills;
assign poisoned = (claims && own_err) || (joins && !err && (own_err || conflict));

// The data: a record is made of a conflict, or the payload goes through the lanes.
wire combines = adds && !req[REQ_LACKS_LSB];
wire make = joins && made;
wire use_a = (claims && (combines || own_record)) || (accepts && has_bytes)
    || (joins && ((combines && !broken) || (own_record && !conflict && !has_record)));
wire keep = make || use_a;

// What is sent, if something is: the value's output, or a result as it came from the parent. Of a cell that has its result
// it is that, `whole`, as the slot has it. What is kept is as long. Who is told alone, is the parent until there is a result.
wire        reflection = kind == KIND_REFLECTION;
wire        again = contribution && !newer && seen;
wire        whole = again && done && !root;
wire        bad = again ? err && !whole : next_err;
wire        none = again ? empty && !whole : contribution && next_empty;
wire        with_record = keeps_record && (again ? has_record : next_has_record);
wire [31:0] out_imm = next_held | (bad ? ERR_BIT : 32'd0) | ((bad ? !with_record : none) ? NULL_BIT : 32'd0);
wire [13:0] out_bytes = reflection ? 14'd0 : !bad ? next_bytes : with_record ? RECORD_BYTES : 14'd0;
wire        to_parent = contribution && (newer || !done);

// Whether a contribution makes something be sent, by what its cell is: new, or the slot's. Again to one child is enough while
// there is no result, for none of them can have it.
wire        speaks = newer ? !overrun && alone : !older && (!seen ? rest : done ? served : full && child_bit[0]);
wire [6:0]  children = {1'b0, fan_in} + 7'd1;

reg [1:0] to;
reg [3:0] operation;

always @* begin
    to = SEND_NOTHING;
    outcome = COUNTERS;
    send = COUNTERS;
    send_count = result || (contribution && root && !again) ? children : 7'd1;
    case (kind)
        KIND_CONTRIBUTION: begin
            if (older) outcome = COUNTER_RX_STALE;
            else if (overrun) outcome = COUNTER_DROP_WINDOW;
            else outcome = again ? COUNTER_RX_DUPLICATE : COUNTER_RX_CONTRIBUTION;
            if (speaks) begin
                to = root && !again ? SEND_ALL : SEND_ONE;
                if (again) send = done ? COUNTER_TX_REPLAY : COUNTER_TX_RESEND;
                else send = root ? COUNTER_TX_RESULT : COUNTER_TX_PARTIAL;
            end
        end
        KIND_RESULT:
            if (older) outcome = COUNTER_RX_STALE;
            else if (newer || !full) outcome = COUNTER_DROP_UNEXPECTED;
            else if (done) outcome = COUNTER_RX_DUPLICATE;
            else begin
                outcome = COUNTER_RX_RESULT;
                to = SEND_ALL;
                send = COUNTER_TX_RESULT;
            end
        KIND_REFLECTION: begin
            to = SEND_ONE;
            send = COUNTER_TX_REFLECTED;
        end
        default: outcome = req[REQ_REASON_LSB +: REQ_REASON_WIDTH];
    endcase

    if (joins && combines && !broken && !empty) operation = req[REQ_OP_LSB +: REQ_OP_WIDTH];
    else if (keep) operation = LANE_A;
    else operation = LANE_B;

    // Whatever is kept of a payload has beats.
    pass_valid = to != SEND_NOTHING || make || has_beats;
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
    pass[PASS_HELD_LSB +: PASS_HELD_WIDTH] = held;
    pass[PASS_HELD_BYTES_LSB +: PASS_HELD_BYTES_WIDTH] = bytes;
    pass[PASS_OTHER_LSB +: PASS_OTHER_WIDTH] = agreement;
    pass[PASS_OTHER_BYTES_LSB +: PASS_OTHER_BYTES_WIDTH] = adds ? in_bytes : 14'd0;
    pass[PASS_SEND_LSB +: PASS_SEND_WIDTH] = to;
    pass[PASS_PORT_LSB +: PASS_PORT_WIDTH] = to_parent ? req[REQ_PARENT_PORT_LSB +: REQ_PARENT_PORT_WIDTH]
        : req[REQ_PORT_LSB +: REQ_PORT_WIDTH];
    pass[PASS_EDGE_LSB +: PASS_EDGE_WIDTH] = to_parent ? req[REQ_PARENT_EDGE_LSB +: REQ_PARENT_EDGE_WIDTH]
        : req[REQ_EDGE_LSB +: REQ_EDGE_WIDTH];
    pass[PASS_ROW_LSB +: PASS_ROW_WIDTH] = req[REQ_ROW_LSB +: REQ_ROW_WIDTH];
    pass[PASS_ROWS_LSB +: PASS_ROWS_WIDTH] = req[REQ_ROWS_LSB +: REQ_ROWS_WIDTH];
    pass[PASS_UP_LSB] = to_parent && !root;
    pass[PASS_ACK_LSB] = reflection;
    pass[PASS_CELL_LSB +: PASS_CELL_WIDTH] = req[REQ_CELL_LSB +: REQ_CELL_WIDTH];
    pass[PASS_IMM_LSB +: PASS_IMM_WIDTH] = out_imm;
    pass[PASS_BYTES_LSB +: PASS_BYTES_WIDTH] = out_bytes;
    pass[PASS_CE_LSB] = !reflection && req[REQ_ECN_LSB] && (write ? next_congested : congested);
end

endmodule

`default_nettype wire
