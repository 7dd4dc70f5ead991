"""What `epic check rtl` does once its options are checked. Exit codes: 0 all passed, 1 not, 128 + n for signal n."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import os
import time
from dataclasses import dataclass

from epic_spec.errors import ConfigError
from epic_spec.loader import REPO
from epic_testbed.proofs.command import interruptibly
from epic_testbed.proofs.scratch import Scratch
from epic_testbed.rtl.check import bench, display, lint, measured, proof, readme, runner, synth
from epic_testbed.rtl.check.model import LEVELS, Check, Kind

EXIT_OK, EXIT_FAILED = 0, 1

# Where the folders of failures are kept.
KEEP = REPO / "build" / "check-rtl"


@dataclass(frozen=True, slots=True)
class Options:
    """The options, checked."""

    level: str
    only: tuple[str, ...]
    jobs: int
    listing: bool
    write_readme: bool
    as_json: bool

    @classmethod
    def make(
        cls,
        level: str,
        only: list[str],
        jobs: int | None,
        listing: bool,
        write_readme: bool,
        as_json: bool,
    ) -> Options:
        """Check options. Raises ConfigError in one line."""
        if level not in LEVELS:
            raise ConfigError(f"level = {level!r}, expected one of {', '.join(LEVELS)}")
        if jobs is not None and not 1 <= jobs <= 256:
            raise ConfigError(f"jobs = {jobs}, expected 1 to 256")
        return cls(level, tuple(only), jobs or len(os.sched_getaffinity(0)), listing, write_readme, as_json)


def select(options: Options) -> list[Check]:
    """The checks that the options choose. Raises ConfigError when there is none."""
    if options.write_readme and not options.only:
        return [*_measuring(), *synth.checks()]
    level = "verify" if options.only else options.level
    everything = [
        *lint.checks(level),
        *bench.checks(),
        *proof.checks(),
        *proof.mutant_checks(),
        *synth.checks(),
    ]
    if not options.only:
        return [c for c in everything if options.level == "verify" or c.level == "test"]
    # What could not be listed may be what is asked for.
    unlisted = [c for c in everything if c.name == bench.LISTING]
    if unlisted and any(glob.startswith(("bench/", "*")) for glob in options.only):
        return [*unlisted, *(c for c in everything if c not in unlisted and _matches(c, options.only))]
    for glob in options.only:
        if not fnmatch.filter([c.name for c in everything], glob):
            raise ConfigError(f"only = {glob!r}: no check has such a name; see `epic check rtl --list`")
    return [c for c in everything if _matches(c, options.only)]


def _measuring() -> list[Check]:
    """The benches whose figures are in the README."""
    return [c for c in bench.checks() if c.name.startswith(measured.PREFIX)]


def _matches(check: Check, globs: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(check.name, glob) for glob in globs)


def run(options: Options) -> int:
    """Run the checks; print the table or JSON. The exit code."""
    chosen = select(options)
    console = display.console()
    if options.write_readme:
        readme.write_mutants()
    if options.listing:
        _list(options, chosen)
        return EXIT_OK
    # Read now: what an hour's work has found is not to be lost because a manifest has changed meanwhile.
    configurations = [configuration.name for configuration in synth.rows()]
    measuring = [check.name for check in _measuring()]
    watcher = display.Silent() if options.as_json else display.ConsoleWatcher(console, len(chosen))
    begun = time.monotonic()

    def work(files: Scratch) -> int:
        try:
            results = asyncio.run(runner.run(chosen, files, options.jobs, watcher, KEEP))
        finally:
            if isinstance(watcher, display.ConsoleWatcher):
                watcher.close()
        # A synthesis that misses its goal has figures all the same.
        rows = {r.check.name: r.figures for r in results if r.check.kind is Kind.SYNTH and "lut" in r.figures}
        counted = {
            r.check.name: r.figures for r in results if r.check.name.startswith(measured.PREFIX) and r.ok
        }
        ok = all(r.ok for r in results)
        if options.write_readme:
            readme.write(rows, configurations)
            readme.write_measured(counted, measuring)
        differences = [
            *readme.differences(rows),
            *readme.measured_differ(counted),
            *readme.mutants_differ(),
        ]
        ok = ok and not differences
        if options.as_json:
            report = {"ok": ok, "checks": [r.to_dict() for r in results], "readme": differences}
            print(json.dumps(report))
        else:
            display.summary(console, results, time.monotonic() - begun)
            for difference in differences:
                display.line(console, difference, "red")
        return EXIT_OK if ok else EXIT_FAILED

    return interruptibly(work)


def _list(options: Options, chosen: list[Check]) -> None:
    if options.as_json:
        rows = [
            {"name": c.name, "kind": c.kind.value, "level": c.level, "deadline": c.deadline} for c in chosen
        ]
        print(json.dumps({"ok": True, "checks": rows}))
        return
    for check in chosen:
        print(f"{check.name:<52} {check.level:<7} {check.deadline:.0f} s")
