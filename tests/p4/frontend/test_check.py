"""What a checked program says about itself: types, declarations, conversions, instances, names."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_p4 import ast
from epic_p4.check import evaluate
from epic_p4.errors import SourceError
from epic_p4.frontend import compile_file, compile_text
from epic_p4.types import (
    BOOL,
    BitType,
    EnumType,
    ExternType,
    HeaderType,
    IntType,
    NewType,
    StackType,
    StructType,
)

SAMPLES = Path(__file__).with_name("samples")
PRELUDE = """#include <v1model.p4>
header E { bit<48> dst; bit<16> kind; }
struct H { E e; E[3] st; }
struct M { bit<8> a; bit<16> b; int<8> s; bool f; }
"""


def control(body: str, local: str = "", *, top: str = "") -> ast.ControlDecl:
    """The checked control C with these locals and statements."""
    text = f"{PRELUDE}{top}\ncontrol C(inout H h, inout M m) {{ {local}\napply {{ {body} }} }}"
    found = compile_text(text, need_main=False).declaration("C")
    assert isinstance(found, ast.ControlDecl)
    return found


def assigned(expression: str, target: str = "m.a", local: str = "") -> ast.Expression:
    """The checked right side of an assignment."""
    statement = control(f"{target} = {expression};", local).body.statements[-1]
    assert isinstance(statement, ast.Assign)
    return statement.value


def call(text: str, local: str = "") -> ast.Call:
    statement = control(text, local).body.statements[-1]
    assert isinstance(statement, ast.CallStatement)
    return statement.call


# -- expressions


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("m.a + 1", BitType(8)),
        ("1 + m.a", BitType(8)),
        ("m.s * m.s", IntType(8)),
        ("m.a ++ m.b", BitType(24)),
        ("m.s ++ m.a", IntType(16)),
        ("m.b[11:4]", BitType(8)),
        ("m.a << m.b", BitType(8)),
        ("m.a == 3", BOOL),
        ("m.a < 3 && m.f", BOOL),
        ("h.e.isValid()", BOOL),
        ("h.st[1].kind", BitType(16)),
        ("h.st.size", BitType(32)),
        ("(int<8>) m.a", IntType(8)),
        ("m.f ? 1 : m.a", BitType(8)),
        ("~m.b", BitType(16)),
        ("{m.a, m.b} == {m.a, m.b}", BOOL),
    ],
)
def test_types_of_expressions(expression: str, type_: object) -> None:
    declaration = control(f"{type_} x = {expression};").body.statements[0]
    assert isinstance(declaration, ast.VarDecl) and declaration.value is not None
    assert declaration.value.type == type_


def test_every_expression_has_a_type_and_every_name_a_declaration() -> None:
    for path in SAMPLES.glob("*.p4"):
        program = compile_file(path)
        for node in ast.walk(
            [one for one in program.declarations if isinstance(one, ast.ControlDecl | ast.ParserDecl)]
        ):
            if isinstance(node, ast.Expression) and not isinstance(node, ast.DefaultExpr):
                assert str(node.type) != "_", f"{node.pos}: {type(node).__name__}"
            if isinstance(node, ast.Name):
                assert node.decl is not None, f"{node.pos}: {node.name}"
            if isinstance(node, ast.Call) and node.kind not in {ast.CallKind.HEADER, ast.CallKind.STACK}:
                assert node.decl is not None, f"{node.pos}: call"


def test_a_number_gets_the_width_of_its_partner() -> None:
    added = assigned("m.a + 1")
    assert isinstance(added, ast.Binary)
    assert isinstance(added.right, ast.IntLiteral)
    assert (added.right.width, added.right.signed, added.right.const, added.right.type) == (
        8,
        False,
        1,
        BitType(8),
    )


def test_a_negative_number_becomes_its_twos_complement() -> None:
    assert assigned("-1").const == 255
    assert assigned("-1", "m.s").const == -1


def test_a_serializable_enum_is_converted_where_bits_are_wanted() -> None:
    top = "enum bit<8> Kind { one = 1, two = 2 }"
    found = control("m.a = Kind.two;", top=top).body.statements[0]
    assert isinstance(found, ast.Assign)
    assert isinstance(found.value, ast.Cast) and found.value.implicit
    assert (found.value.type, found.value.const) == (BitType(8), 2)


def test_a_list_becomes_the_struct_it_initializes() -> None:
    made = assigned("{1, 2}", "h.e")
    assert isinstance(made, ast.StructExpr)
    assert [name for name, _ in made.items] == ["dst", "kind"]
    assert (made.const, str(made.type)) == ((1, 2), "E")
    assert [value.type for _, value in made.items] == [BitType(48), BitType(16)]


def test_a_record_is_put_in_the_order_of_the_fields() -> None:
    made = assigned("{kind = 2, dst = 1}", "h.e")
    assert isinstance(made, ast.StructExpr)
    assert [(name, value.const) for name, value in made.items] == [("dst", 1), ("kind", 2)]


def test_dots_stand_for_the_defaults_of_what_is_left() -> None:
    made = assigned("{kind = 2, ...}", "h.e")
    assert isinstance(made, ast.StructExpr) and made.const == (0, 2)
    made = assigned("{7, ...}", "h.e")
    assert isinstance(made, ast.StructExpr) and made.const == (7, 0)
    whole = assigned("{...}", "h.e")
    assert isinstance(whole, ast.DefaultValue) and str(whole.type) == "E" and whole.const is None
    assert assigned("(bit<8>)(({kind = 3, ...} == h.e) ? 8w1 : 0)").const is None


def test_compound_assignment_is_written_out() -> None:
    statement = control("m.a |+|= 3;").body.statements[0]
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Binary) and statement.value.op == "|+|"
    assert isinstance(statement.value.left, ast.Member) and statement.value.left is not statement.target


def test_names_lead_to_declarations() -> None:
    found = control("bit<8> x = 3; m.a = x;")
    declaration, assignment = found.body.statements
    assert isinstance(assignment, ast.Assign) and isinstance(assignment.value, ast.Name)
    assert assignment.value.decl is declaration
    assert isinstance(assignment.target, ast.Member) and isinstance(assignment.target.base, ast.Name)
    assert assignment.target.base.decl is found.params[1]


def test_an_inner_declaration_hides_an_outer_one() -> None:
    found = control("bit<8> x = 3; { bit<16> x = 4; m.b = x; } m.a = x;")
    block = found.body.statements[1]
    assert isinstance(block, ast.Block) and isinstance(block.statements[1], ast.Assign)
    inner = block.statements[1].value
    assert isinstance(inner, ast.Name) and inner.decl is block.statements[0]


def test_a_variable_may_have_the_name_of_a_type() -> None:
    found = control("bit<8> E = 3; m.a = E + 1; { E = 4; }")
    assert len(found.body.statements) == 3


def test_type_arguments_are_not_comparisons() -> None:
    found = control("if (m.a < m.s2 && m.a > 3) { }".replace("m.s2", "8w7"))
    assert isinstance(found.body.statements[0], ast.If)


def test_shift_right_and_nested_type_arguments_are_told_apart() -> None:
    found = control("m.a = m.a >> 2; r.write(0, 1);", local="register<bit<(8>>1)>>(1) r;")
    assert isinstance(found.body.statements[0], ast.Assign)
    register = found.locals[0]
    assert isinstance(register, ast.Instantiation)
    assert str(register.type) == "register<bit<4>>"


def test_constants_are_folded_through_names() -> None:
    top = "const bit<8> A = 3; const bit<8> B = A * 2 + 1;"
    found = control("m.a = B; m.b[B:A] = 0;", top=top).body.statements
    assert isinstance(found[0], ast.Assign) and found[0].value.const == 7
    assert isinstance(found[1], ast.Assign) and isinstance(found[1].target, ast.Slice)
    assert (found[1].target.hi, found[1].target.lo) == (7, 3)


# -- calls


def test_arguments_by_name_are_put_in_order() -> None:
    found = call("r.write(value = 2, index = 1);", "register<bit<8>>(4) r;")
    assert [None if one is None else one.const for one in found.args] == [1, 2]
    assert (found.kind, [one.name for one in found.params]) == (ast.CallKind.METHOD, ["index", "value"])


def test_type_arguments_are_inferred() -> None:
    found = call("hash(m.b, HashAlgorithm.crc16, 8w0, {m.a, m.b}, 16w7);")
    assert {name: str(type_) for name, type_ in found.bound.items()} == {
        "O": "bit<16>",
        "T": "bit<8>",
        "D": "tuple<bit<8>, bit<16>>",
        "M": "bit<16>",
    }


def test_a_number_takes_the_type_that_another_argument_binds() -> None:
    found = call("random(m.b, 0, 10);")
    assert [one.type for one in found.args if one is not None] == [BitType(16)] * 3


def test_overloads_are_told_apart_by_the_number_of_arguments() -> None:
    assert len(call('log_msg("x");').params) == 1
    assert len(call('log_msg("x {}", {m.a});').params) == 2


def test_an_omitted_optional_argument_is_none() -> None:
    top = "extern X { X(); void f(in bit<8> a, @optional in bit<8> b); }"
    found = control("x.f(m.a);", "X() x;", top=top).body.statements[0]
    assert isinstance(found, ast.CallStatement)
    assert len(found.call.args) == 2 and found.call.args[1] is None


def test_a_default_argument_is_filled_in() -> None:
    top = "bit<8> f(in bit<8> a, in bit<8> b = 5) { return a + b; }"
    found = control("m.a = f(m.a);", top=top).body.statements[0]
    assert isinstance(found, ast.Assign) and isinstance(found.value, ast.Call)
    assert found.value.args[1] is not None and found.value.args[1].const == 5


@pytest.mark.parametrize(
    ("text", "local", "kind"),
    [
        ("a();", "action a() { }", ast.CallKind.ACTION),
        ("t.apply();", "table t { actions = { NoAction; } }", ast.CallKind.TABLE_APPLY),
        ("h.e.setValid();", "", ast.CallKind.HEADER),
        ("h.st.push_front(1);", "", ast.CallKind.STACK),
        ("assert(m.f);", "", ast.CallKind.EXTERN_FUNCTION),
        ("c.count(3);", "counter(4, CounterType.bytes) c;", ast.CallKind.METHOD),
    ],
)
def test_kinds_of_calls(text: str, local: str, kind: ast.CallKind) -> None:
    assert call(text, local).kind is kind


def test_sizes_of_headers_are_constants() -> None:
    assert assigned("(bit<8>) E.minSizeInBits()").const == 64
    assert assigned("(bit<8>) h.e.minSizeInBytes()").const == 8


# -- tables


def table(text: str) -> ast.TableDecl:
    found = control("", f"action a(bit<8> x) {{ m.a = x; }} action b() {{ }} table t {{ {text} }}").locals[-1]
    assert isinstance(found, ast.TableDecl)
    return found


def test_a_table_without_default_action_does_nothing() -> None:
    found = table("actions = { a; }")
    assert found.default_action is not None and found.default_action.name == "NoAction"
    assert [(one.name, one.default_only) for one in found.actions] == [("a", False), ("NoAction", True)]


def test_names_of_keys() -> None:
    key = 'm.a: exact; m.b[7:0]: exact; h.st[1].kind: exact; h.e.isValid(): exact; m.f: exact @name("flag");'
    found = table(f"key = {{ {key} }} actions = {{ b; }}")
    assert [one.name for one in found.key] == ["m.a", "m.b[7:0]", "h.st[1].kind", "h.e.$valid$", "flag"]


def test_entries_of_all_kinds() -> None:
    found = table(
        "key = { m.a: ternary; m.b: range; m.f: exact; } actions = { a; b; }"
        "const entries = { (1 &&& 3, 5 .. 9, true): a(4); (_, _, false): b(); (7, 8, true): a(1 + 1); }"
    )
    first, second, third = found.entries
    assert found.const_entries
    assert [type(one) for one in first.keys] == [ast.MaskExpr, ast.RangeExpr, ast.BoolLiteral]
    assert first.action.args[0].const == 4
    assert [type(one) for one in second.keys[:2]] == [ast.DefaultExpr, ast.DefaultExpr]
    assert [one.const for one in third.keys] == [7, 8, True]
    assert third.action.args[0].type == BitType(8)


def test_everything_in_an_entry_stands_for_all_keys() -> None:
    found = table("key = { m.a: ternary; m.b: lpm; } actions = { b; } const entries = { _: b(); }")
    assert len(found.entries[0].keys) == 2


def test_entries_with_priorities() -> None:
    found = table(
        "key = { m.a: ternary; } actions = { b; }"
        "entries = { const priority = 10: 1 &&& 1: b(); priority = 5: _: b(); }"
    )
    assert [one.priority.const if one.priority else None for one in found.entries] == [10, 5]
    assert [one.const for one in found.entries] == [True, False]
    assert not found.const_entries


# -- parsers


def test_states_and_targets() -> None:
    program = compile_file(SAMPLES / "source_routing.p4")
    parser = program.declaration("SourceParser")
    assert isinstance(parser, ast.ParserDecl)
    assert list(parser.states) == ["start", "hop", "peek", "trace"]
    select = parser.states["hop"].transition
    assert isinstance(select, ast.Select)
    assert [case.target.state for case in select.cases] == [parser.states["peek"], parser.states["hop"]]
    assert program.errors[-1] == "TooManyHops"


def test_a_state_without_transition_rejects() -> None:
    program = compile_text("#include <core.p4>\nparser P(packet_in b) { state start { } }", need_main=False)
    parser = program.declaration("P")
    assert isinstance(parser, ast.ParserDecl)
    transition = parser.states["start"].transition
    assert isinstance(transition, ast.StateRef) and (transition.name, transition.state) == ("reject", None)


# -- instances


def test_main_binds_the_architectures_blocks() -> None:
    program = compile_file(SAMPLES / "router.p4")
    assert program.arch == "v1model" and program.main is not None
    blocks = {name: one.name for name, one in program.main.args.items() if isinstance(one, ast.Instance)}
    assert blocks["ig"] == "RouterIngress" and blocks["dep"] == "RouterDeparser"
    assert len(blocks) == 6


def test_control_plane_names_are_paths_of_instances() -> None:
    program = compile_file(SAMPLES / "router.p4")
    assert "RouterIngress.counting.frames" in program.instances
    assert list(program.tables) == ["RouterIngress.routes", "RouterIngress.filter"]
    assert [one.name for one in program.tables["RouterIngress.routes"].actions] == [
        "RouterIngress.route",
        "RouterIngress.drop",
        "NoAction",
    ]


def test_constructor_arguments_are_evaluated() -> None:
    program = compile_file(SAMPLES / "router.p4")
    frames = program.instances["RouterIngress.counting.frames"]
    assert frames.args["size"] == 512
    assert frames.args["type"] == ast.EnumValue("CounterType", "packets_and_bytes", 2)


def nested(local: str, top: str = "") -> ast.Program:
    return compile_text(
        f"""{PRELUDE}{top}
        parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) {{
            state start {{ transition accept; }} }}
        control N(inout H h, inout M m) {{ apply {{ }} }}
        control I(inout H h, inout M m, inout standard_metadata_t s) {{ {local} apply {{ }} }}
        control J(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
        control D(packet_out b, in H h) {{ apply {{ }} }}
        V1Switch(P(), N(), I(), J(), N(), D()) main;"""
    )


def test_each_instance_has_its_own_objects() -> None:
    top = "control S(inout M m)(bit<32> n) { register<bit<8>>(n * 2) r; apply { r.write(n, 1); } }"
    program = nested("S(4) one; S(8) two;", top)
    assert program.instances["I.one.r"].args["size"] == 8
    assert program.instances["I.two.r"].args["size"] == 16
    one, two = (program.instances[name] for name in ("I.one", "I.two"))
    assert one.decl is two.decl and one.members.keys() == two.members.keys()
    assert isinstance(one.decl, ast.ControlDecl)
    statement = one.decl.body.statements[0]
    assert isinstance(statement, ast.CallStatement) and statement.call.args[0] is not None
    index = statement.call.args[0]
    assert index.const is None
    assert [evaluate(index, instance) for instance in (one, two)] == [4, 8]


def test_a_constant_may_depend_on_constructor_parameters() -> None:
    top = """control S(inout M m)(bit<32> n) {
        const bit<32> DOUBLE = n << 1;
        register<bit<8>>(DOUBLE + 1) r;
        apply { } }"""
    program = nested("S(4) one; S(5) two;", top)
    assert [program.instances[f"I.{name}.r"].args["size"] for name in ("one", "two")] == [9, 11]


def test_parsers_within_parsers_have_their_own_arguments() -> None:
    text = """#include <core.p4>
    header E { bit<8> a; }
    parser Sub(packet_in b, out E e)(bit<8> n) {
        state start { b.extract(e); transition select(e.a) { n: accept; default: reject; } } }
    parser P(packet_in b, out E e, out E f) {
        Sub(3) one; Sub(4) two;
        state start { one.apply(b, e); two.apply(b, f); transition accept; } }
    parser Kind(packet_in b, out E e, out E f);
    package Box(Kind p);
    Box(P()) main;"""
    program = compile_text(text)
    assert [program.instances[name].args for name in ("P.one", "P.two")] == [{"n": 3}, {"n": 4}]
    sub = program.declaration("Sub")
    assert isinstance(sub, ast.ParserDecl) and isinstance(sub.states["start"].transition, ast.Select)
    key = sub.states["start"].transition.cases[0].keys[0]
    assert key.const is None
    assert evaluate(key, program.instances["P.two"]) == 4


def test_an_extern_object_can_be_a_constructor_argument() -> None:
    top = "control S(inout M m)(register<bit<8>> r) { apply { r.write(0, m.a); } }"
    program = nested("register<bit<8>>(4) shared; S(shared) one; S(shared) two;", top)
    shared = program.instances["I.shared"]
    assert program.instances["I.one"].args["r"] is shared
    assert program.instances["I.two"].args["r"] is shared


def test_names_by_annotation() -> None:
    top = """control S(inout M m) {
        @name("inner") counter(1, CounterType.bytes) c;
        @name(".absolute") counter(1, CounterType.bytes) d;
        apply { } }"""
    program = nested('@name("renamed") S() sub;', top)
    assert "I.renamed.inner" in program.instances
    assert "absolute" in program.instances


def test_a_control_plane_name_can_be_given_only_once() -> None:
    with pytest.raises(SourceError, match=r"control-plane name I\.same: given twice, first at"):
        nested(
            '@name("same") counter(1, CounterType.bytes) c; @name("same") counter(1, CounterType.bytes) d;'
        )


def test_a_direct_call_of_a_control_makes_an_instance() -> None:
    program = compile_file(SAMPLES / "calculator.p4")
    assert "CalculatorIngress.Reflect" in program.instances


def test_a_nameless_object_in_a_table_is_named_after_it() -> None:
    local = "table t { key = { m.a: exact; } actions = { NoAction; } implementation = action_profile(16); }"
    program = nested(local)
    table_instance = program.tables["I.t"]
    profile = table_instance.properties["implementation"]
    assert isinstance(profile, ast.Instance)
    assert (profile.name, profile.args) == ("I.t.implementation", {"size": 16})


def test_register_actions_carry_their_methods() -> None:
    program = compile_file(SAMPLES / "sequencer.p4")
    assert program.arch == "tna"
    action = program.instances["SequencerIngress.exchange"]
    assert action.args["reg"] is program.instances["SequencerIngress.pairs"]
    method = action.methods["apply"]
    assert [(one.direction, str(one.type)) for one in method.params] == [
        ("inout", "pair_t"),
        ("out", "bit<32>"),
    ]
    assert action.owner is not None and action.owner.name == "SequencerIngress"
    assert len(program.instances["SequencerIngress.reset"].methods["apply"].params) == 1


def test_tna_pipelines_may_omit_optional_parameters() -> None:
    program = compile_file(SAMPLES / "sequencer.p4")
    assert program.main is not None and list(program.main.args) == ["pipe0"]
    pipe = program.main.args["pipe0"]
    assert isinstance(pipe, ast.Instance)
    assert list(pipe.args) == [
        "ingress_parser",
        "ingress",
        "ingress_deparser",
        "egress_parser",
        "egress",
        "egress_deparser",
    ]


# -- types


def test_declared_types() -> None:
    program = compile_file(SAMPLES / "router.p4")
    types = program.types
    assert types["mac_t"] == BitType(48)  # a typedef is what it names
    assert isinstance(types["port_t"], NewType) and types["port_t"].underlying == BitType(9)
    assert isinstance(types["ethernet_h"], HeaderType)
    assert [str(one.type) for one in types["ethernet_h"].fields] == ["bit<48>", "bit<48>", "bit<16>"]
    assert isinstance(types["headers_t"], StructType)
    assert isinstance(types["Protocol"], EnumType) and types["Protocol"].members == {
        "ICMP": 1,
        "TCP": 6,
        "UDP": 17,
    }
    assert isinstance(types["counter"], ExternType)
    routing = compile_file(SAMPLES / "source_routing.p4").types["headers_t"]
    assert isinstance(routing, StructType) and isinstance(routing.fields[1].type, StackType)
    assert routing.fields[1].type.size == 9


def test_annotations_are_kept() -> None:
    program = compile_file(SAMPLES / "router.p4")
    routes = program.tables["RouterIngress.routes"].decl
    annotation = routes.annotation("id")
    assert annotation is not None and annotation.args == (42,)
    main = program.main
    assert main is not None
    assert main.annotations[0].pairs == {"name": "router", "version": "1.2"}


def test_pragmas_are_annotations() -> None:
    program = compile_file(SAMPLES / "sequencer.p4")
    stage = program.tables["SequencerIngress.flows"].decl.annotation("stage")
    assert stage is not None and stage.text == "2"


def test_a_slice_in_a_tuple_argument_is_data_of_its_width() -> None:
    # Its bounds are numbers without width, and no data.
    made = call("hash(m.b, HashAlgorithm.crc16, 16w0, {m.a[3:0], {m.b}, 4w0}, 17w65536);")
    assert str(made.args[3].type) == "tuple<bit<4>, tuple<bit<16>>, bit<4>>"


def test_a_number_without_width_in_a_nested_tuple_is_refused() -> None:
    with pytest.raises(SourceError, match=r"number without width, expected e\.g\. 8w7"):
        call("hash(m.b, HashAlgorithm.crc16, 16w0, {m.a[3:0], {7}}, 17w65536);")
