// What an admitted packet is to the engine, before any state is looked at: contribution, result or acknowledgement to
// return; its cell; its payload's length, and what that would do to the words of the slot.
#ifndef EPIC_PREPARE_P4
#define EPIC_PREPARE_P4

#include "types.p4"

// The last word of each chunk, the last chunk first: a payload ends in the first of these that is there.
#define LAST_WORDS_16(X) X(last, w0) X(1, w0) X(2, w1) X(4, w3) X(8, w7)
#define LAST_WORDS_32(X) LAST_WORDS_16(X) X(16, w15)
#define LAST_WORDS_64(X) LAST_WORDS_32(X) X(32, w31)
#define LAST_WORDS_128(X) LAST_WORDS_64(X) X(64, w63)
#define LAST_WORDS_256(X) LAST_WORDS_128(X) X(128, w127)
#if WORDS == 16
#define LAST_WORDS(X) LAST_WORDS_16(X)
#elif WORDS <= 48
#define LAST_WORDS(X) LAST_WORDS_32(X)
#elif WORDS == 64
#define LAST_WORDS(X) LAST_WORDS_64(X)
#elif WORDS == 128
#define LAST_WORDS(X) LAST_WORDS_128(X)
#else
#define LAST_WORDS(X) LAST_WORDS_256(X)
#endif

#define TRIM(c, word) \
    else if (hdr.words_##c.isValid()) { \
        hdr.words_##c.word = hdr.words_##c.word & meta.mask; \
    }

control Prepare(inout headers_t hdr, inout meta_t meta) {
    @hidden
    action refuse(bit<8> reason) {
        meta.reason = reason;
    }

    // Payload bytes: the IP total length less the headers and the Pad bytes. `mask` has the last word's payload bits.
    action set_bytes(bit<16> minus, bit<32> mask) {
        meta.bytes = hdr.ipv4.total_length + minus;
        meta.mask = mask;
    }

    @hidden
    table measure {
        key = { hdr.bth.pad: exact; }
        actions = { set_bytes; @defaultonly NoAction; }
        const entries = {
            0: set_bytes(MINUS_EMPTY, 0xffffffff);
            1: set_bytes(MINUS_EMPTY - 1, 0xffffff00);
            2: set_bytes(MINUS_EMPTY - 2, 0xffff0000);
            3: set_bytes(MINUS_EMPTY - 3, 0xff000000);
        }
        const default_action = NoAction;
    }

    action part_of_an_element() {
        meta.fragmentary = 1;
    }

    // Whole elements (EPIC-E-11). Without Pad bytes a payload is a number of words; an odd number holds half an
    // element of 8 bytes.
    @hidden
    table elements {
        key = {
            hdr.immdt.err: ternary;
            hdr.immdt.primitive: ternary;
            hdr.immdt.datatype: ternary;
            hdr.bth.pad: ternary;
            hdr.ipv4.total_length: ternary;
        }
        actions = { part_of_an_element; NoAction; }
        const entries = {
            (1, _, _, _, _): NoAction();
            (_, PRIMITIVE_BROADCAST, _, _, _): NoAction();
            (_, _, _, _, EMPTY): NoAction();
            (_, _, DATATYPE_INT8, _, _): NoAction();
            (_, _, DATATYPE_FP16, 2w0 &&& 2w1, _): NoAction();
            (_, _, DATATYPE_BF16, 2w0 &&& 2w1, _): NoAction();
            (_, _, DATATYPE_INT16, 2w0 &&& 2w1, _): NoAction();
            (_, _, DATATYPE_INT64, 0, 16w0 &&& 16w4): NoAction();
            (_, _, DATATYPE_FP64, 0, 16w0 &&& 16w4): NoAction();
            (_, _, DATATYPE_INT64, _, _): part_of_an_element();
            (_, _, DATATYPE_FP64, _, _): part_of_an_element();
            (_, _, _, 0, _): NoAction();
        }
        const default_action = part_of_an_element();
    }

    action combine(bit<3> operation) {
        meta.operation = operation;
    }

    action lack() {
        meta.unsupported = 1;
    }

    // What a payload does to the words (EPIC-E-12, EPIC-E-16). `offered` is the group's: bit 0 INT32, bits 1 to 3 SUM,
    // MAX, MIN. Operator NONE comes with a payload under ERR only, which is not looked at.
    @hidden
    table arithmetic {
        key = {
            hdr.ipv4.total_length: ternary;
            hdr.immdt.err: ternary;
            hdr.immdt.primitive: ternary;
            hdr.immdt.datatype: ternary;
            hdr.immdt.operator: ternary;
            meta.offered: ternary;
        }
        actions = { combine; lack; @defaultonly NoAction; }
        const entries = {
            (EMPTY, _, _, _, _, _): combine(WORDS_KEEP);
            (_, 1, _, _, _, _): combine(WORDS_KEEP);
            (_, _, PRIMITIVE_BROADCAST, _, _, _): combine(WORDS_OR);
            (_, _, _, DATATYPE_INT32, OPERATOR_SUM, 4w3 &&& 4w3): combine(WORDS_SUM);
            (_, _, _, DATATYPE_INT32, OPERATOR_MAX, 4w5 &&& 4w5): combine(WORDS_MAX);
            (_, _, _, DATATYPE_INT32, OPERATOR_MIN, 4w9 &&& 4w9): combine(WORDS_MIN);
        }
        const default_action = lack;
    }

    action contribution() {
        meta.kind = KIND_CONTRIBUTION;
    }

    action result() {
        meta.kind = KIND_RESULT;
    }

    action reflection() {
        meta.kind = KIND_REFLECTION;
    }

    // P is at most 8192 and the payload at most WORDS words, so the sign of `room` says which is more.
    @hidden
    table classify {
        key = {
            meta.admitted: ternary;
            meta.reason: ternary;
            hdr.aeth.isValid(): ternary;
            meta.role: ternary;
            meta.reflection: ternary;
            meta.room[15:15]: ternary;
            meta.fragmentary: ternary;
        }
        actions = { contribution; result; reflection; refuse; @defaultonly NoAction; }
        const entries = {
            (1, 0, true, ROLE_HOST, 1, _, _): reflection();
            (1, 0, true, _, _, _, _): refuse(COUNTER_DROP_ROLE);
            (1, 0, false, _, _, 1, _): refuse(COUNTER_DROP_OVERSIZE);
            (1, 0, false, ROLE_PARENT, _, 0, _): result();
            (1, 0, false, _, _, 0, 1): refuse(COUNTER_DROP_ELEMENT);
            (1, 0, false, _, _, 0, 0): contribution();
        }
        const default_action = NoAction;  // has a reason already
    }

    apply {
        meta.cell = hdr.bth.ackreq_psn << 8;
        // An acknowledgement's PSN is one of those that the engine sent (EPIC-W-18).
        if (hdr.aeth.isValid()) {
            meta.cell = meta.cell + meta.ack_offset;
        } else {
            meta.cell = meta.cell + meta.data_offset;
        }
        measure.apply();
        elements.apply();
        arithmetic.apply();
        meta.room = meta.payload_bytes - meta.bytes;
        classify.apply();
        // Pad bytes of any value may arrive, and are sent as 0: they become 0 before they are added to anything. What
        // the engine does not use may be another's and is left as it is.
        if (meta.kind == 0 || hdr.bth.pad == 0) {
        }
        LAST_WORDS(TRIM)
    }
}

#endif
