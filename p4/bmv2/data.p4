// The payload words of the slots: one register a word, as on an ASIC, and one table a chunk that says what all words of
// the chunk do. The words of the packet become what is to be sent.
#ifndef EPIC_BMV2_DATA_P4
#define EPIC_BMV2_DATA_P4

#include "../common/types.p4"

#define WORD(c, i) hdr.words_##c.w##i
#define WORD_REGISTER(c, i) register<bit<32>>(CELLS) words_##c##_##i;
#define WORD_WRITE(c, i) words_##c##_##i.write(meta.slot, WORD(c, i));
#define WORD_READ(c, i) words_##c##_##i.read(WORD(c, i), meta.slot);
#define WORD_COMBINE(c, i, expression) \
    words_##c##_##i.read(held, meta.slot); \
    WORD(c, i) = expression; \
    words_##c##_##i.write(meta.slot, WORD(c, i));
#define WORD_SUM(c, i) WORD_COMBINE(c, i, WORD(c, i) + held)
#define WORD_OR(c, i) WORD_COMBINE(c, i, WORD(c, i) | held)
#define WORD_MAX(c, i) WORD_COMBINE(c, i, (int<32>)held > (int<32>)WORD(c, i) ? held : WORD(c, i))
#define WORD_MIN(c, i) WORD_COMBINE(c, i, (int<32>)held < (int<32>)WORD(c, i) ? held : WORD(c, i))

#define DATA_CHUNK(c) \
    EACH_WORD_##c(WORD_REGISTER, c) \
    action write_##c() { EACH_WORD_##c(WORD_WRITE, c) } \
    action read_##c() { EACH_WORD_##c(WORD_READ, c) } \
    action sum_##c() { bit<32> held; EACH_WORD_##c(WORD_SUM, c) } \
    action max_##c() { bit<32> held; EACH_WORD_##c(WORD_MAX, c) } \
    action min_##c() { bit<32> held; EACH_WORD_##c(WORD_MIN, c) } \
    action or_##c() { bit<32> held; EACH_WORD_##c(WORD_OR, c) } \
    @hidden \
    table chunk_##c { \
        key = { meta.operation: exact; } \
        actions = { write_##c; read_##c; sum_##c; max_##c; min_##c; or_##c; @defaultonly NoAction; } \
        const entries = { \
            WORDS_WRITE: write_##c(); \
            WORDS_READ: read_##c(); \
            WORDS_SUM: sum_##c(); \
            WORDS_MAX: max_##c(); \
            WORDS_MIN: min_##c(); \
            WORDS_OR: or_##c(); \
        } \
        const default_action = NoAction; \
    }

#define APPLY_CHUNK(c) \
    if (hdr.words_##c.isValid()) { \
        chunk_##c.apply(); \
    }

control Data(inout headers_t hdr, inout meta_t meta) {
    EACH_CHUNK(DATA_CHUNK)

    apply {
        EACH_CHUNK(APPLY_CHUNK)
    }
}

#endif
