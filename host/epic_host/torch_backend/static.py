"""Process groups from a static plan: groups that are installed on switches already.

The plan is a directory that `epic testbed up` wrote (one group of all ranks), or a JSON file of several groups:

    {"groups": [{"ranks": [0, 1, 2, 3], "plan": GROUP PLAN, "transports": [TRANSPORT OF RANK 0, ...]}, ...]}

`ranks` are ranks of the default process group, in the order of the group's own ranks. An installed group serves one
communicator: the n-th process group of the same ranks takes the n-th entry of those ranks. All its members make their
groups in the same order, so they take the same one.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epic_models.reference.group import GroupPlan
from epic_spec.errors import ConfigError

_taking = threading.Lock()
_taken: Counter[tuple[str, int, tuple[int, ...]]] = Counter()


def take(path: str, rank: int, ranks: tuple[int, ...]) -> tuple[GroupPlan, Mapping[str, Any]]:
    """The plan of the next group of the default group's ranks `ranks`, and the transport of its rank `rank`.

    Raises ConfigError for a file that is not right, and where no entry is left.
    """
    file = Path(path)
    entries = _directory(file, ranks) if file.is_dir() else _file(file)
    same = [entry for entry in entries if tuple(entry["ranks"]) == ranks]
    with _taking:
        # By the rank too: several ranks may be threads of one process.
        key = (str(file.absolute()), rank, ranks)
        number = _taken[key]
        if number >= len(same):
            raise ConfigError(
                f"{path}: {len(same)} groups of ranks {list(ranks)}, expected one more: an installed group serves one "
                "process group"
            )
        _taken[key] += 1
    entry = same[number]
    return GroupPlan.from_dict(entry["plan"]), entry["transports"][rank]


def _directory(path: Path, ranks: tuple[int, ...]) -> list[dict[str, Any]]:
    plan = _read(path / "group.json")
    try:
        size = len(plan["ranks"])
    except (KeyError, TypeError):
        raise ConfigError(f"{path}/group.json: not a group plan, expected one of `epic testbed up`") from None
    transports = [_read(path / f"rank{rank}.json")["transport"] for rank in range(size)]
    return [{"ranks": list(range(size)), "plan": plan, "transports": transports}]


def _file(path: Path) -> list[dict[str, Any]]:
    data = _read(path)
    groups = data.get("groups") if isinstance(data, Mapping) else None
    if not isinstance(groups, list):
        raise ConfigError(f"{path}: no list 'groups', expected one of ranks, plan and transports each")
    for i, group in enumerate(groups):
        where = f"{path}: groups[{i}]"
        keys = sorted(group) if isinstance(group, Mapping) else group
        if keys != ["plan", "ranks", "transports"]:
            raise ConfigError(f"{where} has {keys!r}, expected plan, ranks and transports")
        if len(group["ranks"]) != len(group["transports"]):
            raise ConfigError(
                f"{where} has {len(group['transports'])} transports, expected one each of {len(group['ranks'])} ranks"
            )
    return groups


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}, expected a static plan (EPIC_GROUP_FILE)") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON ({error}), expected a static plan (EPIC_GROUP_FILE)") from None
