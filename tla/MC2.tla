---------------------------------- MODULE MC2 ----------------------------------
(* Trees, PSN bases and calls of the exhaustive configurations and mutants of Mode2. *)
EXTENDS Mode2

(* One engine with one, two, three ranks; two levels with three ranks; a chain (fan-in 1). *)
OneRanks == {"r0", "r1"}
SoloParent == [r0 |-> "R"]
OneEngines == {"R"}
OneParent == [r0 |-> "R", r1 |-> "R"]
ThreeParent == [r0 |-> "R", r1 |-> "R", r2 |-> "R"]
TwoRanks == {"r0", "r1", "r2"}
TwoEngines == {"R", "A"}
TwoParent == [r0 |-> "A", r1 |-> "A", r2 |-> "R", A |-> "R"]
PairParent == [r0 |-> "A", r1 |-> "R", A |-> "R"]
ChainRanks == {"r0"}
ChainParent == [r0 |-> "A", A |-> "R"]
DeepRanks == {"r0", "r1", "r2", "r3"}
DeepEngines == {"R", "A", "B"}
DeepParent == [r0 |-> "B", r1 |-> "B", r2 |-> "A", r3 |-> "R", B |-> "A", A |-> "R"]

(* For AckEdges: where explicit acknowledgements may arrive. *)
NoEdges == {}
TwoEdges == {"A", "r0"}

(* Bases differ from edge to edge and near the wrap. *)
MCBase == [dir \in Dirs |-> [e \in Edges |-> IF dir = "up" THEN (CASE e = "r0" -> M - 1 [] e = "r1" -> 1 [] OTHER -> M - 2)
                                             ELSE (CASE e = "r0" -> 2 [] e = "A" -> M - 1 [] OTHER -> 0)]]

D(prim, op, rank) == [prim |-> prim, op |-> op, rank |-> rank]
Call(d, len, last) == [desc |-> d, len |-> len, last |-> last, err |-> FALSE]
Sum == Call(D("ALLREDUCE", "SUM", "none"), 2, TRUE)
SumCalls == [r \in Ranks |-> [s \in 1 .. Cells |-> {Sum}]]
(* Every primitive in turn, so NULL contributions and NULL results of each kind. *)
Mixed == << Sum,
            Call(D("REDUCE", "SUM", "r1"), 2, TRUE),
            Call(D("BROADCAST", "SUM", "r0"), 2, FALSE),
            Call(D("ALLREDUCE", "NONE", "none"), 0, TRUE) >>
MixedCalls == [r \in Ranks |-> [s \in 1 .. Cells |-> {Mixed[((s - 1) % 4) + 1]}]]
(* Each cell may be disagreed about: another operator, another length, a Barrier that one rank gives up. *)
Barrier == Call(D("ALLREDUCE", "NONE", "none"), 0, TRUE)
Clash(s) == IF s % 2 = 1 THEN {Sum, Call(D("ALLREDUCE", "MAX", "none"), 2, TRUE), [Sum EXCEPT !.len = 1]}
            ELSE {Barrier, [Barrier EXCEPT !.err = TRUE]}
ClashCalls == [r \in Ranks |-> [s \in 1 .. Cells |-> IF r = "r0" THEN {IF s % 2 = 1 THEN Sum ELSE Barrier} ELSE Clash(s)]]
================================================================================
