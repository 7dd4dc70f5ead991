// The v1model ingress: checks, admission, then either the engine or the plain switch.
#ifndef EPIC_BMV2_INGRESS_P4
#define EPIC_BMV2_INGRESS_P4

#include "../common/admission.p4"
#include "../common/forward.p4"
#include "../common/prepare.p4"
#include "../common/shape.p4"
#include "checksum.p4"
#include "slot.p4"
#include "value.p4"
#include "data.p4"

control EpicIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    // Banks of counters, all with the indices of epic.toml: a packet touches each bank at most once.
    @id(0x12010001)
    counter((bit<32>)COUNTERS, CounterType.packets) counters_frames;
    @id(0x12010002)
    counter((bit<32>)COUNTERS, CounterType.packets) counters_outcome;
    @id(0x12010003)
    counter((bit<32>)COUNTERS, CounterType.packets) counters_ce;
    @id(0x12010004)
    counter((bit<32>)COUNTERS, CounterType.packets) counters_completed;
    @id(0x12010005)
    counter((bit<32>)COUNTERS, CounterType.packets) counters_poisoned;

    Ipv4Sum() ipv4_sum;
    Icrc() icrc;
    Admission() admission;
    Forward() forward;
    Prepare() prepare;
    Slot() slot;
    Value() value;
    Shape() shape;
    Data() data;

    apply {
        bit<16> sum = 0;
        counters_frames.count((bit<32>)COUNTER_RX_FRAMES);

        // Malformed in a way that the parser's states do not see.
        if (hdr.ipv4.isValid() && hdr.ipv4.version == 4 && hdr.ipv4.ihl == 5) {
            ipv4_sum.apply(hdr, sum);
        }
        if (meta.reason == 0) {
            if (standard.parser_error != error.NoError) {
                meta.reason = COUNTER_DROP_TRUNCATED;
            } else if (sum != 0) {
                meta.reason = COUNTER_DROP_IP_CHECKSUM;
            } else if (standard.packet_length < 14 + (bit<32>)hdr.ipv4.total_length) {
                meta.reason = COUNTER_DROP_IP_LENGTH;
            } else if (hdr.udp.length != hdr.ipv4.total_length - 20) {
                meta.reason = COUNTER_DROP_UDP_LENGTH;
            }
        }

        if (meta.reason == 0) {
            admission.apply(hdr, meta, standard.ingress_port);
        }
        if (meta.admitted == 1 && meta.reason == 0 && meta.icrc == 1) {
            bit<32> expected;
            icrc.apply(hdr, expected);
            if (hdr.icrc.value != expected) {
                meta.reason = COUNTER_DROP_ICRC;
            }
        }

        mark_to_drop(standard);
        if (meta.admitted == 0) {
            bit<1> found = 0;
            port_t port = 0;
            multicast_t group = 0;
            if (hdr.ethernet.isValid()) {
                forward.apply(hdr, meta, sum == 0, found, port, group);
            }
            if (found == 1) {
                meta.reason = 0;
                if (group == 0) {
                    standard.egress_spec = port;
                } else {
                    standard.mcast_grp = group;
                }
            }
        } else {
            if (meta.reason == 0) {
                prepare.apply(hdr, meta);
            }
            if (hdr.ipv4.ecn == ECN_CE && hdr.immdt.isValid() && meta.reason != COUNTER_DROP_ICRC) {
                meta.ce = 1;
                counters_ce.count((bit<32>)COUNTER_RX_CE);
            }
            if (meta.reason == 0) {
                if (meta.kind == KIND_REFLECTION) {
                    meta.sent = COUNTER_TX_REFLECTED;
                    meta.send_to = meta.edge_id;
                    meta.bytes = 0;
                    meta.operation = WORDS_KEEP;
                } else {
                    slot.apply(meta);
                    if (meta.counted == 1 || meta.sent != 0) {
                        value.apply(hdr, meta);
                    } else {
                        meta.operation = WORDS_KEEP;
                    }
                }
                if (meta.sent != 0) {
                    meta.rounded = meta.bytes + 3;
                    shape.apply(hdr, meta);
                    standard.mcast_grp = meta.send_to;
                }
                if (meta.operation != WORDS_KEEP) {
                    data.apply(hdr, meta);
                }
            }
        }

        if (meta.reason != 0) {
            meta.outcome = meta.reason;
        }
        if (meta.outcome != 0) {
            counters_outcome.count((bit<32>)meta.outcome);
        }
        if (meta.completed == 1) {
            counters_completed.count((bit<32>)COUNTER_CELLS_COMPLETED);
        }
        if (meta.poisoned == 1) {
            counters_poisoned.count((bit<32>)COUNTER_CELLS_POISONED);
        }
    }
}

#endif
