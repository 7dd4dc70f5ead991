"""Several reports as one matrix: realizations across, clauses down (`matrix.html`, `matrix.json`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError
from epic_spec.tables import CLAUSES, SPEC_VERSION
from epic_testbed.conformance import report_files, report_html, report_json
from epic_testbed.conformance.html_page import PARTS, badge, inline, page, part_of, tools, when
from epic_testbed.conformance.results import bound

FORMAT = "epic-conformance-matrix"
VERSION = 1
HTML_FILE, JSON_FILE = "matrix.html", "matrix.json"
_COUNTED = ("passed", "failed", "n/a")
_ROMAN = {1: "I", 2: "II", 3: "III"}


@dataclass(frozen=True, slots=True)
class Column:
    """A realization in a mode: its name in the matrix, its report, and where that is."""

    name: str
    directory: Path
    report: dict[str, Any]

    def status(self, clause: str) -> str | None:
        """pass, fail or na; "none" where the suite has nothing to say; None where the clause does not bind it."""
        if clause not in bound(self.report["side"], self.report["mode"]):
            return None
        return str(self.report["clauses"].get(clause, "none"))

    def reason(self, clause: str) -> str:
        """Why it is not a pass."""
        return str(self.report["clause_details"].get(clause, {}).get("reason", ""))


def columns(directories: Sequence[Path]) -> list[Column]:
    """A column for each report, devices together. Raises ConfigError for a directory without one, or one twice."""
    if len(set(map(Path.resolve, directories))) < len(directories):
        raise ConfigError("a report directory is given twice, expected different ones")
    loaded = [(directory, report_json.load(directory)) for directory in directories]
    loaded.sort(key=lambda item: (item[1]["side"] == "agent", item[1]["dut"], item[1]["mode"]))
    names = [f"{r['dut']} {_ROMAN[r['mode']]}" for _, r in loaded]
    return [
        Column(name if names.count(name) == 1 else f"{name} ({directory})", directory, report)
        for (directory, report), name in zip(loaded, names, strict=True)
    ]


def matrix(found: Sequence[Column]) -> dict[str, Any]:
    """The object that `--json` prints: `ok`, the realizations, and of each clause the status in each of them."""
    clauses = {c: _statuses(found, c) for c in CLAUSES}
    return {
        "format": FORMAT,
        "version": VERSION,
        "spec_version": SPEC_VERSION,
        "ok": all(c.report["ok"] for c in found),
        "realizations": [
            {
                "name": c.name,
                **{
                    key: c.report[key] for key in ("dut", "mode", "side", "ok", "seed", "started", "filtered")
                },
                **{key: c.report[key] for key in ("passed", "failed", "not_applicable")},
                "report": str(c.directory),
            }
            for c in found
        ],
        "clauses": {
            clause: {
                "level": CLAUSES[clause].level,
                "subject": CLAUSES[clause].subject,
                "modes": list(CLAUSES[clause].modes),
                "text": CLAUSES[clause].text,
                "results": statuses,
            }
            for clause, statuses in clauses.items()
            if statuses
        },
    }


def _statuses(found: Sequence[Column], clause: str) -> dict[str, str]:
    return {c.name: s for c in found if (s := c.status(clause)) is not None}


def write(found: Sequence[Column], directory: Path) -> None:
    """Both files. Raises ConfigError when they cannot be written."""
    report_files.prepare(directory)
    report_files.write_json(directory / JSON_FILE, matrix(found))
    report_files.write_text(directory / HTML_FILE, html(found, directory))


# ------------------------------------------------------------------------------------------------------- HTML


def html(found: Sequence[Column], directory: Path) -> str:
    """The page. Links lead to the reports, seen from `directory`."""
    ok = all(c.report["ok"] for c in found)
    failed = [c.name for c in found if not c.report["ok"]]
    words = f"All {len(found)} passed" if ok else f"{len(failed)} of {len(found)} failed: {', '.join(failed)}"
    body = [
        "<h1>EPIC conformance: realizations and clauses</h1>",
        f'<div class="verdict {"pass" if ok else "fail"}">{escape(words)}</div>',
        *_summary(found, directory),
        "<h2>Clauses</h2>",
        '<p class="legend">A dash: the suite has no case, or the report was of some cases only. Empty: the clause does '
        "not bind this side or mode. A click leads to the clause in the report.</p>",
        tools("tr.clause", "tr.part", "clauses"),
        *_table(found, directory),
        *_reasons(found, directory),
    ]
    return page("EPIC conformance matrix", body)


def _summary(found: Sequence[Column], directory: Path) -> Iterator[str]:
    heads = [
        "realization",
        "verdict",
        "side",
        *(f"{what} {how}" for what in ("clauses", "cases") for how in _COUNTED),
    ]
    heads += ["seed", "started"]
    yield f'<div class="scroll"><table class="list"><thead><tr>{"".join(f"<th>{h}</th>" for h in heads)}</tr></thead>'
    for c in found:
        r = c.report
        statuses = list(r["clauses"].values())
        some = ' <span class="dim">(some cases only)</span>' if r["filtered"] else ""
        cells = [
            f'<a href="{_link(c, directory)}">{escape(c.name)}</a>{some}',
            badge("pass" if r["ok"] else "fail"),
            r["side"],
            *(statuses.count(s) for s in ("pass", "fail", "na")),
            *(r[key] for key in ("passed", "failed", "not_applicable")),
            r["seed"],
            when(r["started"]),
        ]
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</table></div>"


def _table(found: Sequence[Column], directory: Path) -> Iterator[str]:
    heads = "".join(f'<th class="cell">{escape(c.name)}</th>' for c in found)
    yield '<div class="scroll"><table><thead><tr><th>clause</th><th>level</th><th class="wide">requirement</th>'
    yield f"{heads}</tr></thead>"
    rows = [clause for clause in CLAUSES if _statuses(found, clause)]
    for part, clauses in groupby(rows, key=part_of):
        title = escape(PARTS.get(part, part))
        yield f'<tbody><tr class="part" data-part="{part}"><th colspan="{3 + len(found)}">{title}</th></tr>'
        for clause in clauses:
            yield _row(found, directory, clause)
        yield "</tbody>"
    yield "</table></div>"


def _row(found: Sequence[Column], directory: Path, clause: str) -> str:
    statuses = [c.status(clause) for c in found]
    cells = "".join(_cell(c, directory, clause, s) for c, s in zip(found, statuses, strict=True))
    states = " ".join(sorted({s if s in ("pass", "fail", "na") else "na" for s in statuses if s is not None}))
    return (
        f'<tr class="clause" data-status="{states}" data-part="{part_of(clause)}">'
        f'<td class="id"><code>{clause}</code></td><td class="level">{CLAUSES[clause].level}</td>'
        f"<td>{inline(CLAUSES[clause].text)}</td>{cells}</tr>"
    )


def _cell(column: Column, directory: Path, clause: str, status: str | None) -> str:
    if status is None:
        return '<td class="cell"></td>'
    if status == "none":
        return '<td class="cell" title="no case">–</td>'
    link = f"{_link(column, directory)}#{clause}"
    reason = escape(column.reason(clause) or "passed")
    return f'<td class="cell"><a href="{link}" title="{reason}">{badge(status)}</a></td>'


def _reasons(found: Sequence[Column], directory: Path) -> Iterator[str]:
    rows = [(c, clause) for c in found for clause, s in c.report["clauses"].items() if s != "pass"]
    if rows:
        yield "<h2>Why a clause failed or is n/a</h2><table><thead><tr><th>realization</th><th>clause</th>"
        yield "<th>status</th><th>why</th></tr></thead>"
        for c, clause in rows:
            link = f'<a href="{_link(c, directory)}#{clause}"><code>{clause}</code></a>'
            cells = [escape(c.name), link, badge(c.report["clauses"][clause]), escape(c.reason(clause))]
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        yield "</table>"


def _link(column: Column, directory: Path) -> str:
    path = os.path.relpath(column.directory.resolve() / report_html.FILE, directory.resolve())
    return escape(Path(path).as_posix())
