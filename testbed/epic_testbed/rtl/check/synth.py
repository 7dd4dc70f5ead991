"""Synthesis: configurations of rtl/syn/configurations.toml for three targets.

ecp5-85   Yosys synth_ecp5, then nextpnr places and routes on the 85k device (speed grade 6): area and Fmax. The
          module sits between shift registers, so that it needs three pins, and what enters and leaves it is timed
          as well. Area is that of the module alone.
ecp5-area the same without nextpnr: cell counts of what takes it about an hour.
xilinx    synth_xilinx for UltraScale+, each module by itself (not flattened: what is there many times is mapped once,
          in minutes instead of hours), summed up over the hierarchy: cell counts, a little too high, for nothing is
          optimized across modules. Nothing open places and routes for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from epic_spec.errors import ConfigError
from epic_testbed.rtl.check import tools
from epic_testbed.rtl.check.manifest import Parameters, Row, load
from epic_testbed.rtl.check.model import Check, CheckFailed, Context, Figures, Kind
from epic_testbed.rtl.check.sources import RTL, SRC, closure, modules

SYN = RTL / "syn"
MANIFEST = SYN / "configurations.toml"
TARGETS = ("ecp5-85", "ecp5-area", "xilinx")
# nextpnr's analytic placers: heap is its default; static needs a quarter less wire for the largest designs.
PLACERS = ("heap", "static")
_HARNESS = "syn_harness"
_DEVICE = ("--85k", "--package", "CABGA756", "--speed", "6")
_EFFORT = ("--seed", "1", "--freq", "125")
# LUTs that a memory or shift register of UltraScale+ is made of.
_XILINX_LUT_MEMORIES = {
    "SRL16E": 1,
    "SRLC16E": 1,
    "SRLC32E": 1,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM256X1D": 8,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32M16": 8,
    "RAM64M8": 8,
}
# The harness around what is mapped already: flip-flops, and a multiplexer for each output.
_MAP_HARNESS = (
    f"hierarchy -check -top {_HARNESS}",
    "proc",
    "flatten",
    "opt -fast",
    "simplemap",
    "dfflegalize -cell $_DFF_P_ 01",
    "abc -lut 4",
    "techmap -map +/lattice/cells_map_trellis.v",
    "clean",
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A row of the manifest. `goal`: MHz that Fmax must reach, 0 for none. `placer`: nextpnr's."""

    name: str
    top: str
    parameters: Parameters
    target: str
    goal: int
    placer: str
    level: str
    deadline: float


def rows() -> list[Configuration]:
    """The configurations whose module is there. Raises ConfigError."""
    known = modules()
    found = []
    for name, values in load(MANIFEST).items():
        row = Row(MANIFEST, name, values)
        top = row.text("top")
        if top not in known:
            raise row.error("top", top, f"a module of {SRC}")
        target = row.text("target", one_of=TARGETS)
        configuration = Configuration(
            name=name,
            top=top,
            parameters=row.parameters(),
            target=target,
            goal=row.number("goal", 1) if target == "ecp5-85" else 0,
            placer=row.text("placer", "heap", PLACERS) if target == "ecp5-85" else "",
            level=row.level(),
            deadline=float(row.number("deadline", 600)),
        )
        row.end()
        found.append(configuration)
    return found


def checks() -> list[Check]:
    """One check a configuration."""
    return [Check(f"syn/{c.name}", Kind.SYNTH, c.level, c.deadline, partial(_synthesize, c)) for c in rows()]


async def _synthesize(configuration: Configuration, context: Context) -> Figures:
    figures: Figures = {"target": configuration.target, "top": configuration.top, **configuration.parameters}
    if configuration.target == "xilinx":
        return figures | await _xilinx(configuration, context)
    if configuration.target == "ecp5-85":
        tools.nextpnr_ecp5()  # raises before the work
    figures |= await _map(configuration, context)
    if configuration.target == "ecp5-85":
        figures |= await _place(configuration, context, figures)
    return figures


def _read(configuration: Configuration) -> list[str]:
    files = closure([configuration.top], modules())
    set_all = " ".join(f"-set {key} {value}" for key, value in configuration.parameters.items())
    lines = [f"read_verilog -sv -D SYNTHESIS -I{SRC} {' '.join(map(str, files))}"]
    return lines + ([f"chparam {set_all} {configuration.top}"] if configuration.parameters else [])


async def _yosys(context: Context, name: str, lines: list[str]) -> None:
    script = context.folder / name
    script.write_text("\n".join(lines))
    done = await context.execute(tools.yosys(script))
    if done.code:
        raise CheckFailed(f"yosys: {done.tail(3)}")


def _cells(context: Context, name: str) -> dict[str, int]:
    """Cells by type, from the JSON of Yosys' stat."""
    text = (context.folder / name).read_text()
    found: dict[str, int] = json.loads(text[text.index("{") :])["design"]["num_cells_by_type"]
    return found


async def _xilinx(configuration: Configuration, context: Context) -> Figures:
    await _yosys(
        context,
        "xilinx.ys",
        [
            *_read(configuration),
            f"synth_xilinx -family xcup -noiopad -noclkbuf -top {configuration.top}",
            "tee -o stat.json stat -json",
        ],
    )
    cells = _cells(context, "stat.json")

    def total(*prefixes: str) -> int:
        return sum(n for cell, n in cells.items() if cell.startswith(prefixes))

    return {
        "lut": total("LUT")
        + sum(number * cells.get(cell, 0) for cell, number in _XILINX_LUT_MEMORIES.items()),
        "ff": total("FD"),
        "ram": total("RAMB36", "URAM") + (total("RAMB18") + 1) // 2,
        "dsp": total("DSP48"),
    }


async def _map(configuration: Configuration, context: Context) -> Figures:
    """Maps the module to ECP5, for nextpnr in a harness. Gives the area."""
    top = configuration.top
    await _yosys(
        context,
        "ports.ys",
        [*_read(configuration), f"hierarchy -check -top {top}", "blackbox *", "write_json ports.json"],
    )
    ports = json.loads((context.folder / "ports.json").read_text())["modules"][top]["ports"]
    (context.folder / "harness.v").write_text(harness(top, ports))
    await _yosys(
        context,
        "ecp5.ys",
        [
            *_read(configuration),
            f"synth_ecp5 -top {top}",
            "tee -o stat.json stat -json",
            "read_verilog harness.v",
            *_MAP_HARNESS,
            "write_json design.json",
        ],
    )
    # A carry cell is two LUTs, 16 words of 4 bits are four.
    cells = _cells(context, "stat.json")
    return {
        "lut": cells.get("LUT4", 0) + 2 * cells.get("CCU2C", 0) + 4 * cells.get("TRELLIS_DPR16X4", 0),
        "ff": cells.get("TRELLIS_FF", 0),
        "ram": cells.get("DP16KD", 0) + cells.get("PDPW16KD", 0),
        "dsp": cells.get("MULT18X18D", 0),
    }


async def _place(configuration: Configuration, context: Context, so_far: Figures) -> Figures:
    """Places and routes what `_map` left. Raises CheckFailed, with `so_far` and the timing, when the goal is missed."""
    command = [tools.nextpnr_ecp5(), *_DEVICE, *_EFFORT, "--placer", configuration.placer]
    command += ["--json", "design.json", "--report", "report.json", "--timing-allow-fail", "--quiet"]
    done = await context.execute([*command, "--lpf-allow-unconstrained", "--textcfg", "design.config"])
    report = context.folder / "report.json"
    if done.code or not report.exists():
        raise CheckFailed(f"nextpnr: {done.tail(3)}", so_far)
    figures = timing(json.loads(report.read_text()))
    if figures["fmax"] < configuration.goal:
        raise CheckFailed(
            f"Fmax {figures['fmax']} MHz, expected {configuration.goal} MHz; {figures['path']}",
            so_far | figures,
        )
    return figures


def harness(top: str, ports: dict[str, Any]) -> str:
    """A module with three pins around `top`: inputs from a shift register, outputs into one that `load` fills.

    `ports` are those of Yosys' JSON. A module without `clk` is timed from register to register all the same.
    Raises ConfigError when it has no inputs or no outputs.
    """
    inputs = {n: len(p["bits"]) for n, p in ports.items() if p["direction"] == "input" and n != "clk"}
    outputs = {n: len(p["bits"]) for n, p in ports.items() if p["direction"] == "output"}
    if not inputs or not outputs:
        raise ConfigError(
            f"{top}: has inputs {sorted(inputs)} and outputs {sorted(outputs)}, expected some of each"
        )
    connections = [".clk(clk)"] if "clk" in ports else []
    at = 0
    for name, width in inputs.items():
        connections.append(f".{name}(in[{at} +: {width}])")
        at += width
    total_in, at = at, 0
    for name, width in outputs.items():
        connections.append(f".{name}(out[{at} +: {width}])")
        at += width
    return f"""module {_HARNESS} (input clk, input serial, input load, output result);
reg [{total_in - 1}:0] in;
wire [{at - 1}:0] out;
reg [{at - 1}:0] shift;
always @(posedge clk) begin
    in <= {{in, serial}};
    shift <= load ? out : {{shift, 1'b0}};
end
assign result = shift[{at - 1}];
{top} dut ({", ".join(connections)});
endmodule
"""


def timing(report: dict[str, Any]) -> Figures:
    """Fmax after routing and the path that limits it, from nextpnr's report."""
    clocks = report["fmax"]
    if len(clocks) != 1:
        raise CheckFailed(f"nextpnr reports clocks {sorted(clocks)}, expected one")
    (clock,) = clocks.values()
    paths = [p for p in report["critical_paths"] if p["from"].split(" ")[-1] == p["to"].split(" ")[-1]]
    path = paths[0]["path"]
    logic = sum(step["delay"] for step in path if step["type"] != "routing")
    routing = sum(step["delay"] for step in path if step["type"] == "routing")
    # Cells are named for the net that they drive; the suffixes of the mapping say nothing.
    first, last = path[0]["from"]["cell"], path[-1]["to"]["cell"]
    levels = sum(step["type"] == "logic" for step in path)
    return {
        "fmax": round(clock["achieved"], 1),
        "path": f"{_net(first)} to {_net(last)}: {logic:.1f} ns logic in {levels} levels, {routing:.1f} ns routing",
    }


def _net(cell: str) -> str:
    """The readable part of a mapped cell's name."""
    for mark in ("_TRELLIS_FF", "_LUT4", "_CCU2C", "_PFUMX", "_L6MUX21", "_DP16KD", "$slice"):
        cell = cell.split(mark)[0]
    return cell.removeprefix("dut.")
