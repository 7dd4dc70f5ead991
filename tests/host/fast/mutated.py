"""Runs tests with a fault planted in a module of the fast data path.

    python -m host.fast.mutated PLANT.json PYTEST-ARGUMENTS

The plant names a module of `epic_host.fast`, a text that it has once, and what stands there instead. The module is
loaded from a changed copy beside the plant, and compiled code is kept there too, so that the project's own is not
touched; what does not depend on the module is taken from the project's.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

PACKAGE = "epic_host.fast"


class NoShrinking:
    """What fails has done its work: hypothesis need not look for the smallest example."""

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        settings.register_profile(
            "planted", settings(), phases=[Phase.explicit, Phase.generate], database=None
        )
        settings.load_profile("planted")


class _Planted(importlib.abc.MetaPathFinder):
    """Finds one module in a file of its own."""

    def __init__(self, module: str, file: Path) -> None:
        self.module, self.file = module, file

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, self.file) if name == self.module else None


def plant(folder: Path, source: Path, module: str, old: str, new: str) -> _Planted:
    """The changed module, written to `folder`. Raises ValueError when it does not have `old` exactly once."""
    text = (source / f"{module}.py").read_text()
    if text.count(old) != 1:
        raise ValueError(f"{module}.py has {old!r} {text.count(old)} times, expected once")
    file = folder / f"{module}.py"
    file.write_text(text.replace(old, new))
    return _Planted(f"{PACKAGE}.{module}", file)


def share_cache(folder: Path, source: Path) -> None:
    """Let numba keep its files in `folder`, which gets copies of those that are there for the sources."""
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    from numba.core.caching import _CacheLocator

    target = folder / _CacheLocator.get_suitable_cache_subpath(str(source / "x.py"))
    target.mkdir(parents=True, exist_ok=True)
    for file in (source / "__pycache__").glob("*.nb[ic]"):
        # Others may be compiling.
        with suppress(FileNotFoundError):
            shutil.copy2(file, target / file.name)


if __name__ == "__main__":
    given = Path(sys.argv[1])
    what = json.loads(given.read_text())
    import epic_host

    fast = Path(epic_host.__file__).parent / "fast"
    sys.meta_path.insert(0, plant(given.parent, fast, what["module"], what["old"], what["new"]))
    share_cache(given.parent / "cache", fast)
    import pytest

    sys.exit(pytest.main([*sys.argv[2:], "-q", "-x", "-p", "no:cacheprovider"], [NoShrinking()]))
