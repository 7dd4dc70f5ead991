"""Guard removal: every guard of a specification is taken away in turn, and some model must notice.

A guard with a name is looked for in the constant Broken, `"name" \\notin Broken` or `Has("name")`, and taken away by
that constant. A guard without a name is a conjunct of an action (conjuncts.py finds them in the modules that have
guards with names, and says what counts as one); models run with a copy of the module that has TRUE in its place. It
is called by its action and text: `Accept: m.p = known`.

A model notices when TLC finds a violation, a deadlock or an expression that has no value; another number of states is
not noticed. A guard that no model notices survives: a property is missing, or the guard is not needed. Survivors that
are right are listed in the manifest with the reason; one that is listed and does not survive is an error as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError
from epic_testbed.proofs import check, conjuncts
from epic_testbed.proofs.config import TlcConfig
from epic_testbed.proofs.conjuncts import Conjunct
from epic_testbed.proofs.manifest import Manifest, Model
from epic_testbed.proofs.tlc import Finished, Job, Pool

_GUARD = re.compile(r'"(\w+)"\s*\\(?:not)?in\s+Broken\b|\bHas\(\s*"(\w+)"\s*\)')
_COMMENT = re.compile(r"\\\*[^\n]*|\(\*.*?\*\)", re.DOTALL)
BROKEN = "Broken"
_MESSAGE = 100


@dataclass(slots=True)
class GuardVerdict:
    """A guard of a module, the models that were tried without it, and what the last one said."""

    module: str
    guard: str
    tried: list[str] = field(default_factory=list)
    killed_by: str | None = None
    result: str = ""
    seconds: float = 0.0
    allowed: str | None = None  # why it may survive
    conjunct: Conjunct | None = None  # of a guard without a name

    @property
    def ok(self) -> bool:
        """Noticed, or a survivor that the manifest explains."""
        return (self.killed_by is None) == (self.allowed is not None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "module": self.module,
            "guard": self.guard,
            "named": self.conjunct is None,
            "killed_by": self.killed_by,
            "result": self.result,
            "tried": self.tried,
            "seconds": round(self.seconds, 2),
            "survives_because": self.allowed,
            "ok": self.ok,
        }


@cache
def _text(path: Path) -> str:
    return _COMMENT.sub(" ", path.read_text())


def extended(module: Path) -> set[Path]:
    """A module and those of its folder that it extends, directly or not."""
    found, waiting = set[Path](), [module]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for names in re.findall(
            r"\bEXTENDS\s+([\w\s,]+?)(?=\n\s*\n|\n[A-Z]|\bCONSTANT|\bVARIABLE|\n\S+\s*==|$)", _text(path)
        ):
            waiting += [path.parent / f"{name}.tla" for name in re.findall(r"\w+", names)]
    return found


def names_in(module: Path) -> list[str]:
    """Names of the guards that a module tests, in the order of the text, each once."""
    found = (a or b for a, b in _GUARD.findall(_text(module)))
    return list(dict.fromkeys(found))


def guards_of(directory: Path) -> dict[str, list[str]]:
    """Guards by module: of each module that tests some and has variables, with those of the modules it extends."""
    found = {}
    for path in sorted(directory.glob("*.tla")):
        own = names_in(path)
        if own and re.search(r"^\s*VARIABLES?\b", _text(path), re.MULTILINE):
            others = [name for p in sorted(extended(path) - {path}) for name in names_in(p)]
            found[path.name] = list(dict.fromkeys(own + others))
    return found


def items_of(directory: Path) -> dict[str, list[Conjunct]]:
    """Conjuncts of actions, by module, of the modules that guards_of finds. Raises ConfigError for unknown shapes."""
    return {module: conjuncts.read(directory / module) for module in guards_of(directory)}


def candidates(manifest: Manifest, module: str, guard: str | None) -> list[Model]:
    """The models of level `test` that may notice that a guard is missing, or (None) one without a name.

    First the mutants that lack just this guard, then the good ones, quick ones first.
    """
    mutants, good = [], []
    for model in manifest.models:
        if manifest.directory / module not in extended(manifest.directory / model.spec):
            continue
        config = TlcConfig.load(manifest.directory / f"{model.name}.cfg")
        value = config.value_of(BROKEN)
        if value is None:
            continue
        names = re.findall(r'"(\w+)"', value)
        if names == [guard] and model.level == "test":
            mutants.append(model)
        elif not names and model.expected == "ok" and model.level == "test":
            good.append(model)
    return sorted(mutants, key=lambda m: m.seconds) + sorted(good, key=lambda m: m.seconds)


def run(
    manifest: Manifest,
    pool: Pool,
    folder: Path,
    chosen: Callable[[str, str], bool] = lambda module, guard: True,
    said: Callable[[GuardVerdict], None] = lambda verdict: None,
    read: Mapping[str, Sequence[Conjunct]] | None = None,
) -> list[GuardVerdict]:
    """Try every guard; `said` hears of each when it is decided. Configurations are written into `folder`.

    `read` is what items_of said, where it is known already.
    Raises ConfigError when there is no guard, or one that no model could notice.
    """
    allowed = {(s.module, s.guard): s.text for s in manifest.survivors}
    found = [
        GuardVerdict(module, guard, allowed=allowed.get((module, guard)))
        for module, names in guards_of(manifest.directory).items()
        for guard in names
    ]
    found += [
        GuardVerdict(module, item.name, allowed=allowed.get((module, item.name)), conjunct=item)
        for module, items in (items_of(manifest.directory) if read is None else read).items()
        for item in items
        if item.kind == conjuncts.GUARD
    ]
    verdicts = [v for v in found if chosen(v.module, v.guard)]
    if not verdicts:
        raise ConfigError(f'{manifest.directory}: no such guard, expected some, as in Has("name")')
    models = {
        (v.module, v.guard): candidates(manifest, v.module, None if v.conjunct else v.guard) for v in verdicts
    }
    waiting, number = list(verdicts), 0
    while waiting:
        tries = [
            (v, models[v.module, v.guard][number]) for v in waiting if number < len(models[v.module, v.guard])
        ]
        _try(tries, manifest, pool, folder, said)
        number += 1
        for verdict in [v for v in waiting if not v.killed_by and number >= len(models[v.module, v.guard])]:
            said(verdict)
        waiting = [v for v in waiting if not v.killed_by and number < len(models[v.module, v.guard])]
    return verdicts


def _try(
    tries: Sequence[tuple[GuardVerdict, Model]],
    manifest: Manifest,
    pool: Pool,
    folder: Path,
    said: Callable[[GuardVerdict], None],
) -> None:
    """Run each guard's next model without it."""
    jobs = [_without(manifest, model, verdict, folder) for verdict, model in tries]
    by_name = {job.name: one for job, one in zip(jobs, tries, strict=True)}

    def take(finished: Finished) -> bool:
        verdict, model = by_name[finished.job.name]
        _take(verdict, model, finished, manifest)
        if verdict.killed_by:
            said(verdict)
        return False

    pool.run_all(jobs, take)


def _without(manifest: Manifest, model: Model, verdict: GuardVerdict, folder: Path) -> Job:
    """The run of a model without the guard."""
    if verdict.conjunct is not None:
        return _without_conjunct(manifest, model, verdict, verdict.conjunct, folder)
    config = TlcConfig.load(manifest.directory / f"{model.name}.cfg")
    path = folder / f"{verdict.module.removesuffix('.tla')}-{verdict.guard}-{model.name}.cfg"
    path.write_text(config.with_value(BROKEN, f'{{"{verdict.guard}"}}').text)
    name = f"{verdict.module.removesuffix('.tla')} without {verdict.guard}: {model.name}"
    return replace(check.job(model, manifest.directory, path), name=name)


def _without_conjunct(
    manifest: Manifest, model: Model, verdict: GuardVerdict, conjunct: Conjunct, folder: Path
) -> Job:
    """The run of a model in a folder with all modules as they are, but for the one that lacks the conjunct."""
    module = verdict.module.removesuffix(".tla")
    place = conjunct.place
    copies = folder / f"{module}-{place.line}-{place.column}-{place.last_line}-{place.last_column}"
    if not copies.exists():
        copies.mkdir()
        for path in manifest.directory.glob("*.tla"):
            if path.name != verdict.module:
                (copies / path.name).symlink_to(path.absolute())
        text = (manifest.directory / verdict.module).read_text()
        (copies / verdict.module).write_text(conjuncts.without(text, conjunct))
    job = check.job(model, manifest.directory)
    config = job.config.absolute()
    return replace(job, name=f"{module} without {verdict.guard}: {model.name}", folder=copies, config=config)


def _take(verdict: GuardVerdict, model: Model, finished: Finished, manifest: Manifest) -> None:
    verdict.tried.append(model.name)
    verdict.seconds += finished.seconds
    config = TlcConfig.load(manifest.directory / f"{model.name}.cfg")
    verdict.result = check.named_result(finished.outcome, config, manifest.directory)
    if verdict.result == "error":
        verdict.result = f"error: {_short(finished.outcome.message)}"
        # An expression without a value in some state is noticed; a model that does not even begin proves nothing.
        begun = bool(finished.outcome.generated)
    else:
        begun = verdict.result not in ("ok", "timeout", "memory")
    if begun:
        verdict.killed_by = model.name


def _short(message: str) -> str:
    """TLC's message without the words around it and the values in it."""
    said = re.sub(r"^.*?\bexception was a [\w.$]+\s*:\s*", "", message)
    return said if len(said) <= _MESSAGE else f"{said[:_MESSAGE]}…"


def unknown_survivors(manifest: Manifest, verdicts: Sequence[GuardVerdict]) -> list[str]:
    """Survivors that the manifest lists and that are no guards."""
    known = {(v.module, v.guard) for v in verdicts}
    return [f"{s.module}: {s.guard}" for s in manifest.survivors if (s.module, s.guard) not in known]
