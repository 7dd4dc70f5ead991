// The TNA deparsers: the IPv4 checksum is made here, of headers that were made or changed.
#ifndef EPIC_TOFINO_DEPARSER_P4
#define EPIC_TOFINO_DEPARSER_P4

#include "../common/types.p4"

#define IPV4_SUM \
    hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, hdr.ipv4.identification, \
    hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_ip, hdr.ipv4.dst_ip

control EpicIngressDeparser(packet_out packet, inout headers_t hdr, in meta_t meta,
                            in ingress_intrinsic_metadata_for_deparser_t deparse) {
    Checksum() ipv4_checksum;

    apply {
        if (meta.rewritten == 1) {
            hdr.ipv4.header_checksum = ipv4_checksum.update({ IPV4_SUM });
        }
        packet.emit(hdr);
    }
}

control EpicEgressDeparser(packet_out packet, inout headers_t hdr, in meta_t meta,
                           in egress_intrinsic_metadata_for_deparser_t deparse) {
    Checksum() ipv4_checksum;

    apply {
        if (meta.rewritten == 1) {
            hdr.ipv4.header_checksum = ipv4_checksum.update({ IPV4_SUM });
        }
        packet.emit(hdr);
    }
}

#endif
