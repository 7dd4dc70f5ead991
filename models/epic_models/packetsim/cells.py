"""What a cell is to each rank: sizes, who contributes, who receives, and the values that are checked.

Values are 32-bit words of a hash of (seed, group, rank, cell, lane); the expected sum of a cell is computed once, when
the first rank has its result.
"""

from __future__ import annotations

import numpy as np

from epic_models.packetsim.kernel import kernel
from epic_models.packetsim.net import mix
from epic_models.packetsim.world import (
    ALL_GATHER,
    BARRIER,
    BROADCAST,
    REDUCE,
    REDUCE_SCATTER,
)


@kernel
def size(group, cell):  # type: ignore[no-untyped-def]
    """Payload bytes of a cell; the last of a collective may be short."""
    if group.primitive == BARRIER:
        return np.int64(0)
    within = cell % group.cells
    return min(np.int64(group.cell_bytes), group.bytes - within * group.cell_bytes)


@kernel
def owner(group, cell):  # type: ignore[no-untyped-def]
    """The rank whose shard a cell of ReduceScatter or AllGather is in; the root of Reduce and Broadcast."""
    if group.primitive == REDUCE_SCATTER or group.primitive == ALL_GATHER:
        return (cell % group.cells) * group.ranks // group.cells
    return np.int64(group.root)


@kernel
def contributes(group, rank, cell):  # type: ignore[no-untyped-def]
    """Whether a rank's contribution has a payload."""
    if group.primitive == BROADCAST or group.primitive == ALL_GATHER:
        return owner(group, cell) == rank
    return group.primitive != BARRIER


@kernel
def receives(w, group, low, high, cell):  # type: ignore[no-untyped-def]
    """Whether a rank among those with leaf positions low to high - 1 receives a payload."""
    if group.primitive == REDUCE or group.primitive == REDUCE_SCATTER:
        place = w.leaf[group.starts + owner(group, cell)]
        return low <= place and place < high
    return group.primitive != BARRIER


@kernel
def word(w, group_index, rank, cell, lane):  # type: ignore[no-untyped-def]
    """What a rank contributes in a lane of a cell."""
    return np.int32(mix(w.sim[0].seed, group_index * 1048576 + rank, cell, lane + 16) & np.uint64(0xFFFFFFFF))


@kernel
def check(w, group_index, cell, row):  # type: ignore[no-untyped-def]
    """Compare a result with the sum of what the ranks contributed, and count what is wrong."""
    s, group = w.sim[0], w.groups[group_index]
    base = group.expected + cell % (4 * group.window)
    if w.expected_cell[base] != cell:
        w.expected_cell[base] = cell
        for lane in range(s.lanes):
            total = np.int32(0)
            for rank in range(group.ranks):
                if contributes(group, rank, cell):
                    total = np.int32(total + word(w, group_index, rank, cell, lane))
            w.expected[base, lane] = total
    for lane in range(s.lanes):
        s.checked += 1
        if w.rows[row, lane] != w.expected[base, lane]:
            s.wrong += 1
