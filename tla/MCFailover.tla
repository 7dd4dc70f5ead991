-------------------------------- MODULE MCFailover --------------------------------
EXTENDS Failover
TwoRanks == {"r0", "r1"}
ThreeRanks == {"r0", "r1", "r2"}
Sum == [desc |-> [prim |-> "ALLREDUCE", op |-> "SUM", rank |-> "none"], len |-> 2, last |-> TRUE, err |-> FALSE]
SumCalls == [r \in Ranks |-> [i \in 1 .. Cells |-> {Sum}]]
(* A Reduce to r1 about whose operator r0 may disagree, a length about which r0 may disagree, and r1 may give up. *)
OtherCalls == [r \in Ranks |-> [i \in 1 .. Cells |->
    CASE i = 1 -> LET reduce == [Sum EXCEPT !.desc = [prim |-> "REDUCE", op |-> "SUM", rank |-> "r1"]] IN
                  {reduce} \cup (IF r = "r0" THEN {[reduce EXCEPT !.desc.op = "MAX"]} ELSE {})
      [] i = 2 -> {Sum} \cup (IF r = "r0" THEN {[Sum EXCEPT !.len = 1]} ELSE {})
      [] i = 3 -> {Sum} \cup (IF r = "r1" THEN {[Sum EXCEPT !.err = TRUE]} ELSE {})
      [] OTHER -> {Sum}]]
===================================================================================
