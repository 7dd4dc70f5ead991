// UDP to ICRC, for the body of a parser: states from `transport` on. Text and not a parser of its own, so that compilers
// see that a header is read only where it was extracted.
// A frame that is not well formed leaves by a state that names its reason, with the headers so far. The IP total length
// says where the frame ends, so all that depends on it is decided by matching that number: parsers need no arithmetic.
// Two things are left to others: the UDP length (admission.p4) and the ICRC.
    state transport {
        transition select(hdr.ipv4.total_length) {
            16w0 &&& 16w0xfff0: ip_length;  // below 20: not even its own header
            16w16 &&& 16w0xfffc: ip_length;
            16w20 &&& 16w0xfffc: truncated;  // below 28
            16w24 &&& 16w0xfffc: truncated;
            default: udp;
        }
    }

    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port, hdr.ipv4.total_length) {
            (UDP_PORT, 16w0 &&& 16w0xffe0): truncated;  // below 44: no BTH and ICRC
            (UDP_PORT, 16w32 &&& 16w0xfff8): truncated;
            (UDP_PORT, 16w40 &&& 16w0xfffc): truncated;
            (UDP_PORT, _): bth;
            default: udp_port;
        }
    }

    state bth {
        packet.extract(hdr.bth);
        transition select(hdr.bth.tver, hdr.bth.opcode) {
            (0, OPCODE_SEND_ONLY_IMM): immdt;
            (0, OPCODE_ACK): aeth;
            (0, OPCODE_SEND_FIRST): other_mode;
            (0, OPCODE_SEND_MIDDLE): other_mode;
            (0, OPCODE_SEND_LAST): other_mode;
            (0, OPCODE_SEND_LAST_IMM): other_mode;
            (0, OPCODE_SEND_ONLY): other_mode;
            (0, _): opcode;
            default: tver;
        }
    }

    // Decodes, but Mode III does not use it.
    state other_mode {
        meta.fault = COUNTER_DROP_ROLE;
        transition accept;
    }

    state aeth {
        transition select(hdr.ipv4.total_length) {
            16w44 &&& 16w0xfffc: truncated;  // below 48: no room for an AETH
            default: take_aeth;
        }
    }

    state take_aeth {
        packet.extract(hdr.aeth);
        transition select(hdr.aeth.syndrome) {
            SYNDROME_ACK &&& SYNDROME_MASK: area;
            SYNDROME_RNR_NAK &&& SYNDROME_MASK: area;
            SYNDROME_NAK &&& SYNDROME_MASK: area;
            default: syndrome;
        }
    }

    state immdt {
        transition select(hdr.ipv4.total_length) {
            16w44 &&& 16w0xfffc: truncated;
            default: take_immdt;
        }
    }

    // What is tied to the payload is tied to there being one: a total length of EMPTY says that there is none.
    state take_immdt {
        packet.extract(hdr.immdt);
        transition select(hdr.immdt.primitive, hdr.immdt.datatype, hdr.immdt.err, hdr.immdt.null) {
            (3, _, _, _): descriptor;
            (_, 4w8 &&& 4w8, _, _): descriptor;
            (_, _, 1, _): area;
            (_, _, 0, 1): null_cell;
            default: payload_cell;
        }
    }

    state null_cell {
        transition select(hdr.ipv4.total_length) {
            EMPTY: area;
            default: descriptor;
        }
    }

    state payload_cell {
        transition select(hdr.immdt.operator, hdr.ipv4.total_length) {
            (OPERATOR_NONE, _): descriptor;
            (_, EMPTY): descriptor;
            default: area;
        }
    }

    // Payload and Pad bytes together: a multiple of 4, and some when Pad says so.
    state area {
        transition select(hdr.ipv4.total_length, hdr.bth.pad) {
            (16w1 &&& 16w1, _): pad;
            (16w2 &&& 16w2, _): pad;
            (EMPTY, 0): icrc;
            (EMPTY, _): pad;
            default: size;
        }
    }

    // At most WORDS words; the rest of what is longer stays unparsed behind the headers.
    state size {
        transition select(hdr.ipv4.total_length) {
            16w0x0030 &&& 16w0xfff0: chunks;
#if WORDS == 48
            16w0x0040 &&& 16w0xffc0: chunks;
            16w0x0080 &&& 16w0xffc0: chunks;
            16w0x00c0 &&& 16w0xffe0: chunks;
            16w0x00e0 &&& 16w0xfff0: chunks;
#else
#if WORDS > 16
            16w0x0040 &&& 16w0xffc0: chunks;
#endif
#if WORDS > 32
            16w0x0080 &&& 16w0xff80: chunks;
#endif
#if WORDS > 64
            16w0x0100 &&& 16w0xff00: chunks;
#endif
#if WORDS > 128
            16w0x0200 &&& 16w0xfe00: chunks;
#endif
            16w4 * WORDS &&& 16w0xffe0: chunks;
            16w4 * WORDS + 32 &&& 16w0xfff0: chunks;
#endif
            FULL: chunks;
            default: oversize;
        }
    }

    // More than fits is there, not only said to be there: a frame that ends before is truncated. `icrc` gets the word
    // after the last chunk; deparsed, all is in its place again.
    state oversize {
        meta.fault = COUNTER_DROP_OVERSIZE;
        EACH_CHUNK(TAKE_CHUNK)
        transition icrc;
    }

    state chunks {
#if WORDS == 256
        transition maybe_128;
#elif WORDS == 128
        transition maybe_64;
#elif WORDS == 64
        transition maybe_32;
#elif WORDS == 48
        transition maybe_upper;
#elif WORDS == 32
        transition maybe_16;
#else
        transition maybe_8;
#endif
    }

#if WORDS == 256
    CHUNK(128, maybe_64)
#endif
#if WORDS >= 128
    CHUNK(64, maybe_32)
#endif
#if WORDS >= 64
    CHUNK(32, maybe_16)
#endif
#if WORDS == 48
    CHUNK(upper, maybe_16)
#endif
#if WORDS >= 32
    CHUNK(16, maybe_8)
#endif
    CHUNK(8, maybe_4)
    CHUNK(4, maybe_2)
    CHUNK(2, maybe_1)
    CHUNK(1, maybe_last)
    CHUNK(last, icrc)

    state icrc {
        packet.extract(hdr.icrc);
        transition accept;
    }

    REFUSE(ip_length, COUNTER_DROP_IP_LENGTH)
    REFUSE(truncated, COUNTER_DROP_TRUNCATED)
    REFUSE(udp_port, COUNTER_DROP_UDP_PORT)
    REFUSE(tver, COUNTER_DROP_TVER)
    REFUSE(opcode, COUNTER_DROP_OPCODE)
    REFUSE(syndrome, COUNTER_DROP_SYNDROME)
    REFUSE(descriptor, COUNTER_DROP_DESCRIPTOR)
    REFUSE(pad, COUNTER_DROP_PAD)
