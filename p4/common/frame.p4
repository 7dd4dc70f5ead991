// The fields that are the same in every frame the engine sends, lengths and PSN (spec sections 2 and 4.5).
#ifndef EPIC_FRAME_P4
#define EPIC_FRAME_P4

#include "types.p4"

control Frame(inout headers_t hdr, inout meta_t meta) {
    apply {
        hdr.ipv4.dscp = 0;
        hdr.ipv4.ecn = ECN_ECT0;
        if (meta.congested == 1) {
            hdr.ipv4.ecn = ECN_CE;
        }
        meta.rounded = meta.bytes + 3;
        meta.rounded = meta.rounded & 0xfffc;
        hdr.ipv4.total_length = meta.rounded + EMPTY;
        hdr.ipv4.identification = 0;
        hdr.ipv4.flags = 2;  // DF
        hdr.ipv4.ttl = 64;
        hdr.udp.length = meta.rounded + (EMPTY - 20);
        hdr.udp.checksum = 0;
        hdr.bth.se = 0;
        hdr.bth.migreq = 0;
        meta.bytes = 0 - meta.bytes;
        hdr.bth.pad = meta.bytes[1:0];
        hdr.bth.fecn = 0;
        hdr.bth.becn = 0;
        hdr.bth.resv8a = 0;
        // A data packet ends its cell and asks for an acknowledgement; an acknowledgement does not.
        if (hdr.aeth.isValid()) {
            hdr.bth.ackreq_psn = meta.cell + meta.ack_base;
        } else {
            hdr.bth.ackreq_psn = meta.cell + meta.data_base;
        }
        hdr.bth.ackreq_psn = hdr.bth.ackreq_psn >> 8;
        if (!hdr.aeth.isValid()) {
            hdr.bth.ackreq_psn = hdr.bth.ackreq_psn | 0x80000000;
        }
        hdr.icrc.value = 0;
        meta.rewritten = 1;
    }
}

#endif
