--------------------------------- MODULE Values ---------------------------------
(* Contributions, the value of a cell and results: epic.md, sections 3.3, 4.3, 4.4 and 5. Shared by every mode.       *)
(* A payload is symbolic: the set of <<rank, cell>> whose data is summed in it. NULL has length 0 and sums nothing.   *)
(* The conflict record of an ERR cell is left out: it is copied, and decides nothing.                                 *)
EXTENDS Integers, Sequences
CONSTANTS Ranks,   \* strings
          Broken   \* names of guards that are taken away: {} for the protocol, one name for a mutant
Has(guard) == guard \notin Broken

(* A descriptor is [prim, op, rank]. Every primitive is a masked AllReduce: who gives and who takes a payload. *)
Gives(d) == CASE d.op = "NONE" -> {} [] d.prim = "BROADCAST" -> {d.rank} \cap Ranks [] OTHER -> Ranks
Takes(d) == CASE d.op = "NONE" -> {} [] d.prim = "REDUCE" -> {d.rank} \cap Ranks [] OTHER -> Ranks
NoDesc == [prim |-> "none", op |-> "none", rank |-> "none"]

(* A call is [desc, len, last, err]: len as the rank expects it, last cell of a run or not, err for one who gives up. *)
(* In the last cell of a Broadcast run ranks send zeros for NULL (EPIC-D-08): a length that sums nothing.             *)
Contribution(r, s, call) ==
    LET gives == ~call.err /\ r \in Gives(call.desc)
        zeros == ~call.err /\ call.desc.op # "NONE" /\ call.desc.prim = "BROADCAST" /\ call.last
    IN [desc |-> call.desc, err |-> call.err, len |-> IF gives \/ zeros THEN call.len ELSE 0,
        sum |-> IF gives THEN {<<r, s>>} ELSE {}]

(* Addition of payloads: what is counted twice leaves a mark that no right result has. *)
Plus(a, b) == a \cup b \cup {<<x[1], x[2], "twice">> : x \in a \cap b}

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y

(* An engine's value of a cell, and what a contribution x does to it (section 4.3). *)
Fresh == [held |-> NoDesc, len |-> 0, err |-> FALSE, sum |-> {}]
Add(v, x) ==
    LET held == IF v.held = NoDesc THEN x.desc ELSE v.held                                                 \* EPIC-D-01
        len == IF v.len = 0 /\ ~x.err THEN x.len ELSE v.len
        differs == \/ Has("agree_descriptor") /\ x.desc # held                             \* EPIC-D-02
                   \/ Has("agree_length") /\ ~x.err /\ x.len # 0 /\ x.len # len
        err == v.err \/ differs \/ (Has("agree_err") /\ x.err)                                \* EPIC-D-03
    IN [held |-> held, len |-> IF err THEN 0 ELSE len, err |-> err, sum |-> IF err THEN {} ELSE Plus(v.sum, x.sum)]

(* The value as a partial or as a result. *)
Output(v) == [desc |-> v.held, err |-> Has("send_err") /\ v.err, len |-> v.len, sum |-> v.sum] \* EPIC-D-04

(* What a child with these ranks below it may see of a result x (section 4.4). *)
ForChild(below, x) ==
    IF x.desc.prim = "REDUCE" /\ ~x.err /\ x.len # 0 /\ x.desc.rank \notin below /\ Has("mask_result")
    THEN [x EXCEPT !.len = 0, !.sum = {}] ELSE x

Error == [err |-> TRUE, len |-> 0, sum |-> {}]
Null == [err |-> FALSE, len |-> 0, sum |-> {}]
(* What rank r, which contributed `own` to cell s by one of `calls`, makes of the result x (EPIC-D-07). *)
ExpectedLengths(r, s, own, calls) ==
    {IF r \in Takes(call.desc) THEN call.len ELSE 0 : call \in {k \in calls : Contribution(r, s, k) = own}}
Received(r, s, own, calls, x) ==
    IF \/ Has("rank_err") /\ x.err
       \/ Has("rank_descriptor") /\ x.desc # own.desc
       \/ Has("rank_length") /\ x.len \notin ExpectedLengths(r, s, own, calls)
    THEN Error ELSE [err |-> FALSE, len |-> x.len, sum |-> x.sum]
=================================================================================
