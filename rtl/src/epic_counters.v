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
    output reg  [31:0]        read_value   // one cycle later
);

`include "epic_pkg.vh"

localparam DEPTH = 1 << INDEX_W;

reg [31:0] outcomes [0:DEPTH-1];
reg [31:0] sends [0:DEPTH-1];
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

// A counter is read in one cycle and written, more, in the next: with what the event before writes, if it is the same.
reg               clearing_reg, outcome_reg, send_reg;
reg [INDEX_W-1:0] outcome_at_reg, send_at_reg;
reg [31:0]        outcome_count_reg, send_count_reg;
reg [6:0]         send_more_reg;
reg [3:0]         sent_more_reg, failed_more_reg;
wire [31:0]       outcome_next = clearing_reg ? 32'd0 : outcome_count_reg + 32'd1;
wire [31:0]       send_next = clearing_reg ? 32'd0 : send_count_reg + {25'd0, send_more_reg};

always @(posedge clk) begin
    clearing_reg <= !ready;
    outcome_reg <= outcome || !ready;
    outcome_at_reg <= ready ? outcome_index : clear_reg[INDEX_W-1:0];
    outcome_count_reg <= outcome_reg && outcome_at_reg == outcome_index ? outcome_next : outcomes[outcome_index];
    send_reg <= send || !ready;
    send_at_reg <= ready ? send_index : clear_reg[INDEX_W-1:0];
    send_count_reg <= send_reg && send_at_reg == send_index ? send_next : sends[send_index];
    send_more_reg <= send_count;
    if (outcome_reg) outcomes[outcome_at_reg] <= outcome_next;
    if (send_reg) sends[send_at_reg] <= send_next;
    frames_reg <= frames_reg + {31'd0, frame};
    ce_reg <= ce_reg + {31'd0, ce};
    completed_reg <= completed_reg + {31'd0, completed};
    poisoned_reg <= poisoned_reg + {31'd0, poisoned};
    sent_more_reg <= ones(sent);
    failed_more_reg <= ones(failed);
    sent_reg <= sent_reg + {28'd0, sent_more_reg};
    failed_reg <= failed_reg + {28'd0, failed_more_reg};
    if (!ready) clear_reg <= clear_reg + 1'b1;
    case ({{8 - INDEX_W{1'b0}}, read_index})
        COUNTER_RX_FRAMES: read_value <= frames_reg;
        COUNTER_RX_CE: read_value <= ce_reg;
        COUNTER_CELLS_COMPLETED: read_value <= completed_reg;
        COUNTER_CELLS_POISONED: read_value <= poisoned_reg;
        COUNTER_TX_FRAMES: read_value <= sent_reg;
        COUNTER_TX_FAILED: read_value <= failed_reg;
        COUNTER_TX_PARTIAL, COUNTER_TX_RESULT, COUNTER_TX_REPLAY, COUNTER_TX_RESEND, COUNTER_TX_REFLECTED:
            read_value <= sends[read_index];
        default: read_value <= outcomes[read_index];
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
