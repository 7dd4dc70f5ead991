"""Reads and runs benches of rtl/tb in a process of its own, for they bring modules with equal names.

bench_worker.py list FOLDER ...          one JSON list on the last line
bench_worker.py run ROW OUTCOME [waves]  a row of that list; the outcome is written as JSON
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_HAS_BENCH = re.compile(r"^BENCH = ", re.MULTILINE)


def _read(path: Path) -> ModuleType:
    """A test module, as its simulation would import it."""
    sys.path[:0] = [str(path.parent), str(path.parent.parent)]
    try:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    finally:
        del sys.path[:2]
    return module


def rows(folder: Path) -> list[dict[str, Any]]:
    """What of a folder can be run; `simulator` None for a folder of plain pytest."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("test_*.py")):
        if not _HAS_BENCH.search(path.read_text()):
            continue
        try:
            bench = _read(path).BENCH
        except Exception as error:  # whatever a bench does when it is imported: its check will say so
            found.append({"folder": folder.name, "error": f"{path.name}: {type(error).__name__}: {error}"})
            continue
        seen = []
        for sets in (bench.small, bench.configurations):
            for simulator, parameters in sets:
                if (simulator, dict(parameters)) in seen:
                    continue
                seen.append((simulator, dict(parameters)))
                row: dict[str, Any] = {"folder": folder.name, "file": str(path), "simulator": simulator}
                row |= {"top": bench.top, "sources": list(bench.sources)}
                found.append({**row, "parameters": dict(parameters), "first": len(seen) == 1})
    return found or [{"folder": folder.name, "simulator": None}]


def run(row: dict[str, Any], outcome: Path, waves: bool) -> None:
    """Run one row."""
    path = Path(row["file"])
    bench = _read(path).BENCH
    from common.runner import BenchError, run  # type: ignore[import-not-found]

    try:
        result = run(
            bench, row["parameters"], row["simulator"], waves=waves, must_pass=False, brief=row["first"]
        )
    except BenchError as error:
        outcome.write_text(json.dumps({"failed": {"build": str(error)}}))
        return
    build = result.log.parent
    dumps = sorted([*build.glob("*.fst"), *build.glob("*.vcd")], key=lambda p: p.stat().st_mtime)
    said = {
        "passed": result.passed,
        "failed": result.failed,
        "figures": result.figures,
        "log": str(result.log),
        "waves": str(dumps[-1]) if waves and dumps else "",
    }
    outcome.write_text(json.dumps(said))


def main(arguments: list[str]) -> None:
    """The command line."""
    if arguments[0] == "list":
        print(json.dumps([row for folder in arguments[1:] for row in rows(Path(folder))]))
    else:
        run(json.loads(arguments[1]), Path(arguments[2]), "waves" in arguments[3:])


if __name__ == "__main__":
    main(sys.argv[1:])
