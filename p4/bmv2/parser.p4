// The v1model parser. What it refuses reaches ingress like any frame, with `meta.reason` set.
#ifndef EPIC_BMV2_PARSER_P4
#define EPIC_BMV2_PARSER_P4

#include "../common/transport_parser.p4"
#include "../common/network_parser.p4"

parser EpicParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        AFTER_ETHERNET
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        AFTER_IPV4
    }

#include "../common/transport_states.p4"

    NETWORK_REASONS
}

control EpicDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

#endif
