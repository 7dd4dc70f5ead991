// epic_axis_mux: several streams of frames into one, whole frames, in turn.
//
// A source that has a frame waiting is served after at most one frame of each other source. The choice is made in the
// cycle in which the frame's first beat passes, so no cycle is lost between frames; a source that has been chosen keeps
// the output until its last beat, also while it pauses.
// As AXI-Stream says, a source does not take `valid` back before its transfer.

`default_nettype none
`include "epic_check.vh"

module epic_axis_mux #(
    parameter integer SOURCES = 2,  // 2 or more
    parameter integer WIDTH = 64    // bits of a beat, whatever they mean
) (
    input  wire                     clk,
    input  wire                     rst,

    // Source s in the s-th slice from the low end.
    input  wire [SOURCES-1:0]       in_valid,
    input  wire [SOURCES*WIDTH-1:0] in_data,
    input  wire [SOURCES-1:0]       in_last,
    output wire [SOURCES-1:0]       in_ready,

    output wire                     out_valid,
    output wire [WIDTH-1:0]         out_data,
    output wire                     out_last,
    output wire [SOURCES-1:0]       out_source,  // one bit: where the beat comes from
    input  wire                     out_ready
);

`EPIC_CHECK(g_check_sources, SOURCES >= 2, ("epic_axis_mux: SOURCES is %0d, expected 2 or more", SOURCES))

// The source that was offered last, and whether it keeps the output: its frame is under way, or waits for its first
// transfer (what was offered must stay).
reg [SOURCES-1:0] chosen_reg;
reg               locked_reg;

wire [SOURCES-1:0] grant;

epic_arbiter #(
    .PORTS(SOURCES)
) arbiter (
    .clk(clk),
    .rst(rst),
    .request(in_valid),
    .take(!locked_reg),
    .grant(grant),
    /* verilator lint_off PINCONNECTEMPTY */
    .index()
    /* verilator lint_on PINCONNECTEMPTY */
);

wire [SOURCES-1:0] choice = locked_reg ? chosen_reg : grant;

reg [WIDTH-1:0] data;
integer         source;

always @* begin
    data = {WIDTH{1'b0}};
    for (source = 0; source < SOURCES; source = source + 1) begin
        data = data | (in_data[source*WIDTH +: WIDTH] & {WIDTH{choice[source]}});
    end
end

assign out_valid = |(in_valid & choice);
assign out_data = data;
assign out_last = |(in_last & choice);
assign out_source = choice;
assign in_ready = choice & {SOURCES{out_ready}};

always @(posedge clk) begin
    if (out_valid) begin
        chosen_reg <= choice;
        locked_reg <= !(out_ready && out_last);
    end
    if (rst) begin
        locked_reg <= 1'b0;
    end
end

endmodule

`default_nettype wire
