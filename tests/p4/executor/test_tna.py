"""TNA: intrinsic metadata, traffic manager, stateful externs, checksums, mirrors, recirculation."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_p4.errors import UnsupportedError
from epic_p4.runtime.hashes import Crc, checksum16, crc16
from epic_p4.switch import Exact, ExecutionError
from p4.executor.programs import later, only, switch, tna


def register_program(body: str, value: str = "bit<16>", result: str = "bit<16>", **parts: str) -> str:
    return tna(
        locals=f"""
        Register<{value}, bit<8>>(256, {parts.pop("initial", "0")}) r;
        RegisterAction<{value}, bit<8>, {result}>(r) act = {{
            void apply(inout {value} value, out {result} rv) {{ {body} }}
        }};
        """,
        ingress="hdr.h.c = (bit<16>)act.execute(hdr.h.a);",
        **parts,
    )


def test_a_register_action_reads_changes_and_writes_its_cell() -> None:
    running = switch(register_program("rv = value; value = value + (bit<16>)hdr.h.b;", initial="100"))
    outs = [only(running.process(0, bytes([a, 7, 0, 0]))) for a in (5, 5, 6)]
    assert [int.from_bytes(out[2:], "big") for out in outs] == [100, 107, 100]
    assert running.register_read("I.r", 5) == 114
    assert running.register_fields("r") == ()


def test_a_result_that_is_not_set_is_zero() -> None:
    running = switch(register_program("if (value > 5) { rv = value; } value = value + 4;"))
    assert [only(running.process(0, bytes(4)))[3] for _ in range(3)] == [0, 0, 8]


def test_a_pair_is_changed_as_one() -> None:
    program = register_program(
        """
        if (hdr.h.b > (bit<8>)value.high) { value.low = value.low + 1; value.high = (bit<16>)hdr.h.b; }
        rv = value.low;
        """,
        value="pair_t",
        top="struct pair_t { bit<16> low; bit<16> high; }",
        initial="{10, 3}",
    )
    running = switch(program)
    outs = [only(running.process(0, bytes([9, b, 0, 0])))[3] for b in (2, 4, 4, 5)]
    assert outs == [10, 11, 11, 12]
    assert running.register_fields("r") == ("low", "high")
    assert (running.register_read("r", 9, "low"), running.register_read("r", 9, "high")) == (12, 5)
    running.register_write("r", 9, 50, "low")
    assert only(running.process(0, bytes([9, 0, 0, 0])))[3] == 50


def test_tofino_2_gives_more_than_one_result() -> None:
    program = tna(
        top="struct pair_t { bit<8> low; bit<8> high; }",
        locals="""
        Register<pair_t, bit<8>>(256) r;
        RegisterAction<pair_t, bit<8>, bit<8>>(r) act = {
            void apply(inout pair_t value, out bit<8> first, out bit<8> second) {
                value.low = value.low + 1; value.high = value.high + hdr.h.a; first = value.low; second = value.high;
            }
        };
        """,
        ingress="bit<8> second; hdr.h.b = act.execute(3, second); hdr.h.c[7:0] = second;",
    ).replace("tna.p4", "t2na.p4")
    running = switch(program)
    assert [only(running.process(0, b"\5\0\0\0")) for _ in range(2)] == [b"\5\1\0\5", b"\5\2\0\x0a"]


def test_a_return_in_a_register_action_still_writes() -> None:
    running = switch(register_program("value = value + 1; rv = 1; if (value == 1) { return; } rv = 2;"))
    assert [only(running.process(0, bytes(4)))[3] for _ in range(2)] == [1, 2]
    assert running.register_read("r", 0) == 2


def test_an_index_beyond_the_register_does_nothing() -> None:
    program = register_program("value = value + 1; rv = value;").replace("(256, 0)", "(4, 0)")
    running = switch(program)
    assert only(running.process(0, bytes([4, 0, 0, 0])))[3] == 0
    assert [running.register_read("r", index) for index in range(4)] == [0, 0, 0, 0]


@pytest.mark.parametrize("second", ["act.execute(1)", "other.execute(1)", "r.read(1)"])
def test_a_register_touched_twice_is_a_fault_of_the_program(second: str) -> None:
    program = tna(
        locals="""
        Register<bit<16>, bit<8>>(256) r;
        RegisterAction<bit<16>, bit<8>, bit<16>>(r) act = {
            void apply(inout bit<16> value, out bit<16> rv) { rv = 1; }
        };
        RegisterAction<bit<16>, bit<8>, bit<16>>(r) other = { void apply(inout bit<16> value) { value = 1; } };
        """,
        ingress=f"act.execute(0); if (hdr.h.a == 1) {{ hdr.h.c = {second}; }}",
    )
    running = switch(program)
    assert len(running.process(0, bytes(4))) == 1
    assert len(running.process(0, bytes(4))) == 1
    with pytest.raises(ExecutionError, match=r"test\.p4:\d+:\d+: I\.r is touched twice by one packet"):
        running.process(0, b"\1\0\0\0")
    # The switch goes on with the next packet.
    assert len(running.process(0, bytes(4))) == 1


def test_one_of_two_exclusive_touches_is_no_fault() -> None:
    program = tna(
        locals="""
        Register<bit<16>, bit<8>>(256) r;
        RegisterAction<bit<16>, bit<8>, bit<16>>(r) one = { void apply(inout bit<16> value) { value = 1; } };
        RegisterAction<bit<16>, bit<8>, bit<16>>(r) two = { void apply(inout bit<16> value) { value = 2; } };
        """,
        ingress="if (hdr.h.a == 1) { one.execute(0); } else { two.execute(0); }",
    )
    running = switch(program)
    running.process(0, b"\1\0\0\0")
    assert running.register_read("r", 0) == 1
    running.process(0, b"\2\0\0\0")
    assert running.register_read("r", 0) == 2


def test_counters_count_once_a_packet() -> None:
    program = tna(
        locals="""
        Counter<bit<32>, bit<8>>(8, CounterType_t.PACKETS_AND_BYTES) c;
        DirectCounter<bit<32>>(CounterType_t.PACKETS_AND_BYTES) d;
        action counted() { d.count(); }
        action silent() { }
        table t { key = { hdr.h.b : exact; } actions = { counted; silent; } default_action = silent(); counters = d; }
        """,
        ingress="c.count(hdr.h.a, 4); t.apply(); if (hdr.h.c == 1) { c.count(0); }",
    )
    running = switch(program)
    running.insert("t", {"hdr.h.b": Exact(1)}, "counted")
    running.insert("t", {"hdr.h.b": Exact(2)}, "silent")
    for a, b in ((3, 1), (3, 2), (9, 1)):
        running.process(0, bytes([a, b, 0, 0, 0, 0]))
    assert running.counter_read("c", 3) == (2, 4)
    assert running.direct_counter_read("t", {"hdr.h.b": Exact(1)}) == (2, 12)
    assert running.direct_counter_read("t", {"hdr.h.b": Exact(2)}) == (0, 0)
    with pytest.raises(ExecutionError, match=r"I\.c is touched twice"):
        running.process(0, b"\0\0\0\1")


def test_both_parsers_see_intrinsic_metadata() -> None:
    program = tna(
        ingress="hdr.h.a = (bit<8>)ig_intr_md.ingress_port; ig_tm_md.ucast_egress_port = 300;",
        egress="""
        hdr.h.b = (bit<8>)eg_intr_md.egress_port; hdr.h.c = eg_intr_md.pkt_length;
        """,
    )
    assert switch(program).process(77, bytes(10)) == [(300, bytes([77, 300 & 0xFF, 0, 10]) + bytes(6))]


def test_multicast_sends_to_both_groups_and_the_unicast_port() -> None:
    program = tna(
        ingress="ig_tm_md.ucast_egress_port = 5; ig_tm_md.mcast_grp_a = (bit<16>)hdr.h.a; ig_tm_md.mcast_grp_b = 2;",
        egress="hdr.h.b = (bit<8>)eg_intr_md.egress_rid; hdr.h.c = (bit<16>)eg_intr_md.egress_rid_first;",
    )
    running = switch(program)
    running.multicast_set(1, [(6, 60), (7, 70)])
    running.multicast_set(2, [(8, 80)])
    sent = [(port, out[1], out[3]) for port, out in running.process(0, b"\1\0\0\0")]
    assert sent == [(5, 0, 0), (6, 60, 1), (7, 70, 0), (8, 80, 0)]


def test_nothing_is_sent_without_a_port_or_group() -> None:
    program = tna().replace("ig_tm_md.ucast_egress_port = 1;", "")
    assert switch(program).process(0, bytes(4)) == []


def test_drop_ctl_drops_in_ingress_and_egress() -> None:
    assert switch(tna(ingress="ig_dprsr_md.drop_ctl = 1;")).process(0, bytes(4)) == []
    assert switch(tna(egress="eg_dprsr_md.drop_ctl = 1;")).process(0, bytes(4)) == []
    assert len(switch(tna(ingress="ig_dprsr_md.drop_ctl = 2;")).process(0, bytes(4))) == 1


def test_bypass_leaves_egress_out() -> None:
    program = tna(ingress="ig_tm_md.bypass_egress = 1;", egress="hdr.h.a = 9;")
    assert switch(program).process(0, bytes(4)) == [(1, bytes(4))]


def test_a_short_packet_is_dropped_unless_the_control_looks_at_the_error() -> None:
    assert switch(tna()).process(0, b"abc") == []
    looks = """
    if (ig_prsr_md.parser_err & PARSER_ERROR_PARTIAL_HDR != 0) { hdr.h.setValid(); hdr.h.c = ig_prsr_md.parser_err; }
    """
    assert switch(tna(ingress=looks)).process(0, b"abc") == [(1, bytes([0, 0, 0, 0x22]) + b"abc")]


def test_a_select_without_a_case_is_an_error_too() -> None:
    states = "state parse { pkt.extract(hdr.h); transition select(hdr.h.a) { 1: accept; } }"
    assert switch(tna(states=states)).process(0, bytes(4)) == []
    seen = switch(tna(states=states, ingress="hdr.h.c = ig_prsr_md.parser_err;"))
    assert [only(seen.process(0, bytes([a, 0, 0, 0])))[3] for a in (0, 1)] == [1, 0]
    rejects = states.replace("1: accept;", "1: reject; default: accept;")
    assert (
        switch(tna(states=rejects, ingress="hdr.h.c = ig_prsr_md.parser_err;")).process(0, b"\1\0\0\0") == []
    )


def test_intrinsic_metadata_that_a_parser_leaves_alone_are_not_in_its_packet() -> None:
    program = tna().replace(
        "state start { pkt.extract(eg_intr_md); transition parse; }", "state start { transition parse; }"
    )
    assert switch(program).process(0, b"abcdef") == [(1, b"abcdef")]


def test_a_header_keeps_what_was_written_before_it_became_valid() -> None:
    program = tna(
        headers="h_t h; h_t k;",
        ingress="hdr.k.a = 5; hdr.k.setValid(); hdr.k.b = 6;",
    )
    assert only(switch(program).process(0, bytes(4)))[4:6] == bytes([5, 6])


def test_a_hash_wider_than_its_algorithm_repeats_its_bits() -> None:
    program = tna(
        top="header w_t { bit<40> v; }",
        headers="w_t w; h_t h;",
        locals="Hash<bit<40>>(HashAlgorithm_t.CRC16) h;",
        ingress="hdr.w.setValid(); hdr.w.v = h.get({ hdr.h.a, hdr.h.b, hdr.h.c });",
        egress_states="state parse { pkt.extract(hdr.w); pkt.extract(hdr.h); transition accept; }",
    )
    crc = crc16(b"abcd").to_bytes(2, "big")
    assert only(switch(program).process(0, b"abcd"))[:5] == (crc * 3)[1:]


def test_bridged_metadata_go_through_the_packet() -> None:
    program = tna(
        headers="b_t b; h_t h;",
        top="header b_t { bit<16> port; bit<16> other; }",
        ingress="hdr.b.setValid(); hdr.b.port = (bit<16>)ig_intr_md.ingress_port;",
        egress_states="state parse { pkt.extract(hdr.b); pkt.extract(hdr.h); transition accept; }",
        egress="hdr.h.c = hdr.b.port; hdr.b.setInvalid();",
    )
    assert switch(program).process(33, b"ab\0\0tail") == [(1, b"ab\0\x21tail")]


def test_a_recirculation_port_brings_the_packet_in_again() -> None:
    program = tna(
        ingress="hdr.h.a = hdr.h.a + 1; if (ig_intr_md.ingress_port != 68) { ig_tm_md.ucast_egress_port = 68; }",
        egress="hdr.h.b = hdr.h.b + 1;",
    )
    assert switch(program).process(0, bytes(4)) == [(1, bytes([2, 2, 0, 0]))]
    forever = switch(tna(ingress="ig_tm_md.ucast_egress_port = 68;"))
    with pytest.raises(ExecutionError, match="recirculated more than 64 times"):
        forever.process(0, bytes(4))


def test_a_register_may_be_touched_again_after_recirculation() -> None:
    program = register_program("value = value + 1; rv = value;").replace(
        "apply { ig_tm_md.ucast_egress_port = 1;",
        "apply { ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port != 68 ? 9w68 : 9w1;",
    )
    assert only(switch(program).process(0, bytes(4)))[3] == 2


MIRROR = """
header mirror_t { bit<8> kind; bit<8> value; }
"""


def test_an_ingress_mirror_is_the_frame_as_it_came_in_behind_its_header() -> None:
    program = tna(
        top=MIRROR,
        headers="mirror_t m; h_t h;",
        metadata="bit<10> session; bit<8> value;",
        ingress="ig_dprsr_md.mirror_type = 1; meta.session = 5; meta.value = 0x44; hdr.h.a = 9;",
        ingress_deparser_locals="Mirror() mirror;",
        ingress_deparser="""
        if (ig_dprsr_md.mirror_type == 1) { mirror.emit<mirror_t>(meta.session, { 0xFF, meta.value }); }
        """,
        egress_states="""
        state parse { transition select(pkt.lookahead<bit<8>>()) { 0xFF: copy; default: plain; } }
        state copy { pkt.extract(hdr.m); transition plain; }
        state plain { pkt.extract(hdr.h); transition accept; }
        """,
        egress="if (hdr.m.isValid()) { hdr.h.b = hdr.m.value; hdr.m.setInvalid(); }",
    )
    running = switch(program)
    assert running.process(0, b"\1\2\3\4xyz") == [(1, b"\x09\2\3\4xyz")]
    running.clone_session_set(5, [(8, 0)], packet_length=5)
    assert running.process(0, b"\1\2\3\4xyz") == [(8, b"\1\x44\3\4x"), (1, b"\x09\2\3\4xyz")]


def test_a_resubmitted_packet_carries_its_header_instead_of_port_metadata() -> None:
    program = tna(
        top="header again_t { bit<8> value; bit<56> pad; }",
        headers="h_t h;",
        metadata="bit<8> value;",
        states="state parse { pkt.extract(hdr.h); transition accept; }",
        ingress="""
        hdr.h.a = hdr.h.a + 1; hdr.h.b = meta.value;
        if (ig_intr_md.resubmit_flag == 0) { ig_dprsr_md.resubmit_type = 1; }
        """,
        ingress_deparser_locals="Resubmit() resubmit;",
        ingress_deparser="if (ig_dprsr_md.resubmit_type == 1) { resubmit.emit<again_t>({ 0x66, 0 }); }",
    ).replace(
        "state start { pkt.extract(ig_intr_md); pkt.advance(PORT_METADATA_SIZE); transition parse; }",
        """
        again_t again;
        state start { pkt.extract(ig_intr_md); pkt.extract(again); meta.value = again.value; transition parse; }
        """,
    )
    assert switch(program).process(0, b"\1\0\3\4") == [(1, b"\2\x66\3\4")]


@given(st.binary(min_size=4, max_size=4))
def test_hashes_are_those_of_the_named_algorithms(frame: bytes) -> None:
    out = only(HASH_SWITCH().process(0, frame))
    assert int.from_bytes(out[4:8], "big") == zlib.crc32(frame)
    assert int.from_bytes(out[8:10], "big") == int.from_bytes(frame, "big") & 0x3FF
    assert int.from_bytes(out[10:12], "big") == Crc(16, 0x1021, reflected=False, init=0xFFFF)(frame)
    assert int.from_bytes(out[12:14], "big") == zlib.crc32(frame[:2]) & 0xFFF


HASH_SWITCH = later(
    tna(
        top="header out_t { bit<32> crc; bit<16> same; bit<16> custom; bit<16> low; }",
        headers="h_t h; out_t o;",
        locals="""
        CRCPolynomial<bit<16>>(0x1021, false, false, false, 0xFFFF, 0) poly;
        Hash<bit<32>>(HashAlgorithm_t.CRC32) crc;
        Hash<bit<10>>(HashAlgorithm_t.IDENTITY) same;
        Hash<bit<16>>(HashAlgorithm_t.CUSTOM, poly) custom;
        Hash<bit<12>>(HashAlgorithm_t.CRC32) low;
        """,
        ingress="""
        hdr.o.setValid(); hdr.o.crc = crc.get({ hdr.h.a, hdr.h.b, hdr.h.c });
        hdr.o.same = (bit<16>)same.get({ hdr.h.a, hdr.h.b, hdr.h.c }); hdr.o.custom = custom.get(hdr.h);
        hdr.o.low = (bit<16>)low.get({ hdr.h.a, hdr.h.b });
        """,
    )
)


@given(st.binary(min_size=6, max_size=6), st.booleans())
def test_a_checksum_is_verified_and_made(data: bytes, right: bool) -> None:
    checksum = checksum16(data) ^ (0 if right else 0x10)
    out = only(CHECKSUM_SWITCH().process(0, data + checksum.to_bytes(2, "big")))
    assert out[0] == (0 if right or (not any(data) and checksum16(data) != 0xFFFF) else 1)
    assert out[6:8] == checksum16(out[:6]).to_bytes(2, "big")


CHECKSUM_SWITCH = later(
    tna(
        top="header s_t { bit<8> a; bit<8> b; bit<16> c; bit<16> d; bit<16> csum; }",
        headers="s_t s;",
        metadata="bool wrong;",
        parser_locals="Checksum() check;",
        states="""
        state parse { pkt.extract(hdr.s); check.add(hdr.s); meta.wrong = check.verify(); transition accept; }
        """,
        ingress="hdr.s.a = meta.wrong ? 8w1 : 8w0;",
        ingress_deparser_locals="Checksum() make;",
        ingress_deparser="hdr.s.csum = make.update({ hdr.s.a, hdr.s.b, hdr.s.c, hdr.s.d });",
        egress_states="state parse { pkt.extract(hdr.s); transition accept; }",
    )
)


def test_a_parser_counter_ends_a_loop() -> None:
    program = tna(
        top="header b_t { bit<8> v; }",
        headers="h_t h; b_t[8] s;",
        parser_locals="ParserCounter() left;",
        states="""
        state parse { pkt.extract(hdr.h); left.set(hdr.h.a); transition check; }
        state check { transition select(left.is_zero()) { true: accept; false: one; } }
        state one { pkt.extract(hdr.s.next); left.decrement(1); transition check; }
        """,
        ingress="hdr.h.b = hdr.s[2].isValid() ? 8w1 : 8w0; hdr.s[0].setInvalid();",
        egress_states="state parse { pkt.extract(hdr.h); transition accept; }",
    )
    running = switch(program)
    assert only(running.process(0, b"\3\0\0\0abcdef")) == b"\3\1\0\0bcdef"
    assert only(running.process(0, b"\1\0\0\0abcdef")) == b"\1\0\0\0bcdef"


def test_min_and_max_are_those_of_numbers() -> None:
    program = tna(ingress="hdr.h.c = max(hdr.h.a, hdr.h.b) ++ min(hdr.h.a, hdr.h.b);")
    assert only(switch(program).process(0, b"\3\7\0\0")) == b"\3\7\7\3"


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"ingress": "ig_tm_md.level2_exclusion_id = 1;"}, "assignment to level2_exclusion_id"),
        ({"ingress": "ig_tm_md.copy_to_cpu = 1;"}, "assignment to copy_to_cpu"),
        ({"ingress": "invalidate(hdr.h.a);"}, "extern function invalidate"),
        (
            {"ingress_deparser_locals": "Digest<h_t>() d;", "ingress_deparser": "d.pack(hdr.h);"},
            "Digest<h_t>.pack",
        ),
        (
            {
                "locals": '@symmetric("hdr.h.a", "hdr.h.b") Hash<bit<16>>(HashAlgorithm_t.CRC16) x;',
                "ingress": "hdr.h.c = x.get({ hdr.h.a, hdr.h.b });",
            },
            "annotation @symmetric of a Hash",
        ),
    ],
)
def test_what_is_not_realized_is_refused_by_name(parts: dict[str, str], says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        switch(tna(**parts))
