------------------------------- MODULE ShowFailover -------------------------------
(* How counterexamples of Failover are shown as message sequences (`epic check tla --render`): the messages of a state,   *)
(* the actions that lead from one state to the next, and what each node keeps. Not part of any proof.                   *)
EXTENDS Failover, TLC

ShowParent == Ranks \cup Paths \cup {"manager"}    \* the nodes, for there is no tree

ShowMessage(m) ==
    LET place == path[m.epoch + 1] IN
    [from |-> IF m.kind = "up" THEN m.rank ELSE place, to |-> IF m.kind = "up" THEN place ELSE m.rank,
     kind |-> "epoch " \o ToString(m.epoch) \o (IF m.kind = "up" THEN " contribution" ELSE " result"),
     cell |-> m.number, content |-> m.x]
ShowMessages == {ShowMessage(m) : m \in net}

ShowActions ==
    {[act |-> "joins epoch " \o ToString(Current), node |-> r, message |-> <<>>] : r \in {r \in Ranks : Join(r)}}
    \cup {[act |-> "sends", node |-> r, message |-> <<>>] : r \in {r \in Ranks : Send(r)}}
    \cup {[act |-> "receives", node |-> ShowMessage(m).to, message |-> ShowMessage(m)] :
              m \in {m \in net : PathReceives(m) \/ RankReceives(m)}}
    \cup (IF Fail THEN {[act |-> "begins epoch " \o ToString(Current + 1), node |-> "manager", message |-> <<>>]} ELSE {})

ShowSlot(p, n) == LET s == places[p].slots[n] IN
    [name |-> "epoch " \o ToString(places[p].epoch) \o " slot", index |-> n, cell |-> n, from |-> s.bitmap, content |-> s.value]
ShowResult(r, i) == [name |-> "delivers", index |-> i - 1, content |-> results[r][i]]
ShowNode(n) ==
    IF n \in Ranks
    THEN {ShowResult(n, i) : i \in DOMAIN results[n]}
         \cup {[text |-> "reports " \o ToString(report[e][n]) \o " results for epoch " \o ToString(e)] :
                   e \in {e \in 1 .. Epochs - 1 : report[e][n] # None}}
    ELSE IF n \in Paths THEN {ShowSlot(n, k) : k \in {k \in DOMAIN places[n].slots : places[n].slots[k].bitmap # {}}}
    ELSE {[text |-> "epoch " \o ToString(i - 1) \o " on " \o path[i]] : i \in DOMAIN path}
ShowNodes == [n \in ShowParent |-> ShowNode(n)]
==================================================================================
