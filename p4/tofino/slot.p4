// Which cell the slot serves, and who has contributed (spec section 9.1), with one visit of each register: tag, then
// bitmap, then flags. A stateful ALU can not wait for a decision, so a newer contribution takes the slot at once: there
// is no window_guard (EPIC-M3-04 without the capability).
#ifndef EPIC_TOFINO_SLOT_P4
#define EPIC_TOFINO_SLOT_P4

#include "../common/types.p4"
#include "../common/decide.p4"

control Slot(inout meta_t meta) {
    Register<bit<32>, bit<32>>(CELLS) tag;
    Register<children_t, bit<32>>(CELLS) bitmap;
    Register<bit<8>, bit<32>>(CELLS) flags;
    Decide() decide;

    // -- tag: of a contribution the newest cell stays

    RegisterAction<bit<32>, bit<32>, bit<32>>(tag) tag_take = {
        void apply(inout bit<32> value, out bit<32> ahead) {
            ahead = meta.cell - value;
            if ((int<32>)(meta.cell - value) > 0) {
                value = meta.cell;
            }
        }
    };
    RegisterAction<bit<32>, bit<32>, bit<32>>(tag) tag_look = {
        void apply(inout bit<32> value, out bit<32> ahead) {
            ahead = meta.cell - value;
        }
    };

    action take() {
        meta.ahead = tag_take.execute(meta.slot);
    }

    action look() {
        meta.ahead = tag_look.execute(meta.slot);
    }

    @hidden
    table tags {
        key = { meta.kind: exact; }
        actions = { take; look; @defaultonly NoAction; }
        const entries = {
            KIND_CONTRIBUTION: take();
            KIND_RESULT: look();
        }
        const default_action = NoAction;
        size = 2;
    }

    // -- bitmap: `before` is empty for a cell that takes the slot

    RegisterAction<children_t, bit<32>, children_t>(bitmap) bitmap_begin = {
        void apply(inout children_t value, out children_t before) {
            value = meta.child_bit;
            before = 0;
        }
    };
    RegisterAction<children_t, bit<32>, children_t>(bitmap) bitmap_join = {
        void apply(inout children_t value, out children_t before) {
            before = value;
            value = value | meta.child_bit;
        }
    };
    RegisterAction<children_t, bit<32>, children_t>(bitmap) bitmap_look = {
        void apply(inout children_t value, out children_t before) {
            before = value;
        }
    };

    action begin_map() {
        meta.before = bitmap_begin.execute(meta.slot);
    }

    action join_map() {
        meta.before = bitmap_join.execute(meta.slot);
    }

    action look_at_map() {
        meta.before = bitmap_look.execute(meta.slot);
    }

    @hidden
    table maps {
        key = {
            meta.kind: ternary;
            meta.ahead: ternary;
        }
        actions = { begin_map; join_map; look_at_map; @defaultonly NoAction; }
        const entries = {
            (KIND_RESULT, _): look_at_map();
            (KIND_CONTRIBUTION, 0): join_map();
            (KIND_CONTRIBUTION, 32w0x80000000 &&& 32w0x80000000): look_at_map();
            (KIND_CONTRIBUTION, _): begin_map();
        }
        const default_action = NoAction;
        size = 4;
    }

    // -- what that says, and flags: those of a repetition change nothing

    RegisterAction<bit<8>, bit<32>, bit<8>>(flags) flags_begin = {
        void apply(inout bit<8> value, out bit<8> before) {
            value = meta.begin_flags;
            before = 0;
        }
    };
    RegisterAction<bit<8>, bit<32>, bit<8>>(flags) flags_join = {
        void apply(inout bit<8> value, out bit<8> before) {
            before = value;
            value = value | meta.join_flags;
        }
    };
    RegisterAction<bit<8>, bit<32>, bit<8>>(flags) flags_finish = {
        void apply(inout bit<8> value, out bit<8> before) {
            before = value;
            value = value | meta.finish_flags;
        }
    };
    RegisterAction<bit<8>, bit<32>, bit<8>>(flags) flags_look = {
        void apply(inout bit<8> value, out bit<8> before) {
            before = value;
        }
    };

    action begin(bit<1> full) {
        meta.age = AGE_NEWER;
        meta.seen = 0;
        meta.full = full;
        meta.flags = flags_begin.execute(meta.slot);
    }

    action join() {
        meta.age = AGE_EQUAL;
        meta.seen = 0;
        meta.full = 0;
        meta.flags = flags_join.execute(meta.slot);
    }

    // The last contribution at an inner engine: not done yet.
    action complete() {
        meta.age = AGE_EQUAL;
        meta.seen = 0;
        meta.full = 1;
        meta.flags = flags_join.execute(meta.slot);
    }

    // The last contribution at the root, or the result.
    action finish() {
        meta.age = AGE_EQUAL;
        meta.seen = 0;
        meta.full = 1;
        meta.flags = flags_finish.execute(meta.slot);
    }

    action look_at_flags(bit<2> age, bit<1> seen, bit<1> full) {
        meta.age = age;
        meta.seen = seen;
        meta.full = full;
        meta.flags = flags_look.execute(meta.slot);
    }

    @hidden
    table view {
        key = {
            meta.kind: ternary;
            meta.ahead: ternary;
            meta.seen_bit: ternary;
            meta.lacks_others: ternary;
            meta.lacks: ternary;
            meta.root: ternary;
        }
        actions = { begin; join; complete; finish; look_at_flags; @defaultonly NoAction; }
        const entries = {
            (KIND_RESULT, 0, _, _, 0, _): finish();
            (KIND_RESULT, 0, _, _, _, _): look_at_flags(AGE_EQUAL, 0, 0);
            (KIND_RESULT, 32w0x80000000 &&& 32w0x80000000, _, _, _, _): look_at_flags(AGE_OLDER, 0, 0);
            (KIND_RESULT, _, _, _, _, _): look_at_flags(AGE_NEWER, 0, 0);
            (KIND_CONTRIBUTION, 0, 0, 0, _, 0): complete();
            (KIND_CONTRIBUTION, 0, 0, 0, _, 1): finish();
            (KIND_CONTRIBUTION, 0, 0, _, _, _): join();
            (KIND_CONTRIBUTION, 0, _, _, 0, _): look_at_flags(AGE_EQUAL, 1, 1);
            (KIND_CONTRIBUTION, 0, _, _, _, _): look_at_flags(AGE_EQUAL, 1, 0);
            (KIND_CONTRIBUTION, 32w0x80000000 &&& 32w0x80000000, _, _, _, _): look_at_flags(AGE_OLDER, 0, 0);
            (KIND_CONTRIBUTION, _, _, 0, _, _): begin(1);
            (KIND_CONTRIBUTION, _, _, _, _, _): begin(0);
        }
        const default_action = NoAction;
        size = 12;
    }

    apply {
        tags.apply();
        maps.apply();
        meta.seen_bit = meta.before & meta.child_bit;
        meta.lacks_others = meta.before ^ meta.others;
        meta.lacks = meta.before ^ meta.full_map;
        view.apply();
        decide.apply(meta);
    }
}

// What the flags become, worked out before the slot is looked at. A cell of one child is complete when it begins.
control Flags(inout headers_t hdr, inout meta_t meta) {
    action add(bit<8> begin_flags, bit<8> join_flags, bit<8> finish_flags) {
        meta.begin_flags = begin_flags;
        meta.join_flags = join_flags;
        meta.finish_flags = finish_flags;
    }

    @hidden
    table marks {
        key = {
            hdr.ipv4.ecn: ternary;
            meta.root: ternary;
            meta.others: ternary;
        }
        actions = { add; }
        const entries = {
            // begin, join, finish: congested 4, served 2, done 1
            (ECN_CE, 1, 0): add(7, 6, 7);
            (ECN_CE, 1, _): add(6, 6, 7);
            (ECN_CE, 0, _): add(6, 6, 5);
            (_, 1, 0): add(3, 2, 3);
            (_, 1, _): add(2, 2, 3);
        }
        // A result makes done what contributions have made served.
        const default_action = add(2, 2, 1);
        size = 5;
    }

    apply {
        marks.apply();
    }
}

#endif
