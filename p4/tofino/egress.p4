// The TNA egress: what the engine made gets its edge; what is flooded does not go back where it came from.
#ifndef EPIC_TOFINO_EGRESS_P4
#define EPIC_TOFINO_EGRESS_P4

#include "../common/edge_out.p4"
#include "../common/frame.p4"

control EpicEgress(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t standard,
                   in egress_intrinsic_metadata_from_parser_t parsed,
                   inout egress_intrinsic_metadata_for_deparser_t deparse,
                   inout egress_intrinsic_metadata_for_output_port_t output) {
    Counter<bit<32>, bit<8>>((bit<32>)COUNTERS, CounterType_t.PACKETS) counters_sent;
    Counter<bit<32>, bit<8>>((bit<32>)COUNTERS, CounterType_t.PACKETS) counters_frames;

    EdgeOut() edge_out_;
    Frame() frame;

    apply {
        bit<1> dropped = 0;
        if (meta.sent != 0) {
            bit<1> found;
            edge_out_.apply(hdr, meta, standard.egress_rid, found);
            if (found == 1) {
                frame.apply(hdr, meta);
                counters_sent.count(meta.sent);
            } else {
                dropped = 1;
            }
        } else if (hdr.bridge.flooded == 1 && standard.egress_port == hdr.bridge.ingress_port) {
            dropped = 1;
        }
        hdr.bridge.setInvalid();
        if (dropped == 1) {
            deparse.drop_ctl = 1;
        } else {
            counters_frames.count(COUNTER_TX_FRAMES);
        }
    }
}

#endif
