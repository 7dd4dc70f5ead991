// TNA: a register action gives each packet of a flow its number; multicast; mirror, hash, counters.
#include <core.p4>
#include <tna.p4>

header ethernet_h { bit<48> dst; bit<48> src; bit<16> ethertype; }
header number_h { bit<32> number; bit<16> flow; }
struct headers_t { ethernet_h ethernet; number_h number; }
struct metadata_t { bit<16> index; bit<8> seen; }
struct pair_t { bit<32> low; bit<32> high; }
struct none_t { }

parser SequencerParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                       out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() checksum;
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        meta = {0, 0};
        packet.extract(hdr.ethernet);
        checksum.add({hdr.ethernet.ethertype});
        transition select(hdr.ethernet.ethertype) { 0x88B5: number; default: accept; }
    }
    state number { packet.extract(hdr.number); transition accept; }
}

control SequencerIngress(inout headers_t hdr, inout metadata_t meta,
                         in ingress_intrinsic_metadata_t intrinsic,
                         in ingress_intrinsic_metadata_from_parser_t from_parser,
                         inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                         inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash;
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS_AND_BYTES) frames;
    Register<bit<32>, bit<16>>(65536, 1) numbers;
    Register<pair_t, bit<16>>(1024) pairs;
    RegisterAction<bit<32>, bit<16>, bit<32>>(numbers) next = {
        void apply(inout bit<32> value, out bit<32> result) {
            result = value;
            value = value + 1;
        }
    };
    RegisterAction<pair_t, bit<16>, bit<32>>(pairs) exchange = {
        void apply(inout pair_t value, out bit<32> result) {
            result = 0;
            if (value.low < hdr.number.number && value.high != 0) { result = value.high; }
            value.low = hdr.number.number;
            value.high = value.high |+| 1;
        }
    };
    RegisterAction<bit<32>, bit<16>, bit<32>>(numbers) reset = {
        void apply(inout bit<32> value) { value = 1; }
    };
    action number() { hdr.number.number = next.execute(meta.index); }
    action restart() { reset.execute(meta.index); }
    action flood(MulticastGroupId_t group) { for_tm.mcast_grp_a = group; for_tm.rid = 5; }
    @pragma stage 2
    table flows {
        key = { hdr.number.flow: exact; }
        actions = { number; restart; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }
    table groups {
        key = { hdr.ethernet.dst: ternary; from_parser.parser_err: exact; }
        actions = { flood; NoAction; }
    }
    apply {
        frames.count(intrinsic.ingress_port);
        meta.index = hash.get({hdr.ethernet.src, hdr.number.flow});
        if (hdr.number.isValid()) {
            flows.apply();
            bit<32> old = exchange.execute(meta.index);
            if (old > 7) { for_deparser.drop_ctl = 1; }
        }
        groups.apply();
    }
}

control SequencerDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                          in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Mirror() mirror;
    apply {
        if (for_deparser.mirror_type == 1) { mirror.emit(10w5); }
        packet.emit(hdr);
    }
}
parser EgressParser(packet_in packet, out headers_t hdr, out none_t meta, out egress_intrinsic_metadata_t intrinsic) {
    state start { packet.extract(intrinsic); packet.extract(hdr.ethernet); transition accept; }
}
control Egress(inout headers_t hdr, inout none_t meta,
               in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t for_deparser,
               inout egress_intrinsic_metadata_for_output_port_t for_port) {
    DirectCounter<bit<32>>(CounterType_t.PACKETS) copies;
    action rewrite(bit<48> dst) { hdr.ethernet.dst = dst; copies.count(); }
    table copy {
        key = { intrinsic.egress_rid: exact; }
        actions = { rewrite; NoAction; }
        counters = copies;
    }
    apply { copy.apply(); }
}
control EgressDeparser(packet_out packet, inout headers_t hdr, in none_t meta,
                       in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    apply { packet.emit(hdr); }
}

Pipeline(SequencerParser(), SequencerIngress(), SequencerDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
