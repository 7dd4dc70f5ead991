// What the cell's contributions agree on, and what is sent of it (spec sections 4.3 and 5.1): registers on v1model.
#ifndef EPIC_BMV2_VALUE_P4
#define EPIC_BMV2_VALUE_P4

#include "../common/types.p4"

// NULL and ERR of a descriptor as a word; without them it is the agreement part.
const bit<32> FLAG_NULL = 0x80;
const bit<32> FLAG_ERR = 0x40;

control Value(inout headers_t hdr, inout meta_t meta) {
    // Of a cell in progress the agreement part of its first contribution; of a result from the parent all of it.
    @id(0x16010005)
    register<bit<32>>(CELLS) descriptor;
    // Payload bytes; 0: no payload yet.
    @id(0x16010006)
    register<bit<16>>(CELLS) length;
    @id(0x16010007)
    register<bit<1>>(CELLS) err;

    apply {
        bit<32> word = hdr.immdt.rank ++ hdr.immdt.primitive ++ hdr.immdt.operator ++ hdr.immdt.datatype
            ++ hdr.immdt.null ++ hdr.immdt.err ++ hdr.immdt.tag;
        bit<32> held;
        bit<16> bytes;
        bit<1> poisoned;
        descriptor.read(held, meta.slot);
        length.read(bytes, meta.slot);
        err.read(poisoned, meta.slot);

        if (meta.accepted == 1) {
            held = word;
            bytes = meta.bytes;
            poisoned = 0;
            meta.operation = WORDS_WRITE;
        } else if (meta.counted == 1) {
            bit<32> agreement = word & ~(FLAG_NULL | FLAG_ERR);
            if (meta.age == AGE_NEWER) {
                held = agreement;
                bytes = 0;
                poisoned = 0;
            }
            bit<1> fault = hdr.immdt.err | meta.unsupported;
            if (held != agreement) {
                fault = 1;
            }
            // A payload under ERR is a record or nothing, and counts for no length.
            if (meta.bytes != 0 && hdr.immdt.err == 0) {
                if (bytes == 0) {
                    bytes = meta.bytes;
                    meta.operation = WORDS_WRITE;
                } else if (bytes != meta.bytes) {
                    fault = 1;
                }
            }
            meta.poisoned = fault & ~poisoned;
            poisoned = poisoned | fault;
        }
        descriptor.write(meta.slot, held);
        length.write(meta.slot, bytes);
        err.write(meta.slot, poisoned);

        if (meta.counted == 1 && poisoned == 1) {
            meta.operation = WORDS_KEEP;
        }
        if (meta.sent != 0) {
            if (meta.whole == 0) {
                if (poisoned == 1) {
                    held = held | FLAG_NULL | FLAG_ERR;
                    bytes = 0;
                } else if (bytes == 0) {
                    held = held | FLAG_NULL;
                }
            }
            hdr.immdt.rank = held[31:16];
            hdr.immdt.primitive = held[15:14];
            hdr.immdt.operator = held[13:12];
            hdr.immdt.datatype = held[11:8];
            hdr.immdt.null = held[7:7];
            hdr.immdt.err = held[6:6];
            hdr.immdt.tag = held[5:0];
            // A packet that brings no payload of this cell takes the one that is kept.
            if (meta.accepted == 0 && (meta.counted == 0 || meta.operation == WORDS_KEEP)) {
                meta.operation = WORDS_READ;
            }
            meta.bytes = bytes;
        }
    }
}

#endif
