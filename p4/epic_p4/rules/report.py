"""Results as text for people (100 columns) and as one object for machines."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from epic_p4.errors import Pos
from epic_p4.rules import target
from epic_p4.rules.checks import RULES
from epic_p4.rules.estimate import Estimate
from epic_p4.rules.finding import Finding
from epic_p4.rules.flow import Gress, Kind
from epic_p4.rules.result import ProgramResult, Trial
from epic_p4.rules.target import Target

WIDTH = 100
_COLUMNS: tuple[tuple[str, str], ...] = (
    ("tab", target.LOGICAL_TABLES),
    ("sram", target.SRAM),
    ("map", target.MAP_RAM),
    ("tcam", target.TCAM),
    ("salu", target.STATEFUL_ALUS),
    ("cnt", target.STATISTICS_ALUS),
    ("gw", target.GATEWAYS),
    ("xbar", target.EXACT_BYTES),
    ("txb", target.TERNARY_BYTES),
    ("hash", target.HASH_BITS),
    ("dist", target.HASH_DISTRIBUTION),
)
_NUMBERED = re.compile(r"(.*?)(\d+)")

HOW = (
    "Stages: a list schedule of tables, conditions and statements by match, action, output, successor and reverse "
    "dependencies, both gresses sharing the stages' resources as listed. A condition shares the logical table of "
    "the table behind it, statements in a row share one. All that touches a register lies in one stage.",
    "Memory: exact tables in at least 4 ways of 1024 words, entries packed with 4 version bits and action data up to "
    "32 bits; TCAM in blocks of 512 words of 44 bits; registers and counters with one spare block and map RAMs.",
    "PHV: fields that are added to have a container of their size, others are packed in bytes; metadata by the stages "
    "in which it lives; header fields that no stage touches travel beside them; of the parser's paths the "
    "heaviest counts.",
    "Held against public programs for Tofino 1: p4lang/p4app-switchML takes its 12 stages here too, and "
    "cjoiercjk/Clean-Slate-INC fits with registers of 20,480 cells and not with 24,576, as its authors say.",
    "Not modelled: crossbar and hash groups, action data bus, instruction memory, conflicts of fields that share a "
    "container, parser states. The compiler may need more; it can also find a tighter schedule.",
)


# -- text


def text(result: ProgramResult) -> Iterator[str]:
    """The report of one program."""
    yield f"{result.name}  ({result.file}, {result.arch})"
    if result.estimate is None:
        yield f"  rules     none: {result.arch} runs in software, without stages"
    else:
        yield from _rules(result)
        yield from _stages(result.estimate)
    for outcome in result.compilers:
        seconds = f" in {outcome.seconds:.1f} s" if outcome.seconds else ""
        warnings = f", {outcome.warnings} warnings" if outcome.warnings else ""
        detail = f": {outcome.detail}" if outcome.detail else ""
        yield from _wrapped(f"  {outcome.name:<14}  ", f"{outcome.result}{seconds}{warnings}{detail}")
    for line in result.artifacts.lines():
        yield from _wrapped(f"  {'p4/build':<14}  ", line)


def how(chip: Target) -> Iterator[str]:
    """How the estimates were made, and where rules and limits come from."""
    yield "How the estimates are made"
    for paragraph in HOW:
        yield from _wrapped("  ", paragraph, hang="  ")
    yield "Rules"
    for rule in RULES:
        yield from _wrapped(f"  {rule.name:<19} ", f"{rule.title}. From {rule.source}")
    yield f"Limits of a stage of {chip.title}"
    for name, limit in chip.stage.items():
        yield from _wrapped(f"  {target.NAMES[name]:<24} {limit:>4}  ", target.SOURCES[name])
    yield "Sources"
    for paragraph in target.LEGEND:
        yield from _wrapped("  ", paragraph, hang="    ")


def _rules(result: ProgramResult) -> Iterator[str]:
    broken = sum(1 for _, findings in result.rules if findings)
    yield f"  rules     {len(result.rules) - broken} kept, {broken} broken"
    for rule, findings in result.rules:
        if not findings:
            continue
        yield from _wrapped("    ", f"{rule.name}: {rule.title}", hang="      ")
        # A control with many instances breaks a rule once in each: one line will do.
        by_place: dict[Pos, list[Finding]] = {}
        for finding in findings:
            by_place.setdefault(finding.pos, []).append(finding)
        for pos, several in by_place.items():
            more = f" (and {len(several) - 1} more here)" if len(several) > 1 else ""
            yield from _wrapped("      ", f"{pos}: {several[0].what}{more}", hang="        ")


def _stages(found: Estimate) -> Iterator[str]:
    chip = found.chip
    fits = "fits" if not found.problems else "does not fit"
    parts = ", ".join(
        f"{gress} {found.stages_of(gress)} (its dependencies alone: {found.floor[gress]})"
        for gress in found.floor
    )
    yield from _wrapped(
        f"  {chip.title:<8}  ", f"{fits}: about {found.stages} of {chip.stages} stages; {parts}"
    )
    for problem in found.problems:
        yield from _wrapped("            ", problem)
    if found.problems:
        yield from _chain(found)
    yield ""
    widths = [max(len(head), len(str(chip.stage[name]))) for head, name in _COLUMNS]
    head = " ".join(f"{head:>{width}}" for (head, _), width in zip(_COLUMNS, widths, strict=True))
    yield f"  stage {head}  holds"
    limits = " ".join(
        f"{chip.stage[name]:>{width}}" for (_, name), width in zip(_COLUMNS, widths, strict=True)
    )
    yield f"     of {limits}"
    for number, use in enumerate(found.plan.stages):
        mark = " " if number < chip.stages else "!"
        cells = " ".join(
            f"{use.amount(name) or '.':>{width}}" for (_, name), width in zip(_COLUMNS, widths, strict=True)
        )
        start = f"  {mark}{number + 1:>4} {cells}  "
        yield from _wrapped(start, "; ".join(_holds(found, number)) or "(empty)")
    yield ""
    yield from _totals(found)


def _chain(found: Estimate) -> Iterator[str]:
    """The dependencies that ask for the most stages, one after the other."""
    gress = max(found.chains, key=lambda one: found.floor[one])
    links = found.chains[gress]
    if not links:
        return
    steps = [_short(links[0].before.name)]
    steps += [f"{_short(one.after.name)} ({one.reason} {one.field})" for one in links if one.reason.distance]
    yield from _wrapped("  chain     ", " > ".join(steps))


def _totals(found: Estimate) -> Iterator[str]:
    chip = found.chip
    sram = sum(use.amount(target.SRAM) for use in found.plan.stages)
    tcam = sum(use.amount(target.TCAM) for use in found.plan.stages)
    yield (
        f"  memory    SRAM {sram} of {chip.stages * chip.stage[target.SRAM]} blocks, "
        f"TCAM {tcam} of {chip.stages * chip.stage[target.TCAM]}"
    )
    phv = found.phv_verdict
    beside = f"{phv.beside_bits} of {phv.beside_available} beside the stages ({chip.beside})"
    yield f"  PHV       {phv.bits} of {phv.available} bits, {beside}"
    for gress, used in found.phv.items():
        own = ", ".join(f"{count} x {size}" for size, count in used.own.items() if count) or "none"
        yield from _wrapped(
            f"    {gress:<8}",
            f"headers {8 * used.header_bytes} bits packed, containers of their own {own}; "
            f"metadata {used.metadata_bits} bits, {used.metadata_peak} at once",
        )


def _holds(found: Estimate, stage: int) -> Iterator[str]:
    """What lies in a stage, by gress, names that differ only by a number together."""
    for gress in Gress:
        names: list[str] = []
        statements = conditions = 0
        for item, shares in found.plan.shares.items():
            if stage not in shares:
                continue
            part = f" ({shares[stage]}/{found.items[item].parts})" if len(shares) > 1 else ""
            for unit in found.units[item]:
                if unit.gress is not gress:
                    continue
                touched = [_short(use.object.name) for use in unit.uses()]
                if unit.kind is Kind.CONDITION:
                    conditions += 1
                elif unit.kind is Kind.STATEMENT and not touched:
                    statements += 1
                elif unit.kind is Kind.STATEMENT:
                    names += touched
                else:
                    names.append(_short(unit.name) + part)
        if conditions:
            names.append(f"{conditions} if")
        if statements:
            names.append(f"{statements} assignment{'s' if statements > 1 else ''}")
        if names:
            yield f"{'' if gress is Gress.INGRESS else 'egress '}{', '.join(_counted(names))}"


def _short(name: str) -> str:
    """The last part of a control-plane name; other names as they are."""
    return name if " " in name else name.rsplit(".", 1)[-1]


def _counted(names: Sequence[str]) -> list[str]:
    """`words_0, words_1` as `words_0..1`, and four tables of one name as `4 x name`."""
    result: list[tuple[str, int | None, int | None]] = []
    for name, count in Counter(names).items():
        match = _NUMBERED.fullmatch(name)
        if count > 1 or match is None:
            result.append((f"{count} x {name}" if count > 1 else name, None, None))
            continue
        stem, number = match[1], int(match[2])
        if result and result[-1][0] == stem and result[-1][2] is not None and result[-1][2] + 1 == number:
            result[-1] = (stem, result[-1][1], number)
        else:
            result.append((stem, number, number))
    return [
        stem if first is None else f"{stem}{first}" if first == last else f"{stem}{first}..{last}"
        for stem, first, last in result
    ]


def _wrapped(start: str, content: str, hang: str | None = None) -> Iterator[str]:
    indent = " " * len(start) if hang is None else hang
    yield from textwrap.wrap(
        content,
        WIDTH,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [start.rstrip()]


def trials(found: Sequence[Trial]) -> Iterator[str]:
    """The table of `--words`."""
    yield "  words  stages       SRAM   PHV bits  result"
    for one in found:
        if one.estimate is None:
            yield f"  {one.words:>5}  {'':>6}  {'':>9}  {'':>9}  {one.problems[0]}"
            continue
        sram = sum(use.amount(target.SRAM) for use in one.estimate.plan.stages)
        verdict = one.estimate.phv_verdict
        result = "fits" if not one.problems else "; ".join(one.problems)
        stages = f"{one.estimate.stages}/{one.estimate.chip.stages}"
        yield from _wrapped(
            f"  {one.words:>5}  {stages:>6}  {sram:>9}  {verdict.bits:>9}  ",
            result,
        )


# -- machines


def as_object(result: ProgramResult) -> dict[str, object]:
    """The result of one program as JSON values."""
    return {
        "name": result.name,
        "file": result.file,
        "arch": result.arch,
        "ok": result.ok,
        "rules": [
            {
                "rule": rule.name,
                "title": rule.title,
                "source": rule.source,
                "ok": not findings,
                "findings": [
                    {"file": one.pos.file, "line": one.pos.line, "column": one.pos.column, "what": one.what}
                    for one in findings
                ],
            }
            for rule, findings in result.rules
        ],
        **({} if result.estimate is None else _estimate_object(result.estimate)),
        "words": [
            {
                "words": one.words,
                "fits": not one.problems,
                "stages": one.estimate.stages if one.estimate else None,
                "problems": one.problems,
            }
            for one in result.trials
        ],
        "compilers": [
            {
                "name": one.name,
                "result": one.result,
                "seconds": round(one.seconds, 3),
                "warnings": one.warnings,
                "detail": one.detail,
            }
            for one in result.compilers
        ],
        "artifacts": {"found": list(result.artifacts.found), "problems": list(result.artifacts.problems)},
    }


def _estimate_object(found: Estimate) -> dict[str, object]:
    chip = found.chip
    phv = found.phv_verdict
    return {
        "target": chip.name,
        "fits": not found.problems,
        "problems": found.problems,
        "stages": {
            "needed": found.stages,
            "available": chip.stages,
            "gress": {
                str(gress): {"needed": found.stages_of(gress), "dependencies": floor}
                for gress, floor in found.floor.items()
            },
            "limits": dict(chip.stage),
            "sources": dict(target.SOURCES),
            "each": [
                {
                    "stage": number + 1,
                    "use": {name: use.amount(name) for name in chip.stage},
                    **{
                        str(gress): [
                            unit.name
                            for item, shares in found.plan.shares.items()
                            if number in shares
                            for unit in found.units[item]
                            if unit.gress is gress
                        ]
                        for gress in Gress
                    },
                }
                for number, use in enumerate(found.plan.stages)
            ],
        },
        "sram": _memory(found, target.SRAM),
        "tcam": _memory(found, target.TCAM),
        "memories": [
            {
                "name": one.name,
                "kind": one.kind,
                "size": one.size,
                "bits": one.bits,
                "sram": one.sram,
                "tcam": one.tcam,
            }
            for one in found.memories
        ],
        "phv": {
            "bits": phv.bits,
            "available": phv.available,
            "beside_bits": phv.beside_bits,
            "beside_available": phv.beside_available,
            "gress": {
                str(gress): {
                    "own": {str(size): count for size, count in used.own.items()},
                    "header_bits": 8 * used.header_bytes,
                    "beside_bits": 8 * used.beside_bytes,
                    "metadata_bits": used.metadata_bits,
                    "metadata_peak": used.metadata_peak,
                }
                for gress, used in found.phv.items()
            },
        },
        "how": list(HOW),
    }


def _memory(found: Estimate, name: str) -> dict[str, int]:
    return {
        "blocks": sum(use.amount(name) for use in found.plan.stages),
        "available": found.chip.stages * found.chip.stage[name],
    }
