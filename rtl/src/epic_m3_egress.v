// Mode III, one port's way out: frames that passes push, made into JOBs with the PSN of their edge, and their beats; and the
// entries of the edges for the port's epic_tx.

`default_nettype none

`include "epic_check.vh"

module epic_m3_egress #(
    parameter DATA_W = 128,         // of a beat from the passes: PORT_W times a power of two
    parameter PORT_W = 128,         // of a beat of the port
    parameter EDGES = 32,
    parameter MTU = 1024,
    parameter JOB_DEPTH = 32,       // frames that wait, a power of two
    parameter PAYLOAD_DEPTH = 256,  // beats that wait, a power of two, more than a largest payload
    parameter JOB_BITS = 89,        // JOB_W
    parameter ENTRY_BITS = 217,     // EDGE_TX_W
    parameter COUNT_W = DATA_W == PORT_W ? 1 : $clog2(DATA_W / PORT_W)
) (
    input  wire                  clk,
    input  wire                  rst,

    output reg                   room,        // for a frame more than may be on its way here; a cycle old when a pass sees it
    input  wire                  push,
    input  wire [7:0]            push_edge,
    input  wire                  push_payload,
    input  wire                  push_ack,
    input  wire [23:0]           push_cell,   // of an ACK: its PSN
    input  wire [31:0]           push_imm,
    input  wire [13:0]           push_bytes,
    input  wire                  push_ce,
    input  wire                  beat_push,
    input  wire [DATA_W-1:0]     beat,
    input  wire [COUNT_W-1:0]    beat_count,  // of the port's beats in it, modulo DATA_W / PORT_W

    output wire                  job_valid,
    output wire [JOB_BITS-1:0]   job_data,
    input  wire                  job_ready,
    output wire                  payload_valid,
    output wire [PORT_W-1:0]     payload_data,
    input  wire                  payload_ready,
    /* verilator lint_off UNUSEDSIGNAL */  // as many bits as the parameters need
    input  wire [7:0]            edge_index,
    /* verilator lint_on UNUSEDSIGNAL */
    output wire [ENTRY_BITS-1:0] edge_entry,

    input  wire                  write_edge,
    /* verilator lint_off UNUSEDSIGNAL */  // as many bits as the parameters need
    input  wire [7:0]            write_index,
    input  wire [319:0]          write_data,
    /* verilator lint_on UNUSEDSIGNAL */

    output wire                  idle
);

`include "epic_pkg.vh"
`include "epic_types.vh"

localparam BYTES = DATA_W / 8;
localparam BYTES_LOG2 = $clog2(BYTES);
localparam BEATS = (MTU + BYTES - 1) / BYTES;
localparam INDEX_W = $clog2(EDGES);
localparam CREDIT_W = $clog2(PAYLOAD_DEPTH) + 1;

`EPIC_CHECK(g_check_depth, PAYLOAD_DEPTH >= BEATS + 4,
    ("epic_m3_egress: PAYLOAD_DEPTH is %0d, expected %0d or more", PAYLOAD_DEPTH, BEATS + 4))
`EPIC_CHECK(g_check_jobs, JOB_DEPTH >= 8, ("epic_m3_egress: JOB_DEPTH is %0d, expected 8 or more", JOB_DEPTH))
`EPIC_CHECK(g_check_records, JOB_BITS == JOB_W && ENTRY_BITS == EDGE_TX_W,
    ("epic_m3_egress: JOB_BITS and ENTRY_BITS are not those of epic_types.vh"))

epic_ram #(.WIDTH(EDGE_TX_W), .DEPTH(EDGES)) entries (
    .clk(clk),
    .write(write_edge), .write_addr(write_index[INDEX_W-1:0]), .write_data(write_data[EDGE_TX_W-1:0]),
    .read(1'b1), .read_addr(edge_index[INDEX_W-1:0]), .read_data(edge_entry)
);

// PSN of cell 0, read while the rest of the frame's record waits a cycle.
wire [23:0] base_1;
epic_ram #(.WIDTH(24), .DEPTH(EDGES)) bases (
    .clk(clk),
    .write(write_edge), .write_addr(write_index[INDEX_W-1:0]),
    .write_data(write_data[EDGE_PSN_TX_LSB +: EDGE_PSN_TX_WIDTH]),
    .read(1'b1), .read_addr(push_edge[INDEX_W-1:0]), .read_data(base_1)
);

reg        push_1, payload_1, ack_1, ce_1;
reg [7:0]  edge_1;
reg [23:0] cell_1;
reg [31:0] imm_1;
reg [13:0] bytes_1;
reg        push_2;
reg [JOB_W-1:0] job_2;

// Without the payload that the frame has elsewhere it is NULL.
wire [31:0] null_1 = {31'd0, bytes_1 != 14'd0 && !payload_1} << IMMDT_NULL_LSB;

always @(posedge clk) begin
    push_1 <= push;
    payload_1 <= push_payload;
    ack_1 <= push_ack;
    ce_1 <= push_ce;
    edge_1 <= push_edge;
    cell_1 <= push_cell;
    imm_1 <= push_imm;
    bytes_1 <= push_bytes;
    push_2 <= push_1;
    job_2[JOB_EDGE_LSB +: JOB_EDGE_WIDTH] <= edge_1;
    job_2[JOB_OPCODE_LSB +: JOB_OPCODE_WIDTH] <= ack_1 ? OPCODE_ACK : OPCODE_SEND_ONLY_IMM;
    job_2[JOB_PSN_LSB +: JOB_PSN_WIDTH] <= cell_1 + (ack_1 ? 24'd0 : base_1);
    job_2[JOB_ACKREQ_LSB] <= !ack_1;
    job_2[JOB_CE_LSB] <= ce_1;
    job_2[JOB_HAS_PAYLOAD_LSB] <= payload_1;
    job_2[JOB_PAYLOAD_BYTES_LSB +: JOB_PAYLOAD_BYTES_WIDTH] <= payload_1 ? bytes_1 : 14'd0;
    job_2[JOB_IMM_LSB +: JOB_IMM_WIDTH] <= imm_1 | null_1;
    if (rst) begin
        push_1 <= 1'b0;
        push_2 <= 1'b0;
    end
end

wire                       job_fits, beat_fits;
wire [$clog2(JOB_DEPTH):0] job_places;
epic_fifo #(.WIDTH(JOB_W), .DEPTH(JOB_DEPTH)) jobs (
    .clk(clk), .rst(rst),
    .in_valid(push_2), .in_data(job_2), .in_ready(job_fits), .commit(1'b0), .rewind(1'b0),
    .out_valid(job_valid), .out_data(job_data), .out_ready(job_ready), .room(job_places)
);
// A beat comes from afar, to all ports: it is kept here before it is stored.
reg                beat_push_1;
reg  [DATA_W-1:0]  beat_1;
reg  [COUNT_W-1:0] beat_count_1;
always @(posedge clk) begin
    beat_push_1 <= beat_push && !rst;
    beat_1 <= beat;
    beat_count_1 <= beat_count;
end

// With equal widths every beat is one of the port's: no count is stored.
localparam STORED_W = DATA_W == PORT_W ? DATA_W : COUNT_W + DATA_W;
wire                wide_valid, wide_ready;
wire [STORED_W-1:0] stored, wide;
wire [DATA_W-1:0]   wide_data = wide[DATA_W-1:0];
wire [COUNT_W-1:0]  wide_count;
generate
    if (DATA_W == PORT_W) begin : g_beat
        /* verilator lint_off UNUSEDSIGNAL */
        wire unused = &{1'b0, beat_count_1};
        /* verilator lint_on UNUSEDSIGNAL */
        assign stored = beat_1;
        assign wide_count = {COUNT_W{1'b0}};
    end
    else begin : g_counted
        assign stored = {beat_count_1, beat_1};
        assign wide_count = wide[DATA_W +: COUNT_W];
    end
endgenerate
epic_fifo #(.WIDTH(STORED_W), .DEPTH(PAYLOAD_DEPTH), .REGISTER(1)) payload (
    .clk(clk), .rst(rst),
    .in_valid(beat_push_1), .in_data(stored), .in_ready(beat_fits), .commit(1'b0), .rewind(1'b0),
    .out_valid(wide_valid), .out_data(wide), .out_ready(wide_ready),
    /* verilator lint_off PINCONNECTEMPTY */  // credit_reg says more
    .room()
    /* verilator lint_on PINCONNECTEMPTY */
);
wire              beat_valid, beat_ready;
wire [PORT_W-1:0] beat_data;
epic_spread #(.IN_WIDTH(DATA_W), .OUT_WIDTH(PORT_W)) spread (
    .clk(clk), .rst(rst),
    .in_valid(wide_valid), .in_data(wide_data), .in_count(wide_count), .in_ready(wide_ready),
    .out_valid(beat_valid), .out_data(beat_data), .out_ready(beat_ready)
);
// The second register behind the memory is a slice: whoever takes the beats is far from the memory too.
epic_slice #(.WIDTH(PORT_W)) slice (
    .clk(clk), .rst(rst),
    .in_valid(beat_valid), .in_data(beat_data), .in_ready(beat_ready),
    .out_valid(payload_valid), .out_data(payload_data), .out_ready(payload_ready)
);

// Places that no frame on its way has been promised.
reg  [CREDIT_W-1:0] credit_reg;
reg  [CREDIT_W-1:0] promised_reg;
reg                 taken_reg, jobs_fit_reg;
/* verilator lint_off UNUSEDSIGNAL */
wire [14:0] rounded = {1'b0, push_bytes} + BYTES[14:0] - 15'd1;
wire [14:0] promised = push && push_payload ? rounded >> BYTES_LOG2 : 15'd0;
/* verilator lint_on UNUSEDSIGNAL */

always @(posedge clk) begin
    promised_reg <= promised[CREDIT_W-1:0];
    taken_reg <= wide_valid && wide_ready;
    credit_reg <= credit_reg - promised_reg + {{CREDIT_W - 1{1'b0}}, taken_reg};
    // A pass that starts does not see here those that started in the four cycles before: of at most 4 beats together, for
    // a longer one would still go on. Of jobs it does not see those of the six cycles before, and there is its own.
    jobs_fit_reg <= job_places >= 7;
    room <= {{32 - CREDIT_W{1'b0}}, credit_reg} >= BEATS + 4 && jobs_fit_reg;
    if (rst) begin
        promised_reg <= {CREDIT_W{1'b0}};
        taken_reg <= 1'b0;
        jobs_fit_reg <= 1'b0;
        credit_reg <= PAYLOAD_DEPTH[CREDIT_W-1:0];
        room <= 1'b0;
    end
end

// With all credit back no beat is promised, on its way, or in the FIFO.
assign idle = !(push || push_1 || push_2 || job_valid || payload_valid) && job_places[$clog2(JOB_DEPTH)] && credit_reg[CREDIT_W-1];

`ifndef SYNTHESIS
always @(posedge clk) begin
    if (!rst && push_2 && !job_fits) begin
        $display("%m: a frame found no room");
        $stop;
    end
    if (!rst && beat_push_1 && !beat_fits) begin
        $display("%m: a beat found no room; %0d places were left to promise", credit_reg);
        $stop;
    end
end
`endif

endmodule

`default_nettype wire
