// Which cell the slot serves, and who has contributed (spec section 9.1): registers on v1model. `look` reads, the
// decision is made, `keep` writes; nothing comes in between, for BMv2 has one ingress thread.
#ifndef EPIC_BMV2_SLOT_P4
#define EPIC_BMV2_SLOT_P4

#include "../common/types.p4"
#include "../common/decide.p4"

const bit<8> FLAG_DONE = 1;
const bit<8> FLAG_SERVED = 2;
const bit<8> FLAG_CONGESTED = 4;

control Slot(inout meta_t meta) {
    // The installation that the other registers' content is of. What another one left counts as a fresh slot, so that
    // installing a group clears nothing.
    @id(0x16010001)
    register<bit<32>>(CELLS) owner;
    @id(0x16010002)
    register<cell_t>(CELLS) tag;
    @id(0x16010003)
    register<children_t>(CELLS) bitmap;
    @id(0x16010004)
    register<bit<8>>(CELLS) flags;
    Decide() decide;

    apply {
        bit<32> number = meta.cell >> 8;
        meta.slot = meta.slot_base + (number & meta.slot_mask);

        bit<32> generation;
        cell_t served;
        children_t map;
        bit<8> flag;
        owner.read(generation, meta.slot);
        tag.read(served, meta.slot);
        bitmap.read(map, meta.slot);
        flags.read(flag, meta.slot);
        if (generation != meta.generation) {
            // As if the cell N before the slot's first had been done.
            served = ((number & meta.slot_mask) - meta.slot_mask - 1) << 8;
            map = meta.full_map;
            flag = FLAG_DONE;
        }

        cell_t ahead = meta.cell - served;
        if (ahead == 0) {
            meta.age = AGE_EQUAL;
        } else if (ahead[31:31] == 1) {
            meta.age = AGE_OLDER;
        } else {
            meta.age = AGE_NEWER;
            map = 0;
        }
        meta.flags = flag;
        if ((map & meta.child_bit) != 0) {
            meta.seen = 1;
        }
        map = map | meta.child_bit;
        if (map == meta.full_map) {
            meta.full = 1;
        }
        // window_guard (EPIC-M3-04): the next cell of the slot, and the one before it done.
        if (meta.guard == 1 && (flag[0:0] == 0 || ahead != ((meta.slot_mask + 1) << 8))) {
            meta.overrun = 1;
        }

        decide.apply(meta);

        if (meta.counted == 1 || meta.accepted == 1) {
            if (meta.age == AGE_NEWER) {
                flag = 0;
            }
            flag = flag | FLAG_SERVED;
            if (meta.finished == 1) {
                flag = flag | FLAG_DONE;
            }
            if (meta.ce == 1) {
                flag = flag | FLAG_CONGESTED;
            }
            owner.write(meta.slot, meta.generation);
            tag.write(meta.slot, meta.cell);
            bitmap.write(meta.slot, map);
            flags.write(meta.slot, flag);
        }
        meta.congested = flag[2:2] & meta.ecn;
    }
}

#endif
