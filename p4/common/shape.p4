// Gives a packet the chunks of a payload of `meta.rounded` - 3 bytes, whatever it came with.
#ifndef EPIC_SHAPE_P4
#define EPIC_SHAPE_P4

#include "types.p4"

// What is to be added to the kept words must be 0 first. A header that becomes valid holds anything.
#ifdef EPIC_TNA
#define ZERO_WORD(c, i) hdr.words_##c.w##i = 0;
#define FRESH_CHUNK(c) if (meta.operation == WORDS_READ) { EACH_WORD_##c(ZERO_WORD, c) }
#else
#define FRESH_CHUNK(c)
#endif

#define SHAPE_CHUNK(c) \
    if (HAS_##c(meta.rounded) || meta.rounded[15:2] == WORDS) { \
        hdr.words_##c.setValid(); \
        FRESH_CHUNK(c) \
    } else { \
        hdr.words_##c.setInvalid(); \
    }

control Shape(inout headers_t hdr, inout meta_t meta) {
    apply {
        EACH_CHUNK(SHAPE_CHUNK)
    }
}

#endif
