--------------------------------- MODULE Mode3 ----------------------------------
(* Mode III, translation (epic.md, section 9): an engine without timers, ACKs or repetition of its own; ranks repeat     *)
(* contributions until the result is here. Names are those of epic_models/reference/mode3.py.                           *)
(*                                                                                                                      *)
(* The network. With Network = "keep" a packet never leaves the set it was sent into: every delay, overtaking and       *)
(* duplicate is a choice of what is received next, and a loss is a packet that is not received. A repetition adds       *)
(* nothing to the set (invariant RepeatsAreCopies), so it needs no step. Only packets that assumption 1 of section 2.6  *)
(* excludes are taken out: those whose cell is Life or more behind the newest. With Life = M / 2 more packets are       *)
(* allowed than by the assumption, under which a packet of p is sent at most N - 1 cells after p and stays for fewer    *)
(* than M / 2 - N more. With Network = "lossy" (liveness) a packet that is received is gone, Lose takes any, and only   *)
(* Repeat brings it back, perhaps while an earlier copy is on its way; with "duplicating" it may also stay.             *)
(*                                                                                                                      *)
(* A packet has its cell as an unbounded number, for Life and the invariants; nodes look at Psn(packet) only. PSN bases *)
(* are left out: both ends of an edge subtract the same constant.                                                       *)
EXTENDS Values, FiniteSets
CONSTANTS Engines, Children,  \* Children[x]: the children of engine x in order, engines or ranks
          W, N, M,            \* window, slots, modulus of PSNs
          Life,               \* see above
          Start,              \* cell number of cell 0, a multiple of N: as if Start cells had gone by
          Cells, Calls,       \* as in Collective
          Network,            \* "keep", "lossy" or "duplicating"
          Guard,              \* capability window_guard
          Reflection,         \* capability ack_reflection: ranks are RC endpoints
          StopAtError,        \* a rank that delivered an error falls silent
          Rogues              \* nodes that break the rules: ranks overrun their window, engines send results unasked
VARIABLES c, results,         \* of ranks, as in Collective: Len(c[r]) contributed, Len(results[r]) delivered
          early,              \* early[r]: results that are here and not yet delivered, by cell
          acknowledged,       \* acknowledged[r]: with Reflection, cells before it are not repeated any more
          slots,              \* slots[x][i]: [tag, bitmap, done, value, result]
          net                 \* packets [kind, edge, cell, x]; an edge is named by its child
ranks == <<c, results, early, acknowledged>>
vars == <<c, results, early, acknowledged, slots, net>>

Abstract == INSTANCE Collective

Edges == UNION {{Children[x][k] : k \in DOMAIN Children[x]} : x \in Engines}
Root == CHOOSE x \in Engines : x \notin Edges
Parent == [e \in Edges |-> CHOOSE x \in Engines : \E k \in DOMAIN Children[x] : Children[x][k] = e]
Index == [e \in Edges |-> CHOOSE k \in DOMAIN Children[Parent[e]] : Children[Parent[e]][k] = e]
All == [x \in Engines |-> DOMAIN Children[x]]    \* a full bitmap
RECURSIVE RanksBelow(_)
RanksBelow(n) == IF n \in Ranks THEN {n} ELSE UNION {RanksBelow(Children[n][k]) : k \in All[n]}
Below == [n \in Edges \cup {Root} |-> RanksBelow(n)]

-------------------------------------------------------------------------------
(* Numbers on the wire: serial arithmetic on M numbers (section 2.6). *)
Psn(m) == (Start + m.cell) % M
Diff(a, b) == IF Has("serial") THEN ((a - b + M \div 2) % M) - M \div 2 ELSE a - b
Nearest(psn, known) == known + Diff(psn, (Start + known) % M)
Newest == Max({Len(c[r]) : r \in Ranks}) - 1
(* A result may be replayed while its slot is not reused, so later than a contribution; longer life is harmless to it, *)
(* for nothing but its own cell accepts it.                                                                           *)
Live(S, newest) == {m \in S : newest - m.cell < (IF m.kind = "down" THEN Life + W ELSE Life)}
After(m, sends) == (IF Network # "lossy" THEN {net \cup sends} ELSE {})
                   \cup (IF Network # "keep" THEN {(net \ {m}) \cup sends} ELSE {})

Nothing == [desc |-> NoDesc, err |-> FALSE, len |-> 0, sum |-> {}]
Up(e, cell, x) == [kind |-> "up", edge |-> e, cell |-> cell, x |-> x]
Partial(n, cell, s) == IF n = Root THEN {} ELSE {Up(n, cell, Output(s.value))}
Result(n, k, cell, x) == [kind |-> "down", edge |-> Children[n][k], cell |-> cell, x |-> ForChild(Below[Children[n][k]], x)]
Acknowledgement(r, cell, nak) == [kind |-> "ack", edge |-> r, cell |-> cell, x |-> [nak |-> nak]]

-------------------------------------------------------------------------------
(* Engine n, section 9.2. A handler gives the slot after the packet and what is sent. *)
Handled(s, sends) == [slot |-> s, sends |-> sends]
Slot(n, m) == slots[n][m.cell % N]
Full(n, s) == s.bitmap = All[n]
Complete(n, s) == IF Has("complete") THEN Full(n, s) ELSE Cardinality(s.bitmap) >= Cardinality(All[n]) - 1      \* EPIC-E-15

(* The slot starts to serve another cell (EPIC-M3-03). *)
Taken(s, psn) == [tag |-> psn, bitmap |-> IF Has("clear_bitmap") THEN {} ELSE s.bitmap, done |-> FALSE,
                  value |-> Fresh, result |-> Nothing]

(* The result is known: keep it for replays and multicast it (EPIC-M3-07, EPIC-M3-14). *)
Finish(n, m, s, x) == Handled([s EXCEPT !.done = TRUE, !.value = Fresh, !.result = x],
                              {Result(n, k, m.cell, x) : k \in All[n]})

(* The first contribution of child k to the slot's cell (EPIC-M3-05, EPIC-M3-06). *)
CountIn(n, k, m, s) ==
    LET t == [s EXCEPT !.bitmap = @ \cup {k}, !.value = Add(@, m.x)] IN
    IF ~Complete(n, t) THEN Handled(t, {})
    ELSE IF n = Root THEN Finish(n, m, t, Output(t.value))
    ELSE Handled(t, Partial(n, m.cell, t))

(* A contribution that is counted already: the child lacks the result. *)
Duplicate(n, k, m, s) ==
    IF s.done \/ ~Has("replay_done")
    THEN IF (s.result = Nothing /\ Has("replay_served")) \/ ~Has("replay") THEN Handled(s, {})
         ELSE Handled(s, {Result(n, j, m.cell, s.result) : j \in IF Has("replay_one") THEN {k} ELSE All[n]})     \* EPIC-M3-08
    (* Child 1 is enough: none of them can have the result. Incomplete: another child's is missing (EPIC-M3-10).  *)
    ELSE IF /\ Has("resend_full") => Full(n, s)
            /\ Has("resend_one") => k = 1
            /\ Has("resend")
         THEN Handled(s, Partial(n, m.cell, s))                                                                  \* EPIC-M3-09
    ELSE Handled(s, {})

OnContribution(n, k, m) ==
    LET s == Slot(n, m)
        age == IF Has("tag") THEN Diff(Psn(m), s.tag) ELSE IF s.done THEN N ELSE 0
    IN IF age < 0 /\ Has("stale") THEN Handled(s, {})                                                            \* EPIC-M3-02
       ELSE IF age > 0
       THEN IF Guard /\ ~((Has("guard_done") => s.done) /\ (Has("guard_next") => age = N))                       \* EPIC-M3-04
            THEN Handled(s, {})
            ELSE CountIn(n, k, m, Taken(s, Psn(m)))
       ELSE IF k \in s.bitmap /\ Has("dedup") THEN Duplicate(n, k, m, s)                                         \* EPIC-E-14
       ELSE CountIn(n, k, m, s)

OnResult(n, m) ==
    LET s == Slot(n, m) IN
    IF /\ (Has("result_tag") /\ Has("tag")) => Psn(m) = s.tag
       /\ Has("result_full") => Full(n, s)
       /\ Has("result_once") => ~s.done
    THEN Finish(n, m, s, m.x)                                                                                    \* EPIC-M3-11
    ELSE Handled(s, {})                                                                                          \* EPIC-M3-12

(* What a stock NIC must not be told: that its contribution is safe because the engine has it. *)
OwnAck(m) == IF Reflection /\ ~Has("reflect") /\ m.edge \in Ranks
             THEN {[Acknowledgement(m.edge, m.cell, FALSE) EXCEPT !.kind = "reflected"]} ELSE {}

ToEngine(m) == m.kind = "up" \/ (m.kind = "down" /\ m.edge \in Engines)
Receiver(m) == IF m.kind = "up" THEN Parent[m.edge] ELSE m.edge
Handle(m) == IF m.kind = "up"
             THEN LET h == OnContribution(Receiver(m), Index[m.edge], m) IN [h EXCEPT !.sends = @ \cup OwnAck(m)]
             ELSE OnResult(m.edge, m)

EngineReceives(m) ==
    /\ LET h == Handle(m) IN
          /\ h.slot # Slot(Receiver(m), m) \/ ~(h.sends \subseteq net) \/ Network # "keep"    \* or nothing happens
          /\ slots' = [slots EXCEPT ![Receiver(m)][m.cell % N] = h.slot]
          /\ net' \in After(m, h.sends)
    /\ UNCHANGED ranks

(* A rank's ACK or NAK of result s becomes that of its contribution s (EPIC-M3-15). *)
Reflect(m) == /\ net' \in After(m, {[m EXCEPT !.kind = "reflected"]})
              /\ UNCHANGED <<ranks, slots>>

-------------------------------------------------------------------------------
(* Rank r, sections 4.8 and 9.3; with Reflection sections 7.2, 7.3 and 9.4. *)
Outstanding(r) == (Len(results[r]) .. Len(c[r]) - 1) \ DOMAIN early[r]
Silent(r) == StopAtError /\ Abstract!Failed(r)
WindowOpen(r) == IF Has("clock") THEN Len(c[r]) < Len(results[r]) + W              \* EPIC-A-01
                 ELSE Cardinality(Outstanding(r)) < W    \* as if any result moved the window, not the next in order

Contribute(r) ==
    /\ Len(c[r]) < Cells /\ WindowOpen(r) /\ ~Silent(r)
    /\ \E call \in Calls[r][Len(c[r]) + 1] :
          LET cell == Len(c[r])  x == Contribution(r, cell, call) IN
          /\ c' = [c EXCEPT ![r] = Append(@, x)]
          /\ net' = Live(net \cup {Up(r, cell, x)}, Max({Newest, cell}))
    /\ UNCHANGED <<results, early, acknowledged, slots>>

(* The timer (EPIC-M3-20), or results that overtook another (EPIC-M3-21). A requester goes back to the oldest that is  *)
(* not acknowledged and repeats all from there.                                                                       *)
Repeats(r) == {Up(r, cell, c[r][cell + 1]) : cell \in IF Reflection THEN acknowledged[r] .. Len(c[r]) - 1 ELSE Outstanding(r)}
Repeat(r) == /\ Network # "keep" /\ Has("repeat") /\ ~Silent(r)
             /\ net' = net \cup Repeats(r)
             /\ UNCHANGED <<ranks, slots>>

(* Results that are here, from the next to be delivered on (EPIC-M3-22). *)
Deliverable(r, here) == CHOOSE n \in Len(results[r]) .. Cells :
                            n \notin DOMAIN here /\ \A s \in Len(results[r]) .. n - 1 : s \in DOMAIN here
Store(r, s, x) ==
    LET here == [t \in DOMAIN early[r] \cup {s} |->
                    IF t = s THEN Received(r, s, c[r][s + 1], Calls[r][s + 1], x) ELSE early[r][t]]
        n == Deliverable(r, here)
    IN IF Has("in_order")
       THEN /\ results' = [results EXCEPT ![r] = @ \o [i \in 1 .. n - Len(@) |-> here[Len(@) + i - 1]]]
            /\ early' = [early EXCEPT ![r] = [t \in {t \in DOMAIN here : t < Len(results[r]) \/ t >= n} |-> here[t]]]
       ELSE results' = [results EXCEPT ![r] = Append(@, here[s])] /\ UNCHANGED early

(* EPIC-M3-23: only what was contributed and has no result yet. *)
RankReceives(m) ==
    LET r == m.edge  s == Nearest(Psn(m), Len(results[r])) IN
    /\ s \in IF Has("outstanding") THEN Outstanding(r) ELSE 0 .. Len(c[r]) - 1
    /\ Store(r, s, m.x)
    /\ net' \in After(m, {})
    /\ UNCHANGED <<c, acknowledged, slots>>

(* A responder accepts the expected result only, acknowledges older ones again, and NAKs a gap. *)
NicReceives(m) ==
    LET r == m.edge  expected == Len(results[r])  s == Nearest(Psn(m), expected) IN
    /\ IF (s = expected \/ (~Has("nic_order") /\ s > expected)) /\ s < Len(c[r])
       THEN /\ Store(r, s, m.x)
            /\ net' \in After(m, {Acknowledgement(r, s, FALSE)})
       ELSE /\ UNCHANGED <<results, early>>
            /\ net' \in After(m, {IF s < expected THEN Acknowledgement(r, expected - 1, FALSE)
                                                  ELSE Acknowledgement(r, expected, TRUE)})
    /\ UNCHANGED <<c, acknowledged, slots>>

(* A requester takes an ACK as one of all contributions up to it. *)
NicAcknowledged(m) ==
    LET r == m.edge
        number == Nearest(Psn(m), acknowledged[r])
        upto == IF m.x.nak THEN number ELSE number + 1
    IN /\ acknowledged' = [acknowledged EXCEPT ![r] = Max({@, upto})]
       /\ net' \in After(m, {})
       /\ UNCHANGED <<c, results, early, slots>>

-------------------------------------------------------------------------------
Lose(m) == net' = net \ {m} /\ UNCHANGED <<ranks, slots>>

(* A rank that sends what it may not yet, or what it never had (a cell before the first). *)
Overrun(r) == /\ \E cell \in -N .. Cells - 1 : \E call \in Calls[r][IF cell < 0 THEN 1 ELSE cell + 1] :
                    net' = net \cup {Up(r, cell, Contribution(r, cell, call))}
              /\ UNCHANGED <<ranks, slots>>
(* An engine that sends results of cells that it need not have. *)
Unasked(n) == /\ \E k \in All[n], cell \in 0 .. Cells - 1 :
                    net' = net \cup {Result(n, k, cell, Contribution(Children[n][k], cell, CHOOSE call \in
                                            Calls[CHOOSE r \in Ranks : TRUE][cell + 1] : TRUE))}
              /\ UNCHANGED <<ranks, slots>>

Init == /\ c = [r \in Ranks |-> <<>>]
        /\ results = [r \in Ranks |-> <<>>]
        /\ early = [r \in Ranks |-> <<>>]
        /\ acknowledged = [r \in Ranks |-> 0]
        (* As if the cell N before its first had been done, so that the first is the next (EPIC-M3-01). *)
        /\ slots = [n \in Engines |-> [i \in 0 .. N - 1 |->
                       [tag |-> (Start + i - N) % M, bitmap |-> All[n], done |-> TRUE, value |-> Fresh, result |-> Nothing]]]
        /\ net = {}

Receive(m) == CASE ToEngine(m) -> EngineReceives(m)
                [] m.kind = "down" /\ m.edge \in Ranks -> IF Reflection THEN NicReceives(m) ELSE RankReceives(m)
                [] m.kind = "ack" -> Reflect(m)
                [] m.kind = "reflected" -> NicAcknowledged(m)
Next == \/ \E r \in Ranks : Contribute(r) \/ Repeat(r)
        \/ \E m \in net : Receive(m)
        \/ Network # "keep" /\ \E m \in net : Lose(m)
        \/ \E r \in Rogues \cap Ranks : Overrun(r)
        \/ \E n \in Rogues \cap Engines : Unasked(n)
Spec == Init /\ [][Next]_vars

(* Ranks go on, and each direction of each edge delivers infinitely often if it is tried infinitely often. With W = 1   *)
(* an edge that is tried for ever is tried with one cell, so no fairness for each cell is needed.                       *)
Arrives(kind, e) == \E m \in net : m.kind = kind /\ m.edge = e /\ Receive(m)
Kinds == IF Reflection THEN {"up", "down", "ack", "reflected"} ELSE {"up", "down"}
FairSpec == /\ Spec
            /\ \A r \in Ranks : WF_vars(Contribute(r) \/ Repeat(r))
            /\ \A kind \in Kinds, e \in Edges : SF_vars(Arrives(kind, e))

Refines == Abstract!Spec
Progress == Abstract!P4

-------------------------------------------------------------------------------
SlotOK(n, i) == LET s == slots[n][i] IN
    /\ s.tag \in 0 .. M - 1 /\ s.tag % N = i /\ s.bitmap \subseteq All[n] /\ s.bitmap # {}
    /\ s.done => (Full(n, s) /\ s.value = Fresh)
    /\ ~s.done => (s.value.held # NoDesc /\ s.result = Nothing)
(* Types; memory is what it was at installation (P5): N slots an engine, fewer than W early results a rank. *)
TypeOK == /\ \A n \in Engines : DOMAIN slots[n] = 0 .. N - 1 /\ \A i \in 0 .. N - 1 : SlotOK(n, i)
          /\ \A r \in Ranks : /\ DOMAIN early[r] \subseteq Len(results[r]) + 1 .. Len(results[r]) + W - 1
                              /\ acknowledged[r] \in 0 .. Len(c[r])
          /\ \A m \in net : m.kind \in {"up", "down"} => m.x.desc # NoDesc

Initialises(m) == m.kind = "up" /\ Diff(Psn(m), Slot(Receiver(m), m).tag) > 0
(* Section 9.5, Lemma 1: the guard is never in a correct child's way. *)
Lemma1 == \A m \in net : Initialises(m) => LET s == Slot(Receiver(m), m) IN s.done /\ Diff(Psn(m), s.tag) = N
(* Lemma 2: when a slot is initialised for p every rank has delivered p - N. *)
Lemma2 == \A m \in net : Initialises(m) => \A r \in Ranks : Len(results[r]) > m.cell - N
(* P4, step 1: no contribution to a cell that some rank has not delivered is refused. *)
Accepted == \A m \in net : (m.kind = "up" /\ \E r \in Ranks : Len(results[r]) <= m.cell) => Handle(m).slot.tag = Psn(m)
(* Partials of a cell are all equal on an edge, and so are results. *)
SamePackets == LET data == {m \in net : m.kind \in {"up", "down"}} IN
                   Cardinality(data) = Cardinality({<<m.kind, m.edge, m.cell>> : m \in data})
(* Nothing is counted twice (Lemma 3), in any slot or packet. *)
NoneTwice == \A n \in Engines, i \in 0 .. N - 1 : \A y \in slots[n][i].value.sum \cup slots[n][i].result.sum : Len(y) = 2
(* One packet received makes several only when a cell becomes done; one child's repetition makes the partial repeated. *)
Quiet == /\ \A m \in net : ToEngine(m) =>
               LET s == Slot(Receiver(m), m)  h == Handle(m) IN Cardinality(h.sends) <= 1 \/ (h.slot.done /\ ~s.done)
                                                                \/ (h.slot.done /\ h.slot.tag # s.tag)
         /\ \A n \in Engines, i \in 0 .. N - 1 : LET s == slots[n][i] IN Full(n, s) /\ ~s.done =>
               Cardinality({k \in All[n] : OnContribution(n, k, Up(n, s.tag, Nothing)).sends # {}}) <= 1
(* In "keep" every repetition is still in the network. *)
RepeatsAreCopies == Network = "keep" => \A r \in Ranks : Repeats(r) \subseteq net
(* Section 9.4: a requester forgets no contribution whose result is not here. *)
NotForgotten == \A r \in Ranks : acknowledged[r] <= Len(results[r])

(* A NIC takes no result for an ACK, so only its send queue bounds what it has to repeat (assumption 2 of section 2.6). *)
Queue == \A r \in Ranks : Len(c[r]) - acknowledged[r] <= N

FallsSilent == [][\A r \in Ranks : Silent(r) => c'[r] = c[r] /\ {m \in net' : m.kind = "up" /\ m.edge = r} \subseteq net]_vars

(* What engines promise when a child overruns its window (EPIC-M3-04) or the parent sends results unasked (EPIC-M3-11). *)
InProgressKept == \A m \in net : m.kind = "up" =>
                      LET s == Slot(Receiver(m), m) IN Handle(m).slot.tag # s.tag => s.done
NextOnly == \A m \in net : m.kind = "up" =>
                LET s == Slot(Receiver(m), m)  t == Handle(m).slot.tag IN t = s.tag \/ t = (s.tag + N) % M
(* What the guard cannot promise: a done slot is free for the next cell although a rank may lack its result. *)
ResultKept == \A m \in net : m.kind = "up" => (Handle(m).slot.tag # Slot(Receiver(m), m).tag =>
                  \A r \in Ranks \ Rogues : Len(results[r]) > m.cell - N)
Good == Ranks \ Rogues
GoodP1 == \A r \in Good : \A i \in 1 .. Len(results[r]) :
              ~results[r][i].err => results[r][i].sum = {<<q, i - 1>> : q \in Gives(c[r][i].desc)}
LocalP3 == \A n \in Engines \ Rogues : \A r \in Below[n], q \in Below[n] \ Rogues : Len(results[r]) <= Len(c[q])
=================================================================================
