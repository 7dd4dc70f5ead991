// A port's way out of Mode III: whatever passes start while there is `room`, their jobs and beats find places; jobs and
// beats leave as they came in number, none lost, none made up, and are held until they are taken.
//
// epic_m3_pass is assumed to start a frame only when it has seen room, and no other in as many cycles as the frame has beats;
// to push the frame a cycle later; and to push no beats that no frame has. When they come is left open: later only
// makes it harder. epic_m3_pass_props asserts all this.

`default_nettype none

`include "axis_held.svh"

module epic_m3_egress_props #(
    parameter DATA_W = 64
) (
    input wire              clk,
    input wire              start,
    input wire              with_payload,
    input wire [13:0]       bytes,
    input wire [7:0]        push_edge,
    input wire              push_ack,
    input wire [23:0]       push_cell,
    input wire [31:0]       push_imm,
    input wire              push_ce,
    input wire              beat_push,
    input wire [DATA_W-1:0] beat,
    input wire              job_ready,
    input wire              payload_ready,
    input wire [7:0]        edge_index,
    input wire              write_edge,
    input wire [7:0]        write_index,
    input wire [319:0]      write_data
);

`include "epic_types.vh"

localparam BYTES = DATA_W / 8;
localparam PLACES = 16;  // for beats
localparam JOBS = 8;

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

reg               push = 1'b0, push_payload;
reg [13:0]        push_bytes;
wire              room, job_valid, payload_valid, idle;
wire [JOB_W-1:0]  job_data;
wire [DATA_W-1:0] payload_data;
wire [216:0]      edge_entry;
epic_m3_egress #(
    .DATA_W(DATA_W), .PORT_W(DATA_W), .EDGES(2), .MTU(64), .JOB_DEPTH(JOBS), .PAYLOAD_DEPTH(PLACES)
) dut (
    .clk(clk), .rst(rst), .room(room),
    .push(push), .push_edge(push_edge), .push_payload(push_payload), .push_ack(push_ack), .push_cell(push_cell),
    .push_imm(push_imm), .push_bytes(push_bytes), .push_ce(push_ce),
    .beat_push(beat_push), .beat(beat), .beat_count(1'b0),
    .job_valid(job_valid), .job_data(job_data), .job_ready(job_ready),
    .payload_valid(payload_valid), .payload_data(payload_data), .payload_ready(payload_ready),
    .edge_index(edge_index), .edge_entry(edge_entry),
    .write_edge(write_edge), .write_index(write_index), .write_data(write_data),
    .idle(idle)
);

axis_held #(.WIDTH(JOB_W)) job_held (
    .clk(clk), .on(started), .valid(job_valid), .ready(job_ready), .data(job_data)
);
axis_held #(.WIDTH(DATA_W)) payload_held (
    .clk(clk), .on(started), .valid(payload_valid), .ready(payload_ready), .data(payload_data)
);

// The passes. They see `room` a cycle late, and a frame without its payload has no beats here.
wire [13:0] new_beats = (push_bytes + BYTES - 1) / BYTES;
wire [13:0] start_beats = (bytes + BYTES - 1) / BYTES;
reg         room_seen = 1'b0;
reg  [3:0]  behind = 4'd0;  // cycles until the next may start
reg  [5:0]  owed = 6'd0;    // beats of frames, not pushed yet
always @* begin
    assume (bytes <= 64 && (!with_payload || bytes != 0));
    assume (!start || (started && room_seen && behind == 0));
    assume (!beat_push || owed != 0);
end
always @(posedge clk) begin
    room_seen <= room && !rst;
    push <= start && !rst;
    push_payload <= with_payload;
    push_bytes <= bytes;
    behind <= start && with_payload ? start_beats[3:0] - 4'd1 : behind == 0 ? 4'd0 : behind - 4'd1;
    owed <= rst ? 6'd0 : owed + (push && push_payload ? new_beats[5:0] : 6'd0) - beat_push;
end

// Jobs and beats that are in here.
reg [5:0] beats = 6'd0;
reg [4:0] jobs = 5'd0;
wire      job_gone = job_valid && job_ready, beat_gone = payload_valid && payload_ready;
always @(posedge clk) begin
    beats <= rst ? 6'd0 : beats + beat_push - beat_gone;
    jobs <= rst ? 5'd0 : jobs + push - job_gone;
end

(* hierconn *) wire [4:0] \dut.credit_reg ;
(* hierconn *) wire [4:0] \dut.promised_reg ;
(* hierconn *) wire       \dut.taken_reg ;
(* hierconn *) wire       \dut.jobs_fit_reg ;
(* hierconn *) wire [4:0] \dut.payload.room ;
(* hierconn *) wire [3:0] \dut.job_places ;
(* hierconn *) wire       \dut.beat_fits ;
(* hierconn *) wire       \dut.job_fits ;
(* hierconn *) wire       \dut.push_1 ;
(* hierconn *) wire       \dut.push_2 ;
(* hierconn *) wire       \dut.beat_push_1 ;
(* hierconn *) wire [1:0] \dut.payload.stage_valid ;
(* hierconn *) wire       \dut.slice.ready_reg ;
wire [4:0] beat_places = \dut.payload.room ;
wire [1:0] stages = \dut.payload.stage_valid ;
wire       waits = !\dut.slice.ready_reg ;  // in the slice, behind the one that is offered
wire [1:0] sliced = payload_valid + waits;   // places of the FIFO again
wire [3:0] job_places = \dut.job_places ;
wire       push_1 = \dut.push_1 , push_2 = \dut.push_2 , beat_push_1 = \dut.beat_push_1 ;
wire [6:0] places = {1'b0, owed} + {1'b0, beats} - sliced;  // taken, or promised

always @(posedge clk) if (started) begin
    a_job_finds_room: assert (!push_2 || \dut.job_fits );
    a_beat_finds_room: assert (!beat_push_1 || \dut.beat_fits );
    a_none_made: assert ((!job_valid || jobs != 0) && (!payload_valid || beats != 0));
    a_jobs_all_there: assert (beat_places <= PLACES && job_places <= JOBS
        && jobs == push_1 + push_2 + (JOBS - job_places) + job_valid);
    a_beats_all_there: assert (beats == beat_push_1 + (PLACES - beat_places) + stages[0] + stages[1] + sliced
        && (!waits || payload_valid));
    a_promises: assert (places <= PLACES + 2 && \dut.credit_reg + \dut.taken_reg + places == PLACES + \dut.promised_reg );
    a_at_rest: assert (!idle || (jobs == 0 && owed == 0 && beats == 0));
    c_full: cover (places == PLACES);
    c_jobs: cover (job_places == 0);
    c_rest: cover (idle && !room_seen && room);
end

endmodule

`default_nettype wire
