"""tla/manifest.toml: for each TLC configuration what it shows and what must come out.

    [[model]]
    name = "MC3_two_levels"     # NAME.cfg
    spec = "MC3.tla"            # the module that TLC is started on
    kind = "exhaustive"         # exhaustive | simulation | liveness | mutant
    expected = "ok"             # ok | deadlock | violation:<an invariant or property of NAME.cfg>
    level = "test"              # test | verify (the long campaign, which includes test)
    distinct_states = 123456    # exhaustive, liveness: as measured; must be met exactly
    depth = 40                  # exhaustive: as distinct_states. simulation: length of a behaviour
    seconds = 12.3              # measured alone on one worker
    clause = ["EPIC-M3-02"]     # what it shows, or the rule that a mutant breaks
    text = "one line: what this instance is"
    traces = 1000               # simulation: number of behaviours
    seed = 1                    # simulation; default 1
    workers = 1                 # TLC's workers; with more than one the depth is not compared
    memory_mb = 2048            # limit of the Java heap
    timeout = 300               # seconds; default 60 and ten times `seconds`
    check_deadlock = true       # whether deadlock is looked for; default only where it is expected

    [[survivor]]                # guards whose removal no configuration must notice, and why that is right
    module = "Mode3.tla"
    guard = "replay_to_one"     # a name, or of a guard without one action and text: 'Resume: paused[dir][e]'
    text = "saves traffic only"

Files tla/manifest.d/*.toml have rows of the same kinds and are read after it, in the order of their names. A model, and
the survivor of a module, stands once in all files.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from epic_spec.errors import ConfigError
from epic_spec.loader import read_toml
from epic_spec.tables import CLAUSES
from epic_testbed.proofs.config import TlcConfig

LEVELS = ("test", "verify")
KINDS = ("exhaustive", "simulation", "liveness", "mutant")
VIOLATION = "violation:"
_SLOWER = 10.0
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Model:
    """One row: a configuration and what must come out of it."""

    name: str
    spec: str
    kind: str
    expected: str
    level: str
    seconds: float
    text: str
    clause: tuple[str, ...] = ()
    distinct_states: int | None = None
    depth: int | None = None
    traces: int | None = None
    seed: int = 1
    workers: int = 1
    memory_mb: int = 2048
    timeout: float | None = None
    check_deadlock: bool = False

    @property
    def module(self) -> str:
        """Name of the module without suffix."""
        return self.spec.removesuffix(".tla")

    @property
    def deadline(self) -> float:
        """Seconds after which a run is ended: far more than measured, for a busy or slow machine."""
        return self.timeout if self.timeout is not None else _TIMEOUT + _SLOWER * self.seconds

    @property
    def violated(self) -> str | None:
        """The name of what must be violated, or None."""
        return self.expected.removeprefix(VIOLATION) if self.expected.startswith(VIOLATION) else None


@dataclass(frozen=True, slots=True)
class Survivor:
    """A guard whose removal no configuration notices, and why that is right."""

    module: str
    guard: str
    text: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All rows, and the directory of the specifications."""

    directory: Path
    models: tuple[Model, ...]
    survivors: tuple[Survivor, ...] = ()

    def select(self, level: str, glob: str | None = None) -> list[Model]:
        """Rows of a level (`verify` has all), or those of any level whose name matches `glob`.

        Raises ConfigError when there is none.
        """
        if level not in LEVELS:
            raise ConfigError(f"level = {level!r}, expected one of {', '.join(LEVELS)}")
        if glob is not None:
            found = [m for m in self.models if fnmatch.fnmatchcase(m.name, glob)]
            if not found:
                raise ConfigError(f"model = {glob!r}: no such model, expected one of {_some(self.models)}")
            return found
        found = [m for m in self.models if level == "verify" or m.level == "test"]
        if not found:
            raise ConfigError(f"{self.directory}: no model of level {level}, expected at least one")
        return found


def _some(models: Iterable[Model], limit: int = 60) -> str:
    names = sorted(m.name for m in models)
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")


def load(directory: Path) -> Manifest:
    """The manifest of a directory of specifications, checked. Raises ConfigError in one line."""
    main = directory / "manifest.toml"
    parts = sorted((directory / "manifest.d").glob("*.toml"))
    files = ([main] if main.exists() else []) + parts
    if not files:
        raise ConfigError(f"{main}: no such file, expected the list of models")
    models: dict[str, Model] = {}
    survivors: dict[tuple[str, str], Survivor] = {}
    where: dict[str, Path] = {}
    for path in files:
        data = _read(path)
        for row in _rows(data, "model", path):
            model = _model(row, path, directory)
            _once(f"model {model.name!r}", path, where)
            models[model.name] = model
        for row in _rows(data, "survivor", path):
            survivor = _survivor(row, path, directory)
            _once(f"survivor {survivor.guard!r} of {survivor.module}", path, where)
            survivors[survivor.module, survivor.guard] = survivor
    return Manifest(directory, tuple(models.values()), tuple(survivors.values()))


def _once(what: str, path: Path, where: dict[str, Path]) -> None:
    """Note that `what` stands in `path`. Raises ConfigError when it was noted before."""
    if what in where:
        other = "" if where[what] == path else f", also in {where[what]}"
        raise ConfigError(f"{path}: {what} is there twice{other}, expected each once")
    where[what] = path


def _read(path: Path) -> dict[str, Any]:
    data = read_toml(path, "TOML with [[model]] rows")
    for key in data:
        if key not in ("model", "survivor"):
            raise ConfigError(f"{path}: unknown key {key!r}, expected [[model]] or [[survivor]]")
    return data


def _rows(data: dict[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    rows = data.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{path}: {key} is not a list of tables, expected [[{key}]]")
    return rows


_TYPES: dict[str, type | tuple[type, ...]] = {
    "name": str, "spec": str, "kind": str, "expected": str, "level": str, "text": str, "seconds": (int, float),
    "clause": list, "distinct_states": int, "depth": int, "traces": int, "seed": int, "workers": int,
    "memory_mb": int, "timeout": (int, float), "module": str, "guard": str, "check_deadlock": bool,
}  # fmt: skip


def _check_keys(row: dict[str, Any], cls: type, where: str) -> None:
    known = [f.name for f in fields(cls)]
    required = ("name", "spec", "kind", "expected", "level", "seconds", "text") if cls is Model else known
    for key in row:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}, expected one of {', '.join(known)}")
    for key in required:
        if key not in row:
            raise ConfigError(f"{where}: {key} is missing")
    for key, value in row.items():
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool) != (_TYPES[key] is bool):
            kinds = _TYPES[key]
            names = " or ".join(k.__name__ for k in (kinds if isinstance(kinds, tuple) else (kinds,)))
            raise ConfigError(f"{where}: {key} = {value!r}, expected {names}")
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and value < (0 if key == "seed" else 1e-9)
        ):
            raise ConfigError(f"{where}: {key} = {value!r}, expected a positive number")
        if isinstance(value, str) and (not value.strip() or "\n" in value):
            raise ConfigError(f"{where}: {key} = {value!r}, expected one line of text")


def _model(row: dict[str, Any], path: Path, directory: Path) -> Model:
    where = f"{path}: model {row.get('name', '?')!r}"
    _check_keys(row, Model, where)
    model = Model(**{**row, "clause": tuple(row.get("clause", ()))})
    if model.kind not in KINDS:
        raise ConfigError(f"{where}: kind = {model.kind!r}, expected one of {', '.join(KINDS)}")
    if model.level not in LEVELS:
        raise ConfigError(f"{where}: level = {model.level!r}, expected one of {', '.join(LEVELS)}")
    for clause in model.clause:
        if clause not in CLAUSES:
            raise ConfigError(f"{where}: clause {clause!r}, expected an id of spec/epic.toml")
    _check_numbers(model, where)
    if not model.spec.endswith(".tla") or not (directory / model.spec).is_file():
        raise ConfigError(f"{where}: spec = {model.spec!r}, expected a module in {directory}")
    _check_expected(model, TlcConfig.load(directory / f"{model.name}.cfg"), where)
    return model


def _check_numbers(model: Model, where: str) -> None:
    """What a kind must have, and what would never be looked at."""
    need = {
        "exhaustive": ("distinct_states", "depth"),
        "liveness": ("distinct_states",),
        "simulation": ("traces", "depth"),
        "mutant": (),
    }[model.kind]
    for key in need:
        if getattr(model, key) is None:
            raise ConfigError(f"{where}: {key} is missing, expected it for kind {model.kind}")
    for key in ("distinct_states", "depth", "traces"):
        if getattr(model, key) is not None and key not in need and not _mutant_simulation(model, key):
            raise ConfigError(f"{where}: {key} is not compared for kind {model.kind}, expected no such key")


def _mutant_simulation(model: Model, key: str) -> bool:
    """A mutant that is looked for by simulation has `traces` and `depth`."""
    return model.kind == "mutant" and model.traces is not None and key in ("traces", "depth")


def _check_expected(model: Model, config: TlcConfig, where: str) -> None:
    if model.kind == "mutant" and model.expected == "ok":
        raise ConfigError(f"{where}: expected = 'ok', expected a violation or deadlock of a mutant")
    if model.expected in ("ok", "deadlock"):
        return
    name = model.violated
    if not name:
        raise ConfigError(
            f"{where}: expected = {model.expected!r}, expected ok, deadlock or violation:<name>"
        )
    if name != "Assert" and name not in config.checks:
        names = ", ".join(config.checks) or "none"
        raise ConfigError(f"{where}: expected = {model.expected!r}, {model.name}.cfg checks {names}")


def _survivor(row: dict[str, Any], path: Path, directory: Path) -> Survivor:
    where = f"{path}: survivor {row.get('guard', '?')!r}"
    _check_keys(row, Survivor, where)
    if not (directory / row["module"]).is_file():
        raise ConfigError(f"{where}: module = {row['module']!r}, expected a module in {directory}")
    return Survivor(**row)
