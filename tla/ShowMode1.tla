-------------------------------- MODULE ShowMode1 --------------------------------
(* How counterexamples of Mode1 are shown as message sequences (`epic check tla --render`): the messages of a state, the *)
(* actions that lead from one state to the next, and what each node keeps. Not part of any proof.                       *)
EXTENDS Mode1

ShowParent == Parent

Called(dir, e) == IF dir = "down" THEN "result" ELSE IF e \in Ranks THEN "contribution" ELSE "partial"
ShowData(dir, e, m) ==
    [from |-> IF dir = "up" THEN e ELSE Parent[e], to |-> IF dir = "up" THEN Parent[e] ELSE e,
     kind |-> Called(dir, e) \o (CASE m.kind = "first" -> " (first) packet" [] m.kind = "last" -> " (last) packet" [] OTHER -> " packet"),
     cell |-> m.p, content |-> m.x]
ShowAck(dir, e, m) ==
    [from |-> IF dir = "up" THEN Parent[e] ELSE e, to |-> IF dir = "up" THEN e ELSE Parent[e],
     kind |-> (CASE m.kind = "nak" -> "NAK of " [] m.kind = "rnr" -> "RNR NAK of " [] OTHER -> "ACK of ") \o Called(dir, e),
     cell |-> m.p, content |-> <<>>]
ShowMessages == UNION {{ShowData(dir, e, m) : m \in data[dir][e]} \cup {ShowAck(dir, e, m) : m \in acks[dir][e]} :
                       dir \in Dirs, e \in Edges}

(* An action formula holds for a pair of states if it can lead from the first to the second. *)
ShowActions ==
    {[act |-> "contributes", node |-> r, message |-> <<>>] : r \in {r \in Ranks : Contribute(r)}}
    \cup {[act |-> "publishes", node |-> x, message |-> <<>>] : x \in {x \in Engines : Publish(x)}}
    \cup UNION {{[act |-> "receives", node |-> ShowData(dir, e, m).to, message |-> ShowData(dir, e, m)] :
                     m \in {m \in data[dir][e] : Receive(dir, e, m)}}
                \cup {[act |-> "receives", node |-> ShowAck(dir, e, m).to, message |-> ShowAck(dir, e, m)] :
                     m \in {m \in acks[dir][e] : ReceiveAck(dir, e, m)}} : dir \in Dirs, e \in Edges}
    \cup {[act |-> "repeats", node |-> IF d[1] = "up" THEN d[2] ELSE Parent[d[2]], message |-> <<>>] :
              d \in {d \in Dirs \X Edges : Timeout(d[1], d[2])}}
    \cup {[act |-> "ends its pause", node |-> IF d[1] = "up" THEN d[2] ELSE Parent[d[2]], message |-> <<>>] :
              d \in {d \in Dirs \X Edges : Resume(d[1], d[2])}}
    \cup {[act |-> "gives up", node |-> Parent[e], message |-> <<>>] : e \in {e \in Edges : GiveUp(e)}}
    \cup (IF Lose THEN {[act |-> "loses", node |-> m.to, message |-> m] : m \in ShowMessages \ ShowMessages'} ELSE {})

ShowAgg(x, i) == [name |-> "agg", index |-> i, cell |-> agg[x][i].cell, from |-> agg[x][i].bitmap, content |-> agg[x][i].val]
ShowResult(r, i) == [name |-> "delivers", index |-> i - 1, content |-> results[r][i]]
ShowNode(n) == IF n \in Engines THEN {ShowAgg(n, i) : i \in 0 .. B - 1} ELSE {ShowResult(n, i) : i \in DOMAIN results[n]}
ShowNodes == [n \in Engines \cup Ranks |-> ShowNode(n)]
=================================================================================
