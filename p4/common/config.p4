// Sizes, and what differs between the architectures in nothing but a width. Every macro can be set on the command line.
#ifndef EPIC_CONFIG_P4
#define EPIC_CONFIG_P4

#include "../include/epic_headers.p4"

// Payload words of 32 bits in the largest cell: 16, 32, 64, 128, 256, and 48 for Tofino 1.
#ifndef WORDS
#define WORDS 64
#endif

// Slots of all groups together.
#ifndef CELLS
#define CELLS 8192
#endif

// Largest fan-in: the width of a bitmap.
#ifndef CHILDREN
#define CHILDREN 64
#endif

// Table sizes: edges and groups on this switch, ranks below all edges, forwarding entries.
#ifndef EDGES
#define EDGES 1024
#endif
#ifndef GROUPS
#define GROUPS 256
#endif
#ifndef RANKS
#define RANKS 4096
#endif
#ifndef ROUTES
#define ROUTES 1024
#endif

typedef bit<9> port_t;
typedef bit<16> edge_t;       // also the multicast group that leads to the edge, and the replication id there
typedef bit<16> multicast_t;
typedef bit<CHILDREN> children_t;

// A cell number or PSN of 24 bits, shifted left by 8. So sums wrap and differences have a sign modulo 2^24.
typedef bit<32> cell_t;

// Bytes of an IP packet without payload: IPv4 20, UDP 8, BTH 12, immediate or AETH 4, ICRC 4.
const bit<16> EMPTY = 48;
const bit<16> MINUS_EMPTY = 0xffd0;
// The same with the largest payload.
const bit<16> FULL = EMPTY + 4 * WORDS;

const bit<16> ETHER_IPV4 = 0x0800;
const bit<8> PROTOCOL_UDP = 17;
const bit<2> ECN_ECT0 = 2;
const bit<2> ECN_CE = 3;

// Roles of an edge.
const bit<2> ROLE_HOST = 1;
@noWarn("unused") const bit<2> ROLE_ENGINE = 2;
const bit<2> ROLE_PARENT = 3;

// Age of a packet's cell against the tag of its slot.
const bit<2> AGE_OLDER = 0;
const bit<2> AGE_EQUAL = 1;
const bit<2> AGE_NEWER = 2;

// What a packet is to the engine.
const bit<2> KIND_CONTRIBUTION = 1;
const bit<2> KIND_RESULT = 2;
const bit<2> KIND_REFLECTION = 3;

// What a packet does to the payload words of its slot.
const bit<3> WORDS_KEEP = 0;
const bit<3> WORDS_WRITE = 1;
const bit<3> WORDS_SUM = 2;
const bit<3> WORDS_MAX = 3;
const bit<3> WORDS_MIN = 4;
const bit<3> WORDS_OR = 5;
@noWarn("unused") const bit<3> WORDS_READ = 6;

#endif
