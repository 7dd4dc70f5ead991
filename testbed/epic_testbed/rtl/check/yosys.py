"""Runs a Yosys script file with the library of pyosys: `python -m epic_testbed.rtl.check.yosys SCRIPT`.

An error of Yosys ends the process with exit code 1 and its message as the last line of the output.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The command line."""
    from pyosys import libyosys

    libyosys.run_pass(f"script {sys.argv[1]}", libyosys.Design())


if __name__ == "__main__":
    main()
