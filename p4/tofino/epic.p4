// EPIC Mode III for TNA (Tofino 2, and Tofino 1 with fewer words): see p4/README.md.
#define EPIC_TNA
#ifndef __TARGET_TOFINO__
#define __TARGET_TOFINO__ 2
#endif

// A bitmap is one half of what a stateful ALU holds.
#ifndef CHILDREN
#define CHILDREN 32
#endif
#ifndef WORDS
#if __TARGET_TOFINO__ == 1
#define WORDS 16
#else
#define WORDS 64
#endif
#endif
#ifndef CELLS
#define CELLS 16384
#endif

#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

#include "parser.p4"
#include "ingress.p4"
#include "egress.p4"
#include "deparser.p4"

Pipeline(
    EpicIngressParser(),
    EpicIngress(),
    EpicIngressDeparser(),
    EpicEgressParser(),
    EpicEgress(),
    EpicEgressDeparser()
) pipe;

Switch(pipe) main;
