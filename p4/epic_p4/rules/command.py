"""What `epic check p4` does once its options are given. Exit codes: 0 good, 1 a check failed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epic_p4 import artifacts, ast
from epic_p4.frontend import compile_file
from epic_p4.rules import report
from epic_p4.rules.checks import RULES, Rule
from epic_p4.rules.compilers import Job, run_all
from epic_p4.rules.context import Context
from epic_p4.rules.estimate import NAME, SOURCE, TITLE, Estimate, estimate
from epic_p4.rules.finding import Finding
from epic_p4.rules.result import Artifacts, ProgramResult, Trial
from epic_p4.rules.target import TARGETS, Target
from epic_spec.errors import ConfigError
from epic_spec.loader import REPO

PROGRAMS: Mapping[str, str] = {"v1model": "p4/bmv2/epic.p4", "tna": "p4/tofino/epic.p4"}
_MACRO = re.compile(r"(?P<name>[A-Za-z_]\w*)(=(?P<value>.*))?")
_WORDS = re.compile(r"\d+(,\d+)*")
_ONE_STAGE = Rule(NAME, TITLE, SOURCE, lambda _: ())


@dataclass(frozen=True, slots=True)
class Options:
    """The command's options, checked."""

    programs: Sequence[str]
    chip: Target
    arch: str | None = None
    include: Sequence[Path] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    words: Sequence[int] = ()
    compilers: bool = True
    deadline: float = 300.0
    explain: bool = False
    as_json: bool = False
    root: Path = REPO

    def macros(self) -> dict[str, str]:
        """The macros for our own front end; the real compilers define the chip themselves."""
        return {"__TARGET_TOFINO__": self.chip.name.removeprefix("tofino"), **self.defines}

    @classmethod
    def make(
        cls,
        programs: Sequence[str],
        arch: str | None,
        target: str,
        include: Sequence[str],
        define: Sequence[str],
        words: str | None,
        compilers: bool,
        deadline: float,
        explain: bool,
        as_json: bool,
    ) -> Options:
        """Check options. Raises ConfigError in one line."""
        if target not in TARGETS:
            raise ConfigError(f"target = {target!r}, expected one of {', '.join(TARGETS)}")
        if arch is not None and arch not in PROGRAMS:
            raise ConfigError(f"arch = {arch!r}, expected one of {', '.join(PROGRAMS)}")
        if not 0 < deadline <= 86400:
            raise ConfigError(f"deadline = {deadline:g}, expected more than 0 and at most 86400 seconds")
        defines: dict[str, str] = {}
        for one in define:
            match = _MACRO.fullmatch(one)
            if match is None:
                raise ConfigError(f"define = {one!r}, expected NAME or NAME=VALUE")
            defines[match["name"]] = match["value"] if match["value"] is not None else "1"
        folders = [Path(one) for one in include]
        for folder in folders:
            if not folder.is_dir():
                raise ConfigError(f"include = {str(folder)!r}, expected a directory")
        if words is not None and not _WORDS.fullmatch(words):
            raise ConfigError(f"words = {words!r}, expected numbers joined by commas such as 16,32,64")
        chosen = [arch] if arch is not None and not programs else list(programs) or list(PROGRAMS)
        return cls(
            chosen,
            TARGETS[target],
            arch,
            folders,
            defines,
            [int(one) for one in words.split(",")] if words else [],
            compilers,
            deadline,
            explain,
            as_json,
        )


def run(options: Options) -> int:
    """Check the programs and print what was found; the exit code."""
    results = [check(name, options) for name in options.programs]
    if options.as_json:
        ok = all(one.ok for one in results)
        print(json.dumps({"ok": ok, "programs": [report.as_object(one) for one in results]}))
        return 0 if ok else 1
    for number, one in enumerate(results):
        if number:
            print()
        for line in report.text(one):
            print(line)
        if one.trials:
            print()
            for line in report.trials(one.trials):
                print(line)
    if options.explain:
        print()
        for line in report.how(options.chip):
            print(line)
    return 0 if all(one.ok for one in results) else 1


def check(name: str, options: Options) -> ProgramResult:
    """Check one program. Raises SourceError for bad source, ConfigError for one that is not there."""
    path = _source(name, options.root)
    include = [*options.include, options.root / "p4", options.root / "p4" / "include"]
    program = compile_file(path, include=include, defines=options.macros(), arch=options.arch)
    arch = program.arch or "another architecture"
    result = ProgramResult(name if name in PROGRAMS else path.stem, str(path), arch)
    if program.arch == "tna":
        result.rules, result.estimate = rules_and_estimate(program, options.chip)
        result.trials = [_trial(path, words, include, options) for words in options.words]
    elif options.words:
        raise ConfigError(f"words: {path} is for {arch}, expected a program for tna: others have no stages")
    if options.compilers:
        job = Job(path, program.arch, options.chip.name, include, options.defines)
        result.compilers = run_all(job, options.deadline)
    if name in PROGRAMS:
        result.artifacts = _artifacts(program, options.root / "p4", name)
    return result


def rules_and_estimate(
    program: ast.Program, chip: Target
) -> tuple[list[tuple[Rule, list[Finding]]], Estimate]:
    """The findings of every rule, and the estimate."""
    context = Context.of(program, chip)
    found = [(rule, sorted(rule.check(context), key=lambda one: one.pos)) for rule in RULES]
    estimated = estimate(context)
    found.append((_ONE_STAGE, estimated.findings))
    return found, estimated


def _source(name: str, root: Path) -> Path:
    path = root / PROGRAMS[name] if name in PROGRAMS else Path(name)
    if not path.is_file():
        raise ConfigError(
            f"program = {name!r}: {path} not found, expected {', '.join(PROGRAMS)} or a P4 file"
        )
    # Positions read better from where one stands.
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def _trial(path: Path, words: int, include: Sequence[Path], options: Options) -> Trial:
    try:
        program = compile_file(
            path, include=include, defines={**options.macros(), "WORDS": str(words)}, arch="tna"
        )
    except ConfigError as error:
        return Trial(words, None, [str(error)])
    rules, estimated = rules_and_estimate(program, options.chip)
    broken = [f"{one.pos}: {one.what}" for _, findings in rules for one in findings]
    return Trial(words, estimated, estimated.problems + broken)


def _artifacts(program: ast.Program, root: Path, name: str) -> Artifacts:
    """Only the program for BMv2 keeps what a compiler made of it."""
    if name != "v1model":
        return Artifacts()
    found = [path.relative_to(root).as_posix() for path in artifacts.present(root)]
    return Artifacts(True, found, artifacts.verify(root, program.sources))
