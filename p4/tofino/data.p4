// The payload words of the slots. On Tofino 2 two words share a register, a pair, and its stateful ALU works on both and
// gives both back. On Tofino 1 it gives back one word only, so there a word has a register of its own. READ is SUM of
// words that are 0 (shape.p4 makes them so), and so is OR (EPIC-E-16: all but one contribution of a Broadcast are
// empty): a register has room for four RegisterActions.
#ifndef EPIC_TOFINO_DATA_P4
#define EPIC_TOFINO_DATA_P4

#include "../common/types.p4"

struct pair_t {
    int<32> a;
    int<32> b;
}

// What all words do, as one table a register.
#define OPERATIONS \
    @hidden \
    table operations { \
        key = { operation: exact; } \
        actions = { write; sum; max_; min_; @defaultonly NoAction; } \
        const entries = { \
            WORDS_WRITE: write(); \
            WORDS_SUM: sum(); \
            WORDS_OR: sum(); \
            WORDS_READ: sum(); \
            WORDS_MAX: max_(); \
            WORDS_MIN: min_(); \
        } \
        const default_action = NoAction; \
        size = 6; \
    } \
    \
    apply { \
        operations.apply(); \
    }

#if __TARGET_TOFINO__ == 2
control DataPair(inout bit<32> a, inout bit<32> b, in bit<32> slot, in bit<3> operation) {
    Register<pair_t, bit<32>>(CELLS) words;

    RegisterAction<pair_t, bit<32>, int<32>>(words) words_write = {
        void apply(inout pair_t value, out int<32> first, out int<32> second) {
            value.a = (int<32>)a;
            value.b = (int<32>)b;
            first = value.a;
            second = value.b;
        }
    };
    RegisterAction<pair_t, bit<32>, int<32>>(words) words_sum = {
        void apply(inout pair_t value, out int<32> first, out int<32> second) {
            value.a = value.a + (int<32>)a;
            value.b = value.b + (int<32>)b;
            first = value.a;
            second = value.b;
        }
    };
    RegisterAction<pair_t, bit<32>, int<32>>(words) words_max_ = {
        void apply(inout pair_t value, out int<32> first, out int<32> second) {
            value.a = max(value.a, (int<32>)a);
            value.b = max(value.b, (int<32>)b);
            first = value.a;
            second = value.b;
        }
    };
    RegisterAction<pair_t, bit<32>, int<32>>(words) words_min_ = {
        void apply(inout pair_t value, out int<32> first, out int<32> second) {
            value.a = min(value.a, (int<32>)a);
            value.b = min(value.b, (int<32>)b);
            first = value.a;
            second = value.b;
        }
    };

#define PAIR_ACTION(name) \
    action name() { \
        int<32> second; \
        a = (bit<32>)words_##name.execute(slot, second); \
        b = (bit<32>)second; \
    }
    PAIR_ACTION(write)
    PAIR_ACTION(sum)
    PAIR_ACTION(max_)
    PAIR_ACTION(min_)
    OPERATIONS
}
#endif

control DataWord(inout bit<32> a, in bit<32> slot, in bit<3> operation) {
    Register<int<32>, bit<32>>(CELLS) words;

    RegisterAction<int<32>, bit<32>, int<32>>(words) words_write = {
        void apply(inout int<32> value, out int<32> word) {
            value = (int<32>)a;
            word = value;
        }
    };
    RegisterAction<int<32>, bit<32>, int<32>>(words) words_sum = {
        void apply(inout int<32> value, out int<32> word) {
            value = value + (int<32>)a;
            word = value;
        }
    };
    RegisterAction<int<32>, bit<32>, int<32>>(words) words_max_ = {
        void apply(inout int<32> value, out int<32> word) {
            value = max(value, (int<32>)a);
            word = value;
        }
    };
    RegisterAction<int<32>, bit<32>, int<32>>(words) words_min_ = {
        void apply(inout int<32> value, out int<32> word) {
            value = min(value, (int<32>)a);
            word = value;
        }
    };

#define WORD_ACTION(name) \
    action name() { \
        a = (bit<32>)words_##name.execute(slot); \
    }
    WORD_ACTION(write)
    WORD_ACTION(sum)
    WORD_ACTION(max_)
    WORD_ACTION(min_)
    OPERATIONS
}

// A chunk that the packet lacks is left alone: its words are no fields of the packet, and what is written to them could
// be another's. X(chunk, first, second) for each pair; a chunk of one word has a register of its own.
#define DECLARE_WORD(c, i) DataWord() words_##c##_##i;
#define OPERATE_WORD(c, i) words_##c##_##i.apply(hdr.words_##c.w##i, meta.slot, meta.operation);
#if __TARGET_TOFINO__ == 2
#define DECLARE_PAIR(c, i, j) DataPair() words_##c##_##i;
#define OPERATE_PAIR(c, i, j) words_##c##_##i.apply(hdr.words_##c.w##i, hdr.words_##c.w##j, meta.slot, meta.operation);
#define EACH_PAIR_2(X, c) X(c, 0, 1)
#define EACH_PAIR_4(X, c) EACH_PAIR_2(X, c) X(c, 2, 3)
#define EACH_PAIR_8(X, c) EACH_PAIR_4(X, c) X(c, 4, 5) X(c, 6, 7)
#define EACH_PAIR_16(X, c) EACH_PAIR_8(X, c) X(c, 8, 9) X(c, 10, 11) X(c, 12, 13) X(c, 14, 15)
#define EACH_PAIR_32(X, c) EACH_PAIR_16(X, c) \
    X(c, 16, 17) X(c, 18, 19) X(c, 20, 21) X(c, 22, 23) X(c, 24, 25) X(c, 26, 27) X(c, 28, 29) X(c, 30, 31)
#define EACH_PAIR_upper(X, c) EACH_PAIR_16(X, c)
#define DECLARE_1(c) DECLARE_WORD(c, 0)
#define OPERATE_1(c) OPERATE_WORD(c, 0)
#define DECLARE_2(c) EACH_PAIR_2(DECLARE_PAIR, c)
#define OPERATE_2(c) EACH_PAIR_2(OPERATE_PAIR, c)
#define DECLARE_4(c) EACH_PAIR_4(DECLARE_PAIR, c)
#define OPERATE_4(c) EACH_PAIR_4(OPERATE_PAIR, c)
#define DECLARE_8(c) EACH_PAIR_8(DECLARE_PAIR, c)
#define OPERATE_8(c) EACH_PAIR_8(OPERATE_PAIR, c)
#define DECLARE_16(c) EACH_PAIR_16(DECLARE_PAIR, c)
#define OPERATE_16(c) EACH_PAIR_16(OPERATE_PAIR, c)
#define DECLARE_32(c) EACH_PAIR_32(DECLARE_PAIR, c)
#define OPERATE_32(c) EACH_PAIR_32(OPERATE_PAIR, c)
#define DECLARE_upper(c) EACH_PAIR_upper(DECLARE_PAIR, c)
#define OPERATE_upper(c) EACH_PAIR_upper(OPERATE_PAIR, c)
#define DECLARE_last(c) DECLARE_WORD(c, 0)
#define OPERATE_last(c) OPERATE_WORD(c, 0)
#define DECLARE_CHUNK(c) DECLARE_##c(c)
#define OPERATE_CHUNK(c) if (hdr.words_##c.isValid()) { OPERATE_##c(c) }
#if WORDS > 64
#error "WORDS on Tofino: expected 16, 32, 48 or 64; one pass has no stages for more (p4/README.md)"
#endif
#else
#define DECLARE_CHUNK(c) EACH_WORD_##c(DECLARE_WORD, c)
#define OPERATE_CHUNK(c) if (hdr.words_##c.isValid()) { EACH_WORD_##c(OPERATE_WORD, c) }
#endif

control Data(inout headers_t hdr, inout meta_t meta) {
    EACH_CHUNK(DECLARE_CHUNK)

    apply {
        EACH_CHUNK(OPERATE_CHUNK)
    }
}

#endif
