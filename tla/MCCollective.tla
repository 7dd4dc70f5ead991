------------------------------ MODULE MCCollective ------------------------------
(* Every primitive, agreement and disagreement, on the abstract machine itself. *)
EXTENDS Collective, FiniteSets
D(prim, op, rank) == [prim |-> prim, op |-> op, rank |-> rank]
Call(d, len, last) == [desc |-> d, len |-> len, last |-> last, err |-> FALSE]
Sum == Call(D("ALLREDUCE", "SUM", "none"), 2, TRUE)
(* Per cell what a rank may call; more than one call is a possible disagreement. *)
MCRanks == {"r0", "r1", "r2"}
MCCalls == [r \in MCRanks |-> <<
    {Sum} \cup (IF r = "r2" THEN {Call(D("ALLREDUCE", "MAX", "none"), 2, TRUE),
                                  [Sum EXCEPT !.len = 1], [Sum EXCEPT !.err = TRUE]} ELSE {}),
    {Call(D("REDUCE", "SUM", "r1"), 2, TRUE)} \cup (IF r = "r1" THEN {Call(D("REDUCE", "SUM", "r2"), 2, TRUE)} ELSE {}),
    {Call(D("BROADCAST", "SUM", "r0"), 2, FALSE)},
    {Call(D("BROADCAST", "SUM", "r0"), IF r = "r1" THEN len ELSE 2, TRUE) : len \in {1, 2}},
    {Call(D("ALLREDUCE", "NONE", "none"), 0, TRUE)} >>]
=================================================================================
