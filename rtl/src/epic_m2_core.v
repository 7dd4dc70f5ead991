// The engine of Mode II between epic_rx and epic_tx: META and payload in, JOBs and payload out.
//
//   META -> epic_m2_admit -> epic_m2_sequencer -> JOB FIFOs
//                              | MOVE
//   payload -------------> epic_m2_mover --------> payload FIFOs

`default_nettype none

`include "epic_check.vh"

module epic_m2_core #(
    parameter DATA_W = 128,      // 64, 128, 256 or 512
    parameter PORTS = 4,         // 2 to 8
    parameter MTU = 1024,        // largest payload
    parameter SLOTS = 128,       // W of all groups together, a power of two
    parameter EDGES = 32,        // of all groups together, 2 to 256
    parameter GROUPS = 8,        // 1 to 256
    parameter CHILDREN = 8,      // largest fan-in, 1 to 64
    parameter WINDOW = 64,       // largest W, a power of two
    parameter RANKS = 64,        // ranks that a Reduce can name, a power of two
    parameter FP32 = 0,          // 1: floating-point lanes
    parameter FP16 = 0,          // 1: lanes for 16-bit floats
    parameter LATENCY = FP16 != 0 ? 10 : FP32 != 0 ? 8 : 2,  // of the lanes
    parameter CLOCK_MHZ = 100,   // of clk; 0: virtual time, moved by TABLE_TIME
    parameter CYCLES = 4,        // of a step of the sequencer: 1, or 4 and more
    parameter JOB_DEPTH = 32,    // JOBs that wait at a port, a power of two, at least 8
    parameter META_BITS = 289,   // META_W
    parameter JOB_BITS = 89,     // JOB_W
    parameter EDGE_BITS = 320,   // EDGE_W
    parameter EDGE_TX_BITS = 217 // EDGE_TX_W
) (
    input  wire                       clk,
    input  wire                       rst,

    input  wire [PORTS-1:0]           meta_valid,
    input  wire [PORTS*META_BITS-1:0] meta_data,
    output wire [PORTS-1:0]           meta_ready,
    input  wire [PORTS-1:0]           payload_valid,
    input  wire [PORTS*DATA_W-1:0]    payload_data,
    output wire [PORTS-1:0]           payload_ready,

    output wire [PORTS-1:0]           job_valid,
    output wire [PORTS*JOB_BITS-1:0]  job_data,
    input  wire [PORTS-1:0]           job_ready,
    output wire [PORTS-1:0]           send_valid,  // payload of the jobs
    output wire [PORTS*DATA_W-1:0]    send_data,
    input  wire [PORTS-1:0]           send_ready,
    input  wire [PORTS*8-1:0]         edge_index,  // which edge's entry a port's epic_tx wants
    output wire [PORTS*EDGE_TX_BITS-1:0] edge_entry,  // that entry, in the cycle after
    input  wire [PORTS-1:0]           sent,        // epic_tx: a frame has left

    // Commands of the control plane (epic_m2_types.vh): a pulse, then busy until it is done.
    input  wire                       command,
    input  wire [3:0]                 command_table,
    input  wire [15:0]                command_index,
    input  wire [EDGE_BITS-1:0]       command_data,
    output wire                       busy,
    output wire [23:0]                state_tag,    // of the slot, or the edge, that was read last
    output wire [63:0]                state_bitmap,
    output wire                       state_done,
    output wire                       state_served,

    input  wire [5:0]                 counter_index,
    output wire [31:0]                counter_value,

    output wire                       idle         // nothing is to be done before a frame or a timer comes
);

`include "epic_types.vh"
`include "epic_m2_types.vh"

`EPIC_CHECK(g_check_jobs, JOB_DEPTH >= 8 && (JOB_DEPTH & (JOB_DEPTH - 1)) == 0,
    ("epic_m2_core: JOB_DEPTH is %0d, expected a power of two, 8 or more", JOB_DEPTH))
`EPIC_CHECK(g_check_below, GROUPS * RANKS <= 65536,
    ("epic_m2_core: GROUPS x RANKS is %0d, expected up to 65536", GROUPS * RANKS))

// A packet leaves up to CYCLES - 1 cycles after the time that its timer starts from, which may be 1 us behind; deadlines have
// 2 us for both.
`EPIC_CHECK(g_check_cycles, CLOCK_MHZ == 0 || CLOCK_MHZ >= CYCLES,
    ("epic_m2_core: CLOCK_MHZ is %0d, expected 0, or CYCLES, which is %0d, or more", CLOCK_MHZ, CYCLES))

localparam EDGE_AW = $clog2(EDGES);
localparam BYTES = DATA_W / 8;
localparam BEATS = (MTU + BYTES - 1) / BYTES;
localparam SEND_DEPTH = 4 * (1 << $clog2(BEATS < 4 ? 4 : BEATS));  // four largest payloads
localparam SEND_AW = $clog2(SEND_DEPTH);
localparam JOB_AW = $clog2(JOB_DEPTH);

// ------------------------------------------------------------------------------------------------------------ commands
reg                 table_valid;
reg [3:0]           table_op;
reg [15:0]          table_index;
reg [EDGE_BITS-1:0] table_data;
wire                table_ready, table_edge;

always @(posedge clk) begin
    if (command) begin
        table_op <= command_table;
        table_index <= command_index;
        table_data <= command_data;
    end
    if (command) table_valid <= 1'b1;
    else if (table_ready) table_valid <= 1'b0;
    if (rst) table_valid <= 1'b0;
end
assign busy = table_valid;

// --------------------------------------------------------------------------------------------------- time and timers
wire        ready;  // reset is over
wire [31:0] now;
wire [31:0] skip = table_ready && table_op == TABLE_TIME ? table_data[31:0] : 32'd0;
epic_m2_clock #(.CLOCK_MHZ(CLOCK_MHZ)) clock (.clk(clk), .rst(rst), .skip(skip), .now(now));

wire               timer_write, timer_armed, timer_due, timer_take;
wire [EDGE_AW-1:0] timer_edge, timer_due_edge;
wire [31:0]        timer_deadline;
// (A cycle later, for that comes from afar. Whether a timer is really due is asked when its event is decided.)
reg                timer_write_reg, timer_armed_reg;
reg  [EDGE_AW-1:0] timer_edge_reg;
reg  [31:0]        timer_deadline_reg;
always @(posedge clk) begin
    timer_write_reg <= timer_write && !rst;
    timer_armed_reg <= timer_armed;
    timer_edge_reg <= timer_edge;
    timer_deadline_reg <= timer_deadline;
end
epic_m2_timers #(.EDGES(EDGES)) timers (
    .clk(clk), .rst(rst), .now(now),
    .write(timer_write_reg), .write_edge(timer_edge_reg), .write_armed(timer_armed_reg),
    .write_deadline(timer_deadline_reg),
    .due(timer_due), .due_edge(timer_due_edge), .take(timer_take)
);

// ------------------------------------------------------------------------------------------------------------- frames
// An edge's entry is written to these tables a cycle later than to the sequencer's.
reg             write_edge_reg;
reg [7:0]       write_index_reg;
always @(posedge clk) begin
    write_edge_reg <= table_edge && !rst;
    write_index_reg <= table_index[7:0];
end
reg [EDGE_BITS-1:0] write_entry_reg;
always @(posedge clk) write_entry_reg <= table_data;

// What a port shows waits here, as in epic_m3_core: who is next depends on all ports, which are far away.
wire [PORTS-1:0]           shown_valid, shown_ready;
wire [PORTS*META_BITS-1:0] shown_data;
genvar p;
generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_meta
        epic_delay_fifo #(.WIDTH(META_BITS), .DEPTH(8), .DELAY(1), .READY_REG(1)) waits (
            .clk(clk), .rst(rst),
            .in_valid(meta_valid[p]), .in_data(meta_data[META_BITS*p +: META_BITS]), .in_ready(meta_ready[p]),
            .out_valid(shown_valid[p]), .out_data(shown_data[META_BITS*p +: META_BITS]), .out_ready(shown_ready[p])
        );
    end
endgenerate

wire            in_valid, in_ready, admit_idle;
wire [IN_W-1:0] in_data;
epic_m2_admit #(.PORTS(PORTS), .EDGES(EDGES), .MTU(MTU)) admit (
    .clk(clk), .rst(rst),
    .meta_valid(shown_valid & {PORTS{ready}}), .meta_data(shown_data), .meta_ready(shown_ready),
    .in_valid(in_valid), .in_data(in_data), .in_ready(in_ready), .idle(admit_idle),
    .write_edge(write_edge_reg), .write_index(write_index_reg), .write_entry(write_entry_reg)
);

wire              move_valid, move_ready, seq_idle;
wire [MOVE_W-1:0] move_data;
wire [PORTS-1:0]  job, job_room, send_room, ordered, job_failed;
wire [JOB_W-1:0]  job_new;
wire              count_frame, count_ce, count_completed, count_poisoned, count_outcome, count_send;
wire [7:0]        count_outcome_index, count_send_index;
epic_m2_sequencer #(
    .CYCLES(CYCLES), .PORTS(PORTS), .EDGES(EDGES), .GROUPS(GROUPS), .CHILDREN(CHILDREN), .SLOTS(SLOTS),
    .WINDOW(WINDOW), .RANKS(RANKS)
) sequencer (
    .clk(clk), .rst(rst), .now(now),
    .in_valid(in_valid), .in_data(in_data), .in_ready(in_ready),
    .move_valid(move_valid), .move_data(move_data), .move_ready(move_ready),
    .job(job), .job_data(job_new), .job_room(job_room), .send_room(send_room), .ordered(ordered),
    .job_failed(job_failed),
    .timer_write(timer_write), .timer_armed(timer_armed), .timer_deadline(timer_deadline), .timer_edge(timer_edge),
    .timer_due(timer_due), .timer_due_edge(timer_due_edge), .timer_take(timer_take),
    .table_valid(table_valid && ready), .table_op(table_op), .table_index(table_index), .table_data(table_data),
    .table_ready(table_ready), .table_edge(table_edge),
    .slot_live(state_served), .slot_done(state_done), .slot_cell(state_tag), .slot_bitmap(state_bitmap),
    .count_frame(count_frame), .count_ce(count_ce), .count_completed(count_completed),
    .count_poisoned(count_poisoned), .count_outcome(count_outcome), .count_outcome_index(count_outcome_index),
    .count_send(count_send), .count_send_index(count_send_index),
    .idle(seq_idle)
);

epic_counters #(.PORTS(PORTS)) counters (
    .clk(clk), .rst(rst), .ready(ready),
    .frame(count_frame), .ce(count_ce), .completed(count_completed), .poisoned(count_poisoned),
    .outcome(count_outcome), .outcome_index(count_outcome_index[5:0]),
    .send(count_send), .send_index(count_send_index[5:0]), .send_count(7'd1),
    .sent(sent), .failed(job_failed),
    .read_index(counter_index), .read_value(counter_value)
);

// --------------------------------------------------------------------------------------------------------------- data
// Moves wait here, so that the next events are decided while the data of one goes by.
wire              next_valid, next_ready, mover_idle;
wire [MOVE_W-1:0] next_data;
wire [2:0]        moves_room;
epic_fifo #(.WIDTH(MOVE_W), .DEPTH(4)) moves (
    .clk(clk), .rst(rst),
    .in_valid(move_valid), .in_data(move_data), .in_ready(move_ready), .commit(1'b0), .rewind(1'b0),
    .out_valid(next_valid), .out_data(next_data), .out_ready(next_ready), .room(moves_room)
);

wire [PORTS-1:0]  push;
wire [DATA_W-1:0] push_data;
wire [PORTS-1:0]        beat_valid, beat_ready;
wire [PORTS*DATA_W-1:0] beat_data;
epic_m2_mover #(
    .DATA_W(DATA_W), .PORTS(PORTS), .MTU(MTU), .SLOTS(SLOTS), .FP32(FP32), .FP16(FP16), .LATENCY(LATENCY)
) mover (
    .clk(clk), .rst(rst),
    .move_valid(next_valid), .move_data(next_data), .move_ready(next_ready), .idle(mover_idle),
    .payload_valid(beat_valid), .payload_data(beat_data), .payload_ready(beat_ready),
    .push(push), .push_data(push_data)
);

// ---------------------------------------------------------------------------------------------------- what waits to leave
wire [23:0] new_beats_wide = {10'd0, move_data[MOVE_OUT_BYTES_LSB +: MOVE_OUT_BYTES_WIDTH]} + BYTES[23:0] - 24'd1;
wire [SEND_AW:0] new_beats = new_beats_wide[$clog2(BYTES) +: SEND_AW + 1];

wire [PORTS-1:0] port_idle;
generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_port
        wire [JOB_AW:0]  jobs_room;
        wire [SEND_AW:0] sends_room;
        wire             jobs_ready, sends_ready;
        // A port's payload comes from afar, and goes there.
        epic_slice #(.WIDTH(DATA_W)) arrives (
            .clk(clk), .rst(rst),
            .in_valid(payload_valid[p]), .in_data(payload_data[DATA_W*p +: DATA_W]), .in_ready(payload_ready[p]),
            .out_valid(beat_valid[p]), .out_data(beat_data[DATA_W*p +: DATA_W]), .out_ready(beat_ready[p])
        );
        reg               push_reg;
        reg  [DATA_W-1:0] push_data_reg;
        always @(posedge clk) begin
            push_reg <= push[p] && !rst;
            push_data_reg <= push_data;
        end
        // Places for beats that nobody has, neither a beat nor a move in hand that is going to push one.
        reg              left_reg;
        reg  [SEND_AW:0] free_reg;

        epic_fifo #(.WIDTH(JOB_W), .DEPTH(JOB_DEPTH)) jobs (
            .clk(clk), .rst(rst),
            .in_valid(job[p]), .in_data(job_new), .in_ready(jobs_ready), .commit(1'b0), .rewind(1'b0),
            .out_valid(job_valid[p]), .out_data(job_data[JOB_W*p +: JOB_W]), .out_ready(job_ready[p]),
            .room(jobs_room)
        );
        epic_fifo #(.WIDTH(DATA_W), .DEPTH(SEND_DEPTH), .REGISTER(1)) sends (
            .clk(clk), .rst(rst),
            .in_valid(push_reg), .in_data(push_data_reg), .in_ready(sends_ready), .commit(1'b0), .rewind(1'b0),
            .out_valid(send_valid[p]), .out_data(send_data[DATA_W*p +: DATA_W]), .out_ready(send_ready[p]),
            .room(sends_room)
        );
        always @(posedge clk) begin
            left_reg <= send_valid[p] && send_ready[p] && !rst;
            free_reg <= free_reg + {{SEND_AW{1'b0}}, left_reg} - (ordered[p] ? new_beats : {SEND_AW + 1{1'b0}});
            if (rst) free_reg <= SEND_DEPTH[SEND_AW:0];
        end
        epic_ram #(.WIDTH(EDGE_TX_W), .DEPTH(EDGES)) entries (
            .clk(clk),
            .write(write_edge_reg), .write_addr(write_index_reg[EDGE_AW-1:0]), .write_data(write_entry_reg[EDGE_TX_W-1:0]),
            .read(1'b1), .read_addr(edge_index[8*p +: EDGE_AW]), .read_data(edge_entry[EDGE_TX_W*p +: EDGE_TX_W])
        );
        // With all places free no beat is on its way.
        assign port_idle[p] = jobs_room[JOB_AW] && !job_valid[p] && free_reg[SEND_AW];
        // Acknowledgements may take places that packets leave to them.
        assign job_room[p] = jobs_room != {JOB_AW + 1{1'b0}};
        assign send_room[p] = jobs_room > JOB_DEPTH[JOB_AW:0] / 2 && free_reg >= BEATS[SEND_AW:0];
        wire unused = &{1'b0, jobs_ready, sends_ready, sends_room, edge_index[8*p +: 8]};
    end
endgenerate

assign idle = ready && admit_idle && !in_valid && seq_idle && mover_idle && !next_valid
    && !table_valid
    && moves_room == 3'd4 && port_idle == {PORTS{1'b1}} && meta_valid == {PORTS{1'b0}};

wire unused = &{1'b0, new_beats_wide, count_outcome_index, count_send_index};

endmodule

`default_nettype wire
