// The TNA ingress: checks, admission, then either the engine or the plain switch.
#ifndef EPIC_TOFINO_INGRESS_P4
#define EPIC_TOFINO_INGRESS_P4

#include "../common/admission.p4"
#include "../common/forward.p4"
#include "../common/prepare.p4"
#include "../common/shape.p4"
#include "slot.p4"
#include "value.p4"
#include "data.p4"

control EpicIngress(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t standard,
                    in ingress_intrinsic_metadata_from_parser_t parsed,
                    inout ingress_intrinsic_metadata_for_deparser_t deparse,
                    inout ingress_intrinsic_metadata_for_tm_t manage) {
    // Banks of counters, all with the indices of epic.toml: a packet touches each bank at most once.
    Counter<bit<32>, bit<8>>((bit<32>)COUNTERS, CounterType_t.PACKETS) counters_frames;
    Counter<bit<32>, bit<8>>((bit<32>)COUNTERS, CounterType_t.PACKETS) counters_outcome;
    Counter<bit<32>, bit<8>>((bit<32>)COUNTERS, CounterType_t.PACKETS) counters_ce;
    Counter<bit<32>, bit<8>>((bit<32>)COUNTERS, CounterType_t.PACKETS) counters_completed;
    Counter<bit<32>, bit<8>>((bit<32>)COUNTERS, CounterType_t.PACKETS) counters_poisoned;

    Admission() admission;
    Forward() forward;
    Prepare() prepare;
    Flags() flags;
    Slot() slot;
    Value() value;
    Shape() shape;
    Data() data;
    Output() output;

    action malformed(bit<8> reason) {
        meta.reason = reason;
    }

    // Malformed in a way that the parser's states do not see.
    @hidden
    table wire {
        key = {
            meta.reason: ternary;
            parsed.parser_err: ternary;
            meta.ipv4_wrong: ternary;
            meta.udp_excess: ternary;
        }
        actions = { malformed; NoAction; }
        const entries = {
            (0, 0, 0, 20): NoAction();
            (0, 0, 0, _): malformed(COUNTER_DROP_UDP_LENGTH);
            (0, 0, 1, _): malformed(COUNTER_DROP_IP_CHECKSUM);
            (0, _, _, _): malformed(COUNTER_DROP_TRUNCATED);
        }
        const default_action = NoAction;
        size = 4;
    }

    action reflect() {
        meta.outcome = 0;
        meta.sent = COUNTER_TX_REFLECTED;
        meta.send_to = meta.edge_id;
        meta.operation = WORDS_KEEP;
        meta.length_after = 0;
        meta.rounded = 3;
        meta.bytes = 0;
    }

    // Nothing waits for anything that it does not need: a stage of Tofino is a step of the longest chain, which goes
    // QPN, cell, slot, tag, bitmap, flags, length, payload words.
    apply {
        bit<1> found = 0;
        port_t port = 0;
        multicast_t group = 0;
        counters_frames.count(COUNTER_RX_FRAMES);

        meta.udp_excess = hdr.ipv4.total_length - hdr.udp.length;
        wire.apply();
        admission.apply(hdr, meta, standard.ingress_port);
        prepare.apply(hdr, meta);

        if (meta.admitted == 0) {
            if (hdr.ethernet.isValid()) {
                forward.apply(hdr, meta, meta.ipv4_wrong == 0, found, port, group);
            }
            if (found == 1) {
                meta.reason = 0;
            }
        } else if (hdr.ipv4.ecn == ECN_CE && hdr.immdt.isValid()) {
            counters_ce.count(COUNTER_RX_CE);
        }

        meta.slot = hdr.bth.ackreq_psn + meta.number_offset;
        meta.slot = meta.slot & meta.slot_mask;
        meta.slot = meta.slot + meta.slot_base;
        meta.others = meta.full_map ^ meta.child_bit;
        flags.apply(hdr, meta);
        meta.word = hdr.immdt.rank ++ hdr.immdt.primitive ++ hdr.immdt.operator ++ hdr.immdt.datatype
            ++ hdr.immdt.null ++ hdr.immdt.err ++ hdr.immdt.tag;
        meta.agreement = meta.word & 0xffffff3f;
        // A payload under ERR is a record or nothing, and counts for no length.
        meta.counted_bytes = meta.bytes;
        if (hdr.immdt.err == 1) {
            meta.counted_bytes = 0;
        }

        meta.outcome = meta.reason;
        if (meta.kind == KIND_CONTRIBUTION || meta.kind == KIND_RESULT) {
            slot.apply(meta);
            value.apply(hdr, meta);
        } else if (meta.kind == KIND_REFLECTION) {
            reflect();
        }
        if (meta.sent != 0) {
            shape.apply(hdr, meta);
        }
        if (meta.kind != 0) {
            data.apply(hdr, meta);
        }
        if (meta.sent != 0) {
            output.apply(hdr, meta);
            // Egress parses by these.
            meta.rounded = meta.bytes + 3;
            meta.rounded = meta.rounded & 0xfffc;
            hdr.ipv4.total_length = meta.rounded + EMPTY;
            hdr.bth.pad = 0;
        }
        meta.congested = meta.flags[2:2];
        if (meta.counted == 1 || meta.accepted == 1) {
            meta.congested = meta.congested | meta.begin_flags[2:2];
        }
        if (meta.ecn == 0) {
            meta.congested = 0;
        }

        if (meta.outcome != 0) {
            counters_outcome.count(meta.outcome);
        }
        if (meta.completed == 1) {
            counters_completed.count(COUNTER_CELLS_COMPLETED);
        }
        if (meta.poisoned == 1) {
            counters_poisoned.count(COUNTER_CELLS_POISONED);
        }

        hdr.bridge.setValid();
        hdr.bridge.flooded = 0;
        if (meta.sent != 0) {
            manage.mcast_grp_a = meta.send_to;
        } else if (found == 0) {
            deparse.drop_ctl = 1;
        } else if (group != 0) {
            manage.mcast_grp_a = group;
            hdr.bridge.flooded = 1;
        } else {
            manage.ucast_egress_port = port;
        }
        hdr.bridge._pad0 = 0;
        hdr.bridge._pad1 = 0;
        hdr.bridge.sent = meta.sent;
        hdr.bridge.congested = meta.congested;
        hdr.bridge.ingress_port = standard.ingress_port;
        hdr.bridge.bytes = meta.bytes;
        hdr.bridge.cell = meta.cell;
    }
}

#endif
