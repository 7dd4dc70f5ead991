"""Proofs: property modules of rtl/formal hold the design, for every input, or a counterexample shows that they do not.

A proof instantiates a module of rtl/src in a property module and says how it is proved (rtl/formal/proofs.toml):

    pdr         for every number of cycles: ABC's property directed reachability finds an inductive invariant
    induction   for every number of cycles: the properties hold for `depth` cycles from reset, and after any `depth`
                cycles in which they held
    bmc         for the first `depth` cycles from reset only, by ABC too: with large steps it is faster by far than SMT

A proof may `cut` modules: their outputs are then any, which proves more than is asked for, with less to look at.

What each proof covers (`cover`) must be reached within `cover` cycles: assumptions that rule out the interesting
cases, or a condition that is never met, would leave a proof of nothing. A mutant of rtl/formal/mutants.py is a text
substitution in one source; its proof must find a counterexample.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from epic_spec.errors import ConfigError
from epic_testbed.rtl.check import tools
from epic_testbed.rtl.check.manifest import Parameters, Row, load
from epic_testbed.rtl.check.model import Check, CheckFailed, Context, Done, Figures, Kind
from epic_testbed.rtl.check.sources import RTL, SRC, closure, instances, modules

FORMAL = RTL / "formal"
MANIFEST = FORMAL / "proofs.toml"
ENGINES = ("pdr", "induction", "bmc")

_ASSERTED = re.compile(r"Output (\d+) of miter .* was asserted in frame (\d+)")
_FAILED = re.compile(r"Assert failed in \S+: (\S+)")
_REACHED = re.compile(r"Reached cover statement in step (\d+) at \S+ (\S+)")
_UNREACHED = re.compile(r"Unreached cover statement at \S+ (\S+)")
# The model once more, for ABC.
_AIG = (
    "chformal -cover -remove",
    "simplemap",
    "techmap",
    "opt -fast",
    "dffunmap",
    "aigmap",
    "opt_clean",
    # Such as an index past the end of a vector.
    "setundef -anyseq",
    # The file has them in this order, without names.
    "tee -q -o asserts.txt select -list t:$assert",
    "write_aiger -I -B -zinit -no-startoffset -map model.aim model.aig",
)
_CLAUSES = re.compile(r"Invariant F\[\d+\] : (\d+) clauses")


@dataclass(frozen=True, slots=True)
class Proof:
    """A row of the manifest. `depth` is that of induction or bmc."""

    name: str
    top: str
    parameters: Parameters
    engine: str
    depth: int
    cover: int
    level: str
    deadline: float
    cut: tuple[str, ...]  # modules whose outputs are free: a proof without what they do

    @property
    def properties(self) -> Path:
        """The property module."""
        return FORMAL / f"{self.top}.sv"


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old`, which is once in `source`, becomes `new`; `proof` must notice."""

    proof: str
    name: str
    source: str
    old: str
    new: str


def rows(path: Path = MANIFEST) -> list[Proof]:
    """The proofs. Raises ConfigError."""
    found = []
    for name, values in load(path).items():
        row = Row(path, name, values)
        engine = row.text("engine", "pdr", ENGINES)
        proof = Proof(
            name=name,
            top=row.text("properties"),
            parameters=row.parameters(),
            engine=engine,
            depth=row.number("depth", 1 if engine == "pdr" else None),
            cover=row.number("cover"),
            level=row.level(),
            deadline=float(row.number("deadline", 120)),
            cut=tuple(row.names("cut")),
        )
        if not proof.properties.is_file():
            raise row.error("properties", proof.top, f"a module of {FORMAL}")
        row.end()
        found.append(proof)
    return found


def mutants() -> list[Mutant]:
    """Those of rtl/formal/mutants.py, each once in its source. Raises ConfigError."""
    path = FORMAL / "mutants.py"
    spec = importlib.util.spec_from_file_location("epic_formal_mutants", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    names = {proof.name for proof in rows()}
    found = []
    for proof, name, source, old, new in module.MUTANTS:
        if proof not in names:
            raise ConfigError(f"mutants.py: {name}: no proof {proof!r} in {MANIFEST.name}")
        count = (SRC / f"{source}.v").read_text().count(old)
        if count != 1:
            raise ConfigError(
                f"mutants.py: {proof} {name}: {old!r} is {count} times in {source}.v, expected once"
            )
        found.append(Mutant(proof, name, source, old, new))
    return found


def checks() -> list[Check]:
    """One check a proof."""
    return [Check(f"proof/{p.name}", Kind.PROOF, p.level, p.deadline, partial(_prove, p)) for p in rows()]


def mutant_checks() -> list[Check]:
    """One check a mutant, all at level verify."""
    proofs = {p.name: p for p in rows()}
    return [
        Check(
            f"mutant/{m.proof}/{m.name}",
            Kind.MUTANT,
            "verify",
            proofs[m.proof].deadline,
            partial(_kill, proofs[m.proof], m),
        )
        for m in mutants()
    ]


async def _prove(proof: Proof, context: Context) -> Figures:
    await _prepare(proof, None, context)
    figures: Figures = {"engine": proof.engine}
    if proof.engine != "pdr":
        figures["depth"] = proof.depth
    figures |= await _hold(proof, context)
    return figures | await _cover(proof, context)


async def _kill(proof: Proof, mutant: Mutant, context: Context) -> Figures:
    await _prepare(proof, mutant, context)
    try:
        if proof.engine == "induction":
            # A step that fails may start where no run leads; a counterexample must start at reset.
            await _base(proof, proof.cover, context)
        else:
            await _hold(proof, context)
    except CheckFailed as caught:
        if "caught_by" not in caught.figures:
            raise
        return caught.figures
    raise CheckFailed(f"{proof.name} holds with {mutant.old!r} as {mutant.new!r} in {mutant.source}.v")


async def _prepare(proof: Proof, mutant: Mutant | None, context: Context) -> None:
    """The design as an SMT2 model, for ABC as an AIG too, in the context's folder."""
    known = modules()
    tops = list(instances(proof.properties, known))
    if not tops:
        raise ConfigError(f"{proof.properties}: instantiates no module of {SRC}")
    files = closure(tops, known)
    if mutant is not None:
        text = known[mutant.source].read_text().replace(mutant.old, mutant.new)
        mutated = context.folder / f"{mutant.source}.v"
        mutated.write_text(text)
        files = [mutated if path.stem == mutant.source else path for path in files]
    script = context.folder / "prepare.ys"
    script.write_text("\n".join(_preparation(proof, files)))
    done = await context.execute(tools.yosys(script))
    if done.code:
        raise CheckFailed(f"yosys: {done.tail(3)}")


def _preparation(proof: Proof, files: Sequence[Path]) -> list[str]:
    set_all = " ".join(f"-set {key} {value}" for key, value in proof.parameters.items())
    return [
        f"read_verilog -formal -sv -D SYNTHESIS -I{SRC} -I{FORMAL} {' '.join(map(str, files))} {proof.properties}",
        *([f"chparam {set_all} {proof.top}"] if proof.parameters else []),
        f"hierarchy -check -top {proof.top}",
        "proc",
        *(f"blackbox {name} *\\{name}" for name in proof.cut),
        *(["cutpoint -blackbox"] if proof.cut else []),
        "opt_expr",
        "memory_map -formal",
        # Properties may name wires inside the design: (* hierconn *) wire \dut.name ;
        "flatten",
        "opt_clean",
        "check -assert",
        "async2sync",
        # What nothing initializes may start with any value.
        "formalff -clk2ff -ff2anyinit",
        "chformal -lower",
        "opt -keepdc -fast",
        "opt_clean",
        "dffunmap",
        "setundef -anyseq",
        "opt_clean",
        "write_smt2 -wires model.smt2",
        *(() if proof.engine == "induction" else _AIG),
    ]


async def _hold(proof: Proof, context: Context) -> Figures:
    """Figures of the proof. Raises CheckFailed with a counterexample."""
    if proof.engine == "pdr":
        line = "read_aiger model.aig; fold; strash; scorr; dc2; pdr"
        done = await context.execute([tools.abc(), "-c", line])
        if "Property proved" in done.output or "Networks are equivalent" in done.output:
            clauses = _CLAUSES.search(done.output)
            return {"invariant": int(clauses[1])} if clauses else {}
        asserted = _ASSERTED.search(done.output)
        if asserted is None:
            raise CheckFailed(f"pdr gave no answer: {done.tail(2)}")
        await _base(proof, int(asserted[2]) + 2, context)
        raise CheckFailed(f"output {asserted[1]} fails in cycle {asserted[2]}, but not in the SMT model")
    if proof.engine == "bmc":
        line = f"read_aiger model.aig; fold; strash; scorr; dc2; bmc3 -F {proof.depth}"
        done = await context.execute([tools.abc(), "-c", line])
        if f"No output asserted in {proof.depth} frames" in done.output:
            return {}
        asserted = _ASSERTED.search(done.output)
        if asserted is None:
            raise CheckFailed(f"bmc3 gave no answer: {done.tail(2)}")
        label = (context.folder / "asserts.txt").read_text().split()[int(asserted[1])].split("/")[-1]
        raise CheckFailed(f"{label} of {proof.top} fails in cycle {asserted[2]}", {"caught_by": label})
    await _base(proof, proof.depth, context)
    if proof.engine == "induction":
        done = await _smtbmc(context, "-i", "-t", str(proof.depth), "--dump-vcd", "trace.vcd")
        if "Status: passed" not in done.output and "Status: PASSED" not in done.output:
            labels = sorted(set(_FAILED.findall(done.output)))
            raise CheckFailed(
                f"not inductive after {proof.depth} cycles: {', '.join(labels) or done.tail(2)}",
                {"not_inductive": ", ".join(labels)},
                "gtkwave {folder}/trace.vcd",
            )
    return {}


async def _base(proof: Proof, depth: int, context: Context) -> None:
    """Raises CheckFailed when a property fails within `depth` cycles of the start."""
    done = await _smtbmc(context, "-t", str(depth), "--dump-vcd", "trace.vcd")
    if "Status: PASSED" in done.output:
        return
    labels = sorted(set(_FAILED.findall(done.output)))
    if not labels:
        raise CheckFailed(f"smtbmc: {done.tail(2)}")
    raise CheckFailed(
        f"{', '.join(labels)} of {proof.top} does not hold",
        {"caught_by": ", ".join(labels)},
        "gtkwave {folder}/trace.vcd",
    )


async def _cover(proof: Proof, context: Context) -> Figures:
    """Every cover statement is reached, or CheckFailed."""
    done = await _smtbmc(context, "-c", "-t", str(proof.cover))
    reached = _REACHED.findall(done.output)
    if "Status: PASSED" not in done.output or not reached:
        missed = ", ".join(_UNREACHED.findall(done.output)) or done.tail(2)
        raise CheckFailed(f"not reached within {proof.cover} cycles: {missed}", {"covers": len(reached)})
    return {"covers": len(reached), "deepest": max(int(step) for step, _ in reached)}


async def _smtbmc(context: Context, *arguments: str) -> Done:
    command, env = tools.smtbmc()
    return await context.execute([*command, *arguments, "model.smt2"], env=env)
