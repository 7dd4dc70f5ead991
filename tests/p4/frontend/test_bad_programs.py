"""What is wrong is said in one line, with its position."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epic_p4.errors import SourceError, UnsupportedError
from epic_p4.frontend import check_file, compile_text
from p4.frontend.bad_programs import BAD, TOP, program


@pytest.mark.parametrize(
    ("where", "text", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_the_error_is_this_line(where: str, text: str, expected: str) -> None:
    whole, before = program(where, text)
    with pytest.raises(SourceError) as caught:
        compile_text(whole, "bad.p4", need_main=False)
    error = caught.value
    message = re.sub(r"bad\.p4:(\d+):", lambda match: f"bad.p4:+{int(match[1]) - before}:", error.message)
    assert f"{error.pos.line - before}:{error.pos.column}: {message}" == expected
    assert error.pos.file == "bad.p4"
    assert "\n" not in str(error)


def test_the_cases_are_all_different() -> None:
    assert len({case[0] for case in BAD}) == len(BAD)
    assert len({(case[1], case[2]) for case in BAD}) == len(BAD)


def test_what_is_refused_is_told_from_what_is_wrong() -> None:
    refused = [case for case in BAD if case[3].endswith(": not supported")]
    for _, where, text, _ in refused:
        with pytest.raises(UnsupportedError):
            compile_text(program(where, text)[0], need_main=False)
    assert len(refused) >= 10


def test_independent_errors_are_reported_together_and_followers_are_not() -> None:
    whole, before = program(TOP, "const bit<8> A = 300;\nconst bit<8> B = A + 1;\nconst bit<8> C = true;")
    with pytest.raises(SourceError) as caught:
        compile_text(whole, need_main=False)
    lines = [error.pos.line - before for error in (caught.value, *caught.value.others)]
    assert lines == [1, 3]


def test_check_file_gives_lines(tmp_path: Path) -> None:
    source = tmp_path / "two.p4"
    source.write_text("const bit<8> A = 300;\nconst bit<8> B = true;\n")
    assert check_file(source) == [
        f"{source}:1:18: number 300: does not fit in bit<8>, expected 0 to 255",
        f"{source}:2:18: constant B: type is bool, expected bit<8>",
    ]


def test_check_file_is_empty_for_a_right_program() -> None:
    assert check_file(Path(__file__).with_name("samples") / "router.p4", arch="v1model") == []


def test_a_program_for_another_architecture_is_refused() -> None:
    router = Path(__file__).with_name("samples") / "router.p4"
    (line,) = check_file(router, arch="tna")
    assert line.endswith("main: package V1Switch is v1model, expected tna")


def test_a_program_without_main_is_refused() -> None:
    with pytest.raises(SourceError, match="no instance main"):
        compile_text("#include <core.p4>\n")


def test_a_program_whose_main_is_no_package_is_refused() -> None:
    with pytest.raises(SourceError, match=r"main: instance of X, expected a package"):
        compile_text("extern X { X(); }\nX() main;\n")
