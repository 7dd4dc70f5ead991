"""Dependencies, memory and containers of small programs, worked out by hand."""

from __future__ import annotations

import pytest

from epic_p4.rules import memory, target
from epic_p4.rules.dependency import Reason, dependencies
from epic_p4.rules.estimate import Estimate, estimate
from epic_p4.rules.flow import Gress
from p4.rules.programs import context, register, register_action, source


def estimated(text: str, chip: int = 1) -> Estimate:
    return estimate(context(text, chip))


def reasons(text: str) -> set[tuple[str, str, Reason]]:
    flow = context(text).halves[0].flow
    return {(one.before.name, one.after.name, one.reason) for one in dependencies(flow)}


SET = "action set(bit<32> v) { meta.m = v; }\n"
TABLES = (
    SET
    + "action add() { meta.n = meta.m + hdr.data.a; }\n"
    + "table first { key = { hdr.data.a : exact; } actions = { set; } }\n"
    + "table second { key = { meta.m : exact; } actions = { NoAction; } }\n"
    + "table third { key = { hdr.data.b : exact; } actions = { add; } }\n"
    + "table fourth { key = { hdr.data.c : exact; } actions = { set; } }\n"
)


@pytest.mark.parametrize(
    ("apply", "before", "after", "reason"),
    [
        ("first.apply(); second.apply();", "I.first", "I.second", Reason.MATCH),
        ("first.apply(); third.apply();", "I.first", "I.third", Reason.ACTION),
        ("first.apply(); fourth.apply();", "I.first", "I.fourth", Reason.OUTPUT),
        ("second.apply(); fourth.apply();", "I.second", "I.fourth", Reason.REVERSE),
        ("if (second.apply().hit) { fourth.apply(); }", "I.second", "I.fourth", Reason.SUCCESSOR),
    ],
)
def test_kinds_of_dependencies(apply: str, before: str, after: str, reason: Reason) -> None:
    if reason is Reason.SUCCESSOR:
        apply = apply.replace("second", "third").replace("fourth", "second")
        before, after, reason = "I.third", "I.second", Reason.SUCCESSOR
    assert reasons(source(apply, TABLES)) == {(before, after, reason)}


def test_branches_that_exclude_each_other_do_not_depend() -> None:
    text = source("if (hdr.data.x == 1) { first.apply(); } else { second.apply(); }", TABLES)
    assert {reason for _, _, reason in reasons(text)} == {Reason.SUCCESSOR}
    assert estimated(text).stages == 1


def test_what_follows_a_return_does_not_depend_on_what_came_before_it() -> None:
    text = source("if (hdr.data.x == 1) { first.apply(); return; } second.apply();", TABLES)
    found = reasons(text)
    assert ("I.first", "I.second", Reason.MATCH) not in found
    assert any(before.startswith("if") and after == "I.second" for before, after, _ in found)


def test_a_sub_control_works_on_its_callers_fields() -> None:
    top = "control C(inout bit<32> v) { apply { v = v + 1; } }\n"
    text = source("meta.m = hdr.data.a; c.apply(meta.m); meta.n = meta.m;", "C() c;\n", top=top)
    assert estimated(text).stages == 3


def test_slices_of_one_field_are_apart() -> None:
    text = source("meta.m[15:0] = hdr.data.h; meta.m[31:16] = hdr.data.i;")
    assert estimated(text).stages == 1
    assert estimated(source("meta.m[15:0] = hdr.data.h; meta.m[23:8] = hdr.data.i;")).stages == 2


@pytest.mark.parametrize(
    "text", ["bool b = hdr.data.x == 1;", "meta.m = hdr.data.x == 1 ? hdr.data.a : hdr.data.b;"]
)
def test_a_choice_is_a_condition_and_a_statement(text: str) -> None:
    found = estimated(source(text))
    assert found.stages == 1
    assert found.plan.stages[0].amount(target.GATEWAYS) == 1


def test_statements_in_a_row_share_a_logical_table() -> None:
    found = estimated(source("meta.m = 1; meta.n = 2; meta.s = 3;"))
    assert found.plan.stages[0].amount(target.LOGICAL_TABLES) == 1


def test_a_condition_shares_the_logical_table_behind_it() -> None:
    found = estimated(source("if (hdr.data.x == 1) { first.apply(); }", TABLES))
    assert found.plan.stages[0].amount(target.LOGICAL_TABLES) == 1
    assert found.plan.stages[0].amount(target.GATEWAYS) == 1


def test_seventeen_gateways_take_two_stages() -> None:
    """A condition of eight alternatives takes two gateways of four rows, and one logical table."""
    alternatives = " || ".join(f"hdr.data.x == {n}" for n in range(8))
    one = f"if ({alternatives}) {{ meta.m = 1; }} else "
    text = source("".join(one.replace("data.x", f"data.{field}") for field in "xyz" * 3) + "{ meta.n = 1; }")
    found = estimated(text)
    assert [stage.amount(target.GATEWAYS) for stage in found.plan.stages] == [16, 2]


def test_a_table_larger_than_a_stage_is_split() -> None:
    """400,000 entries of 26 bits, 24 in five blocks side by side: 85 blocks, and a stage has 80."""
    text = source(
        "big.apply();", "table big { key = { hdr.data.a : exact; } actions = { NoAction; } size = 400000; }"
    )
    found = estimated(text)
    assert found.stages == 2
    assert sum(found.plan.shares[0].values()) == found.items[0].parts
    assert max(stage.amount(target.SRAM) for stage in found.plan.stages) <= 80


def pairs(count: int, size: int, front: int = 6) -> str:
    """`count` pair registers behind `front` stages, as in the trial program for the real compiler."""
    names = ["hdr.data.a"] + [f"meta.m = meta.m + {n};" for n in range(1, front)]
    body = ["meta.m = hdr.data.a;", *names[1:]]
    body += [f"hdr.words.w{n} = a{n}.execute(meta.m[15:0]);" for n in range(count)]
    fields = " ".join(f"bit<32> w{n};" for n in range(count))
    locals_ = "".join(
        register(f"r{n}", "pair_t", size)
        + register_action(f"a{n}", f"r{n}", f"value.lo = value.lo + hdr.words.w{n}; rv = value.lo;", "pair_t")
        for n in range(count)
    )
    text = source("\n".join(body), locals_)
    return text.replace(
        "struct headers_t {", f"header words_t {{ {fields} }}\nstruct headers_t {{ words_t words; "
    )


@pytest.mark.parametrize(("count", "stages"), [(24, 12), (28, 13)])
def test_it_agrees_with_the_real_compiler_on_pair_registers(count: int, stages: int) -> None:
    """With 16,384 entries 24 pairs fit Tofino 1 and 28 take a thirteenth stage (as its compiler said)."""
    found = estimated(pairs(count, 16384))
    assert found.stages == stages
    assert bool(found.problems) is (stages > 12)


@pytest.mark.parametrize(("size", "stages"), [(20480, 1 + 2), (24576, 1 + 3)])
def test_four_pair_registers_share_a_stage_up_to_20480_cells(size: int, stages: int) -> None:
    """12 map RAMs each at most; a public in-network collective with 32 of them states the same limit for Tofino 1."""
    assert estimated(pairs(8, size, front=1)).stages == stages


def test_a_large_pair_register_takes_a_stage_for_itself() -> None:
    """With 65,536 entries each, as the compiler said: 33 map RAMs of 48."""
    assert estimated(pairs(3, 65536, front=1)).stages == 1 + 3


def test_all_that_touches_a_register_lies_in_one_stage() -> None:
    locals_ = (
        register("r")
        + register_action("a", "r", "value = value + 1; rv = value;")
        + register_action("b", "r", "rv = value;")
    )
    text = source(
        "if (hdr.data.x == 1) { meta.n = a.execute(hdr.data.h); }"
        " else { meta.s = hdr.data.i; meta.m = b.execute(meta.s); }",
        locals_,
    )
    found = estimated(text)
    assert len([item for item in found.units if len(item) == 2]) == 1
    assert found.stages == 2
    assert found.plan.stages[1].amount(target.STATEFUL_ALUS) == 1


def test_a_register_that_feeds_itself_is_refused() -> None:
    locals_ = (
        register("r")
        + register_action("a", "r", "value = value + 1; rv = value;")
        + register_action("b", "r", "rv = value;")
    )
    found = estimated(source("meta.n = a.execute(hdr.data.h);\nmeta.m = b.execute(meta.n[15:0]);", locals_))
    (finding,) = found.findings
    assert "I.b and I.a touch one register, but the first waits for meta.n" in finding.what


def test_a_register_whose_users_depend_on_each_other_is_refused() -> None:
    """Both branches touch it, but a third unit between them orders the stages both ways."""
    locals_ = (
        register("r")
        + register("q")
        + register_action("a", "r", "rv = value;")
        + register_action("b", "q", "rv = value;")
        + register_action("c", "r", "value = 1; rv = value;")
        + register_action("d", "q", "value = 1; rv = value;")
    )
    text = source(
        "if (hdr.data.x == 1) { meta.s = (bit<16>)a.execute(hdr.data.h); meta.n = b.execute(meta.s); }"
        " else { meta.s = (bit<16>)d.execute(hdr.data.h); meta.n = c.execute(meta.s); }",
        locals_,
    )
    found = estimated(text)
    assert len(found.plan.cycle) == 2
    assert any("wait for each other" in problem for problem in found.problems)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        (memory.exact_blocks(8, 100, 10), 1),  # the key is the address
        (memory.exact_blocks(16, 1, 5), 4),  # four ways of 1024, whatever the size (forum thread 1399)
        (memory.exact_blocks(32, 65536, 4 + 2 + 32), 32),  # 22 + 38 bits: two a word
        (memory.exact_blocks(138, 4096, 6), 8),  # 134 bits: two blocks side by side
        (memory.tcam_blocks(32, 0, 512), 1),
        (memory.tcam_blocks(48, 0, 512), 2),
        (memory.tcam_blocks(32, 16, 1024), 4),
        (memory.action_data_blocks(1024, 32), 0),
        (memory.action_data_blocks(1024, 100), 1),
        (memory.action_data_blocks(4096, 200), 8),
        (memory.stateful_blocks(16384, 64), 9),
        (memory.stateful_blocks(65536, 64), 33),
        (memory.stateful_blocks(1024, 1), 2),
    ],
)
def test_memory_blocks(blocks: int, expected: int) -> None:
    assert blocks == expected


def test_containers_of_a_small_program() -> None:
    """Ingress adds to a (32 bits) and h (16): these have their own. eth's dst is read, the rest of eth and of data
    is not touched. n is metadata of 32 bits; s lives in the first stage only and m in both."""
    text = source("hdr.data.a = hdr.data.a + 1; hdr.data.h = hdr.data.h - 1; meta.n = hdr.eth.dst[31:0];")
    found = estimated(text)
    used = found.phv[Gress.INGRESS]
    assert used.own == {8: 0, 16: 1, 32: 1}
    assert used.header_bytes == 6
    assert used.metadata_bits == 32
    # eth 8 bytes, data 4 + 4 + 4 + 2 + 1 + 1 + 3 + 1, intrinsic metadata 8.
    assert used.beside_bytes == 8 + 20 + 8
    assert not found.phv_verdict.lacking


def test_too_many_fields_that_are_added_to_do_not_fit() -> None:
    fields = " ".join(f"bit<32> w{n};" for n in range(65))
    body = " ".join(f"hdr.words.w{n} = hdr.words.w{n} + 1;" for n in range(65))
    text = (
        source(body)
        .replace("struct headers_t {", f"header words_t {{ {fields} }}\nstruct headers_t {{ words_t words; ")
        .replace("pkt.extract(hdr.data);", "pkt.extract(hdr.data); pkt.extract(hdr.words);")
    )
    found = estimated(text)
    assert found.phv_verdict.lacking.startswith("65 containers of 32 bits")
    assert found.phv_verdict.lacking in found.problems
