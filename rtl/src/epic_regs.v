// AXI-Lite registers of an engine: what it is, table commands, slot state, counters. The map is in rtl/README.md. One access
// of a kind at a time. A command waits while the one before it is under way, and so does reading the slot state, so that
// software need not poll. Bytes are not written singly: WSTRB is not looked at.

`default_nettype none

`include "epic_check.vh"

module epic_regs #(
    parameter PORTS = 4,
    parameter MODE = 3,
    parameter DATA_W = 128,
    parameter FP32 = 0,
    parameter FP16 = 0,
    parameter MTU = 1024,
    parameter SLOTS = 128,
    parameter EDGES = 32,
    parameter GROUPS = 8,
    parameter CHILDREN = 8,
    parameter ROWS = 16,
    parameter RANKS = 256
) (
    input  wire             clk,
    input  wire             rst,

    input  wire [11:0]      s_axil_awaddr,
    input  wire             s_axil_awvalid,
    output wire             s_axil_awready,
    input  wire [31:0]      s_axil_wdata,
    input  wire [3:0]       s_axil_wstrb,
    input  wire             s_axil_wvalid,
    output wire             s_axil_wready,
    output wire [1:0]       s_axil_bresp,
    output reg              s_axil_bvalid,
    input  wire             s_axil_bready,
    input  wire [11:0]      s_axil_araddr,
    input  wire             s_axil_arvalid,
    output wire             s_axil_arready,
    output reg  [31:0]      s_axil_rdata,
    output wire [1:0]       s_axil_rresp,
    output reg              s_axil_rvalid,
    input  wire             s_axil_rready,

    output reg              command,        // TABLE_*
    output reg  [3:0]       command_table,
    output reg  [15:0]      command_index,
    output wire [319:0]     command_data,
    input  wire             busy,
    input  wire             idle,
    input  wire [23:0]      state_tag,
    input  wire [63:0]      state_bitmap,
    input  wire             state_done,
    input  wire             state_served,
    output wire [5:0]       counter_index,
    input  wire [31:0]      counter_value,  // one cycle later

    output wire [PORTS-1:0] forward,        // frames that are not EPIC: 1 forwarded, 0 dropped
    output wire [PORTS-1:0] flood,          // where to, without a table entry
    input  wire [PORTS-1:0] overflow,       // events of the ports
    input  wire [PORTS-1:0] bad_frame,
    input  wire [PORTS-1:0] forwarded,
    input  wire             unforwarded     // a frame had nowhere to go
);

`EPIC_CHECK(g_check_ports, PORTS >= 2 && PORTS <= 8, ("epic_regs: PORTS is %0d, expected 2 to 8", PORTS))
`EPIC_CHECK(g_check_mode, MODE == 2 || MODE == 3, ("epic_regs: MODE is %0d, expected 2 or 3", MODE))

localparam [31:0] ID = 32'h45504943;       // "EPIC"
localparam [31:0] VERSION = 32'h00000100;  // 0.1 of the spec, register map 0
localparam BYTES_LOG2 = $clog2(DATA_W / 8);

assign s_axil_bresp = 2'b00;
assign s_axil_rresp = 2'b00;

// -------------------------------------------------------------------------------------------------------------- writing
wire [9:0] write_word = s_axil_awaddr[11:2];
wire       commands = write_word == 10'h00c;
wire       write = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid && !(commands && (busy || command));
assign s_axil_awready = write;
assign s_axil_wready = write;

reg [319:0] data_reg;
reg [15:0]  control_reg;
assign command_data = data_reg;
assign forward = control_reg[PORTS-1:0];
assign flood = control_reg[8 +: PORTS];

// The words of data are far from the bus, and wide: which one is written is known a cycle before.
reg [9:0]  data_write_reg;
reg [31:0] data_written_reg;

integer i;
always @(posedge clk) begin
    data_written_reg <= s_axil_wdata;
    for (i = 0; i < 10; i = i + 1) begin
        data_write_reg[i] <= write && write_word == 10'h010 + i[9:0];
        if (data_write_reg[i]) data_reg[32*i +: 32] <= data_written_reg;
    end
    command <= write && commands;
    command_table <= s_axil_wdata[31:28];
    command_index <= s_axil_wdata[15:0];
    if (write && write_word == 10'h008) control_reg <= s_axil_wdata[15:0];
    if (write) s_axil_bvalid <= 1'b1;
    else if (s_axil_bready) s_axil_bvalid <= 1'b0;
    if (rst) begin
        command <= 1'b0;
        control_reg <= 16'd0;
        s_axil_bvalid <= 1'b0;
        data_write_reg <= 10'd0;
    end
end

// -------------------------------------------------------------------------------------------------------- port counters
reg [32*PORTS-1:0] overflow_reg, bad_frame_reg, forwarded_reg;
reg [31:0]         unforwarded_reg;
// Events come from afar.
reg [PORTS-1:0]    overflow_1_reg, bad_frame_1_reg, forwarded_1_reg;
reg                unforwarded_1_reg;
always @(posedge clk) begin
    overflow_1_reg <= overflow & {PORTS{!rst}};
    bad_frame_1_reg <= bad_frame & {PORTS{!rst}};
    forwarded_1_reg <= forwarded & {PORTS{!rst}};
    unforwarded_1_reg <= unforwarded && !rst;
    for (i = 0; i < PORTS; i = i + 1) begin
        overflow_reg[32*i +: 32] <= overflow_reg[32*i +: 32] + {31'd0, overflow_1_reg[i]};
        bad_frame_reg[32*i +: 32] <= bad_frame_reg[32*i +: 32] + {31'd0, bad_frame_1_reg[i]};
        forwarded_reg[32*i +: 32] <= forwarded_reg[32*i +: 32] + {31'd0, forwarded_1_reg[i]};
    end
    unforwarded_reg <= unforwarded_reg + {31'd0, unforwarded_1_reg};
    if (rst) begin
        overflow_reg <= {32 * PORTS{1'b0}};
        bad_frame_reg <= {32 * PORTS{1'b0}};
        forwarded_reg <= {32 * PORTS{1'b0}};
        unforwarded_reg <= 32'd0;
    end
end

// -------------------------------------------------------------------------------------------------------------- reading
// First cycle: the address is taken; second: a counter comes out of its memory; third: the answer.
reg        reading_reg, looked_reg;
reg [9:0]  word_reg;
wire       of_state = word_reg[9:2] == 8'h08;
assign s_axil_arready = !reading_reg && !s_axil_rvalid;
assign counter_index = word_reg[5:0];

reg [31:0] port_value;
always @* begin
    port_value = 32'd0;
    for (i = 0; i < PORTS; i = i + 1)
        if (word_reg[4:2] == i[2:0])
            case (word_reg[1:0])
                2'd0: port_value = overflow_reg[32*i +: 32];
                2'd1: port_value = bad_frame_reg[32*i +: 32];
                2'd2: port_value = forwarded_reg[32*i +: 32];
                default: port_value = 32'd0;
            endcase
end

reg [31:0] value;
always @* begin
    case (word_reg)
        10'h000: value = ID;
        10'h001: value = VERSION;
        10'h002: value = {18'd0, FP16[0], FP32[0], BYTES_LOG2[3:0], PORTS[3:0], MODE[3:0]};
        10'h003: value = SLOTS;
        10'h004: value = MTU;
        10'h005: value = {GROUPS[15:0], EDGES[15:0]};
        10'h006: value = {ROWS[15:0], CHILDREN[15:0]};
        10'h007: value = RANKS;
        10'h008: value = {16'd0, control_reg};
        10'h009: value = {30'd0, idle, busy};
        10'h00a: value = unforwarded_reg;
        10'h020: value = {8'd0, state_tag};
        10'h021: value = state_bitmap[31:0];
        10'h022: value = state_bitmap[63:32];
        10'h023: value = {30'd0, state_served, state_done};
        default:
            if (word_reg[9:5] == 5'h02) value = port_value;
            else if (word_reg[9:6] == 4'h2) value = counter_value;
            else value = 32'd0;
    endcase
end

always @(posedge clk) begin
    if (s_axil_arvalid && s_axil_arready) begin
        reading_reg <= 1'b1;
        looked_reg <= 1'b0;
        word_reg <= s_axil_araddr[11:2];
    end
    else if (reading_reg && !looked_reg) looked_reg <= 1'b1;
    else if (reading_reg && !(of_state && (busy || command))) begin
        reading_reg <= 1'b0;
        s_axil_rvalid <= 1'b1;
        s_axil_rdata <= value;
    end
    if (s_axil_rvalid && s_axil_rready) s_axil_rvalid <= 1'b0;
    if (rst) begin
        reading_reg <= 1'b0;
        s_axil_rvalid <= 1'b0;
    end
end

// Parts of the interface that carry nothing here.
wire unused = &{1'b0, s_axil_wstrb, s_axil_awaddr[1:0], s_axil_araddr[1:0]};

endmodule

`default_nettype wire
