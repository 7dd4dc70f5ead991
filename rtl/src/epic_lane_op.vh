// The lane operation of a cell that is neither Broadcast nor ERR: LANE_<datatype>_<operator>. `include this inside a module,
// after epic_pkg.vh and epic_types.vh. For a datatype that no lane has, nobody looks at it.

function [3:0] lane_operation(input [3:0] datatype, input [1:0] operator);
    case (datatype)
        DATATYPE_FP32: lane_operation = LANE_FP32_SUM + {2'd0, operator - 2'd1};
        DATATYPE_FP16: lane_operation = LANE_FP16_SUM + {2'd0, operator - 2'd1};
        DATATYPE_BF16: lane_operation = {operator, 2'b11};  // 7, 11, 15
        default: lane_operation = LANE_INT32_SUM + {2'd0, operator - 2'd1};
    endcase
endfunction
