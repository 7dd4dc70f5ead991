---------------------------------- MODULE Trace3 ----------------------------------
(* Trace validation of Mode III: are recordings of the reference agents and engines behaviours of Mode3? Each line of a  *)
(* recording allows one step only: the action that the line names, with the packet that it names taken from the         *)
(* network, so one that nobody has sent is refused. After the step the slots that changed, the packets sent and what    *)
(* was delivered must be those that were recorded. `epic check tla --trace` writes TraceData.tla and counts a recording  *)
(* as accepted when its last line is reached.                                                                           *)
(*                                                                                                                      *)
(* TraceData has the constants of the group (Data...) and Traces, a sequence of recordings: sequences of lines           *)
(*     [act |-> "contribute", node, cell, x, sends, next, delivered]                                                    *)
(*     [act |-> "repeat", node, sends]                       the rank's timer                                           *)
(*     [act |-> "receive", node, m, sends, slots]            an engine                                                  *)
(*     [act |-> "receive", node, m, sends, next, delivered, errs]      a rank                                           *)
(* with packets [kind, edge, cell, x], contents x [desc, err, len] or [nak], and slots [tag, bitmap, done].             *)
(* DataRogues are the ranks that a test let overrun their window, to see what the engines make of it: no correct child   *)
(* ever meets the guard, so only a rogue can show that it is there.                                                     *)
EXTENDS Mode3, TraceData, TLC
VARIABLES trace, line    \* which recording, and which of its lines comes next

ASSUME Traces # <<>> /\ \A k \in DOMAIN Traces : Traces[k] # <<>>

(* A payload is recorded by its length: what is in it only the specification knows. *)
Content(m) == IF m.kind \in {"up", "down"} THEN [desc |-> m.x.desc, err |-> m.x.err, len |-> m.x.len] ELSE m.x
Shown(m) == [kind |-> m.kind, edge |-> m.edge, cell |-> m.cell, x |-> Content(m)]
ShownAll(S) == {Shown(m) : m \in S}
ShownSlot(s) == [tag |-> s.tag, bitmap |-> s.bitmap, done |-> s.done]
Changed(n) == {ShownSlot(slots'[n][i]) : i \in {i \in 0 .. N - 1 : ShownSlot(slots'[n][i]) # ShownSlot(slots[n][i])}}

Rank(l) == l.node \in Ranks => /\ Len(c'[l.node]) = l.next
                               /\ Len(results'[l.node]) = l.delivered

(* Contribute without its guards. *)
Overreach(r) ==
    \E call \in Calls[r][Len(c[r]) + 1] :
       LET cell == Len(c[r])  x == Contribution(r, cell, call) IN
       /\ c' = [c EXCEPT ![r] = Append(@, x)]
       /\ net' = Live(net \cup {Up(r, cell, x)}, Max({Newest, cell}))
       /\ UNCHANGED <<results, early, acknowledged, slots>>

Contributes(l) ==
    /\ Len(c[l.node]) = l.cell
    /\ IF l.node \in DataRogues THEN Overreach(l.node) ELSE Contribute(l.node)
    /\ Content([kind |-> "up", x |-> c'[l.node][l.cell + 1]]) = l.x
    /\ ShownAll(net' \ net) = l.sends

(* In "keep" all that is outstanding is in the network already. *)
RepeatsOutstanding(l) ==
    /\ l.sends # {} /\ l.sends \subseteq ShownAll(Repeats(l.node))
    /\ UNCHANGED vars

(* The specification has no step where a packet changes nothing and what it causes is in the network already; the code  *)
(* does the same again.                                                                                                 *)
Again(slotOrNone, sends) == slotOrNone /\ sends \subseteq net /\ UNCHANGED vars
EngineStep(l, m) ==
    /\ IF m.kind = "ack"
       THEN LET sends == {[m EXCEPT !.kind = "reflected"]} IN
            Parent[m.edge] = l.node /\ l.sends = ShownAll(sends) /\ (Receive(m) \/ Again(Reflection, sends))
       ELSE LET h == Handle(m) IN
            /\ Receiver(m) = l.node /\ l.sends = ShownAll(h.sends)
            /\ Receive(m) \/ Again(h.slot = Slot(l.node, m), h.sends)
    /\ Changed(l.node) = l.slots

(* What a rank drops is no step of the specification: a result that is here already, an acknowledgement of what was not *)
(* contributed.                                                                                                         *)
Dropped(r, m) ==
    IF m.kind = "down"
    THEN LET s == Nearest(Psn(m), Len(results[r])) IN
         IF Reflection THEN s = Len(results[r]) /\ s >= Len(c[r]) ELSE s \notin Outstanding(r)
    ELSE Nearest(Psn(m), acknowledged[r]) >= Len(c[r])
RankStep(l, m) ==
    LET r == l.node IN
    /\ m.edge = r
    /\ IF Dropped(r, m) THEN UNCHANGED vars /\ l.sends = {}
       ELSE /\ Receive(m)
            /\ l.sends \subseteq ShownAll(net')
    /\ l.errs = [i \in 1 .. Len(results'[r]) - Len(results[r]) |-> results'[r][Len(results[r]) + i].err]
Received3(l) == \E m \in net : /\ Shown(m) = l.m
                               /\ IF l.node \in Engines THEN EngineStep(l, m) ELSE RankStep(l, m)

TraceInit == Init /\ trace \in DOMAIN Traces /\ line = 1
TraceNext ==
    /\ line <= Len(Traces[trace])
    /\ line' = line + 1 /\ UNCHANGED trace
    /\ LET l == Traces[trace][line] IN
          /\ CASE l.act = "contribute" -> Contributes(l)
               [] l.act = "repeat" -> RepeatsOutstanding(l)
               [] l.act = "receive" -> Received3(l)
          /\ Rank(l)
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, trace, line>>

(* What a correct rank's clock is needed for. With a rogue only cells in progress are safe (see MC3_rogue_rank).        *)
ClockTypeOK == DataRogues = {} => TypeOK
ClockLemma1 == DataRogues = {} => Lemma1
ClockLemma2 == DataRogues = {} => Lemma2

(* Says which line of which recording comes next, for the tool that counts. Always true. *)
Reached == PrintT(<<"reached", trace, line>>)
===================================================================================
