// Mode III, the data pass: carries out PASS records in order, one beat a cycle. A beat of the frame's payload (or of a
// conflict record), a beat of the slot, or both go through the lanes; what comes out is kept in the slot and pushed to
// every port that sends it. Children that share a port take further passes, one for each multicast row.
//
// A pass never stops once it has started: its payload was committed before its META, and it waits for room beforehand. So
// a beat is written a fixed time after it was read. A beat whose address is still on its way to be written, by a pass
// before, takes the value from there; it must only not be read before that value has left the lanes, so that a pass may
// start LANE_LATENCY cycles after one of the same slot. A port without room for PATIENCE cycles is given up until it has
// room: what is sent there is lost, and counted.
//
//   0        the next PASS and its row's number        flight 0   payload and slot are read
//   1        row and ranks come out of memories        flight 1   both come out of memories
//   2        edges by port                             flight 2   operands, to the lanes
//   3        who gets what: a queue, whose first       then       LANE_LATENCY later: written, pushed to the ports
//            waits in a register until it can start

`default_nettype none

`include "epic_check.vh"

module epic_m3_pass #(
    parameter DATA_W = 128,        // of a beat here: PORT_W times a power of two
    parameter PORT_W = 128,        // of a beat of a port
    parameter PORTS = 4,
    parameter EDGES = 32,
    parameter SLOTS = 128,
    parameter MTU = 1024,
    parameter ROWS = 16,           // multicast rows of all groups, 2 to 256
    parameter RANKS = 256,         // ranks that a Reduce can name, a power of two
    parameter FP32 = 0,
    parameter FP16 = 0,
    parameter LANE_LATENCY = FP16 != 0 ? 10 : FP32 != 0 ? 8 : 2,  // of epic_lanes
    parameter PATIENCE = 4096,     // cycles
    parameter PASS_BITS = 234,     // PASS_W
    parameter DEPTH = 32,          // passes that wait
    parameter COUNT_W = DATA_W == PORT_W ? 1 : $clog2(DATA_W / PORT_W)
) (
    input  wire                    clk,
    input  wire                    rst,

    input  wire                    pass_valid,
    input  wire [PASS_BITS-1:0]    pass_data,
    output reg                     pass_room,     // for 16 more: what is on its way, and one

    input  wire [PORTS-1:0]        payload_valid,
    input  wire [PORTS*DATA_W-1:0] payload_data,
    output reg  [PORTS-1:0]        payload_ready,

    // To the ports: frames, then their beats.
    input  wire [PORTS-1:0]        job_room,      // for a frame and the largest payload, with what started since
    output reg  [PORTS-1:0]        job_push,
    output reg  [PORTS*8-1:0]      job_edge,
    output reg  [PORTS-1:0]        job_payload,   // with the payload; without, as NULL where it has one
    output reg                     job_ack,
    output reg  [23:0]             job_cell,
    output reg  [31:0]             job_imm,
    output reg  [13:0]             job_bytes,
    output reg                     job_ce,
    output wire [PORTS-1:0]        beat_push,
    output wire [DATA_W-1:0]       beat,
    output wire [COUNT_W-1:0]      beat_count,    // of the port's beats in it, modulo DATA_W / PORT_W
    output reg  [PORTS-1:0]        failed,        // a frame for this port was lost

    input  wire                    write_row,
    input  wire                    write_below,
    /* verilator lint_off UNUSEDSIGNAL */  // as many bits as the parameters need
    input  wire [15:0]             write_index,
    input  wire [319:0]            write_data,
    /* verilator lint_on UNUSEDSIGNAL */

    output wire                    idle
);

`include "epic_pkg.vh"
`include "epic_types.vh"

localparam BYTES = DATA_W / 8;
localparam BYTES_LOG2 = $clog2(BYTES);
localparam BEATS = (MTU + BYTES - 1) / BYTES;
localparam BEAT_W = BEATS < 2 ? 1 : $clog2(BEATS);   // of an address within a slot
localparam LEFT_W = 14 - BYTES_LOG2 + 1;             // of a number of beats
localparam SLOT_W = $clog2(SLOTS);
localparam ADDR_W = SLOT_W + BEAT_W;
localparam ROW_W = $clog2(ROWS);
localparam RANK_W = $clog2(RANKS);
localparam EDGE_BITS = $clog2(EDGES);
localparam WAIT_W = $clog2(PATIENCE + 1);
localparam ROW_BITS = 16 * PORTS;
localparam FLIGHT = LANE_LATENCY + 3;                // stages from address to write
localparam WORD_W = FP16 != 0 ? 2 * DATA_W + FORM_W : DATA_W;  // of a slot
localparam EARLY = LANE_LATENCY < 2 ? 1 : LANE_LATENCY - 1;  // cycles in which a pass of the same slot must not start

`EPIC_CHECK(g_check_width, PORT_W >= 64 && DATA_W % PORT_W == 0 && (DATA_W & (DATA_W - 1)) == 0 && DATA_W <= 4096,
    ("epic_m3_pass: DATA_W is %0d, expected PORT_W (%0d) times a power of two, up to 4096", DATA_W, PORT_W))
`EPIC_CHECK(g_check_rows, ROWS >= 2 && ROWS <= 256, ("epic_m3_pass: ROWS is %0d, expected 2 to 256", ROWS))
`EPIC_CHECK(g_check_ranks, RANKS >= 2 && RANKS <= 65536 && (RANKS & (RANKS - 1)) == 0,
    ("epic_m3_pass: RANKS is %0d, expected a power of two from 2 to 65536", RANKS))
`EPIC_CHECK(g_check_patience, PATIENCE >= 1, ("epic_m3_pass: PATIENCE is %0d, expected 1 or more", PATIENCE))
`EPIC_CHECK(g_check_depth, DEPTH >= 32, ("epic_m3_pass: DEPTH is %0d, expected 32 or more", DEPTH))
`EPIC_CHECK(g_check_records, PASS_BITS == PASS_W, ("epic_m3_pass: PASS_BITS is not that of epic_types.vh"))

// Beats of a payload; the 14 bits of a length and BYTES - 1 have a carry.
function [LEFT_W-1:0] beats_of(input [13:0] length);
    /* verilator lint_off UNUSEDSIGNAL */
    reg [14:0] sum;
    /* verilator lint_on UNUSEDSIGNAL */
    begin
        sum = {1'b0, length} + BYTES[14:0] - 15'd1;
        beats_of = sum[14:BYTES_LOG2];
    end
endfunction

localparam [LEFT_W-1:0] ONE_LEFT = 1;
localparam PORT_BYTES_LOG2 = $clog2(PORT_W / 8);
localparam [14:0] PORT_ROUND = PORT_W[14:0] / 15'd8 - 15'd1;

// The port's beats in the last beat of a payload, modulo DATA_W / PORT_W.
function [COUNT_W-1:0] port_beats(input [13:0] length);
    /* verilator lint_off UNUSEDSIGNAL */
    reg [14:0] sum;
    /* verilator lint_on UNUSEDSIGNAL */
    begin
        sum = {1'b0, length} + PORT_ROUND;
        port_beats = sum[PORT_BYTES_LOG2 +: COUNT_W];
    end
endfunction

// ------------------------------------------------------------------------------ 0: the next pass, and its tables' addresses
// A pass with more than one row is known as such from the start: what is taken is not to depend on comparing rows.
wire                 head_valid, head_single;
wire [PASS_BITS-1:0] head;
wire                 head_take;
wire [$clog2(DEPTH):0] fifo_room;
wire                 fifo_ready;
wire                 single = pass_data[PASS_SEND_LSB +: PASS_SEND_WIDTH] != SEND_ALL
    || pass_data[PASS_ROWS_LSB +: PASS_ROWS_WIDTH] == {PASS_ROWS_WIDTH{1'b0}};
epic_fifo #(.WIDTH(PASS_BITS + 1), .DEPTH(DEPTH)) passes (
    .clk(clk), .rst(rst),
    .in_valid(pass_valid), .in_data({single, pass_data}), .in_ready(fifo_ready), .commit(1'b0), .rewind(1'b0),
    .out_valid(head_valid), .out_data({head_single, head}), .out_ready(head_take), .room(fifo_room)
);
// 13 requests may be on their way here when one more is taken, and two may have come since this was seen.
always @(posedge clk) pass_room <= !rst && {{26 - $clog2(DEPTH){1'b0}}, fifo_room} >= 27'd17;

reg        issue_reg;  // the queue of stage 3 has room for what is on its way there, and one
reg  [5:0] row_reg;    // how many rows of the head are done
reg        last_reg;   // of its rows, this is the last; not the first
wire       last_row = head_single || last_reg;
// A rank's bits are those of edges of all groups: none is looked up while one is written.
wire       issue = head_valid && issue_reg && !write_below;
/* verilator lint_off UNUSEDSIGNAL */
wire [7:0] row_at = head[PASS_ROW_LSB +: 8] + {2'd0, row_reg};
/* verilator lint_on UNUSEDSIGNAL */
wire [15:0] rank = head[PASS_IMM_LSB + IMMDT_RANK_LSB +: 16];

assign head_take = issue && last_row;

wire [ROW_BITS-1:0] row_1;
epic_ram #(.WIDTH(ROW_BITS), .DEPTH(ROWS)) rows (
    .clk(clk),
    .write(write_row), .write_addr(write_index[ROW_W-1:0]), .write_data(write_data[ROW_BITS-1:0]),
    .read(1'b1), .read_addr(row_at[ROW_W-1:0]), .read_data(row_1)
);

// below[rank] has a bit for each edge: the rank is below it. Edges of all groups fit, for an edge is of one group.
wire [EDGES-1:0] below_1;
epic_ram #(.WIDTH(EDGES), .DEPTH(RANKS), .ANY(1)) below (
    .clk(clk),
    .write(write_below), .write_addr(write_index[RANK_W-1:0]), .write_data(write_data[EDGES-1:0]),
    .read(1'b1), .read_addr(rank[RANK_W-1:0]), .read_data(below_1)
);

// ------------------------------------------------------------------------------------------------- 1: out of the memories
reg                 valid_1, first_1, known_1;
reg [PASS_BITS-1:0] pass_1;
always @(posedge clk) begin
    valid_1 <= issue;
    pass_1 <= head;
    first_1 <= row_reg == 6'd0;
    known_1 <= {16'd0, rank} < RANKS;
    if (issue) begin
        row_reg <= last_row ? 6'd0 : row_reg + 6'd1;
        last_reg <= !last_row && row_reg + 6'd1 == head[PASS_ROWS_LSB +: PASS_ROWS_WIDTH];
    end
    if (rst) begin
        valid_1 <= 1'b0;
        row_reg <= 6'd0;
        last_reg <= 1'b0;
    end
end

wire [1:0]  send_1 = pass_1[PASS_SEND_LSB +: PASS_SEND_WIDTH];
wire [31:0] imm_1 = pass_1[PASS_IMM_LSB +: PASS_IMM_WIDTH];
wire [13:0] bytes_1 = pass_1[PASS_BYTES_LSB +: PASS_BYTES_WIDTH];
// A Reduce's result has its payload only where the destination is below (EPIC-E-06). Not so its partial, which goes to
// the parent: that edge has every rank below it.
wire reduce_1 = imm_1[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH] == PRIMITIVE_REDUCE
    && !imm_1[IMMDT_NULL_LSB] && !imm_1[IMMDT_ERR_LSB] && !pass_1[PASS_ACK_LSB];

// ------------------------------------------------------------------------------------------------------ 2: edges by port
reg                 valid_2, drain_2, use_2, write_2, record_2, known_2, everybody_2, some_2;
reg [PASS_BITS-1:0] pass_2;
reg [3:0]           op_2;
reg [PORTS-1:0]     dest_2;
reg [PORTS*8-1:0]   edge_2;
reg [EDGES-1:0]     below_2;
reg [LEFT_W-1:0]    beats_2, in_beats_2;
integer p;
always @(posedge clk) begin
    valid_2 <= valid_1;
    pass_2 <= pass_1;
    drain_2 <= first_1 && pass_1[PASS_DRAIN_LSB];
    use_2 <= first_1 && pass_1[PASS_USE_LSB];
    write_2 <= first_1 && pass_1[PASS_WRITE_LSB];
    record_2 <= first_1 && pass_1[PASS_RECORD_LSB];
    op_2 <= first_1 ? pass_1[PASS_OP_LSB +: 4] : LANE_B;
    known_2 <= known_1;
    everybody_2 <= !reduce_1 || pass_1[PASS_UP_LSB];
    some_2 <= bytes_1 != 14'd0;
    below_2 <= below_1;
    for (p = 0; p < PORTS; p = p + 1) begin
        edge_2[8*p +: 8] <= send_1 == SEND_ALL ? row_1[16*p +: 8] : pass_1[PASS_EDGE_LSB +: 8];
        dest_2[p] <= send_1 == SEND_ALL ? row_1[16*p + 8]
            : send_1 == SEND_ONE && pass_1[PASS_PORT_LSB +: 3] == p[2:0];
    end
    beats_2 <= beats_of(bytes_1);
    in_beats_2 <= beats_of(pass_1[PASS_IN_BYTES_LSB +: 14]);
    if (rst) valid_2 <= 1'b0;
end

reg [PORTS-1:0] with_2, src_2;
always @* begin
    for (p = 0; p < PORTS; p = p + 1) begin
        with_2[p] = dest_2[p] && some_2 && (everybody_2 || (known_2 && below_2[edge_2[8*p +: EDGE_BITS]]));
        src_2[p] = pass_2[PASS_SRC_LSB +: PASS_SRC_WIDTH] == p[2:0];
    end
end

// ------------------------------------------------------------------------------------------------------- 3: it can go
// The queue takes all that comes, so that nothing before it depends on what starts in this cycle.
localparam GO_DEPTH = 16;
localparam GO_W = PASS_BITS + 4 + 1 + 4 + 3 * PORTS + 8 * PORTS + 2 * LEFT_W;
wire                has_2 = some_2 && (write_2 || with_2 != {PORTS{1'b0}});
wire                valid_q, go_ready;
wire [GO_W-1:0]     go_q;
wire [$clog2(GO_DEPTH):0] go_room;
wire                start;
// The one that waits is in a register: what holds it up is known beforehand, see same_3. As in an epic_slice the one behind
// it has a place of its own, so that no start reaches the queue in its cycle: what is as wide has its enables far away.
reg                 valid_3, valid_w;
reg  [GO_W-1:0]     go_3, go_w;
wire [GO_W-1:0]     go_next = valid_w ? go_w : go_q;
wire                load = !valid_3 || start;
epic_fifo #(.WIDTH(GO_W), .DEPTH(GO_DEPTH)) queue (
    .clk(clk), .rst(rst),
    .in_valid(valid_2),
    .in_data({pass_2, drain_2, use_2, write_2, record_2, has_2, op_2, src_2, dest_2, with_2, edge_2, beats_2, in_beats_2}),
    .in_ready(go_ready), .commit(1'b0), .rewind(1'b0),
    .out_valid(valid_q), .out_data(go_q), .out_ready(!valid_w), .room(go_room)
);
// Three may have been issued since this was seen, or be in 1 and 2, and one more is.
always @(posedge clk) begin
    issue_reg <= !rst && go_room >= 5;
    if (load) begin
        valid_3 <= valid_w || valid_q;
        go_3 <= go_next;
    end
    valid_w <= !load && (valid_w || valid_q);
    if (!valid_w) go_w <= go_q;
    if (rst) begin
        valid_3 <= 1'b0;
        valid_w <= 1'b0;
    end
end

/* verilator lint_off UNUSEDSIGNAL */  // what 1 and 2 have made something else of
wire [PASS_BITS-1:0] pass_3;
wire [PASS_BITS-1:0] pass_next = go_next[GO_W-1 -: PASS_BITS];
/* verilator lint_on UNUSEDSIGNAL */
wire                 drain_3, use_3, write_3, record_3, has_3;
wire [3:0]           op_3;
wire [PORTS-1:0]     src_3, dest_3, with_3;
wire [PORTS*8-1:0]   edge_3;
wire [LEFT_W-1:0]    beats_3, in_beats_3;
assign {pass_3, drain_3, use_3, write_3, record_3, has_3, op_3, src_3, dest_3, with_3, edge_3, beats_3, in_beats_3} = go_3;
wire [SLOT_W-1:0] slot_3 = pass_3[PASS_SLOT_LSB +: SLOT_W];
wire [SLOT_W-1:0] slot_next = pass_next[PASS_SLOT_LSB +: SLOT_W];
wire [13:0]       bytes_3 = pass_3[PASS_BYTES_LSB +: PASS_BYTES_WIDTH];

// Ports that have had no room for long.
reg  [PORTS-1:0] room_reg;    // as it was: the ports are far away
reg  [PORTS-1:0] stuck_reg;
reg  [WAIT_W-1:0] wait_reg;
wire [PORTS-1:0] lost_3 = dest_3 & stuck_reg & ~room_reg;
wire [PORTS-1:0] waits_3 = dest_3 & ~stuck_reg & ~room_reg;
wire             patience_over = wait_reg == PATIENCE[WAIT_W-1:0];

reg                    busy_0;         // beats of the pass are behind the one in flight[0]: left_0 is not 0
reg [LEFT_W-1:0]       left_0;
reg [PORTS*LEFT_W-1:0] drain_reg;      // beats of each port to throw away
reg [PORTS-1:0]        draining;       // that is not 0
// The first beat of a pass that writes the slot of the one that waits is in flight[0] to flight[EARLY-1].
reg                    same_3;
assign start = valid_3 && !busy_0 && waits_3 == {PORTS{1'b0}}
    && ((drain_3 || use_3 ? src_3 : {PORTS{1'b0}}) & draining) == {PORTS{1'b0}}
    && !(has_3 && same_3);

always @(posedge clk) begin
    job_push <= {PORTS{start}} & dest_3 & ~lost_3;
    job_payload <= with_3;
    job_edge <= edge_3;
    job_ack <= pass_3[PASS_ACK_LSB];
    job_cell <= pass_3[PASS_CELL_LSB +: 24];
    job_imm <= pass_3[PASS_IMM_LSB +: 32];
    job_bytes <= bytes_3;
    job_ce <= pass_3[PASS_CE_LSB];
    failed <= {PORTS{start}} & lost_3;

    if (!valid_3 || start || waits_3 == {PORTS{1'b0}}) wait_reg <= {WAIT_W{1'b0}};
    else if (!patience_over) wait_reg <= wait_reg + 1'b1;
    room_reg <= job_room;
    stuck_reg <= (stuck_reg | (patience_over ? waits_3 : {PORTS{1'b0}})) & ~room_reg;

    for (p = 0; p < PORTS; p = p + 1) begin
        if (start && drain_3 && src_3[p]) begin
            drain_reg[LEFT_W*p +: LEFT_W] <= in_beats_3;
            draining[p] <= 1'b1;
        end
        else if (draining[p] && payload_valid[p]) begin
            drain_reg[LEFT_W*p +: LEFT_W] <= drain_reg[LEFT_W*p +: LEFT_W] - 1'b1;
            draining[p] <= drain_reg[LEFT_W*p +: LEFT_W] != ONE_LEFT;
        end
    end
    if (rst) begin
        job_push <= {PORTS{1'b0}};
        failed <= {PORTS{1'b0}};
        wait_reg <= {WAIT_W{1'b0}};
        room_reg <= {PORTS{1'b0}};
        stuck_reg <= {PORTS{1'b0}};
        draining <= {PORTS{1'b0}};
    end
end

// ---------------------------------------------------------------------------------------------- the beats, in flight
// Stage 0 reads; the beat is with the lanes from stage 2, and written in the last.
reg [FLIGHT-1:0]        flight_valid, flight_write;
reg [FLIGHT*ADDR_W-1:0] flight_addr;
reg [FLIGHT*PORTS-1:0]  flight_push;
reg [FLIGHT*COUNT_W-1:0] flight_count;
reg [EARLY-1:0]         flight_first;  // of its pass, which writes
reg [COUNT_W-1:0]       last_count_0;  // of the pass's last beat
reg                     record_0, record_1, little_0, little_1, little_l;
/* verilator lint_off UNUSEDSIGNAL */
reg                     second_0;   // of the record's beats, where it has two
/* verilator lint_on UNUSEDSIGNAL */
reg [PORTS-1:0]         use_0, use_1;   // whose payload; none in a cycle without a beat
reg [3:0]               op_0, op_1, op_l;
reg [127:0]             record_reg;
wire [ADDR_W-1:0]       addr_0 = flight_addr[0 +: ADDR_W];

// What comes into stage 0: the pass's next beat, or the first one of the pass that starts.
wire               begins = start && has_3;
wire [ADDR_W-1:0]  addr_next = busy_0 ? addr_0 + 1'b1 : {slot_3, {BEAT_W{1'b0}}};
wire [PORTS-1:0]   push_next = busy_0 ? flight_push[0 +: PORTS] : with_3 & ~lost_3;
reg  [COUNT_W-1:0] count_next;
always @* begin
    count_next = {COUNT_W{1'b0}};
    if (busy_0 && left_0 == ONE_LEFT) count_next = last_count_0;
    if (!busy_0 && beats_3 == ONE_LEFT) count_next = port_beats(bytes_3);
end

// What same_3 will be, for the one that waits and stays, and for the one behind it: looked at a cycle before, when each
// first beat in flight is one stage behind, and that of a pass which starts now is not there yet. All of this is known
// before it is known whether one starts.
wire               writes_3 = has_3 && write_3 && LANE_LATENCY > 1;
wire               first_next = start && writes_3;
reg                same_stays, same_behind;
integer            s;
always @* begin
    same_stays = 1'b0;
    same_behind = 1'b0;
    for (s = 0; s < EARLY - 1; s = s + 1) begin
        same_stays = same_stays || (flight_first[s] && flight_addr[ADDR_W*s + BEAT_W +: SLOT_W] == slot_3);
        same_behind = same_behind || (flight_first[s] && flight_addr[ADDR_W*s + BEAT_W +: SLOT_W] == slot_next);
    end
end
wire               same_started = same_behind || (writes_3 && slot_3 == slot_next);
always @(posedge clk) same_3 <= start ? same_started : valid_3 ? same_stays : same_behind;

// Vectors are shifted whole: a loop over their parts, where Verilator does not unroll it, is no shift (5.48).
always @(posedge clk) begin
    flight_valid <= {flight_valid[FLIGHT-2:0], busy_0 || begins};
    flight_write <= {flight_write[FLIGHT-2:0], busy_0 ? flight_write[0] : write_3};
    flight_addr <= {flight_addr[ADDR_W*(FLIGHT-1)-1:0], addr_next};
    flight_push <= {flight_push[PORTS*(FLIGHT-1)-1:0], push_next};
    flight_count <= {flight_count[COUNT_W*(FLIGHT-1)-1:0], count_next};
    flight_first <= (flight_first << 1) | {{EARLY - 1{1'b0}}, first_next};
    if (busy_0) begin
        left_0 <= left_0 - 1'b1;
        busy_0 <= left_0 != ONE_LEFT;
        second_0 <= 1'b1;
    end
    else begin
        left_0 <= beats_3 - 1'b1;
        busy_0 <= begins && beats_3 != ONE_LEFT;
        last_count_0 <= port_beats(bytes_3);
        use_0 <= begins && use_3 ? src_3 : {PORTS{1'b0}};
        record_0 <= record_3;
        second_0 <= 1'b0;
        little_0 <= pass_3[PASS_LITTLE_LSB];
        op_0 <= op_3;
        // First byte of the record in the low bits.
        record_reg <= {turned({18'd0, pass_3[PASS_OTHER_BYTES_LSB +: 14]}), turned(pass_3[PASS_OTHER_LSB +: 32]),
            turned({18'd0, pass_3[PASS_HELD_BYTES_LSB +: 14]}), turned(pass_3[PASS_HELD_LSB +: 32])};
    end
    use_1 <= use_0;
    record_1 <= record_0;
    op_1 <= op_0;
    op_l <= op_1;
    little_1 <= little_0;
    little_l <= little_1;
    if (rst) begin
        flight_valid <= {FLIGHT{1'b0}};
        flight_first <= {EARLY{1'b0}};
        busy_0 <= 1'b0;
        use_0 <= {PORTS{1'b0}};
    end
end

function [31:0] turned(input [31:0] word);
    turned = {word[7:0], word[15:8], word[23:16], word[31:24]};
endfunction

// Operand A. The ports' payload comes straight out of memories.
wire [DATA_W-1:0]       record_beat;
reg  [DATA_W-1:0]       record_beat_1, a_1, a_2;
reg  [PORTS*DATA_W-1:0] payload_1;
generate
    if (DATA_W >= 128) begin : g_record_wide
        reg [DATA_W-1:0] widened;
        always @* begin
            widened = {DATA_W{1'b0}};
            widened[127:0] = record_reg;
        end
        assign record_beat = widened;
    end
    else begin : g_record_narrow
        assign record_beat = second_0 ? record_reg[127:64] : record_reg[63:0];
    end
endgenerate

always @* begin
    payload_ready = draining | use_0;
    a_1 = record_beat_1 & {DATA_W{record_1}};
    for (p = 0; p < PORTS; p = p + 1) a_1 = a_1 | (payload_1[DATA_W*p +: DATA_W] & {DATA_W{use_1[p]}});
end

// Operand B: what the slot holds, or will hold when what is on its way has arrived. `by` says in which stage the newest
// such beat is: for one that reads now, it is in stage LANE_LATENCY, or one or two behind.
wire [WORD_W-1:0] b_1, kept;
reg  [WORD_W-1:0] b_2, passed_2, kept_reg;
reg  [2:0]        by_1;
reg               now_2, before_2;
wire [WORD_W-1:0] operand_b = now_2 ? kept : before_2 ? passed_2 : b_2;

epic_store #(.WIDTH(WORD_W), .DEPTH(1 << ADDR_W)) store (
    .clk(clk),
    .write(flight_valid[FLIGHT-1] && flight_write[FLIGHT-1]),
    .write_addr(flight_addr[ADDR_W*(FLIGHT-1) +: ADDR_W]), .write_data(kept),
    .read(1'b1), .read_addr(addr_0), .read_data(b_1)
);

always @(posedge clk) begin
    payload_1 <= payload_data;
    record_beat_1 <= record_beat;
    a_2 <= a_1;
    b_2 <= b_1;
    for (s = 0; s < 3; s = s + 1)
        by_1[s] <= flight_valid[LANE_LATENCY+s] && flight_write[LANE_LATENCY+s]
            && flight_addr[ADDR_W*(LANE_LATENCY+s) +: ADDR_W] == addr_0;
    kept_reg <= kept;
    passed_2 <= by_1[1] ? kept : kept_reg;
    now_2 <= by_1[0];
    before_2 <= by_1[1] || by_1[2];
end

wire lanes_valid;
epic_lanes #(.DATA_W(DATA_W), .FP32(FP32), .FP16(FP16), .LATENCY(LANE_LATENCY)) lanes (
    .clk(clk), .rst(rst),
    .in_valid(flight_valid[2]), .in_op(op_l), .in_little(little_l), .in_a(a_2), .in_b(operand_b),
    .out_valid(lanes_valid), .out_data(kept)
);

// The slot keeps what comes out of the lanes; what leaves is rounded, with FP16.
epic_lanes_narrow #(.DATA_W(DATA_W), .FP16(FP16), .SIDE_W(COUNT_W + PORTS)) narrow (
    .clk(clk), .rst(rst),
    .in_word(kept),
    .in_side({flight_count[COUNT_W*(FLIGHT-1) +: COUNT_W], flight_push[PORTS*(FLIGHT-1) +: PORTS] & {PORTS{lanes_valid}}}),
    .out_beat(beat), .out_side({beat_count, beat_push})
);

assign idle = !(head_valid || valid_1 || valid_2 || valid_q || valid_w || valid_3 || flight_valid != {FLIGHT{1'b0}}
    || fifo_room != DEPTH[$clog2(DEPTH):0] || go_room != GO_DEPTH[$clog2(GO_DEPTH):0]
    || draining != {PORTS{1'b0}});

`ifndef SYNTHESIS
always @(posedge clk) begin
    if (!rst && (use_0 & ~payload_valid) != {PORTS{1'b0}}) begin
        $display("%m: a pass found no payload on ports %b", use_0 & ~payload_valid);
        $stop;
    end
    if (!rst && ((pass_valid && !fifo_ready) || (valid_2 && !go_ready))) begin
        $display("%m: a pass found no room");
        $stop;
    end
end
`endif

endmodule

`default_nettype wire
