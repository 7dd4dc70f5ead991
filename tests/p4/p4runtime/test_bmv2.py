"""BMv2's registers over its own command line tool: what is asked, and what is made of the answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from epic_p4.control import BackendError
from epic_p4.p4runtime.bmv2 import Bmv2Registers, run

ANSWER = """Obtaining JSON from switch...
Done
Control utility for runtime P4 table manipulation
RuntimeCmd: EpicIngress.slot.tag= 0, 256, 512, 768
RuntimeCmd:
"""


class Tool:
    """simple_switch_CLI with one answer to everything."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[tuple[Sequence[str], str]] = []

    def __call__(self, command: Sequence[str], commands: str) -> str:
        self.asked.append((command, commands))
        return self.answer


def test_cells_are_cut_out_of_the_whole_register() -> None:
    tool = Tool(ANSWER)
    assert Bmv2Registers(9091, tool).register("EpicIngress.slot.tag", 1, 2) == [256, 512]
    assert tool.asked == [
        (("simple_switch_CLI", "--thrift-port", "9091"), "register_read EpicIngress.slot.tag\n")
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("Could not connect to thrift client on port 9090\n", "register x: no values, expected its values"),
        (
            "RuntimeCmd: Error: Invalid register name\n",
            "register x: RuntimeCmd: Error: Invalid register name",
        ),
        ("RuntimeCmd: x= 1, 2, 3\n", "register x: 3 cells, expected at least 4"),
    ],
)
def test_what_the_tool_cannot_say_is_one_line(answer: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        Bmv2Registers(runner=Tool(answer)).register("x", 0, 4)


def test_a_field_is_refused() -> None:
    with pytest.raises(BackendError, match="register x: field 'first' is asked for"):
        Bmv2Registers(runner=Tool("")).register("x", 0, 1, "first")


def test_a_tool_that_is_missing_fails_or_hangs_is_one_line() -> None:
    with pytest.raises(BackendError, match="no-such-tool: not found on PATH, expected BMv2's"):
        run(["no-such-tool"], "")
    with pytest.raises(BackendError, match=r"exit code 3: gone wrong"):
        run([sys.executable, "-c", "import sys; print('gone wrong'); sys.exit(3)"], "")
    with pytest.raises(BackendError, match=r"no answer within 0\.2 s"):
        run([sys.executable, "-c", "import time; time.sleep(9)"], "", timeout=0.2)
    assert run([sys.executable, "-c", "print(input())"], "read me\n") == "read me\n"
