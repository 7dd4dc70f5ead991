// One deadline an edge. A scanner looks at an edge a cycle and holds the first that is due until it is taken; so a timer is
// late by at most EDGES cycles and the time until it is taken, and never early.

`default_nettype none

`include "epic_check.vh"

module epic_m2_timers #(
    parameter EDGES = 32,  // 2 to 256
    parameter EDGE_W = $clog2(EDGES)
) (
    input  wire              clk,
    input  wire              rst,
    input  wire [31:0]       now,

    input  wire              write,
    input  wire [EDGE_W-1:0] write_edge,
    input  wire              write_armed,
    input  wire [31:0]       write_deadline,

    output reg               due,       // until it is taken; what is due may have changed meanwhile
    output reg  [EDGE_W-1:0] due_edge,
    input  wire              take
);

`EPIC_CHECK(g_check_edges, EDGES >= 2 && EDGES <= 256,
    ("epic_m2_timers: EDGES is %0d, expected 2 to 256", EDGES))

localparam [EDGE_W-1:0] LAST = EDGES[EDGE_W-1:0] - 1'b1;

reg  [EDGES-1:0]  armed_reg;
reg  [EDGE_W-1:0] scan_reg, seen_reg;
reg               valid_reg;
wire [31:0]       deadline;
wire [31:0]       late = now - deadline;

epic_ram #(.WIDTH(32), .DEPTH(EDGES)) deadlines (
    .clk(clk),
    .write(write), .write_addr(write_edge), .write_data(write_deadline),
    .read(1'b1), .read_addr(scan_reg), .read_data(deadline)
);

always @(posedge clk) begin
    scan_reg <= scan_reg == LAST ? {EDGE_W{1'b0}} : scan_reg + 1'b1;
    seen_reg <= scan_reg;
    // What was read in the cycle of a write is the old deadline.
    valid_reg <= !(write && write_edge == scan_reg);
    if (write) armed_reg[write_edge] <= write_armed;
    if (take) due <= 1'b0;
    else if (!due && valid_reg && armed_reg[seen_reg] && !late[31]) begin
        due <= 1'b1;
        due_edge <= seen_reg;
    end
    if (rst) begin
        scan_reg <= {EDGE_W{1'b0}};
        armed_reg <= {EDGES{1'b0}};
        valid_reg <= 1'b0;
        due <= 1'b0;
    end
end

wire unused = &{1'b0, late};

endmodule

`default_nettype wire
