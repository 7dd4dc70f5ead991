// Our declarations of the P4-16 core library (P4-16 specification 1.2, appendix D).
#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,                // nothing went wrong
    PacketTooShort,         // extract, lookahead or advance past the end
    NoMatch,                // no case of a select applies
    StackOutOfBounds,       // element of a header stack that does not exist
    HeaderTooShort,         // extract of more bits than a varbit field holds
    ParserTimeout,
    ParserInvalidArgument
}

match_kind {
    exact,
    ternary,
    lpm
}

extern packet_in {
    void extract<T>(out T hdr);
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    bit<32> length();
}

extern packet_out {
    void emit<T>(in T hdr);
}

extern void verify(in bool check, in error toSignal);

extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

@noWarn("unused")
action NoAction() {}

#endif
