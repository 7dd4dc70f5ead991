// The multiplexer: whole frames of one source at a time, what comes out is what that source gives, outputs are held,
// and a source that waits sees at most one frame of each other source begin.

`default_nettype none

`include "axis_held.svh"

module epic_axis_mux_props #(
    parameter SOURCES = 3,
    parameter WIDTH = 2
) (
    input wire                     clk,
    input wire [SOURCES-1:0]       in_valid,
    input wire [SOURCES*WIDTH-1:0] in_data,
    input wire [SOURCES-1:0]       in_last,
    input wire                     out_ready
);

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire [SOURCES-1:0] in_ready, out_source;
wire               out_valid, out_last;
wire [WIDTH-1:0]   out_data;
epic_axis_mux #(.SOURCES(SOURCES), .WIDTH(WIDTH)) dut (
    .clk(clk), .rst(rst),
    .in_valid(in_valid), .in_data(in_data), .in_last(in_last), .in_ready(in_ready),
    .out_valid(out_valid), .out_data(out_data), .out_last(out_last), .out_source(out_source), .out_ready(out_ready)
);

genvar s;
generate
    for (s = 0; s < SOURCES; s = s + 1) begin : g_in
        axis_held #(.WIDTH(WIDTH + 1), .ASSUME(1)) held (
            .clk(clk), .on(started), .valid(in_valid[s]), .ready(in_ready[s]),
            .data({in_last[s], in_data[WIDTH*s +: WIDTH]})
        );
    end
endgenerate

axis_held #(.WIDTH(WIDTH + 1 + SOURCES)) out_held (
    .clk(clk), .on(started), .valid(out_valid), .ready(out_ready), .data({out_last, out_data, out_source})
);

// The frame that is under way.
reg               inside = 1'b0;
reg [SOURCES-1:0] owner;
wire              moves = started && out_valid && out_ready;
always @(posedge clk) if (moves) begin
    inside <= !out_last;
    owner <= out_source;
end

// One source is watched, any: frames of others that began while it waited.
(* anyconst *) wire [$clog2(SOURCES)-1:0] who;
always @* assume (who < SOURCES);
reg [SOURCES-1:0] began = 0;
reg               twice = 1'b0;
wire              waits = in_valid[who] && !(inside && owner[who]);
always @(posedge clk) begin
    if (!started || !waits || (moves && out_source[who])) begin
        began <= 0;
        twice <= 1'b0;
    end else if (moves && !inside) begin
        began <= began | out_source;
        twice <= twice || (began & out_source) != 0;
    end
end

wire [WIDTH-1:0] of_who = in_data[WIDTH*who +: WIDTH];
always @(posedge clk) if (started) begin
    a_one: assert ((out_source & (out_source - 1'b1)) == 0);
    a_whole: assert (!(out_valid && inside) || out_source == owner);
    a_same: assert (!(out_valid && out_source[who])
        || (in_valid[who] && out_data == of_who && out_last == in_last[who]));
    a_taken: assert ((in_valid & in_ready) == (moves ? out_source : {SOURCES{1'b0}}));
    a_busy: assert (inside || out_valid == (in_valid != 0));
    a_fair: assert (!twice);
    c_all: cover (&(began | ({{(SOURCES - 1){1'b0}}, 1'b1} << who)) && moves && out_source[who]);
    c_long: cover (inside && moves && out_last && in_valid == {SOURCES{1'b1}});
end

endmodule

`default_nettype wire
