// The native architecture of Tofino 2: that of Tofino with more intrinsic metadata and register outputs.
#ifndef EPIC_T2NA_P4
#define EPIC_T2NA_P4

#ifndef __TARGET_TOFINO__
#define __TARGET_TOFINO__ 2
#endif
#define EPIC_T2NA

#include <tna.p4>

#endif
