---------------------------------- MODULE Trace2 ----------------------------------
(* Trace validation of Mode II: are recordings of the reference agents and engines behaviours of Mode2? Each line of a   *)
(* recording allows one step only: the action that the line names, with the packet that it names taken from the         *)
(* network, so one that nobody has sent is refused. After the step the slots that changed, the packets sent and what    *)
(* was delivered must be those that were recorded. `epic check tla --trace` writes TraceData.tla and counts a recording  *)
(* as accepted when its last line is reached.                                                                           *)
(*                                                                                                                      *)
(* TraceData has the constants of the group (Data...) and Traces, a sequence of recordings: sequences of lines           *)
(*     [act |-> "contribute", node, cell, x, sends, next, delivered]                                                    *)
(*     [act |-> "timeout", node, dir, edge, sends]                 the retransmission timer of an edge                  *)
(*     [act |-> "giveup", node, edge, sends]                       an engine's edge to a child goes into error          *)
(*     [act |-> "receive", node, dir, edge, m, sends, slots]       an engine; dir is what m is about                    *)
(*     [act |-> "receive", node, dir, edge, m, sends, next, delivered, errs]       a rank                               *)
(* with packets [dir, edge, kind, p, x], contents x [desc, err, len], and slots [cell, bitmap, done].                   *)
(* DataRogues are the ranks that a test let overrun their window by a cell, to see what the engines make of it          *)
(* (DataFaults has "rogue" then): no correct child ever meets an engine's guard, so only a rogue can show that it is     *)
(* there.                                                                                                               *)
EXTENDS Mode2, TraceData, TLC
VARIABLES trace, line,   \* which recording, and which of its lines comes next
          told           \* all acknowledgements that were sent: late ones do nothing, and the specification may forget them

ASSUME Traces # <<>> /\ \A k \in DOMAIN Traces : Traces[k] # <<>>

(* A payload is recorded by its length: what is in it only the specification knows. *)
Content(x) == [desc |-> x.desc, err |-> x.err, len |-> x.len]
ShownData(dir, e, m) == [dir |-> dir, edge |-> e, kind |-> "data", p |-> m.p, x |-> Content(m.x)]
ShownAck(dir, e, m) == [dir |-> dir, edge |-> e, kind |-> m.kind, p |-> m.p]
IsAck(y) == y.kind # "data"
Shown(dd) == UNION {{ShownData(dir, e, m) : m \in dd[dir][e]} : dir \in Dirs, e \in Edges}
New(now, old) == [dir \in Dirs |-> [e \in Edges |-> now[dir][e] \ old[dir][e]]]

(* Data that is new in the network was sent, and what was sent the specification has sent, now or before. *)
Sends(l) == /\ Shown(New(data', data)) \subseteq l.sends
            /\ \A y \in l.sends : IsAck(y) \/ \E m \in data'[y.dir][y.edge] : ShownData(y.dir, y.edge, m) = y
            /\ told' = told \cup {y \in l.sends : IsAck(y)}
Answers(l) == {y \in l.sends : IsAck(y)}
(* A go-back-N repeats all that is pending, from the oldest on. *)
From(dir, e, first) == {ShownData(dir, e, Packet(k, Kept(dir, e, k))) : k \in first .. NextNumber(dir, e) - 1}

(* agg slots with a contribution more, and cells whose result went down: what a status shows of them. *)
Counted(x) == {[cell |-> agg'[x][i].cell, bitmap |-> agg'[x][i].bitmap, done |-> FALSE] :
                   i \in {i \in 0 .. W - 1 : agg'[x][i].cell >= 0 /\ <<agg'[x][i].cell, agg'[x][i].bitmap>>
                                                                      # <<agg[x][i].cell, agg[x][i].bitmap>>}}
Passes(x) == {[cell |-> k, bitmap |-> Children[x], done |-> TRUE] : k \in passed[x] .. passed'[x] - 1}
Slots(l) == l.slots = Counted(l.node) \cup Passes(l.node)
Rank(l) == /\ Len(c'[l.node]) = l.next
           /\ Len(results'[l.node]) = l.delivered

Contributes(l) ==
    /\ Len(c[l.node]) = l.cell
    /\ Clock(l.node) \/ l.node \in DataRogues
    /\ Contribute(l.node)
    /\ Content(c'[l.node][l.cell + 1]) = l.x
    /\ Rank(l)

TimesOut(l) ==
    /\ l.node = IF l.dir = "up" THEN l.edge ELSE Parent[l.edge]
    /\ Timeout(l.dir, l.edge)
    /\ l.sends = From(l.dir, l.edge, acknowledged[l.dir][l.edge])

GivesUp(l) == l.node = Parent[l.edge] /\ GiveUp(l.edge)

(* Packets about a direction end at its lower or upper end, data and acknowledgements at opposite ones. *)
End(l) == IF (l.dir = "up") = (l.m.kind = "data") THEN Parent[l.edge] ELSE l.edge

(* A responder's answer: an older packet is acknowledged again, the first newer one gets a NAK (the network keeps what   *)
(* was sent before, so that it is sent now is asked for here).                                                          *)
ExpectedThen(dir, e) == IF dir = "up" THEN expected'[e] ELSE IF e \in Ranks THEN Len(results'[e]) ELSE passed'[e]
Answer(dir, e, m) ==
    LET known == Expected(dir, e)  j == Number(dir, e, m, known) IN
    IF j < known THEN {ShownAck(dir, e, Ack(known - 1))}
    ELSE IF j = known THEN IF ExpectedThen(dir, e) = known THEN {} ELSE {ShownAck(dir, e, Ack(known))}
    ELSE IF nakSent[dir][e] = 0 THEN {ShownAck(dir, e, Nak(known))} ELSE {}

(* Over an edge in error everything is dropped: no step of the specification. *)
DataComes(l) ==
    \E m \in data[l.dir][l.edge] :
       /\ ShownData(l.dir, l.edge, m) = l.m
       /\ IF l.dir = "up" /\ Dead(l.dir, l.edge) THEN UNCHANGED vars /\ l.sends = {}
          ELSE /\ IF l.dir = "up" THEN ReceiveContribution(l.edge, m)
                  ELSE IF l.edge \in Ranks THEN Deliver(l.edge, m) ELSE ReceiveResult(l.edge, m)
               /\ Answers(l) = Answer(l.dir, l.edge, m)

(* One of a packet that was not sent, or over an edge in error, is dropped; one that is older than what is pending       *)
(* acknowledges nothing (a late NAK may make the requester go back once more): no steps of the specification.           *)
AckComes(l) ==
    LET dir == l.dir  e == l.edge  oldest == acknowledged[dir][e]  number == Number(dir, e, l.m, oldest) IN
    /\ l.m \in told /\ Answers(l) = {}
    /\ IF number >= NextNumber(dir, e) \/ Dead(dir, e) THEN UNCHANGED vars /\ l.sends = {}
       ELSE IF number < oldest THEN UNCHANGED vars /\ (l.sends = {} \/ (l.m.kind = "nak" /\ l.sends = From(dir, e, oldest)))
       ELSE \E m \in acks[dir][e] : /\ ShownAck(dir, e, m) = l.m
                                    /\ ReceiveAck(dir, e, m)
                                    /\ l.sends = IF served'[dir][e] = served[dir][e] THEN {}
                                                 ELSE From(dir, e, acknowledged'[dir][e])

Comes(l) ==
    /\ l.node = End(l)
    /\ IF l.m.kind = "data" THEN DataComes(l) ELSE AckComes(l)
    /\ IF l.node \in Engines THEN Slots(l)
       ELSE /\ Rank(l)
            /\ l.errs = [i \in 1 .. Len(results'[l.node]) - Len(results[l.node]) |->
                            results'[l.node][Len(results[l.node]) + i].err]

TraceInit == Init /\ trace \in DOMAIN Traces /\ line = 1 /\ told = {}
TraceNext ==
    /\ line <= Len(Traces[trace])
    /\ line' = line + 1 /\ UNCHANGED trace
    /\ LET l == Traces[trace][line] IN
          /\ CASE l.act = "contribute" -> Contributes(l) /\ Answers(l) = {}
               [] l.act = "timeout" -> TimesOut(l)
               [] l.act = "giveup" -> GivesUp(l) /\ l.sends = {}
               [] l.act = "receive" -> Comes(l)
          /\ Sends(l)
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, trace, line, told>>

(* What a correct rank's clock is needed for: without it the guard is met, a contribution may not prove that a result    *)
(* has come, and only memory and the cells of the others are safe (see MC2_rogue).                                      *)
ClockBounded == DataRogues = {} => Bounded
ClockAckedIsStored == DataRogues = {} => AckedIsStored
ClockAggFree == DataRogues = {} => AggFree

(* Says which line of which recording comes next, for the tool that counts. Always true. *)
Reached == PrintT(<<"reached", trace, line>>)
===================================================================================
