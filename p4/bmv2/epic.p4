// EPIC Mode III for v1model (BMv2 simple_switch): see p4/README.md.
#include <core.p4>
#include <v1model.p4>

#include "parser.p4"
#include "ingress.p4"
#include "egress.p4"

V1Switch(
    EpicParser(),
    EpicVerifyChecksum(),
    EpicIngress(),
    EpicEgress(),
    EpicComputeChecksum(),
    EpicDeparser()
) main;
