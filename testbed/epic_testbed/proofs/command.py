"""What `epic check tla` does once its options are checked. Exit codes: 0 as expected, 1 not, 128 + n for signal n."""

from __future__ import annotations

import fnmatch
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from epic_spec.errors import ConfigError
from epic_spec.loader import REPO
from epic_testbed.proofs import (
    check,
    display,
    explain,
    guards,
    manifest,
    recording,
    render_svg,
    render_text,
    traces,
)
from epic_testbed.proofs.check import Verdict
from epic_testbed.proofs.config import TlcConfig
from epic_testbed.proofs.explain import Counterexample
from epic_testbed.proofs.manifest import Manifest, Model
from epic_testbed.proofs.scratch import Scratch, scratch
from epic_testbed.proofs.tlc import Pool
from epic_testbed.signals import Interrupted

EXIT_OK, EXIT_FAILED, EXIT_SIGNAL = 0, 1, 128


@dataclass(frozen=True, slots=True)
class Options:
    """The options that all three kinds of check share, checked."""

    level: str
    model: str | None
    jobs: int
    directory: Path
    as_json: bool
    render: Path | None
    skip: tuple[str, ...] = ()

    @classmethod
    def make(
        cls,
        level: str,
        model: str | None,
        jobs: int | None,
        directory: str | None,
        as_json: bool,
        render: str | None,
        skip: tuple[str, ...] = (),
    ) -> Options:
        """Check options. Raises ConfigError in one line."""
        if level not in manifest.LEVELS:
            raise ConfigError(f"level = {level!r}, expected one of {', '.join(manifest.LEVELS)}")
        if jobs is not None and not 1 <= jobs <= 256:
            raise ConfigError(f"jobs = {jobs}, expected 1 to 256")
        chosen = Path(directory).absolute() if directory is not None else REPO / "tla"
        if not chosen.is_dir():
            raise ConfigError(f"directory {chosen}: not found, expected the folder with manifest.toml")
        target = None
        if render is not None:
            target = Path(render)
            try:
                target.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"render = {render!r}: {error.strerror}, expected a directory") from None
        return cls(level, model, jobs or len(os.sched_getaffinity(0)), chosen, as_json, target, skip)

    def manifest(self) -> tuple[Manifest, list[Model]]:
        """The manifest and the rows that are chosen. Raises ConfigError."""
        found = manifest.load(self.directory)
        chosen = found.select(self.level, self.model)
        for name in self.skip:
            if name not in {model.name for model in chosen}:
                raise ConfigError(f"skip = {name!r}, expected a model of level {self.level}")
        return found, [model for model in chosen if model.name not in self.skip]


def check_models(options: Options) -> int:
    """Run models and compare; print the table or JSON. The exit code."""
    rows, models = options.manifest()
    console = display.console()
    watcher = None if options.as_json else display.ConsoleWatcher(console, len(models))
    begun = time.monotonic()

    def work(files: Scratch) -> int:
        pool = Pool(files, options.jobs, watcher)
        try:
            verdicts = check.run(rows, models, pool)
            if options.render is not None:
                _render(verdicts, rows, options.jobs, files, options.render)
        finally:
            pool.close()
            if watcher is not None:
                watcher.close()
        ok = all(v.ok for v in verdicts)
        if options.as_json:
            print(json.dumps({"ok": ok, "models": [v.to_dict() for v in verdicts]}))
        else:
            display.summary(console, verdicts, time.monotonic() - begun)
        return EXIT_OK if ok else EXIT_FAILED

    return interruptibly(work)


def _render(verdicts: Sequence[Verdict], rows: Manifest, jobs: int, files: Scratch, target: Path) -> None:
    """Write the counterexamples as NAME.txt and NAME.svg into `target`. Raises ConfigError where that fails."""
    found = [
        Counterexample(
            name=v.model.name,
            text=v.model.text,
            module=rows.directory / v.model.spec,
            config=TlcConfig.load(rows.directory / f"{v.model.name}.cfg"),
            outcome=v.outcome,
            result=v.result,
        )
        for v in verdicts
        if v.outcome.states
    ]
    pool = Pool(files, jobs)
    try:
        sequences = explain.explain(found, pool, files.folder)
    finally:
        pool.close()
    for counterexample, sequence in zip(found, sequences, strict=True):
        try:
            (target / f"{counterexample.name}.txt").write_text(render_text.render(sequence))
            (target / f"{counterexample.name}.svg").write_text(render_svg.render(sequence))
        except OSError as error:
            raise ConfigError(
                f"render {target}: {error.strerror}, expected a directory to write into"
            ) from None


def check_guards(options: Options) -> int:
    """Take away every guard that `--model` chooses (all by default); print what noticed. The exit code.

    It is a pattern of modules, `Mode3`, or of guards, `Mode3:tag` and `Mode3:Repeat: *`.
    """
    rows = manifest.load(options.directory)
    read = guards.items_of(options.directory)
    glob = options.model or "*"
    console = display.console()
    watcher = None if options.as_json else display.ConsoleWatcher(console, None, lines=False)
    begun = time.monotonic()

    def chosen(module: str, guard: str) -> bool:
        name = module.removesuffix(".tla")
        return fnmatch.fnmatchcase(name, glob) or fnmatch.fnmatchcase(f"{name}:{guard}", glob)

    def said(verdict: guards.GuardVerdict) -> None:
        if not options.as_json:
            display.line(console, display.guard_line(verdict), None if verdict.ok else "red")

    def work(files: Scratch) -> int:
        pool = Pool(files, options.jobs, watcher)
        try:
            verdicts = guards.run(rows, pool, files.folder, chosen, said, read)
        finally:
            pool.close()
            if watcher is not None:
                watcher.close()
        unknown = guards.unknown_survivors(rows, verdicts) if options.model is None else []
        ok = all(v.ok for v in verdicts) and not unknown
        if options.as_json:
            report = {
                "ok": ok,
                "guards": [v.to_dict() for v in verdicts],
                "unknown_survivors": unknown,
                "conjuncts": {module: [i.to_dict() for i in items] for module, items in read.items()},
            }
            print(json.dumps(report))
        else:
            for module, items in read.items():
                display.line(console, display.conjunct_line(module, items))
            display.guard_summary(console, verdicts, unknown, time.monotonic() - begun)
        return EXIT_OK if ok else EXIT_FAILED

    return interruptibly(work)


def check_traces(options: Options, paths: Sequence[str]) -> int:
    """Hold recordings against the specifications of their modes; print a line for each. The exit code."""
    recordings = [r for path in paths for r in recording.load(Path(path))]
    behaviours = [traces.behaviour(r) for r in recordings]
    console = display.console()
    watcher = None if options.as_json else display.ConsoleWatcher(console, None, lines=False)

    def work(files: Scratch) -> int:
        pool = Pool(files, options.jobs, watcher)
        try:
            verdicts = traces.check(behaviours, pool, files.folder, options.directory)
        finally:
            pool.close()
            if watcher is not None:
                watcher.close()
        ok = all(v.accepted for v in verdicts)
        if options.as_json:
            print(json.dumps({"ok": ok, "traces": [v.to_dict() for v in verdicts]}))
        else:
            for verdict in verdicts:
                display.line(console, display.trace_line(verdict), None if verdict.accepted else "red")
        return EXIT_OK if ok else EXIT_FAILED

    return interruptibly(work)


def interruptibly(work: Callable[[Scratch], int]) -> int:
    """Run `work` with a scratch folder; a signal ends it with nothing left behind. The exit code."""
    try:
        with scratch("check") as files:
            return work(files)
    except Interrupted as signal:
        print(f"epic: {signal}", file=sys.stderr)
        return EXIT_SIGNAL + signal.number
