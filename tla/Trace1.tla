---------------------------------- MODULE Trace1 ----------------------------------
(* Trace validation of Mode I: are recordings of the reference agents and engines behaviours of Mode1? Each line of a    *)
(* recording allows one step only: the action that the line names, with the packet that it names taken from the         *)
(* network, so one that nobody has sent is refused. After the step the buffers that changed, the packets sent and what  *)
(* was delivered must be those that were recorded. `epic check tla --trace` writes TraceData.tla and counts a recording  *)
(* as accepted when its last line is reached.                                                                           *)
(*                                                                                                                      *)
(* TraceData has the constants of the group (Data...) and Traces, a sequence of recordings: sequences of lines           *)
(*     [act |-> "contribute", node, cell, x, sends, last, next, delivered]                                              *)
(*     [act |-> "timeout", node, dir, edge, sends, last]           the timer of an edge, or the end of its pause        *)
(*     [act |-> "giveup", node, edge, sends, last]                 an engine's edge to a child goes into error          *)
(*     [act |-> "receive", node, dir, edge, m, sends, last, slots]        an engine; dir is what m is about             *)
(*     [act |-> "receive", node, dir, edge, m, sends, last, next, delivered, errs]      a rank                          *)
(*     [act |-> "publish", node, sends, last, slots]               the root, in the same call as the line before        *)
(* with packets [dir, edge, kind, p, x], contents x [desc, err, len], and slots [cell, bitmap, done]. `sends` is all      *)
(* that the whole call sent; `last` marks its last line. A length is in packets: no message has more than two.           *)
EXTENDS Mode1, TraceData, TLC
VARIABLES trace, line,   \* which recording, and which of its lines comes next
          told           \* all acknowledgements that were sent: the specification forgets late ones, which do nothing

ASSUME Traces # <<>> /\ \A k \in DOMAIN Traces : Traces[k] # <<>>

(* A payload is recorded by its length: what is in it only the specification knows. *)
Content(x) == [desc |-> x.desc, err |-> x.err, len |-> x.len]
ShownData(dir, e, m) == [dir |-> dir, edge |-> e, kind |-> m.kind, p |-> m.p, x |-> Content(m.x)]
ShownAck(dir, e, m) == [dir |-> dir, edge |-> e, kind |-> m.kind, p |-> m.p]
IsAck(y) == y.kind \in {"ack", "nak", "rnr"}
Shown(dd) == UNION {{ShownData(dir, e, m) : m \in dd[dir][e]} : dir \in Dirs, e \in Edges}
New(now, old) == [dir \in Dirs |-> [e \in Edges |-> now[dir][e] \ old[dir][e]]]

(* Data that is new in the network was sent, and what was sent the specification has sent, now or before. *)
Sends(l) == /\ Shown(New(data', data)) \subseteq l.sends
            /\ l.last => \A y \in l.sends : IsAck(y) \/ \E m \in data'[y.dir][y.edge] : ShownData(y.dir, y.edge, m) = y
            /\ told' = told \cup {y \in l.sends : IsAck(y)}
Answers(l) == {y \in l.sends : IsAck(y)}
(* A go-back-N repeats all that is pending. *)
Pending(dir, e) == {ShownData(dir, e, m) : m \in Packets(pending[dir][e])}
Resends(dir, e, l) == {ShownData(dir, e, m) : m \in Packets(pending'[dir][e])} \subseteq l.sends

(* Buffers with a contribution more, and cells whose result went down: what a status shows of them. *)
Counted(x) == {[cell |-> agg'[x][i].cell, bitmap |-> agg'[x][i].bitmap, done |-> FALSE] :
                   i \in {i \in 0 .. B - 1 : agg'[x][i].cell >= 0 /\ <<agg'[x][i].cell, agg'[x][i].bitmap>>
                                                                      # <<agg[x][i].cell, agg[x][i].bitmap>>}}
Passes(x) == {[cell |-> k, bitmap |-> Children[x], done |-> TRUE] : k \in passed[x] .. passed'[x] - 1}
Slots(l) == l.slots = Counted(l.node) \cup Passes(l.node)
Rank(l) == /\ Len(c'[l.node]) = l.next
           /\ Len(results'[l.node]) = l.delivered

Contributes(l) ==
    /\ Len(c[l.node]) = l.cell
    /\ Contribute(l.node)
    /\ Content(c'[l.node][l.cell + 1]) = l.x
    /\ Rank(l)

TimesOut(l) ==
    /\ l.node = IF l.dir = "up" THEN l.edge ELSE Parent[l.edge]
    /\ IF paused[l.dir][l.edge] THEN Resume(l.dir, l.edge) ELSE Timeout(l.dir, l.edge)
    /\ Resends(l.dir, l.edge, l)

GivesUp(l) == l.node = Parent[l.edge] /\ GiveUp(l.edge)

(* Packets about a direction end at its lower or upper end, data and acknowledgements at opposite ones. *)
End(l) == IF (l.dir = "up") = ~IsAck(l.m) THEN Parent[l.edge] ELSE l.edge

(* A responder's answer: an older packet is acknowledged again, the first newer one gets a NAK, the end of a message an *)
(* ACK, and a message for which there is no buffer an RNR NAK each time (the network keeps what was sent before, so that *)
(* it is sent now is asked for here).                                                                                   *)
AnswerTo(dir, e, m) ==
    LET known == expected[dir][e]  j == Number(dir, e, m.p, known) IN
    IF j < known THEN {Ack("ack", known - 1)}
    ELSE IF j > known THEN IF nakSent[dir][e] = 0 THEN {Ack("nak", known)} ELSE {}
    ELSE IF expected'[dir][e] > known THEN IF Ends(m.kind) THEN {Ack("ack", known)} ELSE {}
    ELSE IF Ack("rnr", known) \in acks'[dir][e] THEN {Ack("rnr", known)} ELSE {}

(* Over an edge in error everything is dropped: no step of the specification. *)
DataComes(l) ==
    \E m \in data[l.dir][l.edge] :
       /\ ShownData(l.dir, l.edge, m) = l.m
       /\ IF l.dir = "up" /\ l.edge \in failed THEN UNCHANGED vars /\ l.sends = {}
          ELSE /\ Receive(l.dir, l.edge, m)
               /\ Answers(l) = {ShownAck(l.dir, l.edge, a) : a \in AnswerTo(l.dir, l.edge, m)}

(* One of a packet that was not sent, or over an edge in error, is dropped; one that is older than what is pending       *)
(* acknowledges nothing (a late NAK may make the requester go back once more): no steps of the specification.           *)
AckComes(l) ==
    LET dir == l.dir  e == l.edge  number == Number(dir, e, l.m.p, Acked(dir, e)) IN
    /\ l.m \in told /\ Answers(l) = {}
    /\ IF number >= next[dir][e] \/ e \in failed THEN UNCHANGED vars /\ l.sends = {}
       ELSE IF number < Acked(dir, e) THEN UNCHANGED vars /\ (l.sends = {} \/ (l.m.kind = "nak" /\ l.sends = Pending(dir, e)))
       ELSE \E m \in acks[dir][e] : /\ ShownAck(dir, e, m) = l.m
                                    /\ ReceiveAck(dir, e, m)
                                    /\ served'[dir][e] # served[dir][e] => Resends(dir, e, l)

Comes(l) ==
    /\ l.node = End(l)
    /\ IF IsAck(l.m) THEN AckComes(l) ELSE DataComes(l)
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
               [] l.act = "timeout" -> TimesOut(l) /\ Answers(l) = {}
               [] l.act = "giveup" -> GivesUp(l) /\ Answers(l) = {}
               [] l.act = "receive" -> Comes(l)
               [] l.act = "publish" -> Publish(l.node) /\ Slots(l)
          /\ Sends(l)
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, trace, line, told>>

(* Says which line of which recording comes next, for the tool that counts. Always true. *)
Reached == PrintT(<<"reached", trace, line>>)
===================================================================================
