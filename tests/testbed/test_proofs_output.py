"""What TLC says, as stored from runs of TLC 2.15, and TLA+ values."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_spec.errors import ConfigError
from epic_testbed.proofs import values
from epic_testbed.proofs.output import Outcome, OutputParser
from epic_testbed.proofs.values import Fun, ModelValue, Value

STORED = Path(__file__).parent / "tlc_outputs"


def outcome(name: str, exit_code: int) -> Outcome:
    """What the parser makes of a stored output."""
    parser = OutputParser()
    for line in (STORED / f"{name}.txt").read_text().splitlines():
        parser.feed(line)
    return parser.finish(exit_code)


@pytest.mark.parametrize(
    ("name", "exit_code", "result", "generated", "distinct", "depth", "states"),
    [
        ("invariant", 12, "violation:Small", 7, 6, 3, 3),
        ("initial", 12, "violation:Small", None, None, None, 1),
        ("action_property", 13, "violation:Mono", 15, 12, 4, 4),
        ("liveness", 13, "violation:temporal", 43, 18, None, 4),
        ("deadlock", 11, "deadlock", 10, 8, 4, 3),
        ("assertion", 75, "violation:Assert", 15, 12, None, 0),
        ("evaluation", 76, "error", 5, 5, 3, 3),
        ("simulation", 0, "ok", 2158, None, None, 0),
        ("simulation_violation", 12, "violation:Small", 38, None, None, 3),
        ("constant_missing", 151, "error", None, None, None, 0),
        ("unknown_operator", 150, "error", None, None, None, 0),
        ("syntax_error", 150, "error", None, None, None, 0),
    ],
)
def test_a_stored_run_gives_its_result_and_counts(
    name: str,
    exit_code: int,
    result: str,
    generated: int | None,
    distinct: int | None,
    depth: int | None,
    states: int,
) -> None:
    found = outcome(name, exit_code)
    assert (found.result, found.generated, found.distinct_states, found.depth) == (
        result,
        generated,
        distinct,
        depth,
    )
    assert len(found.states) == states


def test_states_have_their_action_and_their_values() -> None:
    found = outcome("action_property", 13)
    assert [s.action.name for s in found.states] == ["Initial predicate", "Up", "Up", "Down"]
    assert found.states[1].action.place == "line 7, col 10 to line 7, col 80"
    assert found.states[3].values() == {"x": 0, "net": frozenset([Fun({"from": "a", "n": 2})])}


def test_an_endless_behaviour_says_where_it_goes_back_to() -> None:
    found = outcome("liveness", 13)
    assert (found.back_to, found.stuttering) == (1, False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("evaluation", "Attempted to check equality of integer 3 with non-integer"),
        ("constant_missing", "The constant parameter K is not assigned a value"),
        ("unknown_operator", "line 5, col 14 to line 5, col 14 of module S Unknown operator: `y'."),
        ("syntax_error", 'Encountered "Beginning of definition" at line 3, column 9'),
        ("assertion", 'the second argument was: <<"boom", 4>>'),
    ],
)
def test_an_error_is_one_line_that_says_what_is_wrong(name: str, message: str) -> None:
    text = outcome(name, 1).message
    assert message in text
    assert "\n" not in text


def test_an_output_that_breaks_off_is_an_error_and_never_ok() -> None:
    lines = (STORED / "simulation.txt").read_text().splitlines()
    for length in range(len(lines) - 1):
        parser = OutputParser()
        for line in lines[:length]:
            parser.feed(line)
        assert parser.finish(0).result == "error"


def test_memory_that_ran_out_is_told_apart() -> None:
    parser = OutputParser()
    parser.feed('Exception in thread "main" java.lang.OutOfMemoryError: Java heap space')
    assert parser.finish(1).result == "memory"


def test_printed_tuples_are_kept_whole_over_several_lines() -> None:
    parser = OutputParser()
    for line in ('<<"a", 1>>', '<< "b",', "   {<<1, 2>>},", "   3 >>", "something else"):
        parser.feed(line)
    assert parser.outcome.printed == ['<<"a", 1>>', '<< "b",\n   {<<1, 2>>},\n   3 >>']


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-3", -3),
        ("TRUE", True),
        ('"a \\"b\\" \\\\"', 'a "b" \\'),
        ("m1", ModelValue("m1")),
        ("{}", frozenset()),
        ("{3, 1}", frozenset([1, 3])),
        ("1..3", frozenset([1, 2, 3])),
        ("<<>>", ()),
        ("<< <<1>>, {<<2, TRUE>>} >>", ((1,), frozenset([(2, True)]))),
        ("[a |-> 1, b_2 |-> <<>>]", Fun({"a": 1, "b_2": ()})),
        ("(0 :> {} @@\n  1 :> 5)", Fun({0: frozenset(), 1: 5})),
        ("(<<1, 2>> :> [x |-> (0 :> 1)])", Fun({(1, 2): Fun({"x": Fun({0: 1})})})),
        ("(1 :> 2 @@ 1 :> 3)", Fun({1: 2})),
    ],
)
def test_a_value_is_read(text: str, value: Value) -> None:
    found = values.parse(text)
    assert found == value
    assert type(found) is type(value)
    assert hash(found) == hash(value)


@pytest.mark.parametrize(
    "text", ["", "{1", "<<1,>>", "[a |->]", "(1 :> )", "1 2", "{1}}", "@", "1..", "1..x", "[a 1]"]
)
def test_what_is_no_value_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        values.parse(text)
    assert "\n" not in str(raised.value)


scalars = st.integers(-(2**31), 2**31 - 1) | st.booleans() | st.text("ab \"\\\n\t'", max_size=5)
names = st.text("abcxyz_", min_size=1, max_size=4).filter(lambda s: s.strip("_"))
some_values = st.recursive(
    scalars | names.map(ModelValue).filter(lambda m: m.name not in ("TRUE", "FALSE")),
    lambda inner: (
        st.frozensets(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(names, inner, min_size=1, max_size=3).map(Fun)
        | st.dictionaries(st.integers(0, 9), inner, min_size=1, max_size=3).map(Fun)
    ),
    max_leaves=12,
)


@given(some_values)
def test_what_is_shown_is_read_back(value: Value) -> None:
    assert values.parse(values.show(value)) == value
