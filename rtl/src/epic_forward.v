// epic_forward: frames that are not EPIC, from port to port by destination address, so that a port of the engine can be
// an ordinary link for everything else. Aligned streams in and out.
//
//   from each port -> epic_axis_mux -> bus, one beat a cycle -+-> address table: ports
//                                                             +-> a queue for each port: commit or rewind at the end
//
// All ports share one bus: together they forward at the rate of one. A frame is written into every queue while its
// ports are looked up; at its last beat the queues that it is for keep it and the others forget it. A queue that has
// no room loses the frame, so that a port that stands still holds up nobody. An address that is not in the table goes
// to the ports of `flood`; nothing goes back to the port it came from. Nothing is learned: the table is written by the
// control plane.

`default_nettype none
`include "epic_check.vh"

module epic_forward #(
    parameter integer DATA_W = 64,  // bits of a beat: 64, 128, 256 or 512
    parameter integer PORTS = 4,    // 2 to 8
    parameter integer MACS = 16,    // entries of the address table, 1 to 256
    // Beats of a port's queue, a power of two. A frame that has more is lost; the default holds 4 KB.
    parameter integer DEPTH = 32768 / DATA_W
) (
    input  wire                      clk,
    input  wire                      rst,

    // Port p in the p-th slice from the low end.
    input  wire [PORTS*DATA_W-1:0]   s_axis_tdata,
    input  wire [PORTS*DATA_W/8-1:0] s_axis_tkeep,
    input  wire [PORTS-1:0]          s_axis_tvalid,
    output wire [PORTS-1:0]          s_axis_tready,
    input  wire [PORTS-1:0]          s_axis_tlast,

    output wire [PORTS*DATA_W-1:0]   m_axis_tdata,
    output wire [PORTS*DATA_W/8-1:0] m_axis_tkeep,
    output wire [PORTS-1:0]          m_axis_tvalid,
    input  wire [PORTS-1:0]          m_axis_tready,
    output wire [PORTS-1:0]          m_axis_tlast,

    // Table: the ports of an address; 0 frees the entry. An address that is in two entries goes to the ports of both.
    input  wire                      write,
    input  wire [7:0]                write_index,  // below MACS, otherwise nothing is written
    input  wire [47:0]               write_mac,
    input  wire [PORTS-1:0]          write_ports,

    input  wire [PORTS-1:0]          flood,   // ports of the addresses that are not in the table
    output wire                      dropped  // pulse: a frame had nowhere to go, or a queue had no room for it
);

`EPIC_CHECK(g_check_data_w, DATA_W == 64 || DATA_W == 128 || DATA_W == 256 || DATA_W == 512,
    ("epic_forward: DATA_W is %0d, expected 64, 128, 256 or 512", DATA_W))
`EPIC_CHECK(g_check_ports, PORTS >= 2 && PORTS <= 8, ("epic_forward: PORTS is %0d, expected 2 to 8", PORTS))
`EPIC_CHECK(g_check_macs, MACS >= 1 && MACS <= 256, ("epic_forward: MACS is %0d, expected 1 to 256", MACS))
`EPIC_CHECK(g_check_depth, DEPTH >= 4 && (DEPTH & (DEPTH - 1)) == 0,
    ("epic_forward: DEPTH is %0d, expected a power of two from 4", DEPTH))

localparam integer BYTES = DATA_W / 8;
localparam integer COUNT_W = $clog2(BYTES);  // bytes of a last beat, less one
localparam integer ALIGN = 6;  // dummy bytes in front of the destination address

// ---- The bus: what the mux lets through.

localparam integer BEAT_W = DATA_W + BYTES;

wire [PORTS*BEAT_W-1:0] mux_in;
wire                    mux_valid;
wire [BEAT_W-1:0]       mux_data;
wire                    mux_last;
wire [PORTS-1:0]        mux_source;

genvar port;
generate
    for (port = 0; port < PORTS; port = port + 1) begin : g_in
        assign mux_in[port*BEAT_W +: BEAT_W] =
            {s_axis_tkeep[port*BYTES +: BYTES], s_axis_tdata[port*DATA_W +: DATA_W]};
    end
endgenerate

epic_axis_mux #(
    .SOURCES(PORTS),
    .WIDTH(BEAT_W)
) mux (
    .clk(clk),
    .rst(rst),
    .in_valid(s_axis_tvalid),
    .in_data(mux_in),
    .in_last(s_axis_tlast),
    .in_ready(s_axis_tready),
    .out_valid(mux_valid),
    .out_data(mux_data),
    .out_last(mux_last),
    .out_source(mux_source),
    .out_ready(1'b1)
);

// ---- Stage 1: the beat; the destination address is whole in beat MAC_BEAT.

localparam integer MAC_BEAT = (ALIGN + 5) / BYTES;  // 1 with 64 bits, else 0

reg              valid_1_reg;
reg [DATA_W-1:0] data_1_reg;
reg [BYTES-1:0]  keep_1_reg;
reg              last_1_reg;
reg [PORTS-1:0]  source_1_reg;
reg              first_1_reg;  // the next beat, or this one, is a frame's first

always @(posedge clk) begin
    valid_1_reg <= mux_valid;
    data_1_reg <= mux_data[DATA_W-1:0];
    keep_1_reg <= mux_data[DATA_W +: BYTES];
    last_1_reg <= mux_last;
    source_1_reg <= mux_source;
    if (valid_1_reg) begin
        first_1_reg <= last_1_reg;
    end
    if (rst) begin
        valid_1_reg <= 1'b0;
        first_1_reg <= 1'b1;
    end
end

// First byte of the address first.
wire [47:0] mac_1;
wire        look_up_1;

generate
    if (MAC_BEAT == 0) begin : g_mac_whole
        assign mac_1 = {
            data_1_reg[8*ALIGN +: 8], data_1_reg[8*ALIGN+8 +: 8], data_1_reg[8*ALIGN+16 +: 8],
            data_1_reg[8*ALIGN+24 +: 8], data_1_reg[8*ALIGN+32 +: 8], data_1_reg[8*ALIGN+40 +: 8]
        };
        assign look_up_1 = valid_1_reg && first_1_reg;
    end else begin : g_mac_halves
        reg [15:0] front_reg;
        reg        second_reg;
        always @(posedge clk) begin
            if (valid_1_reg) begin
                front_reg <= {data_1_reg[48 +: 8], data_1_reg[56 +: 8]};
                second_reg <= first_1_reg && !last_1_reg;
            end
            if (rst) begin
                second_reg <= 1'b0;
            end
        end
        assign mac_1 = {front_reg, data_1_reg[0 +: 8], data_1_reg[8 +: 8], data_1_reg[16 +: 8], data_1_reg[24 +: 8]};
        assign look_up_1 = valid_1_reg && second_reg;
    end
endgenerate

// ---- Stage 2: which entries have the address; tkeep becomes a number.

reg [48*MACS-1:0]    mac_reg;
reg [PORTS*MACS-1:0] ports_reg;
integer              entry;

// What is written comes from afar: a cycle later.
reg [MACS-1:0]       write_1_reg;
reg [47:0]           write_mac_1_reg;
reg [PORTS-1:0]      write_ports_1_reg;

always @(posedge clk) begin
    write_mac_1_reg <= write_mac;
    write_ports_1_reg <= write_ports;
    for (entry = 0; entry < MACS; entry = entry + 1) begin
        write_1_reg[entry] <= write && write_index == entry[7:0];
        if (write_1_reg[entry]) begin
            mac_reg[48*entry +: 48] <= write_mac_1_reg;
            ports_reg[PORTS*entry +: PORTS] <= write_ports_1_reg;
        end
    end
    if (rst) begin
        write_1_reg <= {MACS{1'b0}};
        ports_reg <= {(PORTS * MACS) {1'b0}};
    end
end

// The last byte of a beat, whose tkeep is contiguous from bit 0, by bisection.
function automatic [COUNT_W-1:0] last_byte;
    input [BYTES-1:0] tkeep;
    integer           bit_at;
    begin
        last_byte = {COUNT_W{1'b0}};
        for (bit_at = COUNT_W - 1; bit_at >= 0; bit_at = bit_at - 1) begin
            last_byte[bit_at] = tkeep[last_byte | ({{(COUNT_W - 1) {1'b0}}, 1'b1} << bit_at)];
        end
    end
endfunction

reg               valid_2_reg;
reg [DATA_W-1:0]  data_2_reg;
reg [COUNT_W-1:0] count_2_reg;
reg               last_2_reg;
reg               first_2_reg;
reg [PORTS-1:0]   source_2_reg;
reg               look_up_2_reg;
reg [MACS-1:0]    match_2_reg;

always @(posedge clk) begin
    valid_2_reg <= valid_1_reg;
    data_2_reg <= data_1_reg;
    count_2_reg <= last_byte(keep_1_reg);
    last_2_reg <= last_1_reg;
    first_2_reg <= first_1_reg;
    source_2_reg <= source_1_reg;
    look_up_2_reg <= look_up_1;
    for (entry = 0; entry < MACS; entry = entry + 1) begin
        match_2_reg[entry] <= mac_reg[48*entry +: 48] == mac_1;
    end
    if (rst) begin
        valid_2_reg <= 1'b0;
        look_up_2_reg <= 1'b0;
    end
end

// ---- Stage 3: their ports, kept to the frame's end; the beat goes into the queues.

reg               valid_3_reg;
reg [DATA_W-1:0]  data_3_reg;
reg [COUNT_W-1:0] count_3_reg;
reg               last_3_reg;
reg [PORTS-1:0]   source_3_reg;
reg               known_3_reg;  // the frame was long enough to have an address
reg               hit_3_reg;    // that the table has
reg [PORTS-1:0]   ports_3_reg;

reg [PORTS-1:0] ports_2;

always @* begin
    ports_2 = {PORTS{1'b0}};
    for (entry = 0; entry < MACS; entry = entry + 1) begin
        ports_2 = ports_2 | (ports_reg[PORTS*entry +: PORTS] & {PORTS{match_2_reg[entry]}});
    end
end

always @(posedge clk) begin
    valid_3_reg <= valid_2_reg;
    data_3_reg <= data_2_reg;
    count_3_reg <= count_2_reg;
    last_3_reg <= last_2_reg;
    source_3_reg <= source_2_reg;
    if (look_up_2_reg) begin
        hit_3_reg <= ports_2 != {PORTS{1'b0}};
        ports_3_reg <= ports_2;
    end
    if (valid_2_reg) begin
        known_3_reg <= look_up_2_reg || (known_3_reg && !first_2_reg);
    end
    if (rst) begin
        valid_3_reg <= 1'b0;
    end
end

wire [PORTS-1:0] wanted_3 = (hit_3_reg ? ports_3_reg : flood) & ~source_3_reg & {PORTS{known_3_reg}};

// ---- The queues.

reg  [PORTS-1:0] lost_reg;  // a beat of this frame had no room
wire [PORTS-1:0] room;
wire [PORTS-1:0] keep = wanted_3 & room & ~lost_reg;
wire             end_3 = valid_3_reg && last_3_reg;

always @(posedge clk) begin
    if (valid_3_reg) begin
        lost_reg <= last_3_reg ? {PORTS{1'b0}} : lost_reg | ~room;
    end
    if (rst) begin
        lost_reg <= {PORTS{1'b0}};
    end
end

assign dropped = end_3 && (wanted_3 == {PORTS{1'b0}} || keep != wanted_3);

generate
    for (port = 0; port < PORTS; port = port + 1) begin : g_queue
        wire [COUNT_W-1:0] count;

        epic_fifo #(
            .WIDTH(DATA_W + COUNT_W + 1),
            .DEPTH(DEPTH),
            .PACKET(1),
            .REGISTER(1)
        ) queue (
            .clk(clk),
            .rst(rst),
            .in_valid(valid_3_reg),
            .in_data({last_3_reg, count_3_reg, data_3_reg}),
            .in_ready(room[port]),
            .commit(end_3 && keep[port]),
            .rewind(end_3 && !keep[port]),
            .out_valid(m_axis_tvalid[port]),
            .out_data({m_axis_tlast[port], count, m_axis_tdata[port*DATA_W +: DATA_W]}),
            .out_ready(m_axis_tready[port]),
            /* verilator lint_off PINCONNECTEMPTY */
            .room()
            /* verilator lint_on PINCONNECTEMPTY */
        );

        assign m_axis_tkeep[port*BYTES +: BYTES] = ~({{(BYTES-1){1'b1}}, 1'b0} << count);
    end
endgenerate

endmodule

`default_nettype wire
