"""No text brings the front end down: it says what is wrong in a line, or the program is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_p4.errors import SourceError
from epic_p4.frontend import compile_text
from epic_p4.p4info import generate

TOKENS = [
    re.findall(r'\s+|//[^\n]*|\w+|"[^"]*"|.', path.read_text())
    for path in sorted(Path(__file__).with_name("samples").glob("*.p4"))
]


@st.composite
def spoilt(draw: st.DrawFn) -> str:
    """A sample with a few of its tokens deleted, doubled, replaced by others of its own, or exchanged."""
    tokens = list(draw(st.sampled_from(TOKENS)))
    places = st.sampled_from(
        [index for index, token in enumerate(tokens) if token.strip() and token[:2] != "//"]
    )
    for _ in range(draw(st.integers(1, 3))):
        one, other = draw(places), draw(places)
        match draw(st.sampled_from(["delete", "double", "replace", "exchange"])):
            case "delete":
                tokens[one] = ""
            case "double":
                tokens[one] = f"{tokens[one]} {tokens[one]}"
            case "replace":
                tokens[one] = tokens[other]
            case _:
                tokens[one], tokens[other] = tokens[other], tokens[one]
    return "".join(tokens)


@given(spoilt())
def test_a_spoilt_program_is_refused_in_one_line_or_right(text: str) -> None:
    try:
        program = compile_text(text, "spoilt.p4")
    except SourceError as error:
        for one in (error, *error.others):
            assert re.fullmatch(r"[^:]+:\d+:\d+: .+", str(one))
    else:
        assert generate(program).pkg_info.arch == program.arch


@given(st.text(max_size=60))
def test_any_text_is_refused_in_one_line(text: str) -> None:
    try:
        compile_text(text, "any.p4", need_main=False)
    except SourceError as error:
        assert str(error).startswith("any.p4:")
        assert "\n" not in str(error)


def test_what_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(SourceError, match="nested too deep"):
        compile_text(f"const int X = {'+'.join(['1'] * 5000)};", need_main=False)
