"""Text, and where it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_p4.errors import Pos, SourceError
from epic_p4.frontend import compile_file
from epic_p4.preprocess import Preprocessed, preprocess_file, preprocess_text
from epic_spec.errors import ConfigError


def where(source: Preprocessed, word: str, occurrence: int = 1) -> Pos:
    offset = -1
    for _ in range(occurrence):
        offset = source.text.index(word, offset + 1)
    return source.pos(offset)


def test_positions_of_plain_text() -> None:
    source = preprocess_text("one two\n   three\n", "a.p4")
    assert where(source, "one") == ("a.p4", 1, 1)
    assert where(source, "two") == ("a.p4", 1, 5)
    assert where(source, "three") == ("a.p4", 2, 4)


def test_positions_within_a_word_go_on() -> None:
    source = preprocess_text("  8w0xFF;", "a.p4")
    assert source.pos(source.text.index("w0")).column == 4


def test_positions_after_a_comment_of_several_lines() -> None:
    source = preprocess_text("/* a\n b\n*/ x // y\nz", "a.p4")
    assert where(source, "x") == ("a.p4", 3, 4)
    assert where(source, "z") == ("a.p4", 4, 1)
    assert "y" not in source.text


def test_positions_after_a_part_that_is_left_out() -> None:
    source = preprocess_text("#if 0\nno\n#else\nyes\n#endif\nend", "a.p4")
    assert "no" not in source.text
    assert where(source, "yes").line == 4
    assert where(source, "end").line == 6


def test_a_macros_text_has_the_position_of_its_use() -> None:
    source = preprocess_text("#define WORD left + right\n\n  a = WORD;", "a.p4")
    assert where(source, "left") == ("a.p4", 3, 7)
    assert where(source, "right") == ("a.p4", 3, 7)
    assert where(source, ";") == ("a.p4", 3, 11)


def test_two_uses_in_a_line_are_told_apart() -> None:
    source = preprocess_text("#define X q\nX X", "a.p4")
    assert where(source, "q") == ("a.p4", 2, 1)
    assert where(source, "q", 2) == ("a.p4", 2, 3)


def test_a_macros_argument_keeps_its_own_position() -> None:
    source = preprocess_text("#define F(x) ((x) + 1)\na = F(\n   inner);", "a.p4")
    assert where(source, "inner") == ("a.p4", 3, 4)
    assert where(source, "1") == ("a.p4", 2, 5)


def test_macros_within_macros_have_the_position_of_the_outermost_use() -> None:
    source = preprocess_text("#define A B\n#define B deep\n x A", "a.p4")
    assert where(source, "deep") == ("a.p4", 3, 4)


def test_a_macro_that_gives_the_name_of_a_function_like_one() -> None:
    source = preprocess_text("#define F(x) [x]\n#define G F\nG(7)", "a.p4")
    assert source.text.split() == ["[", "7", "]"]
    assert where(source, "7") == ("a.p4", 3, 3)


def test_pasting_and_conditions() -> None:
    source = preprocess_text(
        "#define FIELD(n) word_##n\n#if WORDS > 32\nFIELD(32)\n#endif", defines={"WORDS": "64"}
    )
    assert "word_32" in source.text


def test_a_macro_does_not_merge_with_its_neighbours() -> None:
    source = preprocess_text("#define PLUS +\nx +PLUS y")
    assert "++" not in source.text


def test_an_empty_macro_does_not_merge_its_neighbours() -> None:
    source = preprocess_text("#define NOTHING\na NOTHING b")
    assert source.text.split() == ["a", "b"]


def test_positions_through_an_include(tmp_path: Path) -> None:
    (tmp_path / "inner.p4").write_text("\n  struct Inner { bit<8> x; }\n")
    outer = tmp_path / "outer.p4"
    outer.write_text('#include "inner.p4"\n#include "inner2.p4"\nrest\n')
    (tmp_path / "inner2.p4").write_text("second\n")
    source = preprocess_file(outer)
    assert where(source, "struct") == (str(tmp_path / "inner.p4"), 2, 3)
    assert where(source, "second") == (str(tmp_path / "inner2.p4"), 1, 1)
    assert where(source, "rest") == (str(outer), 3, 1)
    assert source.sources == (str(outer), str(tmp_path / "inner.p4"), str(tmp_path / "inner2.p4"))


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "inner.p4").write_text("#define BIG 300\nconst bit<8> X = BIG;\n")
    outer = tmp_path / "outer.p4"
    outer.write_text('#include "inner.p4"\n')
    with pytest.raises(SourceError) as caught:
        compile_file(outer, need_main=False)
    assert caught.value.pos == (str(tmp_path / "inner.p4"), 2, 18)


def test_directories_for_includes(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shared.p4").write_text("shared\n")
    assert "shared" in preprocess_text("#include <shared.p4>\n", include=[tmp_path / "lib"]).text


def test_our_own_declarations_are_found_and_named_in_brackets() -> None:
    source = preprocess_text("#include <core.p4>\n", "a.p4")
    assert where(source, "packet_in").file == "<core.p4>"


def test_a_file_is_included_once_by_its_guard() -> None:
    source = preprocess_text("#include <core.p4>\n#include <core.p4>\n")
    assert source.text.count("extern packet_in") == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('\n#include "none.p4"', "a.p4:2:1: include file none.p4: not found in ., <built-in>"),
        ("#include <none.p4>", "a.p4:1:1: include file none.p4: not found in <built-in>"),
        ("#include", 'a.p4:1:1: #include without file name, expected <file> or "file"'),
        ("\n  #error too narrow", "a.p4:2:4: #error too narrow"),
        ("#frobnicate", "a.p4:1:2: directive #frobnicate: unknown"),
        ("#define F(x) x\n F(1", "a.p4:2:2: macro F: argument list without end, expected a ')'"),
    ],
)
def test_errors(text: str, line: str) -> None:
    with pytest.raises(SourceError) as caught:
        preprocess_text(text, "a.p4")
    assert str(caught.value) == line


@pytest.mark.parametrize(
    "text", ["#if 1\nx", "#define F(x, y) x\nF(1)", "#if (\n#endif", "#endif", "#else"], ids=repr
)
def test_malformed_directives_are_refused(text: str) -> None:
    with pytest.raises(SourceError) as caught:
        preprocess_text(text, "a.p4")
    assert str(caught.value).startswith("a.p4:")


def test_an_error_directive_in_a_part_left_out_has_no_effect() -> None:
    assert "x" in preprocess_text("#if 0\n#error no\n#endif\nx").text


def test_pragma_lines_have_no_effect() -> None:
    assert preprocess_text("#pragma once_upon\nx").text.split() == ["x"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read \(No such file or directory\)"):
        preprocess_file(tmp_path / "none.p4")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "bytes.p4").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        preprocess_file(tmp_path / "bytes.p4")


def test_a_file_that_includes_itself(tmp_path: Path) -> None:
    loop = tmp_path / "loop.p4"
    loop.write_text('#include "loop.p4"\n')
    with pytest.raises(SourceError, match="nested more than 64 deep"):
        preprocess_file(loop)
