"""The directory of a report: report.html, report.json, junit.xml, and a capture of each case that failed."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError
from epic_spec.pcap import PcapWriter
from epic_testbed.conformance import report_html, report_json, report_junit
from epic_testbed.conformance.results import CaseResult, Run

PCAP = "pcap"


def prepare(directory: Path) -> None:
    """Make the directory and see that it can be written. Raises ConfigError: better before a run than after it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"{directory}: {error.strerror or error}, expected a directory for the report"
        ) from None


def write(run: Run, directory: Path) -> None:
    """Write everything; captures of an earlier report in the directory go. Raises ConfigError when it fails."""
    prepare(directory)
    if (directory / report_json.FILE).exists():
        for old in (directory / PCAP).glob("*.pcap"):
            old.unlink()
    for result in run.results:
        if result.pcap is not None:
            (directory / PCAP).mkdir(exist_ok=True)
            _capture(directory / result.pcap, result, datetime.fromisoformat(run.started).timestamp())
    write_text(directory / report_html.FILE, report_html.html(run))
    write_text(directory / report_junit.FILE, report_junit.junit(run))
    write_json(directory / report_json.FILE, report_json.report(run))


def write_text(path: Path, text: str) -> None:
    """Write a file. Raises ConfigError naming it."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}, expected a file that can be written") from None


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write an object as a person reads it. Raises ConfigError naming the file."""
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def _capture(path: Path, result: CaseResult, started: float) -> None:
    """Times are the start of the run plus the device's clock since the case's reset."""
    origin = int(started * 1e9)
    with PcapWriter(path) as capture:
        for frame in result.frames:
            capture.write(frame.data, origin + round(frame.time * 1e9))
