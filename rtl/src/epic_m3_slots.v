// Mode III, second half of the pipeline: the slots. A request reads its slot, is decided on (epic_m3_decide) and writes the
// slot; one request a cycle. A request for a slot that another in the pipeline may still write waits, so each finds the
// slot as the one before it left it. The control plane's clearing and reading take cycles that are free, or make some.

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
    output wire                 req_ready,

    output reg                  pass_valid,
    output reg  [PASS_BITS-1:0] pass_data,
    input  wire                 pass_room,      // for five more

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

function [CHILDREN-1:0] children_up_to(input [5:0] last);
    integer c;
    for (c = 0; c < CHILDREN; c = c + 1) children_up_to[c] = c[6:0] <= {1'b0, last};
endfunction

wire [SLOT_W-1:0] slot_f = req_data[REQ_SLOT_LSB +: SLOT_W];
wire [1:0]        kind_f = req_data[REQ_KIND_LSB +: REQ_KIND_WIDTH];
wire              uses_f = kind_f == KIND_CONTRIBUTION || kind_f == KIND_RESULT;

reg                valid_g, valid_h, valid_i, valid_j;
reg                uses_g, uses_h, uses_i;
reg [REQ_BITS-1:0] req_g, req_h, req_i;
wire [SLOT_W-1:0]  slot_g = req_g[REQ_SLOT_LSB +: SLOT_W];
wire [SLOT_W-1:0]  slot_h = req_h[REQ_SLOT_LSB +: SLOT_W];
wire [SLOT_W-1:0]  slot_i = req_i[REQ_SLOT_LSB +: SLOT_W];

// ------------------------------------------------------------------------------------------- the control plane's access
reg               clearing_reg, reading_reg, captured_reg;
reg [SLOT_W-1:0]  clear_slot_reg, read_slot_reg;
reg [15:0]        clear_left_reg;
reg [23:0]        clear_tag_reg;
reg [CHILDREN-1:0] clear_bitmap_reg;
reg [1:0]         turn_reg;
wire              clear_now;
// Every fourth cycle is the control plane's while it wants one.
wire              read_now = reading_reg && (!req_valid || turn_reg == 2'd0);
wire              hold = (reading_reg || clearing_reg) && turn_reg == 2'd0;

assign busy = clearing_reg || reading_reg || captured_reg;

// ------------------------------------------------------------------------------------------------------------- f: read
reg               write_j;
reg [SLOT_W-1:0]  slot_j;
reg [STATE_W-1:0] state_j;

wire hazard = uses_f && ((valid_g && uses_g && slot_g == slot_f) || (valid_h && uses_h && slot_h == slot_f)
    || (valid_i && uses_i && slot_i == slot_f) || (write_j && slot_j == slot_f));
assign req_ready = !hazard && !hold && pass_room;
wire take = req_valid && req_ready;

wire [STATE_W-1:0] state_g;
epic_ram #(.WIDTH(STATE_W), .DEPTH(SLOTS)) slots (
    .clk(clk),
    .write(write_j || clear_now), .write_addr(write_j ? slot_j : clear_slot_reg),
    .write_data(write_j ? state_j : clear_state),
    .read(take || read_now), .read_addr(read_now && !take ? read_slot_reg : slot_f), .read_data(state_g)
);

// A slot starts as if the cell N before its first had been done.
reg [STATE_W-1:0] clear_state;
always @* begin
    clear_state = {STATE_W{1'b0}};
    clear_state[S_TAG +: 24] = clear_tag_reg;
    clear_state[S_DONE] = 1'b1;
    clear_state[S_BITMAP +: CHILDREN] = clear_bitmap_reg;
end
assign clear_now = clearing_reg && !write_j;

always @(posedge clk) begin
    turn_reg <= turn_reg + 2'd1;
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
    else if (read_now && !take) reading_reg <= 1'b0;
    captured_reg <= read_now && !take;
    if (captured_reg) begin
        state_tag <= state_g[S_TAG +: 24];
        state_bitmap <= 64'd0;
        state_bitmap[CHILDREN-1:0] <= state_g[S_BITMAP +: CHILDREN];
        state_done <= state_g[S_DONE];
        state_served <= state_g[S_SERVED];
    end
    if (rst) begin
        turn_reg <= 2'd0;
        clearing_reg <= 1'b0;
        reading_reg <= 1'b0;
        captured_reg <= 1'b0;
    end
end

// ----------------------------------------------------------------------------------------------- g, h: slot and request
reg [STATE_W-1:0] state_h, state_i;
always @(posedge clk) begin
    valid_g <= take;
    uses_g <= uses_f;
    req_g <= req_data;
    valid_h <= valid_g;
    uses_h <= uses_g;
    req_h <= req_g;
    state_h <= state_g;
    valid_i <= valid_h;
    uses_i <= uses_h;
    req_i <= req_h;
    state_i <= state_h;
    valid_j <= valid_i;
    if (rst) begin
        valid_g <= 1'b0;
        valid_h <= 1'b0;
        valid_i <= 1'b0;
        valid_j <= 1'b0;
    end
end

localparam [31:0] AGREEMENT = ~((32'd1 << IMMDT_NULL_LSB) | (32'd1 << IMMDT_ERR_LSB));

wire [23:0] ahead_h = req_h[REQ_CELL_LSB +: 24] - state_h[S_TAG +: 24];
wire [5:0]  child_h = req_h[REQ_CHILD_LSB +: REQ_CHILD_WIDTH];
reg                older_i, newer_i, in_turn_i, differs_i, longer_i;
reg [CHILDREN-1:0] child_bit_i, all_i;
integer c;
always @(posedge clk) begin
    older_i <= ahead_h[23];
    newer_i <= !ahead_h[23] && ahead_h != 24'd0;
    in_turn_i <= ahead_h == (24'd1 << req_h[REQ_SLOT_LOG2_LSB +: REQ_SLOT_LOG2_WIDTH]);
    differs_i <= state_h[S_HELD +: 32] != (req_h[REQ_IMM_LSB +: 32] & AGREEMENT);
    longer_i <= state_h[S_BYTES +: 14] != req_h[REQ_BYTES_LSB +: 14];
    for (c = 0; c < CHILDREN; c = c + 1) child_bit_i[c] <= child_h == c[5:0];
    all_i <= children_up_to(req_h[REQ_FAN_IN_LSB +: REQ_FAN_IN_WIDTH]);
end

// ----------------------------------------------------------------------------------------------------------- i: decide
wire                 write_i, completed_i, poisoned_i, pass_i;
wire [CHILDREN-1:0]  next_bitmap;
wire                 next_done, next_congested, next_err, next_has_record;
wire [31:0]          next_held;
wire [13:0]          next_bytes;
wire [PASS_BITS-1:0] pass_data_i;
wire [7:0]           outcome_i, send_i;
wire [6:0]           send_count_i;
epic_m3_decide #(.CHILDREN(CHILDREN)) decide (
    .req(req_i),
    .bitmap(state_i[S_BITMAP +: CHILDREN]), .done(state_i[S_DONE]), .served(state_i[S_SERVED]),
    .congested(state_i[S_CONGESTED]), .err(state_i[S_ERR]), .has_record(state_i[S_RECORD]),
    .held(state_i[S_HELD +: 32]), .bytes(state_i[S_BYTES +: 14]),
    .older(older_i), .newer(newer_i), .in_turn(in_turn_i), .child_bit(child_bit_i), .all_children(all_i),
    .differs(differs_i), .longer(longer_i),
    .write(write_i), .next_bitmap(next_bitmap), .next_done(next_done), .next_congested(next_congested),
    .next_err(next_err), .next_has_record(next_has_record), .next_held(next_held), .next_bytes(next_bytes),
    .pass_valid(pass_i), .pass(pass_data_i),
    .outcome(outcome_i), .completed(completed_i), .poisoned(poisoned_i), .send(send_i), .send_count(send_count_i)
);

// ------------------------------------------------------------------------------------------------------------ j: write
always @(posedge clk) begin
    write_j <= valid_i && write_i;
    slot_j <= slot_i;
    state_j[S_TAG +: 24] <= req_i[REQ_CELL_LSB +: 24];
    state_j[S_HELD +: 32] <= next_held;
    state_j[S_BYTES +: 14] <= next_bytes;
    state_j[S_DONE] <= next_done;
    state_j[S_SERVED] <= 1'b1;
    state_j[S_CONGESTED] <= next_congested;
    state_j[S_ERR] <= next_err;
    state_j[S_RECORD] <= next_has_record;
    state_j[S_BITMAP +: CHILDREN] <= next_bitmap;
    pass_valid <= valid_i && pass_i;
    pass_data <= pass_data_i;
    count <= valid_i;
    count_ce <= valid_i && req_i[REQ_CE_LSB];
    count_completed <= valid_i && completed_i;
    count_poisoned <= valid_i && poisoned_i;
    count_outcome <= outcome_i;
    count_send <= send_i;
    count_send_count <= send_count_i;
    if (rst) begin
        write_j <= 1'b0;
        pass_valid <= 1'b0;
        count <= 1'b0;
        count_ce <= 1'b0;
        count_completed <= 1'b0;
        count_poisoned <= 1'b0;
    end
end

assign idle = !(valid_g || valid_h || valid_i || valid_j);

endmodule

`default_nettype wire
