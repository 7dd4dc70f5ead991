// The counters of the spec, 32 bits each, by the index of COUNTER_*. Several events a cycle: those of one kind share a
// memory, and a counter is the sum of what all of them say. After reset they take 2^INDEX_W cycles to be cleared (`ready`).

`default_nettype none

module epic_counters #(
    parameter PORTS = 4,
    parameter INDEX_W = 6
) (
    input  wire               clk,
    input  wire               rst,
    output wire               ready,

    input  wire               frame,       // a frame was received
    input  wire               ce,
    input  wire               completed,
    input  wire               poisoned,
    input  wire               outcome,     // what became of it
    input  wire [INDEX_W-1:0] outcome_index,
    input  wire               send,        // how many are sent because of it
    input  wire [INDEX_W-1:0] send_index,
    input  wire [6:0]         send_count,
    input  wire [PORTS-1:0]   sent,        // a frame left port p
    input  wire [PORTS-1:0]   failed,      // a frame for port p found no room

    input  wire [INDEX_W-1:0] read_index,
    output wire [31:0]        read_value   // one cycle later
);

`include "epic_pkg.vh"

localparam DEPTH = 1 << INDEX_W;

// Not block RAM: it would want the indices, which are decided late, a cycle before, and give the counts late.
(* ram_style = "distributed" *) reg [31:0] outcomes [0:DEPTH-1];
(* ram_style = "distributed" *) reg [31:0] sends [0:DEPTH-1];
reg [31:0] frames_reg, ce_reg, completed_reg, poisoned_reg, sent_reg, failed_reg;
reg [INDEX_W:0] clear_reg;

assign ready = clear_reg[INDEX_W];

function [3:0] ones(input [PORTS-1:0] bits);
    integer i;
    begin
        ones = 4'd0;
        for (i = 0; i < PORTS; i = i + 1) ones = ones + {3'd0, bits[i]};
    end
endfunction

// A counter is read, counted, and written, in three cycles: what events before have made of it by then goes ahead.
reg               clearing_1, outcome_1, outcome_2, send_1, send_2;
reg [INDEX_W-1:0] outcome_at_1, outcome_at_2, send_at_1, send_at_2;
reg [31:0]        outcome_count_1, outcome_count_2, send_count_1, send_count_2;
reg [6:0]         more_1;
reg [3:0]         sent_more_reg, failed_more_reg;
wire [31:0]       outcome_next = clearing_1 ? 32'd0 : outcome_count_1 + 32'd1;
wire [31:0]       send_next = clearing_1 ? 32'd0 : send_count_1 + {25'd0, more_1};

reg               reads_outcome, reads_send;
reg [31:0]        outcome_read, send_read, single_read;
assign read_value = single_read | ((outcome_read & {32{reads_outcome}}) + (send_read & {32{reads_send}}));

always @(posedge clk) begin
    clearing_1 <= !ready;
    outcome_1 <= outcome || !ready;
    outcome_at_1 <= ready ? outcome_index : clear_reg[INDEX_W-1:0];
    outcome_count_1 <= outcome_1 && outcome_at_1 == outcome_index ? outcome_next
        : outcome_2 && outcome_at_2 == outcome_index ? outcome_count_2 : outcomes[outcome_index];
    outcome_2 <= outcome_1;
    outcome_at_2 <= outcome_at_1;
    outcome_count_2 <= outcome_next;
    if (outcome_2) outcomes[outcome_at_2] <= outcome_count_2;
    send_1 <= send || !ready;
    send_at_1 <= ready ? send_index : clear_reg[INDEX_W-1:0];
    send_count_1 <= send_1 && send_at_1 == send_index ? send_next
        : send_2 && send_at_2 == send_index ? send_count_2 : sends[send_index];
    more_1 <= send_count;
    send_2 <= send_1;
    send_at_2 <= send_at_1;
    send_count_2 <= send_next;
    if (send_2) sends[send_at_2] <= send_count_2;
    frames_reg <= frames_reg + {31'd0, frame};
    ce_reg <= ce_reg + {31'd0, ce};
    completed_reg <= completed_reg + {31'd0, completed};
    poisoned_reg <= poisoned_reg + {31'd0, poisoned};
    sent_more_reg <= ones(sent);
    failed_more_reg <= ones(failed);
    sent_reg <= sent_reg + {28'd0, sent_more_reg};
    failed_reg <= failed_reg + {28'd0, failed_more_reg};
    if (!ready) clear_reg <= clear_reg + 1'b1;
    // What is read: each candidate in a register, and which it is.
    outcome_read <= outcomes[read_index];
    send_read <= sends[read_index];
    reads_outcome <= 1'b0;
    reads_send <= 1'b0;
    single_read <= 32'd0;
    case ({{8 - INDEX_W{1'b0}}, read_index})
        COUNTER_RX_FRAMES: single_read <= frames_reg;
        COUNTER_RX_CE: single_read <= ce_reg;
        COUNTER_CELLS_COMPLETED: single_read <= completed_reg;
        COUNTER_CELLS_POISONED: single_read <= poisoned_reg;
        COUNTER_TX_FRAMES: single_read <= sent_reg;
        COUNTER_TX_FAILED: single_read <= failed_reg;
        COUNTER_TX_PARTIAL, COUNTER_TX_RESULT, COUNTER_TX_REPLAY, COUNTER_TX_RESEND, COUNTER_TX_REFLECTED:
            reads_send <= 1'b1;
        // Mode II counts these beside the outcome of the frame.
        COUNTER_TX_ACK, COUNTER_TX_NAK, COUNTER_EDGE_ERRORS: {reads_outcome, reads_send} <= 2'b11;
        default: reads_outcome <= 1'b1;
    endcase
    if (rst) begin
        clear_reg <= {INDEX_W + 1{1'b0}};
        frames_reg <= 32'd0;
        ce_reg <= 32'd0;
        completed_reg <= 32'd0;
        poisoned_reg <= 32'd0;
        sent_more_reg <= 4'd0;
        failed_more_reg <= 4'd0;
        sent_reg <= 32'd0;
        failed_reg <= 32'd0;
    end
end

endmodule

`default_nettype wire
