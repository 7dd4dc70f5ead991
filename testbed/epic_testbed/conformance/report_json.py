"""`report.json`: the run as data for other programs. Its form is `report.schema.json`; `merge` reads it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from epic_models.reference.endpoint import EngineCapabilities
from epic_spec.errors import ConfigError
from epic_spec.tables import CLAUSES, SPEC_VERSION
from epic_testbed.conformance.results import SUBJECTS, CaseResult, ClauseResult, Run

FORMAT = "epic-conformance-report"
# Raised when a reader of the old form would be wrong; new keys alone do not raise it.
VERSION = 1
FILE = "report.json"

# What `merge` needs of a report, and of what type it is.
_NEEDED: dict[str, type | tuple[type, ...]] = {
    "ok": bool,
    "dut": str,
    "mode": int,
    "side": str,
    "seed": int,
    "started": str,
    "filtered": bool,
    "binding": str,
    "passed": int,
    "failed": int,
    "not_applicable": int,
    "clauses": dict,
    "clause_details": dict,
    "uncovered": list,
}


def report(run: Run) -> dict[str, Any]:
    """A run in the form of `report.schema.json`: what `--json` prints, and all that the HTML report shows."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "spec_version": SPEC_VERSION,
        **run.to_dict(),
        "started": run.started,
        "command": run.request.command(),
        "filtered": run.request.filtered,
        "broken": run.broken,
        "binding": run.traits.binding,
        "virtual_time": run.traits.virtual_time,
        "capabilities": capabilities(run.traits.capabilities),
        "details": dict(run.traits.details),
        "deviations": list(run.deviations),
        "clause_details": {c.id: _clause(c) for c in run.clauses},
        "cases": {r.case.name: _case(run, r) for r in run.results},
    }


def capabilities(offered: EngineCapabilities) -> dict[str, Any]:
    """Capabilities by the names of epic.toml; sets as lists."""
    values = {name: getattr(offered, name) for name in offered.__dataclass_fields__ if name != "mode"}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def _clause(result: ClauseResult) -> dict[str, Any]:
    clause = result.clause
    return {
        "status": result.status.value,
        "level": clause.level,
        "subject": clause.subject,
        "capability": clause.capability,
        "text": clause.text,
        "reason": result.reason,
        "cases": {name: status.value for name, status in result.cases},
        "known_cases": result.known,
    }


def _case(run: Run, result: CaseResult) -> dict[str, Any]:
    return {
        "status": result.status.value,
        "group": result.case.group,
        "clauses": list(result.case.clauses),
        "procedure": result.case.procedure,
        "reason": result.reason,
        "expected": list(result.expected),
        "arrived": list(result.arrived),
        "notes": list(result.notes),
        "seconds": round(result.seconds, 4),
        "seed": result.seed,
        "replay": run.replay(result),
        "pcap": result.pcap,
        "log": [{"time": round(s.time, 6), "who": s.who, "kind": s.kind, "text": s.text} for s in result.log],
    }


def load(directory: Path) -> dict[str, Any]:
    """The report.json of a directory. Raises ConfigError, naming the file and what was expected."""
    path = directory / FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}, expected the report of `epic conformance`") from None
    except ValueError:
        raise ConfigError(f"{path}: not JSON, expected the report of `epic conformance`") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ConfigError(f"{path}: expected an object with format = {FORMAT!r}")
    if data.get("version") != VERSION:
        raise ConfigError(f"{path}: version = {data.get('version')!r}, expected {VERSION}")
    for key, kind in _NEEDED.items():
        if not isinstance(data.get(key), kind):
            raise ConfigError(f"{path}: {key} = {data.get(key)!r}, expected {kind}")
    if data["mode"] not in (1, 2, 3) or data["side"] not in SUBJECTS:
        raise ConfigError(
            f"{path}: mode {data['mode']}, side {data['side']!r}, expected 1, 2 or 3 and engine or agent"
        )
    for clause, status in data["clauses"].items():
        detail = data["clause_details"].get(clause)
        if status not in ("pass", "fail", "na") or not isinstance(detail, dict):
            raise ConfigError(
                f"{path}: clauses.{clause} = {status!r}, expected pass, fail or na, and its detail"
            )
        if clause not in CLAUSES:
            raise ConfigError(
                f"{path}: clause {clause!r} is not in epic.toml: a report of another specification?"
            )
    return data
