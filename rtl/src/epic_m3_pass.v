// Mode III, the data pass: carries out PASS records in order, one beat a cycle. A beat of the frame's payload (or of a
// conflict record), a beat of the slot, or both go through the lanes; what comes out is kept in the slot and pushed to
// every port that sends it. Children that share a port take further passes, one for each multicast row.
//
// A pass never stops once it has started: its payload was committed before its META, and it waits for room beforehand. So
// a beat is written a fixed time after it was read, and a pass may start when no beat in flight will still write its first
// address. A port without room for PATIENCE cycles is given up until it has room: what is sent there is lost, and counted.

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
    parameter LANE_LATENCY = FP32 != 0 ? 8 : 2,  // of epic_lanes
    parameter PATIENCE = 4096,     // cycles
    parameter PASS_BITS = 234,     // PASS_W
    parameter DEPTH = 16,          // passes that wait
    parameter COUNT_W = DATA_W == PORT_W ? 1 : $clog2(DATA_W / PORT_W)
) (
    input  wire                    clk,
    input  wire                    rst,

    input  wire                    pass_valid,
    input  wire [PASS_BITS-1:0]    pass_data,
    output wire                    pass_room,     // for six more

    input  wire [PORTS-1:0]        payload_valid,
    input  wire [PORTS*DATA_W-1:0] payload_data,
    output reg  [PORTS-1:0]        payload_ready,

    // To the ports: frames, then their beats.
    input  wire [PORTS-1:0]        job_room,      // for a frame and the largest payload
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

`EPIC_CHECK(g_check_width, PORT_W >= 64 && DATA_W % PORT_W == 0 && (DATA_W & (DATA_W - 1)) == 0 && DATA_W <= 4096,
    ("epic_m3_pass: DATA_W is %0d, expected PORT_W (%0d) times a power of two, up to 4096", DATA_W, PORT_W))
`EPIC_CHECK(g_check_rows, ROWS >= 2 && ROWS <= 256, ("epic_m3_pass: ROWS is %0d, expected 2 to 256", ROWS))
`EPIC_CHECK(g_check_ranks, RANKS >= 2 && RANKS <= 65536 && (RANKS & (RANKS - 1)) == 0,
    ("epic_m3_pass: RANKS is %0d, expected a power of two from 2 to 65536", RANKS))
`EPIC_CHECK(g_check_patience, PATIENCE >= 1, ("epic_m3_pass: PATIENCE is %0d, expected 1 or more", PATIENCE))
`EPIC_CHECK(g_check_depth, DEPTH >= 8, ("epic_m3_pass: DEPTH is %0d, expected 8 or more", DEPTH))
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
wire                 head_valid;
wire [PASS_BITS-1:0] head;
wire                 head_take;
wire [$clog2(DEPTH):0] fifo_room;
wire                 fifo_ready;
epic_fifo #(.WIDTH(PASS_BITS), .DEPTH(DEPTH)) passes (
    .clk(clk), .rst(rst),
    .in_valid(pass_valid), .in_data(pass_data), .in_ready(fifo_ready), .commit(1'b0), .rewind(1'b0),
    .out_valid(head_valid), .out_data(head), .out_ready(head_take), .room(fifo_room)
);
assign pass_room = fifo_room >= 6;

reg  [5:0] row_reg;    // how many rows of the head are done
wire       last_row = head[PASS_SEND_LSB +: 2] != SEND_ALL || row_reg == head[PASS_ROWS_LSB +: PASS_ROWS_WIDTH];
wire       step_1, step_2;
/* verilator lint_off UNUSEDSIGNAL */
wire [7:0] row_at = head[PASS_ROW_LSB +: 8] + {2'd0, row_reg};
/* verilator lint_on UNUSEDSIGNAL */
wire [15:0] rank = head[PASS_IMM_LSB + IMMDT_RANK_LSB +: 16];

assign head_take = head_valid && step_1 && last_row;

wire [ROW_BITS-1:0] row_1;
epic_ram #(.WIDTH(ROW_BITS), .DEPTH(ROWS)) rows (
    .clk(clk),
    .write(write_row), .write_addr(write_index[ROW_W-1:0]), .write_data(write_data[ROW_BITS-1:0]),
    .read(step_1), .read_addr(row_at[ROW_W-1:0]), .read_data(row_1)
);

// below[rank] has a bit for each edge: the rank is below it. Edges of all groups fit, for an edge is of one group.
wire [EDGES-1:0] below_1;
epic_ram #(.WIDTH(EDGES), .DEPTH(RANKS)) below (
    .clk(clk),
    .write(write_below), .write_addr(write_index[RANK_W-1:0]), .write_data(write_data[EDGES-1:0]),
    .read(step_1), .read_addr(rank[RANK_W-1:0]), .read_data(below_1)
);

// ------------------------------------------------------------------------------------------------- 1: who gets what
reg                 valid_1, first_1, known_rank_1;
reg [PASS_BITS-1:0] pass_1;
always @(posedge clk) begin
    if (step_1) begin
        valid_1 <= head_valid;
        pass_1 <= head;
        first_1 <= row_reg == 6'd0;
        known_rank_1 <= {16'd0, rank} < RANKS;
        row_reg <= head_valid && !last_row ? row_reg + 6'd1 : 6'd0;
    end
    if (rst) begin
        valid_1 <= 1'b0;
        row_reg <= 6'd0;
    end
end

wire [1:0]  send_1 = pass_1[PASS_SEND_LSB +: PASS_SEND_WIDTH];
wire [31:0] imm_1 = pass_1[PASS_IMM_LSB +: PASS_IMM_WIDTH];
// A Reduce's result has its payload only where the destination is below (EPIC-E-06). Not so its partial, which goes to
// the parent: that edge has every rank below it.
wire reduce_1 = imm_1[IMMDT_PRIMITIVE_LSB +: IMMDT_PRIMITIVE_WIDTH] == PRIMITIVE_REDUCE
    && !imm_1[IMMDT_NULL_LSB] && !imm_1[IMMDT_ERR_LSB] && !pass_1[PASS_ACK_LSB];

reg [PORTS-1:0]   dest_1, with_1;
reg [PORTS*8-1:0] edge_1;
reg [7:0]         edge_p;
integer p;
always @* begin
    edge_p = 8'd0;
    for (p = 0; p < PORTS; p = p + 1) begin
        edge_p = send_1 == SEND_ALL ? row_1[16*p +: 8] : pass_1[PASS_EDGE_LSB +: 8];
        dest_1[p] = send_1 == SEND_ALL ? row_1[16*p + 8]
            : send_1 == SEND_ONE && pass_1[PASS_PORT_LSB +: 3] == p[2:0];
        edge_1[8*p +: 8] = edge_p;
        with_1[p] = dest_1[p] && pass_1[PASS_BYTES_LSB +: 14] != 14'd0
            && (!reduce_1 || pass_1[PASS_UP_LSB] || (known_rank_1 && below_1[edge_p[EDGE_BITS-1:0]]));
    end
end

// ------------------------------------------------------------------------------------------------------- 2: ready to go
reg                 valid_2;
reg [PASS_BITS-1:0] pass_2;
reg                 drain_2, use_2, write_2, record_2;
reg [3:0]           op_2;
reg [PORTS-1:0]     dest_2, with_2;
reg [PORTS*8-1:0]   edge_2;
reg [LEFT_W-1:0]    beats_2, in_beats_2;

always @(posedge clk) begin
    if (step_2) begin
        valid_2 <= valid_1;
        pass_2 <= pass_1;
        drain_2 <= first_1 && pass_1[PASS_DRAIN_LSB];
        use_2 <= first_1 && pass_1[PASS_USE_LSB];
        write_2 <= first_1 && pass_1[PASS_WRITE_LSB];
        record_2 <= first_1 && pass_1[PASS_RECORD_LSB];
        op_2 <= first_1 ? pass_1[PASS_OP_LSB +: 4] : LANE_B;
        dest_2 <= dest_1;
        with_2 <= with_1;
        edge_2 <= edge_1;
        beats_2 <= (first_1 && pass_1[PASS_WRITE_LSB]) || with_1 != {PORTS{1'b0}}
            ? beats_of(pass_1[PASS_BYTES_LSB +: 14]) : {LEFT_W{1'b0}};
        in_beats_2 <= beats_of(pass_1[PASS_IN_BYTES_LSB +: 14]);
    end
    if (rst) valid_2 <= 1'b0;
end

wire [2:0]        src_2 = pass_2[PASS_SRC_LSB +: PASS_SRC_WIDTH];
wire [SLOT_W-1:0] slot_2 = pass_2[PASS_SLOT_LSB +: SLOT_W];
wire [ADDR_W-1:0] addr_2 = {slot_2, {BEAT_W{1'b0}}};

// Ports that have had no room for long.
reg  [PORTS-1:0] stuck_reg;
reg  [WAIT_W-1:0] wait_reg;
wire [PORTS-1:0] lost_2 = dest_2 & stuck_reg & ~job_room;
wire [PORTS-1:0] waits_2 = dest_2 & ~stuck_reg & ~job_room;
wire             patience_over = wait_reg == PATIENCE[WAIT_W-1:0];

reg [LEFT_W-1:0]    left_0;            // beats of the pass behind the one in flight[0]
reg [PORTS*LEFT_W-1:0] drain_reg;      // beats of each port to throw away
reg [PORTS-1:0]     draining;
always @* for (p = 0; p < PORTS; p = p + 1) draining[p] = drain_reg[LEFT_W*p +: LEFT_W] != {LEFT_W{1'b0}};

wire [7:0] draining_any = {{8 - PORTS{1'b0}}, draining};
wire source_ready = !(drain_2 || use_2) || !draining_any[src_2];
wire collides;
wire start = valid_2 && left_0 == {LEFT_W{1'b0}} && waits_2 == {PORTS{1'b0}} && source_ready
    && (!collides || beats_2 == {LEFT_W{1'b0}});

assign step_2 = !valid_2 || start;
assign step_1 = !valid_1 || step_2;

always @(posedge clk) begin
    job_push <= {PORTS{start}} & dest_2 & ~lost_2;
    job_payload <= with_2;
    job_edge <= edge_2;
    job_ack <= pass_2[PASS_ACK_LSB];
    job_cell <= pass_2[PASS_CELL_LSB +: 24];
    job_imm <= pass_2[PASS_IMM_LSB +: 32];
    job_bytes <= pass_2[PASS_BYTES_LSB +: 14];
    job_ce <= pass_2[PASS_CE_LSB];
    failed <= {PORTS{start}} & lost_2;

    if (!valid_2 || start || waits_2 == {PORTS{1'b0}}) wait_reg <= {WAIT_W{1'b0}};
    else if (!patience_over) wait_reg <= wait_reg + 1'b1;
    stuck_reg <= (stuck_reg | (patience_over ? waits_2 : {PORTS{1'b0}})) & ~job_room;

    for (p = 0; p < PORTS; p = p + 1) begin
        if (start && drain_2 && src_2 == p[2:0]) drain_reg[LEFT_W*p +: LEFT_W] <= in_beats_2;
        else if (draining[p] && payload_valid[p])
            drain_reg[LEFT_W*p +: LEFT_W] <= drain_reg[LEFT_W*p +: LEFT_W] - 1'b1;
    end
    if (rst) begin
        job_push <= {PORTS{1'b0}};
        failed <= {PORTS{1'b0}};
        wait_reg <= {WAIT_W{1'b0}};
        stuck_reg <= {PORTS{1'b0}};
        drain_reg <= {PORTS * LEFT_W{1'b0}};
    end
end

// ---------------------------------------------------------------------------------------------- the beats, in flight
// Stage 0 reads; the beat is with the lanes in stage 2, and written in the last.
reg [FLIGHT-1:0]        flight_valid, flight_write;
reg [FLIGHT*ADDR_W-1:0] flight_addr;
reg [FLIGHT*PORTS-1:0]  flight_push;
reg [FLIGHT*COUNT_W-1:0] flight_count;
reg [COUNT_W-1:0]       last_count_0;  // of the pass's last beat
reg                     use_0, record_0, little_0, little_1, little_l;
/* verilator lint_off UNUSEDSIGNAL */
reg                     second_0;   // of the record's beats, where it has two
/* verilator lint_on UNUSEDSIGNAL */
reg [2:0]               src_0;
reg [3:0]               op_0, op_1, op_l;
reg [127:0]             record_reg;
reg [DATA_W-1:0]        a_0, a_1, a_2, b_2;
wire [DATA_W-1:0]       b_1;
wire [ADDR_W-1:0]       addr_0 = flight_addr[0 +: ADDR_W];

integer s;
always @(posedge clk) begin
    for (s = 1; s < FLIGHT; s = s + 1) begin
        flight_valid[s] <= flight_valid[s-1];
        flight_write[s] <= flight_write[s-1];
        flight_addr[ADDR_W*s +: ADDR_W] <= flight_addr[ADDR_W*(s-1) +: ADDR_W];
        flight_push[PORTS*s +: PORTS] <= flight_push[PORTS*(s-1) +: PORTS];
        flight_count[COUNT_W*s +: COUNT_W] <= flight_count[COUNT_W*(s-1) +: COUNT_W];
    end
    if (left_0 != {LEFT_W{1'b0}}) begin
        left_0 <= left_0 - 1'b1;
        flight_addr[0 +: ADDR_W] <= addr_0 + 1'b1;
        second_0 <= 1'b1;
        if (left_0 == ONE_LEFT) flight_count[0 +: COUNT_W] <= last_count_0;
    end
    else if (start && beats_2 != {LEFT_W{1'b0}}) begin
        left_0 <= beats_2 - 1'b1;
        flight_valid[0] <= 1'b1;
        flight_write[0] <= write_2;
        flight_addr[0 +: ADDR_W] <= addr_2;
        flight_push[0 +: PORTS] <= with_2 & ~lost_2;
        flight_count[0 +: COUNT_W] <= beats_2 == ONE_LEFT ? port_beats(pass_2[PASS_BYTES_LSB +: 14]) : {COUNT_W{1'b0}};
        last_count_0 <= port_beats(pass_2[PASS_BYTES_LSB +: 14]);
        use_0 <= use_2;
        record_0 <= record_2;
        second_0 <= 1'b0;
        little_0 <= pass_2[PASS_LITTLE_LSB];
        src_0 <= src_2;
        op_0 <= op_2;
        // First byte of the record in the low bits.
        record_reg <= {turned({18'd0, pass_2[PASS_OTHER_BYTES_LSB +: 14]}), turned(pass_2[PASS_OTHER_LSB +: 32]),
            turned({18'd0, pass_2[PASS_HELD_BYTES_LSB +: 14]}), turned(pass_2[PASS_HELD_LSB +: 32])};
    end
    else flight_valid[0] <= 1'b0;
    a_1 <= a_0;
    a_2 <= a_1;
    b_2 <= b_1;
    op_1 <= op_0;
    op_l <= op_1;
    little_1 <= little_0;
    little_l <= little_1;
    if (rst) begin
        flight_valid <= {FLIGHT{1'b0}};
        left_0 <= {LEFT_W{1'b0}};
    end
end

function [31:0] turned(input [31:0] word);
    turned = {word[7:0], word[15:8], word[23:16], word[31:24]};
endfunction

// Operand A.
wire [DATA_W-1:0] record_beat;
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
    a_0 = record_0 ? record_beat : {DATA_W{1'b0}};
    for (p = 0; p < PORTS; p = p + 1) begin
        if (use_0 && src_0 == p[2:0]) a_0 = a_0 | payload_data[DATA_W*p +: DATA_W];
        payload_ready[p] = draining[p] || (flight_valid[0] && use_0 && src_0 == p[2:0]);
    end
end

epic_ram #(.WIDTH(DATA_W), .DEPTH(1 << ADDR_W)) store (
    .clk(clk),
    .write(flight_valid[FLIGHT-1] && flight_write[FLIGHT-1]),
    .write_addr(flight_addr[ADDR_W*(FLIGHT-1) +: ADDR_W]), .write_data(beat),
    .read(flight_valid[0]), .read_addr(addr_0), .read_data(b_1)
);

wire lanes_valid;
epic_lanes #(.DATA_W(DATA_W), .FP32(FP32), .LATENCY(LANE_LATENCY)) lanes (
    .clk(clk), .rst(rst),
    .in_valid(flight_valid[2]), .in_op(op_l), .in_little(little_l), .in_a(a_2), .in_b(b_2),
    .out_valid(lanes_valid), .out_data(beat)
);

assign beat_count = flight_count[COUNT_W*(FLIGHT-1) +: COUNT_W];
assign beat_push = flight_push[PORTS*(FLIGHT-1) +: PORTS] & {PORTS{lanes_valid}};

// Will a beat in flight write the first address of the pass that waits? The last stage writes now: in time.
reg hit;
always @* begin
    hit = 1'b0;
    for (s = 0; s < FLIGHT - 1; s = s + 1)
        if (flight_valid[s] && flight_write[s] && flight_addr[ADDR_W*s +: ADDR_W] == addr_2) hit = 1'b1;
end
assign collides = hit;

assign idle = !(head_valid || valid_1 || valid_2 || flight_valid != {FLIGHT{1'b0}} || fifo_room != DEPTH[$clog2(DEPTH):0]
    || draining != {PORTS{1'b0}});

`ifndef SYNTHESIS
always @(posedge clk) begin
    if (!rst && flight_valid[0] && use_0 && (payload_valid & payload_ready) == {PORTS{1'b0}}) begin
        $display("%m: a pass found no payload on port %0d", src_0);
        $stop;
    end
    if (!rst && pass_valid && !fifo_ready) begin
        $display("%m: a pass found no room");
        $stop;
    end
end
`endif

endmodule

`default_nettype wire
