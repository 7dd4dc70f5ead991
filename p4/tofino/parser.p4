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
        // What a later control reads without having set it.
        meta.reason = 0;
        meta.fault = 0;
        meta.admitted = 0;
        meta.outcome = 0;
        meta.known = 0;
        meta.right_port = 0;
        meta.right_address = 0;
        meta.right_pkey = 0;
        meta.group = 0;
        meta.kind = 0;
        meta.operation = 0;
        meta.unsupported = 0;
        meta.overrun = 0;
        meta.counted = 0;
        meta.completed = 0;
        meta.accepted = 0;
        meta.finished = 0;
        meta.whole = 0;
        meta.poisoned = 0;
        meta.sent = 0;
        meta.congested = 0;
        meta.routed = 0;
        meta.rewritten = 0;
        meta.ipv4_wrong = 0;
        meta.fragmentary = 0;
        meta.wrong = 0;
        meta.err_before = 0;
        meta.flags = 0;
        meta.bytes = 0;
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
        meta.sent = hdr.bridge.sent;
        meta.congested = hdr.bridge.congested;
        meta.bytes = hdr.bridge.bytes;
        meta.cell = hdr.bridge.cell;
        meta.suppressed = 0;
        meta.rewritten = 0;
        meta.reason = 0;
        meta.fault = 0;
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
