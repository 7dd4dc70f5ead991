----------------------------------- MODULE MC3 -----------------------------------
(* Trees and calls for the configurations MC3_*, LIVE3_*, SIM3_* and MUT3_*. *)
EXTENDS Mode3

(* One engine. *)
OneEngines == {"x"}
OneRanks == {"r0", "r1"}
OneChildren == [n \in {"x"} |-> <<"r0", "r1">>]
(* Two levels: root x with engine a (ranks 0 and 1) and rank 2. *)
TwoEngines == {"x", "a"}
TwoRanks == {"r0", "r1", "r2"}
TwoChildren == [n \in TwoEngines |-> IF n = "x" THEN <<"a", "r2">> ELSE <<"r0", "r1">>]
(* Three levels: root x, engine a below it with rank 2, engine b below a with ranks 0 and 1; b is not a's first child. *)
ThreeEngines == {"x", "a", "b"}
ThreeChildren == [n \in ThreeEngines |-> CASE n = "x" -> <<"a">> [] n = "a" -> <<"r2", "b">> [] OTHER -> <<"r0", "r1">>]
(* Three levels, 7 ranks, for simulation. *)
WideEngines == {"x", "a", "b", "d"}
WideRanks == {"r0", "r1", "r2", "r3", "r4", "r5", "r6"}
WideChildren == [n \in WideEngines |-> CASE n = "x" -> <<"a", "r6">> [] n = "a" -> <<"b", "d", "r5">>
                                         [] n = "b" -> <<"r0", "r1", "r2">> [] OTHER -> <<"r3", "r4">>]

D(prim, op, rank) == [prim |-> prim, op |-> op, rank |-> rank]
Call(d, len, last) == [desc |-> d, len |-> len, last |-> last, err |-> FALSE]
Sum == Call(D("ALLREDUCE", "SUM", "none"), 2, TRUE)
(* Every cell an AllReduce. *)
SumCalls == [r \in Ranks |-> [i \in 1 .. Cells |-> {Sum}]]
(* All primitives in turn: AllReduce, Reduce to r1, Broadcast from r0 (first and last cell), Barrier. *)
Mixed == <<Sum, Call(D("REDUCE", "SUM", "r1"), 2, TRUE), Call(D("BROADCAST", "SUM", "r0"), 2, FALSE),
           Call(D("BROADCAST", "SUM", "r0"), 1, TRUE), Call(D("ALLREDUCE", "NONE", "none"), 0, TRUE)>>
MixedCall(i) == Mixed[1 + ((i - 1) % 5)]
MixedCalls == [r \in Ranks |-> [i \in 1 .. Cells |-> {MixedCall(i)}]]
(* Disagreement: r1 may call another operator in cell 0, r0 another length in cell 1, and r1 may give up in cell 2. *)
OtherOperator == [Sum EXCEPT !.desc.op = "MAX"]
OtherLength == [Sum EXCEPT !.len = 1]
GiveUp == [Sum EXCEPT !.err = TRUE]
PoisonCalls == [r \in Ranks |-> [i \in 1 .. Cells |-> {Sum} \cup
    CASE i = 1 /\ r = "r1" -> {OtherOperator}
      [] i = 2 /\ r = "r0" -> {OtherLength}
      [] i = 3 /\ r = "r1" -> {GiveUp}
      [] OTHER -> {}]]
(* Disagreement about the root, and about the length of a Broadcast. *)
RootCalls == [r \in Ranks |-> [i \in 1 .. Cells |->
    CASE i = 1 -> {Call(D("REDUCE", "SUM", "r1"), 2, TRUE)} \cup (IF r = "r2" THEN {Call(D("REDUCE", "SUM", "r2"), 2, TRUE)} ELSE {})
      [] i = 2 -> {Call(D("BROADCAST", "SUM", "r0"), 2, TRUE)} \cup (IF r = "r1" THEN {Call(D("BROADCAST", "SUM", "r0"), 1, TRUE)} ELSE {})
      [] OTHER -> {MixedCall(i)}]]
==================================================================================
