// The slots of Mode III, one group of N = 2 slots: what clauses EPIC-M3-01 to -06 say of a slot, for any requests.
//
//   invariants of a slot   its cells are its own (two cells never own it at once), its bitmap names children of the
//                          group only, and when it is done its bitmap is complete
//   every write            is made from the slot as the write before left it; the tag never goes back, in serial
//                          arithmetic; while it stays, no child is forgotten and `done` stays
//   every request          leaves exactly one outcome, 5 cycles later; a contribution is counted exactly when its
//                          child's bit was not there, and only then is the slot written
//
// Requests come in any cycles, for the same slot or another. What is written last is in the memory by the time that the next
// write is made, so the memory tells whether each was decided on the slot as the one before left it.
//
// The properties look at the slot memory and its write port by name.

`default_nettype none

module epic_m3_slots_props #(
    parameter CHILDREN = 3
) (
    input wire         clk,
    input wire         req_valid,
    input wire [159:0] req_data,
    input wire         read,
    input wire [15:0]  read_slot
);

`include "epic_pkg.vh"
`include "epic_types.vh"

localparam TAG = 0, DONE = 70, BITMAP = 75, STATE_W = 75 + CHILDREN;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

// The group is installed in the first cycle after reset; requests come when that is done.
reg  installed = 1'b0, installing = 1'b0;
wire clear = started && !installed && !installing;
wire busy;
always @(posedge clk) begin
    installing <= clear || (installing && busy);
    installed <= installed || (installing && !clear && !busy);
end

(* anyconst *) wire [5:0] fan_in;
(* anyconst *) wire       root, guard;
always @* assume (fan_in < CHILDREN);

wire                hold, pass_valid, count, idle;
wire [PASS_W-1:0]   pass_data;
wire                count_ce, count_completed, count_poisoned;
wire [7:0]          count_outcome, count_send;
wire [6:0]          count_send_count;
wire [23:0]         state_tag;
wire [63:0]         state_bitmap;
wire                state_done, state_served;
epic_m3_slots #(.SLOTS(2), .CHILDREN(CHILDREN), .REQ_BITS(REQ_W), .PASS_BITS(PASS_W)) dut (
    .clk(clk), .rst(rst),
    .req_valid(req_valid), .req_data(req_data), .hold(hold),
    .pass_valid(pass_valid), .pass_data(pass_data),
    .count(count), .count_ce(count_ce), .count_completed(count_completed), .count_poisoned(count_poisoned),
    .count_outcome(count_outcome), .count_send(count_send), .count_send_count(count_send_count), .idle(idle),
    .clear(clear), .clear_base(16'd0), .clear_log2(4'd1), .clear_fan_in(fan_in),
    .read(read), .read_slot(read_slot), .busy(busy),
    .state_tag(state_tag), .state_bitmap(state_bitmap), .state_done(state_done), .state_served(state_served)
);

(* hierconn *) wire [STATE_W-1:0] \dut.slots.words[0] ;
(* hierconn *) wire [STATE_W-1:0] \dut.slots.words[1] ;
(* hierconn *) wire [STATE_W-1:0] \dut.state_m ;
(* hierconn *) wire               \dut.write_m ;
(* hierconn *) wire               \dut.slot_m ;
wire               write = \dut.write_m ;
wire [STATE_W-1:0] after = \dut.state_m ;
wire [STATE_W-1:0] before = \dut.slot_m ? \dut.slots.words[1] : \dut.slots.words[0] ;

// For the induction: how far the installation is.
(* hierconn *) wire                \dut.clearing_reg ;
(* hierconn *) wire                \dut.clear_slot_reg ;
(* hierconn *) wire [15:0]         \dut.clear_left_reg ;
(* hierconn *) wire [23:0]         \dut.clear_tag_reg ;
(* hierconn *) wire [CHILDREN-1:0] \dut.clear_bitmap_reg ;
wire        clearing = \dut.clearing_reg ;
wire        clear_slot = \dut.clear_slot_reg ;
wire [15:0] clear_left = \dut.clear_left_reg ;
wire [23:0] clear_tag = \dut.clear_tag_reg ;

// What epic_m3_admit promises of a request.
wire [1:0]  kind = req_data[REQ_KIND_LSB +: REQ_KIND_WIDTH];
wire [23:0] cell_number = req_data[REQ_CELL_LSB +: 24];
wire [5:0]  child = req_data[REQ_CHILD_LSB +: 6];
wire [7:0]  reason = req_data[REQ_REASON_LSB +: 8];
wire        is_slot = kind == KIND_CONTRIBUTION || kind == KIND_RESULT;
always @(posedge clk) begin
    assume (!req_valid || installed);
    assume (!read || (installed && !busy));
    assume (read_slot < 2);
    if (req_valid) begin
        assume (!is_slot || req_data[REQ_SLOT_LSB +: REQ_SLOT_WIDTH] == {15'd0, cell_number[0]});
        assume (req_data[REQ_FAN_IN_LSB +: 6] == fan_in && child <= fan_in);
        assume (req_data[REQ_SLOT_LOG2_LSB +: REQ_SLOT_LOG2_WIDTH] == 4'd1);
        assume (req_data[REQ_ROOT_LSB] == root && req_data[REQ_GUARD_LSB] == guard);
        assume (kind != KIND_RESULT || !root);
        assume (reason >= COUNTER_DROP_TRUNCATED && reason <= COUNTERS);
    end
end

// The request whose outcome is told now, five cycles after it came.
reg  [4:0]  taken = 5'd0;
reg  [39:0] was [0:4];
wire [1:0]  kind_5;
wire [23:0] cell_5;
wire [5:0]  child_5;
wire [7:0]  reason_5;
assign {kind_5, cell_5, child_5, reason_5} = was[4];
integer s;
always @(posedge clk) begin
    taken <= rst ? 5'd0 : {taken[3:0], req_valid};
    was[0] <= {kind, cell_number, child, reason};
    for (s = 1; s < 5; s = s + 1) was[s] <= was[s-1];
end

wire [CHILDREN-1:0] all = {CHILDREN{1'b1}} >> (CHILDREN - 1 - fan_in);
wire [CHILDREN-1:0] bit_5 = {{(CHILDREN - 1){1'b0}}, 1'b1} << child_5;
wire [23:0]         step = after[TAG +: 24] - before[TAG +: 24];
wire [CHILDREN-1:0] before_bits = before[BITMAP +: CHILDREN];
wire [CHILDREN-1:0] after_bits = after[BITMAP +: CHILDREN];
wire                counted = count && count_outcome == COUNTER_RX_CONTRIBUTION;
wire                accepted = count && count_outcome == COUNTER_RX_RESULT;

wire [STATE_W-1:0] slot_0 = \dut.slots.words[0] ;
wire [STATE_W-1:0] slot_1 = \dut.slots.words[1] ;
wire                is_0 = installed || (installing && !(clearing && !clear_slot));
wire                is_1 = installed || (installing && !clearing);
always @(posedge clk) if (started) begin
    a_own: assert ((!is_0 || !slot_0[TAG]) && (!is_1 || slot_1[TAG]));
    a_children: assert ((!is_0 || (slot_0[BITMAP +: CHILDREN] & ~all) == 0)
        && (!is_1 || (slot_1[BITMAP +: CHILDREN] & ~all) == 0));
    a_complete: assert ((!is_0 || !slot_0[DONE] || slot_0[BITMAP +: CHILDREN] == all)
        && (!is_1 || !slot_1[DONE] || slot_1[BITMAP +: CHILDREN] == all));
    a_install: assert (!clearing || (installing && !installed && clear_left == 2 - clear_slot
        && clear_tag == (clear_slot ? 24'hffffff : 24'hfffffe) && \dut.clear_bitmap_reg == all));
    a_quiet: assert (installed || (idle && !write && taken == 0));
end

always @(posedge clk) if (started) begin
    a_outcome: assert (count == taken[4]);
    a_of_kind: assert (!count || (
        kind_5 == KIND_CONTRIBUTION ? count_outcome == COUNTER_RX_CONTRIBUTION || count_outcome == COUNTER_RX_DUPLICATE
            || count_outcome == COUNTER_RX_STALE || count_outcome == COUNTER_DROP_WINDOW :
        kind_5 == KIND_RESULT ? count_outcome == COUNTER_RX_RESULT || count_outcome == COUNTER_RX_DUPLICATE
            || count_outcome == COUNTER_RX_STALE || count_outcome == COUNTER_DROP_UNEXPECTED :
        kind_5 == KIND_REFLECTION ? count_outcome == COUNTERS : count_outcome == reason_5));
    a_written: assert (write == (counted || accepted));
    if (write) begin
        a_forward: assert (!step[23]);
        a_cell: assert (after[TAG +: 24] == cell_5);
        a_counted_once: assert (!counted || step != 0 || (before_bits & bit_5) == 0);
        a_joined: assert (!counted || after_bits == ((step == 0 ? before_bits : 0) | bit_5));
        a_completed: assert (!counted || count_completed == (after_bits == all));
        a_done_when_full: assert (!counted || after[DONE] == (root && after_bits == all));
        a_kept: assert (!accepted || (step == 0 && after_bits == before_bits && before_bits == all));
        a_done: assert (step != 0 || !before[DONE]);
        a_result: assert (!accepted || after[DONE]);
        a_window: assert (!guard || step == 0 || (step == 2 && before[DONE]));
    end
    // What was there already is no contribution; what is stale is older.
    if (count && kind_5 == KIND_CONTRIBUTION && !counted) begin
        a_duplicate: assert (count_outcome != COUNTER_RX_DUPLICATE || cell_5 != before_5[TAG +: 24]
            || (before_5[BITMAP +: CHILDREN] & bit_5) != 0);
        a_stale: assert (count_outcome != COUNTER_RX_STALE || ahead_5[23]);
    end
    c_reuse: cover (write && step == 2 && before[DONE] && before_bits == 3'b111 && installed);
    c_result: cover (accepted && after_bits == 3'b011);
    c_back_to_back: cover (count && taken[3] && kind_5 == KIND_CONTRIBUTION && write && before[BITMAP] && step == 0);
    // One cell from nothing to its result, a contribution a cycle; and a stale frame right behind the first of a new cell.
    c_at_once: cover (counted && count_completed && in_a_row == 2 && step == 0 && fan_in == 2);
    c_overtaken: cover (count && count_outcome == COUNTER_RX_STALE && claimed && cell_5 + 24'd2 == before_5[TAG +: 24]);
    c_stale: cover (count && count_outcome == COUNTER_RX_STALE && kind_5 == KIND_CONTRIBUTION);
end

// Contributions counted in a row, and whether the one before was the first of its cell.
reg [1:0] in_a_row = 2'd0;
reg       claimed = 1'b0;
always @(posedge clk) begin
    in_a_row <= rst || !counted ? 2'd0 : in_a_row == 2'd3 ? 2'd3 : in_a_row + 2'd1;
    claimed <= started && write && step != 0;
end

// The slot of a request that is not written: nobody else has written it since it was read.
wire [STATE_W-1:0] before_5 = cell_5[0] ? \dut.slots.words[1] : \dut.slots.words[0] ;
wire [23:0]        ahead_5 = cell_5 - before_5[TAG +: 24];

endmodule

`default_nettype wire
