"""`epic run` once its options are checked: clean up after dead runs, run, show, and leave nothing behind."""

from __future__ import annotations

import json
import sys

from rich.console import Console

from epic_testbed import registry
from epic_testbed.display import ConsoleDisplay, SilentDisplay
from epic_testbed.options import Setup
from epic_testbed.report import Failure, Report
from epic_testbed.session import Session
from epic_testbed.signals import Interrupted, interruptible
from epic_testbed.supervisor import Supervisor, Work

EXIT_OK, EXIT_FAILED, EXIT_SIGNAL = 0, 1, 128


def run(setup: Setup, work: Work, as_json: bool, managed: bool = True) -> int:
    """Run and print; a manager chooses the group's path, which is installed once where `managed` is False.

    The exit code: 0 all right, 1 something failed, 128 + n for signal n.

    Raises ConfigError and StartError when the run could not begin; nothing is left then either.
    """
    console = Console(highlight=False)
    shown = ConsoleDisplay(console)
    display = SilentDisplay() if as_json else shown
    for run_id in registry.clean():
        print(f"epic: cleaned up after run {run_id}, whose owner is gone", file=sys.stderr)
    number = 0
    try:
        with interruptible(), Session(setup, "run", managed=managed) as session:
            supervisor = Supervisor(session, work, display)
            try:
                report = supervisor.run()
            except Interrupted as signal:
                number = signal.number
                report = supervisor.report
                report.failures.append(Failure("run", "interrupted", str(signal)))
    except Interrupted as signal:
        # Before the first process or after the last: nothing to report on.
        number = signal.number
        report = Report.empty(setup, work.cases, work.iterations, work.reproducible)
        report.failures.append(Failure("run", "interrupted", str(signal)))
    finally:
        shown.close()
    if as_json:
        print(json.dumps(report.to_dict()))
    else:
        shown.summary(report)
    if number:
        return EXIT_SIGNAL + number
    return EXIT_OK if report.ok else EXIT_FAILED
