// A condition on parameters that is checked at elaboration. `include this outside modules; in a module say
//     `EPIC_CHECK(g_check_depth, DEPTH >= 4, ("epic_fifo: DEPTH is %0d, expected 4 or more", DEPTH))
// The first argument names the generate block. Verilator and Yosys stop while they elaborate; Icarus 11 has no
// elaboration tasks and stops before time starts.
`ifndef EPIC_CHECK
`ifdef __ICARUS__
`define EPIC_CHECK(block, condition, message) \
    initial begin : block \
        if (!(condition)) begin \
            $error message; \
            $finish(2); \
        end \
    end
`else
`define EPIC_CHECK(block, condition, message) \
    generate if (!(condition)) begin : block \
        $error message; \
    end endgenerate
`endif
`endif
