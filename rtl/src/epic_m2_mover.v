// Mode II, the data: executes MOVE records in order, one beat a cycle. Beats of a port's payload (A, or thrown away) and of
// the store (B) go through the lanes into the store and to the ports' payload FIFOs. Nothing here waits once a move has
// started but for beats of its payload, and for a beat of the slot that an earlier move has still in the lanes: who orders a
// move has seen to it that the ports have room.

`default_nettype none

`include "epic_check.vh"

module epic_m2_mover #(
    parameter DATA_W = 128,    // 64, 128, 256 or 512
    parameter PORTS = 4,       // 2 to 8
    parameter MTU = 1024,
    parameter SLOTS = 128,     // agg slots; as many bcast slots. A power of two
    parameter FP32 = 0,        // 1: floating-point lanes
    parameter FP16 = 0,        // 1: lanes for 16-bit floats
    parameter LATENCY = FP16 != 0 ? 10 : FP32 != 0 ? 8 : 2,  // of the lanes
    parameter MOVE_BITS = 172  // MOVE_W
) (
    input  wire                    clk,
    input  wire                    rst,

    input  wire                    move_valid,
    input  wire [MOVE_BITS-1:0]    move_data,
    output wire                    move_ready,
    output wire                    idle,

    input  wire [PORTS-1:0]        payload_valid,
    input  wire [PORTS*DATA_W-1:0] payload_data,
    output wire [PORTS-1:0]        payload_ready,

    output wire [PORTS-1:0]        push,
    output wire [DATA_W-1:0]       push_data
);

`include "epic_types.vh"
`include "epic_m2_types.vh"

`EPIC_CHECK(g_check_data_w, DATA_W == 64 || DATA_W == 128 || DATA_W == 256 || DATA_W == 512,
    ("epic_m2_mover: DATA_W is %0d, expected 64, 128, 256 or 512", DATA_W))
`EPIC_CHECK(g_check_slots, SLOTS >= 2 && SLOTS <= 8192 && (SLOTS & (SLOTS - 1)) == 0,
    ("epic_m2_mover: SLOTS is %0d, expected a power of two from 2 to 8192", SLOTS))
`EPIC_CHECK(g_check_record, MOVE_BITS == MOVE_W, ("epic_m2_mover: MOVE_BITS is not that of epic_m2_types.vh"))

localparam BYTES = DATA_W / 8;
localparam BYTES_LOG2 = $clog2(BYTES);
localparam BEATS = (MTU + BYTES - 1) / BYTES;
localparam BEAT_W = BEATS < 2 ? 1 : $clog2(BEATS);
localparam COUNT_W = 14 - BYTES_LOG2 + 1;
localparam PLACE_W = $clog2(SLOTS) + 1;   // slot and half
localparam ADDR_W = PLACE_W + BEAT_W;
localparam READ = 3;                      // from an address to the lanes: a block RAM's word comes late, and from afar
localparam STAGES = LATENCY + READ;       // from a read to the write
localparam WORD_W = FP16 != 0 ? 2 * DATA_W + FORM_W : DATA_W;  // of a slot
localparam AGE_W = (BEAT_W > 5 ? BEAT_W : 5) + 1;  // of a beat's index and its stage together

function [COUNT_W-1:0] beats_of(input [13:0] length);
    beats_of = {1'b0, length[13:BYTES_LOG2]} + {{COUNT_W - 1{1'b0}}, length[BYTES_LOG2-1:0] != {BYTES_LOG2{1'b0}}};
endfunction

// ------------------------------------------------------------------------------------- the move in hand, and the next one
// The next one is looked at while the one in hand goes on: whether it will have to wait is known when it begins.
reg                 ahead_valid_reg;
reg [MOVE_BITS-1:0] ahead_reg;
reg [COUNT_W-1:0]   ahead_in_reg, ahead_out_reg;
reg                 busy_reg;
reg [MOVE_BITS-1:0] move_reg;
reg [COUNT_W-1:0]   beat_reg, in_beats_reg, out_beats_reg;
reg                 takes_reg, makes_reg, last_reg;  // of this beat
reg [PORTS-1:0]     source_reg;                      // the port, by its bit
reg                 hold_reg;                        // beat 0 has to wait

wire [PLACE_W-1:0] from = move_reg[MOVE_FROM_LSB +: PLACE_W];
wire [PLACE_W-1:0] to = move_reg[MOVE_TO_LSB +: PLACE_W];
wire [PLACE_W-1:0] ahead_from = ahead_reg[MOVE_FROM_LSB +: PLACE_W];
wire               writes = makes_reg && move_reg[MOVE_WRITE_LSB];

wire go = busy_reg && !hold_reg && (!takes_reg || (payload_valid & source_reg) != {PORTS{1'b0}});
wire load = ahead_valid_reg && (!busy_reg || (go && last_reg));

// The store holds what earlier moves wrote only when it has left the lanes. Within a move each beat has its own address, so
// only beats of earlier ones are in the way of a beat; and none is in the way of beat i if it will have left by then, i
// cycles after beat 0 or more. So beat 0 alone may have to wait.
reg  [STAGES-1:0]         writing_reg;
reg  [STAGES-2:0]         lasts_reg;       // one that would be in the way of its address
reg  [STAGES*PLACE_W-1:0] place_reg;
reg  [STAGES*BEAT_W-1:0]  index_reg;
reg                       in_the_way, in_the_way_ahead;  // of a beat 0 in the next cycle
integer h;
always @* begin
    in_the_way = 1'b0;
    in_the_way_ahead = busy_reg && writes && to == ahead_from && beat_reg < STAGES[COUNT_W-1:0];
    for (h = 0; h < STAGES - 1; h = h + 1) begin
        in_the_way = in_the_way || (lasts_reg[h] && place_reg[PLACE_W*h +: PLACE_W] == from);
        in_the_way_ahead = in_the_way_ahead || (lasts_reg[h] && place_reg[PLACE_W*h +: PLACE_W] == ahead_from);
    end
end
// In stage h, beat i lasts while i + h + 1 < STAGES: it is looked at a stage before.
always @(posedge clk) begin
    lasts_reg[0] <= go && writes && beat_reg < STAGES[COUNT_W-1:0] - 1'b1 && !rst;
    for (h = 1; h < STAGES - 1; h = h + 1)
        lasts_reg[h] <= lasts_reg[h-1] && !rst
            && {{AGE_W - BEAT_W{1'b0}}, index_reg[BEAT_W*(h-1) +: BEAT_W]} + h[AGE_W-1:0] + 1'b1 < STAGES[AGE_W-1:0];
end

wire [COUNT_W-1:0] after = beat_reg + 1'b1;
wire [COUNT_W-1:0] next_after = beat_reg + {{COUNT_W - 2{1'b0}}, 2'd2};

assign payload_ready = source_reg & {PORTS{go && takes_reg}};
// (Not in the cycle in which the one before leaves it: what is ready here would depend on the payload of a port.)
assign move_ready = !ahead_valid_reg;
assign idle = !busy_reg && !ahead_valid_reg && !move_valid && valid_reg == {STAGES{1'b0}};

integer q;
always @(posedge clk) begin
    if (load) ahead_valid_reg <= 1'b0;
    if (move_ready) begin
        ahead_valid_reg <= move_valid;
        ahead_reg <= move_data;
        ahead_in_reg <= beats_of(move_data[MOVE_IN_BYTES_LSB +: MOVE_IN_BYTES_WIDTH]);
        ahead_out_reg <= beats_of(move_data[MOVE_OUT_BYTES_LSB +: MOVE_OUT_BYTES_WIDTH]);
    end
    if (go) begin
        beat_reg <= after;
        takes_reg <= after < in_beats_reg;
        makes_reg <= after < out_beats_reg;
        last_reg <= next_after >= in_beats_reg && next_after >= out_beats_reg;
        if (last_reg) busy_reg <= 1'b0;
    end
    hold_reg <= hold_reg && in_the_way;
    if (load) begin
        busy_reg <= ahead_in_reg != {COUNT_W{1'b0}} || ahead_out_reg != {COUNT_W{1'b0}};
        move_reg <= ahead_reg;
        beat_reg <= {COUNT_W{1'b0}};
        in_beats_reg <= ahead_in_reg;
        out_beats_reg <= ahead_out_reg;
        takes_reg <= ahead_in_reg != {COUNT_W{1'b0}};
        makes_reg <= ahead_out_reg != {COUNT_W{1'b0}};
        last_reg <= ahead_in_reg[COUNT_W-1:1] == {COUNT_W - 1{1'b0}} && ahead_out_reg[COUNT_W-1:1] == {COUNT_W - 1{1'b0}};
        for (q = 0; q < PORTS; q = q + 1) source_reg[q] <= ahead_reg[MOVE_SRC_LSB +: MOVE_SRC_WIDTH] == q[2:0];
        hold_reg <= in_the_way_ahead && ahead_out_reg != {COUNT_W{1'b0}};
    end
    if (rst) begin
        busy_reg <= 1'b0;
        ahead_valid_reg <= 1'b0;
    end
end

reg [DATA_W-1:0] arriving;
integer p;
always @* begin
    arriving = {DATA_W{1'b0}};
    for (p = 0; p < PORTS; p = p + 1) arriving = arriving | (payload_data[DATA_W*p +: DATA_W] & {DATA_W{source_reg[p]}});
end

// ------------------------------------------------------------------------------------------- the record, as payload beats
wire [127:0] record = {
    move_reg[MOVE_HELD_LSB +: MOVE_HELD_WIDTH], 18'd0, move_reg[MOVE_HELD_BYTES_LSB +: MOVE_HELD_BYTES_WIDTH],
    move_reg[MOVE_OTHER_LSB +: MOVE_OTHER_WIDTH], 18'd0, move_reg[MOVE_OTHER_BYTES_LSB +: MOVE_OTHER_BYTES_WIDTH]
};
reg [575:0] record_bytes;  // byte 0 of the payload in the low bits
integer b;
always @* begin
    record_bytes = 576'd0;
    for (b = 0; b < 16; b = b + 1) record_bytes[8*b +: 8] = record[127-8*b -: 8];
end
wire [DATA_W-1:0] record_beat = DATA_W == 64 && beat_reg[0] ? record_bytes[64 +: DATA_W] : record_bytes[0 +: DATA_W];

// ---------------------------------------------------------------------------------------------------- store and lanes
// The reading stages, then LATENCY stages in the lanes; what belongs to a beat goes along with it.
reg  [READ*DATA_W-1:0]    a_reg;
reg  [READ*4-1:0]         op_reg;
reg  [READ-1:0]           little_reg;
reg  [(READ-1)*WORD_W-1:0] b_reg;
reg  [STAGES-1:0]         valid_reg;
reg  [STAGES*PORTS-1:0]   ports_reg;
wire [WORD_W-1:0]         b_data, out_data;
wire                      out_valid;

always @(posedge clk) begin
    a_reg <= {a_reg[(READ-1)*DATA_W-1:0], move_reg[MOVE_RECORD_LSB] ? record_beat : arriving};
    b_reg <= {b_reg[(READ-2)*WORD_W-1:0], b_data};
    op_reg <= {op_reg[(READ-1)*4-1:0], move_reg[MOVE_OP_LSB +: MOVE_OP_WIDTH]};
    little_reg <= {little_reg[READ-2:0], move_reg[MOVE_LITTLE_LSB]};
    valid_reg <= {valid_reg[STAGES-2:0], go && makes_reg};
    writing_reg <= {writing_reg[STAGES-2:0], go && writes};
    place_reg <= {place_reg[(STAGES-1)*PLACE_W-1:0], to};
    index_reg <= {index_reg[(STAGES-1)*BEAT_W-1:0], beat_reg[BEAT_W-1:0]};
    ports_reg <= {ports_reg[(STAGES-1)*PORTS-1:0], move_reg[MOVE_PORTS_LSB +: PORTS]};
    if (rst) begin
        valid_reg <= {STAGES{1'b0}};
        writing_reg <= {STAGES{1'b0}};
    end
end

epic_store #(.WIDTH(WORD_W), .DEPTH(1 << ADDR_W)) store (
    .clk(clk),
    .write(writing_reg[STAGES-1]),
    .write_addr({place_reg[(STAGES-1)*PLACE_W +: PLACE_W], index_reg[(STAGES-1)*BEAT_W +: BEAT_W]}),
    .write_data(out_data),
    .read(1'b1), .read_addr({from, beat_reg[BEAT_W-1:0]}), .read_data(b_data)
);

epic_lanes #(.DATA_W(DATA_W), .FP32(FP32), .FP16(FP16), .LATENCY(LATENCY)) lanes (
    .clk(clk), .rst(rst),
    .in_valid(valid_reg[READ-1]), .in_op(op_reg[(READ-1)*4 +: 4]), .in_little(little_reg[READ-1]),
    .in_a(a_reg[(READ-1)*DATA_W +: DATA_W]), .in_b(b_reg[(READ-2)*WORD_W +: WORD_W]),
    .out_valid(out_valid), .out_data(out_data)
);

// The slot keeps what comes out of the lanes; what leaves is rounded, with FP16.
epic_lanes_narrow #(.DATA_W(DATA_W), .FP16(FP16), .SIDE_W(PORTS)) narrow (
    .clk(clk), .rst(rst),
    .in_word(out_data), .in_side({PORTS{valid_reg[STAGES-1]}} & ports_reg[(STAGES-1)*PORTS +: PORTS]),
    .out_beat(push_data), .out_side(push)
);

wire unused = &{1'b0, out_valid, record_bytes, move_reg, ahead_reg, valid_reg};

endmodule

`default_nettype wire
