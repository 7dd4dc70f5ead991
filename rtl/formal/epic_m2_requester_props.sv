// The sending side of an edge (spec section 7.2), from a new edge on: any events in any order, with any numbers and
// times.
//
//   what is sent      UNA <= CUR <= HIGH <= next, in serial arithmetic and never more than a window; UNA never goes
//                     back and moves by acknowledgements alone, HIGH by them and by sending
//   what is repeated  CUR goes back for an expired timer, the end of a pause and a NAK that was not answered yet; one
//                     NAK is answered once, until a timer expires
//   timers            run for an edge that waits for something, and only for it; a timer that starts does so with a
//                     deadline of this event; the timeout stays within its bounds, retries within their limit
//   the rest          what names a packet that was not sent changes nothing
//
// Events are those that the sequencer gives: epic_m2_sequencer_props asserts what is assumed of them here.

`default_nettype none

module epic_m2_requester_props #(
    parameter WINDOW = 4
) (
    input wire        clk,
    input wire [2:0]  rc_event,
    input wire [23:0] number,
    input wire [31:0] now,
    input wire [31:0] rnr_wait,
    input wire        once,
    input wire [31:0] first_sent,
    input wire        grows  // there is one more to send
);

`include "epic_types.vh"
`include "epic_m2_types.vh"

localparam [31:0] GRANULARITY = 32'd2;

reg started = 1'b0;
always @(posedge clk) started <= 1'b1;

(* anyconst *) wire [TIMERS_W-1:0] timers;
wire [31:0] minimum = timers[TIMERS_MIN_LSB +: 32];
wire [31:0] maximum = timers[TIMERS_MAX_LSB +: 32];
wire [31:0] initial_wait = timers[TIMERS_INITIAL_LSB +: 32];
wire [7:0]  limit = timers[TIMERS_RETRY_LIMIT_LSB +: 8];
always @* assume (minimum <= initial_wait && initial_wait <= maximum);

reg  [RC_W-1:0] state;
reg  [23:0]     next = 24'd0;
reg             dead = 1'b0;
wire [RC_W-1:0] next_state;
wire            failed, unknown, running, wants;
epic_m2_requester dut (
    .state(state), .next(next), .timers(timers), .now(now),
    .clk(clk), .step(1'b1), .rc_event(rc_event), .happens(1'b1), .number(number), .rnr_wait(rnr_wait), .once(once), .first_sent(first_sent),
    .next_state(next_state), .failed(failed), .unknown(unknown), .running(running), .wants(wants)
);

wire [23:0] una = state[RC_UNA_LSB +: 24], una_after = next_state[RC_UNA_LSB +: 24];
wire [23:0] cur = state[RC_CUR_LSB +: 24], cur_after = next_state[RC_CUR_LSB +: 24];
wire [23:0] high = state[RC_HIGH_LSB +: 24], high_after = next_state[RC_HIGH_LSB +: 24];
wire [23:0] served = state[RC_SERVED_LSB +: 24];
wire        paused = state[RC_PAUSED_LSB], paused_after = next_state[RC_PAUSED_LSB];
wire [7:0]  retries = state[RC_RETRIES_LSB +: 8];
wire [31:0] timeout = state[RC_TIMEOUT_LSB +: 32], timeout_after = next_state[RC_TIMEOUT_LSB +: 32];
wire [31:0] base = state[RC_BASE_LSB +: 32];
wire [31:0] deadline = state[RC_DEADLINE_LSB +: 32], deadline_after = next_state[RC_DEADLINE_LSB +: 32];

// Distances from the oldest packet that is not acknowledged.
wire [23:0] to_cur = cur - una, to_high = high - una, to_next = next - una;
wire [23:0] named = number - una;
wire [23:0] gained = una_after - una;
wire        acknowledges = rc_event == RC_ACK || rc_event == RC_NAK || rc_event == RC_REFUSED || rc_event == RC_RNR;
wire        not_sent = !named[23] && named >= to_next;
wire        runs = paused || cur != una;
wire [31:0] late = now - deadline;

always @(posedge clk) begin
    state <= next_state;
    dead <= dead || failed;
    next <= next + (grows && to_next < WINDOW);
    if (!started) begin
        state <= {RC_W{1'b0}};
        state[RC_SERVED_LSB +: 24] <= 24'hffffff;
        state[RC_SERVED_VALID_LSB] <= 1'b1;
        state[RC_BASE_LSB +: 32] <= initial_wait;
        state[RC_TIMEOUT_LSB +: 32] <= initial_wait;
        next <= 24'd0;
        dead <= 1'b0;
    end
end

always @* begin
    assume (rc_event != RC_SENT || (cur != next && !paused));
    assume (rc_event != RC_IMPLICIT || named[23] || named <= to_next);
    assume (rc_event != RC_TIMER || (runs && !late[31]));
    assume (!dead || rc_event == RC_NOTHING);
end

// One number, any: has a NAK of it been answered, and is it near?
(* anyconst *) wire [23:0] watched;
wire [23:0] age = una_after - watched;
wire [23:0] kept = cur - una_after;  // where CUR stays unless it goes back
wire        goes_back = rc_event != RC_SENT && cur_after != (kept[23] ? una_after : cur);
wire [23:0] since = served - watched;
reg         answered = 1'b0;
always @(posedge clk) begin
    if (rc_event == RC_NAK && number == watched && !not_sent) answered <= 1'b1;
    else if (rc_event == RC_TIMER && !paused) answered <= 1'b0;
    // A window ahead, or less than 2^22 back.
    if (!started || (age[23:22] != 2'b00 && ~age >= WINDOW)) answered <= 1'b0;
end
// How far serial comparison is relied upon: 2^22 back, a window ahead.
function near(input [23:0] behind);
    near = behind <= 24'h400000 || ~behind < WINDOW;
endfunction
wire [23:0] served_age = una - served, watched_age = una - watched;

always @(posedge clk) if (started) begin
    a_order: assert (to_cur <= to_high && to_high <= to_next && to_next <= WINDOW);
    a_retries: assert (retries <= limit);
    a_bounds: assert (minimum <= base && base <= timeout && timeout <= maximum);
    a_paused: assert (!paused || una != next);
    // For the induction: what is served is near, and not below a NAK that was answered.
    a_served: assert (!state[RC_SERVED_VALID_LSB] || near(served_age));
    a_watched: assert (!answered || (near(watched_age) && state[RC_SERVED_VALID_LSB] && !since[23]));

    a_forward: assert (gained <= to_next);
    a_acknowledged: assert (gained == 0 || rc_event == RC_IMPLICIT || acknowledges);
    a_high: assert (high_after == high || (rc_event == RC_SENT && cur == high && high_after == high + 24'd1)
        || (gained > to_high && high_after == una_after));
    a_sent: assert (rc_event != RC_SENT || cur_after == cur + 24'd1);
    a_back: assert (!goes_back || (cur_after == una_after
        && (rc_event == RC_TIMER || rc_event == RC_NAK || (rc_event == RC_ACK && paused && gained != 0))));
    a_expired: assert (rc_event != RC_TIMER || failed || cur_after == una);
    a_nak_once: assert (!(answered && rc_event == RC_NAK && number == watched) || !goes_back);
    a_failed: assert (!failed || rc_event == RC_REFUSED || (rc_event == RC_TIMER && !paused && retries == limit));
    a_unknown: assert (unknown == (acknowledges && not_sent));
    a_unchanged: assert (!(unknown || rc_event == RC_NOTHING) || (next_state == state && !failed));

    a_waits: assert (!running || una_after != next);
    a_runs: assert (running == (!failed && (paused_after || cur_after != una_after)));
    a_deadline: assert (!running || (runs && gained == 0 && deadline_after == deadline)
        || deadline_after == now + timeout_after + GRANULARITY
        || (rc_event == RC_RNR && deadline_after == now + rnr_wait + GRANULARITY));
    a_wants: assert (wants == (!failed && !paused_after && cur_after != next));
    a_starts: assert (!running || (runs && rc_event != RC_TIMER) || rc_event == RC_SENT || rc_event == RC_RNR);

    c_window: cover (to_next == WINDOW && to_high == WINDOW && to_cur == 1);
    c_pause_ends: cover (rc_event == RC_ACK && paused && goes_back && gained == 1);
    c_nak_again: cover (answered && rc_event == RC_NAK && number == watched && to_cur > 1);
    c_failed: cover (failed && rc_event == RC_TIMER && limit == 1);
    c_implicit: cover (rc_event == RC_IMPLICIT && gained > to_cur && cur != una);
end

endmodule

`default_nettype wire
