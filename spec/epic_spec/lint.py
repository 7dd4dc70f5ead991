"""Checks the data, the text and the sources against each other (`epic spec lint`)."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, NamedTuple

from epic_spec import errors
from epic_spec.gen import CODE_FIELDS, code_of, counter_names, widths

Row = dict[str, Any]
Spec = dict[str, Any]
# For each clause the cases that cite it, by name: the side that a case tests ("engine", "agent") and its modes.
Coverage = Mapping[str, Mapping[str, tuple[str, Sequence[int]]]]

CLAUSE_ID: Final = re.compile(r"EPIC-[A-Z][A-Z0-9]*-\d{2}")
# Anything that means to be a clause id, well formed or not.
_LIKE_ID: Final = re.compile(r"\bEPIC-[A-Za-z0-9]+-[A-Za-z0-9]+\b")
_GENERATED: Final = re.compile(r"<!-- gen:\S+ -->.*?<!-- /gen -->", re.DOTALL)
_COUNTER_LIKE: Final = re.compile(r"`((?:rx|tx|drop|cells)_[a-z0-9_]+)`")
_LEVELS: Final = ("MUST", "SHOULD", "MAY")
# Whom a clause binds: the sides that a conformance suite tests. A manager's clauses are tested otherwise.
_SUBJECTS: Final = {"engine": ("engine",), "agent": ("agent",), "both": ("engine", "agent"), "manager": ()}
_SOURCE_FOLDERS: Final = ("spec", "models", "host", "p4", "rtl", "tla", "testbed", "tests")
_SOURCE_ENDINGS: Final = (".py", ".p4", ".v", ".sv", ".vh", ".tla", ".cfg", ".md", ".toml", ".proto")


class Finding(NamedTuple):
    """One thing that is wrong: the file (or its table), and what."""

    where: str
    what: str


def lint(spec: Spec, repo: Path, coverage: Coverage | None = None) -> list[Finding]:
    """Everything that is wrong with the specification of the checkout `repo`, in a fixed order.

    With `coverage` also every MUST without a case, for each side that it binds and each of its modes.
    """
    findings = [Finding("spec/epic.toml", what) for what in _data(spec)]
    text = repo / "spec/epic.md"
    if text.exists():
        findings += [Finding("spec/epic.md", what) for what in _text(spec, text.read_text(encoding="utf-8"))]
    findings += _sources(spec, repo)
    if coverage is not None:
        findings += [Finding("conformance", what) for what in _coverage(spec, coverage)]
    return findings


def load_coverage() -> Coverage | None:
    """What the conformance suites cover: the entry points of group `epic.clause_coverage`; None without any.

    The suites are to the right of this package, which reaches them only so. Raises ConfigError for one that does
    not load.
    """
    points = sorted(entry_points(group="epic.clause_coverage"), key=lambda point: point.name)
    if not points:
        return None
    merged: dict[str, dict[str, tuple[str, Sequence[int]]]] = {}
    for point in points:
        try:
            function: Callable[[], Coverage] = point.load()
            found = function()
        except Exception as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())
            raise errors.ConfigError(f"coverage of {point.name!r} ({point.value}): {words}") from error
        for clause, cases in found.items():
            merged.setdefault(clause, {}).update(cases)
    return merged


# -------------------------------------------------------------------------------------------------- epic.toml


def _data(spec: Spec) -> Iterator[str]:
    for table, rows in spec.items():
        if isinstance(rows, list):
            yield from (f"[[{table}]] {name!r} is there twice" for name in _twice(map(_name, rows)))
    for table in CODE_FIELDS:
        yield from (
            f"[[{table}]] code {code:#04x} is there twice" for code in _twice(map(code_of, spec[table]))
        )
    yield from (f"counter {name!r} is there twice" for name in _twice(counter_names(spec)))
    yield from _widths(spec)
    yield from _syndromes(spec)
    for kind in ("capability", "parameter"):
        for row in spec[kind]:
            yield from (f"[[{kind}]] {row['name']!r}: {what}" for what in _values(row))
    yield from _clauses(spec)
    yield from _errors(spec)


def _name(row: Row) -> str:
    return str(row.get("id", row.get("name")))


def _twice(values: Iterable[Any]) -> list[Any]:
    return [value for value, times in Counter(values).items() if times > 1]


def _widths(spec: Spec) -> Iterator[str]:
    width = widths(spec)
    names = {h["name"] for h in spec["header"]}
    for header in spec["header"]:
        bits = sum(f["bits"] for f in header["fields"])
        if bits % 8:
            yield f"[[header]] {header['name']!r} has {bits} bits, expected whole bytes"
    fields = [f["name"] for h in spec["header"] for f in h["fields"]]
    yield from (f"field {name!r} is in two headers" for name in _twice(fields))
    for table, field in CODE_FIELDS.items():
        if field not in width:
            yield f"no field {'.'.join(field)}, which holds the codes of [[{table}]]"
            continue
        for row in spec[table]:
            if code_of(row) >> width[field]:
                yield f"[[{table}]] {row['name']!r}: code {code_of(row)} does not fit {width[field]} bits"
    for opcode in spec["opcode"]:
        for extension in set(opcode["extended"]) - names:
            yield f"[[opcode]] {opcode['name']!r}: extension {extension!r} is not a header"


def _syndromes(spec: Spec) -> Iterator[str]:
    rows = spec["syndrome"]
    for i, a in enumerate(rows):
        if a["value"] & ~a["mask"]:
            yield f"[[syndrome]] {a['name']!r}: value {a['value']:#04x} has bits outside its mask"
        for b in rows[i + 1 :]:
            if not (a["value"] ^ b["value"]) & a["mask"] & b["mask"]:
                yield f"[[syndrome]] {a['name']!r} and {b['name']!r} overlap"


def _values(row: Row) -> Iterator[str]:
    default = row["default"]
    kind = row["kind"]
    if kind == "int":
        low, high = row["range"]
        ends = {"range": low, "upper end": high, "default": default}
        if not low <= default <= high:
            yield f"default {default}, expected {low} to {high}"
        if row.get("power_of_two"):
            yield from (f"{name} {v}, expected a power of two" for name, v in ends.items() if v & (v - 1))
        multiple = row.get("multiple_of", 1)
        yield from (
            f"{name} {v}, expected a multiple of {multiple}" for name, v in ends.items() if v % multiple
        )
    elif kind == "bool":
        if not isinstance(default, bool):
            yield f"default {default!r}, expected true or false"
    elif kind == "choice":
        if default not in row["values"]:
            yield f"default {default!r}, expected one of {', '.join(row['values'])}"
    elif kind == "set":
        if not set(default) <= set(row["values"]):
            yield f"default {default!r}, expected some of {', '.join(row['values'])}"
    else:
        yield f"kind {kind!r}, expected int, bool, choice or set"


def _clauses(spec: Spec) -> Iterator[str]:
    capabilities = {c["name"] for c in spec["capability"]}
    for row in spec.get("clause", []):
        clause = row.get("id", "?")
        missing = {"id", "level", "subject", "modes", "text"} - set(row)
        if missing:
            yield f"[[clause]] {clause}: no {', '.join(sorted(missing))}"
            continue
        if not CLAUSE_ID.fullmatch(clause):
            yield f"[[clause]] {clause}: expected an id like EPIC-M3-07"
        if row["level"] not in _LEVELS:
            yield f"[[clause]] {clause}: level {row['level']!r}, expected {', '.join(_LEVELS)}"
        if row["subject"] not in _SUBJECTS:
            yield f"[[clause]] {clause}: subject {row['subject']!r}, expected {', '.join(_SUBJECTS)}"
        if not set(row["modes"]) <= {1, 2, 3} or not row["modes"]:
            yield f"[[clause]] {clause}: modes {row['modes']}, expected some of 1, 2, 3"
        name = row.get("capability", "").partition(" = ")[0]
        if name and name not in capabilities:
            yield f"[[clause]] {clause}: capability {name!r} is not in the table"
        yield from _unknown_values(spec, clause, row.get("capability", ""))
        said = set(re.findall(r"\b(MUST|SHOULD|MAY)\b", row["text"]))
        if said and row["level"] not in said:
            yield f"[[clause]] {clause}: level {row['level']}, but its text says {', '.join(sorted(said))}"


def _unknown_values(spec: Spec, clause: str, condition: str) -> Iterator[str]:
    """A condition `name = A | B` must name values of that capability."""
    name, _, values = condition.partition(" = ")
    known: list[str] = next((c.get("values", []) for c in spec["capability"] if c["name"] == name), [])
    for value in values.split(" | ") if values else ():
        if value not in known:
            yield f"[[clause]] {clause}: {name} = {value!r}, expected one of {', '.join(known) or 'no value'}"


def _errors(spec: Spec) -> Iterator[str]:
    """The exception tree of errors.py must be that of [[error]]."""
    classes = {
        name: next((b.__name__ for b in kind.__bases__ if issubclass(b, errors.EpicError)), "")
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.EpicError)
    }
    rows = {row["name"]: row["parent"] for row in spec["error"]}
    for name in sorted(classes.keys() | rows.keys()):
        if name not in classes:
            yield f"[[error]] {name!r} is not a class of errors.py"
        elif name not in rows:
            yield f"class {name} of errors.py is not in [[error]]"
        elif classes[name] != rows[name]:
            yield f"[[error]] {name!r} is a {rows[name] or 'root'}, in errors.py a {classes[name] or 'root'}"


# --------------------------------------------------------------------------------------------------- coverage


def _coverage(spec: Spec, coverage: Coverage) -> Iterator[str]:
    """A MUST without a case, and a case that cites a clause which does not bind what it tests."""
    for row in spec.get("clause", []):
        clause, sides, modes = row["id"], _SUBJECTS.get(row["subject"], ()), row["modes"]
        cases = coverage.get(clause, {})
        for side in sides if row["level"] == "MUST" else ():
            tested = {mode for own, used in cases.values() if own == side for mode in used}
            if missing := [mode for mode in modes if mode not in tested]:
                words = f"in mode {', '.join(map(str, missing))}" if tested & set(modes) else "at all"
                yield f"{clause} (MUST) has no {side} case {words}"
        for name, (side, used) in cases.items():
            if side not in sides or not set(used) & set(modes):
                binds = f"binds {row['subject']} in mode {', '.join(map(str, modes))}"
                yield f"case {name} ({side}, mode {', '.join(map(str, used))}) cites {clause}, which {binds}"
    known = {row["id"] for row in spec.get("clause", [])}
    yield from (
        f"{clause} has cases and is not a clause of epic.toml" for clause in sorted(coverage.keys() - known)
    )


# ---------------------------------------------------------------------------------------- epic.md and sources


def _text(spec: Spec, text: str) -> Iterator[str]:
    """Clause ids both ways, and the names of counters."""
    written = _GENERATED.sub("", text)
    cited = set(CLAUSE_ID.findall(written))
    known = {row["id"] for row in spec.get("clause", [])}
    yield from (
        f"{clause} of epic.toml is not referred to outside the tables" for clause in sorted(known - cited)
    )
    for name in sorted(set(_COUNTER_LIKE.findall(written)) - set(counter_names(spec))):
        yield f"`{name}` is not a counter of epic.toml"


def _sources(spec: Spec, repo: Path) -> list[Finding]:
    """Clause ids that are cited and do not exist."""
    known = {row["id"] for row in spec.get("clause", [])}
    findings = []
    for path in _files(repo):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        name = str(path.relative_to(repo))
        findings += [
            Finding(f"{name}:{number}", f"{clause} is not a clause of epic.toml")
            for number, line in enumerate(text.splitlines(), 1)
            for clause in _LIKE_ID.findall(line)
            if clause not in known
        ]
    return findings


def _files(repo: Path) -> Iterator[Path]:
    for folder in _SOURCE_FOLDERS:
        for path in sorted((repo / folder).rglob("*")):
            hidden = any(
                part.startswith(".") or part == "__pycache__" for part in path.relative_to(repo).parts
            )
            if path.suffix in _SOURCE_ENDINGS and path.is_file() and not hidden:
                yield path
