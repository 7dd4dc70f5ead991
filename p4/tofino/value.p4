// What the cell's contributions agree on, and what is sent of it (spec sections 4.3 and 5.1), with one visit of each
// register: descriptor and length side by side, then ERR. What is to be done with the payload words does not wait for
// ERR: of a poisoned cell nobody sees them.
#ifndef EPIC_TOFINO_VALUE_P4
#define EPIC_TOFINO_VALUE_P4

#include "../common/types.p4"

#define STRIP_CHUNK(c) hdr.words_##c.setInvalid();

control Value(inout headers_t hdr, inout meta_t meta) {
    Register<bit<32>, bit<32>>(CELLS) descriptor;
    Register<bit<16>, bit<32>>(CELLS) length;
    Register<bit<8>, bit<32>>(CELLS) err;

    // -- descriptor: the agreement part of the first contribution; then, of a result from the parent, all of it

    RegisterAction<bit<32>, bit<32>, bit<32>>(descriptor) descriptor_begin = {
        void apply(inout bit<32> value, out bit<32> held) {
            value = meta.agreement;
            held = meta.agreement;
        }
    };
    RegisterAction<bit<32>, bit<32>, bit<32>>(descriptor) descriptor_keep = {
        void apply(inout bit<32> value, out bit<32> held) {
            value = meta.word;
            held = meta.word;
        }
    };
    RegisterAction<bit<32>, bit<32>, bit<32>>(descriptor) descriptor_look = {
        void apply(inout bit<32> value, out bit<32> held) {
            held = value;
        }
    };

    action begin_descriptor() {
        meta.held = descriptor_begin.execute(meta.slot);
    }

    action keep_descriptor() {
        meta.held = descriptor_keep.execute(meta.slot);
    }

    action look_at_descriptor() {
        meta.held = descriptor_look.execute(meta.slot);
    }

    @hidden
    table descriptors {
        key = {
            meta.kind: ternary;
            meta.age: ternary;
            meta.full: ternary;
            meta.flags[0:0]: ternary;  // done
        }
        actions = { begin_descriptor; keep_descriptor; look_at_descriptor; @defaultonly NoAction; }
        const entries = {
            (KIND_CONTRIBUTION, AGE_NEWER, _, _): begin_descriptor();
            (KIND_CONTRIBUTION, _, _, _): look_at_descriptor();
            (KIND_RESULT, AGE_EQUAL, 1, 0): keep_descriptor();
        }
        const default_action = NoAction;
        size = 3;
    }

    // -- length: of the first payload; 0 is no payload yet

    RegisterAction<bit<16>, bit<32>, bit<16>>(length) length_begin = {
        void apply(inout bit<16> value, out bit<16> before) {
            value = meta.counted_bytes;
            before = 0;
        }
    };
    RegisterAction<bit<16>, bit<32>, bit<16>>(length) length_join = {
        void apply(inout bit<16> value, out bit<16> before) {
            before = value;
            if (value == 0) {
                value = meta.counted_bytes;
            }
        }
    };
    RegisterAction<bit<16>, bit<32>, bit<16>>(length) length_keep = {
        void apply(inout bit<16> value, out bit<16> before) {
            value = meta.bytes;
            before = meta.bytes;
        }
    };
    RegisterAction<bit<16>, bit<32>, bit<16>>(length) length_look = {
        void apply(inout bit<16> value, out bit<16> before) {
            before = value;
        }
    };

    action begin_length() {
        meta.length_before = length_begin.execute(meta.slot);
    }

    action join_length() {
        meta.length_before = length_join.execute(meta.slot);
    }

    action keep_length() {
        meta.length_before = length_keep.execute(meta.slot);
    }

    action look_at_length() {
        meta.length_before = length_look.execute(meta.slot);
    }

    @hidden
    table lengths {
        key = {
            meta.kind: ternary;
            meta.age: ternary;
            meta.seen: ternary;
            meta.full: ternary;
            meta.flags[0:0]: ternary;  // done
        }
        actions = { begin_length; join_length; keep_length; look_at_length; @defaultonly NoAction; }
        const entries = {
            (KIND_CONTRIBUTION, AGE_NEWER, _, _, _): begin_length();
            (KIND_CONTRIBUTION, AGE_EQUAL, 0, _, _): join_length();
            (KIND_CONTRIBUTION, _, _, _, _): look_at_length();
            (KIND_RESULT, AGE_EQUAL, _, 1, 0): keep_length();
        }
        const default_action = NoAction;
        size = 4;
    }

    // -- ERR: of the contribution itself, what the group lacks, or a disagreement

    RegisterAction<bit<8>, bit<32>, bit<8>>(err) err_begin_right = {
        void apply(inout bit<8> value, out bit<8> before) {
            value = 0;
            before = 0;
        }
    };
    RegisterAction<bit<8>, bit<32>, bit<8>>(err) err_begin_wrong = {
        void apply(inout bit<8> value, out bit<8> before) {
            value = 1;
            before = 0;
        }
    };
    RegisterAction<bit<8>, bit<32>, bit<8>>(err) err_wrong = {
        void apply(inout bit<8> value, out bit<8> before) {
            before = value;
            value = 1;
        }
    };
    RegisterAction<bit<8>, bit<32>, bit<8>>(err) err_look = {
        void apply(inout bit<8> value, out bit<8> before) {
            before = value;
        }
    };

    action begin_right() {
        meta.err_before = err_begin_right.execute(meta.slot);
        meta.wrong = 0;
    }

    action begin_wrong() {
        meta.err_before = err_begin_wrong.execute(meta.slot);
        meta.wrong = 1;
    }

    action join_wrong() {
        meta.err_before = err_wrong.execute(meta.slot);
        meta.wrong = 1;
    }

    action join_right() {
        meta.err_before = err_look.execute(meta.slot);
        meta.wrong = 0;
    }

    @hidden
    table faults {
        key = {
            meta.kind: ternary;
            meta.counted: ternary;
            meta.age: ternary;
            hdr.immdt.err: ternary;
            meta.unsupported: ternary;
            meta.differs: ternary;
            meta.counted_bytes: ternary;
            meta.length_before: ternary;
            meta.length_differs: ternary;
        }
        actions = { begin_right; begin_wrong; join_right; join_wrong; @defaultonly NoAction; }
        const entries = {
            (KIND_CONTRIBUTION, 1, AGE_NEWER, 1, _, _, _, _, _): begin_wrong();
            (KIND_CONTRIBUTION, 1, AGE_NEWER, _, 1, _, _, _, _): begin_wrong();
            (KIND_CONTRIBUTION, 1, AGE_NEWER, _, _, _, _, _, _): begin_right();
            (KIND_CONTRIBUTION, 1, _, 1, _, _, _, _, _): join_wrong();
            (KIND_CONTRIBUTION, 1, _, _, 1, _, _, _, _): join_wrong();
            (KIND_CONTRIBUTION, 1, _, _, _, 0, 0, _, _): join_right();  // no payload
            (KIND_CONTRIBUTION, 1, _, _, _, 0, _, 0, _): join_right();  // the first
            (KIND_CONTRIBUTION, 1, _, _, _, 0, _, _, 0): join_right();  // of the same length
            (KIND_CONTRIBUTION, 1, _, _, _, _, _, _, _): join_wrong();
            (KIND_CONTRIBUTION, 0, _, _, _, _, _, _, _): join_right();  // a repetition
        }
        const default_action = NoAction;
        size = 10;
    }

    // -- what is done with the payload words

    action operate(bit<3> operation) {
        meta.operation = operation;
    }

    @hidden
    table plan {
        key = {
            meta.counted: ternary;
            meta.accepted: ternary;
            meta.sent: ternary;
            meta.counted_bytes: ternary;
            meta.length_before: ternary;
        }
        actions = { operate; @defaultonly NoAction; }
        const entries = {
            (0, 1, _, _, _): operate(WORDS_WRITE);
            (0, 0, 0, _, _): operate(WORDS_KEEP);    // dropped
            (0, 0, _, _, _): operate(WORDS_READ);    // a replay or resend
            (1, _, 0, 0, _): operate(WORDS_KEEP);
            (1, _, _, 0, _): operate(WORDS_READ);    // completed without a payload
            (1, _, _, _, 0): operate(WORDS_WRITE);   // the first payload
        }
        const default_action = NoAction;  // what `arithmetic` said
        size = 6;
    }

    // -- the length of the cell from now on, and with 3 more, as shape.p4 wants it: in one stage

    action same_length() {
        meta.length_after = meta.length_before;
        meta.rounded = meta.length_before + 3;
    }

    action first_length() {
        meta.length_after = meta.counted_bytes;
        meta.rounded = meta.counted_bytes + 3;
    }

    @hidden
    table length_now {
        key = {
            meta.counted: exact;
            meta.length_before: ternary;
        }
        actions = { same_length; first_length; }
        const entries = {
            (1, 0): first_length();
        }
        const default_action = same_length;
        size = 1;
    }

    apply {
        descriptors.apply();
        lengths.apply();
        plan.apply();
        length_now.apply();
        meta.differs = meta.held ^ meta.agreement;
        meta.length_differs = meta.length_before ^ meta.counted_bytes;
        faults.apply();
        meta.err = meta.wrong | meta.err_before[0:0];
        if (meta.wrong == 1 && meta.err_before == 0) {
            meta.poisoned = 1;
        }
    }
}

// -- what is sent: of what the slot holds, or, of a result from the parent, as it came

control Output(inout headers_t hdr, inout meta_t meta) {
    action poison() {
        hdr.immdt.null = 1;
        hdr.immdt.err = 1;
        meta.bytes = 0;
        EACH_CHUNK(STRIP_CHUNK)
    }

    action empty() {
        hdr.immdt.null = 1;
        hdr.immdt.err = 0;
        meta.bytes = 0;
    }

    // The agreement part has neither flag; a result from the parent has its own.
    action as_held() {
        hdr.immdt.null = meta.held[7:7];
        hdr.immdt.err = meta.held[6:6];
        meta.bytes = meta.length_after;
    }

    @hidden
    table content {
        key = {
            meta.sent: ternary;
            meta.whole: ternary;
            meta.err: ternary;
            meta.length_after: ternary;
        }
        actions = { poison; empty; as_held; NoAction; }
        const entries = {
            (COUNTER_TX_REFLECTED, _, _, _): NoAction();
            (_, 0, 1, _): poison();
            (_, 0, 0, 0): empty();
            (_, _, _, _): as_held();
        }
        const default_action = NoAction;
        size = 4;
    }

    apply {
        content.apply();
        if (meta.kind != KIND_REFLECTION) {
            hdr.immdt.rank = meta.held[31:16];
            hdr.immdt.primitive = meta.held[15:14];
            hdr.immdt.operator = meta.held[13:12];
            hdr.immdt.datatype = meta.held[11:8];
            hdr.immdt.tag = meta.held[5:0];
        }
    }
}

#endif
