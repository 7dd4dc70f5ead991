"""Controls: copy-in and copy-out, exit and return, switch, hit and miss, stacks, names."""

from __future__ import annotations

import pytest

from epic_p4.switch import ControlError, Exact, NotFoundError, OutOfRangeError, Ternary
from p4.executor.programs import only, switch, v1model


def test_an_inout_argument_is_copied_back_at_the_end() -> None:
    program = v1model(
        locals="""
        action twice(inout bit<8> x) { x = x + 1; hdr.h.b = hdr.h.a; x = x + 1; }
        """,
        ingress="twice(hdr.h.a);",
    )
    # While the action runs, hdr.h.a still has its old value.
    assert only(switch(program).process(0, bytes([7, 0, 0, 0]))) == bytes([9, 7, 0, 0])


def test_copies_are_made_back_from_left_to_right() -> None:
    program = v1model(
        locals="action two(out bit<8> x, out bit<8> y) { x = 1; y = 2; }",
        ingress="two(hdr.h.a, hdr.h.a);",
    )
    assert only(switch(program).process(0, bytes(4)))[0] == 2


def test_a_header_argument_that_the_action_names_itself_is_a_copy() -> None:
    program = v1model(
        locals="action act(inout h_t x) { x.a = 5; hdr.h.a = 9; x.b = hdr.h.a; }",
        ingress="act(hdr.h);",
    )
    # The header as the action saw it is copied over what was written beside it.
    assert only(switch(program).process(0, bytes(4)))[:2] == bytes([5, 9])


def test_overlapping_arguments_of_a_control_are_copies() -> None:
    program = v1model(
        top="""
        control C(in h_t before, inout h_t now) { apply { now.a = before.a + 1; now.b = before.a; } }
        """,
        locals="C() c;",
        ingress="c.apply(hdr.h, hdr.h);",
    )
    assert only(switch(program).process(0, bytes([4, 0, 0, 0])))[:2] == bytes([5, 4])


def test_an_out_header_starts_invalid() -> None:
    program = v1model(
        headers="h_t h; h_t k;",
        top="control C(out h_t x, out bit<8> n) { apply { n = x.isValid() ? 8w1 : 8w2; } }",
        locals="C() c;",
        ingress="hdr.k.setValid(); hdr.k.a = 3; c.apply(hdr.k, hdr.h.b);",
    )
    assert only(switch(program).process(0, bytes(4))) == bytes([0, 2, 0, 0])


def test_exit_in_a_control_inside_copies_back_and_ends_everything() -> None:
    program = v1model(
        top="control C(inout bit<8> n) { apply { n = n + 1; if (n == 3) { exit; } n = n + 10; } }",
        locals="""
        C() c;
        action act(inout bit<8> x) { x = x + 100; if (x == 105) { exit; } x = x + 1; }
        """,
        ingress="c.apply(hdr.h.a); act(hdr.h.b); hdr.h.c = 7;",
    )
    running = switch(program)
    assert only(running.process(0, bytes([2, 0, 0, 0]))) == bytes([3, 0, 0, 0])
    assert only(running.process(0, bytes([4, 5, 0, 0]))) == bytes([15, 105, 0, 0])
    assert only(running.process(0, bytes([4, 6, 0, 0]))) == bytes([15, 107, 0, 7])


def test_egress_runs_although_ingress_exited() -> None:
    program = v1model(ingress="exit;", egress="hdr.h.a = 9;")
    assert only(switch(program).process(0, bytes(4)))[0] == 9


def test_return_ends_only_its_own_body() -> None:
    program = v1model(
        top="""
        bit<8> first(in bit<8> x) { if (x == 1) { return 10; } if (x == 2) { return 20; } return 30; }
        control C(inout bit<8> n) { apply { if (n == 1) { n = 50; return; } n = 60; } }
        """,
        locals="""
        C() c;
        action act(inout bit<8> x) { if (x == 1) { x = 2; return; } x = 9; }
        """,
        ingress="hdr.h.c = (bit<16>)first(hdr.h.a); act(hdr.h.b); c.apply(hdr.h.a);",
    )
    running = switch(program)
    assert only(running.process(0, bytes([1, 1, 0, 0]))) == bytes([50, 2, 0, 10])
    assert only(running.process(0, bytes([2, 2, 0, 0]))) == bytes([60, 9, 0, 20])
    assert only(running.process(0, bytes([3, 3, 0, 0]))) == bytes([60, 9, 0, 30])


TABLE = """
action set_b(bit<8> n) { hdr.h.b = n; }
action add_b(bit<8> n, bit<16> m) { hdr.h.b = hdr.h.b + n; hdr.h.c = m; }
action none() { }
table t { key = { hdr.h.a : exact; } actions = { set_b; add_b; none; } default_action = set_b(99); }
"""


def test_the_entry_says_what_is_done() -> None:
    running = switch(v1model(locals=TABLE, ingress="t.apply();"))
    running.insert("I.t", {"hdr.h.a": Exact(1)}, "I.set_b", {"n": 5})
    running.insert("t", {"hdr.h.a": Exact(2)}, "add_b", {"n": 6, "m": 0x1234})
    running.insert("t", {"hdr.h.a": Exact(3)}, "none")
    frames = [only(running.process(0, bytes([a, 1, 0, 0]))) for a in (1, 2, 3, 4)]
    assert [frame[1] for frame in frames] == [5, 7, 1, 99]
    assert frames[1][2:] == b"\x12\x34"
    assert [entry.match["hdr.h.a"] for entry in running.entries("t")] == [Exact(1), Exact(2), Exact(3)]
    assert running.default("t").params == {"n": 99}


def test_hit_miss_and_action_run_follow_the_lookup() -> None:
    program = v1model(
        locals=TABLE,
        ingress="""
        if (t.apply().hit) { hdr.h.c = hdr.h.c + 1; } else { hdr.h.c = hdr.h.c + 2; }
        switch (u.apply().action_run) {
            set_b: { hdr.h.c = hdr.h.c + 0x10; }
            none:
            add_b: { hdr.h.c = hdr.h.c + 0x20; }
            default: { hdr.h.c = hdr.h.c + 0x40; }
        }
        """,
    ).replace(
        "apply { std.egress_spec = 1;",
        """
        action other() { }
        table u { key = { hdr.h.a : ternary; } actions = { other; set_b; add_b; none; } default_action = other(); }
        apply { std.egress_spec = 1;""",
    )
    running = switch(program)
    running.insert("t", {"hdr.h.a": Exact(1)}, "none")
    running.insert("u", {"hdr.h.a": Ternary(1, 1)}, "set_b", {"n": 0}, 1)
    running.insert("u", {"hdr.h.a": Ternary(2, 3)}, "none", {}, 1)
    frames = [only(running.process(0, bytes([a, 0, 0, 0]))) for a in (1, 2, 3, 4)]
    assert [frame[3] for frame in frames] == [0x11, 0x22, 0x12, 0x42]


def test_const_entries_win_in_their_order() -> None:
    program = v1model(
        locals="""
        action set_b(bit<8> n) { hdr.h.b = n; }
        table t {
            key = { hdr.h.a : ternary; hdr.h.c : range; }
            actions = { set_b; }
            const entries = {
                (0x10 &&& 0xF0, _) : set_b(1);
                (0x11, 5 .. 9) : set_b(2);
                (_, 5 .. 9) : set_b(3);
                (0x01 &&& 0x01, 0 .. 100) : set_b(4);
            }
            const default_action = set_b(5);
        }
        """,
        ingress="t.apply();",
    )
    running = switch(program)
    cases = [(0x11, 6), (0x21, 6), (0x21, 10), (0x20, 10), (0x20, 9)]
    assert [only(running.process(0, bytes([a, 0, 0, c])))[1] for a, c in cases] == [1, 3, 4, 5, 3]
    assert all(entry.const for entry in running.entries("t"))


def test_a_table_without_key_runs_its_default_action() -> None:
    program = v1model(
        locals="action set_b(bit<8> n) { hdr.h.b = n; } table t { actions = { set_b; } default_action = set_b(3); }",
        ingress="if (t.apply().miss) { hdr.h.c = 1; }",
    )
    running = switch(program)
    assert only(running.process(0, bytes(4))) == bytes([0, 3, 0, 1])
    running.set_default("t", "set_b", {"n": 4})
    assert only(running.process(0, bytes(4)))[1] == 4


def test_a_directional_argument_in_the_list_of_actions_is_passed_on() -> None:
    program = v1model(
        locals="""
        action copy(inout bit<8> x, bit<8> n) { x = x + n; }
        table t { key = { hdr.h.a : exact; } actions = { copy(hdr.h.b); @defaultonly NoAction; } }
        """,
        ingress="t.apply();",
    )
    running = switch(program)
    running.insert("t", {"hdr.h.a": Exact(1)}, "copy", {"n": 7})
    assert only(running.process(0, bytes([1, 2, 0, 0])))[1] == 9
    with pytest.raises(ControlError, match="@defaultonly"):
        running.insert("t", {"hdr.h.a": Exact(2)}, "NoAction")


def test_instances_of_a_control_keep_their_own_state() -> None:
    program = v1model(
        top="""
        control Count(inout bit<8> n)(bit<8> step) {
            register<bit<8>>(4) cells;
            action set_n(bit<8> m) { n = m; }
            table t { key = { n : exact; } actions = { set_n; NoAction; } default_action = NoAction(); }
            apply { bit<8> old; cells.read(old, 0); n = old + step; cells.write(0, n); t.apply(); }
        }
        """,
        locals="Count(1) one; Count(10) ten;",
        ingress="one.apply(hdr.h.a); ten.apply(hdr.h.b);",
    )
    running = switch(program)
    running.insert("I.one.t", {"n": Exact(2)}, "I.one.set_n", {"m": 77})
    frames = [only(running.process(0, bytes(4))) for _ in range(3)]
    assert [tuple(frame[:2]) for frame in frames] == [(1, 10), (77, 20), (3, 30)]
    assert running.register_read("I.ten.cells", 0) == 30
    with pytest.raises(NotFoundError, match="ambiguous"):
        running.register_read("cells", 0)


def test_a_stack_is_pushed_and_popped() -> None:
    program = v1model(
        top="header b_t { bit<8> v; }",
        headers="h_t h; b_t[3] s;",
        states="""
        state start { pkt.extract(hdr.h); transition more; }
        state more { pkt.extract(hdr.s.next); pkt.extract(hdr.s.next); transition accept; }
        """,
        ingress="""
        if (hdr.h.a == 1) { hdr.s.push_front(1); hdr.s[0].setValid(); hdr.s[0].v = 9; }
        if (hdr.h.a == 2) { hdr.s.pop_front(1); }
        if (hdr.h.a == 3) { hdr.s.push_front(2); }
        if (hdr.h.a == 4) { hdr.s[1] = hdr.s[0]; hdr.s[0].v = 8; }
        if (hdr.h.a == 5) { hdr.s[hdr.h.b].v = 0x77; }
        """,
    )
    running = switch(program)
    outs = [only(running.process(0, bytes([a, 1, 0, 0, 5, 6])))[4:] for a in range(1, 6)]
    assert outs == [bytes([9, 5, 6]), bytes([6]), bytes([5]), bytes([8, 5]), bytes([5, 0x77])]
    # Beyond the stack nothing is written.
    assert only(running.process(0, bytes([5, 3, 0, 0, 5, 6])))[4:] == bytes([5, 6])


def test_assigned_headers_and_structs_are_copies() -> None:
    program = v1model(
        headers="h_t h; h_t k;",
        top="struct pair_t { bit<8> x; bit<8> y; }",
        locals="pair_t p; pair_t q; h_t saved;",
        ingress="""
        p = { 1, 2 }; q = p; p.x = 9; saved = hdr.h; hdr.h.a = 7; hdr.k = saved; saved.b = 5;
        hdr.h.c = (bit<16>)q.x; hdr.k.c = hdr.k == saved ? 16w1 : 16w2;
        p = { p.y, p.x }; hdr.k.b = p.x * 16 + p.y;
        """,
    )
    assert only(switch(program).process(0, bytes([3, 4, 0, 0]))) == bytes([7, 4, 0, 1, 3, 0x29, 0, 2])


def test_an_invalid_header_reads_as_zero() -> None:
    program = v1model(
        headers="h_t h; h_t k;",
        states="state start { pkt.extract(hdr.h); pkt.extract(hdr.k); transition accept; }",
        ingress="hdr.k.setInvalid(); hdr.h.a = hdr.k.a; hdr.k.a = 5; hdr.k.setValid(); hdr.h.b = hdr.k.a;",
    )
    assert only(switch(program).process(0, bytes([1, 2, 3, 4, 5, 6, 7, 8]))) == bytes(
        [0, 0, 3, 4, 0, 0, 0, 0]
    )


def test_python_words_are_names_like_others() -> None:
    program = v1model(
        top="""
        header class_t { bit<8> def; bit<8> None; bit<8> self; bit<8> reset; }
        struct lambda_t { bit<8> import; bit<8> _v; }
        """,
        headers="class_t yield;",
        metadata="lambda_t global;",
        states="state start { pkt.extract(hdr.yield); transition del; } state del { transition accept; }",
        locals="""
        bit<8> len; bit<8> print; bit<8> hit; bit<8> _t; bit<8> _ctx; bit<8> max;
        action async(bit<8> await) { hdr.yield.None = await; }
        table try { key = { hdr.yield.def : exact @name("with"); } actions = { async; } default_action = async(1); }
        register<bit<8>>(2) while;
        """,
        ingress="""
        len = 1; print = 2; _t = 3; _ctx = 4; max = hdr.yield.def |+| 250; meta.global.import = len + print + _t + _ctx;
        meta.global._v = 1; try.apply(); while.write(0, max); while.read(hit, 0);
        hdr.yield.self = meta.global.import + meta.global._v; hdr.yield.reset = hit;
        """,
    )
    running = switch(program)
    running.insert("try", {"with": Exact(3)}, "async", {"await": 6})
    assert only(running.process(0, bytes([3, 0, 0, 0]))) == bytes([3, 6, 11, 253])


def test_a_long_chain_of_else_ifs_is_no_problem() -> None:
    chain = " else ".join(
        f"if (hdr.h.c == {number}) {{ hdr.h.b = {number % 251}; }}" for number in range(150)
    )
    running = switch(v1model(ingress=chain))
    assert [only(running.process(0, bytes([0, 255, 0, c])))[1] for c in (0, 149, 150)] == [0, 149, 255]


def test_a_number_that_is_only_read_may_be_a_part_of_an_object_that_is_written() -> None:
    program = v1model(
        top="control C(inout h_t h, in bit<8> old) { apply { h.a = h.a + 1; h.b = old; } }",
        locals="C() c;",
        ingress="c.apply(hdr.h, hdr.h.a);",
    )
    running = switch(program)
    assert only(running.process(0, bytes([5, 0, 0, 0])))[:2] == bytes([6, 5])
    assert ".copy()" not in running.generated_source().split("def _C_I")[1]


def test_a_written_number_comes_before_or_after_the_object_by_its_place() -> None:
    program = v1model(
        top="""
        control First(out bit<8> n, inout h_t h) { apply { n = 1; h.a = 2; } }
        control Last(inout h_t h, out bit<8> n) { apply { n = 1; h.a = 2; } }
        """,
        locals="First() first; Last() last;",
        ingress="if (hdr.h.b == 0) { first.apply(hdr.h.a, hdr.h); } else { last.apply(hdr.h, hdr.h.a); }",
    )
    running = switch(program)
    assert [only(running.process(0, bytes([9, b, 0, 0])))[0] for b in (0, 1)] == [2, 1]


def test_reset_leaves_only_what_the_program_says() -> None:
    running = switch(
        v1model(
            locals="register<bit<8>>(4) r; counter(4, CounterType.packets) c; " + TABLE, ingress="t.apply();"
        )
    )
    running.insert("t", {"hdr.h.a": Exact(0)}, "none")
    running.set_default("t", "none")
    running.register_write("r", 1, 7)
    running.counter_write("c", 1, 2, 3)
    running.multicast_set(1, [(1, 1)])
    running.clone_session_set(1, [(1, 1)])
    running.reset()
    assert (running.entries("t"), running.default("t").params) == ([], {"n": 99})
    assert (running.register_read("r", 1), running.counter_read("c", 1)) == (0, (0, 0))
    assert (running.multicast_groups(), running.clone_sessions()) == ({}, {})
    assert only(running.process(0, bytes(4)))[1] == 99


def test_generated_source_says_where_it_comes_from() -> None:
    source = switch(v1model(ingress="hdr.h.a = 1;")).generated_source()
    assert "test.p4:" in source
    compile(source, "generated", "exec")


def test_names_that_do_not_exist_are_refused() -> None:
    running = switch(v1model(locals="register<bit<8>>(4) cells; " + TABLE, ingress="t.apply();"))
    with pytest.raises(NotFoundError, match=r"table 'nope': unknown, expected one of I\.t"):
        running.entries("nope")
    with pytest.raises(OutOfRangeError, match=r"index 4, expected 0\.\.3"):
        running.register_write("cells", 4, 1)
    with pytest.raises(ControlError, match="port 511"):
        running.process(511, bytes(4))
