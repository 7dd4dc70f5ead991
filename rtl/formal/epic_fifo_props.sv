// What a FIFO promises: words come out in the order in which they were stored, each once, none before it was
// committed and none that was taken back; it never overflows or runs empty by mistake; and a word that may be read is
// offered within two cycles, and one more for each register behind the memory.
//
// One word is watched, any: the solver picks when. How many words are in front of it says when its turn comes.

`default_nettype none

module epic_fifo_props #(
    parameter WIDTH = 2,
    parameter DEPTH = 4,
    parameter PACKET = 1,
    parameter REGISTER = 0
) (
    input wire             clk,
    input wire             in_valid,
    input wire [WIDTH-1:0] in_data,
    input wire             commit,
    input wire             rewind,
    input wire             out_ready,
    input wire             watch  // the word that is stored now is the watched one
);

localparam COUNT_W = $clog2(DEPTH) + 2;
localparam MOST = DEPTH + 1 + REGISTER;  // words: those of the memory, and one in each register behind it

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire                     in_ready, out_valid;
wire [WIDTH-1:0]         out_data;
wire [$clog2(DEPTH):0]   room;

epic_fifo #(.WIDTH(WIDTH), .DEPTH(DEPTH), .PACKET(PACKET), .REGISTER(REGISTER)) dut (
    .clk(clk), .rst(rst),
    .in_valid(in_valid), .in_data(in_data), .in_ready(in_ready), .commit(commit), .rewind(rewind),
    .out_valid(out_valid), .out_data(out_data), .out_ready(out_ready), .room(room)
);

wire store = in_valid && in_ready && !rst;
wire take = out_valid && out_ready && !rst;
wire release_now = PACKET == 0 || (commit && !rewind);
wire forget_now = PACKET != 0 && rewind;

// Words inside: released ones, and those that may still be taken back.
reg [COUNT_W-1:0] released = 0;
reg [COUNT_W-1:0] pending = 0;
wire [COUNT_W-1:0] with_this = pending + store;

always @(posedge clk) if (started) begin
    released <= released - take + (release_now ? with_this : 0);
    pending <= (forget_now || release_now) ? 0 : with_this;
end

// The watched word.
reg               inside = 1'b0;
reg               fixed = 1'b0;  // released
reg [WIDTH-1:0]   word;
reg [COUNT_W-1:0] ahead;

always @(posedge clk) if (started) begin
    if (!inside) begin
        if (store && watch && !forget_now) begin
            inside <= 1'b1;
            fixed <= release_now;
            word <= in_data;
            ahead <= released + pending - take;
        end
    end else begin
        if (take) ahead <= ahead - 1'b1;
        if (release_now) fixed <= 1'b1;
        if (forget_now && !fixed) inside <= 1'b0;
        if (take && ahead == 0) inside <= 1'b0;
    end
end

// Cycles in which a released word was not offered.
reg [2:0] waited = 0;
always @(posedge clk) if (started)
    waited <= (released != 0 && !out_valid && waited != 3'd7) ? waited + 1'b1 : 0;

reg             held = 1'b0;
reg [WIDTH-1:0] held_data;
always @(posedge clk) begin
    held <= started && out_valid && !out_ready;
    held_data <= out_data;
end

always @(posedge clk) if (started) begin
    a_underflow: assert (!out_valid || released != 0);
    a_overflow: assert (released + pending <= MOST);
    a_order: assert (!(out_valid && inside && ahead == 0) || (fixed && out_data == word));
    a_prompt: assert (waited < 2 + REGISTER);
    a_room: assert (room <= DEPTH && released + pending + room <= MOST);
    // With packets the word that was read a cycle ago is not yet seen.
    a_ready: assert ((!in_ready || room != 0) && (in_ready || room <= (PACKET != 0 ? 1 : 0)));
    a_held: assert (!held || (out_valid && out_data == held_data));
    c_full: cover (!in_ready && released == MOST);
    c_watched: cover (take && inside && ahead == 0 && word == {WIDTH{1'b1}} && released > 1);
    c_back: cover (PACKET == 0 || (inside && !fixed && forget_now && released != 0));
end

endmodule

`default_nettype wire
