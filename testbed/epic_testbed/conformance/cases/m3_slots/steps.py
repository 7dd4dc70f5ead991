"""Steps that the cases of Mode III's slots share."""

from __future__ import annotations

from epic_spec import codec
from epic_testbed.conformance.bench import SUM, Bench, Group, Peer


def frame_of(bench: Bench, peer: Peer, cell: int, value: int = 99) -> tuple[str, int, bytes]:
    """A frame of a peer that the bench does not take as its contribution or result for the cell."""
    packet = bench.group.packets(peer, cell, (value,), SUM)[0]
    frame = codec.encode(packet, icrc=bench.group.params.icrc == "full")
    return f"cell {cell} of {peer.name}", peer.device_port, frame


def parent_of(group: Group) -> Peer:
    assert group.parent is not None
    return group.parent


def run_cell(bench: Bench, cell: int, values: tuple[int, ...]) -> None:
    """A cell without incident."""
    bench.contribute_all(cell, [(v,) for v in values])
    if bench.group.parent is not None:
        bench.expect_partial(cell, (sum(values),))
        bench.result_from_parent(cell, (sum(values),))
    bench.expect_result(cell, (sum(values),))
