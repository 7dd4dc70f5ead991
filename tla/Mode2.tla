-------------------------------- MODULE Mode2 ---------------------------------
(* Mode II, packet termination (epic.md, section 8): every edge is a reliable connection of single packets in each     *)
(* direction, repaired hop by hop from agg[W] and bcast[W]. Names are those of epic_models/reference/mode2.py, rc.py.   *)
(*                                                                                                                     *)
(* The network. With Network = "keep" a packet never leaves the set it was sent into: every delay, overtaking and       *)
(* duplicate is a choice of what is received next, and a loss is a packet that is not received. A repeat then adds      *)
(* nothing to the set (invariant RepeatsAreCopies), so timers need no step. Packets that assumption 1 of section 2.6    *)
(* excludes are taken out: those more than M/2 behind the receiver, which have outlived M/2 - W cells of the group.     *)
(* With Network = "lossy" (liveness) a packet is gone when it is received, and Lose takes any: only timers and NAKs     *)
(* bring it back.                                                                                                       *)
(* A guard that can be taken away has a name; a name in Broken takes it away (mutants).                             *)
EXTENDS Values
CONSTANTS Engines, Root, Parent,            \* the tree of Ranks and Engines: Parent[n] for every node but Root
          W, M,                             \* window; PSNs are modulo M
          Base,                             \* Base[dir][e]: PSN of packet 0 of a direction of an edge
          Cells, Calls,                     \* as in Collective
          Network,                          \* "keep" or "lossy"
          Naks,                             \* FALSE: gaps are dropped without NAK (in "keep" a NAK(k) says no more than ACK(k-1))
          Mortal,                           \* edges, named by their children, whose upper end may give up (EPIC-F-02)
          Faults                            \* what faulty peers do: "rogue", "hasty", "false_ack"
VARIABLES c, results,                       \* of ranks, as in Collective: Len(c[r]) contributed, Len(results[r]) delivered
          expected,                         \* expected[e]: of the responder of contributions at the parent
          acknowledged,                     \* acknowledged[dir][e]: the requester's packets before it have arrived
          completed, passed,                \* of engines: cells complete, results that have gone down
          agg, bcast,                       \* of engines: slots by cell mod W
          data, acks,                       \* the network: data[dir][e], acks[dir][e] (of that direction, travelling against it)
          nakSent, served,                  \* responder: NAKs sent for expected; requester: NAK answered [k, times]
          failed                            \* edges whose upper end is in error
ranks == <<c, results>>
vars == <<c, results, expected, acknowledged, completed, passed, agg, bcast, data, acks, nakSent, served, failed>>

Abstract == INSTANCE Collective WITH c <- c, results <- results

Edges == Ranks \cup (Engines \ {Root})      \* an edge is named by its child
Dirs == {"up", "down"}
Children == [x \in Engines |-> {e \in Edges : Parent[e] = x}]
RECURSIVE RanksBelow(_)
RanksBelow(n) == IF n \in Ranks THEN {n} ELSE UNION {RanksBelow(e) : e \in Children[n]}
Below == [e \in Edges |-> RanksBelow(e)]
Larger(a, b) == IF a > b THEN a ELSE b
(* Edges whose explicit acknowledgements may arrive; those of the others are all lost. Configurations of large trees     *)
(* replace it: no step waits for an acknowledgement, so what the requesters keep is then the most they may have to keep. *)
AckEdges == Edges

-------------------------------------------------------------------------------
(* Numbers on the wire: serial arithmetic on M numbers (section 2.6). *)
Psn(dir, e, k) == (Base[dir][e] + k) % M
Nearest(v, u) == IF Has("serial") THEN u + ((v - u + M \div 2) % M) - M \div 2 ELSE v % M
(* In the network a packet has its unbounded number p, so that its life can end; a receiver looks only at its PSN. *)
Number(dir, e, m, known) == Nearest(Psn(dir, e, m.p) - Base[dir][e], known)
Packet(k, x) == [p |-> k, x |-> x]
Ack(k) == [kind |-> "ack", p |-> k]
Nak(k) == [kind |-> "nak", p |-> k]
Live(S, known) == {m \in S : m.p >= known - M \div 2}

(* The two ends of a direction. *)
NextNumber(dir, e) == IF dir = "down" THEN passed[Parent[e]] ELSE IF e \in Ranks THEN Len(c[e]) ELSE completed[e]
Expected(dir, e) == IF dir = "up" THEN expected[e] ELSE IF e \in Ranks THEN Len(results[e]) ELSE passed[e]

-------------------------------------------------------------------------------
(* Slots. A free one is emptied, so that what nobody looks at makes no states. *)
Result(e, x) == ForChild(Below[e], x)
EmptyAgg == [cell |-> -1, val |-> Fresh, bitmap |-> {}]
EmptyBcast == [cell |-> -1, val |-> [desc |-> NoDesc, err |-> FALSE, len |-> 0, sum |-> {}]]

Init ==
    /\ c = [r \in Ranks |-> <<>>] /\ results = [r \in Ranks |-> <<>>]
    /\ expected = [e \in Edges |-> 0]
    /\ acknowledged = [dir \in Dirs |-> [e \in Edges |-> 0]]
    /\ completed = [x \in Engines |-> 0] /\ passed = [x \in Engines |-> 0]
    /\ agg = [x \in Engines |-> [i \in 0 .. W - 1 |-> EmptyAgg]]
    /\ bcast = [x \in Engines |-> [i \in 0 .. W - 1 |-> EmptyBcast]]
    /\ data = [dir \in Dirs |-> [e \in Edges |-> {}]] /\ acks = data
    /\ nakSent = [dir \in Dirs |-> [e \in Edges |-> 0]]
    /\ served = [dir \in Dirs |-> [e \in Edges |-> [k |-> -1, times |-> 0]]]
    /\ failed = {}

-------------------------------------------------------------------------------
(* What every reception does with its packet, and what is sent. *)
Taken(net, dir, e, m) == IF Network = "keep" THEN net ELSE [net EXCEPT ![dir][e] = @ \ {m}]
Sent(net, dir, e, m) == [net EXCEPT ![dir][e] = @ \cup {m}]
Pruned(net, dir, e, known) == [net EXCEPT ![dir][e] = Live(@, known)]

(* A requester forgets what is acknowledged (acknowledge before k). *)
AckedBefore(a, dir, e, k) == [a EXCEPT ![dir][e] = Larger(@, k)]
(* bcast is kept until each child whose edge is not in error has it (EPIC-M2-09). *)
Freed(x, b, a, dead) ==
    LET kept == {a["down"][e] : e \in Children[x] \ dead}
        floor == IF kept = {} THEN passed[x] + 1
                 ELSE IF Has("keep_bcast") THEN Min(kept) ELSE CHOOSE k \in kept : \A l \in kept : l <= k
    IN [i \in 0 .. W - 1 |-> IF b[i].cell < floor THEN EmptyBcast ELSE b[i]]

(* Store the next result and send it to every child. net is data after what came has been taken. *)
Published(net, x, v) ==
    [net EXCEPT !["down"] = [e \in Edges |-> IF e \in Children[x] \ failed
                                             THEN @[e] \cup {Packet(passed[x], Result(e, v))} ELSE @[e]]]
Stored(x, b, v) == [b EXCEPT ![passed[x] % W] = [cell |-> passed[x], val |-> v]]
(* agg slots of cells whose result has passed are free; they are emptied so that they make no states of their own. *)
Emptied(slots, upto) == [i \in 0 .. W - 1 |-> IF slots[i].cell < upto THEN EmptyAgg ELSE slots[i]]

-------------------------------------------------------------------------------
(* Rank r gives the next cell: the result clock lets it (EPIC-A-01), and its requester keeps and sends the packet. *)
Clock(r) == IF Has("window") THEN Len(c[r]) < Len(results[r]) + W
            ELSE Len(c[r]) < acknowledged["up"][r] + W          \* a window by sends
Contribute(r) ==
    /\ Len(c[r]) < Cells
    /\ Clock(r) \/ ("rogue" \in Faults /\ Len(c[r]) <= Len(results[r]) + W)
    /\ \E call \in Calls[r][Len(c[r]) + 1] :
          LET x == Contribution(r, Len(c[r]), call) IN
          /\ c' = [c EXCEPT ![r] = Append(@, x)]
          /\ data' = Sent(data, "up", r, Packet(Len(c[r]), x))
    /\ UNCHANGED <<results, expected, acknowledged, completed, passed, agg, bcast, acks, nakSent, served, failed>>

(* Whether m is treated as the expected packet. *)
InOrder(dir, e, m) ==
    \/ Psn(dir, e, m.p) = Psn(dir, e, Expected(dir, e))
    \/ ~Has("gap") /\ Number(dir, e, m, Expected(dir, e)) > Expected(dir, e)
    \/ ~Has("duplicate") /\ Number(dir, e, m, Expected(dir, e)) < Expected(dir, e)

(* A packet that is not the expected one changes nothing; an older one is acknowledged again, for the ACK may be lost   *)
(* (EPIC-M2-02); the first newer one is answered with a NAK (EPIC-M2-03).                                              *)
OutOfOrder(dir, e, m) ==
    LET known == Expected(dir, e)  j == Number(dir, e, m, known) IN
    /\ ~InOrder(dir, e, m)
    /\ data' = Taken(data, dir, e, m)
    /\ IF j < known
       THEN /\ acks' = IF Has("duplicate_acked") THEN Sent(acks, dir, e, Ack(known - 1)) ELSE acks
            /\ UNCHANGED nakSent
       ELSE IF Naks /\ (nakSent[dir][e] = 0 \/ ~Has("nak_once"))
            THEN /\ acks' = Sent(acks, dir, e, Nak(known))
                 /\ nakSent' = [nakSent EXCEPT ![dir][e] = IF @ < 2 THEN @ + 1 ELSE 2]
            ELSE UNCHANGED <<acks, nakSent>>
    /\ UNCHANGED <<ranks, expected, acknowledged, completed, passed, agg, bcast, served, failed>>

(* The expected contribution or partial of child e is added to its slot. It proves that e has result s - W              *)
(* (EPIC-M2-10). What completes the cell sends the partial, or at the root publishes the result (EPIC-M2-07).           *)
Accept(e, m) ==
    LET x == Parent[e]
        s == Number("up", e, m, expected[e])
        old == agg[x][s % W]
        slot == IF old.cell = s THEN [cell |-> s, val |-> Add(old.val, m.x), bitmap |-> old.bitmap \cup {e}]
                ELSE [cell |-> s, val |-> Add(Fresh, m.x), bitmap |-> {e}]
        full == slot.bitmap = Children[x] \/ ~Has("complete")
        out == Output(slot.val)
        next == Larger(expected[e], s + 1)
        a == IF Has("implicit_result") THEN AckedBefore(acknowledged, "down", e, s - W + 1) ELSE acknowledged
        seen == Pruned(Taken(data, "up", e, m), "up", e, next)
        publish == full /\ x = Root
        slots == [agg[x] EXCEPT ![s % W] = slot]
        b == IF publish THEN Stored(x, bcast[x], out) ELSE bcast[x]
    IN  /\ expected' = [expected EXCEPT ![e] = next]
        /\ nakSent' = [nakSent EXCEPT !["up"][e] = 0]
        /\ acknowledged' = a
        /\ completed' = IF full THEN [completed EXCEPT ![x] = @ + 1] ELSE completed
        /\ passed' = IF publish THEN [passed EXCEPT ![x] = @ + 1] ELSE passed
        /\ agg' = [agg EXCEPT ![x] = IF publish THEN Emptied(slots, s + 1)
                                     ELSE IF full /\ ~Has("keep_agg") THEN [slots EXCEPT ![s % W] = EmptyAgg] ELSE slots]
        /\ bcast' = [bcast EXCEPT ![x] = Freed(x, b, a, failed)]
        /\ data' = IF publish THEN Published(seen, x, out)
                   ELSE IF full THEN Sent(seen, "up", x, Packet(completed[x], out)) ELSE seen
        /\ acks' = Pruned(Sent(acks, "up", e, Ack(expected[e])), "down", e, a["down"][e])
        /\ UNCHANGED <<ranks, served, failed>>

(* It is not taken while the result of s - W has not passed: no acknowledgement, the sender will repeat it (EPIC-M2-06). *)
Refuse(e, m) ==
    /\ data' = Taken(data, "up", e, m)
    /\ acks' = IF Has("store_first") THEN acks ELSE Sent(acks, "up", e, Ack(expected[e]))
    /\ UNCHANGED <<ranks, expected, acknowledged, completed, passed, agg, bcast, nakSent, served, failed>>

Room(e) == expected[e] < passed[Parent[e]] + W
ReceiveContribution(e, m) ==
    /\ e \notin failed \/ ~Has("edge_error")
    /\ \/ OutOfOrder("up", e, m)
       \/ InOrder("up", e, m) /\ IF Room(e) \/ ~Has("room") THEN Accept(e, m) ELSE Refuse(e, m)
       \/ ~Has("store_first") /\ InOrder("up", e, m) /\ Refuse(e, m)       \* acknowledged, then no place to store it

(* The expected result at an inner engine. It acknowledges the partials before it (EPIC-M2-11), goes to bcast and down   *)
(* (EPIC-M2-08); agg[s mod W] is free from now on. A cell that is not complete here has no result yet (EPIC-M2-13).      *)
Complete(x) == agg[x][passed[x] % W].cell = passed[x] /\ agg[x][passed[x] % W].bitmap = Children[x]
ReceiveResult(x, m) ==
    LET s == Number("down", x, m, passed[x]) 
        a == IF Has("implicit_partial") THEN AckedBefore(acknowledged, "up", x, passed[x] + 1) ELSE acknowledged
        seen == Pruned(Taken(data, "down", x, m), "down", x, passed[x] + 1)
    IN  \/ OutOfOrder("down", x, m)
        \/ /\ InOrder("down", x, m)
           /\ IF Complete(x) \/ ~Has("unexpected")
              THEN /\ passed' = [passed EXCEPT ![x] = @ + 1]
                   /\ acknowledged' = a
                   /\ agg' = [agg EXCEPT ![x] = Emptied(@, passed[x] + 1)]
                   /\ bcast' = [bcast EXCEPT ![x] = Freed(x, Stored(x, @, m.x), a, failed)]
                   /\ data' = Published(seen, x, m.x)
                   /\ acks' = Pruned(Sent(acks, "down", x, Ack(passed[x])), "up", x, a["up"][x])
                   /\ nakSent' = [nakSent EXCEPT !["down"][x] = 0]
                   /\ UNCHANGED <<ranks, expected, completed, served, failed>>
              ELSE /\ data' = Taken(data, "down", x, m)
                   /\ UNCHANGED <<ranks, expected, acknowledged, completed, passed, agg, bcast, acks, nakSent, served, failed>>

(* The expected result at a rank: delivered, then acknowledged (EPIC-M2-22). It acknowledges the contributions before    *)
(* it (EPIC-M2-21). ERR or another descriptor is an error (EPIC-D-07).                                                  *)
Deliver(r, m) ==
    LET s == Len(results[r])
        a == IF Has("implicit_contribution") THEN AckedBefore(acknowledged, "up", r, s + 1) ELSE acknowledged
    IN  \/ OutOfOrder("down", r, m)
        \/ /\ InOrder("down", r, m) /\ Len(c[r]) > s
           /\ results' = [results EXCEPT ![r] = Append(@, Received(r, s, c[r][s + 1], Calls[r][s + 1], m.x))]
           /\ acknowledged' = a
           /\ data' = Pruned(Taken(data, "down", r, m), "down", r, s + 1)
           /\ acks' = Pruned(Sent(acks, "down", r, Ack(s)), "up", r, a["up"][r])
           /\ nakSent' = [nakSent EXCEPT !["down"][r] = 0]
           /\ UNCHANGED <<c, expected, completed, passed, agg, bcast, served, failed>>

(* The requester repeats all that is pending, from what it keeps (go-back-N). *)
Keeps(dir, e, k) == IF dir = "down" THEN bcast[Parent[e]][k % W].cell = k
                    ELSE IF e \in Ranks THEN k < Len(c[e]) ELSE agg[e][k % W].cell = k
Kept(dir, e, k) == IF dir = "down" THEN Result(e, bcast[Parent[e]][k % W].val)
                   ELSE IF e \in Ranks THEN c[e][k + 1] ELSE Output(agg[e][k % W].val)
Pending(dir, e) == acknowledged[dir][e] .. NextNumber(dir, e) - 1
Again(net, dir, e, from) ==
    [net EXCEPT ![dir][e] = @ \cup {Packet(k, Kept(dir, e, k)) :
                                     k \in {k \in from .. NextNumber(dir, e) - 1 : Keeps(dir, e, k)}}]
Dead(dir, e) == e \in failed

(* An ACK of k acknowledges all before k + 1; a NAK of k all before k, and the rest is repeated, once for a k unless the *)
(* timer has expired since (EPIC-M2-05). One of a packet that was not sent is dropped (EPIC-M2-14).                     *)
ReceiveAck(dir, e, m) ==
    LET k == Number(dir, e, m, acknowledged[dir][e])
        before == IF m.kind = "ack" \/ ~Has("nak_before") THEN k + 1 ELSE k
        a == AckedBefore(acknowledged, dir, e, before)
        answer == m.kind = "nak" /\ (k > served[dir][e].k \/ ~Has("nak_served"))
        x == Parent[e]
    IN  /\ ~Dead(dir, e)
        /\ k < NextNumber(dir, e) \/ ~Has("ack_unsent")
        /\ acknowledged' = a
        /\ acks' = Pruned(Taken(acks, dir, e, m), dir, e, a[dir][e])
        /\ bcast' = IF dir = "down" THEN [bcast EXCEPT ![x] = Freed(x, @, a, failed)] ELSE bcast
        /\ data' = IF answer THEN Again(data, dir, e, a[dir][e]) ELSE data
        /\ served' = IF answer THEN [served EXCEPT ![dir][e] =
                                       [k |-> Larger(k, @.k), times |-> IF k > @.k THEN 1 ELSE IF @.times < 2 THEN @.times + 1 ELSE 2]]
                     ELSE served
        /\ UNCHANGED <<ranks, expected, completed, passed, agg, nakSent, failed>>

(* The timer of an edge expires whenever it likes, while something is pending (EPIC-M2-12). In "keep" what it repeats is *)
(* in the network already; it only opens the way for another answer to a NAK.                                          *)
Timeout(dir, e) ==
    /\ Pending(dir, e) # {} /\ ~Dead(dir, e)
    /\ Network = "lossy" \/ Naks
    /\ data' = Again(data, dir, e, acknowledged[dir][e])
    /\ served' = [served EXCEPT ![dir][e] = [k |-> -1, times |-> 0]]
    /\ UNCHANGED <<ranks, expected, acknowledged, completed, passed, agg, bcast, acks, nakSent, failed>>

(* The upper end of an edge gives up: nothing more is sent, what comes is dropped, nobody waits for it (EPIC-F-02). *)
GiveUp(e) ==
    /\ e \in Mortal \ failed /\ Pending("down", e) # {}
    /\ failed' = failed \cup {e}
    /\ bcast' = [bcast EXCEPT ![Parent[e]] = Freed(Parent[e], @, acknowledged, failed')]
    /\ UNCHANGED <<ranks, expected, acknowledged, completed, passed, agg, data, acks, nakSent, served>>

Lose ==
    /\ Network = "lossy"
    /\ \E dir \in Dirs, e \in Edges :
          \/ \E m \in data[dir][e] : data' = [data EXCEPT ![dir][e] = @ \ {m}] /\ UNCHANGED acks
          \/ \E m \in acks[dir][e] : acks' = [acks EXCEPT ![dir][e] = @ \ {m}] /\ UNCHANGED data
    /\ UNCHANGED <<ranks, expected, acknowledged, completed, passed, agg, bcast, nakSent, served, failed>>

(* Faulty peers, against which a guard stands: a parent that sends results too early and wrong, to an engine or a rank (early); a peer that  *)
(* acknowledges what was not sent. (A rank that ignores its window is in Contribute.)                                                     *)
Forge ==
    \/ /\ "hasty" \in Faults
       /\ \E x \in Engines \ {Root}, r \in Ranks : passed[x] < Cells /\ \E call \in Calls[r][passed[x] + 1] :
             \E y \in {[desc |-> NoDesc, len |-> call.len], [desc |-> call.desc, len |-> call.len + 1]} :
                data' = Sent(data, "down", x, Packet(passed[x], [desc |-> y.desc, err |-> FALSE, len |-> y.len, sum |-> {}]))
       /\ UNCHANGED <<ranks, expected, acknowledged, completed, passed, agg, bcast, acks, nakSent, served, failed>>
    \/ /\ "false_ack" \in Faults
       /\ \E dir \in Dirs, e \in Edges : acks' = Sent(acks, dir, e, Ack(NextNumber(dir, e)))
       /\ UNCHANGED <<ranks, expected, acknowledged, completed, passed, agg, bcast, data, nakSent, served, failed>>
    \/ /\ "early" \in Faults
       /\ \E r \in Ranks : /\ Len(results[r]) < Cells
             /\ data' = Sent(data, "down", r, Packet(Len(results[r]), [desc |-> NoDesc, err |-> FALSE, len |-> 1, sum |-> {}]))
       /\ UNCHANGED <<ranks, expected, acknowledged, completed, passed, agg, bcast, acks, nakSent, served, failed>>

(* In "keep" a packet or ACK whose reception would change nothing need not be received: an older packet is answered    *)
(* with an ACK that is in the network already (invariant Reacked). That is stuttering, left out to save TLC the work.   *)
Matters(dir, e, m) ==
    \/ Network = "lossy" \/ InOrder(dir, e, m)
    \/ Naks /\ Number(dir, e, m, Expected(dir, e)) > Expected(dir, e)
AckMatters(dir, e, m) ==
    \/ Network = "lossy"
    \/ e \in AckEdges /\ LET k == Number(dir, e, m, acknowledged[dir][e]) IN
       k >= acknowledged[dir][e] \/ (m.kind = "nak" /\ (k > served[dir][e].k \/ ~Has("nak_served")))
Next == \/ \E r \in Ranks : Contribute(r)
        \/ \E e \in Edges : \/ \E m \in data["up"][e] : Matters("up", e, m) /\ ReceiveContribution(e, m)
                            \/ \E m \in data["down"][e] : /\ Matters("down", e, m)
                                                           /\ IF e \in Ranks THEN Deliver(e, m) ELSE ReceiveResult(e, m)
                            \/ \E dir \in Dirs : \/ Timeout(dir, e)
                                                 \/ \E m \in acks[dir][e] : AckMatters(dir, e, m) /\ ReceiveAck(dir, e, m)
                            \/ GiveUp(e)
        \/ Lose \/ Forge
Spec == Init /\ [][Next]_vars

(* Fairness, stated coarsely: of the steps of one kind that would help, anywhere in the tree, some is taken. That is     *)
(* less than fairness for each edge, and all that is needed, for each kind can help only so many times before another    *)
(* does: a rank that may contribute does; a packet that the peer waits for is sent again when it is lost (the timer       *)
(* expires); and of those that are sent again and again one is received (each edge delivers infinitely often).            *)
Receive(dir, e, m) == IF dir = "up" THEN ReceiveContribution(e, m) ELSE IF e \in Ranks THEN Deliver(e, m) ELSE ReceiveResult(e, m)
InNet(dir, e, k) == \E m \in data[dir][e] : m.p = k
SomeContribute == \E r \in Ranks : Contribute(r)
SomeReceive == \E dir \in Dirs, e \in Edges : \E m \in data[dir][e] : m.p = Expected(dir, e) /\ Receive(dir, e, m)
SomeTimeout == \E dir \in Dirs, e \in Edges : /\ Expected(dir, e) \in Pending(dir, e) /\ ~InNet(dir, e, Expected(dir, e))
                                             /\ Has("timer") /\ Timeout(dir, e)
Fairness == WF_vars(SomeContribute) /\ WF_vars(SomeTimeout) /\ SF_vars(SomeReceive)
(* The same for the last acknowledgements, which no result can stand for. *)
NoNews(dir, e) == \A m \in acks[dir][e] : m.p < acknowledged[dir][e]
SomeNews == \E dir \in Dirs, e \in Edges : \E m \in acks[dir][e] : m.p >= acknowledged[dir][e] /\ ReceiveAck(dir, e, m)
SomeOld == \E dir \in Dirs, e \in Edges : /\ Pending(dir, e) # {} /\ NoNews(dir, e)
                                         /\ \E m \in data[dir][e] : m.p < Expected(dir, e) /\ Receive(dir, e, m)
SomeOldTimeout == \E dir \in Dirs, e \in Edges : /\ Pending(dir, e) # {} /\ NoNews(dir, e)
                                                /\ \A k \in Pending(dir, e) : ~InNet(dir, e, k)
                                                /\ Timeout(dir, e)
FairSpec == Spec /\ Fairness
DrainSpec == FairSpec /\ SF_vars(SomeNews) /\ SF_vars(SomeOld) /\ WF_vars(SomeOldTimeout)

-------------------------------------------------------------------------------
TypeOK ==
    /\ \A e \in Edges : expected[e] \in 0 .. Cells
    /\ \A dir \in Dirs, e \in Edges : /\ acknowledged[dir][e] \in 0 .. Cells
                                      /\ nakSent[dir][e] \in 0 .. 2
                                      /\ \A m \in data[dir][e] : m.p \in 0 .. Cells - 1
                                      /\ \A m \in acks[dir][e] : m.kind \in {"ack", "nak"}
    /\ \A x \in Engines : /\ passed[x] \in 0 .. completed[x]
                          /\ \A i \in 0 .. W - 1 : /\ agg[x][i].bitmap \subseteq Children[x]
                                                   /\ agg[x][i].cell >= 0 => agg[x][i].cell % W = i
                                                   /\ bcast[x][i].cell >= 0 => bcast[x][i].cell % W = i
    /\ failed \subseteq Mortal
(* P5: a requester has at most W packets to keep; agg and bcast have W slots each by their type. *)
Bounded == \A dir \in Dirs, e \in Edges : NextNumber(dir, e) - acknowledged[dir][e] <= W \/ Dead(dir, e)
(* Section 8.5, items 1 and 5: what is acknowledged, explicitly or implicitly, has been stored by the peer. *)
AckedIsStored == \A dir \in Dirs, e \in Edges : acknowledged[dir][e] <= Expected(dir, e) /\ Expected(dir, e) <= NextNumber(dir, e)
(* Item 3: a child that keeps the clock never meets the guard, and an agg slot in use is of a cell that has not passed. *)
AggFree == \A e \in Edges : NextNumber("up", e) <= passed[Parent[e]] + W
AggHeld == \A x \in Engines : \A s \in passed[x] .. Larger(passed[x], Max({expected[e] : e \in Children[x]})) - 1 :
               /\ agg[x][s % W].cell = s
               /\ agg[x][s % W].bitmap = {e \in Children[x] : expected[e] > s}
(* Item 4: the bcast slot of the next result is free whenever that result can exist. *)
BcastFree == \A x \in Engines : completed[x] > passed[x] =>
                 \A e \in Children[x] \ failed : acknowledged["down"][e] > passed[x] - W
(* Whatever is pending is kept, and repeating it sends what was sent: a repeat is a copy. *)
PendingKept == \A dir \in Dirs, e \in Edges : Dead(dir, e) \/ \A k \in Pending(dir, e) : Keeps(dir, e, k)
RepeatsAreCopies == \A dir \in Dirs, e \in Edges : \A k \in Pending(dir, e) : Keeps(dir, e, k) =>
                        \A m \in data[dir][e] : m.p = k => m = Packet(k, Kept(dir, e, k))
Reacked == Network = "keep" => \A dir \in Dirs, e \in Edges : Expected(dir, e) > 0 => Ack(Expected(dir, e) - 1) \in acks[dir][e]
(* Item 6. *)
InOrderCompletion == \A x \in Engines : completed[x] = Min({expected[e] : e \in Children[x]})
(* P3 at every engine: no result passes before each child has contributed the cell. *)
NotEarly == \A x \in Engines, e \in Edges : Parent[e] = x => passed[x] <= expected[e]
AckedIsSent == \A dir \in Dirs, e \in Edges : acknowledged[dir][e] <= NextNumber(dir, e)
(* P1 and P3 where a faulty peer breaks the clock, so that the run is none of the abstract machine. *)
RightResults == Abstract!P1 /\ Abstract!P3
RightSums == Abstract!P1
NakOnce == \A dir \in Dirs, e \in Edges : nakSent[dir][e] <= 1
NakServedOnce == \A dir \in Dirs, e \in Edges : served[dir][e].times <= 1
(* A rank takes no result of a cell that it has not contributed. *)
RankExpects == \A r \in Ranks : Len(results[r]) <= Len(c[r])
(* An edge in error holds nothing: bcast slots are not kept for it. *)
DeadHoldsNothing == \A x \in Engines : Children[x] \subseteq failed => \A i \in 0 .. W - 1 : bcast[x][i].cell = -1

(* An upper end gives up only when it has waited; then it neither takes nor sends anything. *)
DeadIsSilent == [][/\ \A e \in failed' \ failed : Pending("down", e) # {}
                   /\ \A e \in failed : /\ expected'[e] = expected[e] /\ acknowledged'["down"][e] = acknowledged["down"][e]
                                         /\ data'["down"][e] \subseteq data["down"][e]]_vars

Refines == Abstract!Spec
AllDelivered == \A r \in Ranks : <>(Len(results[r]) = Cells)
(* No edge is left that would go into error for want of an acknowledgement. *)
Drained == <>[](\A dir \in Dirs, e \in Edges : Pending(dir, e) = {})

-------------------------------------------------------------------------------
(* Runs without end. All numbers are looked at only relative to each other, modulo M (PSN) and W (slots), and W divides   *)
(* M; so two states that differ by a shift of all numbers by a multiple of M behave alike, and VIEW Shifted lets TLC      *)
(* explore runs of any number of cells. Left out of the view is what no step and no property looks at again: what ranks   *)
(* delivered, contributions to cells that all ranks have, contents of packets that are accepted and acknowledged.         *)
DeliveredByAll == Min({Len(results[r]) : r \in Ranks})
Origin == DeliveredByAll - (DeliveredByAll % M)
ShiftedX(x, b) == [x EXCEPT !.sum = {<<y[1], y[2] - b>> : y \in @}]
ShiftedM(m, b, from) == <<m.p - b, IF m.p >= from THEN ShiftedX(m.x, b) ELSE 0>>
ShiftedS(slot, b) == IF slot.cell < 0 THEN slot ELSE [slot EXCEPT !.cell = @ - b, !.val = ShiftedX(@, b)]
Shifted ==
    LET b == Origin IN
    <<[r \in Ranks |-> <<Len(c[r]) - b, Len(results[r]) - b>>],
      [r \in Ranks |-> LET from == Min({acknowledged["up"][r], DeliveredByAll}) - b IN
                       [k \in from .. Len(c[r]) - 1 - b |-> ShiftedX(c[r][k + b + 1], b)]],
      [e \in Edges |-> expected[e] - b],
      [dir \in Dirs |-> [e \in Edges |-> acknowledged[dir][e] - b]],
      [x \in Engines |-> <<completed[x] - b, passed[x] - b>>],
      [x \in Engines |-> [i \in 0 .. W - 1 |-> <<ShiftedS(agg[x][i], b), ShiftedS(bcast[x][i], b)>>]],
      [dir \in Dirs |-> [e \in Edges |-> LET from == Min({acknowledged[dir][e], Expected(dir, e)}) IN
                                         {ShiftedM(m, b, from) : m \in data[dir][e]}]],
      [dir \in Dirs |-> [e \in Edges |-> {[m EXCEPT !.p = @ - b] : m \in acks[dir][e]}]],
      nakSent, [dir \in Dirs |-> [e \in Edges |-> [served[dir][e] EXCEPT !.k = IF @ < 0 THEN -1000 ELSE @ - b]]], failed>>
===============================================================================
