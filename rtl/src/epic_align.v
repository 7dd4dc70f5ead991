// A frame as it is on the wire becomes an aligned stream: 6 zero bytes come in front, so that the payload of an EPIC
// frame starts at byte 64, a beat boundary. All other bytes keep their order.
//
// One beat a cycle. A frame whose last beat has more than BYTES - 6 bytes gets one beat more, for which the input waits.

`default_nettype none

`include "epic_check.vh"

module epic_align #(
    parameter DATA_W = 64,                  // 64, 128, 256 or 512
    parameter BYTES_W = $clog2(DATA_W / 8)  // derived; do not set
) (
    input  wire                clk,
    input  wire                rst,

    input  wire                in_valid,
    input  wire [DATA_W-1:0]   in_data,
    input  wire [BYTES_W-1:0]  in_bytes,  // of the last beat, less one
    input  wire                in_last,
    output wire                in_ready,

    output wire                m_axis_tvalid,
    output wire [DATA_W-1:0]   m_axis_tdata,
    output wire [DATA_W/8-1:0] m_axis_tkeep,
    output wire                m_axis_tlast,
    input  wire                m_axis_tready
);

localparam integer BYTES = DATA_W / 8;
localparam integer SHIFT = 6;
localparam integer CARRY_W = 8 * SHIFT;

`EPIC_CHECK(g_check_data_w, DATA_W == 64 || DATA_W == 128 || DATA_W == 256 || DATA_W == 512,
    ("epic_align: DATA_W is %0d, expected 64, 128, 256 or 512", DATA_W))
`EPIC_CHECK(g_check_bytes_w, BYTES_W == $clog2(DATA_W / 8),
    ("epic_align: BYTES_W is %0d, expected %0d", BYTES_W, $clog2(DATA_W / 8)))

// The last bytes of the beat before; zeros in front of a frame.
reg [CARRY_W-1:0] carry_reg;
reg               flush_reg;        // carry_reg holds the rest of a frame
reg [2:0]         flush_bytes_reg;  // of how many bytes

reg               valid_reg;
reg [DATA_W-1:0]  data_reg;
reg [BYTES-1:0]   keep_reg;
reg               last_reg;

assign m_axis_tvalid = valid_reg;
assign m_axis_tdata = data_reg;
assign m_axis_tkeep = keep_reg;
assign m_axis_tlast = last_reg;

wire move = !valid_reg || m_axis_tready;
assign in_ready = move && !flush_reg;

// Bytes of the frame's last aligned beat, counted from 0; with the carry bit they need one beat more.
wire [BYTES_W:0] last_bytes = {1'b0, in_bytes} + SHIFT[BYTES_W:0];
wire             spills = last_bytes[BYTES_W];

function automatic [BYTES-1:0] keep_of;
    input [BYTES_W-1:0] bytes_less_one;
    keep_of = ~({{(BYTES-1){1'b1}}, 1'b0} << bytes_less_one);
endfunction

always @(posedge clk) begin
    if (move) begin
        valid_reg <= in_valid || flush_reg;
        if (flush_reg) begin
            data_reg <= {{(DATA_W - CARRY_W){1'b0}}, carry_reg};
            keep_reg <= keep_of({{(BYTES_W - 3){1'b0}}, flush_bytes_reg});
            last_reg <= 1'b1;
            flush_reg <= 1'b0;
            carry_reg <= {CARRY_W{1'b0}};
        end else if (in_valid) begin
            data_reg <= {in_data[DATA_W-CARRY_W-1:0], carry_reg};
            keep_reg <= in_last && !spills ? keep_of(last_bytes[BYTES_W-1:0]) : {BYTES{1'b1}};
            last_reg <= in_last && !spills;
            flush_reg <= in_last && spills;
            flush_bytes_reg <= last_bytes[2:0];
            carry_reg <= in_last && !spills ? {CARRY_W{1'b0}} : in_data[DATA_W-1 -: CARRY_W];
        end
    end
    if (rst) begin
        valid_reg <= 1'b0;
        flush_reg <= 1'b0;
        carry_reg <= {CARRY_W{1'b0}};
    end
end

endmodule

`default_nettype wire
