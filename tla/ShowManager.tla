------------------------------- MODULE ShowManager --------------------------------
(* How counterexamples of Manager are shown as message sequences (`epic check tla --render`): the calls of a state, the   *)
(* actions that lead from one state to the next, and what each node keeps. Not part of any proof.                       *)
EXTENDS Manager, Sequences, TLC

ShowParent == Groups \cup Engines \cup {"manager"}    \* the nodes, for there is no tree

ShowMessage(m) == [from |-> "manager", to |-> m.x, kind |-> m.call \o " " \o ToString(m.g) \o " epoch", cell |-> m.epoch, content |-> <<>>]
ShowMessages == {ShowMessage(m) : m \in net}

Does(act, node, holds) == IF holds THEN {[act |-> act, node |-> node, message |-> <<>>]} ELSE {}
ShowActions ==
    UNION {Does("asks for a lease", g, Ask(g)) \cup Does("renews its lease", g, Renew(g))
           \cup Does("gives its lease back", g, GiveBack(g)) \cup Does("stops", g, Stop(g)) \cup Does("crashes", g, AgentCrash(g))
           \cup Does("grants " \o ToString(g), "manager", Grant(g)) \cup Does("refuses " \o ToString(g), "manager", Refuse(g))
           \cup Does("makes the lease of " \o ToString(g) \o " active", "manager", Activate(g))
           \cup Does("takes the lease of " \o ToString(g) \o " back", "manager", Expire(g) \/ Lost(g))
           \cup Does("has freed the lease of " \o ToString(g), "manager", Freed(g))
           \cup UNION {Does("calls " \o x \o " for " \o ToString(g), "manager", Call(g, x))
                       \cup Does("sees that " \o x \o " is done with " \o ToString(g), "manager", See(g, x)) : x \in Engines} : g \in Groups}
    \cup UNION {Does("crashes", x, EngineCrash(x)) : x \in Engines}
    \cup Does("crashes", "manager", ManagerCrash) \cup Does("starts again", "manager", ManagerStart)
    \cup Does("time goes on", "manager", Tick)
    \cup {[act |-> "receives", node |-> m.x, message |-> ShowMessage(m)] : m \in {m \in net : Carry(m)}}
    \cup {[act |-> "loses", node |-> m.x, message |-> ShowMessage(m)] : m \in {m \in net : Lose(m)}}

Lease(g) == "lease of " \o ToString(g) \o ": " \o store[g].state \o ", epoch " \o ToString(store[g].epoch)
            \o ", time left " \o ToString(store[g].left) \o ", slots " \o ToString(store[g].slots)
ShowNode(n) ==
    IF n \in Groups THEN {[text |-> agent[n].state \o ", time left " \o ToString(agent[n].left)]}
    ELSE IF n \in Engines
    THEN {[text |-> "has " \o ToString(entry.g) \o ", epoch " \o ToString(entry.epoch) \o ", slots " \o ToString(entry.slots)] :
              entry \in installed[n]}
    ELSE {[text |-> Lease(g)] : g \in Groups}
ShowNodes == [n \in ShowParent |-> ShowNode(n)]
==================================================================================
