// Mode III, second half of the pipeline: the slots. A request reads its slot, is held against it, is decided on
// (epic_m3_decide) and writes it; one request a cycle, whatever the slots: nothing waits here.
//
//   h  the address goes to the memory       k  the request is compared with the slot
//   i  the state comes out of the memory    l  the decision
//   j  writes of before replace it          m  the write, the PASS, what is counted
//
// Five requests may be ahead of one whose memory was read too early to see their writes. Those three to five ahead have
// been decided on when it is in j, the one two ahead when it is in k: the newest write takes the place of what was read.
// The one right ahead is decided on in the very cycle in which the request is compared. So the request is compared with
// the slot as it was before that decision, and with what that decision may make of it (their cells, descriptors, children
// and lengths with each other, a stage earlier); the decision only selects. Values that are not compared come from
// the write itself, in l.

`default_nettype none

`include "epic_check.vh"

module epic_m3_slots #(
    parameter SLOTS = 128,       // of all groups together, a power of two
    parameter CHILDREN = 8,      // 1 to 64
    parameter REQ_BITS = 160,    // REQ_W
    parameter PASS_BITS = 234    // PASS_W
) (
    input  wire                 clk,
    input  wire                 rst,

    input  wire                 req_valid,
    input  wire [REQ_BITS-1:0]  req_data,
    output reg                  hold,           // the control plane wants a cycle: no frame shall be taken in this one

    output reg                  pass_valid,
    output reg  [PASS_BITS-1:0] pass_data,

    // What is counted of a request, in one cycle.
    output reg                  count,
    output reg                  count_ce,
    output reg                  count_completed,
    output reg                  count_poisoned,
    output reg  [7:0]           count_outcome,
    output reg  [7:0]           count_send,
    output reg  [6:0]           count_send_count,

    output wire                 idle,

    // Clearing: slots clear_base to clear_base + 2^clear_log2 - 1 become those of a new group.
    input  wire                 clear,
    /* verilator lint_off UNUSEDSIGNAL */  // as many bits as the parameters need
    input  wire [15:0]          clear_base,
    /* verilator lint_on UNUSEDSIGNAL */
    input  wire [3:0]           clear_log2,
    input  wire [5:0]           clear_fan_in,   // less one
    // Reading a slot.
    input  wire                 read,
    /* verilator lint_off UNUSEDSIGNAL */  // as many bits as the parameters need
    input  wire [15:0]          read_slot,
    /* verilator lint_on UNUSEDSIGNAL */
    output wire                 busy,           // with clearing or reading
    output reg  [23:0]          state_tag,
    output reg  [63:0]          state_bitmap,
    output reg                  state_done,
    output reg                  state_served
);

`include "epic_pkg.vh"
`include "epic_types.vh"

localparam SLOT_W = $clog2(SLOTS);

`EPIC_CHECK(g_check_slots, SLOTS >= 2 && SLOTS <= 8192 && (SLOTS & (SLOTS - 1)) == 0,
    ("epic_m3_slots: SLOTS is %0d, expected a power of two from 2 to 8192", SLOTS))
`EPIC_CHECK(g_check_children, CHILDREN >= 1 && CHILDREN <= 64,
    ("epic_m3_slots: CHILDREN is %0d, expected 1 to 64", CHILDREN))
`EPIC_CHECK(g_check_records, REQ_BITS == REQ_W && PASS_BITS == PASS_W,
    ("epic_m3_slots: REQ_BITS and PASS_BITS are not those of epic_types.vh"))

// A slot's state.
localparam S_TAG = 0;
localparam S_HELD = 24;
localparam S_BYTES = 56;
localparam S_DONE = 70;
localparam S_SERVED = 71;
localparam S_CONGESTED = 72;
localparam S_ERR = 73;
localparam S_RECORD = 74;
localparam S_BITMAP = 75;
localparam STATE_W = 75 + CHILDREN;

localparam [31:0] AGREEMENT = ~((32'd1 << IMMDT_NULL_LSB) | (32'd1 << IMMDT_ERR_LSB));
localparam [13:0] RECORD_BYTES = CONFLICT_RECORD_BYTES[13:0];

function [CHILDREN-1:0] children_up_to(input [5:0] last);
    integer c;
    for (c = 0; c < CHILDREN; c = c + 1) children_up_to[c] = c[6:0] <= {1'b0, last};
endfunction

reg [REQ_BITS-1:0] req_i, req_j, req_k, req_l;
wire [SLOT_W-1:0]  slot_h = req_data[REQ_SLOT_LSB +: SLOT_W];
wire [SLOT_W-1:0]  slot_i = req_i[REQ_SLOT_LSB +: SLOT_W];
wire [SLOT_W-1:0]  slot_j = req_j[REQ_SLOT_LSB +: SLOT_W];
wire [SLOT_W-1:0]  slot_k = req_k[REQ_SLOT_LSB +: SLOT_W];
wire [SLOT_W-1:0]  slot_l = req_l[REQ_SLOT_LSB +: SLOT_W];
reg                valid_i, valid_j, valid_k, valid_l, valid_m;

// What the request in l does, and the last three writes.
wire               write_l, claims_l, counts_l, sets_length_l;
reg                write_m, write_n;
reg [SLOT_W-1:0]   slot_m;
reg [STATE_W-1:0]  state_m, state_n, state_o;

// ------------------------------------------------------------------------------------------- the control plane's access
reg                clearing_reg, reading_reg, came_reg, captured_reg;
reg [SLOT_W-1:0]   clear_slot_reg, read_slot_reg;
reg [15:0]         clear_left_reg;
reg [23:0]         clear_tag_reg;
reg [CHILDREN-1:0] clear_bitmap_reg;
reg [1:0]          turn_reg;
wire               clear_now = clearing_reg && !write_m;
wire               read_now = reading_reg && !req_valid;

assign busy = clearing_reg || reading_reg || came_reg || captured_reg;

// A slot starts as if the cell N before its first had been done.
reg [STATE_W-1:0] clear_state;
always @* begin
    clear_state = {STATE_W{1'b0}};
    clear_state[S_TAG +: 24] = clear_tag_reg;
    clear_state[S_DONE] = 1'b1;
    clear_state[S_BITMAP +: CHILDREN] = clear_bitmap_reg;
end

// ------------------------------------------------------------------------------------------------------------- h: read
wire [STATE_W-1:0] state_i;
reg  [STATE_W-1:0] state_j;
epic_ram #(.WIDTH(STATE_W), .DEPTH(SLOTS), .ANY(1)) slots (
    .clk(clk),
    .write(write_m || clear_now), .write_addr(write_m ? slot_m : clear_slot_reg),
    .write_data(write_m ? state_m : clear_state),
    .read(1'b1), .read_addr(req_valid ? slot_h : read_slot_reg), .read_data(state_i)
);

always @(posedge clk) begin
    turn_reg <= turn_reg + 2'd1;
    // Every fourth cycle is the control plane's while it wants one.
    hold <= (clearing_reg || reading_reg) && turn_reg == 2'd0;
    if (clear) begin
        clearing_reg <= 1'b1;
        clear_slot_reg <= clear_base[SLOT_W-1:0];
        clear_left_reg <= 16'd1 << clear_log2;
        clear_tag_reg <= -(24'd1 << clear_log2);
        clear_bitmap_reg <= children_up_to(clear_fan_in);
    end
    else if (clear_now) begin
        clear_slot_reg <= clear_slot_reg + 1'b1;
        clear_left_reg <= clear_left_reg - 16'd1;
        clear_tag_reg <= clear_tag_reg + 24'd1;
        if (clear_left_reg == 16'd1) clearing_reg <= 1'b0;
    end
    if (read) begin
        reading_reg <= 1'b1;
        read_slot_reg <= read_slot[SLOT_W-1:0];
    end
    else if (read_now) reading_reg <= 1'b0;
    came_reg <= read_now;
    captured_reg <= came_reg;
    if (captured_reg) begin
        state_tag <= state_j[S_TAG +: 24];
        state_bitmap <= 64'd0;
        state_bitmap[CHILDREN-1:0] <= state_j[S_BITMAP +: CHILDREN];
        state_done <= state_j[S_DONE];
        state_served <= state_j[S_SERVED];
    end
    if (rst) begin
        turn_reg <= 2'd0;
        hold <= 1'b0;
        clearing_reg <= 1'b0;
        reading_reg <= 1'b0;
        came_reg <= 1'b0;
        captured_reg <= 1'b0;
    end
end

// -------------------------------------------------------------------------------------------------- h to l: the requests
// Bit d: the request d ahead is for the same slot. There may be none: it has written nothing then, and bit 1 says so.
reg [5:1] same_i;
reg [3:1] same_j;
reg       same_k;      // bit 1
reg       takes_m_k;   // bit 2, and that one writes now: selects the whole state
always @(posedge clk) begin
    valid_i <= req_valid;
    valid_j <= valid_i;
    valid_k <= valid_j;
    valid_l <= valid_k;
    valid_m <= valid_l;
    req_i <= req_data;
    req_j <= req_i;
    req_k <= req_j;
    req_l <= req_k;
    same_i <= {slot_h == slot_m, slot_h == slot_l, slot_h == slot_k, slot_h == slot_j, slot_h == slot_i};
    same_j <= same_i[3:1];
    same_k <= same_j[1] && valid_k;
    takes_m_k <= same_j[2] && write_l;
    if (rst) begin
        valid_i <= 1'b0;
        valid_j <= 1'b0;
        valid_k <= 1'b0;
        valid_l <= 1'b0;
        valid_m <= 1'b0;
        takes_m_k <= 1'b0;
    end
end

// --------------------------------------------------------------------------------------------- i: out of the memory
reg                wrote_4_j, wrote_5_j;   // the request so many ahead has written the slot
reg [CHILDREN-1:0] bit_j, all_j;
reg [23:0]         last_j;                 // the cell N before the request's
integer c;
always @(posedge clk) begin
    state_j <= state_i;
    wrote_4_j <= same_i[4] && write_m;
    wrote_5_j <= same_i[5] && write_n;
    for (c = 0; c < CHILDREN; c = c + 1) bit_j[c] <= req_i[REQ_CHILD_LSB +: REQ_CHILD_WIDTH] == c[5:0];
    all_j <= children_up_to(req_i[REQ_FAN_IN_LSB +: REQ_FAN_IN_WIDTH]);
    last_j <= req_i[REQ_CELL_LSB +: 24] - (24'd1 << req_i[REQ_SLOT_LOG2_LSB +: REQ_SLOT_LOG2_WIDTH]);
end

// ------------------------------------------------------------------------- j: writes of before; and the request ahead
// With the request ahead, which is in k: `after` it if that makes its cell the slot's.
reg [STATE_W-1:0]  state_k;
reg [CHILDREN-1:0] bit_k, all_k;
reg [23:0]         last_k;
reg                after_older_k, after_equal_k, after_in_turn_k, after_differs_k, after_longer_k, same_child_k, both_k;
wire [23:0]        cell_j = req_j[REQ_CELL_LSB +: 24];
wire [23:0]        cell_k = req_k[REQ_CELL_LSB +: 24];
/* verilator lint_off UNUSEDSIGNAL */  // only the sign
wire [23:0]        after_j = cell_j - cell_k;
/* verilator lint_on UNUSEDSIGNAL */
always @(posedge clk) begin
    if (same_j[3] && write_m) state_k <= state_m;
    else if (wrote_4_j) state_k <= state_n;
    else if (wrote_5_j) state_k <= state_o;
    else state_k <= state_j;
    bit_k <= bit_j;
    all_k <= all_j;
    last_k <= last_j;
    after_older_k <= after_j[23];
    after_equal_k <= cell_j == cell_k;
    after_in_turn_k <= last_j == cell_k;
    after_differs_k <= ((req_j[REQ_IMM_LSB +: 32] ^ req_k[REQ_IMM_LSB +: 32]) & AGREEMENT) != 32'd0;
    after_longer_k <= req_j[REQ_BYTES_LSB +: 14] != req_k[REQ_BYTES_LSB +: 14];
    same_child_k <= req_j[REQ_CHILD_LSB +: REQ_CHILD_WIDTH] == req_k[REQ_CHILD_LSB +: REQ_CHILD_WIDTH];
    both_k <= (bit_j | bit_k) == all_j;
end

// ----------------------------------------------------------------------------------------------------- k: compared
wire [STATE_W-1:0]  slot_state_k = takes_m_k ? state_m : state_k;
wire [23:0]         tag_k = slot_state_k[S_TAG +: 24];
wire [CHILDREN-1:0] bitmap_k = slot_state_k[S_BITMAP +: CHILDREN];
/* verilator lint_off UNUSEDSIGNAL */  // only the sign
wire [23:0]         ahead_k = cell_k - tag_k;
/* verilator lint_on UNUSEDSIGNAL */
wire                equal_k = cell_k == tag_k;
wire                in_turn_k = last_k == tag_k;
wire                seen_k = (bitmap_k & bit_k) != {CHILDREN{1'b0}};
wire                full_k = bitmap_k == all_k;
wire                rest_k = (bitmap_k | bit_k) == all_k;
wire                rest_both_k = (bitmap_k | bit_k | bit_l) == all_k;
wire                differs_k = slot_state_k[S_HELD +: 32] != (req_k[REQ_IMM_LSB +: 32] & AGREEMENT);
wire                longer_k = slot_state_k[S_BYTES +: 14] != req_k[REQ_BYTES_LSB +: 14];
wire                empty_k = slot_state_k[S_BYTES +: 14] == 14'd0;

// ------------------------------------------------------------------------------------------------------ l: decided
reg [STATE_W-1:0]  state_l;
reg                use_m_l;      // the request ahead has written the slot
reg                older_l, newer_l, in_turn_l, seen_l, full_l, rest_l, differs_l, longer_l, empty_l;
reg                done_l, served_l, err_l, record_l;
reg                contribution_l, result_l, alone_l, has_bytes_l, record_sized_l;
reg [CHILDREN-1:0] bit_l;
wire               next_done, next_congested, next_err, next_has_record, next_empty, completed_l;

// What the request in l does to the slot of the one in k.
wire writes = same_k && write_l;
wire claims = same_k && claims_l;
wire joins = same_k && counts_l && !claims_l;
wire sets_length = same_k && sets_length_l;
always @(posedge clk) begin
    state_l <= slot_state_k;
    use_m_l <= writes;
    older_l <= claims ? after_older_k : ahead_k[23];
    newer_l <= claims ? !after_older_k && !after_equal_k : !ahead_k[23] && !equal_k;
    in_turn_l <= claims ? after_in_turn_k : in_turn_k;
    seen_l <= claims ? same_child_k : seen_k || (joins && same_child_k);
    full_l <= claims || joins ? completed_l : full_k;
    rest_l <= claims ? both_k : joins ? rest_both_k : rest_k;
    differs_l <= claims ? after_differs_k : differs_k;
    longer_l <= sets_length ? after_longer_k : longer_k;
    empty_l <= writes ? next_empty : empty_k;
    done_l <= writes ? next_done : slot_state_k[S_DONE];
    served_l <= writes || slot_state_k[S_SERVED];
    err_l <= writes ? next_err : slot_state_k[S_ERR];
    record_l <= writes ? next_has_record : slot_state_k[S_RECORD];
    contribution_l <= req_k[REQ_KIND_LSB +: REQ_KIND_WIDTH] == KIND_CONTRIBUTION;
    result_l <= req_k[REQ_KIND_LSB +: REQ_KIND_WIDTH] == KIND_RESULT;
    alone_l <= bit_k == all_k;
    has_bytes_l <= req_k[REQ_BYTES_LSB +: 14] != 14'd0;
    record_sized_l <= req_k[REQ_BYTES_LSB +: 14] == RECORD_BYTES;
    bit_l <= bit_k;
end

wire [STATE_W-1:0]   value_l = use_m_l ? state_m : state_l;
wire [CHILDREN-1:0]  next_bitmap;
wire [31:0]          next_held;
wire [13:0]          next_bytes;
wire                 write, poisoned, pass;
wire [PASS_BITS-1:0] pass_data_l;
wire [7:0]           outcome, send;
wire [6:0]           send_count;
epic_m3_decide #(.CHILDREN(CHILDREN)) decide (
    .req(req_l), .contribution(contribution_l), .result(result_l), .has_bytes(has_bytes_l), .record_sized(record_sized_l), .child_bit(bit_l), .alone(alone_l),
    .bitmap(value_l[S_BITMAP +: CHILDREN]), .done(done_l), .served(served_l), .congested(value_l[S_CONGESTED]),
    .err(err_l), .has_record(record_l), .held(value_l[S_HELD +: 32]), .bytes(value_l[S_BYTES +: 14]),
    .empty(empty_l), .older(older_l), .newer(newer_l), .in_turn(in_turn_l), .seen(seen_l), .full(full_l), .rest(rest_l),
    .differs(differs_l), .longer(longer_l),
    .write(write), .counts(counts_l), .claims(claims_l), .sets_length(sets_length_l), .next_empty(next_empty),
    .next_bitmap(next_bitmap), .next_done(next_done), .next_congested(next_congested), .next_err(next_err),
    .next_has_record(next_has_record), .next_held(next_held), .next_bytes(next_bytes),
    .pass_valid(pass), .pass(pass_data_l),
    .outcome(outcome), .completed(completed_l), .poisoned(poisoned), .send(send), .send_count(send_count)
);
assign write_l = valid_l && write;

// ------------------------------------------------------------------------------------------------------------ m: write
always @(posedge clk) begin
    write_m <= write_l;
    write_n <= write_m;
    slot_m <= slot_l;
    state_m[S_TAG +: 24] <= req_l[REQ_CELL_LSB +: 24];
    state_m[S_HELD +: 32] <= next_held;
    state_m[S_BYTES +: 14] <= next_bytes;
    state_m[S_DONE] <= next_done;
    state_m[S_SERVED] <= 1'b1;
    state_m[S_CONGESTED] <= next_congested;
    state_m[S_ERR] <= next_err;
    state_m[S_RECORD] <= next_has_record;
    state_m[S_BITMAP +: CHILDREN] <= next_bitmap;
    state_n <= state_m;
    state_o <= state_n;
    pass_valid <= valid_l && pass;
    pass_data <= pass_data_l;
    count <= valid_l;
    count_ce <= valid_l && req_l[REQ_CE_LSB];
    count_completed <= valid_l && completed_l;
    count_poisoned <= valid_l && poisoned;
    count_outcome <= outcome;
    count_send <= send;
    count_send_count <= send_count;
    if (rst) begin
        write_m <= 1'b0;
        write_n <= 1'b0;
        pass_valid <= 1'b0;
        count <= 1'b0;
        count_ce <= 1'b0;
        count_completed <= 1'b0;
        count_poisoned <= 1'b0;
    end
end

assign idle = !(req_valid || valid_i || valid_j || valid_k || valid_l || valid_m);

endmodule

`default_nettype wire
