// The v1model egress: what the engine made gets its edge; what is flooded does not go back where it came from.
#ifndef EPIC_BMV2_EGRESS_P4
#define EPIC_BMV2_EGRESS_P4

#include "../common/edge_out.p4"
#include "../common/frame.p4"
#include "checksum.p4"

control EpicEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    @id(0x12020001)
    counter((bit<32>)COUNTERS, CounterType.packets) counters_sent;
    @id(0x12020002)
    counter((bit<32>)COUNTERS, CounterType.packets) counters_frames;

    EdgeOut() edge_out_;
    Frame() frame;
    Icrc() icrc;

    apply {
        bit<1> dropped = 0;
        if (meta.sent != 0) {
            bit<1> found;
            edge_out_.apply(hdr, meta, standard.egress_rid, found);
            dropped = ~found;
            if (found == 1) {
                frame.apply(hdr, meta);
                if (meta.icrc == 1) {
                    bit<32> value;
                    icrc.apply(hdr, value);
                    hdr.icrc.value = value;
                }
                // Ethernet padding that came with the packet stays behind.
                truncate(14 + (bit<32>)hdr.ipv4.total_length);
                counters_sent.count((bit<32>)meta.sent);
            }
        } else if (standard.instance_type == 5 && standard.egress_port == standard.ingress_port) {
            dropped = 1;  // a copy of a flood (instance type 5: replication)
        }
        if (dropped == 1) {
            mark_to_drop(standard);
        } else {
            counters_frames.count((bit<32>)COUNTER_TX_FRAMES);
        }
    }
}

#endif
