"""The state of rates and links as a few arrays of records, which compiled code works on.

A transfer loads links: `weight` bytes on a link for each of its own. It has one rate, of its own bytes a second. Links
know the transfers on them by lists of entries, so that whatever starts or ends touches its own links only.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Records = NDArray[Any]

# `offered`: what its transfers would take if nothing but their bounds limited them; only links with more of it than
# capacity are looked at. `left`, `weight` and `open` are of one filling.
LINK: Final = np.dtype(
    [
        ("capacity", "f8"), ("offered", "f8"), ("bytes", "f8"), ("left", "f8"), ("weight", "f8"),
        ("first", "i4"), ("mark", "i8"), ("open", "i4"),
    ]
)  # fmt: skip

# `bound`: the rate that it never exceeds. `place`: where it stands in the heap of ends, -1: it does not run.
# `limit`: the link that limits it, or UNLIMITED. `fresh`: the rate of one filling.
TRANSFER: Final = np.dtype(
    [
        ("volume", "f8"), ("left", "f8"), ("rate", "f8"), ("bound", "f8"), ("since", "f8"), ("finish", "f8"),
        ("fresh", "f8"), ("mark", "i8"), ("first", "i4"), ("count", "i4"), ("place", "i4"), ("limit", "i4"),
        ("seeded", "u1"),
    ]
)  # fmt: skip
UNLIMITED: Final = -1

ENTRY: Final = np.dtype([("weight", "f8"), ("link", "i4"), ("owner", "i4"), ("next", "i4"), ("prev", "i4")])

SIM: Final = np.dtype(
    [("ends", "i4"), ("seeds", "i4"), ("mark", "i8"), ("fillings", "i8"), ("looked_at", "i8")]
)


def version(folder: Path = Path(__file__).parent) -> str:
    """A digest of the package's sources that are compiled, and of this one.

    numba keeps compiled code by the types of arguments and the age of one file: it does not see that a function of
    another file has changed. So one of the arguments has a type that is named after all of them.
    """
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        text = source.read_bytes()
        if b"njit" in text:
            digest.update(text)
    return digest.hexdigest()[:16]


class State(NamedTuple):
    """Everything. `ends` is the heap of running transfers, by their finish; the arrays after it are scratch."""

    sources: Records
    sim: Records
    links: Records
    transfers: Records
    entries: Records
    ends: NDArray[np.int32]
    seeds: NDArray[np.int32]
    chosen: NDArray[np.int32]
    touched: NDArray[np.int32]
    keys: NDArray[np.float64]
    names: NDArray[np.int64]


def new(capacity: NDArray[np.float64]) -> State:
    """No transfers on links of these capacities, in bytes a second."""
    links = np.zeros(len(capacity), LINK)
    links["capacity"] = capacity
    links["first"] = -1
    sources = np.zeros(1, np.dtype([(f"of_{version()}", "u1")]))
    none = np.zeros(0, np.int32)
    empty = State(
        sources=sources, sim=np.zeros(1, SIM), links=links, transfers=np.zeros(0, TRANSFER),
        entries=np.zeros(0, ENTRY), ends=none, seeds=none, chosen=none,
        touched=np.zeros(len(capacity), np.int32), keys=np.zeros(0), names=np.zeros(0, np.int64),
    )  # fmt: skip
    return with_room(empty, 64, 1024)


def with_room(s: State, transfers: int, entries: int) -> State:
    """The same with room for so many."""
    more = np.zeros(transfers, TRANSFER)
    more[: len(s.transfers)] = s.transfers
    more["place"][len(s.transfers) :] = -1
    rows = np.zeros(entries, ENTRY)
    rows[: len(s.entries)] = s.entries
    ends, seeds = np.zeros(transfers, np.int32), np.zeros(transfers, np.int32)
    ends[: len(s.ends)], seeds[: len(s.seeds)] = s.ends, s.seeds
    size = transfers + len(s.links)
    return s._replace(
        transfers=more, entries=rows, ends=ends, seeds=seeds, chosen=np.zeros(transfers, np.int32),
        keys=np.zeros(size), names=np.zeros(size, np.int64),
    )  # fmt: skip
