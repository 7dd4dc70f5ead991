// The TNA parsers. Ingress parses what comes; egress parses again what ingress made, whose payload has its final length.
#ifndef EPIC_TOFINO_PARSER_P4
#define EPIC_TOFINO_PARSER_P4

#include "../common/transport_parser.p4"
#include "../common/network_parser.p4"

parser EpicIngressParser(packet_in packet, out headers_t hdr, out meta_t meta,
                         out ingress_intrinsic_metadata_t standard) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(standard);
        packet.advance(PORT_METADATA_SIZE);
        meta = {...};  // what a later control reads without having set it is 0
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        AFTER_ETHERNET
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        ipv4_checksum.add(hdr.ipv4);
        meta.ipv4_wrong = (bit<1>)ipv4_checksum.verify();  // 1: wrong
        AFTER_IPV4
    }

#include "../common/transport_states.p4"

    NETWORK_REASONS
}

parser EpicEgressParser(packet_in packet, out headers_t hdr, out meta_t meta, out egress_intrinsic_metadata_t standard) {
    state start {
        packet.extract(standard);
        packet.extract(hdr.bridge);
        meta = {...};
        meta.sent = hdr.bridge.sent;
        meta.congested = hdr.bridge.congested;
        meta.bytes = hdr.bridge.bytes;
        meta.cell = hdr.bridge.cell;
        transition select(hdr.bridge.sent) {
            0: accept;  // a plain switch's: nothing of it changes
            default: ethernet;
        }
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        transition transport;
    }

#include "../common/transport_states.p4"
}

#endif
