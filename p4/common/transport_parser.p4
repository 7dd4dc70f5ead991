// Rows and states that the states of UDP to ICRC (transport_states.p4) are made of.
#ifndef EPIC_TRANSPORT_PARSER_P4
#define EPIC_TRANSPORT_PARSER_P4

#include "types.p4"

// Rows of a select on the total length: the lengths for which a payload has a chunk. The number of words is total
// length / 4 - 12; bit n of it from 2^n up repeats with the total length, shifted by 12.
#define WITH_1(state) 16w0x004 &&& 16w0x004 : state; FULL : state;
#define WITH_2(state) 16w0x008 &&& 16w0x008 : state; FULL : state;
#define WITH_4(state) 16w0x000 &&& 16w0x010 : state; FULL : state;
#define WITH_8(state) 16w0x010 &&& 16w0x030 : state; 16w0x020 &&& 16w0x030 : state; FULL : state;
#if WORDS == 48
#define WITH_16(state) 16w0x070 &&& 16w0x0f0 : state; 16w0x080 &&& 16w0x080 : state;
#define WITH_upper(state) 16w0x0b0 &&& 16w0x0f0 : state; 16w0x0c0 &&& 16w0x0c0 : state;
#else
#define WITH_16(state) \
    16w0x070 &&& 16w0x070 : state; 16w0x000 &&& 16w0x060 : state; 16w0x020 &&& 16w0x070 : state; FULL : state;
#endif
#define WITH_32(state) \
    16w0x0b0 &&& 16w0x0f0 : state; 16w0x0c0 &&& 16w0x0c0 : state; 16w0x000 &&& 16w0x0e0 : state; \
    16w0x020 &&& 16w0x0f0 : state; FULL : state;
#define WITH_64(state) \
    16w0x130 &&& 16w0x1f0 : state; 16w0x140 &&& 16w0x1c0 : state; 16w0x180 &&& 16w0x180 : state; \
    16w0x000 &&& 16w0x1e0 : state; 16w0x020 &&& 16w0x1f0 : state; FULL : state;
#define WITH_128(state) \
    16w0x230 &&& 16w0x3f0 : state; 16w0x240 &&& 16w0x3c0 : state; 16w0x280 &&& 16w0x380 : state; \
    16w0x300 &&& 16w0x300 : state; 16w0x000 &&& 16w0x3e0 : state; 16w0x020 &&& 16w0x3f0 : state; FULL : state;
#define WITH_last(state) FULL : state;

// The states of a chunk: is it there, and if so, take it.
#define CHUNK(c, next) \
    state maybe_##c { \
        transition select(hdr.ipv4.total_length) { \
            WITH_##c(take_##c) \
            default: next; \
        } \
    } \
    state take_##c { \
        packet.extract(hdr.words_##c); \
        transition next; \
    }

#define TAKE_CHUNK(c) packet.extract(hdr.words_##c);

// A reason that holds whatever edge the frame is for.
#define REFUSE(name, number) \
    state name { \
        meta.reason = number; \
        transition accept; \
    }

#endif
