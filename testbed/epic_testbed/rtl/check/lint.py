"""Lint: each module, with each of its parameter sets, through the three front ends that must take it.

Verilator with -Wall must say nothing; Icarus must elaborate it; Yosys must find no latch, no loop, no undriven wire.
Parameter sets that a module must refuse at elaboration (`refused`) must be refused by Verilator and Yosys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from epic_spec.errors import ConfigError
from epic_testbed.rtl.check import tools
from epic_testbed.rtl.check.manifest import Parameters, Row, label, load
from epic_testbed.rtl.check.model import Check, CheckFailed, Context, Done, Figures, Kind
from epic_testbed.rtl.check.sources import RTL, SRC, closure, modules

MANIFEST = RTL / "lint.toml"
_DEADLINE = 240.0


@dataclass(frozen=True, slots=True)
class Module:
    """A module to look at."""

    name: str
    sets: tuple[Parameters, ...]
    refused: tuple[Parameters, ...]


def rows() -> list[Module]:
    """Every module of rtl/src. Raises ConfigError where the manifest names one that is not there."""
    known = modules()
    table = load(MANIFEST)
    for name in table:
        if name not in known:
            raise ConfigError(f"{MANIFEST.name}: {name} is no module of {SRC}")
    found = []
    for name in known:
        row = Row(MANIFEST, name, table.get(name, {}))
        sets = row.parameter_sets("sets") or [{}]
        found.append(Module(name, tuple(sets), tuple(row.parameter_sets("refused"))))
        row.end()
    return found


def checks(level: str) -> list[Check]:
    """One check a module. At level test Icarus and Yosys see its first parameter set only."""
    return [
        Check(f"lint/{row.name}", Kind.LINT, "test", _DEADLINE, partial(_lint, row, level == "verify"))
        for row in rows()
    ]


async def _lint(row: Module, thorough: bool, context: Context) -> Figures:
    known = modules()
    files = closure([row.name], known)
    for index, parameters in enumerate(row.sets):
        done = await _verilator(context, row.name, known[row.name], parameters)
        if done.code or done.output.strip():
            raise CheckFailed(f"verilator -Wall, {label(parameters)}: {first_trouble(done.output)}")
        if index == 0 or thorough:
            await _icarus(context, row.name, files, parameters)
            if message := await _yosys(context, row.name, files, parameters):
                raise CheckFailed(f"yosys, {label(parameters)}: {message}")
    for parameters in row.refused:
        if (await _verilator(context, row.name, known[row.name], parameters)).code == 0:
            raise CheckFailed(f"verilator takes {label(parameters)}, expected it to be refused")
        if await _yosys(context, row.name, files, parameters) is None:
            raise CheckFailed(f"yosys takes {label(parameters)}, expected it to be refused")
    return {"sets": len(row.sets), "refused": len(row.refused)}


async def _verilator(context: Context, top: str, path: Path, parameters: Parameters) -> Done:
    command, env = tools.verilator()
    command += ["--lint-only", "-Wall", f"-I{SRC}", "-y", str(SRC), "--top-module", top]
    command += [f"-G{key}={value}" for key, value in parameters.items()]
    done = await context.execute([*command, str(path)], env=env)
    # Its report of times and sizes is no complaint.
    said = [line for line in done.output.splitlines() if not line.startswith("- ")]
    return Done(done.code, "\n".join(said))


async def _icarus(context: Context, top: str, files: list[Path], parameters: Parameters) -> None:
    command = [tools.icarus(), "-g2012", "-o", "/dev/null", f"-I{SRC}", "-s", top]
    command += [f"-P{top}.{key}={value}" for key, value in parameters.items()]
    done = await context.execute([*command, *map(str, files)])
    if done.code:
        raise CheckFailed(f"iverilog, {label(parameters)}: {done.tail()}")


async def _yosys(context: Context, top: str, files: list[Path], parameters: Parameters) -> str | None:
    """What Yosys has against the module; None for nothing."""
    script = context.folder / "lint.ys"
    set_all = " ".join(f"-set {key} {value}" for key, value in parameters.items())
    script.write_text(
        "\n".join(
            [
                f"read_verilog -sv -D SYNTHESIS -I{SRC} {' '.join(map(str, files))}",
                f"chparam {set_all} {top}" if parameters else "",
                f"hierarchy -check -top {top}",
                "proc",
                "select -assert-none t:$dlatch t:$adlatch t:$dlatchsr",
                "opt_clean",
                "check -assert",
            ]
        )
    )
    done = await context.execute(tools.yosys(script))
    return done.tail(3) if done.code else None


def first_trouble(output: str) -> str:
    """The first warning or error of a tool, with the line that it is about."""
    lines = [line for line in output.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if line.startswith("%")), 0)
    more = sum(line.startswith(("%Warning", "%Error")) for line in lines) - 1
    text = "\n".join(lines[start : start + 3])
    return text + (f"\n(and {more} more)" if more > 0 else "")
