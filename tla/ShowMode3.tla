-------------------------------- MODULE ShowMode3 --------------------------------
(* How counterexamples of Mode3 are shown as message sequences (`epic check tla --render`): the messages of a state, the *)
(* actions that lead from one state to the next, and what each node keeps. Not part of any proof.                       *)
EXTENDS Mode3

ShowParent == Parent

ShowMessage(m) ==
    LET up == m.kind \in {"up", "ack"}  above == Parent[m.edge] IN
    [from |-> IF up THEN m.edge ELSE above, to |-> IF up THEN above ELSE m.edge, cell |-> m.cell,
     kind |-> CASE m.kind = "up" -> IF m.edge \in Ranks THEN "contribution" ELSE "partial"
                [] m.kind = "down" -> "result"
                [] m.kind = "ack" -> IF m.x.nak THEN "NAK of result" ELSE "ACK of result"
                [] OTHER -> IF m.x.nak THEN "NAK of contribution" ELSE "ACK of contribution",
     content |-> IF m.kind \in {"up", "down"} THEN m.x ELSE <<>>]
ShowMessages == {ShowMessage(m) : m \in net}

(* An action formula holds for a pair of states if it can lead from the first to the second. *)
ShowActions ==
    {[act |-> "contributes", node |-> r, message |-> <<>>] : r \in {r \in Ranks : Contribute(r)}}
    \cup {[act |-> "repeats", node |-> r, message |-> <<>>] : r \in {r \in Ranks : Repeat(r)}}
    \cup {[act |-> "receives", node |-> ShowMessage(m).to, message |-> ShowMessage(m)] : m \in {m \in net : Receive(m)}}
    \cup {[act |-> "loses", node |-> ShowMessage(m).to, message |-> ShowMessage(m)] : m \in {m \in net : Network # "keep" /\ Lose(m)}}
    \cup {[act |-> "overruns", node |-> r, message |-> <<>>] : r \in {r \in Rogues \cap Ranks : Overrun(r)}}
    \cup {[act |-> "sends unasked", node |-> n, message |-> <<>>] : n \in {n \in Rogues \cap Engines : Unasked(n)}}

ShowSlot(n, i) == LET s == slots[n][i] IN
    [name |-> "slot", index |-> i, cell |-> s.tag, from |-> {Children[n][k] : k \in s.bitmap}, done |-> s.done,
     content |-> IF s.done THEN s.result ELSE [desc |-> s.value.held, err |-> s.value.err, len |-> s.value.len, sum |-> s.value.sum]]
ShowResult(r, i) == [name |-> "delivers", index |-> i - 1, content |-> results[r][i]]
ShowNode(n) == IF n \in Engines THEN {ShowSlot(n, i) : i \in 0 .. N - 1} ELSE {ShowResult(n, i) : i \in DOMAIN results[n]}
ShowNodes == [n \in Engines \cup Ranks |-> ShowNode(n)]
=================================================================================
