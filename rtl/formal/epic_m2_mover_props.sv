// The mover, beside a mover that does every beat at once: any moves, of any lengths, one after another, with beats that
// come when they like.
//
//   what is read     is what the beats before it, of this move and of all before, have left in the store: never what
//                    they have still in the lanes, so no beat is written from one that was not read
//   what is taken    a move's beats leave its port's FIFO, as many as it says, and none of another port's
//   what is pushed   goes to the ports that the move names, a beat for each beat that it makes, in order
//
// One bit of the data is watched; it is made of that bit of A and B alone, for sums are left out: what the lanes
// compute is for their bench. The other mover has a store of its own.

`default_nettype none

`include "axis_held.svh"

module epic_m2_mover_props #(
    parameter DATA_W = 256,
    parameter MTU = 64,
    parameter BIT = 5
) (
    input wire                clk,
    input wire                move_valid,
    input wire [171:0]        move_data,
    input wire [1:0]          payload_valid,
    input wire [2*DATA_W-1:0] payload_data
);

`include "epic_types.vh"
`include "epic_m2_types.vh"

localparam BYTES = DATA_W / 8, BEATS = MTU / BYTES, INDEX = $clog2(BEATS), COUNT_W = 15 - $clog2(BYTES);
localparam PLACES = 4;    // two slots, two halves
localparam LATENCY = 1, STAGES = LATENCY + 3;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire              move_ready, idle;
wire [1:0]        payload_ready, push;
wire [DATA_W-1:0] push_data;
epic_m2_mover #(.DATA_W(DATA_W), .PORTS(2), .MTU(MTU), .SLOTS(2), .LATENCY(LATENCY)) dut (
    .clk(clk), .rst(rst),
    .move_valid(move_valid), .move_data(move_data), .move_ready(move_ready), .idle(idle),
    .payload_valid(payload_valid), .payload_data(payload_data), .payload_ready(payload_ready),
    .push(push), .push_data(push_data)
);

axis_held #(.WIDTH(MOVE_W), .ASSUME(1)) move_held (
    .clk(clk), .on(started), .valid(move_valid), .ready(move_ready), .data(move_data)
);
genvar p;
generate
    for (p = 0; p < 2; p = p + 1) begin : g_in
        axis_held #(.WIDTH(1), .ASSUME(1)) held (
            .clk(clk), .on(started), .valid(payload_valid[p]), .ready(payload_ready[p]),
            .data(payload_data[DATA_W*p + BIT])
        );
    end
endgenerate

// What the sequencer gives.
function given(input [MOVE_W-1:0] of);
    given = of[MOVE_IN_BYTES_LSB +: 14] <= MTU && of[MOVE_OUT_BYTES_LSB +: 14] <= MTU && of[MOVE_SRC_LSB +: 3] < 2
        && of[MOVE_FROM_LSB +: 17] < PLACES && of[MOVE_TO_LSB +: 17] < PLACES
        && (of[MOVE_OUT_BYTES_LSB +: 14] == 0 || of[MOVE_OP_LSB +: 4] == LANE_B
        || (of[MOVE_RECORD_LSB] ? of[MOVE_OP_LSB +: 4] == LANE_A && of[MOVE_OUT_BYTES_LSB +: 14] == 16
        : (of[MOVE_OP_LSB +: 4] == LANE_A || of[MOVE_OP_LSB +: 4] == LANE_OR)
            && of[MOVE_IN_BYTES_LSB +: 14] == of[MOVE_OUT_BYTES_LSB +: 14]));
endfunction
always @* assume (!move_valid || given(move_data));

// The next one, as the design has it.
(* hierconn *) wire               \dut.load ;
(* hierconn *) wire               \dut.ahead_valid_reg ;
(* hierconn *) wire [MOVE_W-1:0]  \dut.ahead_reg ;
(* hierconn *) wire [COUNT_W-1:0] \dut.ahead_in_reg ;
(* hierconn *) wire [COUNT_W-1:0] \dut.ahead_out_reg ;
wire [MOVE_W-1:0]  ahead = \dut.ahead_reg ;
wire [COUNT_W-1:0] ahead_ins = \dut.ahead_in_reg , ahead_outs = \dut.ahead_out_reg ;
wire [13:0] new_in = ahead[MOVE_IN_BYTES_LSB +: 14], new_out = ahead[MOVE_OUT_BYTES_LSB +: 14];
wire [3:0]  new_ins = (new_in + BYTES - 1) / BYTES, new_outs = (new_out + BYTES - 1) / BYTES;

// The move in hand.
reg  [BEATS*PLACES-1:0] store;
reg                busy = 1'b0;
reg  [MOVE_W-1:0]  move;
reg  [3:0]         beat;
wire [3:0]         ins = (move[MOVE_IN_BYTES_LSB +: 14] + BYTES - 1) / BYTES;
wire [3:0]         outs = (move[MOVE_OUT_BYTES_LSB +: 14] + BYTES - 1) / BYTES;
wire               src = move[MOVE_SRC_LSB];
wire [1:0]         from = move[MOVE_FROM_LSB +: 2], to = move[MOVE_TO_LSB +: 2];
wire [3:0]         op = move[MOVE_OP_LSB +: 4];
wire               makes = beat < outs, takes = beat < ins;
wire               take = started && \dut.load ;

// A beat is done in the cycle in which the design reads it: seen by what it takes, or, of a move that takes none, by
// the design's own word.
(* hierconn *) wire \dut.go ;
wire        go = \dut.go && started;
wire        is_last = beat + 1 >= ins && beat + 1 >= outs;
wire        a = move[MOVE_RECORD_LSB] ? move[MOVE_HELD_LSB + 24 + BIT] : payload_data[src ? DATA_W + BIT : BIT];
wire        b = store[from*BEATS + beat[INDEX-1:0]];
wire        made = op == LANE_A ? a : op == LANE_B ? b : a | b;
wire        writes = go && makes && move[MOVE_WRITE_LSB];
always @(posedge clk) begin
    if (go) beat <= beat + 1'b1;
    if (writes) store[to*BEATS + beat[INDEX-1:0]] <= made;
    if (go && is_last) busy <= 1'b0;
    if (take) begin
        busy <= new_in != 0 || new_out != 0;
        move <= ahead;
        beat <= 4'd0;
    end
    if (rst) busy <= 1'b0;
end

// Beats in the lanes.
reg [STAGES-1:0]       flying = 0, written = 0, value;
reg [2*STAGES-1:0]     ports, place;
reg [STAGES*INDEX-1:0] index;
always @(posedge clk) begin
    flying <= rst ? 0 : {flying, go && makes};
    written <= rst ? 0 : {written, writes};
    value <= {value, made};
    ports <= {ports, move[MOVE_PORTS_LSB +: 2]};
    place <= {place, to};
    index <= {index, beat[INDEX-1:0]};
end

// Words of the store: as in the other one, unless they are in the lanes.
reg [BEATS*PLACES-1:0] pending, bits;
reg                    same_place;
integer s, w;
always @* begin
    pending = 0;
    same_place = 1'b1;
    for (s = 0; s < STAGES; s = s + 1) if (written[s]) begin
        pending[place[2*s +: 2]*BEATS + index[INDEX*s +: INDEX]] = 1'b1;
        if (place[2*s +: 2] != design_place[2*s +: 2] || index[INDEX*s +: INDEX] != design_index[INDEX*s +: INDEX])
            same_place = 1'b0;
    end
    for (w = 0; w < BEATS * PLACES; w = w + 1) bits[w] = words[32*w + BIT];
end
(* hierconn *) wire [31:0] \dut.store.g_slice[0].ram.words[0] ;
(* hierconn *) wire [31:0] \dut.store.g_slice[0].ram.words[1] ;
(* hierconn *) wire [31:0] \dut.store.g_slice[0].ram.words[2] ;
(* hierconn *) wire [31:0] \dut.store.g_slice[0].ram.words[3] ;
(* hierconn *) wire [31:0] \dut.store.g_slice[0].ram.words[4] ;
(* hierconn *) wire [31:0] \dut.store.g_slice[0].ram.words[5] ;
(* hierconn *) wire [31:0] \dut.store.g_slice[0].ram.words[6] ;
(* hierconn *) wire [31:0] \dut.store.g_slice[0].ram.words[7] ;
wire [BEATS*PLACES*32-1:0] words = {
    \dut.store.g_slice[0].ram.words[7] , \dut.store.g_slice[0].ram.words[6] , \dut.store.g_slice[0].ram.words[5] , \dut.store.g_slice[0].ram.words[4] ,
    \dut.store.g_slice[0].ram.words[3] , \dut.store.g_slice[0].ram.words[2] , \dut.store.g_slice[0].ram.words[1] , \dut.store.g_slice[0].ram.words[0] 
};
// When reset is over, the two stores are the same.
reg running = 1'b0;
always @(posedge clk) running <= started;
always @* if (started && !running) assume (bits == store);

// For the induction.
(* hierconn *) wire               \dut.busy_reg ;
(* hierconn *) wire [MOVE_W-1:0]  \dut.move_reg ;
(* hierconn *) wire [COUNT_W-1:0] \dut.beat_reg ;
(* hierconn *) wire [COUNT_W-1:0] \dut.in_beats_reg ;
(* hierconn *) wire [COUNT_W-1:0] \dut.out_beats_reg ;
(* hierconn *) wire [STAGES-1:0]  \dut.valid_reg ;
(* hierconn *) wire [STAGES-1:0]  \dut.writing_reg ;
(* hierconn *) wire [2*STAGES-1:0] \dut.place_reg ;
(* hierconn *) wire [STAGES*INDEX-1:0] \dut.index_reg ;
wire [STAGES-1:0]  design_flying = \dut.valid_reg , design_written = \dut.writing_reg ;
wire [2*STAGES-1:0] design_place = \dut.place_reg ;
wire [STAGES*INDEX-1:0] design_index = \dut.index_reg ;
wire               design_busy = \dut.busy_reg ;
wire [MOVE_W-1:0]  design_move = \dut.move_reg ;
wire [COUNT_W-1:0] design_beat = \dut.beat_reg , design_ins = \dut.in_beats_reg , design_outs = \dut.out_beats_reg ;

(* hierconn *) wire       \dut.takes_reg ;
(* hierconn *) wire       \dut.makes_reg ;
(* hierconn *) wire       \dut.last_reg ;
(* hierconn *) wire       \dut.hold_reg ;
(* hierconn *) wire [1:0] \dut.source_reg ;
// No beat that this one or one after it reads will still be in the lanes by then.
reg     clear;
integer t;
always @* begin
    clear = 1'b1;
    for (t = 0; t < STAGES; t = t + 1)
        if (written[t] && place[2*t +: 2] == from && index[INDEX*t +: INDEX] >= beat
            && index[INDEX*t +: INDEX] - beat + t < STAGES) clear = 1'b0;
end

// Cycles in which a move that has what it needs stands still.
reg [2:0] waited = 3'd0;
always @(posedge clk) waited <= started && busy && !go && (!takes || payload_valid[src]) ? waited + 3'd1 : 3'd0;

always @(posedge clk) if (started) begin
    a_busy: assert (design_busy == busy);
    a_same: assert (!busy || (design_move == move && design_beat == beat && design_ins == ins && design_outs == outs));
    a_within: assert (!busy || (given(move) && (beat < ins || beat < outs) && ins <= BEATS && outs <= BEATS));
    a_lanes: assert (design_flying == flying && design_written == written && same_place);
    a_read: assert (!go || !makes || !pending[from*BEATS + beat[INDEX-1:0]]);
    a_store: assert (((bits ^ store) & ~pending) == 0);

    a_beat: assert (!go || (busy && (!takes || payload_valid[src])));
    a_taken: assert (payload_ready == (go && takes ? 2'd1 << src : 2'd0));
    a_load: assert (take == (\dut.ahead_valid_reg && (!busy || (go && is_last))));
    a_given: assert (!\dut.ahead_valid_reg || given(ahead));
    a_ready: assert (move_ready == !\dut.ahead_valid_reg );
    a_ahead: assert (!\dut.ahead_valid_reg || (ahead_ins == new_ins && ahead_outs == new_outs));
    a_known: assert (!busy || (\dut.takes_reg == takes && \dut.makes_reg == makes && \dut.last_reg == is_last
        && \dut.source_reg == 2'd1 << src && (beat == 0 || !\dut.hold_reg )));
    a_clear: assert (!busy || !makes || \dut.hold_reg || clear);
    a_pushed: assert (push == (flying[STAGES-1] ? ports[2*STAGES-1 -: 2] : 2'd0));
    a_data: assert (!flying[STAGES-1] || push_data[BIT] == value[STAGES-1]);
    // Nothing enters the lanes meanwhile.
    a_prompt: assert (waited <= STAGES && (written & ~({STAGES{1'b1}} << waited)) == 0);
    a_idle: assert (!idle || (!busy && flying == 0 && !\dut.ahead_valid_reg ));

    c_waits: cover (waited == STAGES - 1 && op == LANE_OR && from == to);
    c_drains: cover (go && beat == 1 && !makes && is_last);
    c_both: cover (push == 2'b11 && flying == {STAGES{1'b1}});
    c_record: cover (take && busy && move[MOVE_RECORD_LSB] && go);
end

endmodule

`default_nettype wire
