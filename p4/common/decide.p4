// The transition table of Mode III (spec section 9.2): what the packet is, and how it finds its slot, to what happens.
// One entry a row; `full` is the bitmap with this packet's bit, of its own cell alone when that is newer.
#ifndef EPIC_DECIDE_P4
#define EPIC_DECIDE_P4

#include "types.p4"

control Decide(inout meta_t meta) {
    // Nothing happens; the packet is counted.
    action leave(bit<8> outcome) {
        meta.outcome = outcome;
    }

    action collect() {
        meta.outcome = COUNTER_RX_CONTRIBUTION;
        meta.counted = 1;
    }

    // The last contribution, at an inner engine: the partial goes up.
    action pass_up() {
        meta.outcome = COUNTER_RX_CONTRIBUTION;
        meta.counted = 1;
        meta.completed = 1;
        meta.sent = COUNTER_TX_PARTIAL;
        meta.send_to = meta.parent;
    }

    // The last contribution, at the root: the result is known and goes down.
    action finish() {
        meta.outcome = COUNTER_RX_CONTRIBUTION;
        meta.counted = 1;
        meta.completed = 1;
        meta.finished = 1;
        meta.sent = COUNTER_TX_RESULT;
        meta.send_to = meta.children;
    }

    // `whole`: the slot keeps the result as it came from the parent, with its own NULL and ERR.
    action replay(bit<1> whole) {
        meta.outcome = COUNTER_RX_DUPLICATE;
        meta.whole = whole;
        meta.sent = COUNTER_TX_REPLAY;
        meta.send_to = meta.edge_id;
    }

    action resend() {
        meta.outcome = COUNTER_RX_DUPLICATE;
        meta.sent = COUNTER_TX_RESEND;
        meta.send_to = meta.parent;
    }

    // The result, from the parent.
    action accept_result() {
        meta.outcome = COUNTER_RX_RESULT;
        meta.accepted = 1;
        meta.finished = 1;
        meta.whole = 1;
        meta.sent = COUNTER_TX_RESULT;
        meta.send_to = meta.children;
    }

    @hidden
    table transitions {
        key = {
            meta.kind: ternary;
            meta.age: ternary;
            meta.overrun: ternary;
            meta.seen: ternary;
            meta.full: ternary;
            meta.flags[0:0]: ternary;  // done
            meta.flags[1:1]: ternary;  // served
            meta.child_bit[0:0]: ternary;
            meta.root: ternary;
        }
        actions = { leave; collect; pass_up; finish; replay; resend; accept_result; }
        const entries = {
            // kind, age, overrun, seen, full, done, served, child 0, root
            (KIND_CONTRIBUTION, AGE_OLDER, _, _, _, _, _, _, _): leave(COUNTER_RX_STALE);
            (KIND_CONTRIBUTION, AGE_NEWER, 1, _, _, _, _, _, _): leave(COUNTER_DROP_WINDOW);
            (KIND_CONTRIBUTION, AGE_NEWER, 0, _, 0, _, _, _, _): collect();
            (KIND_CONTRIBUTION, AGE_NEWER, 0, _, 1, _, _, _, 0): pass_up();
            (KIND_CONTRIBUTION, AGE_NEWER, 0, _, 1, _, _, _, 1): finish();
            (KIND_CONTRIBUTION, AGE_EQUAL, _, 0, 0, _, _, _, _): collect();
            (KIND_CONTRIBUTION, AGE_EQUAL, _, 0, 1, _, _, _, 0): pass_up();
            (KIND_CONTRIBUTION, AGE_EQUAL, _, 0, 1, _, _, _, 1): finish();
            (KIND_CONTRIBUTION, AGE_EQUAL, _, 1, _, 1, 1, _, 0): replay(1);
            (KIND_CONTRIBUTION, AGE_EQUAL, _, 1, _, 1, 1, _, 1): replay(0);
            (KIND_CONTRIBUTION, AGE_EQUAL, _, 1, 1, 0, _, 1, 0): resend();
            (KIND_CONTRIBUTION, AGE_EQUAL, _, 1, _, _, _, _, _): leave(COUNTER_RX_DUPLICATE);
            (KIND_RESULT, AGE_OLDER, _, _, _, _, _, _, _): leave(COUNTER_RX_STALE);
            (KIND_RESULT, AGE_EQUAL, _, _, 1, 0, _, _, _): accept_result();
            (KIND_RESULT, AGE_EQUAL, _, _, 1, 1, _, _, _): leave(COUNTER_RX_DUPLICATE);
        }
        // A result that is newer than the slot, or of a cell that is not complete here.
        const default_action = leave(COUNTER_DROP_UNEXPECTED);
    }

    apply {
        transitions.apply();
    }
}

#endif
