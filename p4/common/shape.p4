// Gives a packet the chunks of a payload of `meta.rounded` - 3 bytes, whatever it came with.
#ifndef EPIC_SHAPE_P4
#define EPIC_SHAPE_P4

#include "types.p4"

#define SHAPE_CHUNK(c) \
    if (HAS_##c(meta.rounded) || meta.rounded[15:2] == WORDS) { \
        hdr.words_##c.setValid(); \
    } else { \
        hdr.words_##c.setInvalid(); \
    }

control Shape(inout headers_t hdr, inout meta_t meta) {
    apply {
        EACH_CHUNK(SHAPE_CHUNK)
    }
}

#endif
