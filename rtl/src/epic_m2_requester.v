// The sending side of an edge: one event, from a state to the next (spec section 7.2 with one packet a message). `next` of
// the table is what there is to send, CUR what is sent next; "repeat all" is CUR := UNA, and the sequencer sends whatever is
// between CUR and `next` when the port has room. So the timer of a packet starts when the packet is given to the port.
//
// CUT = 0: combinational. CUT = 1: in steps (epic_m2_sequencer): what the event is, is decided in one, and what becomes of
// the state in the next, when `now` is looked at again. Outputs belong to the event before the last `step`.

`default_nettype none

`include "epic_check.vh"
`include "epic_cut.vh"

module epic_m2_requester #(
    parameter CUT = 0,
    parameter RC_BITS = 308,     // RC_W
    parameter TIMERS_BITS = 104  // TIMERS_W
) (
    input  wire                   clk,
    input  wire                   step,
    input  wire [RC_BITS-1:0]     state,
    input  wire [23:0]            next,        // all before it may be sent
    input  wire [TIMERS_BITS-1:0] timers,
    input  wire [31:0]            now,

    input  wire [2:0]             rc_event,    // RC_*
    input  wire                   happens,     // 0: RC_NOTHING
    input  wire [23:0]            number,      // that the acknowledgement names
    input  wire [31:0]            rnr_wait,    // RC_RNR: microseconds
    input  wire                   once,        // the newest packet that is acknowledged was sent once,
    input  wire [31:0]            first_sent,  // then

    output reg  [RC_BITS-1:0]     next_state,
    output reg                    failed,      // the edge is in error from now on
    output wire                   unknown,     // acknowledges what was not sent
    output wire                   running,     // the timer, in next_state
    output wire                   wants        // there is something to send, in next_state
);

`include "epic_types.vh"
`include "epic_m2_types.vh"

`EPIC_CHECK(g_check_records, RC_BITS == RC_W && TIMERS_BITS == TIMERS_W,
    ("epic_m2_requester: RC_BITS and TIMERS_BITS are not those of epic_m2_types.vh"))

// A deadline is reached when `now` is this much after the timeout: `now` is up to 1 behind, and a packet that is repeated
// may pass an acknowledgement that went before it the first time.
localparam [31:0] GRANULARITY = 32'd2;

// ------------------------------------------------------------------------------------------------- what the event is
wire [23:0] una = state[RC_UNA_LSB +: RC_UNA_WIDTH];
wire [23:0] cur = state[RC_CUR_LSB +: RC_CUR_WIDTH];
wire [23:0] high = state[RC_HIGH_LSB +: RC_HIGH_WIDTH];
wire [23:0] served = state[RC_SERVED_LSB +: RC_SERVED_WIDTH];
wire [7:0]  retries = state[RC_RETRIES_LSB +: RC_RETRIES_WIDTH];
wire [7:0]  limit = timers[TIMERS_RETRY_LIMIT_LSB +: TIMERS_RETRY_LIMIT_WIDTH];
wire        acknowledges = rc_event == RC_ACK || rc_event == RC_NAK || rc_event == RC_REFUSED || rc_event == RC_RNR;

// Distances from the oldest packet that is not acknowledged; negative ones have bit 23 set.
`EPIC_CUT(cut_named, named, 24, number - una)
`EPIC_CUT(cut_ahead, ahead, 24, next - una)
`EPIC_CUT(cut_to_high, to_high, 24, high - una)
// What has arrived: all before `arrived`.
`EPIC_CUT(cut_arrived, arrived, 24, number + {23'd0, rc_event == RC_ACK})
`EPIC_CUT(cut_since_served, since_served, 24, number - served)
`EPIC_CUT(cut_newest, sends_newest, 1, cur == high)
`EPIC_CUT(cut_oldest, sends_oldest, 1, cur == una)

wire        late = named[23];
`EPIC_CUT(cut_gained, gained, 24, arrived - una)
wire [23:0] cur_behind = cur - arrived;
wire [23:0] high_behind = high - arrived;
wire [23:0] served_age = arrived - served;
`EPIC_CUT(cut_behind, behind, 4, ({cur_behind[23], high_behind[23], served_age[23:22]}))

`EPIC_CUT(cut_not_sent, not_sent, 1, !late && named >= ahead)
`EPIC_CUT(cut_gains, gains, 1, !gained[23] && gained != 24'd0)
`EPIC_CUT(cut_was_sent, newest_was_sent, 1, to_high >= gained && to_high != 24'd0)

wire answered_now = state[RC_SERVED_VALID_LSB] && (since_served[23] || since_served == 24'd0);
wire counts = happens && (acknowledges ? !not_sent : rc_event == RC_IMPLICIT);
wire progress_now = counts && gains;

// ------------------------------------------------------------------------------------------------------- the stage
localparam STAGE_W = RC_W + 3 + 1 + 24 + 24 + 24 + 32 + 64 + 14;
wire [STAGE_W-1:0] decided = {
    state, happens ? rc_event : RC_NOTHING, happens && acknowledges && not_sent, number, arrived, next, rnr_wait,
    timers[TIMERS_MIN_LSB +: TIMERS_MIN_WIDTH], timers[TIMERS_MAX_LSB +: TIMERS_MAX_WIDTH],
    progress_now, progress_now && once && newest_was_sent, not_sent, answered_now, behind, sends_newest, sends_oldest,
    named == 24'd0, named[23:22], retries >= limit
};
wire [STAGE_W-1:0] stage;
generate
    if (CUT != 0) begin : g_stage
        reg [STAGE_W-1:0] stage_reg;
        always @(posedge clk) if (step) stage_reg <= decided;
        assign stage = stage_reg;
    end
    else begin : g_no_stage
        assign stage = decided;
    end
endgenerate

wire [RC_W-1:0] old;
wire [2:0]      what;
wire [23:0]     named_number, new_una, may_send;
wire [31:0]     pause, minimum, maximum;
wire            progress, sample, was_not_sent, answered, cur_gone, high_gone, is_newest, is_oldest, is_una, exhausted;
wire [1:0]      served_quarter, named_quarter;
assign {
    old, what, unknown, named_number, new_una, may_send, pause, minimum, maximum,
    progress, sample, was_not_sent, answered, cur_gone, high_gone, served_quarter, is_newest, is_oldest, is_una, named_quarter, exhausted
} = stage;

// ------------------------------------------------------------------------------------------------- what comes of it
wire [23:0] old_una = old[RC_UNA_LSB +: RC_UNA_WIDTH];
wire [23:0] old_cur = old[RC_CUR_LSB +: RC_CUR_WIDTH];
wire        paused = old[RC_PAUSED_LSB];
wire [31:0] timeout = old[RC_TIMEOUT_LSB +: RC_TIMEOUT_WIDTH];
wire [31:0] base = old[RC_BASE_LSB +: RC_BASE_WIDTH];

wire        answers = what == RC_NAK && !was_not_sent && !answered;
wire        pauses = what == RC_RNR && !was_not_sent && (progress || is_una);
wire        expires = what == RC_TIMER && !paused && !exhausted;
wire        back = (what == RC_ACK && progress && paused) || answers || (what == RC_TIMER && paused) || expires;
wire [23:0] cur_after = old_cur + 24'd1;

// The numbers and flags.
reg [RC_W-1:0] numbers;
always @* begin
    numbers = old;
    failed = 1'b0;
    if (progress) begin
        numbers[RC_UNA_LSB +: RC_UNA_WIDTH] = new_una;
        if (cur_gone) numbers[RC_CUR_LSB +: RC_CUR_WIDTH] = new_una;
        if (high_gone) numbers[RC_HIGH_LSB +: RC_HIGH_WIDTH] = new_una;
        numbers[RC_RETRIES_LSB +: RC_RETRIES_WIDTH] = 8'd0;
        numbers[RC_PAUSED_LSB] = 1'b0;
        if (sample) numbers[RC_SAMPLED_LSB] = 1'b1;
        // Serial comparison reaches 2^23 cells back: forget it before.
        if (served_quarter == 2'b01) numbers[RC_SERVED_VALID_LSB] = 1'b0;
    end
    case (what)
        RC_NAK:
            if (answers) begin
                numbers[RC_SERVED_LSB +: RC_SERVED_WIDTH] = named_number;
                numbers[RC_SERVED_VALID_LSB] = !named_quarter[1] || named_quarter[0];  // not one of 2^22 cells ago
                numbers[RC_PAUSED_LSB] = 1'b0;
            end
        RC_REFUSED: failed = !was_not_sent;
        RC_RNR:
            if (pauses) begin
                numbers[RC_PAUSED_LSB] = 1'b1;
                numbers[RC_RETRIES_LSB +: RC_RETRIES_WIDTH] = 8'd0;
            end
        RC_TIMER:
            if (paused) numbers[RC_PAUSED_LSB] = 1'b0;
            else if (exhausted) failed = 1'b1;
            else begin
                numbers[RC_RETRIES_LSB +: RC_RETRIES_WIDTH] = old[RC_RETRIES_LSB +: RC_RETRIES_WIDTH] + 8'd1;
                numbers[RC_SERVED_LSB +: RC_SERVED_WIDTH] = 24'hffffff;
                numbers[RC_SERVED_VALID_LSB] = old_una[23:22] == 2'b00;
            end
        RC_SENT: begin
            numbers[RC_CUR_LSB +: RC_CUR_WIDTH] = cur_after;
            if (is_newest) numbers[RC_HIGH_LSB +: RC_HIGH_WIDTH] = cur_after;
        end
        default: ;
    endcase
    if (back) numbers[RC_CUR_LSB +: RC_CUR_WIDTH] = progress ? new_una : old_una;
end
// They lie side by side, from UNA on.
localparam NUMBERS_W = RC_RETRIES_LSB + RC_RETRIES_WIDTH;
`EPIC_CUT(cut_numbers, new_numbers, NUMBERS_W, numbers[NUMBERS_W-1:0])
wire [RC_W-1:0] settled = {old[RC_W-1:NUMBERS_W], new_numbers};
`EPIC_CUT(cut_failed, has_failed, 1, failed)

// The times.
wire [39:0] next_srtt, next_rttvar;
wire [31:0] sampled_base, unbounded;
wire        too_short, too_long;
epic_m2_rto #(.CUT(CUT)) rto (
    .clk(clk), .step(step),
    .sampled(state[RC_SAMPLED_LSB]),
    .srtt(state[RC_SRTT_LSB +: RC_SRTT_WIDTH]), .rttvar(state[RC_VAR_LSB +: RC_VAR_WIDTH]),
    .sample(now - first_sent + 32'd1),
    .minimum(minimum), .maximum(maximum),
    .next_srtt(next_srtt), .next_rttvar(next_rttvar), .base(sampled_base),
    .unbounded(unbounded), .too_short(too_short), .too_long(too_long)
);
`EPIC_CUT(cut_doubled, doubled, 32, timeout[31] || {timeout[30:0], 1'b0} > maximum ? maximum : {timeout[30:0], 1'b0})
// What the timeout is if no sample says it.
`EPIC_CUT(cut_kept, kept, 32, expires ? doubled : progress ? base : timeout)
wire [31:0] new_timeout = sample ? sampled_base : kept;
// The deadline: each timeout that it may be is added before it is known which one it is.
`EPIC_CUT(cut_wait, kept_wait, 32, pauses ? pause : expires ? doubled : progress ? base : timeout)
`EPIC_CUT(cut_from, from, 32, now + GRANULARITY)
`EPIC_CUT(cut_until_kept, until_kept, 32, from + kept_wait)
`EPIC_CUT(cut_until_minimum, until_minimum, 32, from + minimum)
`EPIC_CUT(cut_until_maximum, until_maximum, 32, from + maximum)
`EPIC_CUT(cut_until_sampled, until_sampled, 32, from + unbounded)
`EPIC_CUT(cut_sampled_wait, waits_sampled, 1, sample && !pauses)
`EPIC_CUT(cut_is_minimum, is_minimum, 1, too_short)
`EPIC_CUT(cut_is_maximum, is_maximum, 1, too_long)
wire [31:0] deadline = !waits_sampled ? until_kept : is_minimum ? until_minimum : is_maximum ? until_maximum : until_sampled;
`EPIC_CUT(cut_starts, starts, 1, progress || pauses || (what == RC_SENT && is_oldest))
`EPIC_CUT(cut_times, times_out, 1, progress || expires)

always @* begin
    next_state = settled;
    if (sample) begin
        next_state[RC_BASE_LSB +: RC_BASE_WIDTH] = sampled_base;
        next_state[RC_SRTT_LSB +: RC_SRTT_WIDTH] = next_srtt;
        next_state[RC_VAR_LSB +: RC_VAR_WIDTH] = next_rttvar;
    end
    if (times_out) next_state[RC_TIMEOUT_LSB +: RC_TIMEOUT_WIDTH] = new_timeout;
    if (starts) next_state[RC_DEADLINE_LSB +: RC_DEADLINE_WIDTH] = deadline;
end

wire [23:0] settled_cur = settled[RC_CUR_LSB +: RC_CUR_WIDTH];
`EPIC_CUT(cut_running, is_running, 1,
    !has_failed && (settled[RC_PAUSED_LSB] || settled[RC_UNA_LSB +: RC_UNA_WIDTH] != settled_cur))
`EPIC_CUT(cut_wants, is_wanting, 1, !has_failed && !settled[RC_PAUSED_LSB] && settled_cur != may_send)
assign running = is_running;
assign wants = is_wanting;

wire unused = &{1'b0, clk, step, timers, cur_behind, high_behind, served_age, numbers};

endmodule

`default_nettype wire
