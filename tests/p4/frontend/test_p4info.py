"""P4Info: ids, aliases and what each object says. Ids marked so were compared with those of p4c."""

from __future__ import annotations

from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from epic_p4 import p4info
from epic_p4.errors import SourceError
from epic_p4.frontend import compile_file, compile_text

SAMPLES = Path(__file__).with_name("samples")


def info(name: str) -> p4i.P4Info:
    return p4info.generate(compile_file(SAMPLES / f"{name}.p4"))


def ingress(local: str, apply: str = "", top: str = "", main: str = "") -> p4i.P4Info:
    """P4Info of a v1model program whose ingress has these declarations and statements."""
    text = f"""#include <v1model.p4>
struct H {{ }} struct M {{ bit<8> a; bit<16> b; }}
{top}
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {{ state start {{ transition accept; }} }}
control N(inout H h, inout M m) {{ apply {{ }} }}
control I(inout H h, inout M m, inout standard_metadata_t s) {{ {local}
apply {{ {apply} }} }}
control J(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out b, in H h) {{ apply {{ }} }}
{main} V1Switch(P(), N(), I(), J(), N(), D()) main;"""
    return p4info.generate(compile_text(text))


@pytest.mark.parametrize(
    ("kind", "name", "number"),
    [
        (p4info.ACTION, "NoAction", 21257015),
        (p4info.TABLE, "IngressI.indirect", 46872340),
        (p4info.TABLE, "IngressI.indirect_ws", 38116258),
        (p4info.ACTION, "IngressI.drop", 23455883),
        (p4info.ACTION_PROFILE, "ap", 294074782),
        (p4info.ACTION_PROFILE, "ap_ws", 300324846),
    ],
)
def test_ids_are_those_of_p4c(kind: int, name: str, number: int) -> None:
    assert kind << 24 | p4info.name_hash(name) & 0xFFFFFF == number


def test_a_table() -> None:
    message = info("router")
    routes = next(one for one in message.tables if one.preamble.alias == "routes")
    assert (routes.preamble.id, routes.preamble.name) == (0x02000000 | 42, "RouterIngress.routes")
    assert routes.size == 4096
    (field,) = routes.match_fields
    assert (field.id, field.name, field.bitwidth) == (1, "destination", 32)
    assert field.match_type == p4i.MatchField.LPM
    names = {one.preamble.id: one.preamble.alias for one in message.actions}
    assert [(names[one.id], one.scope) for one in routes.action_refs] == [
        ("route", p4i.ActionRef.TABLE_AND_DEFAULT),
        ("drop", p4i.ActionRef.TABLE_AND_DEFAULT),
        ("NoAction", p4i.ActionRef.DEFAULT_ONLY),
    ]
    assert routes.const_default_action_id == 0
    assert names[routes.initial_default_action.action_id] == "drop"
    assert not routes.is_const_table


def test_a_table_with_const_entries() -> None:
    table = next(one for one in info("router").tables if one.preamble.alias == "filter")
    assert (table.is_const_table, table.has_initial_entries, table.size) == (True, True, 1024)
    assert table.const_default_action_id == 21257015
    assert [(one.name, one.bitwidth, one.match_type) for one in table.match_fields] == [
        ("hdr.ipv4.src", 32, p4i.MatchField.TERNARY),
        ("hdr.ipv4.protocol", 8, p4i.MatchField.EXACT),
        ("standard.ingress_port", 9, p4i.MatchField.RANGE),
        ("hdr.ipv4.$valid$", 1, p4i.MatchField.EXACT),
    ]


def test_an_action_and_a_translated_type() -> None:
    message = info("router")
    route = next(one for one in message.actions if one.preamble.alias == "route")
    assert [(one.id, one.name, one.bitwidth) for one in route.params] == [
        (1, "next_hop", 48),
        (2, "port", 32),
    ]
    assert route.params[1].type_name.name == "port_t"
    translated = message.type_info.new_types["port_t"].translated_type
    assert (translated.uri, translated.sdn_bitwidth) == ("example.org/port", 32)


def test_counters() -> None:
    message = info("router")
    (frames,) = message.counters
    assert (frames.preamble.name, frames.preamble.alias, frames.size) == (
        "RouterIngress.counting.frames",
        "frames",
        512,
    )
    assert frames.spec.unit == p4i.CounterSpec.BOTH
    assert frames.preamble.doc.brief == "Frames by port"
    (hits,) = message.direct_counters
    routes = next(one for one in message.tables if one.preamble.alias == "routes")
    assert hits.direct_table_id == routes.preamble.id
    assert list(routes.direct_resource_ids) == [hits.preamble.id]
    assert hits.preamble.id >> 24 == p4info.DIRECT_COUNTER


def test_registers() -> None:
    message = info("firewall")
    assert [(one.preamble.alias, one.size) for one in message.registers] == [
        ("filter_one", 4096),
        ("filter_two", 4096),
    ]
    assert message.registers[0].type_spec.bitstring.bit.bitwidth == 1


def test_controller_packet_metadata() -> None:
    (header,) = info("router").controller_packet_metadata
    assert (header.preamble.name, header.preamble.id >> 24) == ("packet_in", p4info.CONTROLLER_HEADER)
    assert [(one.id, one.name, one.bitwidth) for one in header.metadata] == [
        (1, "ingress_port", 9),
        (2, "pad", 7),
    ]


def test_the_package() -> None:
    package = info("router").pkg_info
    assert (package.arch, package.name, package.version) == ("v1model", "router", "1.2")


def test_tna() -> None:
    message = info("sequencer")
    assert message.pkg_info.arch == "tna"
    assert {one.preamble.alias for one in message.registers} == {"numbers", "pairs"}
    pairs = next(one for one in message.registers if one.preamble.alias == "pairs")
    assert pairs.type_spec.struct.name == "pair_t"
    assert [one.name for one in message.type_info.structs["pair_t"].members] == ["low", "high"]
    assert message.direct_counters[0].spec.unit == p4i.CounterSpec.PACKETS


def test_aliases_are_the_shortest_names_that_differ() -> None:
    top = "control S(inout M m) { action a() { } table t { actions = { a; } } apply { t.apply(); } }"
    message = ingress("S() one; S() two;", "one.apply(m); two.apply(m);", top)
    assert [one.preamble.alias for one in message.tables] == ["one.t", "two.t"]
    assert {one.preamble.alias for one in message.actions} == {"one.a", "two.a", "NoAction"}


def test_arguments_of_the_default_action_have_all_their_bytes() -> None:
    message = ingress(
        "action a(bit<12> x) { m.b = (bit<16>) x; } table t { actions = { a; } default_action = a(5); }",
        "t.apply();",
    )
    (argument,) = message.tables[0].initial_default_action.arguments
    assert (argument.param_id, argument.value) == (1, b"\x00\x05")


def test_ids_within_a_table_and_action() -> None:
    local = """action a(@id(3) bit<8> x, bit<8> y, bit<8> z) { m.a = x + y + z; }
    table t { key = { m.a: exact @id(2); m.b: exact; } actions = { a; } }"""
    message = ingress(local, "t.apply();")
    action = next(one for one in message.actions if one.preamble.alias == "a")
    assert [one.id for one in action.params] == [3, 2, 4]
    assert [one.id for one in message.tables[0].match_fields] == [2, 3]


def test_what_is_not_used_or_hidden_is_not_shown() -> None:
    local = """action a() { } action unused() { } @hidden action b() { }
    table t { actions = { a; b; } } table never { actions = { a; } } @hidden table ghost { actions = { a; } }"""
    message = ingress(local, "t.apply(); ghost.apply();")
    assert [one.preamble.alias for one in message.tables] == ["t"]
    assert {one.preamble.alias for one in message.actions} == {"a", "NoAction"}


def test_an_action_that_only_code_calls_has_no_parameters() -> None:
    message = ingress("action a(bit<8> x) { m.a = x; }", "a(3);")
    assert [(one.preamble.alias, len(one.params)) for one in message.actions] == [("a", 0)]


def test_digests() -> None:
    top = "struct learn_t { bit<8> a; bit<16> b; }"
    message = ingress("", "digest<learn_t>(1, {m.a, m.b});", top)
    (digest,) = message.digests
    assert (digest.preamble.name, digest.preamble.id >> 24) == ("learn_t", p4info.DIGEST)
    assert digest.type_spec.struct.name == "learn_t"


def test_action_selectors() -> None:
    local = """@max_group_size(8) @selector_size_semantics("sum_of_members")
    action_selector(HashAlgorithm.crc16, 64, 10) choice;
    table t { key = { m.a: exact; m.b: selector; } actions = { NoAction; } implementation = choice; }"""
    message = ingress(local, "t.apply();")
    (profile,) = message.action_profiles
    assert (profile.with_selector, profile.size, profile.max_group_size) == (True, 64, 8)
    assert profile.HasField("sum_of_members")
    assert list(profile.table_ids) == [message.tables[0].preamble.id]
    assert message.tables[0].implementation_id == profile.preamble.id
    assert [one.name for one in message.tables[0].match_fields] == ["m.a"]


def test_annotations_are_passed_on() -> None:
    message = ingress('@colour("red") @name("other") table t { actions = { NoAction; } }', "t.apply();")
    assert list(message.tables[0].preamble.annotations) == ['@colour("red")']
    assert message.tables[0].preamble.name == "I.other"


def test_structured_annotations() -> None:
    message = ingress('@mixed[1, "x", true] @pairs[k=2] table t { actions = { NoAction; } }', "t.apply();")
    mixed, pairs = message.tables[0].preamble.structured_annotations
    assert [one.WhichOneof("value") for one in mixed.expression_list.expressions] == [
        "int64_value",
        "string_value",
        "bool_value",
    ]
    assert pairs.kv_pair_list.kv_pairs[0].value.int64_value == 2


def test_enumerations_and_errors_are_described() -> None:
    top = "enum bit<8> K { one = 1 } enum P2 { x, y } struct R { K k; error e; bool f; int<4> s; }"
    message = ingress("register<R>(2) r;", "R v; r.read(v, 0);", top)
    members = {
        one.name: one.type_spec.WhichOneof("type_spec") for one in message.type_info.structs["R"].members
    }
    assert members == {"k": "serializable_enum", "e": "error", "f": "bool", "s": "bitstring"}
    assert message.type_info.serializable_enums["K"].members[0].value == b"\x01"
    assert "NoError" in message.type_info.error.members


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("@id(5)", "@id(5)", "@id 5 of I.u: already the id of I.t"),
        ("@id(0x01000005)", "", "@id of I.t: 0x1000005, expected the prefix 0x02 or none"),
        ('@id("x")', "", '@id of I.t: ("x"), expected one positive integer'),
        ("@id(0)", "", "@id of I.t: (0), expected one positive integer"),
    ],
)
def test_wrong_ids(first: str, second: str, message: str) -> None:
    local = (
        f"{first} table t {{ actions = {{ NoAction; }} }}\n{second} table u {{ actions = {{ NoAction; }} }}"
    )
    with pytest.raises(SourceError) as caught:
        ingress(local, "t.apply(); u.apply();")
    assert caught.value.message == message
    assert caught.value.pos.line == (7 if second else 6)


def test_an_id_given_twice_within_a_table() -> None:
    local = "table t { key = { m.a: exact @id(1); m.b: exact @id(1); } actions = { NoAction; } }"
    with pytest.raises(SourceError, match=r":6:101: @id 1: given twice"):
        ingress(local, "t.apply();")


def test_names_that_hash_alike_get_different_ids() -> None:
    symbols = p4info._Symbols()
    names = [f"c{number}" for number in range(9000)]  # enough for a collision in 24 bits
    hashes = {p4info.name_hash(name) & 0xFFFFFF for name in names}
    assert len(hashes) < len(names)
    for name in names:
        symbols.add(p4info.TABLE, name, None)
    symbols.assign()
    assert len(set(symbols.ids.values())) == len(names)


def test_text_can_be_read_back() -> None:
    message = info("router")
    text = p4info.to_text(message)
    assert text.startswith("# proto-file: p4/config/v1/p4info.proto\n")
    assert text_format.Parse(text, p4i.P4Info()) == message
