// The installed edges, found by the QPN of their own end. The keys are compared side by side, the entries are in RAM; the
// entry of a key is there STEPS steps later.

`default_nettype none

`include "epic_check.vh"

module epic_edge_table #(
    parameter EDGES = 32,    // 2 to 256
    parameter ENTRY_W = 320,
    parameter QPN_W = 24,
    parameter STEPS = 2      // 2, or 3: a register between what is found and the RAM, whose word is wide
) (
    input  wire               clk,
    input  wire               rst,

    input  wire               write,
    input  wire [7:0]         write_index,
    input  wire               write_used,   // 0: the entry is free from now on
    input  wire [QPN_W-1:0]   write_qpn,
    input  wire [ENTRY_W-1:0] write_entry,

    input  wire               step,         // the pipeline moves
    input  wire [QPN_W-1:0]   qpn,
    output reg                hit,          // STEPS steps after `qpn`
    output reg  [7:0]         index,
    output wire [ENTRY_W-1:0] entry
);

localparam INDEX_W = $clog2(EDGES);

`EPIC_CHECK(g_check_edges, EDGES >= 2 && EDGES <= 256,
    ("epic_edge_table: EDGES is %0d, expected 2 to 256", EDGES))
`EPIC_CHECK(g_check_steps, STEPS == 2 || STEPS == 3, ("epic_edge_table: STEPS is %0d, expected 2 or 3", STEPS))

reg [EDGES-1:0] used_reg;
reg [QPN_W-1:0] key_reg [0:EDGES-1];
reg [EDGES-1:0] match_reg;

integer e;
// A key is written a cycle after its entry: which one is known by then.
reg [EDGES-1:0] write_reg;
reg             write_used_reg;
reg [QPN_W-1:0] write_qpn_reg;
always @(posedge clk) begin
    write_used_reg <= write_used;
    write_qpn_reg <= write_qpn;
    for (e = 0; e < EDGES; e = e + 1) begin
        write_reg[e] <= write && write_index == e[7:0];
        if (write_reg[e]) begin
            used_reg[e] <= write_used_reg;
            key_reg[e] <= write_qpn_reg;
        end
        if (step) match_reg[e] <= used_reg[e] && key_reg[e] == qpn;
    end
    if (rst) begin
        write_reg <= {EDGES{1'b0}};
        used_reg <= {EDGES{1'b0}};
        match_reg <= {EDGES{1'b0}};
    end
end

// At most one matches: QPNs of a node are unique.
reg [7:0] found;
integer i;
always @* begin
    found = 8'd0;
    for (i = 0; i < EDGES; i = i + 1)
        if (match_reg[i]) found = found | i[7:0];
end

wire       is_found = match_reg != {EDGES{1'b0}};
wire       found_hit;
/* verilator lint_off UNUSEDSIGNAL */  // as many bits as there are edges
wire [7:0] found_index;
/* verilator lint_on UNUSEDSIGNAL */
generate
    if (STEPS == 3) begin : g_register
        reg       hit_reg;
        reg [7:0] index_reg;
        always @(posedge clk) begin
            if (step) begin
                hit_reg <= is_found;
                index_reg <= found;
            end
            if (rst) hit_reg <= 1'b0;
        end
        assign found_hit = hit_reg;
        assign found_index = index_reg;
    end
    else begin : g_direct
        assign found_hit = is_found;
        assign found_index = found;
    end
endgenerate

always @(posedge clk) begin
    if (step) begin
        hit <= found_hit;
        index <= found_index;
    end
    if (rst) hit <= 1'b0;
end

epic_ram #(.WIDTH(ENTRY_W), .DEPTH(EDGES)) entries (
    .clk(clk),
    .write(write), .write_addr(write_index[INDEX_W-1:0]), .write_data(write_entry),
    .read(step), .read_addr(found_index[INDEX_W-1:0]), .read_data(entry)
);

endmodule

`default_nettype wire
