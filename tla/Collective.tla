------------------------------ MODULE Collective ------------------------------
(* The abstract machine of epic.md, section 3: what a collective means on one tree. Mode1, Mode2 and Mode3 refine it. *)
(* Values has contributions, masks and results.                                                                         *)
EXTENDS Values
CONSTANTS W,       \* window
          Cells,   \* the group runs cells 0 .. Cells-1
          Calls    \* Calls[r][s+1]: set of calls that rank r may make for cell s
VARIABLES c,       \* c[r]: what rank r contributed, in order. Contributed(r) = Len(c[r])
          results  \* results[r]: what rank r delivered, in order. Delivered(r) = Len(results[r])
vars == <<c, results>>

Delivered(r) == Len(results[r])
ByAll == Min({Len(c[r]) : r \in Ranks})     \* cells that every rank has contributed
At(s) == {c[q][s + 1] : q \in Ranks}        \* for s < ByAll

Agreed(s) == LET at == At(s) IN
             /\ \A x \in at : ~x.err
             /\ \A x, y \in at : x.desc = y.desc /\ (x.len = y.len \/ x.len = 0 \/ y.len = 0)
(* What rank r gets for cell s. *)
Result(r, s) == IF ~Agreed(s) THEN Error
                ELSE IF r \notin Takes(c[r][s + 1].desc) THEN Null
                ELSE [err |-> FALSE, len |-> Max({x.len : x \in At(s)}), sum |-> UNION {x.sum : x \in At(s)}]

Init == c = [r \in Ranks |-> <<>>] /\ results = [r \in Ranks |-> <<>>]

(* The result clock: nothing else holds a rank back (EPIC-A-01). *)
Contribute(r) ==
    /\ Len(c[r]) < Cells /\ Len(c[r]) < Delivered(r) + W
    /\ \E call \in Calls[r][Len(c[r]) + 1] :
          c' = [c EXCEPT ![r] = Append(@, Contribution(r, Len(@), call))]
    /\ UNCHANGED results

(* Results of one or several next cells: one that came out of order waits for those before it. *)
Deliver(r) ==
    /\ \E n \in Delivered(r) + 1 .. ByAll :
          results' = [results EXCEPT ![r] = @ \o [i \in 1 .. n - Len(@) |-> Result(r, Len(@) + i - 1)]]
    /\ UNCHANGED c

Next == \E r \in Ranks : Contribute(r) \/ Deliver(r)
Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ \A r \in Ranks : WF_vars(Contribute(r)) /\ WF_vars(Deliver(r))

-------------------------------------------------------------------------------
TypeOK == \A r \in Ranks : Len(c[r]) <= Cells /\ Len(results[r]) <= Cells
Failed(r) == \E i \in 1 .. Delivered(r) : results[r][i].err
(* P1 Exactness: one contribution of each rank that gives, none twice, nothing else. *)
P1 == \A r \in Ranks : \A s \in 0 .. Delivered(r) - 1 : LET x == results[r][s + 1]  d == c[r][s + 1].desc IN
          ~x.err => x.sum = IF r \in Takes(d) THEN {<<q, s>> : q \in Gives(d)} ELSE {}
(* P2 Once, in order: what is delivered stays so, and the next cell comes next. *)
P2 == [][\A r \in Ranks : /\ Len(results[r]) <= Len(results'[r])
                         /\ SubSeq(results'[r], 1, Len(results[r])) = results[r]]_results
(* P3 No early result. *)
P3 == LET least == ByAll IN \A r \in Ranks : Delivered(r) <= least
(* P4 Progress: every cell is delivered everywhere, save that a rank may stop at an error. *)
P4 == \A r \in Ranks : <>(Delivered(r) = Cells \/ Failed(r))
(* P7 Agreement: an error at every rank exactly for the cells about which the ranks disagree. *)
P7 == \A s \in 0 .. ByAll - 1 : LET agreed == Agreed(s) IN
          \A r \in Ranks : s < Delivered(r) => results[r][s + 1].err = ~agreed
(* The three consequences of the clock that every slot-reuse argument uses, for r that has contributed p. *)
C123 == LET least == ByAll  slowest == Min({Delivered(q) : q \in Ranks}) IN
        \A r \in Ranks : /\ Len(c[r]) <= Delivered(r) + W       \* C1, EPIC-A-01
                         /\ Len(c[r]) <= least + W              \* C2: than any other, so than the least
                         /\ Len(c[r]) <= slowest + 2 * W        \* C3
===============================================================================
