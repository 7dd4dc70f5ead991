// The payload as headers. P4 has no loops, and a header has a fixed size, so a payload of any number of words is
// parsed as chunks, headers of 32, 16, 8, 4, 2 and 1 words of which each is there or not, as the bits of the number
// say, and one word more so that WORDS itself is a number that the chunks can hold. Which chunk a word is in depends
// on the length alone, and the contributions of one cell have one length. So each word has one register.
#ifndef EPIC_PAYLOAD_P4
#define EPIC_PAYLOAD_P4

#include "config.p4"

// X(chunk, i) for each word of a chunk.
#define EACH_WORD_1(X, c) X(c, 0)
#define EACH_WORD_2(X, c) EACH_WORD_1(X, c) X(c, 1)
#define EACH_WORD_4(X, c) EACH_WORD_2(X, c) X(c, 2) X(c, 3)
#define EACH_WORD_8(X, c) EACH_WORD_4(X, c) X(c, 4) X(c, 5) X(c, 6) X(c, 7)
#define EACH_WORD_16(X, c) EACH_WORD_8(X, c) \
    X(c, 8) X(c, 9) X(c, 10) X(c, 11) X(c, 12) X(c, 13) X(c, 14) X(c, 15)
#define EACH_WORD_32(X, c) EACH_WORD_16(X, c) \
    X(c, 16) X(c, 17) X(c, 18) X(c, 19) X(c, 20) X(c, 21) X(c, 22) X(c, 23) \
    X(c, 24) X(c, 25) X(c, 26) X(c, 27) X(c, 28) X(c, 29) X(c, 30) X(c, 31)
#define EACH_WORD_64(X, c) EACH_WORD_32(X, c) \
    X(c, 32) X(c, 33) X(c, 34) X(c, 35) X(c, 36) X(c, 37) X(c, 38) X(c, 39) \
    X(c, 40) X(c, 41) X(c, 42) X(c, 43) X(c, 44) X(c, 45) X(c, 46) X(c, 47) \
    X(c, 48) X(c, 49) X(c, 50) X(c, 51) X(c, 52) X(c, 53) X(c, 54) X(c, 55) \
    X(c, 56) X(c, 57) X(c, 58) X(c, 59) X(c, 60) X(c, 61) X(c, 62) X(c, 63)
#define EACH_WORD_128(X, c) EACH_WORD_64(X, c) \
    X(c, 64) X(c, 65) X(c, 66) X(c, 67) X(c, 68) X(c, 69) X(c, 70) X(c, 71) \
    X(c, 72) X(c, 73) X(c, 74) X(c, 75) X(c, 76) X(c, 77) X(c, 78) X(c, 79) \
    X(c, 80) X(c, 81) X(c, 82) X(c, 83) X(c, 84) X(c, 85) X(c, 86) X(c, 87) \
    X(c, 88) X(c, 89) X(c, 90) X(c, 91) X(c, 92) X(c, 93) X(c, 94) X(c, 95) \
    X(c, 96) X(c, 97) X(c, 98) X(c, 99) X(c, 100) X(c, 101) X(c, 102) X(c, 103) \
    X(c, 104) X(c, 105) X(c, 106) X(c, 107) X(c, 108) X(c, 109) X(c, 110) X(c, 111) \
    X(c, 112) X(c, 113) X(c, 114) X(c, 115) X(c, 116) X(c, 117) X(c, 118) X(c, 119) \
    X(c, 120) X(c, 121) X(c, 122) X(c, 123) X(c, 124) X(c, 125) X(c, 126) X(c, 127)
#define EACH_WORD_upper(X, c) EACH_WORD_16(X, c)
#define EACH_WORD_last(X, c) EACH_WORD_1(X, c)

// X(chunk) for each chunk, in the order of the packet.
#define EACH_CHUNK_16(X) X(8) X(4) X(2) X(1) X(last)
#define EACH_CHUNK_32(X) X(16) EACH_CHUNK_16(X)
#define EACH_CHUNK_48(X) X(upper) X(16) EACH_CHUNK_16(X)
#define EACH_CHUNK_64(X) X(32) EACH_CHUNK_32(X)
#define EACH_CHUNK_128(X) X(64) EACH_CHUNK_64(X)
#define EACH_CHUNK_256(X) X(128) EACH_CHUNK_128(X)
#if WORDS == 16
#define EACH_CHUNK(X) EACH_CHUNK_16(X)
#elif WORDS == 32
#define EACH_CHUNK(X) EACH_CHUNK_32(X)
#elif WORDS == 48
#define EACH_CHUNK(X) EACH_CHUNK_48(X)
#elif WORDS == 64
#define EACH_CHUNK(X) EACH_CHUNK_64(X)
#elif WORDS == 128
#define EACH_CHUNK(X) EACH_CHUNK_128(X)
#elif WORDS == 256
#define EACH_CHUNK(X) EACH_CHUNK_256(X)
#else
#error "WORDS: expected 16, 32, 48, 64, 128 or 256"
#endif

#define WORD_FIELD(c, i) bit<32> w##i;
header words_1_h { EACH_WORD_1(WORD_FIELD, 1) }
header words_2_h { EACH_WORD_2(WORD_FIELD, 2) }
header words_4_h { EACH_WORD_4(WORD_FIELD, 4) }
header words_8_h { EACH_WORD_8(WORD_FIELD, 8) }
header words_16_h { EACH_WORD_16(WORD_FIELD, 16) }
header words_32_h { EACH_WORD_32(WORD_FIELD, 32) }
header words_64_h { EACH_WORD_64(WORD_FIELD, 64) }
header words_128_h { EACH_WORD_128(WORD_FIELD, 128) }
#define words_upper_h words_16_h
#define words_last_h words_1_h

// Whether a payload has a chunk: `r` is its bytes + 3, so that from bit 2 up it is the number of words. A payload of
// WORDS words has all.
#define HAS_128(r) (r)[9:9] == 1
#define HAS_64(r) (r)[8:8] == 1
#define HAS_32(r) (r)[7:7] == 1
#if WORDS == 48
#define HAS_upper(r) (r)[7:7] == 1
#define HAS_16(r) (r)[7:6] != 0
#else
#define HAS_16(r) (r)[6:6] == 1
#endif
#define HAS_8(r) (r)[5:5] == 1
#define HAS_4(r) (r)[4:4] == 1
#define HAS_2(r) (r)[3:3] == 1
#define HAS_1(r) (r)[2:2] == 1
#define HAS_last(r) false

#endif
