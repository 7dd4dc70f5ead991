-------------------------------- MODULE ShowMode2 --------------------------------
(* How counterexamples of Mode2 are shown as message sequences (`epic check tla --render`): the messages of a state, the *)
(* actions that lead from one state to the next, and what each node keeps. Not part of any proof.                       *)
EXTENDS Mode2

ShowParent == Parent

Name(dir, e) == IF dir = "down" THEN "result" ELSE IF e \in Ranks THEN "contribution" ELSE "partial"
ShowData(dir, e, m) ==
    [from |-> IF dir = "up" THEN e ELSE Parent[e], to |-> IF dir = "up" THEN Parent[e] ELSE e,
     kind |-> Name(dir, e), cell |-> m.p, content |-> m.x]
ShowAck(dir, e, m) ==
    [from |-> IF dir = "up" THEN Parent[e] ELSE e, to |-> IF dir = "up" THEN e ELSE Parent[e],
     kind |-> (IF m.kind = "nak" THEN "NAK of " ELSE "ACK of ") \o Name(dir, e), cell |-> m.p, content |-> <<>>]
ShowMessages == UNION {{ShowData(dir, e, m) : m \in data[dir][e]} \cup {ShowAck(dir, e, m) : m \in acks[dir][e]} :
                       dir \in Dirs, e \in Edges}

ReceiveData(dir, e, m) == IF dir = "up" THEN ReceiveContribution(e, m)
                          ELSE IF e \in Ranks THEN Deliver(e, m) ELSE ReceiveResult(e, m)
(* An action formula holds for a pair of states if it can lead from the first to the second. *)
ShowActions ==
    {[act |-> "contributes", node |-> r, message |-> <<>>] : r \in {r \in Ranks : Contribute(r)}}
    \cup UNION {{[act |-> "receives", node |-> ShowData(dir, e, m).to, message |-> ShowData(dir, e, m)] :
                     m \in {m \in data[dir][e] : ReceiveData(dir, e, m)}}
                \cup {[act |-> "receives", node |-> ShowAck(dir, e, m).to, message |-> ShowAck(dir, e, m)] :
                     m \in {m \in acks[dir][e] : ReceiveAck(dir, e, m)}} : dir \in Dirs, e \in Edges}
    \cup {[act |-> "repeats", node |-> IF d[1] = "up" THEN d[2] ELSE Parent[d[2]], message |-> <<>>] :
              d \in {d \in Dirs \X Edges : Timeout(d[1], d[2])}}
    \cup {[act |-> "gives up", node |-> Parent[e], message |-> <<>>] : e \in {e \in Edges : GiveUp(e)}}
    \cup (IF Lose THEN {[act |-> "loses", node |-> m.to, message |-> m] : m \in ShowMessages \ ShowMessages'} ELSE {})
    \cup (IF Forge THEN {[act |-> "breaks the rules", node |-> Root, message |-> <<>>]} ELSE {})

ShowAgg(x, i) == [name |-> "agg", index |-> i, cell |-> agg[x][i].cell, from |-> agg[x][i].bitmap, content |-> agg[x][i].val]
ShowBcast(x, i) == [name |-> "bcast", index |-> i, cell |-> bcast[x][i].cell, content |-> bcast[x][i].val]
ShowResult(r, i) == [name |-> "delivers", index |-> i - 1, content |-> results[r][i]]
ShowNode(n) == IF n \in Engines
               THEN {ShowAgg(n, i) : i \in 0 .. W - 1} \cup {ShowBcast(n, i) : i \in 0 .. W - 1}
               ELSE {ShowResult(n, i) : i \in DOMAIN results[n]}
ShowNodes == [n \in Engines \cup Ranks |-> ShowNode(n)]
=================================================================================
