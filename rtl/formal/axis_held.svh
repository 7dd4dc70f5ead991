// The rule of every valid/ready interface: once `valid` is up, it and the data stay until `ready`. Asserted of a
// module's output, assumed of its input (ASSUME).

module axis_held #(
    parameter WIDTH = 1,
    parameter ASSUME = 0
) (
    input wire             clk,
    input wire             on,  // not in reset
    input wire             valid,
    input wire             ready,
    input wire [WIDTH-1:0] data
);

reg             waiting = 1'b0;
reg [WIDTH-1:0] was;
always @(posedge clk) begin
    waiting <= on && valid && !ready;
    was <= data;
end

generate
    if (ASSUME != 0) begin : g_assume
        always @(posedge clk) if (on) assume (!waiting || (valid && data == was));
    end else begin : g_assert
        always @(posedge clk) if (on) begin
            a_valid_held: assert (!waiting || valid);
            a_data_held: assert (!waiting || data == was);
            c_waits: cover (waiting);
        end
    end
endgenerate

endmodule
