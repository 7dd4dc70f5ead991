------------------------------- MODULE MCManager --------------------------------
(* Sizes of the configurations of Manager. Two groups want the one slot of an engine, or the two slots of two engines. *)
EXTENDS Manager, TLC
CONSTANTS g1, g2, g3
Single == {g1}
Two == {g1, g2}
Three == {g1, g2, g3}
OneEngine == {"A"}
TwoEngines == {"A", "B"}
OneSlot == [x \in Engines |-> {1}]
TwoSlots == [x \in Engines |-> {1, 2}]
AB == [x \in Engines |-> IF x = "A" THEN {1, 2} ELSE {1}]
One == [g \in Groups |-> 1]
Everywhere == [g \in Groups |-> Engines]
(* g1 has a tree of two engines, g2 of one. *)
Mixed == [g \in Groups |-> IF g = g1 THEN Engines ELSE {"A"}]
Symmetric == Permutations(Groups)
==================================================================================
