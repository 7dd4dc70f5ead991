-------------------------------- MODULE Mode1 ---------------------------------
(* Mode I, message termination (epic.md, section 7): a cell is a message of one or two packets, and the engine is a      *)
(* full RC endpoint on every edge: segmentation, reassembly, cumulative ACK, NAK, RNR NAK, go-back-N. It aggregates      *)
(* whole messages in B <= W buffers. Names are those of epic_models/reference/mode1.py and rc.py.                        *)
(*                                                                                                                      *)
(* The network is that of Mode2: with Network = "keep" packets never leave, save those more than M/2 behind; with        *)
(* "lossy" a packet is gone when it is received, and Lose takes any. A packet of a pause (RNR NAK) is queued, not sent.  *)
(* ACKs older than the oldest pending packet acknowledge nothing; here "keep" forgets them, Mode2 has them.              *)
(* Malformed messages (sections 7.4, NAK invalid request) are not modelled: no conforming peer sends them.               *)
EXTENDS Values
CONSTANTS Engines, Root, Parent,            \* the tree of Ranks and Engines: Parent[n] for every node but Root
          W, B, M,                          \* window; message buffers of each kind in an engine; PSNs are modulo M
          Base,                             \* Base[dir][e]: PSN of packet 0 of a direction of an edge
          Cells, Calls,                     \* as in Collective
          Network,                          \* "keep" or "lossy"
          Naks,                             \* FALSE: gaps are dropped without NAK (sequence error)
          Mortal,                           \* edges, named by their children, whose upper end may give up (EPIC-F-02)
          Faults                            \* what faulty peers do: "hasty", "false_ack"
VARIABLES c, results,                       \* of ranks, as in Collective
          pending, next,                    \* requester: packets not acknowledged, oldest first; number of the next packet
          paused,                           \* requester: an RNR NAK says wait
          expected, parts, nakSent,         \* responder: next packet number; packets of the message that is coming in
          messages,                         \* messages[e]: contributions or partials of child e that are whole
          completed, passed, agg,           \* of engines: cells complete, results that have gone down, B buffers
          data, acks,                       \* the network
          served,                           \* requester: NAK answered [k, times]
          failed                            \* edges whose upper end is in error
ranks == <<c, results>>
requesters == <<pending, next, paused, served>>
responders == <<expected, parts, nakSent>>
engines == <<messages, completed, passed, agg>>
vars == <<c, results, pending, next, paused, expected, parts, nakSent, messages, completed, passed, agg, data, acks, served, failed>>

Abstract == INSTANCE Collective WITH c <- c, results <- results

Edges == Ranks \cup (Engines \ {Root})      \* an edge is named by its child
Dirs == {"up", "down"}
Children == [x \in Engines |-> {e \in Edges : Parent[e] = x}]
RECURSIVE RanksBelow(_)
RanksBelow(n) == IF n \in Ranks THEN {n} ELSE UNION {RanksBelow(e) : e \in Children[n]}
Below == [e \in Edges |-> RanksBelow(e)]
Larger(a, b) == IF a > b THEN a ELSE b
(* Edges whose ACKs may arrive, as in Mode2; with B < W results wait for ACKs, so there it has to be all of them.        *)
AckEdges == Edges

-------------------------------------------------------------------------------
(* Numbers on the wire, as in Mode2. *)
Psn(dir, e, k) == (Base[dir][e] + k) % M
Nearest(v, u) == IF Has("serial") THEN u + ((v - u + M \div 2) % M) - M \div 2 ELSE v % M
Number(dir, e, p, known) == Nearest(Psn(dir, e, p) - Base[dir][e], known)
Ack(kind, k) == [kind |-> kind, p |-> k]                      \* kind: "ack", "nak", "rnr"
Live(S, known) == {m \in S : m.p >= known - M \div 2}

(* A message x of two units is a FIRST and a LAST of one unit each; the descriptor is in the last packet (EPIC-M1-02).   *)
Segment(p, m, kind, desc, err, len, sum) ==
    [p |-> p, m |-> m, kind |-> kind, x |-> [desc |-> desc, err |-> err, len |-> len, sum |-> sum]]
Segments(x, p, m) ==
    IF x.len <= 1 THEN <<Segment(p, m, "only", x.desc, x.err, x.len, x.sum)>>
    ELSE <<Segment(p, m, "first", NoDesc, FALSE, 1, x.sum), Segment(p + 1, m, "last", x.desc, x.err, x.len - 1, x.sum)>>
(* Parts of different messages make no payload that any result may have. *)
Reassembled(first, x) == IF first = <<>> THEN x
                         ELSE [x EXCEPT !.len = @ + first[1].x.len,
                                        !.sum = IF @ = first[1].x.sum THEN @ ELSE {<<"mixed", "parts">>}]
Wire(seg) == [p |-> seg.p, kind |-> seg.kind, x |-> seg.x]
Ends(kind) == kind \in {"last", "only"}

EmptyAgg == [cell |-> -1, val |-> Fresh, bitmap |-> {}]
PerDir(v) == [dir \in Dirs |-> [e \in Edges |-> v]]
Init ==
    /\ c = [r \in Ranks |-> <<>>] /\ results = [r \in Ranks |-> <<>>]
    /\ pending = PerDir(<<>>) /\ next = PerDir(0) /\ paused = PerDir(FALSE)
    /\ expected = PerDir(0) /\ parts = PerDir(<<>>) /\ nakSent = PerDir(0)
    /\ messages = [e \in Edges |-> 0]
    /\ completed = [x \in Engines |-> 0] /\ passed = [x \in Engines |-> 0]
    /\ agg = [x \in Engines |-> [i \in 0 .. B - 1 |-> EmptyAgg]]
    /\ data = PerDir({}) /\ acks = PerDir({})
    /\ served = PerDir([k |-> -1, times |-> 0])
    /\ failed = {}

-------------------------------------------------------------------------------
(* Requester. *)
SentMessages(dir, e) == IF dir = "down" THEN passed[Parent[e]] ELSE IF e \in Ranks THEN Len(c[e]) ELSE completed[e]
AckedMessages(dir, e) == IF pending[dir][e] = <<>> THEN SentMessages(dir, e) ELSE pending[dir][e][1].m
Acked(dir, e) == IF pending[dir][e] = <<>> THEN next[dir][e] ELSE pending[dir][e][1].p      \* oldest pending, or next
(* pend without the packets for which Gone; nothing else may be between them. *)
Without(pend, Gone(_)) == LET n == Max({0} \cup {i \in 1 .. Len(pend) : Gone(pend[i])}) IN SubSeq(pend, n + 1, Len(pend))
Packets(pend) == {Wire(pend[i]) : i \in 1 .. Len(pend)}

(* Message x goes to the requesters of the edges es in direction dir: [pending, next, data] afterwards. What the peer is *)
(* not ready for waits behind the pause.                                                                                 *)
SendMessage(dir, es, Msg(_), net, pend) ==
    LET segs == [e \in es |-> Segments(Msg(e), next[dir][e], SentMessages(dir, e))] IN
    [pending |-> [pend EXCEPT ![dir] = [e \in Edges |-> IF e \in es THEN @[e] \o segs[e] ELSE @[e]]],
     next |-> [next EXCEPT ![dir] = [e \in Edges |-> IF e \in es THEN @[e] + Len(segs[e]) ELSE @[e]]],
     data |-> [net EXCEPT ![dir] = [e \in Edges |-> IF e \in es /\ (~paused[dir][e] \/ ~Has("pause"))
                                                    THEN @[e] \cup Packets(segs[e]) ELSE @[e]]]]

(* Rank r gives the next cell (EPIC-A-01). *)
Contribute(r) ==
    /\ Len(c[r]) < Cells
    /\ Len(c[r]) < (IF Has("window") THEN Len(results[r]) ELSE AckedMessages("up", r)) + W
    /\ \E call \in Calls[r][Len(c[r]) + 1] :
          LET x == Contribution(r, Len(c[r]), call)
              Msg(e) == x
              out == SendMessage("up", {r}, Msg, data, pending)
          IN  /\ c' = [c EXCEPT ![r] = Append(@, x)]
              /\ pending' = out.pending /\ next' = out.next /\ data' = out.data
    /\ UNCHANGED <<results, paused, served, responders, engines, acks, failed>>

-------------------------------------------------------------------------------
(* Responder. *)
Taken(net, dir, e, m) == IF Network = "keep" THEN net ELSE [net EXCEPT ![dir][e] = @ \ {m}]
LiveAcks(S, pend, n) == IF Network = "keep" THEN {m \in S : m.p >= IF pend = <<>> THEN n ELSE pend[1].p} ELSE S
Answer(dir, e, m) == IF m.kind = "ack" /\ e \notin AckEdges THEN acks
                     ELSE [acks EXCEPT ![dir][e] = LiveAcks(@ \cup {m}, pending[dir][e], next[dir][e])]

InOrder(dir, e, m) ==
    \/ Psn(dir, e, m.p) = Psn(dir, e, expected[dir][e])
    \/ ~Has("gap") /\ Number(dir, e, m.p, expected[dir][e]) > expected[dir][e]
    \/ ~Has("duplicate") /\ Number(dir, e, m.p, expected[dir][e]) < expected[dir][e]

(* An older packet is acknowledged again (EPIC-M1-03), the first newer one answered with a NAK (EPIC-M1-04). *)
OutOfOrder(dir, e, m) ==
    LET known == expected[dir][e] IN
    /\ ~InOrder(dir, e, m)
    /\ data' = Taken(data, dir, e, m)
    /\ IF Number(dir, e, m.p, known) < known
       THEN /\ acks' = IF Has("duplicate_acked") THEN Answer(dir, e, Ack("ack", known - 1)) ELSE acks
            /\ UNCHANGED nakSent
       ELSE IF Naks /\ (nakSent[dir][e] = 0 \/ ~Has("nak_once"))
            THEN /\ acks' = Answer(dir, e, Ack("nak", known))
                 /\ nakSent' = [nakSent EXCEPT ![dir][e] = IF @ < 2 THEN @ + 1 ELSE 2]
            ELSE UNCHANGED <<acks, nakSent>>
    /\ UNCHANGED <<ranks, requesters, expected, parts, engines, failed>>

(* No buffer for the message that the expected packet starts: RNR NAK (EPIC-M1-13, EPIC-M1-16). *)
NotReady(dir, e, m) ==
    /\ data' = Taken(data, dir, e, m)
    /\ acks' = Answer(dir, e, Ack(IF Has("store_first") THEN "rnr" ELSE "ack", expected[dir][e]))
    /\ nakSent' = [nakSent EXCEPT ![dir][e] = 1]
    /\ UNCHANGED <<ranks, requesters, expected, parts, engines, failed>>

(* What taking the expected packet does to the responder. It also acknowledges packets of direction dir2 of the edge,    *)
(* of which pend2 are then pending.                                                                                      *)
Accepted(dir, e, m, dir2, pend2) ==
    /\ expected' = [expected EXCEPT ![dir][e] = Number(dir, e, m.p, @) + 1]
    /\ parts' = [parts EXCEPT ![dir][e] = IF Ends(m.kind) THEN <<>> ELSE <<m>>]
    /\ nakSent' = [nakSent EXCEPT ![dir][e] = 0]
    /\ acks' = IF Ends(m.kind)                                                                       \* EPIC-M1-08
               THEN [Answer(dir, e, Ack("ack", expected[dir][e])) EXCEPT ![dir2][e] = LiveAcks(@, pend2, next[dir2][e])]
               ELSE acks
Seen(dir, e, m) == [Taken(data, dir, e, m) EXCEPT ![dir][e] = Live(@, expected[dir][e] + 1)]

(* A packet in the middle of a message is only stored. *)
AcceptPart(dir, e, m) ==
    /\ ~Ends(m.kind) /\ Accepted(dir, e, m, dir, pending[dir][e])
    /\ data' = Seen(dir, e, m)
    /\ UNCHANGED <<ranks, requesters, engines, failed>>

(* The end of contribution s of child e: add the whole message to its buffer. It says that e has result s - W            *)
(* (EPIC-M1-17). An inner engine sends the partial of a complete cell (EPIC-M1-14).                                       *)
AcceptContribution(e, m) ==
    LET x == Parent[e]
        s == messages[e]
        old == agg[x][s % B]
        got == Reassembled(parts["up"][e], m.x)
        slot == IF old.cell = s THEN [cell |-> s, val |-> Add(old.val, got), bitmap |-> old.bitmap \cup {e}]
                ELSE [cell |-> s, val |-> Add(Fresh, got), bitmap |-> {e}]
        full == slot.bitmap = Children[x] \/ ~Has("complete")
        Old(seg) == seg.m < s - W + 1
        pend == IF Has("implicit_result") THEN [pending EXCEPT !["down"][e] = Without(@, Old)] ELSE pending
        Msg(y) == Output(slot.val)
        out == SendMessage("up", IF full /\ x # Root THEN {x} ELSE {}, Msg, Seen("up", e, m), pend)
    IN  /\ Ends(m.kind) /\ Accepted("up", e, m, "down", pend["down"][e])
        /\ messages' = [messages EXCEPT ![e] = s + 1]
        /\ agg' = [agg EXCEPT ![x][s % B] = IF full /\ x # Root /\ ~Has("keep_agg") THEN EmptyAgg ELSE slot]
        /\ completed' = IF full THEN [completed EXCEPT ![x] = @ + 1] ELSE completed
        /\ paused' = IF pend["down"][e] = pending["down"][e] THEN paused ELSE [paused EXCEPT !["down"][e] = FALSE]
        /\ pending' = out.pending /\ next' = out.next /\ data' = out.data
        /\ UNCHANGED <<ranks, passed, served, failed>>

(* Room for a message lasts until its last packet is here, so only its first is ever refused. *)
Room(e) == messages[e] < passed[Parent[e]] + B
ReceiveContribution(e, m) ==
    /\ e \notin failed \/ ~Has("edge_error")
    /\ \/ OutOfOrder("up", e, m)
       \/ /\ InOrder("up", e, m)
          /\ IF Room(e) \/ ~Has("room") THEN AcceptPart("up", e, m) \/ AcceptContribution(e, m)
             ELSE NotReady("up", e, m)
       \/ ~Has("store_first") /\ InOrder("up", e, m) /\ NotReady("up", e, m)     \* acknowledged, then not stored

-------------------------------------------------------------------------------
(* Results go down: to every child's requester, which keeps the message until it is acknowledged (EPIC-M1-15). *)
BcastFree(x) == \A e \in Children[x] : AckedMessages("down", e) > passed[x] - B                       \* EPIC-M1-16
Complete(x) == agg[x][passed[x] % B].cell = passed[x] /\ agg[x][passed[x] % B].bitmap = Children[x]
PublishTo(x, v, net, pend) == LET Msg(e) == ForChild(Below[e], v) IN SendMessage("down", Children[x] \ failed, Msg, net, pend)

(* The root publishes complete cells in order while bcast has room; the reference does so at once, here at any time. *)
Publish(x) ==
    LET out == PublishTo(x, Output(agg[x][passed[x] % B].val), data, pending) IN
    /\ x = Root /\ Complete(x) /\ (BcastFree(x) \/ ~Has("bcast_free"))
    /\ passed' = [passed EXCEPT ![x] = @ + 1]
    /\ agg' = [agg EXCEPT ![x][passed[x] % B] = EmptyAgg]
    /\ pending' = out.pending /\ next' = out.next /\ data' = out.data
    /\ UNCHANGED <<ranks, paused, served, responders, messages, completed, acks, failed>>

(* The end of the expected result at an inner engine: it acknowledges partials (EPIC-M1-17) and goes on down. *)
AcceptResult(x, m) ==
    LET Old(seg) == seg.m < passed[x] + 1
        pend == IF Has("implicit_partial") THEN [pending EXCEPT !["up"][x] = Without(@, Old)] ELSE pending
        out == PublishTo(x, Reassembled(parts["down"][x], m.x), Seen("down", x, m), pend)
    IN  /\ Ends(m.kind) /\ Accepted("down", x, m, "up", pend["up"][x])
        /\ passed' = [passed EXCEPT ![x] = @ + 1]
        /\ agg' = [agg EXCEPT ![x] = [i \in 0 .. B - 1 |-> IF @[i].cell <= passed[x] THEN EmptyAgg ELSE @[i]]]
        /\ paused' = IF pend["up"][x] = pending["up"][x] THEN paused ELSE [paused EXCEPT !["up"][x] = FALSE]
        /\ pending' = out.pending /\ next' = out.next /\ data' = out.data
        /\ UNCHANGED <<ranks, messages, completed, served, failed>>
(* A result of a cell that is not complete here is dropped (EPIC-M1-18). *)
DropUnexpected(x, m) == /\ data' = Taken(data, "down", x, m)
                        /\ UNCHANGED <<ranks, requesters, responders, engines, acks, failed>>
ReceiveResult(x, m) ==
    \/ OutOfOrder("down", x, m)
    \/ /\ InOrder("down", x, m)
       /\ IF ~(Complete(x) \/ ~Has("unexpected")) THEN DropUnexpected(x, m)
          ELSE IF BcastFree(x) \/ ~Has("bcast_free") THEN AcceptPart("down", x, m) \/ AcceptResult(x, m)
          ELSE NotReady("down", x, m)

(* The end of the expected result at a rank: it acknowledges contributions, and is delivered. *)
Deliver(r, m) ==
    LET s == Len(results[r])
        Old(seg) == seg.m < s + 1
        pend == IF Has("implicit_contribution") THEN Without(pending["up"][r], Old) ELSE pending["up"][r]
    IN  \/ OutOfOrder("down", r, m)
        \/ InOrder("down", r, m) /\ Len(c[r]) > s /\ AcceptPart("down", r, m)
        \/ /\ InOrder("down", r, m) /\ Len(c[r]) > s /\ Ends(m.kind) /\ Accepted("down", r, m, "up", pend)
           /\ results' = [results EXCEPT ![r] = Append(@, Received(r, s, c[r][s + 1], Calls[r][s + 1],
                                                                   Reassembled(parts["down"][r], m.x)))]
           /\ pending' = [pending EXCEPT !["up"][r] = pend]
           /\ paused' = IF pend = pending["up"][r] THEN paused ELSE [paused EXCEPT !["up"][r] = FALSE]
           /\ data' = Seen("down", r, m)
           /\ UNCHANGED <<c, next, served, engines, failed>>

-------------------------------------------------------------------------------
(* ACK of k: all before k + 1 have arrived; when that ends a pause, what waited is sent. NAK of k: all before k, and the *)
(* rest is repeated, once for a k between timeouts (EPIC-M1-09). RNR NAK of k: all before k; when k is then the oldest,   *)
(* pause (EPIC-M1-10). One of a packet that was not sent is dropped (EPIC-M1-12).                                        *)
ReceiveAck(dir, e, m) ==
    LET k == Number(dir, e, m.p, Acked(dir, e))
        Old(seg) == seg.p < (IF m.kind = "ack" \/ (m.kind = "nak" /\ ~Has("nak_before")) \/ (m.kind = "rnr" /\ ~Has("rnr_before"))
                             THEN k + 1 ELSE k)
        pend == Without(pending[dir][e], Old)
        progress == pend # pending[dir][e]
        ready == paused[dir][e] /\ progress
        answer == m.kind = "nak" /\ (k > served[dir][e].k \/ ~Has("nak_served"))
        again == (m.kind = "ack" /\ ready) \/ answer
        pause == m.kind = "rnr" /\ pend # <<>> /\ pend[1].p = k
    IN  /\ e \notin failed
        /\ k < next[dir][e] \/ ~Has("ack_unsent")
        /\ pending' = [pending EXCEPT ![dir][e] = pend]
        /\ paused' = [paused EXCEPT ![dir][e] = IF pause THEN TRUE ELSE IF progress THEN FALSE ELSE @]
        /\ served' = IF answer THEN [served EXCEPT ![dir][e] =
                                       [k |-> Larger(k, @.k), times |-> IF k > @.k THEN 1 ELSE IF @.times < 2 THEN @.times + 1 ELSE 2]]
                     ELSE served
        /\ data' = IF again THEN [data EXCEPT ![dir][e] = @ \cup Packets(pend)] ELSE data
        /\ acks' = [Taken(acks, dir, e, m) EXCEPT ![dir][e] = LiveAcks(@, pend, next[dir][e])]
        /\ UNCHANGED <<ranks, next, responders, engines, failed>>

(* The timer: repeat all. It does not run in a pause; the end of the pause does the same. In "keep" a repeat matters only  *)
(* for what waited behind a pause that an implicit acknowledgement ended, and for NAKs.                                 *)
Timeout(dir, e) ==
    /\ pending[dir][e] # <<>> /\ ~paused[dir][e] /\ e \notin failed
    /\ Network = "lossy" \/ Naks \/ ~(Packets(pending[dir][e]) \subseteq data[dir][e])
    /\ data' = [data EXCEPT ![dir][e] = @ \cup Packets(pending[dir][e])]
    /\ served' = [served EXCEPT ![dir][e] = [k |-> -1, times |-> 0]]
    /\ UNCHANGED <<ranks, pending, next, paused, responders, engines, acks, failed>>
Resume(dir, e) ==
    /\ paused[dir][e] /\ e \notin failed /\ Has("resume")
    /\ paused' = [paused EXCEPT ![dir][e] = FALSE]
    /\ data' = [data EXCEPT ![dir][e] = @ \cup Packets(pending[dir][e])]
    /\ UNCHANGED <<ranks, pending, next, served, responders, engines, acks, failed>>

(* The upper end of an edge gives up (EPIC-F-02). It keeps nothing, so bcast is free as far as it goes (EPIC-M1-16). *)
GiveUp(e) ==
    /\ e \in Mortal \ failed /\ pending["down"][e] # <<>>
    /\ failed' = failed \cup {e}
    /\ pending' = IF Has("release_failed") THEN [pending EXCEPT !["down"][e] = <<>>] ELSE pending
    /\ UNCHANGED <<ranks, next, paused, served, responders, engines, data, acks>>

Lose ==
    /\ Network = "lossy"
    /\ \E dir \in Dirs, e \in Edges :
          \/ \E m \in data[dir][e] : data' = [data EXCEPT ![dir][e] = @ \ {m}] /\ UNCHANGED acks
          \/ \E m \in acks[dir][e] : acks' = [acks EXCEPT ![dir][e] = @ \ {m}] /\ UNCHANGED data
    /\ UNCHANGED <<ranks, requesters, responders, engines, failed>>

(* Faulty peers: a parent that sends a result too early and wrong, of another descriptor or shorter, to an engine or a  *)
(* rank (early); a peer that acknowledges a packet that is never sent (with messages of one packet, number Cells is the first such).               *)
Forge ==
    \/ /\ "hasty" \in Faults
       /\ \E x \in Engines \ {Root}, r \in Ranks : passed[x] < Cells /\ \E call \in Calls[r][passed[x] + 1] :
             \E y \in {[desc |-> NoDesc, len |-> 1], [desc |-> call.desc, len |-> 0]} :
                data' = [data EXCEPT !["down"][x] = @ \cup {Wire(Segment(expected["down"][x], 0, "only", y.desc, FALSE, y.len, {}))}]
       /\ UNCHANGED <<ranks, requesters, responders, engines, acks, failed>>
    \/ /\ "false_ack" \in Faults
       /\ \E dir \in Dirs, e \in Edges : acks' = Answer(dir, e, Ack("ack", Cells))
       /\ UNCHANGED <<ranks, requesters, responders, engines, data, failed>>
    \/ /\ "early" \in Faults
       /\ \E r \in Ranks : \E kind \in IF parts["down"][r] = <<>> THEN {"first", "only"} ELSE {"last"} :
             data' = [data EXCEPT !["down"][r] = @ \cup {Wire(Segment(expected["down"][r], 0, kind, NoDesc, FALSE, 1, {}))}]
       /\ UNCHANGED <<ranks, requesters, responders, engines, acks, failed>>

(* Receptions that change nothing in "keep" are stuttering, left out to save TLC the work. *)
Matters(dir, e, m) ==
    LET known == expected[dir][e] IN
    \/ Network = "lossy" \/ InOrder(dir, e, m)
    \/ Naks /\ Number(dir, e, m.p, known) > known
    \/ /\ e \in AckEdges /\ known - 1 >= Acked(dir, e) /\ Ack("ack", known - 1) \notin acks[dir][e]
       /\ Number(dir, e, m.p, known) < known
AckMatters(dir, e, m) ==
    \/ Network = "lossy"
    \/ Number(dir, e, m.p, Acked(dir, e)) >= Acked(dir, e)
    \/ m.kind = "nak" /\ (Number(dir, e, m.p, Acked(dir, e)) > served[dir][e].k \/ ~Has("nak_served"))
Receive(dir, e, m) == IF dir = "up" THEN ReceiveContribution(e, m) ELSE IF e \in Ranks THEN Deliver(e, m) ELSE ReceiveResult(e, m)
Next == \/ \E r \in Ranks : Contribute(r)
        \/ \E dir \in Dirs, e \in Edges : \/ \E m \in data[dir][e] : Matters(dir, e, m) /\ Receive(dir, e, m)
                                          \/ \E m \in acks[dir][e] : AckMatters(dir, e, m) /\ ReceiveAck(dir, e, m)
                                          \/ Timeout(dir, e) \/ Resume(dir, e)
        \/ \E x \in Engines : Publish(x)
        \/ \E e \in Edges : GiveUp(e)
        \/ Lose \/ Forge
Spec == Init /\ [][Next]_vars

(* Fairness, as coarse as in Mode2. *)
InNet(dir, e, k) == \E m \in data[dir][e] : m.p = k
Waits(dir, e, k) == \E i \in 1 .. Len(pending[dir][e]) : pending[dir][e][i].p = k
SomeContribute == \E r \in Ranks : Contribute(r)
SomePublish == \E x \in Engines : Publish(x)
SomeResume == \E dir \in Dirs, e \in Edges : Resume(dir, e)
(* A packet that is refused for want of a buffer helps no one: receptions that matter are those that are accepted. *)
SomeReceive == \E dir \in Dirs, e \in Edges : \E m \in data[dir][e] :
                   m.p = expected[dir][e] /\ Receive(dir, e, m) /\ expected'[dir][e] > expected[dir][e]
SomeTimeout == \E dir \in Dirs, e \in Edges : /\ Waits(dir, e, expected[dir][e]) /\ ~InNet(dir, e, expected[dir][e])
                                             /\ Has("timer") /\ Timeout(dir, e)
NoNews(dir, e) == \A m \in acks[dir][e] : m.kind # "ack" \/ m.p < Acked(dir, e)
SomeNews == \E dir \in Dirs, e \in Edges : \E m \in acks[dir][e] : m.kind = "ack" /\ m.p >= Acked(dir, e) /\ ReceiveAck(dir, e, m)
SomeOld == \E dir \in Dirs, e \in Edges : /\ pending[dir][e] # <<>> /\ NoNews(dir, e)
                                         /\ \E m \in data[dir][e] : m.p < expected[dir][e] /\ Receive(dir, e, m)
SomeOldTimeout == \E dir \in Dirs, e \in Edges : /\ pending[dir][e] # <<>> /\ NoNews(dir, e)
                                                /\ \A i \in 1 .. Len(pending[dir][e]) : ~InNet(dir, e, pending[dir][e][i].p)
                                                /\ Has("timer") /\ Timeout(dir, e)
FairSpec == /\ Spec /\ WF_vars(SomeContribute) /\ WF_vars(SomePublish) /\ WF_vars(SomeResume) /\ WF_vars(SomeTimeout)
            /\ SF_vars(SomeReceive) /\ SF_vars(SomeNews) /\ SF_vars(SomeOld) /\ WF_vars(SomeOldTimeout)

-------------------------------------------------------------------------------
TypeOK ==
    /\ \A dir \in Dirs, e \in Edges : /\ expected[dir][e] \in 0 .. 2 * Cells /\ Len(parts[dir][e]) <= 1
                                      /\ \A m \in data[dir][e] : m.kind \in {"first", "last", "only"}
                                      /\ \A i \in 1 .. Len(pending[dir][e]) : pending[dir][e][i].p = Acked(dir, e) + i - 1
                                      /\ Acked(dir, e) + Len(pending[dir][e]) = next[dir][e] \/ e \in failed
    /\ \A x \in Engines : /\ passed[x] \in 0 .. completed[x]
                          /\ \A i \in 0 .. B - 1 : agg[x][i].cell >= 0 => agg[x][i].cell % B = i
    /\ failed \subseteq Mortal
(* P5: an engine keeps at most B results for a child (W partials for its parent would be too many: B buffers); a rank W.  *)
Bounded == \A dir \in Dirs, e \in Edges :
               SentMessages(dir, e) - AckedMessages(dir, e) <= IF dir = "up" /\ e \in Ranks THEN W ELSE B
(* Section 7.8, items 1 and 7. *)
AckedIsStored == \A dir \in Dirs, e \in Edges : e \in failed \/ (Acked(dir, e) <= expected[dir][e] /\ expected[dir][e] <= next[dir][e])
(* Item 2: what is in a buffer is what the children's responders have taken. *)
AggHeld == \A x \in Engines : \A s \in passed[x] .. Larger(passed[x], Max({messages[e] : e \in Children[x]})) - 1 :
               /\ agg[x][s % B].cell = s
               /\ agg[x][s % B].bitmap = {e \in Children[x] : messages[e] > s}
(* Item 3. *)
AggFree == \A e \in Edges : messages[e] <= passed[Parent[e]] + B
(* Item 4: with B = W no correct child is refused. *)
NeverNotReady == B = W => \A dir \in Dirs, e \in Edges : \A m \in acks[dir][e] : m.kind # "rnr"
(* Item 6: with B = W no result is held back, for whoever contributed m has acknowledged m - W. *)
NeverHeldBack == B = W => \A x \in Engines : Complete(x) => BcastFree(x)
InOrderCompletion == \A x \in Engines : completed[x] = Min({messages[e] : e \in Children[x]})
NotEarly == \A e \in Edges : passed[Parent[e]] <= messages[e]
(* Where a faulty peer breaks the clock, so that the run is none of the abstract machine. *)
RightSums == Abstract!P1
NakOnce == \A dir \in Dirs, e \in Edges : nakSent[dir][e] <= 1
NakServedOnce == \A dir \in Dirs, e \in Edges : served[dir][e].times <= 1
(* A rank takes nothing of a result whose cell it has not contributed. *)
RankExpects == \A r \in Ranks : Len(results[r]) + Len(parts["down"][r]) <= Len(c[r])
(* An edge in error holds nothing, so it holds no result back from the others (EPIC-M1-16). *)
DeadHoldsNothing == \A e \in failed : pending["down"][e] = <<>>
PausedIsSilent == [][\A dir \in Dirs, e \in Edges : paused[dir][e] /\ paused'[dir][e] => data'[dir][e] \subseteq data[dir][e]]_vars
(* An upper end gives up only when it has waited; then it neither takes nor sends anything. *)
DeadIsSilent == [][/\ \A e \in failed' \ failed : pending["down"][e] # <<>>
                   /\ \A e \in failed : expected'["up"][e] = expected["up"][e] /\ data'["down"][e] \subseteq data["down"][e]]_vars

Refines == Abstract!Spec
AllDelivered == \A r \in Ranks : <>(Len(results[r]) = Cells)
Drained == <>[](\A dir \in Dirs, e \in Edges : pending[dir][e] = <<>>)
(* A dead edge holds no result back from the others. *)
CompletePasses == \A k \in 0 .. Cells - 1 : completed[Root] > k ~> passed[Root] > k

-------------------------------------------------------------------------------
(* Runs without end, as in Mode2. All messages must have two packets, so a shift by M/2 cells is one by M packets; B       *)
(* divides M/2.                                                                                                          *)
Origin == LET low == Min({Len(results[r]) : r \in Ranks}) IN low - (low % (M \div 2))
ShiftedX(x, b) == [x EXCEPT !.sum = {<<y[1], y[2] - b>> : y \in @}]
ShiftedM(m, b) == [m EXCEPT !.p = @ - 2 * b, !.x = ShiftedX(@, b)]
ShiftedS(slot, b) == IF slot.cell < 0 THEN slot ELSE [slot EXCEPT !.cell = @ - b, !.val = ShiftedX(@, b)]
Shifted ==
    LET b == Origin
        PerEdge(f) == [dir \in Dirs |-> [e \in Edges |-> f[dir][e] - 2 * b]]
    IN <<[r \in Ranks |-> <<Len(c[r]) - b, Len(results[r]) - b>>],
         PerEdge(next), PerEdge(expected), paused, nakSent, failed,
         [dir \in Dirs |-> [e \in Edges |-> [i \in 1 .. Len(pending[dir][e]) |->
              [ShiftedM(pending[dir][e][i], b) EXCEPT !.m = @ - b]]]],
         [dir \in Dirs |-> [e \in Edges |-> [i \in 1 .. Len(parts[dir][e]) |-> ShiftedM(parts[dir][e][i], b)]]],
         [e \in Edges |-> messages[e] - b],
         [x \in Engines |-> <<completed[x] - b, passed[x] - b>>],
         [x \in Engines |-> [i \in 0 .. B - 1 |-> ShiftedS(agg[x][i], b)]],
         [dir \in Dirs |-> [e \in Edges |-> {ShiftedM(m, b) : m \in data[dir][e]}]],
         [dir \in Dirs |-> [e \in Edges |-> {[m EXCEPT !.p = @ - 2 * b] : m \in acks[dir][e]}]],
         [dir \in Dirs |-> [e \in Edges |-> [served[dir][e] EXCEPT !.k = IF @ < 0 THEN -1000 ELSE @ - 2 * b]]]>>
===============================================================================
