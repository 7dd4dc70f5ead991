// Gathering: a narrow word that was stored comes out once, when its packet was committed, in its place of its wide word,
// in order; a packet begins in a wide word of its own, and what its last one lacks is zero; nothing that was taken back
// comes out; and a part that has begun always finds room.
//
// One narrow word is watched, any: the solver picks when. How many wide words are in front of its own says when its turn
// comes.

`default_nettype none

module epic_fifo_gather_props #(
    parameter IN_WIDTH = 1,
    parameter RATIO = 4,
    parameter DEPTH = 2,
    parameter REGISTER = 0
) (
    input wire                clk,
    input wire                in_valid,
    input wire [IN_WIDTH-1:0] in_data,
    input wire                commit,
    input wire                rewind,
    input wire                out_ready,
    input wire                watch  // the word that is stored now is the watched one
);

localparam OUT_WIDTH = IN_WIDTH * RATIO;
localparam PLACE_W = $clog2(RATIO);
localparam COUNT_W = $clog2(DEPTH) + 2;
localparam MOST = DEPTH + 1 + REGISTER;  // wide words: those of the memory, and one in each register behind it

reg  started = 1'b0;
wire rst = !started;
always @(posedge clk) started <= 1'b1;

wire                   in_ready, out_valid;
wire [OUT_WIDTH-1:0]   out_data;
wire [$clog2(DEPTH):0] room;

epic_fifo_gather #(.IN_WIDTH(IN_WIDTH), .OUT_WIDTH(OUT_WIDTH), .DEPTH(DEPTH), .REGISTER(REGISTER)) dut (
    .clk(clk), .rst(rst),
    .in_valid(in_valid), .in_data(in_data), .in_ready(in_ready), .commit(commit), .rewind(rewind),
    .out_valid(out_valid), .out_data(out_data), .out_ready(out_ready), .room(room)
);

wire store = started && in_valid && in_ready;
wire take = started && out_valid && out_ready;
wire keep = commit && !rewind;

// Narrow words of the wide one that is being made, and wide words: released ones, and those that may be taken back.
reg  [PLACE_W-1:0] place = 0;
reg  [COUNT_W-1:0] released = 0;
reg  [COUNT_W-1:0] pending = 0;
wire               whole = store && place == RATIO - 1;
wire               closes = whole || (keep && (store || place != 0));
wire [COUNT_W-1:0] with_this = pending + closes;

always @(posedge clk) if (started) begin
    place <= closes || rewind ? 0 : place + store;
    released <= released - take + (keep ? with_this : 0);
    pending <= rewind || keep ? 0 : with_this;
end

// The watched word, its place, and how many places of its wide word are filled.
reg                inside = 1'b0;
reg                open = 1'b0;   // its wide word is not whole
reg                fixed = 1'b0;  // released
reg [IN_WIDTH-1:0] word;
reg [PLACE_W-1:0]  lane;
reg [PLACE_W:0]    filled;
reg [COUNT_W-1:0]  ahead;

always @(posedge clk) if (started) begin
    if (!inside) begin
        if (store && watch && !rewind) begin
            inside <= 1'b1;
            open <= !closes;
            fixed <= keep;
            word <= in_data;
            lane <= place;
            filled <= place + 1'b1;
            ahead <= released + pending - take;
        end
    end else begin
        if (open) begin
            filled <= filled + store;
            open <= !closes;
        end
        if (take) ahead <= ahead - 1'b1;
        if (keep) fixed <= 1'b1;
        if (rewind && !fixed) inside <= 1'b0;
        if (take && ahead == 0) inside <= 1'b0;
    end
end

wire                 turn = out_valid && inside && ahead == 0;
wire [OUT_WIDTH-1:0] behind = out_data >> (IN_WIDTH * filled);

always @(posedge clk) if (started) begin
    a_underflow: assert (!out_valid || released != 0);
    a_overflow: assert (released + pending <= MOST);
    a_order: assert (!turn || (fixed && !open && out_data[IN_WIDTH*lane +: IN_WIDTH] == word));
    a_zero: assert (!turn || filled == RATIO || behind == 0);
    a_room: assert (place == 0 || in_ready);
    c_watched: cover (take && turn && word == {IN_WIDTH{1'b1}} && lane == 1 && filled == 3 && released > 1);
    c_full: cover (!in_ready && released == MOST);
    c_back: cover (inside && !fixed && rewind && released != 0 && place == RATIO - 1);
end

endmodule

`default_nettype wire
