"""Whole programs go through: our samples, the architectures' declarations, EPIC's headers and data plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_p4 import ast
from epic_p4.frontend import compile_file, compile_text
from epic_p4.p4info import generate
from epic_p4.preprocess import SYSTEM_INCLUDE

ROOT = Path(__file__).parents[3]
SAMPLES = sorted(Path(__file__).with_name("samples").glob("*.p4"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_compiled(path: Path) -> None:
    program = compile_file(path)
    message = generate(program)
    assert program.arch == message.pkg_info.arch != ""
    assert {one.preamble.name for one in message.tables} == set(program.tables)


@pytest.mark.parametrize("name", sorted(path.name for path in SYSTEM_INCLUDE.glob("*.p4")))
def test_our_declarations_stand_alone(name: str) -> None:
    program = compile_text(f"#include <{name}>\n", need_main=False)
    assert program.errors[:3] == ("NoError", "PacketTooShort", "NoMatch")
    assert program.match_kinds[:3] == ("exact", "ternary", "lpm")


@pytest.mark.parametrize("version", ["20180101", "20200408"])
def test_both_versions_of_v1model(version: str) -> None:
    program = compile_text("#include <v1model.p4>\n", defines={"V1MODEL_VERSION": version}, need_main=False)
    register = program.declaration("register")
    assert isinstance(register, ast.ExternDecl)
    assert register.type_params == (["T"] if version == "20180101" else ["T", "I"])


def test_tofino_2_has_wider_queues() -> None:
    first = compile_text("#include <tna.p4>\n", need_main=False)
    second = compile_text("#include <t2na.p4>\n", need_main=False)
    assert (str(first.types["QueueId_t"]), str(second.types["QueueId_t"])) == ("bit<5>", "bit<7>")


def test_epic_headers() -> None:
    text = '#include <core.p4>\n#include "epic_headers.p4"\n'
    program = compile_text(text, include=[ROOT / "p4" / "include"], need_main=False)
    constant = program.declaration("UDP_PORT")
    assert isinstance(constant, ast.ConstDecl) and constant.value.const == 4791
    headers = [one for one in program.declarations if isinstance(one, ast.HeaderDecl)]
    assert headers
    for header in headers:
        width = sum(getattr(field.type, "width", 0) for field in header.type.fields)  # type: ignore[attr-defined]
        assert width % 8 == 0, header.name


@pytest.mark.parametrize(("name", "arch"), [("bmv2", "v1model"), ("tofino", "tna")])
def test_the_data_plane_program(name: str, arch: str) -> None:
    include = [ROOT / "p4" / "include", ROOT / "p4" / "common", ROOT / "p4"]
    program = compile_file(ROOT / "p4" / name / "epic.p4", include=include, arch=arch)
    assert generate(program).tables
