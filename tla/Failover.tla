-------------------------------- MODULE Failover --------------------------------
(* Epochs of a group (epic.md, section 10.5): an engine is lost, the manager gives the group another tree or none (the   *)
(* ranks then reduce among themselves), ranks agree on the lowest cell that some rank has not delivered and go on there. *)
(*                                                                                                                      *)
(* How a tree works is the business of Mode1 to Mode3. Here a path is one place that adds a contribution of each rank   *)
(* for each cell number and sends the result to all; the host fallback is a path too. In an epoch cells are numbered    *)
(* from 0 again, so a packet carries cell - base: a packet of one epoch taken for one of another is a wrong cell.       *)
(* Packets never leave the network, those of old epochs included, and a path that was given up is not told: it goes on  *)
(* answering. Loss is a packet that is not received.                                                                    *)
EXTENDS Values, FiniteSets
CONSTANTS W, Cells, Calls,   \* as in Collective
          Paths,             \* engines' trees and "host"
          Epochs             \* epochs are 0 .. Epochs - 1
VARIABLES c, results,        \* as in Collective
          path,              \* path[e+1]: where epoch e runs, for epochs begun; the manager's
          joined,            \* joined[r]: epoch of rank r
          report,            \* report[e][r]: results that r had delivered when it joined e, or None
          sent, here,        \* of r in its epoch: contributions sent and results received, in order, as cell numbers from 0
          places,            \* places[p]: [epoch, slots], slots[n] = [bitmap, value]
          net                \* packets [kind, epoch, number, rank, x]; the QPN stands for the epoch
ranks == <<c, results, joined, report, sent, here>>
vars == <<c, results, path, joined, report, sent, here, places, net>>

Abstract == INSTANCE Collective
Refines == Abstract!Spec
Progress == Abstract!P4

None == -1
Current == Len(path) - 1
Empty == [bitmap |-> {}, value |-> Fresh]
Agreed(e) == \A r \in Ranks : report[e][r] # None
(* Where epoch e resumes. How ranks agree is outside the protocol; they all know it when all have reported. *)
Base(r, e) == LET all == {report[e][q] : q \in Ranks} IN
    IF ~Has("agree") THEN report[e][r] ELSE IF Has("lowest") THEN Min(all) ELSE Max(all)

(* A rank keeps its last W contributions, and those that are outstanding. What it does not keep was overwritten by an   *)
(* in-place result.                                                                                                     *)
Keep == IF Has("keep") THEN W ELSE W - 1
Kept(r, cell) ==
    IF cell >= Len(results[r]) - Keep THEN c[r][cell + 1]
    ELSE [c[r][cell + 1] EXCEPT !.len = results[r][cell + 1].len, !.sum = results[r][cell + 1].sum]

-------------------------------------------------------------------------------
(* The manager: the tree is lost, or thought to be. *)
Fail == /\ Len(path) < Epochs
        /\ \E p \in Paths :
              /\ path' = Append(path, p)
              /\ places' = [places EXCEPT ![p] = [epoch |-> Current + 1,
                               slots |-> IF Has("fresh_slots") THEN [n \in 0 .. Cells - 1 |-> Empty] ELSE @.slots]]   \* EPIC-E-04
        /\ UNCHANGED <<ranks, net>>

(* A rank learns of the epoch. From now on no packet of an older one is for it, so its report stays true. *)
Join(r) == /\ joined[r] < Current
           /\ joined' = [joined EXCEPT ![r] = Current]
           /\ report' = [report EXCEPT ![Current][r] = Len(results[r])]
           /\ sent' = [sent EXCEPT ![r] = 0]
           /\ here' = [here EXCEPT ![r] = 0]
           /\ UNCHANGED <<c, results, path, places, net>>

(* The rank is a new agent of the new tree: its window counts results of this epoch, also of cells that it has.         *)
(* Otherwise the new tree would see more than W outstanding, and no rank would repeat a cell which it has.              *)
WindowOpen(r) == IF Has("epoch_clock") THEN sent[r] < here[r] + W
                 ELSE sent[r] + Base(r, joined[r]) < Len(results[r]) + W
Send(r) ==
    LET e == joined[r]  cell == Base(r, e) + sent[r]
        packet(x) == [kind |-> "up", epoch |-> e, number |-> sent[r], rank |-> r, x |-> x]
    IN /\ Agreed(e) /\ cell < Cells /\ WindowOpen(r)
       /\ IF cell < Len(c[r]) THEN net' = net \cup {packet(Kept(r, cell))} /\ UNCHANGED c
          ELSE \E call \in Calls[r][cell + 1] : LET x == Contribution(r, cell, call) IN
                  c' = [c EXCEPT ![r] = Append(@, x)] /\ net' = net \cup {packet(x)}
       /\ sent' = [sent EXCEPT ![r] = @ + 1]
       /\ UNCHANGED <<results, path, joined, report, here, places>>

(* A path adds and, when all are there, sends the result. Frames are addressed to it by their epoch's addresses. *)
PathReceives(m) ==
    LET p == path[m.epoch + 1]  place == places[p]  s == place.slots[m.number]
        t == [bitmap |-> s.bitmap \cup {m.rank}, value |-> Add(s.value, m.x)]
    IN /\ Has("epoch_at_engine") => m.epoch = place.epoch                                                        \* EPIC-F-05
       /\ m.rank \notin s.bitmap
       /\ places' = [places EXCEPT ![p].slots[m.number] = t]
       /\ net' = IF t.bitmap # Ranks THEN net
                 ELSE net \cup {[kind |-> "down", epoch |-> place.epoch, number |-> m.number, rank |-> r,
                                 x |-> ForChild({r}, Output(t.value))] : r \in Ranks}
       /\ UNCHANGED <<ranks, path>>

(* A result of the epoch, in order, of a cell that the rank has contributed, so the ranks have agreed where the epoch    *)
(* begins. A cell that was delivered stays delivered.                                                                   *)
RankReceives(m) ==
    LET r == m.rank  e == joined[r]  cell == Base(r, e) + m.number IN
    /\ Has("epoch_at_rank") => m.epoch = e
    /\ m.number = here[r] /\ m.number < sent[r]
    /\ here' = [here EXCEPT ![r] = @ + 1]
    /\ results' = IF Has("once") /\ cell < Len(results[r]) THEN results
                  ELSE [results EXCEPT ![r] = Append(@, Received(r, cell, c[r][cell + 1], Calls[r][cell + 1], m.x))]
    /\ UNCHANGED <<c, path, joined, report, sent, places, net>>

Init == /\ c = [r \in Ranks |-> <<>>]
        /\ results = [r \in Ranks |-> <<>>]
        /\ path = <<CHOOSE p \in Paths : TRUE>>    \* any one: nothing tells paths apart
        /\ joined = [r \in Ranks |-> 0]
        /\ report = [e \in 0 .. Epochs - 1 |-> [r \in Ranks |-> IF e = 0 THEN 0 ELSE None]]
        /\ sent = [r \in Ranks |-> 0]
        /\ here = [r \in Ranks |-> 0]
        /\ places = [p \in Paths |-> [epoch |-> IF p = path[1] THEN 0 ELSE None, slots |-> [n \in 0 .. Cells - 1 |-> Empty]]]
        /\ net = {}

Go == \/ \E r \in Ranks : Join(r) \/ Send(r)
      \/ \E m \in net : IF m.kind = "up" THEN PathReceives(m) ELSE RankReceives(m)
Next == Fail \/ Go
Spec == Init /\ [][Next]_vars
(* Packets stay, so every step is taken for good; that some step is taken while there is one is fairness enough. *)
FairSpec == Spec /\ WF_vars(Go)

-------------------------------------------------------------------------------
TypeOK == /\ Len(path) \in 1 .. Epochs
          /\ \A r \in Ranks : /\ joined[r] \in 0 .. Current
                              /\ 0 <= here[r] /\ here[r] <= sent[r] /\ sent[r] <= Cells
                              /\ \A e \in 0 .. Epochs - 1 : report[e][r] \in {None} \cup 0 .. Cells
(* No rank has less than where the group resumes, and none more than W more: so W contributions kept are enough. *)
ResumeInReach == \A e \in 0 .. Current : Agreed(e) => \A r \in Ranks :
                     Base(r, e) <= report[e][r] /\ report[e][r] <= Base(r, e) + W
(* What is sent for a cell is the same in every epoch. *)
SameContribution == \A m \in net : m.kind = "up" =>
                        LET cell == Base(m.rank, m.epoch) + m.number IN m.x = c[m.rank][cell + 1]
(* The result clock holds in each epoch by itself: this is all that the proofs of the modes need of a new tree. *)
EpochClock == \A r, q \in Ranks : (joined[r] = joined[q] /\ Agreed(joined[r])) =>
                 /\ sent[r] <= here[r] + W
                 /\ sent[r] <= sent[q] + W
                 /\ sent[r] <= here[q] + 2 * W
(* No slot has contributions of two epochs: what a path holds was sent in its epoch. *)
OneEpoch == \A p \in Paths : \A n \in 0 .. Cells - 1 : \A r \in places[p].slots[n].bitmap :
                \E m \in net : m.kind = "up" /\ m.epoch = places[p].epoch /\ m.rank = r /\ m.number = n
=================================================================================
