------------------------------- MODULE Manager --------------------------------
(* Leases and admission: the manager gives groups slots of engines for a time, and takes them back (protocol.md,         *)
(* sections 5 and 6; EPIC-E-04, EPIC-E-18, EPIC-F-05). What is shown: no slot is granted twice, every expired lease is   *)
(* freed, installs that were left half done are finished or undone; manager, engines and agents may stop at any step and *)
(* start again.                                                                                                         *)
(*                                                                                                                      *)
(* The manager writes what it is about to do into a store that survives it. Calls to engines (net) may be lost, may      *)
(* arrive late and may be carried out twice, as when a client repeats a call whose answer it did not get. An engine       *)
(* that starts again has forgotten everything, and calls that waited for it are gone with its connections.              *)
(* Time is what is left of a lease: Tick takes one unit from each, whoever is up.                                       *)
(*                                                                                                                      *)
(* Two networks. Lossy: calls are made, lost and used up step by step, for liveness. Otherwise calls stay, and all that  *)
(* the manager may make are there at once. This loses no behaviour: a call that is not carried out is lost, one that is  *)
(* carried out later was made later, and nothing but Carry looks at net, so a behaviour with fewer calls in net is one   *)
(* with more in which those are left alone. Calls that can never again change anything are taken out (Dead).            *)
EXTENDS Integers, FiniteSets
CONSTANTS Groups, Engines,
          Slots,        \* Slots[x]: slots of engine x
          Demand,       \* Demand[g]: slots that g needs in each engine of its tree
          Tree,         \* Tree[g]: engines of its tree
          Term,         \* time of a lease
          Grants,       \* a group gets at most this many leases (bound for TLC)
          Crashes,      \* manager, engines and agents crash at most this often in all
          Lossy,        \* which network
          Broken        \* names of guards that are taken away
VARIABLES store,        \* durable. store[g]: [state, epoch, slots, left]; state "none", "installing", "active", "freeing"
          written,      \* groups whose entry in the store has been written (all, but for a mutant)
          up,           \* the manager runs
          seen,         \* volatile. seen[g]: engines that the manager has seen to have done the step of g's state
          installed,    \* installed[x]: entries [g, epoch, slots] of engine x
          removed,      \* removed[x][g]: newest epoch of g that x was told to remove
          net,          \* calls on their way: [call, x, g, epoch, slots]
          agent,        \* agent[g]: [state, epoch, left]; state "idle", "waiting", "holding". Idle ones run on their hosts
          wiped,        \* wiped[g]: newest epoch of g of which a crashed engine lost the entry
          crashes
vars == <<store, written, up, seen, installed, removed, net, agent, wiped, crashes>>
Has(guard) == guard \notin Broken

NoSlots == [x \in Engines |-> {}]
Free == [state |-> "none", epoch |-> 0, slots |-> NoSlots, left |-> 0]
Init ==
    /\ store = [g \in Groups |-> Free] /\ written = Groups /\ up = TRUE
    /\ seen = [g \in Groups |-> {}]
    /\ installed = [x \in Engines |-> {}] /\ removed = [x \in Engines |-> [g \in Groups |-> 0]]
    /\ net = {}
    /\ agent = [g \in Groups |-> [state |-> "idle", epoch |-> 0, left |-> 0]]
    /\ wiped = [g \in Groups |-> 0] /\ crashes = 0

Taken(x) == UNION {store[g].slots[x] : g \in Groups}
Entry(g) == [x \in Engines |-> [g |-> g, epoch |-> store[g].epoch, slots |-> store[g].slots[x]]]
(* What is left of a lease says nothing any more when it is taken back. *)
Step(g, state) == /\ store' = [store EXCEPT ![g].state = state, ![g].left = IF state = "freeing" THEN 0 ELSE @]
                  /\ seen' = [seen EXCEPT ![g] = {}]

(* The manager calls the engines again and again until it sees the step done, also those it called before it stopped. *)
Calling(g, x, st, se) == st[g].state \in {"installing", "freeing"} /\ x \in Tree[g] \ se[g]
CallOf(g, x, st) == IF st[g].state = "installing"
                    THEN [call |-> "install", x |-> x, g |-> g, epoch |-> st[g].epoch, slots |-> st[g].slots[x]]
                    ELSE [call |-> "remove", x |-> x, g |-> g, epoch |-> st[g].epoch, slots |-> {}]
Due(st, se) == UNION {{CallOf(g, x, st) : x \in {y \in Tree[g] : Calling(g, y, st, se)}} : g \in Groups}
(* The engine removed this epoch or a later one: it refuses the install, and has nothing to remove. It forgets that in a  *)
(* crash only, and then the call is gone too.                                                                           *)
Dead(m, rem) == m.epoch <= rem[m.x][m.g] /\ Has("fence") /\ Has("remove_epoch")
(* What is in the network after a step, `rest` without new calls. *)
Network(rest) == net' = IF Lossy THEN rest
                        ELSE {m \in rest \cup (IF up' THEN Due(store', seen') ELSE {}) : ~Dead(m, removed')}

-------------------------------------------------------------------------------
(* Agents. A group asks; it is told when its lease is in force; it renews, gives back, or dies. *)
Ask(g) ==
    /\ agent[g].state = "idle"
    /\ agent' = [agent EXCEPT ![g].state = "waiting"]
    /\ UNCHANGED <<store, written, up, seen, installed, removed, net, wiped, crashes>>
(* The store is written before the agent hears of it; the answer may be lost, then the agent's lease ends earlier. *)
Renew(g) ==
    /\ up /\ agent[g].left > 0 /\ store[g].state = "active"      \* only a holder has time left
    /\ store' = IF Has("renew_stored") THEN [store EXCEPT ![g].left = Term] ELSE store
    /\ \E heard \in IF Has("renew_stored") THEN BOOLEAN ELSE {TRUE} :
           agent' = IF heard THEN [agent EXCEPT ![g].left = Term] ELSE agent
    /\ UNCHANGED <<written, up, seen, installed, removed, net, wiped, crashes>>
(* Only a holder has the epoch of a lease in force. *)
GiveBack(g) ==
    /\ up /\ store[g].state = "active" /\ store[g].epoch = agent[g].epoch
    /\ agent' = [agent EXCEPT ![g] = [state |-> "idle", epoch |-> 0, left |-> 0]]
    /\ Step(g, "freeing")
    /\ UNCHANGED <<written, up, installed, removed, wiped, crashes>>
    /\ Network(net)
(* An agent whose lease ended, or whose group lost an engine, stops. *)
Stop(g) ==
    /\ agent[g].state = "holding" /\ (agent[g].left = 0 \/ wiped[g] >= agent[g].epoch)
    /\ agent' = [agent EXCEPT ![g] = [state |-> "idle", epoch |-> 0, left |-> 0]]
    /\ UNCHANGED <<store, written, up, seen, installed, removed, net, wiped, crashes>>

-------------------------------------------------------------------------------
(* Manager. Admission: slots that no entry of the store has, in every engine of the tree, and a new epoch. *)
Grant(g) ==
    /\ up /\ agent[g].state = "waiting" /\ store[g].state = "none" /\ store[g].epoch < Grants
    /\ \E choice \in [Tree[g] -> UNION {SUBSET Slots[x] : x \in Engines}] :
          /\ \A x \in Tree[g] : /\ Cardinality(choice[x]) = Demand[g]
                                /\ choice[x] \subseteq Slots[x] \ (IF Has("admission") THEN Taken(x) ELSE {})
          /\ store' = [store EXCEPT ![g] = [state |-> "installing", epoch |-> @.epoch + 1, left |-> Term,
                                            slots |-> [x \in Engines |-> IF x \in Tree[g] THEN choice[x] ELSE {}]]]
    /\ written' = IF Has("store_first") THEN written ELSE written \ {g}
    /\ seen' = [seen EXCEPT ![g] = {}]
    /\ UNCHANGED <<up, installed, removed, agent, wiped, crashes>>
    /\ Network(net)
(* Nothing to give: the group falls back to its hosts. *)
Refuse(g) ==
    /\ up /\ agent[g].state = "waiting"
    /\ \E x \in Tree[g] : Cardinality(Slots[x] \ Taken(x)) < Demand[g]
    /\ agent' = [agent EXCEPT ![g].state = "idle"]
    /\ UNCHANGED <<store, written, up, seen, installed, removed, net, wiped, crashes>>

Call(g, x) ==
    /\ Lossy /\ up /\ Calling(g, x, store, seen)
    /\ net' = net \cup {CallOf(g, x, store)} /\ net' # net
    /\ UNCHANGED <<store, written, up, seen, installed, removed, agent, wiped, crashes>>
(* It asks an engine for its groups. Absence alone does not say that an install is not on its way: only the removal does. *)
See(g, x) ==
    /\ up /\ x \in Tree[g] \ seen[g]
    /\ \/ store[g].state = "installing" /\ Entry(g)[x] \in installed[x]
       \/ /\ store[g].state = "freeing" /\ \A entry \in installed[x] : entry.g # g
          /\ removed[x][g] >= store[g].epoch \/ ~Has("see_removal")
    /\ seen' = [seen EXCEPT ![g] = @ \cup {x}]
    /\ UNCHANGED <<store, written, up, installed, removed, agent, wiped, crashes>>
    /\ Network(net)
(* All engines have the group: the lease is in force, and the agent, if it still waits, is told. *)
Activate(g) ==
    /\ up /\ store[g].state = "installing" /\ store[g].left > 0
    /\ Tree[g] \subseteq seen[g] \/ ~Has("all_installed")
    /\ Step(g, "active") /\ written' = written \cup {g}
    /\ agent' = IF agent[g].state = "waiting"
                THEN [agent EXCEPT ![g] = [state |-> "holding", epoch |-> store[g].epoch, left |-> store[g].left]] ELSE agent
    /\ UNCHANGED <<up, installed, removed, wiped, crashes>>
    /\ Network(net)
(* The lease has ended, or an engine has lost the group (found by asking it): take everything back. *)
Expire(g) ==
    /\ up /\ store[g].state \in {"installing", "active"}
    /\ store[g].left = 0 \/ ~Has("expired")
    /\ Has("expire")
    /\ Step(g, "freeing")
    /\ UNCHANGED <<written, up, installed, removed, agent, wiped, crashes>>
    /\ Network(net)
Lost(g) ==
    /\ up /\ store[g].state = "active" /\ Has("lost")
    /\ \E x \in Tree[g] : Entry(g)[x] \notin installed[x]
    /\ Step(g, "freeing")
    /\ UNCHANGED <<written, up, installed, removed, agent, wiped, crashes>>
    /\ Network(net)
(* The slots are free for others when no engine of the tree has the group or can get it. *)
Freed(g) ==
    /\ up /\ store[g].state = "freeing"
    /\ Tree[g] \subseteq seen[g] \/ ~Has("all_removed")
    /\ store' = [store EXCEPT ![g] = [Free EXCEPT !.epoch = store[g].epoch]]
    /\ seen' = [seen EXCEPT ![g] = {}]
    /\ UNCHANGED <<written, up, installed, removed, agent, wiped, crashes>>
    /\ Network(net)

-------------------------------------------------------------------------------
(* Engines. An install of an epoch that was removed comes late and is refused. *)
Handle(m, net2) ==
    /\ IF m.call = "install"
       THEN /\ installed' = IF m.epoch > removed[m.x][m.g] \/ ~Has("fence")
                            THEN [installed EXCEPT ![m.x] = {entry \in @ : entry.g # m.g} \cup {[g |-> m.g, epoch |-> m.epoch, slots |-> m.slots]}]
                            ELSE installed
            /\ UNCHANGED removed
       ELSE /\ installed' = [installed EXCEPT ![m.x] = {entry \in @ : entry.g # m.g \/ (entry.epoch > m.epoch /\ Has("remove_epoch"))}]
            /\ removed' = [removed EXCEPT ![m.x][m.g] = IF @ > m.epoch THEN @ ELSE m.epoch]
    /\ UNCHANGED <<store, written, up, seen, agent, wiped, crashes>>
    /\ Network(net2)
Carry(m) == \E net2 \in IF Lossy THEN {net, net \ {m}} ELSE {net} : Handle(m, net2)
Lose(m) == /\ Lossy /\ net' = net \ {m}
           /\ UNCHANGED <<store, written, up, seen, installed, removed, agent, wiped, crashes>>

-------------------------------------------------------------------------------
(* Time and faults. *)
Less(n) == IF n > 0 THEN n - 1 ELSE 0
Tick ==
    /\ store' = [g \in Groups |-> [store[g] EXCEPT !.left = Less(@)]]
    /\ agent' = [g \in Groups |-> [agent[g] EXCEPT !.left = Less(@)]]
    /\ UNCHANGED <<written, up, seen, installed, removed, net, wiped, crashes>>
Crash == crashes < Crashes /\ crashes' = crashes + 1
ManagerCrash ==
    /\ Crash /\ up /\ up' = FALSE
    /\ seen' = [g \in Groups |-> {}]
    /\ store' = [g \in Groups |-> IF g \in written /\ Has("durable") THEN store[g] ELSE [Free EXCEPT !.epoch = store[g].epoch]]
    /\ written' = Groups
    /\ UNCHANGED <<installed, removed, agent, wiped>>
    /\ Network(net)
ManagerStart == /\ ~up /\ up' = TRUE
                /\ UNCHANGED <<store, written, seen, installed, removed, agent, wiped, crashes>>
                /\ Network(net)
EngineCrash(x) ==
    /\ Crash
    /\ wiped' = [g \in Groups |-> IF \E entry \in installed[x] : entry.g = g
                                THEN (CHOOSE entry \in installed[x] : entry.g = g).epoch ELSE wiped[g]]
    /\ installed' = [installed EXCEPT ![x] = {}]
    /\ removed' = [removed EXCEPT ![x] = [g \in Groups |-> 0]]
    /\ UNCHANGED <<store, written, up, seen, agent>>
    /\ Network({m \in net : m.x # x})
AgentCrash(g) ==
    /\ Crash /\ agent[g].state # "idle"
    /\ agent' = [agent EXCEPT ![g] = [state |-> "idle", epoch |-> 0, left |-> 0]]
    /\ UNCHANGED <<store, written, up, seen, installed, removed, net, wiped>>

Manage(g) == Grant(g) \/ Refuse(g) \/ Activate(g) \/ Expire(g) \/ Lost(g) \/ Freed(g)
Next == \/ \E g \in Groups : Ask(g) \/ Renew(g) \/ GiveBack(g) \/ Stop(g) \/ Manage(g) \/ AgentCrash(g)
        \/ \E g \in Groups, x \in Engines : Call(g, x) \/ See(g, x)
        \/ \E m \in net : Carry(m) \/ Lose(m)
        \/ \E x \in Engines : EngineCrash(x)
        \/ Tick \/ ManagerCrash \/ ManagerStart
Spec == Init /\ [][Next]_vars

(* Fairness: time goes on, a manager that stopped is started, does what it can do, and calls that are made again and     *)
(* again are carried out.                                                                                               *)
SomeCarry == \E m \in net : m.epoch = store[m.g].epoch
                            /\ m.call = (IF store[m.g].state = "freeing" THEN "remove" ELSE "install")
                            /\ m.x \notin seen[m.g] /\ store[m.g].state \in {"installing", "freeing"}
                            /\ Carry(m) /\ <<installed, removed>>' # <<installed, removed>>
FairSpec == /\ Spec /\ WF_vars(Tick) /\ WF_vars(ManagerStart) /\ SF_vars(SomeCarry)
            /\ WF_vars(\E g \in Groups : Expire(g) \/ Lost(g) \/ Freed(g))
            /\ WF_vars(\E g \in Groups, x \in Engines : Has("call_again") /\ Call(g, x))
            /\ WF_vars(\E g \in Groups, x \in Engines : See(g, x))

-------------------------------------------------------------------------------
TypeOK ==
    /\ \A g \in Groups : /\ store[g].state \in {"none", "installing", "active", "freeing"}
                         /\ store[g].epoch \in 0 .. Grants /\ store[g].left \in 0 .. Term
                         /\ \A x \in Engines : store[g].slots[x] \subseteq Slots[x]
                         /\ agent[g].state \in {"idle", "waiting", "holding"} /\ agent[g].left \in 0 .. Term
                         /\ seen[g] \subseteq Tree[g]
                         /\ agent[g].state # "holding" => agent[g].epoch = 0 /\ agent[g].left = 0
                         /\ store[g].state \in {"none", "freeing"} => store[g].left = 0
                         /\ store[g].state \in {"installing", "active"} =>
                                \A x \in Tree[g] : Cardinality(store[g].slots[x]) = Demand[g]
    /\ crashes \in 0 .. Crashes
(* No slot is granted twice: neither in the store nor in an engine. *)
NotTwice == \A x \in Engines : \A g, h \in Groups : g # h => store[g].slots[x] \cap store[h].slots[x] = {}
NotInstalledTwice == \A x \in Engines : \A a, b \in installed[x] : a # b => a.g # b.g /\ a.slots \cap b.slots = {}
(* What the store calls free is free in the engine. *)
FreeIsFree == \A x \in Engines : \A entry \in installed[x] : entry.slots \subseteq store[entry.g].slots[x]
(* A holder has what it was granted, as long as its lease lasts: it was not freed early. *)
HolderHas == \A g \in Groups : agent[g].state = "holding" /\ agent[g].left > 0 /\ wiped[g] < agent[g].epoch =>
                 /\ store[g].epoch = agent[g].epoch
                 /\ \A x \in Tree[g] : [g |-> g, epoch |-> agent[g].epoch, slots |-> store[g].slots[x]] \in installed[x]
(* The agent never thinks its lease longer than the manager does. *)
LeaseOrder == \A g \in Groups : agent[g].state = "holding" /\ agent[g].left > 0 /\ store[g].state = "active" => agent[g].left <= store[g].left
(* What may become of a lease: nobody gets one unasked, none begins when its time is over, one that is whole is kept     *)
(* until its time is over or it is given back, and what was seen is forgotten only with the step that it was for.        *)
StoreSteps == [][\A g \in Groups : LET old == store[g]  new == store'[g] IN
    /\ new.state # old.state =>
           \/ old.state = "none" /\ new.state = "installing" /\ agent[g].state = "waiting"
           \/ old.state = "installing" /\ new.state = "active" /\ old.left > 0
           \/ old.state = "installing" /\ new.state = "freeing" /\ old.left = 0
           \/ old.state = "active" /\ new.state = "freeing"
           \/ old.state = "freeing" /\ new.state = "none"
    /\ new.epoch # old.epoch => old.state = "none" /\ new.epoch > old.epoch
    /\ seen[g] \subseteq seen'[g] \/ new.state # old.state \/ ~up']_vars
(* What may become of an agent: it waits when it has asked, is refused when the slots are not there, holds until its     *)
(* lease ends, an engine is lost or it gives back, and does not go on with a lease that ended.                          *)
AgentSteps == [][\A g \in Groups : LET old == agent[g]  new == agent'[g] IN
    /\ new.left > old.left => new.state = "holding" /\ (old.state = "waiting" \/ old.left > 0)
    /\ new.state # old.state =>
           \/ old.state = "idle" /\ new.state = "waiting"
           \/ old.state = "waiting" /\ new.state = "holding"
           \/ old.state = "waiting" /\ new.state = "idle" /\ \E x \in Tree[g] : Cardinality(Slots[x] \ Taken(x)) < Demand[g]
           \/ old.state = "holding" /\ new.state = "idle"
              /\ (old.left = 0 \/ wiped[g] >= old.epoch \/ store'[g].state = "freeing")
           \/ new.state = "idle" /\ crashes' > crashes]_vars
(* A manager that does not run does nothing: no step for a group, no call, and no agent hears of it. *)
StoppedIsSilent == [][~up /\ ~up' =>
    /\ seen' = seen /\ (Lossy => net' \subseteq net)
    /\ \A g \in Groups : /\ [store'[g] EXCEPT !.left = 0] = [store[g] EXCEPT !.left = 0] /\ store'[g].left <= store[g].left
                         /\ agent[g].state = "waiting" /\ agent'[g] # agent[g] => crashes' # crashes]_vars

(* Every lease that ended is freed: its slots in the store, and its entries in the engines. *)
ExpiredIsFreed == \A g \in Groups : (store[g].state # "none" /\ store[g].left = 0) ~> (store[g].state = "none" \/ store[g].left > 0)
FreeingEnds == \A g \in Groups : (store[g].state = "freeing") ~> (store[g].state = "none")
HalfDone == \A g \in Groups : (store[g].state = "installing") ~> (store[g].state # "installing")
LostIsFreed == \A g \in Groups :
    (store[g].state = "active" /\ \E x \in Tree[g] : Entry(g)[x] \notin installed[x]) ~> (store[g].state # "active")
===============================================================================
