// A register in a stream that cuts it in both directions: neither valid and data nor ready pass in the same cycle. One
// word a cycle, a cycle later.
//
// `in_ready` is a register that says that the second word is free. The word that comes in when the first can't leave
// goes there, and is the next to leave.

`default_nettype none

module epic_slice #(
    parameter integer WIDTH = 32  // bits of a word, whatever they mean
) (
    input  wire             clk,
    input  wire             rst,

    input  wire             in_valid,
    input  wire [WIDTH-1:0] in_data,
    output wire             in_ready,

    output wire             out_valid,
    output wire [WIDTH-1:0] out_data,
    input  wire             out_ready
);

reg             valid_reg;
reg [WIDTH-1:0] data_reg;
reg             ready_reg;   // the word that waits is none
reg [WIDTH-1:0] waits_reg;

wire leaves = !valid_reg || out_ready;

assign in_ready = ready_reg;
assign out_valid = valid_reg;
assign out_data = data_reg;

always @(posedge clk) begin
    if (ready_reg) waits_reg <= in_data;
    if (leaves) begin
        valid_reg <= in_valid || !ready_reg;
        data_reg <= ready_reg ? in_data : waits_reg;
    end
    ready_reg <= leaves || (ready_reg && !in_valid);
    if (rst) begin
        valid_reg <= 1'b0;
        ready_reg <= 1'b1;
    end
end

endmodule

`default_nettype wire
