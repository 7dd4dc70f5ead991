// Checksums and the ICRC on v1model. A hash over a list skips headers that are not there: BMv2 does so, and the list
// below, which names every chunk of the payload, depends on it. Headers must stand in the list as a whole: compilers copy
// the fields of a list first, and a copy is always there.
#ifndef EPIC_BMV2_CHECKSUM_P4
#define EPIC_BMV2_CHECKSUM_P4

#include "../common/types.p4"

#define IPV4_WORDS \
    hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, hdr.ipv4.identification, \
    hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_ip, hdr.ipv4.dst_ip

#define HASHED_CHUNK(c) , hdr.words_##c

// The ICRC as it stands in the header (least significant byte first): over 8 bytes of ones, then the frame from the
// IPv4 header on, the fields that change on the way as ones (spec section 2.7).
control Icrc(inout headers_t hdr, out bit<32> value) {
    apply {
        bit<32> crc;
        hash(crc, HashAlgorithm.crc32, 32w0, {
            64w0xffffffffffffffff,
            hdr.ipv4.version, hdr.ipv4.ihl, 8w0xff, hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.flags,
            hdr.ipv4.fragment_offset, 8w0xff, hdr.ipv4.protocol, 16w0xffff, hdr.ipv4.src_ip, hdr.ipv4.dst_ip,
            hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length, 16w0xffff,
            hdr.bth.opcode, hdr.bth.se, hdr.bth.migreq, hdr.bth.pad, hdr.bth.tver, hdr.bth.pkey, 8w0xff,
            hdr.bth.dest_qpn, hdr.bth.ackreq_psn,
            hdr.aeth, hdr.immdt
            EACH_CHUNK(HASHED_CHUNK)
        }, 64w0x100000000);
        value = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }
}

// Nothing here: a sum that must come out as 0, for which two values of the field are right, is not what
// verify_checksum compares. Ingress does it (Ipv4Sum).
control EpicVerifyChecksum(inout headers_t hdr, inout meta_t meta) {
    apply {
    }
}

// The one's complement of the header's sum: 0 when the header is right.
control Ipv4Sum(inout headers_t hdr, out bit<16> sum) {
    apply {
        hash(sum, HashAlgorithm.csum16, 16w0, { IPV4_WORDS, hdr.ipv4.header_checksum }, 32w0x10000);
    }
}

// Of what was made or changed here only: a plain switch leaves a wrong checksum as it is.
control EpicComputeChecksum(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(meta.rewritten == 1, { IPV4_WORDS }, hdr.ipv4.header_checksum, HashAlgorithm.csum16);
    }
}

#endif
