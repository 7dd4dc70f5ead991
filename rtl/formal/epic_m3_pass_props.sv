// The data pass of Mode III: whatever passes come, the queues never overflow, and of what each pass says nothing is lost
// and nothing made up:
//
//   frames    each port that a pass names gets one if it had room, or loses one, which is counted; while the beats of a
//             pass begin their way no other pass starts
//   beats     each port is pushed as many as its frames have: none without a frame, none owed at rest
//   payload   of each port as many beats are taken as passes use or throw away
//   slots     no beat is read while its sum is still in the lanes
//
// One port is watched, any. Memories and lanes are cut away: whatever they give, this holds. What went into a queue is
// assumed to come out of it, which is what epic_fifo_props asserts. Here that is: what is assumed of each pass that comes,
// or asserted of each record that goes into the queue of stage 3 (a_record), is assumed where it comes out.
//
// epic_m3_slots is assumed to send passes for requests only that were taken while `pass_room` was up, 14 cycles ago or
// less (one on the way, 8 of epic_m3_admit and 5 of its own), and to use a payload only where it keeps what comes of it.

`default_nettype none

module epic_m3_pass_props #(
    parameter LANE_LATENCY = 3
) (
    input wire         clk,
    input wire         pass_valid,
    input wire [233:0] pass_data,
    input wire [1:0]   payload_valid,
    input wire [127:0] payload_data,
    input wire [1:0]   job_room,
    input wire         write_row,
    input wire         write_below,
    input wire [15:0]  write_index,
    input wire [319:0] write_data
);

`include "epic_pkg.vh"
`include "epic_types.vh"

localparam GO_W = 234 + 4 + 1 + 4 + 3 * 2 + 8 * 2 + 2 * 12;
localparam DATA_W = 64, BYTES = 8, BEATS = 8, BEAT_W = 3, LEFT_W = 12, ADDR_W = 4, COUNT_W = 1;
localparam PATIENCE = 5;
localparam FLIGHT = LANE_LATENCY + 3;
localparam ON_THE_WAY = 14;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire              pass_room, job_ack, job_ce, idle;
wire [1:0]        payload_ready, job_push, job_payload, beat_push, failed;
wire [15:0]       job_edge;
wire [23:0]       job_cell;
wire [31:0]       job_imm;
wire [13:0]       job_bytes;
wire [DATA_W-1:0] beat;
wire              beat_count;
epic_m3_pass #(
    .DATA_W(DATA_W), .PORT_W(DATA_W), .PORTS(2), .EDGES(2), .SLOTS(2), .MTU(64), .ROWS(2), .RANKS(2),
    .LANE_LATENCY(LANE_LATENCY), .PATIENCE(PATIENCE)
) dut (
    .clk(clk), .rst(rst),
    .pass_valid(pass_valid), .pass_data(pass_data), .pass_room(pass_room),
    .payload_valid(payload_valid), .payload_data(payload_data), .payload_ready(payload_ready),
    .job_room(job_room), .job_push(job_push), .job_edge(job_edge), .job_payload(job_payload), .job_ack(job_ack),
    .job_cell(job_cell), .job_imm(job_imm), .job_bytes(job_bytes), .job_ce(job_ce),
    .beat_push(beat_push), .beat(beat), .beat_count(beat_count), .failed(failed),
    .write_row(write_row), .write_below(write_below), .write_index(write_index), .write_data(write_data),
    .idle(idle)
);

// ------------------------------------------------------------------------------------------------- what comes: passes
function [LEFT_W-1:0] beats_of(input [13:0] length);
    reg [14:0] sum;
    begin
        sum = {1'b0, length} + BYTES - 1;
        beats_of = sum[14:3];
    end
endfunction

// Bit d: pass_room was up d + 1 cycles ago.
reg  [ON_THE_WAY-1:0] was_room = 0;
always @(posedge clk) was_room <= rst ? 0 : {was_room[ON_THE_WAY-2:0], pass_room};
always @* assume (!pass_valid || was_room[ON_THE_WAY-1]);

(* hierconn *) wire [233:0] \dut.head ;
function sound(input [233:0] p);
    sound = p[PASS_SRC_LSB +: PASS_SRC_WIDTH] < 2 && p[PASS_BYTES_LSB +: 14] <= 64 && p[PASS_IN_BYTES_LSB +: 14] <= 64
        && (!p[PASS_USE_LSB] || (p[PASS_WRITE_LSB] && p[PASS_BYTES_LSB +: 14] != 0
            && p[PASS_BYTES_LSB +: 14] == p[PASS_IN_BYTES_LSB +: 14]))
        && (!p[PASS_DRAIN_LSB] || (!p[PASS_USE_LSB] && p[PASS_IN_BYTES_LSB +: 14] != 0));
endfunction
always @* assume (sound(pass_data) && sound(\dut.head ));

// ---------------------------------------------------------------------------------------------- the queue of stage 3
(* hierconn *) wire \dut.valid_1 ;
(* hierconn *) wire \dut.valid_2 ;
(* hierconn *) wire \dut.valid_3 ;
(* hierconn *) wire \dut.issue_reg ;
(* hierconn *) wire \dut.start ;
(* hierconn *) wire \dut.busy_0 ;
(* hierconn *) wire [5:0] \dut.fifo_room ;
(* hierconn *) wire [4:0] \dut.go_room ;
(* hierconn *) wire \dut.fifo_ready ;
(* hierconn *) wire \dut.go_ready ;
(* hierconn *) wire \dut.drain_2 ;
(* hierconn *) wire \dut.use_2 ;
(* hierconn *) wire \dut.write_2 ;
(* hierconn *) wire \dut.has_2 ;
(* hierconn *) wire [1:0] \dut.src_2 ;
(* hierconn *) wire [1:0] \dut.dest_2 ;
(* hierconn *) wire [1:0] \dut.with_2 ;
(* hierconn *) wire [LEFT_W-1:0] \dut.beats_2 ;
(* hierconn *) wire [LEFT_W-1:0] \dut.in_beats_2 ;
(* hierconn *) wire [233:0] \dut.pass_2 ;
(* hierconn *) wire \dut.drain_3 ;
(* hierconn *) wire \dut.use_3 ;
(* hierconn *) wire \dut.write_3 ;
(* hierconn *) wire \dut.has_3 ;
(* hierconn *) wire [1:0] \dut.src_3 ;
(* hierconn *) wire [1:0] \dut.dest_3 ;
(* hierconn *) wire [1:0] \dut.with_3 ;
(* hierconn *) wire [LEFT_W-1:0] \dut.beats_3 ;
(* hierconn *) wire [LEFT_W-1:0] \dut.in_beats_3 ;
(* hierconn *) wire [233:0] \dut.pass_3 ;
(* hierconn *) wire [GO_W-1:0] \dut.go_q ;
(* hierconn *) wire [GO_W-1:0] \dut.go_w ;
(* hierconn *) wire [GO_W-1:0] \dut.go_3 ;
(* hierconn *) wire \dut.valid_w ;
(* hierconn *) wire \dut.same_3 ;
(* hierconn *) wire [233:0] \dut.pass_1 ;

// What a record says of beats and ports agrees with itself.
function agrees(
    input drain, input use_a, input write, input has, input [1:0] src, input [1:0] dest, input [1:0] with_beats,
    input [LEFT_W-1:0] beats, input [LEFT_W-1:0] in_beats, input [13:0] bytes
);
    agrees = beats == beats_of(bytes) && beats <= BEATS && in_beats <= BEATS && (src == 1 || src == 2)
        && (with_beats & ~dest) == 0 && has == (beats != 0 && (write || with_beats != 0))
        && (with_beats == 0 || beats != 0)
        && (!use_a || (write && beats != 0 && beats == in_beats)) && (!drain || (!use_a && in_beats != 0));
endfunction
wire agrees_2 = agrees(\dut.drain_2 , \dut.use_2 , \dut.write_2 , \dut.has_2 , \dut.src_2 , \dut.dest_2 , \dut.with_2 ,
    \dut.beats_2 , \dut.in_beats_2 , \dut.pass_2 [PASS_BYTES_LSB +: 14]);
// Of a word of the queue.
function agrees_word(input [GO_W-1:0] word);
    reg [233:0]      pass;
    reg              drain, use_a, write, record, has;
    reg [3:0]        op;
    reg [1:0]        src, dest, with_beats;
    reg [15:0]       edges;
    reg [LEFT_W-1:0] beats, in_beats;
    begin
        {pass, drain, use_a, write, record, has, op, src, dest, with_beats, edges, beats, in_beats} = word;
        agrees_word = agrees(drain, use_a, write, has, src, dest, with_beats, beats, in_beats, pass[PASS_BYTES_LSB +: 14]);
    end
endfunction
wire agrees_3 = agrees(\dut.drain_3 , \dut.use_3 , \dut.write_3 , \dut.has_3 , \dut.src_3 , \dut.dest_3 , \dut.with_3 ,
    \dut.beats_3 , \dut.in_beats_3 , \dut.pass_3 [PASS_BYTES_LSB +: 14]);
always @* assume (agrees_word(\dut.go_q ));

// Those that have left the queue and not started, in order: what their beats are, for all bits go the same way.
(* hierconn *) wire \dut.valid_q ;
localparam TOLD_W = 2 * LEFT_W;
wire              comes = \dut.valid_q && !\dut.valid_w ;
reg [TOLD_W-1:0]  first_out, second_out;
reg [1:0]         out_count = 2'd0;
wire [TOLD_W-1:0] told_q = \dut.go_q [TOLD_W-1:0], told_w = \dut.go_w [TOLD_W-1:0], told_3 = \dut.go_3 [TOLD_W-1:0];
always @(posedge clk) begin
    out_count <= rst ? 2'd0 : out_count + comes - \dut.start ;
    if (\dut.start ) first_out <= out_count == 2 ? second_out : told_q;
    else if (out_count == 0) first_out <= told_q;
    if (comes) second_out <= told_q;
end
always @(posedge clk) if (started) begin
    a_order: assert (out_count == \dut.valid_3 + \dut.valid_w && (out_count == 0 || told_3 == first_out)
        && (out_count != 2 || told_w == second_out));
end

wire [5:0] fifo_room = \dut.fifo_room ;
wire [4:0] go_room = \dut.go_room ;
// Those that may have come since the room was seen.
integer d;
reg     rooms;
always @* begin
    rooms = !pass_room || fifo_room >= 16;
    for (d = 0; d < ON_THE_WAY; d = d + 1) rooms = rooms && (!was_room[d] || fifo_room >= 15 - d);
end
always @(posedge clk) if (started) begin
    a_record: assert (!\dut.valid_2 || agrees_2);
    a_waits: assert ((!\dut.valid_3 || agrees_3) && (!\dut.valid_w || (\dut.valid_3 && agrees_word(\dut.go_w ))));
    a_queue: assert (!pass_valid || \dut.fifo_ready );
    a_go_queue: assert (!\dut.valid_2 || \dut.go_ready );
    a_room: assert (fifo_room <= 32 && rooms);
    a_go_room: assert (go_room <= 16 && (!\dut.issue_reg || go_room >= 4) && (!\dut.valid_1 || go_room >= 3)
        && (!\dut.valid_2 || go_room >= 2));
end

// ------------------------------------------------------------------------------------------------------------- frames
wire       start = \dut.start ;
reg        started_one = 1'b0;
reg  [1:0] wanted = 2'd0, was_free = 2'd0, was_free_2 = 2'd0;
reg  [3:0] behind = 4'd0;  // cycles until the next may start
always @(posedge clk) begin
    started_one <= start && !rst;
    wanted <= \dut.dest_3 ;
    was_free <= job_room & {2{!rst}};
    was_free_2 <= was_free & {2{!rst}};
    behind <= rst ? 4'd0 : start && \dut.has_3 ? \dut.beats_3 [3:0] - 4'd1 : behind == 0 ? 4'd0 : behind - 4'd1;
end
(* hierconn *) wire [LEFT_W-1:0] \dut.left_0 ;
(* hierconn *) wire [1:0] \dut.room_reg ;
(* hierconn *) wire [1:0] \dut.draining ;
(* hierconn *) wire [1:0] \dut.use_0 ;
(* hierconn *) wire [2*LEFT_W-1:0] \dut.drain_reg ;
(* hierconn *) wire [FLIGHT-1:0] \dut.flight_valid ;
(* hierconn *) wire [FLIGHT-1:0] \dut.flight_write ;
(* hierconn *) wire [FLIGHT*ADDR_W-1:0] \dut.flight_addr ;
(* hierconn *) wire [FLIGHT*2-1:0] \dut.flight_push ;
(* hierconn *) wire [LANE_LATENCY-2:0] \dut.flight_first ;
(* hierconn *) wire [LANE_LATENCY-1:0] \dut.lanes.valid_reg ;
wire              busy = \dut.busy_0 ;
wire [LEFT_W-1:0] left = \dut.left_0 ;
always @(posedge clk) if (started) begin
    a_named: assert ((job_push | failed) == (wanted & {2{started_one}}) && (job_push & failed) == 0);
    a_had_room: assert ((job_push & ~was_free_2) == 0);
    a_seen: assert (\dut.room_reg == was_free);
    a_busy: assert (behind == (busy ? left : 0) && (!busy || (left != 0 && left < BEATS)));
    a_one_at_a_time: assert (!start || behind == 0);
end

// -------------------------------------------------------------------------------------------------------------- beats
(* anyconst *) wire port;
wire [FLIGHT-1:0] flies = \dut.flight_valid ;
reg  [FLIGHT-1:0] pushes;
integer s;
always @* for (s = 0; s < FLIGHT; s = s + 1) pushes[s] = flies[s] && \dut.flight_push [2*s + port];
reg [4:0] in_flight;
always @* begin
    in_flight = busy && pushes[0] ? left[4:0] : 5'd0;
    for (s = 0; s < FLIGHT; s = s + 1) in_flight = in_flight + pushes[s];
end

// Of frames that were pushed; and of payload that passes use or throw away.
reg  [4:0] owed = 5'd0, to_take = 5'd0;
wire [4:0] owed_now = owed + (job_push[port] && job_payload[port] ? beats_of(job_bytes) : 0);
wire       takes = payload_ready[port] && payload_valid[port];
wire       source = \dut.src_3 [port];
wire       uses = \dut.use_0 [port], drains = \dut.draining [port];
wire [LEFT_W-1:0] to_drain = port ? \dut.drain_reg [LEFT_W +: LEFT_W] : \dut.drain_reg [0 +: LEFT_W];
always @* assume (!uses || payload_valid[port]);
always @(posedge clk) begin
    owed <= rst ? 5'd0 : owed_now - beat_push[port];
    to_take <= rst ? 5'd0 : to_take - takes
        + (start && source && \dut.drain_3 ? \dut.in_beats_3 [4:0] : start && source && \dut.use_3 ? \dut.beats_3 [4:0] : 5'd0);
end
always @(posedge clk) if (started) begin
    a_pushed: assert (owed_now == in_flight);
    a_none_made: assert (!beat_push[port] || owed_now != 0);
    a_lanes: assert (\dut.lanes.valid_reg == flies[FLIGHT-1:3]);
    a_to_take: assert (to_take == (drains ? to_drain : 0) + (uses ? 1 + (busy ? left : 0) : 0));
    a_takes: assert (!payload_ready[port] || to_take != 0);
    a_takers: assert (!(drains && uses) && (!drains || (to_drain != 0 && to_drain <= BEATS)) && (!uses || flies[0])
        && (!busy || flies[0]));
    a_at_rest: assert (!idle || (owed_now == 0 && to_take == 0));
    c_long: cover (owed_now == BEATS && to_take == BEATS);
    c_drain: cover (drains && \dut.use_0 [!port]);
    c_lost: cover (failed[port] && job_push[!port]);
end

// -------------------------------------------------------------------------------------------------------------- slots
function [ADDR_W-1:0] addr(input [FLIGHT*ADDR_W-1:0] all, input integer at);
    addr = all[ADDR_W*at +: ADDR_W];
endfunction
// in_a_row: a beat that is not the first of its slot is right behind the one before it.
integer a, b;
reg     in_a_row, not_too_early, firsts, same;
always @* begin
    same = 1'b0;
    for (a = 0; a < LANE_LATENCY - 1; a = a + 1)
        same = same || (\dut.flight_first [a] && addr(\dut.flight_addr , a) / BEATS == \dut.pass_3 [PASS_SLOT_LSB]);
    in_a_row = 1'b1;
    not_too_early = 1'b1;
    firsts = 1'b1;
    for (a = 0; a < FLIGHT - 1; a = a + 1) begin
        in_a_row = in_a_row && (!flies[a] || addr(\dut.flight_addr , a) % BEATS == 0 || (flies[a+1]
            && \dut.flight_write [a] == \dut.flight_write [a+1]
            && addr(\dut.flight_addr , a) == addr(\dut.flight_addr , a + 1) + 4'd1));
        for (b = a + 1; b < FLIGHT && b < a + LANE_LATENCY; b = b + 1)
            not_too_early = not_too_early && (!(flies[a] && flies[b] && \dut.flight_write [b])
                || addr(\dut.flight_addr , a) != addr(\dut.flight_addr , b));
    end
    for (a = 0; a < LANE_LATENCY - 1; a = a + 1)
        firsts = firsts && (!(flies[a] && \dut.flight_write [a] && addr(\dut.flight_addr , a) % BEATS == 0)
            || \dut.flight_first [a]);
end
always @(posedge clk) if (started) begin
    a_in_a_row: assert (in_a_row && firsts);
    a_same: assert (!\dut.valid_3 || \dut.same_3 == same);
    a_not_too_early: assert (not_too_early);
    a_slot_ends: assert (!busy || addr(\dut.flight_addr , 0) % BEATS + left < BEATS);
    c_same_slot: cover (flies[LANE_LATENCY] && flies[0] && \dut.flight_write [LANE_LATENCY]
        && addr(\dut.flight_addr , 0) == addr(\dut.flight_addr , LANE_LATENCY));
end

endmodule

`default_nettype wire
