// The Mode III engine between the ports' receivers and senders: META and payload in, JOBs and payload out.

`default_nettype none

`include "epic_check.vh"

module epic_m3_core #(
    parameter DATA_W = 128,      // of a beat in the core: PORT_W times a power of two
    parameter PORT_W = 128,      // of a beat that a port sends
    parameter PORTS = 4,
    parameter EDGES = 32,
    parameter GROUPS = 8,
    parameter SLOTS = 128,
    parameter CHILDREN = 8,
    parameter MTU = 1024,
    parameter ROWS = 16,
    parameter RANKS = 256,
    parameter FP32 = 0,
    parameter FP16 = 0,
    parameter LANE_LATENCY = FP16 != 0 ? 10 : FP32 != 0 ? 8 : 2,
    parameter PATIENCE = 4096,
    parameter JOB_DEPTH = 32,
    parameter PAYLOAD_DEPTH = 256,
    parameter META_BITS = 289,   // META_W
    parameter JOB_BITS = 89,     // JOB_W
    parameter ENTRY_BITS = 217   // EDGE_TX_W
) (
    input  wire                        clk,
    input  wire                        rst,

    input  wire [PORTS-1:0]            meta_valid,
    input  wire [PORTS*META_BITS-1:0]  meta_data,
    output wire [PORTS-1:0]            meta_ready,
    input  wire [PORTS-1:0]            payload_valid,
    input  wire [PORTS*DATA_W-1:0]     payload_data,
    output wire [PORTS-1:0]            payload_ready,

    output wire [PORTS-1:0]            job_valid,
    output wire [PORTS*JOB_BITS-1:0]   job_data,
    input  wire [PORTS-1:0]            job_ready,
    output wire [PORTS-1:0]            send_valid,
    output wire [PORTS*PORT_W-1:0]     send_data,
    input  wire [PORTS-1:0]            send_ready,
    input  wire [PORTS*8-1:0]          edge_index,
    output wire [PORTS*ENTRY_BITS-1:0] edge_entry,
    input  wire [PORTS-1:0]            sent,            // a frame has left: counted

    // The control plane: a table command (TABLE_*), and what it asks for.
    // The data stay for a cycle more.
    input  wire                        command,
    input  wire [3:0]                  command_table,
    input  wire [15:0]                 command_index,
    input  wire [319:0]                command_data,
    output wire                        busy,            // with clearing or reading slots
    output wire [23:0]                 state_tag,
    output wire [63:0]                 state_bitmap,
    output wire                        state_done,
    output wire                        state_served,
    input  wire [5:0]                  counter_index,
    output wire [31:0]                 counter_value,
    output reg                         idle             // no frame in here
);

`include "epic_pkg.vh"
`include "epic_types.vh"

`EPIC_CHECK(g_check_children, CHILDREN >= 1 && CHILDREN <= 64 && CHILDREN <= EDGES,
    ("epic_m3_core: CHILDREN is %0d, expected 1 to 64 and at most EDGES", CHILDREN))

// The tables are wide: what is to be written where is known a cycle before.
reg        write_edge, write_group, write_row, write_below;
reg [15:0] write_index;
always @(posedge clk) begin
    write_edge <= command && command_table == TABLE_EDGE;
    write_group <= command && command_table == TABLE_GROUP;
    write_row <= command && command_table == TABLE_ROW;
    write_below <= command && command_table == TABLE_BELOW;
    write_index <= command_index;
    if (rst) begin
        write_edge <= 1'b0;
        write_group <= 1'b0;
        write_row <= 1'b0;
        write_below <= 1'b0;
    end
end

wire             ready;   // counters have been cleared
wire             req_valid, hold, pass_room;
wire [REQ_W-1:0] req_data;
wire             admit_idle, slots_idle, pass_idle;

// Who is next depends on all ports, which are far away: what a port shows waits here. In a memory that is read
// asynchronously: the choice of a port reaches the few bits of a pointer, not the enables of all bits of a record.
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

// Its payload comes from afar, and is asked for from afar.
wire [PORTS-1:0]        beats_valid, beats_ready;
wire [PORTS*DATA_W-1:0] beats_data;
generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_payload
        epic_slice #(.WIDTH(DATA_W)) arrives (
            .clk(clk), .rst(rst),
            .in_valid(payload_valid[p]), .in_data(payload_data[DATA_W*p +: DATA_W]), .in_ready(payload_ready[p]),
            .out_valid(beats_valid[p]), .out_data(beats_data[DATA_W*p +: DATA_W]), .out_ready(beats_ready[p])
        );
    end
endgenerate

// Who says that a frame may be taken is far away too.
reg go;
always @(posedge clk) go <= !rst && ready && pass_room && !hold;

epic_m3_admit #(.PORTS(PORTS), .EDGES(EDGES), .GROUPS(GROUPS), .MTU(MTU)) admit (
    .clk(clk), .rst(rst),
    .meta_valid(shown_valid), .meta_data(shown_data), .meta_ready(shown_ready),
    .go(go), .req_valid(req_valid), .req_data(req_data), .idle(admit_idle),
    .write_edge(write_edge), .write_group(write_group), .write_index(write_index[7:0]), .write_data(command_data)
);

wire              pass_valid;
wire [PASS_W-1:0] pass_data;
wire              count, count_ce, count_completed, count_poisoned;
wire [7:0]        count_outcome, count_send;
wire [6:0]        count_send_count;
epic_m3_slots #(.SLOTS(SLOTS), .CHILDREN(CHILDREN)) slots (
    .clk(clk), .rst(rst),
    .req_valid(req_valid), .req_data(req_data), .hold(hold),
    .pass_valid(pass_valid), .pass_data(pass_data),
    .count(count), .count_ce(count_ce), .count_completed(count_completed), .count_poisoned(count_poisoned),
    .count_outcome(count_outcome), .count_send(count_send), .count_send_count(count_send_count),
    .idle(slots_idle),
    .clear(command && command_table == TABLE_SLOT_CLEAR), .clear_base(command_index),
    .clear_log2(command_data[3:0]), .clear_fan_in(command_data[13:8]),
    .read(command && command_table == TABLE_SLOT_READ), .read_slot(command_index),
    .busy(busy), .state_tag(state_tag), .state_bitmap(state_bitmap), .state_done(state_done),
    .state_served(state_served)
);

wire [PORTS-1:0]   job_room, job_push, job_payload, beat_push, failed;
wire [PORTS*8-1:0] job_edge;
wire               job_ack, job_ce;
wire [23:0]        job_cell;
wire [31:0]        job_imm;
wire [13:0]        job_bytes;
wire [DATA_W-1:0]  beat;
localparam COUNT_W = DATA_W == PORT_W ? 1 : $clog2(DATA_W / PORT_W);
wire [COUNT_W-1:0] beat_count;
epic_m3_pass #(
    .DATA_W(DATA_W), .PORT_W(PORT_W), .PORTS(PORTS), .EDGES(EDGES), .SLOTS(SLOTS), .MTU(MTU), .ROWS(ROWS),
    .RANKS(RANKS), .FP32(FP32), .FP16(FP16), .LANE_LATENCY(LANE_LATENCY), .PATIENCE(PATIENCE)
) pass (
    .clk(clk), .rst(rst),
    .pass_valid(pass_valid), .pass_data(pass_data), .pass_room(pass_room),
    .payload_valid(beats_valid), .payload_data(beats_data), .payload_ready(beats_ready),
    .job_room(job_room), .job_push(job_push), .job_edge(job_edge), .job_payload(job_payload), .job_ack(job_ack),
    .job_cell(job_cell), .job_imm(job_imm), .job_bytes(job_bytes), .job_ce(job_ce),
    .beat_push(beat_push), .beat(beat), .beat_count(beat_count), .failed(failed),
    .write_row(write_row), .write_below(write_below), .write_index(write_index), .write_data(command_data),
    .idle(pass_idle)
);

wire [PORTS-1:0] egress_idle;
generate
    for (p = 0; p < PORTS; p = p + 1) begin : g_egress
        epic_m3_egress #(
            .DATA_W(DATA_W), .PORT_W(PORT_W), .EDGES(EDGES), .MTU(MTU), .JOB_DEPTH(JOB_DEPTH), .PAYLOAD_DEPTH(PAYLOAD_DEPTH)
        ) egress (
            .clk(clk), .rst(rst), .room(job_room[p]),
            .push(job_push[p]), .push_edge(job_edge[8*p +: 8]), .push_payload(job_payload[p]), .push_ack(job_ack),
            .push_cell(job_cell), .push_imm(job_imm), .push_bytes(job_bytes), .push_ce(job_ce),
            .beat_push(beat_push[p]), .beat(beat), .beat_count(beat_count),
            .job_valid(job_valid[p]), .job_data(job_data[JOB_W*p +: JOB_W]), .job_ready(job_ready[p]),
            .payload_valid(send_valid[p]), .payload_data(send_data[PORT_W*p +: PORT_W]),
            .payload_ready(send_ready[p]),
            .edge_index(edge_index[8*p +: 8]), .edge_entry(edge_entry[EDGE_TX_W*p +: EDGE_TX_W]),
            .write_edge(write_edge), .write_index(write_index[7:0]), .write_data(command_data),
            .idle(egress_idle[p])
        );
    end
endgenerate

epic_counters #(.PORTS(PORTS)) counters (
    .clk(clk), .rst(rst), .ready(ready),
    .frame(count), .ce(count_ce), .completed(count_completed), .poisoned(count_poisoned),
    .outcome(count && count_outcome != COUNTERS), .outcome_index(count_outcome[5:0]),
    .send(count && count_send != COUNTERS), .send_index(count_send[5:0]), .send_count(count_send_count),
    .sent(sent), .failed(failed),
    .read_index(counter_index), .read_value(counter_value)
);

// All of the same cycle: a frame is in one of them until it leaves.
reg [PORTS+3:0] idle_reg;
always @(posedge clk) begin
    idle_reg <= {egress_idle, pass_idle, !pass_valid, slots_idle, admit_idle};
    idle <= ready && idle_reg == {PORTS + 4{1'b1}};
    if (rst) begin
        idle_reg <= {PORTS + 4{1'b0}};
        idle <= 1'b0;
    end
end

endmodule

`default_nettype wire
