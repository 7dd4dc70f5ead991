// A wire that is cut (epic_cut.v), of width W, with the parameter CUT, the clock and the step of the module around it:
//     `EPIC_CUT(cut_distance, distance, 24, number - expected)
`ifndef EPIC_CUT
`define EPIC_CUT(instance_name, name, width, value) \
    wire [(width)-1:0] name; \
    epic_cut #(.WIDTH(width), .CUT(CUT)) instance_name (.clk(clk), .used(step), .d(value), .q(name));
`endif
