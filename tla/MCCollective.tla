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

(* Any rank makes any of these calls for any cell, whatever the others do: another primitive, root, operator or length,  *)
(* or giving up. Records and tuples, not functions of a rank: TLC then evaluates them once.                              *)
Wrong == {Call(D("ALLREDUCE", "MAX", "none"), 2, TRUE), [Sum EXCEPT !.len = 1], [Sum EXCEPT !.err = TRUE]}
Roots == {Call(D("REDUCE", "SUM", "r1"), 2, TRUE), Call(D("REDUCE", "SUM", "r2"), 2, TRUE),
          Call(D("BROADCAST", "SUM", "r0"), 2, TRUE), Call(D("BROADCAST", "SUM", "r0"), 2, FALSE)}
Barrier == Call(D("ALLREDUCE", "NONE", "none"), 0, TRUE)
Every == {Sum, Barrier} \cup Wrong \cup Roots
Alike(calls) == [r0 |-> calls, r1 |-> calls, r2 |-> calls]
EveryCalls == Alike(<<Every, Every>>)
(* Fewer, for three cells: five contributions that differ. *)
Five == {Sum, Call(D("BROADCAST", "SUM", "r0"), 2, TRUE)} \cup Wrong
FiveCalls == Alike(<<Five, Five, Five>>)
Six == Five \cup {Call(D("REDUCE", "SUM", "r1"), 2, TRUE)}
SixCalls == Alike(<<Six, Six, Six>>)
(* Fewer still, by turns, for a window of 2. *)
TurnCalls == Alike(<<{Sum, [Sum EXCEPT !.len = 1], [Sum EXCEPT !.err = TRUE]},
                     {Sum, Call(D("REDUCE", "SUM", "r1"), 2, TRUE), Call(D("BROADCAST", "SUM", "r0"), 2, TRUE)}, {Sum, Barrier}>>)
(* Four ranks, two cells. *)
FourRanks == {"r0", "r1", "r2", "r3"}
FourCalls == LET calls == <<{Sum, [Sum EXCEPT !.err = TRUE], Call(D("REDUCE", "SUM", "r1"), 2, TRUE), Call(D("BROADCAST", "SUM", "r0"), 2, TRUE)},
                            {Sum, [Sum EXCEPT !.len = 1], Barrier}>>
             IN [r0 |-> calls, r1 |-> calls, r2 |-> calls, r3 |-> calls]
=================================================================================
