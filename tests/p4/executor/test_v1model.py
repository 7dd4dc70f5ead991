"""v1model: metadata, traffic manager, checksums, hashes, registers, counters, clones, recirculation."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from epic_p4.errors import UnsupportedError
from epic_p4.runtime.hashes import crc16
from epic_p4.switch import Exact, ExecutionError
from p4.executor.programs import later, only, switch, v1model

IPV4 = """
header eth_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ip_t { bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len; bit<16> id; bit<3> flags; bit<13> frag;
              bit<8> ttl; bit<8> proto; bit<16> csum; bit<32> src; bit<32> dst; }
"""
IP_FIELDS = """{ hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.len, hdr.ip.id, hdr.ip.flags, hdr.ip.frag,
    hdr.ip.ttl, hdr.ip.proto, hdr.ip.src, hdr.ip.dst }"""


@given(st.integers(0, 255), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF), st.binary(max_size=30))
def test_ip_checksums_are_those_of_scapy(ttl: int, number: int, address: int, payload: bytes) -> None:
    target = ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))
    frame = bytes(Ether(type=0x800) / IP(ttl=ttl, id=number, dst=target, src="10.0.0.1") / UDP() / payload)
    out = only(IP_SWITCH().process(2, frame))
    expected = Ether(frame)
    expected[IP].ttl = (ttl - 1) & 0xFF
    del expected[IP].chksum
    assert out == bytes(expected)[:14] + bytes(expected)[14:]
    broken = bytearray(frame)
    broken[24] ^= 1
    assert IP_SWITCH().process(2, bytes(broken)) == []


IP_SWITCH = later(
    v1model(
        top=IPV4,
        headers="eth_t eth; ip_t ip;",
        states="state start { pkt.extract(hdr.eth); pkt.extract(hdr.ip); transition accept; }",
        verify=f"verify_checksum(hdr.ip.isValid(), {IP_FIELDS}, hdr.ip.csum, HashAlgorithm.csum16);",
        ingress="if (std.checksum_error == 1) { mark_to_drop(std); } hdr.ip.ttl = hdr.ip.ttl - 1;",
        update=f"update_checksum(hdr.ip.isValid(), {IP_FIELDS}, hdr.ip.csum, HashAlgorithm.csum16);",
    )
)


@given(st.binary(min_size=4, max_size=40))
def test_a_checksum_with_payload_covers_all_bytes(frame: bytes) -> None:
    out = only(PAYLOAD_SWITCH().process(0, frame))
    assert int.from_bytes(out[:4], "big") == zlib.crc32(frame)
    assert out[4:] == frame


PAYLOAD_SWITCH = later(
    v1model(
        top="header crc_t { bit<32> value; }",
        headers="crc_t crc; h_t h;",
        states="state start { pkt.extract(hdr.h); transition accept; }",
        ingress="hdr.crc.setValid();",
        update="update_checksum_with_payload(true, { hdr.h }, hdr.crc.value, HashAlgorithm.crc32);",
    )
)


@given(st.binary(min_size=4, max_size=4), st.sampled_from([None, b"\1\2\3"]))
def test_a_hash_leaves_out_whole_headers_that_are_invalid_and_takes_their_fields_as_0(
    head: bytes, more: bytes | None
) -> None:
    frame = head if more is None else head + more
    out = only(HASH_SWITCH().process(0, frame))
    assert int.from_bytes(out[:4], "big") == zlib.crc32(frame + b"\xab\xcd")
    fields = head + (more or bytes(3)) + b"\xab\xcd"
    assert int.from_bytes(out[4:8], "big") == 100 + zlib.crc32(fields) % 7


HASH_SWITCH = later(
    v1model(
        top="header crc_t { bit<32> value; bit<32> small; } header m_t { bit<24> v; }",
        headers="crc_t crc; h_t h; m_t m;",
        states="""
        state start { pkt.extract(hdr.h); transition select(pkt.length()) { 7: more; default: accept; } }
        state more { pkt.extract(hdr.m); transition accept; }
        """,
        ingress="""
        hdr.crc.setValid();
        hash(hdr.crc.value, HashAlgorithm.crc32, 32w0, { hdr.h, hdr.m, 16w0xABCD }, 64w0x100000000);
        hash(hdr.crc.small, HashAlgorithm.crc32, 32w100, { hdr.h.a, hdr.h.b, hdr.h.c, hdr.m.v, 16w0xABCD }, 32w7);
        """,
    )
)


def test_odd_bits_of_a_hash_are_padded_behind() -> None:
    program = v1model(
        locals="bit<4> low;",
        ingress="low = hdr.h.a[3:0]; hash(hdr.h.c, HashAlgorithm.crc16, 16w0, { low, hdr.h.b }, 32w65536);",
    )
    assert only(switch(program).process(0, b"\x0a\xbc\0\0"))[2:] == crc16(b"\xab\xc0").to_bytes(2, "big")


def test_standard_metadata_starts_as_bmv2_has_it() -> None:
    program = v1model(
        top="header seen_t { bit<16> port; bit<32> kind; bit<32> length; bit<48> stamp; bit<16> to; bit<16> rid; }",
        headers="seen_t s; h_t h;",
        states="state start { pkt.extract(hdr.h); transition accept; }",
        ingress="hdr.s.setValid(); hdr.s.port = (bit<16>)std.ingress_port; hdr.s.length = std.packet_length;"
        "hdr.s.stamp = std.ingress_global_timestamp; std.egress_spec = 300;",
        egress="hdr.s.kind = std.instance_type; hdr.s.to = (bit<16>)std.egress_port; hdr.s.rid = std.egress_rid;",
    )
    now = [10.0]
    running = switch(program, clock=lambda: now[0])
    now[0] = 12.5
    [(port, out)] = running.process(258, bytes(9))
    assert port == 300
    assert out[:20].hex() == f"01020000000000000009{2_500_000:012x}012c0000"


def test_a_multicast_group_sends_a_copy_to_each_replica() -> None:
    program = v1model(
        ingress="std.mcast_grp = (bit<16>)hdr.h.a;",
        egress="hdr.h.b = (bit<8>)std.egress_rid; hdr.h.c = hdr.h.c + 1; hdr.h.a = (bit<8>)std.instance_type;",
    )
    running = switch(program)
    running.multicast_set(7, [(3, 30), (4, 40), (3, 31)])
    sent = running.process(0, b"\x07\0\0\0xyz")
    # Each egress works on a copy of its own: c is 1 everywhere.
    assert sent == [(3, b"\x05\x1e\0\1xyz"), (4, b"\x05\x28\0\1xyz"), (3, b"\x05\x1f\0\1xyz")]
    running.multicast_delete(7)
    assert running.process(0, b"\x07\0\0\0") == []
    assert running.process(0, b"\0\0\0\0") == [(1, b"\0\0\0\1")]


def test_a_dropped_packet_is_not_sent() -> None:
    at_ingress = switch(v1model(ingress="std.mcast_grp = 1; if (hdr.h.a == 1) { mark_to_drop(std); }"))
    at_ingress.multicast_set(1, [(2, 0)])
    assert at_ingress.process(0, b"\1\0\0\0") == []
    assert at_ingress.process(0, b"\2\0\0\0") == [(2, b"\2\0\0\0")]
    at_egress = switch(v1model(egress="if (std.egress_port == 1) { mark_to_drop(std); }"))
    assert at_egress.process(0, bytes(4)) == []


def test_registers_keep_what_was_written() -> None:
    program = v1model(
        locals="register<bit<16>>(10) r; register<int<8>>(4) s;",
        ingress="""
        bit<16> old; int<8> level;
        old = 0x5555; r.read(old, (bit<32>)hdr.h.a); r.write((bit<32>)hdr.h.a, old + hdr.h.c); hdr.h.c = old;
        s.read(level, 1); s.write(1, level - 1); hdr.h.b = level < 0 ? 8w1 : 8w0;
        """,
    )
    running = switch(program)
    running.register_write("r", 3, 7)
    outs = [only(running.process(0, bytes([a, 0, 0, 5]))) for a in (3, 3, 10)]
    assert [int.from_bytes(out[2:], "big") for out in outs] == [7, 12, 0x5555]
    assert [out[1] for out in outs] == [0, 1, 1]
    assert (running.register_read("I.r", 3), running.register_read("s", 1)) == (17, 0xFD)
    running.register_fill("r", 0, 10, 0)
    assert running.register_read("r", 3) == 0
    assert running.registers() == ("I.r", "I.s")


def test_counters_count_packets_and_bytes() -> None:
    program = v1model(
        locals="""
        counter(4, CounterType.packets_and_bytes) c;
        direct_counter(CounterType.packets_and_bytes) d;
        action none() { }
        table t { key = { hdr.h.a : exact; } actions = { none; NoAction; } counters = d; }
        """,
        ingress="c.count((bit<32>)hdr.h.a); t.apply();",
    )
    running = switch(program)
    running.insert("t", {"hdr.h.a": Exact(2)}, "none")
    for a, size in ((2, 10), (2, 4), (3, 5), (9, 6)):
        running.process(0, bytes([a, *bytes(size - 1)]))
    assert [running.counter_read("c", index) for index in range(4)] == [(0, 0), (0, 0), (2, 14), (1, 5)]
    assert running.direct_counter_read("t", {"hdr.h.a": Exact(2)}) == (2, 14)
    running.direct_counter_write("t", {"hdr.h.a": Exact(2)}, 0, 0)
    running.counter_clear("c")
    assert running.direct_counter_read("t", {"hdr.h.a": Exact(2)}) == (0, 0)
    assert running.counter_read("c", 2) == (0, 0)


CLONE_META = "@field_list(1) bit<8> kept; bit<8> lost; inner_t inner;"
CLONE_TOP = "struct inner_t { @field_list(1) bit<8> deep; bit<8> other; }"


def test_an_ingress_clone_is_the_packet_as_it_came_in() -> None:
    program = v1model(
        top=CLONE_TOP,
        metadata=CLONE_META,
        ingress="""
        meta.kept = 5; meta.lost = 6; meta.inner.deep = 7; meta.inner.other = 8;
        clone_preserving_field_list(CloneType.I2E, 9, 1); hdr.h.a = 0x99;
        """,
        egress="""
        hdr.h.b = (bit<8>)std.instance_type * 16 + meta.kept; hdr.h.c = (bit<16>)(meta.lost ++ meta.inner.deep);
        if (meta.inner.other != 0) { hdr.h.c = 0xFFFF; }
        """,
    )
    running = switch(program)
    assert running.process(0, b"\1\2\3\4") == [(1, b"\x99\x05\xff\xff")]
    running.clone_session_set(9, [(6, 0)], packet_length=5)
    assert running.process(0, b"\1\2\3\4xyz") == [(6, b"\x01\x15\x00\x07x"), (1, b"\x99\x05\xff\xffxyz")]


def test_an_egress_clone_goes_through_egress_again() -> None:
    program = v1model(
        egress="if (std.instance_type == 0) { hdr.h.a = 0x77; clone(CloneType.E2E, 3); mark_to_drop(std); }"
        " else { hdr.h.b = (bit<8>)std.egress_rid; }",
    )
    running = switch(program)
    running.clone_session_set(3, [(5, 50), (6, 60)])
    assert running.process(0, b"\1\2\3\4") == [(5, b"\x77\x32\3\4"), (6, b"\x77\x3c\3\4")]


def test_recirculation_brings_the_new_packet_with_the_marked_fields() -> None:
    program = v1model(
        metadata="@field_list(2) bit<8> n;",
        ingress="meta.n = meta.n + 1; hdr.h.c = hdr.h.c * 10 + (bit<16>)std.ingress_port;",
        egress="hdr.h.a = hdr.h.a + 1; if (meta.n < 4) { recirculate_preserving_field_list(2); }"
        " else { hdr.h.b = (bit<8>)std.instance_type; }",
    )
    # c: the ingress port is known in the first pass only, as in BMv2.
    assert switch(program).process(7, bytes(4)) == [(1, b"\4\0" + (7000).to_bytes(2, "big"))]


def test_resubmission_brings_the_old_packet() -> None:
    program = v1model(
        metadata="@field_list(2) bit<8> n;",
        ingress="""
        meta.n = meta.n + 1; hdr.h.a = hdr.h.a + 1; hdr.h.b = (bit<8>)std.instance_type;
        if (meta.n < 3) { resubmit_preserving_field_list(2); }
        """,
    )
    assert switch(program).process(0, b"\5\0\0\0") == [(1, b"\6\6\0\0")]


def test_a_packet_that_recirculates_for_ever_is_stopped() -> None:
    with pytest.raises(ExecutionError, match="recirculated more than 64 times"):
        switch(v1model(egress="recirculate_preserving_field_list(0);")).process(0, bytes(4))


def test_truncate_cuts_the_frame() -> None:
    assert switch(v1model(egress="truncate(6);")).process(0, b"abcdefgh") == [(1, b"abcdef")]


def test_packet_length_in_egress_follows_the_headers() -> None:
    program = v1model(
        headers="h_t h; h_t k;", ingress="hdr.k.setValid();", egress="hdr.h.c = (bit<16>)std.packet_length;"
    )
    assert only(switch(program).process(0, bytes(10)))[2:4] == b"\0\x0e"


def test_random_stays_between_its_bounds_and_follows_the_seed() -> None:
    program = v1model(ingress="random(hdr.h.c, 16w10, 16w13);")
    drawn = [
        [only(one.process(0, bytes(4)))[3] for _ in range(50)]
        for one in (switch(program, seed=4), switch(program, seed=4))
    ]
    assert set(drawn[0]) == {10, 11, 12, 13}
    assert drawn[0] == drawn[1]


def test_log_and_assert_speak_up() -> None:
    lines: list[str] = []
    program = v1model(
        ingress='log_msg("a={} c={}", {hdr.h.a, hdr.h.c}); log_msg("end"); assert(hdr.h.a != 3);'
    )
    running = switch(program, log=lines.append)
    running.process(0, b"\2\0\0\7")
    assert lines == ["a=2 c=7", "end"]
    with pytest.raises(ExecutionError, match=r"test\.p4:\d+:\d+: assert failed"):
        running.process(0, b"\3\0\0\0")


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (
            {"locals": "meter(4, MeterType.bytes) m;", "ingress": "bit<8> x; m.execute_meter(0, x);"},
            "meter.execute_meter",
        ),
        ({"ingress": "digest(1, {hdr.h.a});"}, "digest"),
        ({"ingress": "clone3(CloneType.I2E, 1, {hdr.h.a});"}, "clone3"),
        ({"egress": "recirculate({hdr.h.a});"}, "recirculate"),
        (
            {
                "locals": """
                action none() { }
                table t {
                    key = { hdr.h.a : ternary; } actions = { none; }
                    const entries = { 1 : none() @priority(1); }
                }""",
                "ingress": "t.apply();",
            },
            "annotation @priority of an entry",
        ),
    ],
)
def test_what_is_not_realized_is_refused_by_name(parts: dict[str, str], says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        switch(v1model(**parts))


def test_a_clone_of_the_wrong_kind_is_a_fault_of_the_program() -> None:
    with pytest.raises(ExecutionError, match="clone type E2E in ingress, expected I2E"):
        switch(v1model(ingress="clone(CloneType.E2E, 1);")).process(0, bytes(4))
