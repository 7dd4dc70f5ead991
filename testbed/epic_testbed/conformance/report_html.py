"""`report.html`, which a vendor reads: verdict, what failed, each clause, each case with what was expected and came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from itertools import groupby

from epic_spec.tables import CLAUSES, SPEC_VERSION
from epic_testbed.conformance import frame_text
from epic_testbed.conformance.case import GROUPS
from epic_testbed.conformance.html_page import (
    MODES,
    PARTS,
    WORDS,
    badge,
    facts,
    inline,
    page,
    part_of,
    prose,
    tools,
    when,
)
from epic_testbed.conformance.report_json import capabilities
from epic_testbed.conformance.results import CaseResult, ClauseResult, LogLine, Run, Status, bound

FILE = "report.html"


def html(run: Run) -> str:
    """The page of a run."""
    title = f"EPIC conformance: {run.request.dut}, mode {run.request.mode}, {run.side}"
    body = [*_head(run), *_failures(run), *_clauses(run), *_cases(run)]
    return page(title, body)


# ------------------------------------------------------------------------------------------------------- head


def _head(run: Run) -> Iterator[str]:
    request = run.request
    yield f"<h1>EPIC conformance report: {escape(request.dut)}</h1>"
    yield f'<div class="verdict {"pass" if run.ok else "fail"}">{escape(verdict(run))}</div>'
    if request.filtered:
        yield '<p class="dim">Only some cases were asked for: this report says nothing of the others.</p>'
    elif run.uncovered:
        yield f'<p class="note">The suite has no case for {len(run.uncovered)} of {_bound(run)}: '
        yield '<a href="#uncovered">nothing is said of them</a>.</p>'
    yield _counts(run)
    binding = run.traits.binding + (
        "" if run.traits.binding == "ethernet" else " (headers below UDP cannot be varied)"
    )
    yield facts(
        [
            ("device", escape(f"{request.dut} ({run.traits.name})")),
            ("side", run.side),
            ("mode", escape(MODES[request.mode])),
            ("binding", escape(binding)),
            ("clock", "virtual" if run.traits.virtual_time else "real time"),
            ("specification", f"EPIC {SPEC_VERSION}"),
            ("started", when(run.started)),
            ("duration", f"{run.seconds:.1f} s"),
            ("seed", str(request.seed)),
            ("command", f"<code>{escape(request.command())}</code>"),
            ("deviations", _deviations(run)),
            *([("adapter", _details(run))] if run.traits.details else []),
        ]
    )
    rows = ((name, escape(_value(value))) for name, value in capabilities(run.traits.capabilities).items())
    yield f'<details class="more"><summary>Capabilities that the device claims</summary>{facts(rows)}</details>'


def verdict(run: Run) -> str:
    """The run in one sentence."""
    failed = run.count(Status.FAIL)
    missing = sum(c.not_shown for c in run.clauses)
    if run.ok:
        words = f"Passed: {run.count(Status.PASS)} cases"
        words += f", {n} not applicable" if (n := run.count(Status.NA)) else ""
        return words
    words = f"Failed: {failed} of {len(run.results)} cases" if failed else "Failed"
    clauses = Counter(c.status for c in run.clauses)[Status.FAIL]
    words += f"; {clauses} clause{'s' * (clauses != 1)} not met"
    words += f", of these {missing} not shown" if missing else ""
    return words + (f". The run broke off: {run.broken}" if run.broken else "")


def _bound(run: Run) -> str:
    return f"the {len(bound(run.side, run.request.mode))} clauses that bind an {run.side} of this mode"


def _counts(run: Run) -> str:
    clauses, cases = Counter(c.status for c in run.clauses), Counter(r.status for r in run.results)
    used = {s: clauses[s] + cases[s] for s in Status}
    head = "".join(
        f'<th><span class="badge {s.value if used[s] else "na"}">{WORDS[s.value]}</span></th>' for s in Status
    )
    rows = "".join(
        f"<tr><th>{name}</th>{''.join(f'<td>{count[s]}</td>' for s in Status)}<td>{count.total()}</td></tr>"
        for name, count in (("clauses", clauses), ("cases", cases))
    )
    return f'<table class="counts"><tr><th></th>{head}<th>all</th></tr>{rows}</table>'


def _deviations(run: Run) -> str:
    if not run.deviations:
        return "none"
    source = f" (from <code>{escape(run.request.deviations)}</code>)" if run.request.deviations else ""
    return ", ".join(f"<code>{escape(d)}</code>" for d in run.deviations) + source


def _details(run: Run) -> str:
    return ", ".join(f"{escape(name)} <code>{escape(v)}</code>" for name, v in run.traits.details.items())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _failures(run: Run) -> Iterator[str]:
    failed = [r for r in run.results if r.status is Status.FAIL]
    missing = [c for c in run.clauses if c.not_shown]
    if failed or missing:
        yield "<h2>What failed</h2><table><thead><tr><th>case</th><th>why</th><th>clauses</th></tr></thead>"
        for r in failed:
            names = _clause_links(run, r)
            yield f"<tr><td>{_case_link(r.case.name)}</td><td>{escape(r.reason)}</td><td>{names}</td></tr>"
        for c in missing:
            yield f'<tr><td class="dim">no case applies</td><td>{escape(c.reason)}</td>'
            yield f"<td>{_clause_link(c.id)}</td></tr>"
        yield "</table>"


# ---------------------------------------------------------------------------------------------------- clauses


def _clauses(run: Run) -> Iterator[str]:
    yield "<h2>Clauses</h2>"
    yield (
        '<p class="dim">A clause fails when one of its cases failed, or when it is a MUST that no case could show. '
        "It is n/a only because of a capability that the device does not claim, or because the binding is udp.</p>"
    )
    yield tools("tr.clause", "tr.part", "clauses")
    heads = "".join(
        f'<th class="{h}">{h}</th>' for h in ("clause", "level", "requirement", "status", "cases")
    )
    yield f"<table><thead><tr>{heads}</tr></thead>"
    for part, rows in groupby(run.clauses, key=lambda c: part_of(c.id)):
        yield f'<tbody><tr class="part" data-part="{part}"><th colspan="5">{escape(PARTS.get(part, part))}</th></tr>'
        yield from (_clause_row(c) for c in rows)
        yield "</tbody>"
    yield "</table>"
    if run.uncovered and not run.request.filtered:
        yield '<h3 id="uncovered">Clauses without a case</h3><ul>'
        yield from (
            f"<li>{_clause_id(c)} ({CLAUSES[c].level}): {inline(CLAUSES[c].text)}</li>" for c in run.uncovered
        )
        yield "</ul>"


def _clause_row(result: ClauseResult) -> str:
    links = "".join(_case_link(name, failed=s is Status.FAIL) for name, s in result.cases)
    clause = result.clause
    needs = (
        f'<br><span class="dim">capability {escape(clause.capability)}</span>' if clause.capability else ""
    )
    note = ""
    if result.reason and (result.status is Status.NA or result.not_shown):
        note = f'<br><span class="dim">{escape(result.reason)}</span>'
    if result.known > len(result.cases):
        note += f'<br><span class="dim">{len(result.cases)} of {result.known} cases run</span>'
    return (
        f'<tr class="clause" id="{result.id}" data-status="{result.status.value}" data-part="{part_of(result.id)}">'
        f'<td class="id">{_clause_id(result.id)}</td><td class="level">{clause.level}</td>'
        f"<td>{inline(clause.text)}{needs}{note}</td>"
        f'<td class="state">{badge(result.status.value)}</td><td class="cases">{links}</td></tr>'
    )


def _clause_id(clause: str) -> str:
    return f"<code>{escape(clause)}</code>"


def _clause_link(clause: str) -> str:
    return f'<a href="#{escape(clause)}">{_clause_id(clause)}</a>'


def _clause_links(run: Run, result: CaseResult) -> str:
    """The clauses of a case that bind here: a case of several modes cites those of each."""
    judged = {c.id for c in run.clauses}
    return " ".join(_clause_link(c) for c in result.case.clauses if c in judged)


def _anchor(case: str) -> str:
    return "case-" + case.replace("/", "-")


def _case_link(case: str, *, failed: bool = False) -> str:
    kind = ' class="failed"' if failed else ""
    return f'<a href="#{escape(_anchor(case))}"{kind}>{escape(case)}</a>'


# ------------------------------------------------------------------------------------------------------ cases


def _cases(run: Run) -> Iterator[str]:
    yield "<h2>Cases</h2>"
    yield tools("details.case", "div.group", "cases")
    for group, results in groupby(run.results, key=lambda r: r.case.group):
        yield f'<div class="group" data-part="{escape(group)}"><h3>{escape(group)}</h3>'
        yield from _plan(group)
        for result in results:
            yield from _case(run, result)
        yield "</div>"


def _plan(group: str) -> Iterator[str]:
    path = GROUPS / group / "plan.md"
    if path.is_file():
        text = prose(path.read_text(encoding="utf-8"))
        yield f'<details class="more"><summary>Test plan</summary>{text}</details>'


def _case(run: Run, result: CaseResult) -> Iterator[str]:
    case, status = result.case, result.status.value
    find = f"{case.name} {' '.join(case.clauses)} {result.reason}".lower()
    why = f' <span class="dim">{escape(result.reason)}</span>' if result.reason else ""
    yield (
        f'<details class="case" id="{escape(_anchor(case.name))}" data-status="{status}" '
        f'data-part="{escape(case.group)}" data-find="{escape(find)}">'
        f"<summary>{badge(status)} <b>{escape(case.name)}</b>{why}</summary><div>"
    )
    yield f"<p>{inline(case.procedure)}</p>"
    yield f"<p>Clauses: {_clause_links(run, result)}</p>"
    if result.expected or result.arrived:
        yield '<div class="sides">'
        for title, lines in (("expected", result.expected), ("arrived", result.arrived)):
            yield f"<div><h4>{title}</h4><pre>{escape(chr(10).join(lines) or 'nothing')}</pre></div>"
        yield "</div>"
    if result.notes:
        yield f"<h4>notes</h4><pre>{escape(chr(10).join(result.notes))}</pre>"
    if result.log:
        yield from _log(result)
    if result.status is not Status.NA:
        yield f"<h4>run it again</h4><pre>{escape(run.replay(result))}</pre>"
    if result.pcap:
        yield f'<p><a href="{escape(result.pcap)}">Capture of all {len(result.frames)} frames (pcap)</a></p>'
    yield "</div></details>"


def _log(result: CaseResult) -> Iterator[str]:
    failed = result.status is Status.FAIL
    yield "<h4>log: → to the device, ← from the device; grey: what the suite does or expects next</h4>"
    yield '<div class="scroll"><table class="log">'
    for line in result.log:
        text = _frame(line) if failed and line.frame is not None else escape(line.text)
        arrow = {"->": "→", "<-": "←", "wait": "wait", "skip": "…"}.get(line.kind, "")
        yield (
            f'<tr class="{"expect" if line.kind == "expect" else "step"}">'
            f'<td class="n">{line.time:.6f}</td><td class="n">{escape(line.who)}</td>'
            f'<td class="n">{arrow}</td><td>{text}</td></tr>'
        )
    if failed:
        yield f'<tr class="last"><td></td><td></td><td class="n">✗</td><td>{escape(result.reason)}</td></tr>'
    yield "</table></div>"


def _frame(line: LogLine) -> str:
    assert line.frame is not None
    rows = "".join(
        f'<tr><td class="n">{escape(name)}</td><td>{escape(text)}</td></tr>'
        for name, text in frame_text.layers(line.frame)
    )
    return f"<details><summary>{escape(line.text)}</summary><table>{rows}</table></details>"
