// The sending side of an edge: one event, from a state to the next (spec section 7.2 with one packet a message). `next` of
// the table is what there is to send, CUR what is sent next; "repeat all" is CUR := UNA, and the sequencer sends whatever is
// between CUR and `next` when the port has room. So the timer of a packet starts when the packet is given to the port.
// Combinational.

`default_nettype none

`include "epic_check.vh"

module epic_m2_requester #(
    parameter RC_BITS = 308,     // RC_W
    parameter TIMERS_BITS = 104  // TIMERS_W
) (
    input  wire [RC_BITS-1:0]     state,
    input  wire [23:0]            next,        // all before it may be sent
    input  wire [TIMERS_BITS-1:0] timers,
    input  wire [31:0]            now,

    input  wire [2:0]             rc_event,    // RC_*
    input  wire [23:0]            number,      // that the acknowledgement names
    input  wire [31:0]            rnr_wait,    // RC_RNR: microseconds
    input  wire                   once,        // the newest packet that is acknowledged was sent once,
    input  wire [31:0]            first_sent,  // then

    output reg  [RC_BITS-1:0]     next_state,
    output reg                    failed,      // the edge is in error from now on
    output reg                    unknown,     // acknowledges what was not sent
    output wire                   running      // the timer, in next_state
);

`include "epic_types.vh"
`include "epic_m2_types.vh"

`EPIC_CHECK(g_check_records, RC_BITS == RC_W && TIMERS_BITS == TIMERS_W,
    ("epic_m2_requester: RC_BITS and TIMERS_BITS are not those of epic_m2_types.vh"))

// A deadline is reached when `now` is this much after the timeout: `now` is up to 1 behind, and a packet that is repeated
// may pass an acknowledgement that went before it the first time.
localparam [31:0] GRANULARITY = 32'd2;

wire [23:0] una = state[RC_UNA_LSB +: RC_UNA_WIDTH];
wire [23:0] cur = state[RC_CUR_LSB +: RC_CUR_WIDTH];
wire [23:0] high = state[RC_HIGH_LSB +: RC_HIGH_WIDTH];
wire [23:0] served = state[RC_SERVED_LSB +: RC_SERVED_WIDTH];
wire        paused = state[RC_PAUSED_LSB];
wire [7:0]  retries = state[RC_RETRIES_LSB +: RC_RETRIES_WIDTH];
wire [31:0] timeout = state[RC_TIMEOUT_LSB +: RC_TIMEOUT_WIDTH];
wire [31:0] base = state[RC_BASE_LSB +: RC_BASE_WIDTH];
wire [31:0] maximum = timers[TIMERS_MAX_LSB +: TIMERS_MAX_WIDTH];
wire [7:0]  limit = timers[TIMERS_RETRY_LIMIT_LSB +: TIMERS_RETRY_LIMIT_WIDTH];

// Distances from the oldest packet that is not acknowledged; negative ones have bit 23 set.
wire [23:0] named = number - una;
wire [23:0] ahead = next - una;
wire        late = named[23];
wire        acknowledges = rc_event == RC_ACK || rc_event == RC_NAK || rc_event == RC_REFUSED || rc_event == RC_RNR;
wire        not_sent = !late && named >= ahead;

// What has arrived: all before `arrived`.
wire [23:0] arrived = rc_event == RC_ACK ? number + 24'd1 : number;
wire [23:0] gained = arrived - una;
wire        counts = (acknowledges && !not_sent) || rc_event == RC_IMPLICIT;
wire        progress = counts && !gained[23] && gained != 24'd0;
wire        newest_was_sent = (high - una) >= gained && !(high == una);
wire        sample = progress && once && newest_was_sent;

wire [39:0] next_srtt, next_rttvar;
wire [31:0] sampled_base;
epic_m2_rto rto (
    .sampled(state[RC_SAMPLED_LSB]),
    .srtt(state[RC_SRTT_LSB +: RC_SRTT_WIDTH]), .rttvar(state[RC_VAR_LSB +: RC_VAR_WIDTH]),
    .sample(now - first_sent + 32'd1),
    .minimum(timers[TIMERS_MIN_LSB +: TIMERS_MIN_WIDTH]), .maximum(maximum),
    .next_srtt(next_srtt), .next_rttvar(next_rttvar), .base(sampled_base)
);

wire [23:0] new_una = progress ? arrived : una;
wire [23:0] cur_gap = cur - new_una;
wire [23:0] kept_cur = cur_gap[23] ? new_una : cur;
wire [23:0] high_gap = high - new_una;
wire [23:0] kept_high = high_gap[23] ? new_una : high;
wire [31:0] new_base = sample ? sampled_base : base;
wire [31:0] new_timeout = progress ? new_base : timeout;
wire [23:0] since_served = number - served;
wire        answered = state[RC_SERVED_VALID_LSB] && (since_served[23] || since_served == 24'd0);
wire [23:0] served_age = new_una - served;
wire [31:0] doubled = timeout[31] || {timeout[30:0], 1'b0} > maximum ? maximum : {timeout[30:0], 1'b0};

reg back;
always @* begin
    next_state = state;
    failed = 1'b0;
    unknown = acknowledges && not_sent;
    back = 1'b0;
    if (progress) begin
        next_state[RC_UNA_LSB +: RC_UNA_WIDTH] = new_una;
        next_state[RC_CUR_LSB +: RC_CUR_WIDTH] = kept_cur;
        next_state[RC_HIGH_LSB +: RC_HIGH_WIDTH] = kept_high;
        next_state[RC_RETRIES_LSB +: RC_RETRIES_WIDTH] = 8'd0;
        next_state[RC_PAUSED_LSB] = 1'b0;
        next_state[RC_TIMEOUT_LSB +: RC_TIMEOUT_WIDTH] = new_timeout;
        next_state[RC_DEADLINE_LSB +: RC_DEADLINE_WIDTH] = now + new_timeout + GRANULARITY;
        if (sample) begin
            next_state[RC_BASE_LSB +: RC_BASE_WIDTH] = new_base;
            next_state[RC_SRTT_LSB +: RC_SRTT_WIDTH] = next_srtt;
            next_state[RC_VAR_LSB +: RC_VAR_WIDTH] = next_rttvar;
            next_state[RC_SAMPLED_LSB] = 1'b1;
        end
        // Serial comparison reaches 2^23 cells back: forget it before.
        if (served_age[23:22] == 2'b01) next_state[RC_SERVED_VALID_LSB] = 1'b0;
    end
    case (rc_event)
        RC_ACK: back = progress && paused;
        RC_NAK:
            if (!not_sent && !answered) begin
                next_state[RC_SERVED_LSB +: RC_SERVED_WIDTH] = number;
                next_state[RC_SERVED_VALID_LSB] = !late || named[22];  // not one of 2^22 cells ago
                next_state[RC_PAUSED_LSB] = 1'b0;
                back = 1'b1;
            end
        RC_REFUSED: failed = !not_sent;
        RC_RNR:
            if (!not_sent && number == new_una) begin
                next_state[RC_PAUSED_LSB] = 1'b1;
                next_state[RC_RETRIES_LSB +: RC_RETRIES_WIDTH] = 8'd0;
                next_state[RC_DEADLINE_LSB +: RC_DEADLINE_WIDTH] = now + rnr_wait + GRANULARITY;
            end
        RC_TIMER:
            if (paused) begin
                next_state[RC_PAUSED_LSB] = 1'b0;
                back = 1'b1;
            end
            else if (retries >= limit) failed = 1'b1;
            else begin
                next_state[RC_RETRIES_LSB +: RC_RETRIES_WIDTH] = retries + 8'd1;
                next_state[RC_TIMEOUT_LSB +: RC_TIMEOUT_WIDTH] = doubled;
                next_state[RC_SERVED_LSB +: RC_SERVED_WIDTH] = 24'hffffff;
                next_state[RC_SERVED_VALID_LSB] = una[23:22] == 2'b00;
                back = 1'b1;
            end
        RC_SENT: begin
            next_state[RC_CUR_LSB +: RC_CUR_WIDTH] = cur + 24'd1;
            if (cur == high) next_state[RC_HIGH_LSB +: RC_HIGH_WIDTH] = cur + 24'd1;
            if (cur == una) next_state[RC_DEADLINE_LSB +: RC_DEADLINE_WIDTH] = now + timeout + GRANULARITY;
        end
        default: back = 1'b0;
    endcase
    if (back) next_state[RC_CUR_LSB +: RC_CUR_WIDTH] = new_una;
end

assign running = !failed && (next_state[RC_PAUSED_LSB]
    || next_state[RC_UNA_LSB +: RC_UNA_WIDTH] != next_state[RC_CUR_LSB +: RC_CUR_WIDTH]);

wire unused = &{1'b0, timers, cur_gap, high_gap, served_age};

endmodule

`default_nettype wire
