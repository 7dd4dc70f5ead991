// Ethernet and IPv4 as far as both architectures agree, for the body of a parser: the states `ethernet` and `ipv4`
// (which extract) lead here. Text and not a parser of its own, for Tofino wants its checksum unit in the state that
// extracts the header.
#define AFTER_ETHERNET \
    transition select(hdr.ethernet.ether_type) { \
        ETHER_IPV4: ipv4; \
        0x8100: vlan; \
        0x88a8: vlan; \
        0x9100: vlan; \
        default: ether_type; \
    }

// Flags without DF, and the offset, are 0 in a whole packet.
#define AFTER_IPV4 \
    transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) { \
        (4, 5, 3w0 &&& 3w5, 0, PROTOCOL_UDP): transport; \
        (4, 5, 3w0 &&& 3w5, 0, _): protocol; \
        (4, 5, _, _, _): fragment; \
        (4, 4w0 &&& 4w12, _, _, _): ip_version; \
        (4, 4, _, _, _): ip_version; \
        (4, _, _, _, _): ip_options; \
        default: ip_version; \
    }

#define NETWORK_REASONS \
    REFUSE(vlan, COUNTER_DROP_VLAN) \
    REFUSE(ether_type, COUNTER_DROP_ETHER_TYPE) \
    REFUSE(protocol, COUNTER_DROP_PROTOCOL) \
    REFUSE(fragment, COUNTER_DROP_FRAGMENT) \
    REFUSE(ip_version, COUNTER_DROP_IP_VERSION) \
    REFUSE(ip_options, COUNTER_DROP_IP_OPTIONS)
